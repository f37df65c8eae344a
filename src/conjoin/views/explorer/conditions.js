// Reading conditions as text, in the form of Python and the command line: age > 40, city in {Austin, Boston}.
"use strict";

const OPERATORS = ["!=", "<=", ">=", "==", "=", "<", ">"];
const EXAMPLES = "NAME=STATE, NAME != STATE, NAME in {A, B}, NAME > 40 or 20 <= NAME < 30";
const looksLikeConditions = (text) => /[=<>]|\{/.test(text);

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

  // The conditions on one column together: `weights` of its states, or a range.
  #piece(column, conditions) {
    const ranges = conditions.map(({ range }) => range).filter(Boolean);
    const range = [Math.max(...ranges.map(([low]) => low)), Math.min(...ranges.map(([, high]) => high))];
    const parts = conditions.map(({ weights }) => weights).filter(Boolean);
    if (parts.length < conditions.length) parts.push(sharesBetween(column, ...range));
    const weights = column.states.map((_, s) => product(parts.map((part) => part[s])));
    if (!weights.some((x) => x > 0)) throw new Error(`No value of ${column.name} fits all conditions.`);
    const own = column.kind === "number" ? { words: conditions.map(({ words }) => words).join(", ") } : {};
    if (ranges.length) own.range = range;
    if (!weights.every((x) => x === 0 || x === 1)) return { kind: "soft", weights, ...own };
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
    if ("<>".includes(operator[0])) return { range: this.#range(i, [[operator, right]]) };
    if (operator === "!=") return { weights: this.#recorded(i, right).map((x) => 1 - x) };
    return { weights: this.#indicator(i, right), range: this.#around(i, right) };
  }

  #indicator(i, text) {
    const state = this.#state(i, text);
    return this.columns[i].states.map((_, s) => (s === state ? 1 : 0));
  }

  // The numbers that are recorded as a value, if it is one.
  #around(i, text) {
    const { means, states, half } = this.columns[i];
    if (!means || states.includes(plain(text))) return null;
    const x = numberOf(this.columns[i], plain(text));
    return [x - half, x + half];
  }

  // The share of each state that is recorded as a value.
  #recorded(i, text) {
    const range = this.#around(i, text);
    return range ? sharesBetween(this.columns[i], ...range) : this.#indicator(i, text);
  }

  // 20 <= age < 30, or 20 <= age.
  #between(left, operator, right) {
    if (!"<>".includes(operator[0])) return null;
    const mirrored = (operator[0] === "<" ? ">" : "<") + operator.slice(1);
    const whole = this.places.get(plain(right));
    if (whole !== undefined) return { i: whole, range: this.#range(whole, [[mirrored, left]]) };
    for (const [middle, second, high] of splits(right)) {
      const i = this.places.get(plain(middle));
      if (i !== undefined && second[0] === operator[0]) return { i, range: this.#range(i, [[mirrored, left], [second, high]]) };
    }
    return null;
  }

  // The ends of a range, given as [operator, number or date]. On a grid they lie between recorded values.
  #range(i, ends) {
    const column = this.columns[i];
    if (column.kind !== "number") throw new Error(`A range of ${column.name} makes no sense, because its states are in no order.`);
    const { step, half } = column;
    let [low, high] = [-Infinity, Infinity];
    for (const [operator, text] of ends) {
      const x = numberOf(column, plain(text));
      const lower = operator[0] === ">";
      const inclusive = operator.length === 2;
      const place = +(x / step).toPrecision(12);
      const edge = step ? (inclusive === lower ? Math.ceil(place) : Math.floor(place) + 1) * step - half
        : inclusive ? x + (lower ? -half : half) : x;
      if (lower) low = Math.max(low, edge);
      else high = Math.min(high, edge);
    }
    return [low, high];
  }

  #state(i, text) {
    const column = this.columns[i];
    const label = plain(text);
    const state = column.states.indexOf(label);
    if (state >= 0) return state;
    if (column.kind === "number") {
      const x = numberOf(column, label);
      const found = column.cuts ? column.cuts.slice(1, -1).filter((cut) => cut <= x).length : column.values.indexOf(x);
      if (found >= 0) return found;
    }
    const alike = column.states.findIndex((other) => other.toLowerCase() === label.toLowerCase());
    if (alike >= 0 && ["true", "false"].includes(label.toLowerCase())) return alike;
    throw new Error(`${column.name} has no state “${label}”${alike >= 0 ? `; did you mean “${column.states[alike]}”?` : "."}`);
  }

  #group(i, word, content) {
    const column = this.columns[i];
    const items = cutAt(content, ",").filter((item) => item.trim());
    if (!items.length) throw new Error(`The braces after ${column.name} are empty.`);
    if (word === "marginal") throw new Error("This page takes likelihoods, not new marginals; ask Python or the command line.");
    const weights = column.states.map(() => 0);
    if (word !== "likelihood") {
      for (const item of items) this.#recorded(i, item).forEach((share, s) => { weights[s] = Math.min(1, weights[s] + share); });
      return { i, weights: word === "in" ? weights : weights.map((x) => 1 - x) };
    }
    const known = column.states.map(() => 0);
    for (const item of items) {
      const at = item.lastIndexOf(":");
      const x = Number(item.slice(at + 1));
      if (at < 0 || !item.slice(at + 1).trim() || !(x >= 0 && x < Infinity)) throw new Error(`“${item.trim()}” is not STATE: NUMBER.`);
      this.#shares(i, item.slice(0, at)).forEach((share, s) => { weights[s] += share * x; known[s] += share; });
    }
    const absent = known.findIndex((share) => share < 1 - 1e-6);
    if (absent >= 0) throw new Error(`There is no likelihood for ${column.name} = ${column.states[absent]}.`);
    return { i, weights };
  }

  // The states that a key of a likelihood stands for: a state, or a range, with the name or without it.
  #shares(i, key) {
    try {
      return this.#indicator(i, key);
    } catch (error) {
      const short = key.trim().match(/^([<>]=?)(.*)$/s);
      const found = short ? { i, range: this.#range(i, [[short[1], short[2]]]) } : /[<>]/.test(key) ? this.#condition(key) : null;
      if (found?.i !== i || !found.range) throw error;
      return sharesBetween(this.columns[i], ...found.range);
    }
  }
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

// A number, or a date in the unit of the bins: days or seconds since 1970.
function numberOf(column, text) {
  if (column.dates) {
    const day = text.replace(/^(\d{4}-\d\d-\d\d) /, "$1T");
    const stamp = Date.parse(/T[^Z+-]*$/.test(day) ? `${day}Z` : day) / 1000;
    const seconds = /^\d{4}-\d\d-\d\d/.test(text) ? stamp : NaN;
    if (Number.isNaN(seconds)) throw new Error(`“${text}” is not a date, and ${column.name} has dates; write it as 2024-12-31.`);
    return seconds / column.unit;
  }
  const x = text === "" ? NaN : Number(text);
  if (Number.isNaN(x)) throw new Error(`“${text}” is not a number, and ${column.name} has numbers.`);
  return x;
}
