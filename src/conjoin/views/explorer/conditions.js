// Reading conditions as text, in the form of Python and the command line: age > 40, city in {Austin, Boston}.
"use strict";

const OPERATORS = ["!=", "<=", ">=", "==", "=", "<", ">"];
const EXAMPLES = "NAME=STATE, NAME != STATE, NAME in {A, B}, NAME > 40 or 20 <= NAME < 30";
const looksLikeConditions = (text) => /[=<>]|\{|\sis\s+(absent|known)\s*$/.test(text);

// The parts of a text between separators that are in no quotes and no braces.
function cutAt(text, separator) {
  const parts = [""];
  let quoted = false;
  let depth = 0;
  for (const letter of text) {
    if (letter === '"') quoted = !quoted;
    else if (!quoted && letter === "{") depth += 1;
    else if (!quoted && letter === "}") depth -= 1;
    if (letter === separator && !quoted && depth === 0) parts.push("");
    else parts[parts.length - 1] += letter;
  }
  if (quoted) throw new Error("A double quote is not closed.");
  if (depth !== 0) throw new Error("The braces do not match.");
  return parts;
}

// A name or a state without its quotes.
function plain(text) {
  const inside = text.trim();
  return /^"([^"]|"")*"$/.test(inside) ? inside.slice(1, -1).replaceAll('""', '"') : inside;
}

class ConditionReader {
  constructor(columns) {
    this.columns = columns;
    this.places = new Map(columns.map(({ name }, i) => [name, i]));
  }

  // The evidence of a text: column -> piece.
  read(text) {
    const found = new Map();
    for (const part of cutAt(text, ",")) {
      if (!part.trim()) continue;
      for (const one of this.#conditions(part)) found.set(one.i, [...(found.get(one.i) ?? []), one]);
    }
    return new Map([...found].map(([i, conditions]) => [i, this.#piece(this.columns[i], conditions)]));
  }

  // The conditions on one column together: `weights` of its states, and the value or the ends of a number.
  #piece(column, conditions) {
    const words = conditions.map((one) => one.words).join(", ");
    const [{ value, state, target }] = conditions;
    if (conditions.length === 1 && target) return { kind: "marginal", target, words };
    if (conditions.some((one) => one.target)) throw new Error(`${column.name} has a new marginal and another condition.`);
    if (conditions.length === 1 && value !== undefined) return { kind: "in", states: [state], value, words };
    const ends = conditions.flatMap((one) => one.ends ?? []);
    const parts = conditions.flatMap((one) => (one.weights ? [one.weights] : []));
    if (ends.length) parts.push(sharesBetween(column, ends.reduce(bothEnds)));
    const weights = column.states.map((_, s) => product(parts.map((part) => part[s])));
    if (!weights.some((x) => x > 0)) throw new Error(`No value of ${column.name} fits all conditions.`);
    const own = column.kind === "number" ? { words } : {};
    const ranges = conditions.map((one) => one.ends ?? one.cell);
    if (column.extent && ranges.every(Boolean)) own.range = [Math.max(...ranges.map(({ low }) => low)), Math.min(...ranges.map(({ high }) => high))];
    if (!weights.every((x) => x === 0 || x === 1)) return { kind: "soft", weights, words, ...own };
    const places = (x) => [...weights.keys()].filter((s) => weights[s] === x);
    const excluded = places(0);
    return column.kind !== "number" && weights.length > 2 && excluded.length === 1
      ? { kind: "not", states: excluded } : { kind: "in", states: places(1), ...own };
  }

  // One condition, or several that "and" joins.
  #conditions(part) {
    try {
      return [{ ...this.#condition(part), words: part.trim() }];
    } catch (error) {
      for (const { index } of part.matchAll(/\s+and\s+/g)) {
        try {
          const words = part.slice(0, index);
          return [{ ...this.#condition(words), words: words.trim() }, ...this.#conditions(part.slice(index).replace(/^\s+and\s+/, ""))];
        } catch { /* the word belongs to a name or a state */ }
      }
      throw error;
    }
  }

  #condition(part) {
    const presence = part.trim().match(/^(.*?\S)\s+is\s+(absent|known)$/s);
    const place = presence ? this.places.get(plain(presence[1])) : undefined;
    if (this.columns[place]?.absent) return { i: place, weights: this.columns[place].states.map((_, s, all) => +((s === all.length - 1) === (presence[2] === "absent"))) };
    const group = part.trim().match(/^(.*?\S)\s+(not\s+in|in|likelihood|marginal)\s*\{(.*)\}$/s);
    if (group && this.places.has(plain(group[1]))) return this.#group(this.places.get(plain(group[1])), group[2], group[3]);
    let wrong = null;
    for (const [left, operator, right] of splits(part)) {
      try {
        const i = this.places.get(plain(left));
        if (i !== undefined) return { i, ...this.#compared(i, operator, right) };
        const between = this.#between(left, operator, right);
        if (between) return between;
      } catch (error) {
        wrong ??= error;
      }
    }
    if (wrong) throw wrong;
    const [first] = splits(part);
    if (first && plain(first[0])) throw new Error(`There is no column ${plain(first[0])}.`);
    throw new Error(`“${part.trim()}” is not a condition; write ${EXAMPLES}.`);
  }

  #compared(i, operator, right) {
    if ("<>".includes(operator[0])) return { ends: this.#ends(i, [[operator, right]]) };
    const state = this.#state(i, right);
    const value = this.#value(i, right);
    const weights = this.#recorded(i, right);
    if (operator === "!=") return { weights: weights.map((x) => 1 - x) };
    return value === null ? { weights } : { weights, state, value, cell: this.#cell(i, value) };
  }

  // The number that a text stands for, in a column of numbers.
  #value(i, text) {
    const column = this.columns[i];
    try {
      return column.extent ? numberOf(column, plain(text)) : null;
    } catch (error) {
      if (column.states.includes(plain(text))) return null;
      throw error;
    }
  }

  // The numbers that are recorded as a value.
  #cell(i, value) { return { low: value - this.columns[i].half, high: value + this.columns[i].half }; }

  // The share of each state that is recorded as a value.
  #recorded(i, text) {
    const value = this.#value(i, text);
    if (value !== null) return sharesBetween(this.columns[i], this.#cell(i, value));
    const state = this.#state(i, text);
    return this.columns[i].states.map((_, s) => +(s === state));
  }

  // 20 <= age < 30, or 20 <= age.
  #between(left, operator, right) {
    if (!"<>".includes(operator[0])) return null;
    const mirrored = (operator[0] === "<" ? ">" : "<") + operator.slice(1);
    const whole = this.places.get(plain(right));
    if (whole !== undefined) return { i: whole, ends: this.#ends(whole, [[mirrored, left]]) };
    for (const [middle, second, high] of splits(right)) {
      const i = this.places.get(plain(middle));
      if (i !== undefined && second[0] === operator[0]) return { i, ends: this.#ends(i, [[mirrored, left], [second, high]]) };
    }
    return null;
  }

  // The ends of a range, given as [operator, number, date or state]. On a grid they lie between recorded values.
  #ends(i, given) {
    const column = this.columns[i];
    const { step, half } = column;
    if (!column.extent && !column.order) throw new Error(`A range of ${column.name} makes no sense, because its states are in no order.`);
    return given.map(([operator, text]) => {
      const isLower = operator[0] === ">";
      const isClosed = operator.length === 2;
      const x = column.order?.kind === "state" ? this.#state(i, text) : numberOf(column, plain(text));
      const place = +(x / step).toPrecision(12);
      const edge = !column.extent ? x : step ? (isClosed === isLower ? Math.ceil(place) : Math.floor(place) + 1) * step - half
        : isClosed ? x + (isLower ? -half : half) : x;
      return isLower ? { low: edge, high: Infinity, isOpenLow: !isClosed } : { low: -Infinity, high: edge, isOpenHigh: !isClosed };
    }).reduce(bothEnds);
  }

  #state(i, text) {
    const column = this.columns[i];
    const label = plain(text);
    const value = this.#value(i, text);
    if (value !== null) return column.cuts.slice(1, -1).filter((cut) => cut <= value).length;
    const state = column.states.indexOf(label);
    if (state >= 0) return state;
    const same = label === "" ? -1 : column.python.findIndex((other) => Number(other) === Number(label));
    if (same >= 0) return same;
    const alike = column.states.findIndex((other) => other.toLowerCase() === label.toLowerCase());
    if (alike >= 0 && ["true", "false"].includes(label.toLowerCase())) return alike;
    throw new Error(`${column.name} has no state “${label}”${alike >= 0 ? `; did you mean “${column.states[alike]}”?` : "."}`);
  }

  #group(i, word, content) {
    const column = this.columns[i];
    const items = cutAt(content, ",").filter((item) => item.trim());
    if (!items.length) throw new Error(`The braces after ${column.name} are empty.`);
    const weights = column.states.map(() => 0);
    if (word === "in" || word.startsWith("not")) {
      for (const item of items) this.#recorded(i, item).forEach((share, s) => { weights[s] = Math.min(1, weights[s] + share); });
      const [only] = items.length === 1 && word === "in" ? [this.#value(i, items[0])] : [null];
      return { i, weights: word === "in" ? weights : weights.map((x) => 1 - x), ...(only === null ? {} : { cell: this.#cell(i, only) }) };
    }
    const shares = items.map((item) => {
      const at = item.lastIndexOf(":");
      const x = Number(item.slice(at + 1));
      if (at < 0 || !item.slice(at + 1).trim() || !(x >= 0 && x < Infinity)) throw new Error(`“${item.trim()}” is not STATE: NUMBER.`);
      return [this.#shares(i, item.slice(0, at)), x];
    });
    const known = column.states.map((_, s) => shares.reduce((sum, [share]) => sum + share[s], 0));
    if (known.some((share) => share > 1 + 1e-6)) throw new Error(`${column.name} has two numbers for a state.`);
    if (word === "marginal") return { i, target: this.#target(column, shares) };
    const absent = known.findIndex((share) => share < 1 - 1e-6);
    if (absent >= 0) throw new Error(`There is no likelihood for ${column.name} = ${column.states[absent]}.`);
    return { i, weights: column.states.map((_, s) => shares.reduce((sum, [share, x]) => sum + share[s] * x, 0)) };
  }

  // New probabilities of states or of groups of them.
  #target(column, shares) {
    const total = shares.reduce((sum, [, x]) => sum + x, 0);
    if (Math.abs(total - 1) > 1e-6) throw new Error(`The new probabilities of ${column.name} sum to ${number(total)}, not to 1.`);
    if (shares.some(([share]) => share.some((x) => x > 0 && x < 1))) throw new Error(`The new marginal of ${column.name} cuts a state.`);
    return { groups: column.states.map((_, s) => shares.findIndex(([share]) => share[s] === 1)), p: shares.map(([, x]) => x / total) };
  }

  // The states that a key of a likelihood stands for: a state, or a range, with the name or without it.
  #shares(i, key) {
    try {
      const state = this.#state(i, key);
      return this.columns[i].states.map((_, s) => +(s === state));
    } catch (error) {
      const short = key.trim().match(/^([<>]=?)(.*)$/s);
      const found = short ? { i, ends: this.#ends(i, [[short[1], short[2]]]) } : /[<>]/.test(key) ? this.#condition(key) : null;
      if (found?.i !== i || !found.ends) throw error;
      return sharesBetween(this.columns[i], found.ends);
    }
  }
}

// The part that two ranges have in common.
function bothEnds(a, b) {
  return {
    low: Math.max(a.low, b.low), high: Math.min(a.high, b.high),
    isOpenLow: [a, b].some(({ low, isOpenLow }) => isOpenLow && low === Math.max(a.low, b.low)),
    isOpenHigh: [a, b].some(({ high, isOpenHigh }) => isOpenHigh && high === Math.min(a.high, b.high)),
  };
}

// The share of each state that lies in a range.
function sharesBetween(column, { low, high, isOpenLow, isOpenHigh }) {
  if (column.extent) return low < high ? masses(column, low, high) : column.states.map(() => 0);
  const isInside = (x) => x !== null && (isOpenLow ? x > low : x >= low) && (isOpenHigh ? x < high : x <= high);
  return column.order.values.map((x) => +isInside(x));
}

// [left, operator, right] for each operator in a text that is in no quotes, from left to right.
function splits(text) {
  const found = [];
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') quoted = !quoted;
    const operator = quoted ? undefined : OPERATORS.find((sign) => text.startsWith(sign, at));
    if (!operator) continue;
    found.push([text.slice(0, at), operator, text.slice(at + operator.length)]);
  }
  return found;
}

// A number, or a date in the unit of the column: days or seconds since 1970.
function numberOf(column, text) {
  if (column.dates || column.order?.kind === "date") {
    const day = text.replace(/^(\d{4}-\d\d-\d\d) /, "$1T");
    const stamp = Date.parse(/T[^Z+-]*$/.test(day) ? `${day}Z` : day) / 1000;
    const seconds = /^\d{4}-\d\d-\d\d/.test(text) ? stamp : NaN;
    if (Number.isNaN(seconds)) throw new Error(`“${text}” is not a date, and ${column.name} has dates; write it as 2024-12-31.`);
    return seconds / (column.unit ?? 1);
  }
  const x = text === "" ? NaN : Number(text);
  if (Number.isNaN(x)) throw new Error(`“${text}” is not a number, and ${column.name} has numbers.`);
  return x;
}
