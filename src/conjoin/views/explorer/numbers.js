// Columns of numbers: normal scores of their values, and distributions within the states of the page, which
// are intervals or single values. The formulas are those of number_map.py and number_distribution.py.
"use strict";

const bell = (x) => Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);

// The probability that a standard normal number is above x, for x >= 0.
function tail(x) {
  if (x < 3) {
    let [term, sum] = [x, x];
    for (let n = 3; term > 1e-17 * sum; n += 2) sum += (term *= x * x / n);
    return 0.5 - bell(x) * sum;
  }
  let fraction = x;
  for (let n = 60; n > 0; n--) fraction = x + n / fraction;
  return bell(x) / fraction;
}

// The probability of standard normal numbers between two ends; differences of small numbers are more exact.
function normalMass(low, high) {
  if (low > 0) return tail(low) - tail(high);
  return high < 0 ? tail(-high) - tail(-low) : 1 - tail(-low) - tail(high);
}

const clip = (x, low, high) => Math.min(Math.max(x, low), high);

// The place of the last knot below a number.
function knotBelow(x, at) {
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] < at) low = middle;
    else high = middle;
  }
  return low;
}

// The height at a place of the line through knots, which goes on beyond the outermost ones.
function onLine(x, y, at) {
  const k = knotBelow(x, at);
  return y[k] + ((at - x[k]) / (x[k + 1] - x[k])) * (y[k + 1] - y[k]);
}

const scoreOf = ({ knots, scores }, value) => onLine(knots, scores, value);
const valueOf = ({ knots, scores }, score) => onLine(scores, knots, score);

// Read the knots of a column, and find the scores between which its intervals lie.
function prepareNumbers(column, take) {
  const count = column.knots;
  column.knots = take(count);
  column.scores = take(count);
  const inner = column.cuts.slice(1, -1).map((edge) => scoreOf(column, edge));
  column.lows = [-Infinity, ...inner];
  column.highs = [...inner, Infinity];
  column.reach = column.extent.map((x, side) => scoreOf(column, x) + (side ? 0.5 : -0.5));
}

// The share of each state of a number that lies between two ends.
function masses({ singles, lows, highs, states, ...column }, low, high) {
  const [first, last] = [low, high].map((x) => scoreOf(column, x));
  return states.map((_, s) => {
    if (s >= singles.length) return 0; // absent
    if (singles[s] !== null) return +(singles[s] > low && singles[s] < high);
    const part = normalMass(clip(first, lows[s], highs[s]), clip(last, lows[s], highs[s]));
    return clip(part / Math.max(normalMass(lows[s], highs[s]), 1e-300), 0, 1);
  });
}

// The distribution of a number: the probabilities of its states, and Gaussian scores that are cut at the ends
// of intervals. `parts[state]` lists their [share, mean, standard deviation]; `range` are ends, if they are known.
class NumberDistribution {
  constructor(column, p, parts = null, range = null) {
    this.column = column;
    this.absent = column.absent ? p[column.singles.length] : 0;
    this.p = Array.from(p).slice(0, column.singles.length).map((x) => x / (1 - this.absent));
    this.parts = parts;
    this.range = range?.map((x) => scoreOf(column, x)) ?? null;
  }

  #ends(s) {
    const ends = [this.column.lows[s], this.column.highs[s]];
    const cut = this.range ? ends.map((x) => clip(x, ...this.range)) : ends;
    return cut[0] < cut[1] ? cut : ends;
  }

  // The Gaussians of a state; a mean that is too far outside is moved closer.
  #gaussians(s, [low, high]) {
    return (this.parts?.[s] ?? [[1, 0, 1]]).map(([share, mean, sd]) =>
      [share, clip(clip(mean, ...this.column.reach), low - 30 * sd, high + 30 * sd), sd]);
  }

  mean() {
    return this.p.reduce((sum, p, s) => (p > 1e-15 ? sum + p * (this.column.singles[s] ?? this.#meanWithin(s)) : sum), 0);
  }

  #meanWithin(s) {
    if (!this.parts && !this.range) return (this.column.means ??= [])[s] ??= this.#integral(s);
    return this.#integral(s);
  }

  #integral(s) {
    const { knots, scores } = this.column;
    const [low, high] = this.#ends(s);
    return this.#gaussians(s, [low, high]).reduce((sum, [share, mean, sd]) => {
      let [total, whole] = [0, 0];
      for (let k = knotBelow(scores, low), start = low; start < high; k++) {
        const stop = k < scores.length - 2 ? Math.min(high, scores[k + 1]) : high;
        const [a, b] = [(start - mean) / sd, (stop - mean) / sd];
        const mass = normalMass(a, b);
        const slope = (knots[k + 1] - knots[k]) / (scores[k + 1] - scores[k]);
        total += (knots[k] + slope * (mean - scores[k])) * mass - slope * sd * (bell(b) - bell(a));
        whole += mass;
        start = stop;
      }
      return sum + share * total / Math.max(whole, 1e-300);
    }, 0);
  }

  // The smallest value whose cumulative probability is at least a number.
  quantile(wanted) {
    let [s, before] = [0, 0];
    while (s < this.p.length - 1 && before + this.p[s] < wanted - 1e-12) before += this.p[s++];
    return this.valueWithin(s, clip((wanted - before) / Math.max(this.p[s], 1e-300), 0, 1));
  }

  // The value below which a share of a state lies.
  valueWithin(s, share) {
    const { column } = this;
    if (column.singles[s] !== null) return column.singles[s];
    const ends = this.#ends(s);
    const far = Math.max(...column.scores.map(Math.abs)) + 7;
    const gaussians = this.#gaussians(s, ends).map(([part, mean, sd]) =>
      [part / Math.max(normalMass((ends[0] - mean) / sd, (ends[1] - mean) / sd), 1e-300), mean, sd]);
    const below = (x) => gaussians.reduce((sum, [part, mean, sd]) => sum + part * normalMass((ends[0] - mean) / sd, (x - mean) / sd), 0);
    let [low, high] = ends.map((x) => clip(x, -far, far));
    for (let step = 0; step < 45; step++) {
      const middle = (low + high) / 2;
      if (below(middle) < share) low = middle;
      else high = middle;
    }
    return valueOf(column, high);
  }

  // The recorded values between which the number lies with a probability of 90%.
  interval() {
    const { step } = this.column;
    const [low, high] = [this.quantile(0.05), this.quantile(0.95)];
    if (!step) return [low, high];
    const [first, last] = [Math.ceil(low / step - 1e-9) * step, Math.floor(high / step + 1e-9) * step];
    const middle = Math.round((low + high) / 2 / step) * step;
    return first > last ? [middle, middle] : [first, last];
  }

  get text() {
    const { cuts, step } = this.column;
    if (this.absent > 1 - 1e-12) return "absent";
    const middle = this.quantile(0.5);
    const median = step ? Math.round(middle / step) * step : middle;
    const [mean, low, high, half] = [this.mean(), ...this.interval(), median]
      .map((x) => numberText(this.column, x, (cuts[cuts.length - 1] - cuts[0]) / 100));
    return `${this.absent > 5e-5 ? `absent ${percent(this.absent)}, else ` : ""}mean ${mean}, median ${half}, 90% from ${low} to ${high}`;
  }
}

// A value as it would be recorded.
function recordedText(column, x) {
  const { cuts, step } = column;
  return numberText(column, step ? Math.round(x / step) * step : x, step || (cuts[cuts.length - 1] - cuts[0]) / 1e4);
}

// A value in digits that tell it from others at some distance.
function numberText({ unit, step }, x, distance) {
  if (unit) return new Date(Math.round(x * unit) * 1000).toISOString().slice(0, unit > 1 || step === 86400 ? 10 : 19).replace("T", " ");
  if (x === 0) return "0";
  const digits = Math.floor(Math.log10(distance));
  const text = x.toFixed(clip(-Math.min(digits, Math.floor(Math.log10(Math.abs(x))) - 3), 0, 15));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
