// What known numbers say of states and of other numbers: given the states of all columns, the normal scores of
// numbers are Gaussian in each of a few classes. The formulas are those of fine_numbers.py and fine_evidence.py.
"use strict";

const MOST_JOINT_STATES = 512;

class FineNumbers {
  constructor({ numbers, classes }, columns, take) {
    const sizes = columns.map(({ states }) => states.length);
    const total = sizes.reduce((a, b) => a + b, 0);
    this.columns = columns;
    this.numbers = numbers; // their columns
    this.sizes = sizes;
    this.first = sizes.map((_, i) => sizes.slice(0, i).reduce((a, b) => a + b, 0));
    this.shares = take(classes);
    const [gates, intercepts, effects, covariances] = [total, numbers.length, total * numbers.length, numbers.length ** 2]
      .map((size) => Array.from({ length: classes }, () => take(size)));
    Object.assign(this, { gates, intercepts, effects, covariances });
    this.usual = take(total);
    this.matters = sizes.map((size, i) => numbers.map((_, j) => this.shares.some((_, z) =>
      Array.from({ length: size }, (_, s) => this.first[i] + s).some((at) => gates[z][at] || effects[z][at * numbers.length + j]))));
  }

  // The known numbers and states of evidence, or null if no number is known that counts.
  known(evidence, likelihoods, states) {
    const scores = this.numbers.map((i) => this.#score(this.columns[i], evidence.get(i)?.value));
    const used = [...scores.keys()].filter((j) => !Number.isNaN(scores[j]));
    if (!used.length) return null;
    const known = { evidence, likelihoods, scores, used, states };
    known.scope = this.#open(known, used);
    if (this.#count(known.scope) > MOST_JOINT_STATES) return null;
    known.given = this.covariances.map((matrix) => this.#given(matrix, used));
    known.ranges = this.numbers.flatMap((i, j) => this.#range(known, i, j));
    known.all = [...new Set([known, ...known.ranges].flatMap(({ scope }) => scope))];
    return known;
  }

  // The score of a value of an interval, NaN far outside.
  #score(column, value) {
    if (value === undefined) return NaN;
    const s = column.cuts.slice(1, -1).filter((edge) => edge <= value).length;
    const [low, high] = column.extent;
    const score = scoreOf(column, value);
    const far = Math.abs(value - clip(value, low, high)) > 0.5 * (high - low) || score !== clip(score, ...column.reach);
    return column.singles[s] !== null || far ? NaN : score;
  }

  // The unknown columns that the means of some numbers depend on; a number known to its state is one of them.
  #open({ states, evidence }, used) {
    const closed = (i) => states[i] >= 0 && (evidence.get(i)?.value !== undefined || !this.numbers.includes(i));
    return [...this.sizes.keys()].filter((i) => used.some((j) => this.matters[i][j]) && !closed(i));
  }

  #count(columns) { return product(columns.map((i) => this.sizes[i])); }

  // What follows from the known scores in a class: their precisions, and how other scores follow them.
  #given(matrix, used) {
    const n = this.numbers.length;
    const { inverse, logDeterminant } = inverted(used.map((a) => used.map((b) => matrix[a * n + b])));
    const gains = inverse.map((row) => this.numbers.map((_, j) => row.reduce((sum, x, b) => sum + x * matrix[used[b] * n + j], 0)));
    const sds = this.numbers.map((_, j) => Math.sqrt(Math.max(1e-12, gains.reduce((left, row, a) => left - row[j] * matrix[used[a] * n + j], matrix[j * n + j]))));
    return { inverse, gains, sds, constant: -0.5 * (logDeterminant + used.length * Math.log(2 * Math.PI)) };
  }

  // A range of an interval counts by what else is known; elsewhere by its share in the training table.
  #range(known, i, j) {
    const { range, value } = known.evidence.get(i) ?? {};
    if (!range || value !== undefined) return [];
    const shares = masses(this.columns[i], ...range);
    const scope = [...new Set([...this.#open(known, [...known.used, j]), i])];
    const cut = this.columns[i].singles.some((x, s) => x === null && shares[s] > 0 && shares[s] < 1);
    return cut && this.#count(scope) <= MOST_JOINT_STATES ? [{ i, j, range, shares, scope }] : [];
  }

  // The classes given states, -1 where they are not known: log-densities of the known scores, and the means and
  // deviations of others, which lie inside their intervals.
  #classes(codes, known, others) {
    const odds = this.shares.map((x, z) => this.#sum(x, this.gates[z], 1, 0, codes));
    const least = Math.max(...odds) + Math.log(1e-3);
    const kept = [...odds.keys()].filter((z) => z === 0 || odds[z] > least);
    const norm = logSum(kept.map((z) => odds[z]));
    return kept.map((z) => {
      const { inverse, gains, sds, constant } = known.given[z];
      const mean = (j) => this.#sum(this.intercepts[z][j], this.effects[z], this.numbers.length, j, codes);
      const left = known.used.map((j) => known.scores[j] - mean(j));
      let log = odds[z] - norm + constant - 0.5 * inverse.reduce((sum, row, a) => sum + left[a] * row.reduce((part, x, b) => part + x * left[b], 0), 0);
      const means = others.map((j) => left.reduce((sum, x, a) => sum + x * gains[a][j], mean(j)));
      others.forEach((j, u) => {
        const { singles, lows, highs } = this.columns[this.numbers[j]];
        const s = codes[this.numbers[j]];
        if (singles[s] === null) log += logMass((lows[s] - means[u]) / sds[j], (highs[s] - means[u]) / sds[j]);
      });
      return { log, mean: means[0], sd: sds[others[0]] };
    });
  }

  #sum(start, effects, width, j, codes) {
    return codes.reduce((sum, s, i) => (s < 0 ? sum : sum + effects[(this.first[i] + s) * width + j]), start);
  }

  // The share of each class, and the logarithm of the sum.
  #terms(codes, known, own, scope) {
    const others = [...(own < 0 ? [] : [own]), ...this.#placesOf(scope).filter((j) => j !== own)];
    const classes = this.#classes(this.#only(codes, known, scope, own), known, others);
    const total = logSum(classes.map(({ log }) => log));
    classes.forEach((part) => { part.share = Math.exp(part.log - total); });
    const usual = others.reduce((sum, j) => sum + this.usual[this.first[this.numbers[j]] + codes[this.numbers[j]]], 0);
    return { classes, log: total - usual };
  }

  #placesOf(scope) { return scope.map((i) => this.numbers.indexOf(i)).filter((j) => j >= 0); }

  // States of other columns have no effect.
  #only(codes, known, scope, own) {
    return codes.map((s, i) => (scope.includes(i) || i === this.numbers[own] ? s : known.states[i]));
  }

  // The logarithm of what known numbers say of joint states.
  #logFactor(codes, known) {
    return known.ranges.reduce((sum, { i, j, range, shares, scope }) => {
      const s = codes[i];
      if (this.columns[i].singles[s] !== null || !(shares[s] > 0 && shares[s] < 1)) return sum;
      const { classes } = this.#terms(codes, known, j, scope);
      return sum + Math.log(classes.reduce((part, one) => part + one.share * this.#within(i, s, range, one), 0)) - Math.log(shares[s]);
    }, this.#terms(codes, known, -1, known.scope).log);
  }

  // The share of a Gaussian, cut at the ends of a state, that lies within a range.
  #within(i, s, range, { mean, sd }) {
    const { lows, highs, reach, singles } = this.columns[i];
    if (singles[s] !== null) return 1;
    const center = clip(clip(mean, ...reach), lows[s] - 30 * sd, highs[s] + 30 * sd);
    const mass = (ends) => normalMass(...ends.map((x) => (clip(x, lows[s], highs[s]) - center) / sd));
    return mass(range.map((x) => scoreOf(this.columns[i], x))) / Math.max(mass([lows[s], highs[s]]), 1e-300);
  }

  // Likelihoods of all columns, one list per joint state of some columns; that of one more column says what known
  // numbers say. All lists together are the evidence. `log` is a common scale.
  #lists(known, columns, free) {
    const lists = [];
    const codes = this.sizes.map(() => -1);
    const visit = (k) => {
      if (k === columns.length) { lists.push(this.#list(known, codes, columns, free)); return; }
      for (let s = 0; s < this.sizes[columns[k]]; s++) {
        codes[columns[k]] = s;
        if (known.likelihoods[columns[k]]?.[s] !== 0) visit(k + 1);
      }
    };
    visit(0);
    const top = Math.max(...lists.flatMap(({ logs }) => logs));
    return lists.map(({ codes: at, logs, vectors }) => {
      vectors[free] = Float64Array.from(logs, (log, s) => (known.likelihoods[free]?.[s] ?? 1) * Math.exp(log - top) || 0);
      return { codes: at, vectors };
    });
  }

  #list(known, codes, columns, free) {
    const vectors = known.likelihoods.slice();
    for (const i of columns) vectors[i] = Float64Array.from({ length: this.sizes[i] }, (_, s) => (s === codes[i] ? known.likelihoods[i]?.[s] ?? 1 : 0));
    const logs = Array.from({ length: this.sizes[free] }, (_, s) => this.#logFactor(Object.assign(codes.slice(), { [free]: s }), known));
    return { codes: codes.slice(), vectors, logs };
  }

  // The evidence as likelihoods of all columns: a sum of lists.
  cases(known) {
    if (!known.all.length) return [known.likelihoods];
    const free = known.all.reduce((a, b) => (this.sizes[b] > this.sizes[a] ? b : a));
    return this.#lists(known, known.all.filter((i) => i !== free), free).map(({ vectors }) => vectors);
  }

  // The Gaussians of a number in each of its states (see NumberDistribution); null if nothing tells.
  parts(known, i, tree) {
    const own = this.numbers.indexOf(i);
    if (own < 0 || known.evidence.get(i)?.value !== undefined) return null;
    const open = this.#open(known, [...known.used, own]);
    if (this.#count(open) > MOST_JOINT_STATES) return null;
    const scope = open.filter((v) => v !== i);
    const rest = [...new Set([...scope, ...known.all])].filter((v) => v !== i);
    const parts = this.columns[i].states.map(() => []);
    for (const { codes, vectors } of this.#lists(known, rest, i)) {
      const { log, marginals } = tree.marginals(vectors);
      if (marginals) parts.forEach((part, s) => {
        const weight = marginals[i][s] * Math.exp(log);
        if (weight > 0) part.push(...this.#partsOf(Object.assign(codes.slice(), { [i]: s }), known, own, scope, weight));
      });
    }
    return parts.map((part) => {
      const total = part.reduce((sum, [share]) => sum + share, 0);
      return total > 0 ? part.map(([share, mean, sd]) => [share / total, mean, sd]).filter(([share]) => share > 1e-14) : [[1, 0, 1]];
    });
  }

  #partsOf(codes, known, own, scope, weight) {
    const i = this.numbers[own];
    const { classes } = this.#terms(codes, known, own, scope);
    const range = known.evidence.get(i)?.range;
    const shares = classes.map((one) => one.share * (range ? this.#within(i, codes[i], range, one) : 1));
    const total = shares.reduce((a, b) => a + b, 0);
    return classes.map(({ share, mean, sd }, k) => [weight * (total > 0 ? shares[k] / total : share), mean, sd]);
  }

  // The distribution of a number in a row whose states are known.
  inRow(known, i, row) {
    const own = this.numbers.indexOf(i);
    if (own < 0 || this.columns[i].singles[row[i]] !== null) return null;
    const { classes } = this.#terms(row, known, own, [...row.keys()]);
    return this.columns[i].states.map(() => classes.map(({ share, mean, sd }) => [share, mean, sd]));
  }
}

function logSum(logs) {
  let [top, sum] = [-Infinity, 0];
  for (const x of logs) if (x > top) top = x;
  if (top === -Infinity) return top;
  for (const x of logs) sum += Math.exp(x - top);
  return top + Math.log(sum);
}

// The log-probability of a standard normal number between two ends.
function logMass(low, high) {
  const mass = normalMass(low, high);
  if (mass > 1e-300) return Math.log(mass);
  const nearest = low > 0 ? low : -high;
  const square = nearest * nearest;
  return -0.5 * square - Math.log(nearest) - 0.5 * Math.log(2 * Math.PI) + Math.log1p(-1 / square + 3 / square ** 2);
}

// The inverse of a positive definite matrix, and the logarithm of its determinant.
function inverted(matrix) {
  const n = matrix.length;
  const rows = matrix.map((row, i) => [...row, ...row.map((_, j) => +(i === j))]);
  let logDeterminant = 0;
  for (let k = 0; k < n; k++) {
    const pivot = rows[k][k];
    logDeterminant += Math.log(pivot);
    rows[k] = rows[k].map((x) => x / pivot);
    for (let i = 0; i < n; i++) {
      const factor = rows[i][k];
      if (i !== k) rows[i] = rows[i].map((x, j) => x - factor * rows[k][j]);
    }
  }
  return { inverse: rows.map((row) => row.slice(n)), logDeterminant };
}
