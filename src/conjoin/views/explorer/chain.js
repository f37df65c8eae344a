// Where few columns are unknown, the network is mixed with a chain of conditionals, each a softmax of sums of trees:
// the mixture is a table over the unknown columns. The formulas are those of conditional_chain.py and chain_evidence.py.
"use strict";

const MOST_OPEN_STATES = 4096;

class Chain {
  constructor({ share, conditionals }, columns, tree, take) {
    this.share = share;
    this.sizes = columns.map(({ states }) => states.length);
    this.network = tree;
    this.conditionals = conditionals.map((one) => new BoostedConditional(one, this.sizes, take));
    this.tables = new Map(); // the latest tables, by what is certain
  }

  // The mixture given the states that are certain, -1 for others; null if these have too many joint states.
  table(states) {
    const open = [...states.keys()].filter((i) => states[i] < 0);
    if (product(open.map((i) => this.sizes[i])) > MOST_OPEN_STATES) return null;
    const key = states.join();
    if (!this.tables.has(key)) {
      if (this.tables.size > 50) this.tables.clear();
      this.tables.set(key, this.#table(states, open));
    }
    return this.tables.get(key);
  }

  #table(states, open) {
    const network = [];
    for (const row of jointStates(states, open, this.sizes)) network.push(this.network.logProbability(row));
    const logs = new Float64Array(network.length);
    for (const conditional of this.conditionals) conditional.addLogs(states, open, this.sizes, logs);
    const [rest, share] = [Math.log1p(-this.share), Math.log(this.share)];
    return new RowTable(states, open, this.sizes, logs.map((log, cell) => (network[cell] > -Infinity ? logSum([rest + network[cell], share + log]) : -Infinity)));
  }
}

// The joint states of some columns, as rows with the states of others; it is the same array that changes.
function* jointStates(states, open, sizes) {
  const row = Int32Array.from(states);
  for (let cell = 0, count = product(open.map((i) => sizes[i])); cell < count; cell++) {
    for (let k = open.length - 1, left = cell; k >= 0; k--) {
      row[open[k]] = left % sizes[open[k]];
      left = Math.floor(left / sizes[open[k]]);
    }
    yield row;
  }
}

class BoostedConditional {
  // `take` reads the next whole numbers that page_chain.py wrote.
  constructor({ column, start, trees, nodes }, sizes, take) {
    Object.assign(this, { column, start });
    const leaves = (nodes + trees) / 2;
    const ranks = sizes.map((size) => take(size));
    const splits = take(nodes); // the column that each node splits, -1 for leaves
    const thresholds = take(nodes - leaves);
    const values = take(leaves * start.length);
    let [node, split, leaf] = [0, 0, 0];
    const read = () => {
      const at = splits[node++];
      if (at < 0) return { column: at, ranks: null, threshold: 0, low: null, high: null, values: values.subarray(leaf, (leaf += start.length)) };
      return { column: at, ranks: ranks[at], threshold: thresholds[split++], low: read(), high: read(), values: null };
    };
    this.roots = Array.from({ length: trees }, read);
    this.given = new Set(splits);
  }

  // Add the log-probabilities of the states of the column to a table over the unknown columns.
  addLogs(states, open, sizes, logs) {
    const { column, start } = this;
    const scope = open.filter((i) => this.given.has(i));
    const trees = this.roots.map((root) => decided(root, states));
    const isOpen = states[column] < 0;
    const table = [];
    for (const row of jointStates(states, scope, sizes)) {
      const scores = new Float64Array(start.length);
      for (let node of trees) {
        while (node.column >= 0) node = next(node, row[node.column]);
        for (let s = 0; s < scores.length; s++) scores[s] += node.values[s];
      }
      for (let s = 0; s < scores.length; s++) scores[s] = start[s] + scores[s] / 256;
      const log = logSum(scores);
      if (isOpen) for (const score of scores) table.push(score - log);
      else table.push(scores[states[column]] - log);
    }
    const map = cellMap(open, isOpen ? [...scope, column] : scope, sizes);
    for (let cell = 0; cell < logs.length; cell++) logs[cell] += table[map[cell]];
  }
}

const next = ({ ranks, threshold, low, high }, state) => (ranks[state] > threshold ? high : low);

// A tree without the splits of columns that are certain.
function decided(node, states) {
  if (node.column < 0) return node;
  const state = states[node.column];
  if (state >= 0) return decided(next(node, state), states);
  return { ...node, low: decided(node.low, states), high: decided(node.high, states) };
}

// A distribution as a table over the unknown columns. It answers the same questions as a junction tree.
class RowTable {
  constructor(states, open, sizes, logs) {
    Object.assign(this, { states, logs, sizes });
    this.stateIn = states.map((s, i) => (s < 0 ? cellMap(open, [i], sizes) : null)); // of each column in all cells
  }

  #row(cell) { return this.states.map((s, i) => (s < 0 ? this.stateIn[i][cell] : s)); }

  // The log-probabilities of all cells, times likelihoods.
  #weighted(columns) {
    const logs = this.logs.slice();
    columns.forEach((weights, i) => {
      if (!weights) return;
      const likelihood = Float64Array.from(weights, Math.log);
      const stateIn = this.stateIn[i];
      for (let cell = 0; cell < logs.length; cell++) logs[cell] += likelihood[stateIn ? stateIn[cell] : this.states[i]];
    });
    return logs;
  }

  marginals(columns) { return this.mixed([columns]); }

  mixed(lists) {
    const parts = lists.map((columns) => this.#weighted(columns));
    const top = Math.max(...parts.map((logs) => Math.max(...logs)));
    if (!(top > -Infinity)) return { log: -Infinity, marginals: null };
    const weights = new Float64Array(this.logs.length);
    for (const logs of parts) logs.forEach((log, cell) => { weights[cell] += Math.exp(log - top); });
    const total = weights.reduce((a, b) => a + b, 0);
    const marginals = this.states.map((state, i) => {
      const p = new Float64Array(this.sizes[i]);
      if (state >= 0) p[state] = 1;
      else weights.forEach((weight, cell) => { p[this.stateIn[i][cell]] += weight / total; });
      return p;
    });
    return { log: top + Math.log(total), marginals };
  }

  sample(columns, count, random = Math.random) {
    const logs = this.#weighted(columns);
    const top = Math.max(...logs);
    if (!(top > -Infinity)) return [];
    const weights = logs.map((log) => Math.exp(log - top));
    return Array.from({ length: count }, () => this.#row(drawn(weights, 0, 1, weights.length, random)));
  }

  mostProbable(columns) {
    const logs = this.#weighted(columns);
    const log = Math.max(...logs);
    return log > -Infinity ? { row: this.#row(logs.indexOf(log)), log, exact: true } : null;
  }
}
