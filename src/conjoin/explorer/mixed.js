// Models of categories and numbers: a mixture of components, each with a junction tree of its own.
//
// In a component with Gaussians, the lanes of the tree (the states of its hidden column) have a Gaussian
// distribution each, of the normal scores of all numbers. Evidence on a number is a vector over the bins of
// the page, as for any column. Given a lane, its probability is an integral over the Gaussian: exact for one
// number, and otherwise the mean over points that are spread evenly over the bins that are possible (Genz's
// method). The rest is exact: the lanes are weighted by these probabilities, and messages do the rest.
"use strict";

const FEW_POINTS = 48; // how many points stand for the evidence on one or two numbers
const MANY_POINTS = 96; // on more

// The standard normal distribution function, to 15 digits (Hart's rational approximation).
function normalCdf(x) {
  const z = Math.abs(x);
  if (z > 37) return x > 0 ? 1 : 0;
  const e = Math.exp(-z * z / 2);
  let c;
  if (z < 7.07106781186547) {
    const n = (((((0.0352624965998911 * z + 0.700383064443688) * z + 6.37396220353165) * z + 33.912866078383) * z + 112.079291497871) * z + 221.213596169931) * z + 220.206867912376;
    const d = ((((((0.0883883476483184 * z + 1.75566716318264) * z + 16.064177579207) * z + 86.7807322029461) * z + 296.564248779674) * z + 637.333633378831) * z + 793.826512519948) * z + 440.413735824752;
    c = e * n / d;
  } else {
    c = e / ((z + 1 / (z + 2 / (z + 3 / (z + 4 / (z + 0.65))))) * 2.506628274631);
  }
  return x > 0 ? 1 - c : c;
}

// The score below which a standard normal number lies with probability p, to 9 digits (Acklam's approximation).
function normalQuantile(p) {
  if (p > 0.5) return -normalQuantile(1 - p);
  if (p < 0.02425) {
    const q = Math.sqrt(-2 * Math.log(p));
    return (((((-0.007784894002430293 * q - 0.3223964580411365) * q - 2.400758277161838) * q - 2.549732539343734) * q + 4.374664141464968) * q + 2.938163982698783)
      / ((((0.007784695709041462 * q + 0.3224671290700398) * q + 2.445134137142996) * q + 3.754408661907416) * q + 1);
  }
  const q = p - 0.5;
  const r = q * q;
  return (((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.357751867269) * r - 30.66479806614716) * r + 2.506628277459239) * q
    / (((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r - 13.28068155288572) * r + 1);
}

// The lower triangular root of a covariance matrix of some columns, in their order.
function rootOf(covariance, columns, size) {
  const n = columns.length;
  const root = Array.from({ length: n }, () => new Float64Array(n));
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = covariance[columns[i] * size + columns[j]];
      for (let k = 0; k < j; k++) sum -= root[i][k] * root[j][k];
      root[i][j] = i === j ? Math.sqrt(Math.max(sum, 1e-12)) : sum / root[j][j];
    }
  }
  return root;
}

// The same from a table, to 6 digits and quickly.
const CDF_STEPS = 256;
const CDF_END = 8;
const cdfTable = Float64Array.from({ length: 2 * CDF_END * CDF_STEPS + 2 }, (_, i) => normalCdf(i / CDF_STEPS - CDF_END));

function quickCdf(x) {
  const at = (x + CDF_END) * CDF_STEPS;
  if (!(at > 0)) return 0;
  const i = Math.floor(at);
  if (i >= cdfTable.length - 1) return 1;
  return cdfTable[i] + (at - i) * (cdfTable[i + 1] - cdfTable[i]);
}

// Add the probabilities of the bins of a number with a normal distribution, times a weight.
function addBins(edges, mean, sd, weight, cdf, result) {
  let below = 0;
  for (let g = 0; g < edges.length; g++) {
    const next = cdf((edges[g] - mean) / sd);
    result[g] += weight * (next - below);
    below = next;
  }
  result[edges.length] += weight * (1 - below);
}

// The probabilities of the bins of a number with a normal distribution, from the first to the last that
// are wanted; return the probability of everything below.
function binsOf(edges, mean, sd, out, first = 0, last = edges.length) {
  const start = first === 0 ? 0 : normalCdf((edges[first - 1] - mean) / sd);
  let below = start;
  for (let g = first; g <= last; g++) {
    const next = g === edges.length ? 1 : normalCdf((edges[g] - mean) / sd);
    out[g] = next - below;
    below = next;
  }
  return start;
}

class MixedPart {
  constructor(part, numbers, sizes) {
    this.part = part;
    this.sizes = sizes; // the number of states of each column of the page
    this.tree = new JunctionTree(part.tree, numbers.subarray(0, part.length));
    this.lanes = part.tree.lanes;
    const { gaussians } = part;
    this.end = part.length;
    if (!gaussians) return;
    const size = gaussians.length;
    this.means = numbers.subarray(this.end, (this.end += this.lanes * size));
    this.covariances = numbers.subarray(this.end, (this.end += this.lanes * size * size));
    this.atoms = gaussians.map(({ column }) => part.columns.findIndex((own) => own.column === column));
  }

  // The evidence on the columns of the network, where the variable of a number spreads over bins.
  #evidence(columns, rest) {
    return this.part.columns.map(({ column, spread }) => {
      const likelihood = columns[column];
      if (!likelihood) return null;
      if (!spread) return likelihood;
      const weights = spread.map((line) => line.reduce((sum, p, g) => sum + p * likelihood[g], 0));
      if (!this.part.gaussians) return Float64Array.from(weights);
      return Float64Array.from(rest.has(column) ? [...weights.fill(0), 1] : [...weights, 0]);
    });
  }

  // The ways in which the evidence can come about: each number is one of its atoms, or has a score.
  #choices(columns) {
    const { gaussians } = this.part;
    if (!gaussians) return [new Set()];
    let choices = [new Set()];
    gaussians.forEach(({ column }, j) => {
      if (!columns[column]) return;
      const free = choices.map((chosen) => new Set([...chosen, column]));
      const { spread = [] } = this.part.columns[this.atoms[j]] ?? {};
      const atom = spread.some((line) => line.some((p, g) => p * columns[column][g] > 0));
      choices = atom ? [...choices, ...free] : free;
    });
    return choices;
  }

  // One answer per way: the logarithm of its probability, and the distributions of the page's columns.
  cases(columns) {
    return this.#choices(columns).map((rest) => {
      const evidence = this.#evidence(columns, rest);
      const points = this.part.gaussians ? this.#points(columns, rest) : null;
      const wanted = this.part.gaussians ? this.atoms.filter((own) => own >= 0) : [];
      const found = this.tree.marginals(evidence, points?.logs, wanted);
      if (!found.marginals) return { log: -Infinity };
      const marginals = new Array(this.sizes.length);
      this.part.columns.forEach(({ column, spread }, own) => {
        if (!spread) marginals[column] = found.marginals[own];
        else if (!this.part.gaussians) marginals[column] = spreadOver(found.marginals[own], spread, columns[column], evidence[own]);
      });
      if (points) this.#numbers(columns, found, points, marginals);
      return { log: found.log + Math.log(this.part.share), marginals, part: this, evidence, points };
    });
  }

  // Points of the normal scores of the numbers with evidence, for each lane.
  #points(columns, rest) {
    const { gaussians } = this.part;
    const known = gaussians.map((_, j) => j).filter((j) => rest.has(gaussians[j].column));
    const count = known.length === 0 ? 1 : known.length <= 2 ? FEW_POINTS : MANY_POINTS;
    const size = gaussians.length;
    const logs = new Float64Array(this.lanes);
    const scratch = new Float64Array(Math.max(...this.sizes));
    const lanes = Array.from({ length: this.lanes }, (_, w) => {
      const root = rootOf(this.covariances.subarray(w * size * size, (w + 1) * size * size), known, size);
      const lane = { root, weights: new Float64Array(count).fill(1), noise: [], chosen: [], shares: null };
      known.forEach((j, t) => this.#next(lane, w, j, t, known.length, count, columns[gaussians[j].column], scratch));
      lane.total = lane.weights.reduce((a, b) => a + b, 0);
      logs[w] = Math.log(lane.total / count);
      return lane;
    });
    return { known, lanes, logs };
  }

  // Extend the points of a lane by one number: a bin that is possible, and a score within it.
  #next(lane, w, j, t, dimensions, count, likelihood, scratch) {
    const { gaussians } = this.part;
    const { edges } = gaussians[j];
    const noise = new Float64Array(count);
    const chosen = new Int32Array(count);
    const shares = new Float64Array(likelihood.length); // of the bins, if this is the last number
    const first = likelihood.findIndex((x) => x > 0);
    const last = likelihood.findLastIndex((x) => x > 0);
    const sd = lane.root[t][t];
    const shift = t === 0 ? 1 / count : spacing(dimensions - 1, t - 1);
    for (let i = 0; i < count; i++) {
      const weight = lane.weights[i];
      if (weight === 0) continue;
      let mean = this.means[w * gaussians.length + j];
      for (let s = 0; s < t; s++) mean += lane.root[t][s] * lane.noise[s][i];
      let below = binsOf(edges, mean, sd, scratch, first, last);
      let total = 0;
      for (let g = first; g <= last; g++) total += likelihood[g] * scratch[g];
      lane.weights[i] = weight * total;
      if (!(total > 0)) continue;
      let left = ((i + 0.5) * shift % 1) * total;
      let g = first;
      for (; g < last && left >= likelihood[g] * scratch[g]; g++) {
        left -= likelihood[g] * scratch[g];
        below += scratch[g];
      }
      const inside = Math.min(1, left / (likelihood[g] * scratch[g]));
      noise[i] = normalQuantile(Math.min(1 - 1e-16, Math.max(1e-300, below + inside * scratch[g])));
      chosen[i] = g;
      if (t === dimensions - 1) for (let b = first; b <= last; b++) shares[b] += weight * likelihood[b] * scratch[b];
    }
    lane.noise.push(noise);
    lane.chosen.push(chosen);
    lane.shares = shares;
  }

  // The distributions of all numbers over the bins of the page.
  #numbers(columns, found, points, marginals) {
    const { gaussians } = this.part;
    const size = gaussians.length;
    gaussians.forEach(({ column, edges }, j) => {
      const result = new Float64Array(this.sizes[column]);
      const own = this.atoms[j];
      let shares = found.lanes;
      if (own >= 0) {
        const { spread } = this.part.columns[own];
        const states = found.byLane.get(own);
        const evidence = columns[column];
        found.marginals[own].forEach((p, s) => {
          if (s === spread.length) return;
          const total = evidence ? spread[s].reduce((sum, q, g) => sum + q * evidence[g], 0) : 1;
          spread[s].forEach((q, g) => { if (total > 0) result[g] += p * q * (evidence ? evidence[g] : 1) / total; });
        });
        shares = states.subarray(spread.length * this.lanes, (spread.length + 1) * this.lanes);
      }
      const t = points.known.indexOf(j);
      for (let w = 0; w < this.lanes; w++) {
        if (shares[w] < 1e-10) continue;
        const lane = points.lanes[w];
        if (t >= 0) addKnown(lane, t, shares[w], result);
        else this.#addUnknown(lane, w, j, points.known, size, edges, shares[w], result);
      }
      const total = result.reduce((a, b) => a + b, 0);
      marginals[column] = result.map((x) => x / total);
    });
  }

  #addUnknown(lane, w, j, known, size, edges, share, result) {
    const covariance = this.covariances.subarray(w * size * size, (w + 1) * size * size);
    const slope = new Float64Array(known.length); // of the score on the noise of the known ones
    let variance = covariance[j * size + j];
    known.forEach((k, t) => {
      let sum = covariance[j * size + k];
      for (let s = 0; s < t; s++) sum -= slope[s] * lane.root[t][s];
      slope[t] = sum / lane.root[t][t];
      variance -= slope[t] * slope[t];
    });
    const sd = Math.sqrt(Math.max(variance, 1e-12));
    for (let i = 0; i < lane.weights.length; i++) {
      const weight = share * lane.weights[i] / lane.total;
      if (weight < 1e-10) continue;
      let mean = this.means[w * size + j];
      for (let t = 0; t < known.length; t++) mean += slope[t] * lane.noise[t][i];
      addBins(edges, mean, sd, weight, known.length ? quickCdf : normalCdf, result);
    }
  }

  // A row drawn from one of the cases.
  draw({ evidence, points }, random) {
    const { row: states, lane: w } = this.tree.draw(evidence, points?.logs, random);
    const row = new Array(this.sizes.length).fill(0);
    this.part.columns.forEach(({ column, spread }, own) => {
      if (!spread) row[column] = states[own];
      else if (states[own] < spread.length) row[column] = drawn(spread[states[own]], 0, 1, this.sizes[column], random);
    });
    if (points) this.#drawNumbers(points, w, states, row, random);
    return row;
  }

  #drawNumbers({ known, lanes }, w, states, row, random) {
    const { gaussians } = this.part;
    const size = gaussians.length;
    const lane = lanes[w];
    const order = [...known, ...gaussians.map((_, j) => j).filter((j) => !known.includes(j))];
    const root = rootOf(this.covariances.subarray(w * size * size, (w + 1) * size * size), order, size);
    const point = drawn(lane.weights, 0, 1, lane.weights.length, random);
    const noise = order.map((_, t) => (t < known.length ? lane.noise[t][point] : normalQuantile(Math.max(1e-12, random()))));
    order.forEach((j, t) => {
      const own = this.atoms[j];
      const { column, edges } = gaussians[j];
      if (own >= 0 && states[own] < this.part.columns[own].spread.length) return;
      let score = this.means[w * size + j];
      for (let s = 0; s <= t; s++) score += root[t][s] * noise[s];
      const at = edges.findIndex((edge) => score < edge);
      row[column] = at < 0 ? edges.length : at;
    });
  }
}

// The distances of points that fill a cube evenly.
function spacing(dimensions, t) {
  let root = 1.5;
  for (let k = 0; k < 40; k++) root = (1 + root) ** (1 / (dimensions + 1));
  return root ** -(t + 1);
}

// A number with evidence: the last one exactly, the others by the bins that their points lie in.
function addKnown(lane, t, share, result) {
  if (t === lane.noise.length - 1) {
    lane.shares.forEach((x, g) => { result[g] += share * x / lane.total; });
    return;
  }
  lane.chosen[t].forEach((g, i) => { result[g] += share * lane.weights[i] / lane.total; });
}

// The distribution over the bins of the page, from that of the states of a network of other bins.
function spreadOver(p, spread, likelihood, weights) {
  const result = new Float64Array(spread[0].length);
  spread.forEach((line, s) => {
    if (!(p[s] > 0)) return;
    line.forEach((q, g) => { result[g] += likelihood ? p[s] * q * likelihood[g] / weights[s] : p[s] * q; });
  });
  return result;
}

class MixedModel {
  constructor(parts, numbers, columns) {
    const sizes = columns.map(({ states }) => states.length);
    let start = 0;
    this.parts = parts.map((part) => {
      const made = new MixedPart(part, numbers.subarray(start), sizes);
      start += made.end;
      return made;
    });
  }

  #cases(columns) {
    const cases = this.parts.flatMap((part) => part.cases(columns)).filter(({ log }) => log > -Infinity);
    const top = Math.max(...cases.map(({ log }) => log));
    const weights = cases.map(({ log }) => Math.exp(log - top));
    const total = weights.reduce((a, b) => a + b, 0);
    return { cases, weights: weights.map((x) => x / total), log: top + Math.log(total) };
  }

  marginals(columns) {
    const { cases, weights, log } = this.#cases(columns);
    if (!cases.length) return { log: -Infinity, marginals: null };
    const marginals = cases[0].marginals.map((p, column) =>
      p.map((_, s) => cases.reduce((sum, one, k) => sum + weights[k] * one.marginals[column][s], 0)));
    return { log, marginals };
  }

  sample(columns, count, random = Math.random) {
    const { cases, weights } = this.#cases(columns);
    if (!cases.length) return [];
    return Array.from({ length: count }, () => {
      const one = cases[drawn(weights, 0, 1, weights.length, random)];
      return one.part.draw(one, random);
    });
  }
}
