// Exact inference on a junction tree.
//
// Every clique holds the conditional distribution of its own variables given those that it shares with
// its parent, so that all numbers lie between 0 and 1. The joint states of hidden columns are "lanes":
// each table has one value per lane, side by side, and the loops over lanes are innermost.
//
// Evidence is one vector per variable: how likely what was seen is in each of its states. A known state is
// a vector with a single 1, "one of" has several, "not" has a 0, and soft evidence has any numbers.
// Messages go up from the leaves to the roots and down again; only cliques with evidence below them need
// a message upwards, because those of all others are 1.
//
// A model whose probabilities are too small for floating-point numbers (e^-700 or less) is answered with
// care: the evidence is added to the log-values, and the conditional distributions are computed anew.
"use strict";

const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

// For every cell of a table over `axes`, the cell of a table over some of these variables.
function cellMap(axes, variables, sizes) {
  const map = new Int32Array(product(axes.map((v) => sizes[v])));
  let stride = 1;
  for (let k = variables.length - 1; k >= 0; k--) {
    const axis = axes.indexOf(variables[k]);
    const size = sizes[variables[k]];
    const inner = product(axes.slice(axis + 1).map((v) => sizes[v]));
    for (let cell = 0; cell < map.length; cell++) {
      map[cell] += (Math.floor(cell / inner) % size) * stride;
    }
    stride *= size;
  }
  return map;
}

class JunctionTree {
  // `tree` is what Python wrote (see browser_tables.py), `take` reads the next log-values.
  constructor(tree, take) {
    this.sizes = tree.sizes;
    this.lanes = tree.lanes;
    this.places = tree.places;
    this.home = new Array(tree.sizes.length);
    this.cliques = tree.cliques.map((variables, c) => {
      const cut = variables.length - tree.shared[c];
      const own = variables.slice(0, cut);
      const shared = variables.slice(cut);
      own.forEach((v) => { this.home[v] = c; });
      return {
        own,
        shared,
        axes: [...shared, ...own],
        parent: tree.parents[c],
        children: [],
        outer: product(shared.map((v) => tree.sizes[v])), // joint states of the shared variables
        inner: product(own.map((v) => tree.sizes[v])), // joint states of its own variables
      };
    });
    this.cliques.forEach((clique, c) => {
      if (clique.parent < 0) return;
      const parent = this.cliques[clique.parent];
      parent.children.push(c);
      clique.map = cellMap(parent.axes, clique.shared, this.sizes); // cells of the parent -> of the message
    });
    this.logs = this.#logTables(tree, take);
    this.logNormaliser = this.#normalise([]);
    this.isCareful = this.underflow;
    if (!this.isCareful) for (const clique of this.cliques) clique.work = new Float64Array(clique.table.length);
  }

  // Add up the stored tables in the cliques they belong to.
  #logTables(tree, take) {
    const { lanes } = this;
    const tables = this.cliques.map((c) => new Float64Array(c.outer * c.inner * lanes));
    const loose = new Float64Array(lanes);
    const read = tree.tables.map((table) => {
      const cells = product(table.variables.map((v) => this.sizes[v]));
      return { ...table, cells, stored: take(cells * { plain: 1, lanes, rank: tree.rank }[table.kind]) };
    });
    const basis = take(tree.rank * lanes);
    for (const { clique, variables, kind, cells, stored } of read) {
      let values = stored;
      if (kind === "rank") values = multiplied(values, basis, cells, tree.rank, lanes);
      const target = clique < 0 ? loose : tables[clique];
      const map = clique < 0 ? [0] : cellMap(this.cliques[clique].axes, variables, this.sizes);
      for (let cell = 0, at = 0; cell < map.length; cell++) {
        const from = map[cell] * (kind === "plain" ? 1 : lanes);
        for (let w = 0; w < lanes; w++) target[at++] += values[kind === "plain" ? from : from + w];
      }
    }
    return { tables, loose };
  }

  // Turn log-values, and evidence, into conditional distributions, from the leaves to the roots. Return the
  // logarithm of the sum over everything.
  #normalise(evidence) {
    const { lanes, logs } = this;
    const messages = [];
    const loose = logs.loose.slice();
    this.underflow = false;
    this.cliques.forEach((clique, c) => {
      const table = logs.tables[c].slice();
      const { outer, inner } = clique;
      for (const v of clique.own) {
        if (!evidence[v]) continue;
        const map = cellMap(clique.axes, [v], this.sizes);
        const weights = evidence[v].map(Math.log);
        for (let at = 0; at < table.length; at++) table[at] += weights[map[Math.floor(at / lanes)]];
      }
      for (const child of clique.children) {
        const { map } = this.cliques[child];
        const message = messages[child];
        for (let cell = 0, at = 0; cell < outer * inner; cell++) {
          for (let w = 0, from = map[cell] * lanes; w < lanes; w++) table[at++] += message[from++];
        }
        messages[child] = null;
      }
      const message = new Float64Array(outer * lanes);
      for (let i = 0; i < message.length; i++) {
        message[i] = this.#exponentiated(table, Math.floor(i / lanes) * inner * lanes + (i % lanes), inner, lanes);
      }
      messages[c] = message;
      clique.table = table;
      clique.message = new Float64Array(outer * lanes);
      if (clique.parent < 0) for (let w = 0; w < lanes; w++) loose[w] += message[w];
    });
    this.prior = loose; // the probability of each lane
    return this.#exponentiated(loose, 0, lanes, 1);
  }

  // Replace `count` log-values by probabilities that add up to 1; return the logarithm of their sum.
  #exponentiated(table, first, count, step) {
    const last = first + count * step;
    let top = -Infinity;
    for (let at = first; at < last; at += step) if (table[at] > top) top = table[at];
    if (top === -Infinity) {
      for (let at = first; at < last; at += step) table[at] = 0;
      return top;
    }
    let sum = 0;
    for (let at = first; at < last; at += step) {
      const value = Math.exp(table[at] - top);
      if (value < 1e-300 && table[at] > -Infinity) this.underflow = true;
      table[at] = value;
      sum += value;
    }
    for (let at = first; at < last; at += step) table[at] /= sum;
    return top + Math.log(sum);
  }

  // Multiply a clique's table by the evidence on its own variables and the messages of its children.
  #weighted(clique, evidence) {
    const { lanes } = this;
    const { table, work, inner, outer, own } = clique;
    work.set(table);
    let after = inner * lanes;
    for (const v of own) {
      const size = this.sizes[v];
      const block = after / size;
      const likelihood = evidence[v];
      if (likelihood) {
        for (let at = 0, end = outer * inner * lanes; at < end; ) {
          for (let s = 0; s < size; s++) {
            const x = likelihood[s];
            const stop = at + block;
            if (x === 0) work.fill(0, at, stop);
            else if (x !== 1) for (let i = at; i < stop; i++) work[i] *= x;
            at = stop;
          }
        }
      }
      after = block;
    }
    for (const child of clique.children) {
      const { map, message, informed } = this.cliques[child];
      if (!informed) continue;
      timesMapped(work, map, message, lanes);
    }
  }

  // Send messages up: sums, or maxima per lane. Return the weight of each lane and a common log scale.
  #collect(evidence, maximum) {
    const { lanes } = this;
    const weights = this.prior.slice();
    let scale = 0;
    for (const clique of this.cliques) {
      clique.informed = maximum
        || clique.own.some((v) => evidence[v])
        || clique.children.some((child) => this.cliques[child].informed);
      if (!clique.informed) continue;
      this.#weighted(clique, evidence);
      if (maximum) this.#maxima(clique);
      else this.#sums(clique);
      const { message } = clique;
      let top = 0;
      for (let i = 0; i < message.length; i++) if (message[i] > top) top = message[i];
      if (top === 0) return { weights, scale: -Infinity, total: 0 };
      for (let i = 0; i < message.length; i++) message[i] /= top;
      scale += Math.log(top);
      if (clique.parent < 0) for (let w = 0; w < lanes; w++) weights[w] *= message[w];
    }
    return { weights, scale, total: weights.reduce((a, b) => a + b, 0) };
  }

  #sums({ work, message, outer, inner }) {
    const { lanes } = this;
    message.fill(0);
    for (let s = 0, at = 0; s < outer; s++) {
      const start = s * lanes;
      for (let r = 0; r < inner; r++) {
        for (let to = start, end = start + lanes; to < end; ) message[to++] += work[at++];
      }
    }
  }

  #maxima(clique) {
    const { lanes } = this;
    const { work, message, outer, inner } = clique;
    const best = (clique.best ??= new Int32Array(outer * lanes));
    message.fill(-1);
    for (let s = 0, at = 0; s < outer; s++) {
      for (let r = 0; r < inner; r++) {
        for (let to = s * lanes, end = to + lanes; to < end; to++, at++) {
          if (work[at] > message[to]) {
            message[to] = work[at];
            best[to] = r;
          }
        }
      }
    }
  }

  // The evidence as one vector per variable of the tree, from one vector per column (or null), and what
  // has to be added to the logarithm of its probability: columns with a single state are not in the tree,
  // and where care is needed, the evidence becomes part of the tables.
  #byVariable(columns) {
    const evidence = new Array(this.sizes.length).fill(null);
    let offset = 0;
    columns.forEach((likelihood, column) => {
      if (!likelihood) return;
      if (this.places[column] < 0) offset += Math.log(likelihood[0]);
      else evidence[this.places[column]] = likelihood;
    });
    if (!this.isCareful) return { evidence, offset };
    offset += this.#normalise(evidence) - this.logNormaliser;
    for (const clique of this.cliques) clique.work = new Float64Array(clique.table.length);
    return { evidence: evidence.fill(null), offset };
  }

  // The distributions of all columns given evidence, and the logarithm of its probability (the expected
  // likelihood, if it is soft). `marginals` is null if the evidence is impossible.
  marginals(columns) {
    const { evidence, offset } = this.#byVariable(columns);
    const { weights, scale, total } = this.#collect(evidence, false);
    const log = scale + Math.log(total) + offset;
    if (!(log > -Infinity)) return { log: -Infinity, marginals: null };
    const found = new Array(this.sizes.length);
    const top = weights.map((x) => x / total);
    for (let c = this.cliques.length - 1; c >= 0; c--) this.#distribute(this.cliques[c], top, found);
    return { log, marginals: this.places.map((v) => (v < 0 ? Float64Array.of(1) : found[v])) };
  }

  // The same if the evidence is a sum of several lists of likelihoods.
  mixed(lists) {
    if (lists.length === 1) return this.marginals(lists[0]);
    const answers = lists.map((list) => this.marginals(list)).filter(({ marginals }) => marginals);
    if (!answers.length) return { log: -Infinity, marginals: null };
    const log = logSum(answers.map((answer) => answer.log));
    const marginals = answers[0].marginals.map((p, i) =>
      p.map((_, s) => answers.reduce((sum, answer) => sum + Math.exp(answer.log - log) * answer.marginals[i][s], 0)));
    return { log, marginals };
  }

  #distribute(clique, top, found) {
    const { lanes } = this;
    const { table, work, message, map, outer, inner, own, informed } = clique;
    const above = clique.above ??= new Float64Array(outer * lanes); // of the shared variables
    if (clique.parent < 0) {
      above.set(top);
    } else {
      above.fill(0);
      addMapped(this.cliques[clique.parent].work, map, above, lanes);
    }
    if (informed) {
      for (let i = 0; i < above.length; i++) above[i] = message[i] > 0 ? above[i] / message[i] : 0;
    }
    const joint = new Float64Array(inner);
    if (clique.children.length) timesAbove(informed ? work : table, above, work, joint, outer, inner, lanes);
    else sumsAbove(informed ? work : table, above, joint, outer, inner, lanes);
    this.#separate(joint, own, found);
  }

  // The distribution of each variable from their joint distribution.
  #separate(joint, variables, found) {
    const total = joint.reduce((a, b) => a + b, 0);
    let after = joint.length;
    for (const v of variables) {
      const size = this.sizes[v];
      const block = after / size;
      const p = new Float64Array(size);
      for (let i = 0; i < joint.length; i++) p[Math.floor(i / block) % size] += joint[i] / total;
      found[v] = p;
      after = block;
    }
  }

  // Rows drawn from the distribution given evidence, as states of the columns.
  sample(columns, count, random = Math.random) {
    const { evidence, offset } = this.#byVariable(columns);
    const { weights, total } = this.#collect(evidence, false);
    if (!(total > 0 && offset > -Infinity)) return [];
    return Array.from({ length: count }, () => {
      const lane = drawn(weights, 0, 1, weights.length, random);
      const states = this.#states(({ informed, work, table, inner }, s) =>
        drawn(informed ? work : table, s * inner * this.lanes + lane, this.lanes, inner, random));
      return this.places.map((v) => (v < 0 ? 0 : states[v]));
    });
  }

  // Choose the states of all cliques from the roots to the leaves.
  #states(choose) {
    const states = new Int32Array(this.sizes.length);
    for (let c = this.cliques.length - 1; c >= 0; c--) {
      const clique = this.cliques[c];
      const s = clique.shared.reduce((cell, v) => cell * this.sizes[v] + states[v], 0);
      let r = choose(clique, s);
      for (let k = clique.own.length - 1; k >= 0; k--) {
        const size = this.sizes[clique.own[k]];
        states[clique.own[k]] = r % size;
        r = Math.floor(r / size);
      }
    }
    return states;
  }

  // The most probable row that fits the evidence. With hidden columns a sum has to be maximised: the best
  // row of each lane is found, the most promising are compared by their sums over lanes, and the best is
  // improved by changing single columns. `exact` tells whether no row can be better.
  mostProbable(columns) {
    const { evidence, offset } = this.#byVariable(columns);
    const { weights, scale, total } = this.#collect(evidence, true);
    if (!(total > 0 && offset > -Infinity)) return null;
    const { lanes } = this;
    const bound = scale + Math.log(total) + offset;
    const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]);
    let best = null;
    for (const lane of order.slice(0, 16).filter((w) => weights[w] > 0)) {
      const states = this.#states(({ best: found }, s) => found[s * lanes + lane]);
      const row = this.places.map((v) => (v < 0 ? 0 : states[v]));
      const log = this.#logWeight(row, columns);
      if (!best || log > best.log) best = { row, log };
    }
    if (lanes > 1) this.#improve(best, columns);
    return { ...best, exact: bound - best.log <= 1e-9 };
  }

  #improve(best, columns) {
    for (let better = true; better; ) {
      better = false;
      this.places.forEach((v, i) => {
        for (let s = 0, before = best.row[i]; v >= 0 && s < this.sizes[v]; s++) {
          if (s === before || columns[i]?.[s] === 0) continue;
          const row = best.row.slice();
          row[i] = s;
          const log = this.#logWeight(row, columns);
          if (log > best.log + 1e-12) [best.row, best.log, better] = [row, log, true];
        }
      });
    }
  }

  // The logarithm of the probability of a row times the likelihoods of its states.
  #logWeight(row, columns) {
    return columns.reduce((sum, likelihood, i) => (likelihood ? sum + Math.log(likelihood[row[i]]) : sum), this.logProbability(row));
  }

  // The log-probability of a row of states, one per column.
  logProbability(row) {
    const { lanes, logs } = this;
    const sums = logs.loose.slice();
    const states = [];
    this.places.forEach((v, i) => { if (v >= 0) states[v] = row[i]; });
    this.cliques.forEach(({ axes }, c) => {
      const cell = axes.reduce((at, v) => at * this.sizes[v] + states[v], 0);
      for (let w = 0, at = cell * lanes; w < lanes; w++) sums[w] += logs.tables[c][at++];
    });
    return logSum(sums) - this.logNormaliser;
  }
}

// The loops that all time goes into, as functions of their own so that the browser compiles them well.

// Add every line of a table (one value per lane) to the line of another one that it maps to.
function addMapped(table, map, result, lanes) {
  for (let cell = 0, at = 0; cell < map.length; cell++) {
    for (let to = map[cell] * lanes, end = to + lanes; to < end; to++, at++) result[to] += table[at];
  }
}

// Multiply every line of a table by the line of another one that it maps to.
function timesMapped(table, map, factor, lanes) {
  for (let cell = 0, at = 0; cell < map.length; cell++) {
    for (let from = map[cell] * lanes, end = from + lanes; from < end; from++, at++) table[at] *= factor[from];
  }
}

// Multiply a table by the distribution of its shared variables, and sum over these and the lanes.
function timesAbove(table, above, result, joint, outer, inner, lanes) {
  for (let s = 0, at = 0; s < outer; s++) {
    for (let r = 0; r < inner; r++) {
      let sum = 0;
      for (let from = s * lanes, end = from + lanes; from < end; from++, at++) {
        const value = table[at] * above[from];
        result[at] = value;
        sum += value;
      }
      joint[r] += sum;
    }
  }
}

// The same sums alone, for a clique without children.
function sumsAbove(table, above, joint, outer, inner, lanes) {
  for (let s = 0, at = 0; s < outer; s++) {
    for (let r = 0; r < inner; r++) {
      let sum = 0;
      for (let from = s * lanes, end = from + lanes; from < end; from++, at++) sum += table[at] * above[from];
      joint[r] += sum;
    }
  }
}

// The product of two matrices: cells by rank, and rank by lanes.
function multiplied(left, basis, cells, rank, lanes) {
  const result = new Float64Array(cells * lanes);
  for (let cell = 0; cell < cells; cell++) {
    for (let k = 0; k < rank; k++) {
      const x = left[cell * rank + k];
      if (x === 0) continue;
      for (let w = 0, to = cell * lanes, from = k * lanes; w < lanes; w++) result[to++] += x * basis[from++];
    }
  }
  return result;
}

// A random position with probability proportional to weights[first + i * step], i < count.
function drawn(weights, first, step, count, random) {
  let sum = 0;
  for (let i = 0, at = first; i < count; i++, at += step) sum += weights[at];
  let left = random() * sum;
  let last = 0;
  for (let i = 0, at = first; i < count; i++, at += step) {
    if (weights[at] <= 0) continue;
    last = i;
    left -= weights[at];
    if (left < 0) break;
  }
  return last;
}

// The total variation distance of two distributions: the probability that moved.
function moved(before, after) {
  let sum = 0;
  for (let i = 0; i < before.length; i++) sum += Math.abs(before[i] - after[i]);
  return sum / 2;
}

// Bits that each column tells about the target, on average, given the evidence: the mutual information.
// `answers` are the distributions of all columns if the target is in each of its states, null where it
// cannot be; `now` are those given the evidence alone.
function information(answers, now, target) {
  return now.map((p, column) => {
    if (column === target) return 0;
    let bits = 0;
    answers.forEach((given, state) => {
      if (!given) return;
      const share = now[target][state];
      for (let x = 0; x < p.length; x++) {
        const q = given[column][x];
        if (q > 0 && p[x] > 0) bits += share * q * Math.log2(q / p[x]);
      }
    });
    return Math.max(0, bits);
  });
}

const entropy = (p) => p.reduce((bits, x) => (x > 0 ? bits - x * Math.log2(x) : bits), 0);

// The likelihood vector of a piece of evidence on a column.
function likelihoodOf(piece, { states }) {
  if (piece.kind === "soft") return Float64Array.from(piece.weights);
  if (piece.kind === "marginal") return Float64Array.from(piece.target.groups, (group) => +(piece.target.p[group] > 0));
  const chosen = new Set(piece.states);
  return Float64Array.from(states, (_, s) => (chosen.has(s) === (piece.kind === "in") ? 1 : 0));
}

// Those of all columns, null where there is none. As an event, a number that has a value is recorded as this value.
function likelihoodsOf(columns, evidence, asEvent = false) {
  return columns.map((column, i) => {
    const piece = evidence.get(i);
    if (asEvent && piece?.value !== undefined) return Float64Array.from(masses(column, piece.value - column.half, piece.value + column.half));
    return piece ? likelihoodOf(piece, column) : null;
  });
}

// The states of columns that are certain, -1 for others.
function certainStates(evidence, likelihoods) {
  return likelihoods.map((weights, i) => {
    const possible = weights ? [...weights.keys()].filter((s) => weights[s] > 0) : [];
    return possible.length === 1 && evidence.get(i).kind !== "marginal" ? possible[0] : -1;
  });
}

// Likelihoods of all columns times factors of some.
const timesEach = (list, factors) => list.map((weights, i) => {
  const factor = factors.get(i);
  return factor ? Float64Array.from(factor, (x, s) => x * (weights?.[s] ?? 1)) : weights;
});

// Answers given evidence of any kind.
class Answers {
  constructor(tree, columns, fine, chain) {
    Object.assign(this, { tree, columns, fine, chain });
  }

  // What is asked if some states are certain: with the chain if few columns are unknown, else the network alone.
  #treeOf(states) { return this.chain?.table(states) ?? this.tree; }

  // The evidence as a sum of lists of likelihoods, the tree (or table) to ask with them, and what is known of
  // numbers, null if that is their states only.
  lists(evidence) {
    const likelihoods = likelihoodsOf(this.columns, evidence);
    const states = certainStates(evidence, likelihoods);
    const tree = this.#treeOf(states);
    const known = this.fine?.known(evidence, likelihoods, states) ?? null;
    const lists = known ? this.fine.cases(known) : [likelihoods];
    const fitted = this.#fitted([...evidence].filter(([, { kind }]) => kind === "marginal"), lists, tree);
    return { tree, lists: lists.map((list) => timesEach(list, fitted)), known: known && { ...known, likelihoods: timesEach(likelihoods, fitted) } };
  }

  // Factors of likelihoods with which columns have their new marginals: column -> factor of each state, all 0 if
  // one of them is impossible.
  #fitted(pieces, lists, tree) {
    const factors = new Map(pieces.map(([i]) => [i, this.columns[i].states.map(() => 1)]));
    for (let round = 0, gap = 1; pieces.length && gap > 1e-13 && round < 1000; round++) {
      gap = 0;
      for (const [i, { target: { groups, p } }] of pieces) {
        const { marginals } = tree.mixed(lists.map((list) => timesEach(list, factors)));
        if (!marginals) return factors;
        const sums = p.map((_, g) => marginals[i].reduce((sum, x, s) => (groups[s] === g ? sum + x : sum), 0));
        gap = Math.max(gap, ...p.map((x, g) => Math.abs(x - sums[g])));
        const isReachable = p.every((x, g) => x === 0 || sums[g] > 0);
        factors.set(i, factors.get(i).map((x, s) => (isReachable && p[groups[s]] > 0 ? x * p[groups[s]] / sums[groups[s]] : 0)));
      }
    }
    return factors;
  }

  marginals(evidence) {
    const { tree, lists } = this.lists(evidence);
    return tree.mixed(lists);
  }

  // The distributions given evidence, as `lists` returned it, if a column is in a state as well.
  inState({ tree, lists }, column, state) {
    const factor = new Map([[column, this.columns[column].states.map((_, s) => +(s === state))]]);
    return tree.mixed(lists.map((list) => timesEach(list, factor))).marginals;
  }

  // The logarithm of the probability of evidence as an event.
  log(evidence) {
    const likelihoods = likelihoodsOf(this.columns, evidence, true);
    return this.#treeOf(certainStates(evidence, likelihoods)).marginals(likelihoods).log;
  }

  // Rows drawn given evidence, as `lists` returned it.
  sample({ tree, lists }, count, random = Math.random) {
    const logs = lists.map((list) => (lists.length > 1 ? tree.marginals(list).log : 0));
    const weights = logs.map((log) => Math.exp(log - Math.max(...logs)));
    return Array.from({ length: lists.length > 1 ? count : 1 }, () =>
      tree.sample(lists[drawn(weights, 0, 1, lists.length, random)], lists.length > 1 ? 1 : count, random)).flat();
  }

  // The distribution of a number, given the probabilities of its states.
  number({ known, tree }, evidence, i, p) {
    return new NumberDistribution(this.columns[i], p, known && this.fine.parts(known, i, tree), evidence.get(i)?.range);
  }

  // A value of a number in a row of states: the one below which a share of the state lies.
  valueInRow(known, evidence, i, row, share) {
    const column = this.columns[i];
    const { range, value } = evidence.get(i) ?? {};
    if (value !== undefined) return recordedText(column, value);
    if (row[i] >= column.singles.length) return "";
    const parts = known && this.fine.inRow(known, i, row);
    const p = column.states.map((_, s) => +(s === row[i]));
    return recordedText(column, new NumberDistribution(column, p, parts, range).valueWithin(row[i], share()));
  }
}
