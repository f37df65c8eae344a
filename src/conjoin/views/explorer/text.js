// Numbers and evidence in words, and as Python and the command line write them.
"use strict";

// A probability as a percentage with as many digits as one cares to read.
function percent(p) {
  if (p < 1e-12) return "0%";
  if (p > 1 - 1e-12) return "100%";
  const x = 100 * p;
  if (x < 0.01) return "<0.01%";
  if (x > 99.99) return ">99.99%";
  if (x < 0.995 || x >= 99.5) return `${x.toFixed(2)}%`;
  return `${x.toFixed(x < 9.95 || x >= 99 ? 1 : 0)}%`;
}

// The probability of the evidence, from its logarithm.
function oneIn(log) {
  const p = Math.exp(log);
  if (p >= 0.1) return percent(p);
  const n = Math.exp(-log);
  if (n < 1e6) return `1 in ${Number(n.toPrecision(n < 100 ? 2 : 3)).toLocaleString("en")}`;
  const power = -log / Math.LN10;
  return `1 in ${(10 ** (power % 1)).toFixed(1)} × 10${superscript(Math.floor(power))}`;
}

const superscript = (n) => String(n).replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);

// A factor of odds: "×3.2" or "÷3.2".
function times(logOdds) {
  if (Math.abs(logOdds) === Infinity) return logOdds > 0 ? "decides it" : "rules it out";
  const factor = Math.exp(Math.abs(logOdds));
  const digits = factor < 10 ? factor.toFixed(1) : factor < 1e4 ? Math.round(factor).toLocaleString("en") : factor.toExponential(0);
  if (digits === "1.0") return "×1.0";
  return `${logOdds > 0 ? "×" : "÷"}${digits}`;
}

const number = (x) => String(+x.toPrecision(15));

// Numbers along an axis in few digits, as many as tell each from the next.
function axisTexts(numbers) {
  return numbers.map((x, i) => {
    const gaps = [numbers[i - 1], numbers[i + 1]].filter((y) => y !== undefined).map((y) => Math.abs(x - y));
    const large = Math.abs(x) >= 1e4;
    let digits = large ? 3 : 4;
    while (digits < 15 && Math.abs(+x.toPrecision(digits) - x) > Math.min(...gaps) / 10) digits += 1;
    if (large) return new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: digits }).format(x);
    const rounded = +x.toPrecision(digits);
    return x !== 0 && Math.abs(x) < 1e-3 ? rounded.toExponential() : String(rounded);
  });
}

// The first and last state of a run of states of a number that conditions can write as a range, else null.
function run({ kind, starts, absent, states: all }, states) {
  const [first, last] = [states[0], states[states.length - 1]];
  if ((absent && last === all.length - 1) || kind !== "number" || states.length < 2 || last - first !== states.length - 1) return null;
  return starts && (starts[first] === null || starts[last + 1] === null) ? null : [first, last];
}

// A name or a state as conditions write it: in double quotes where that is needed.
function label(text) {
  const special = /[,"={}<>!]|^\s|\s$|^$|\b(and|in|likelihood|marginal)\b/;
  return special.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// A piece of evidence as a condition that Python and the command line read.
function condition(column, piece) {
  if (piece.words) return piece.words;
  const name = label(column.name);
  const ends = piece.kind === "in" ? run(column, piece.states) : null;
  if (piece.kind === "soft") {
    const listed = piece.weights.map((x, s) => `${label(column.states[s])}: ${+x.toPrecision(12)}`);
    return `${name} likelihood {${listed.join(", ")}}`;
  }
  const states = piece.states.map((s) => label(column.states[s]));
  if (piece.kind === "not") return `${name} != ${states[0]}`;
  if (states.length === 1) return `${name}=${states[0]}`;
  if (!ends) return `${name} in {${states.join(", ")}}`;
  return rangeText(column, name, ends);
}

function rangeText(column, name, [first, last]) {
  const cuts = column.starts ?? column.values.map(number);
  const [low, high] = [cuts[first], cuts[column.cuts ? last + 1 : last]];
  const equal = column.starts && !column.step ? "" : "="; // whether a state begins with its first value
  const below = column.cuts ? "<" : "<=";
  const greatest = column.states.length - (column.absent ? 2 : 1);
  if (first === 0 && last === greatest) return `${name} is known`;
  if (first === 0) return `${name} ${below} ${high}`;
  if (last === greatest) return `${name} >${equal} ${low}`;
  return `${low} <${equal} ${name} ${below} ${high}`;
}

// The same in the words of a chip.
function chipText(column, piece, byState = true) {
  if (piece.words) return chipOf(column, piece.words, byState && piece.value !== undefined ? column.states[piece.states[0]] : "");
  if (piece.kind === "soft") {
    const best = piece.weights.indexOf(Math.max(...piece.weights));
    return { name: column.name, text: `≈ ${column.states[best]}` };
  }
  const states = piece.states.map((s) => column.states[s]);
  if (piece.kind === "not") return { name: column.name, text: `≠ ${states[0]}` };
  if (states.length === 1) return { name: column.name, text: `= ${states[0]}` };
  const ends = run(column, piece.states);
  if (ends) return chipOf(column, rangeText(column, label(column.name), ends), "");
  return { name: column.name, text: `∈ {${states.join(", ")}}` };
}

// A condition as a chip, and the interval that it stands for in brackets, if that says more.
function chipOf(column, words, interval) {
  const name = label(column.name);
  const at = words.indexOf(name);
  const signs = { "<=": " ≤ ", ">=": " ≥ ", "==": " = ", "!=": " ≠ " };
  const pretty = (part) => part.replace(/\s*([<>=!]=|[<>=])\s*/g, (_, sign) => signs[sign] ?? ` ${sign} `).trim();
  const wider = interval && !words.includes(interval) ? ` (${interval})` : "";
  return { name: column.name, text: pretty(words.slice(at + name.length)) + wider, before: pretty(words.slice(0, Math.max(0, at))) };
}

// A chip on one line.
function pieceText(column, piece, byState = true) {
  const { name, text, before } = chipText(column, piece, byState);
  return `${before ? `${before} ` : ""}${name} ${text}`;
}

const conditions = (store) => [...store.evidence].map(([i, piece]) => condition(store.columns[i], piece)).join(", ");

const pythonText = (text) => JSON.stringify(text.toWellFormed ? text.toWellFormed() : text)
  .replace(/[\u007f-\u009f\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

// Python that asks the same question.
function asPython(store, file) {
  const pieces = [...store.evidence];
  const plain = pieces.every(([i, piece]) => piece.kind === "in" && piece.states.length === 1 && !piece.words);
  const given = plain
    ? `{${pieces.map(([i, { states }]) => `${pythonText(store.columns[i].name)}: ${store.columns[i].python[states[0]]}`).join(", ")}}`
    : pythonText(conditions(store));
  const targets = store.target >= 0 ? `, targets=[${pythonText(store.columns[store.target].name)}]` : "";
  const known = pieces.length || targets ? `, ${given}` : "";
  return `import conjoin as cj\n\nmodel = cj.load(${pythonText(file)})\nprint(cj.marginals(model${known}${targets}))\n`;
}

const shellText = (text) => (/^[\w.\/+:@%=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// The command that asks the same question.
function asCommand(store, file) {
  const given = store.evidence.size ? ` --given ${shellText(conditions(store))}` : "";
  const target = store.target >= 0 ? ` --target ${shellText(store.columns[store.target].name)}` : "";
  return `conjoin query ${shellText(file)}${given}${target}`;
}

const csvCell = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvText = (lines) => lines.map((line) => line.map((text) => csvCell(String(text))).join(",")).join("\n") + "\n";

// Make an element: element("p", { class: "quiet", text: "..." }, child, ...). Text is never markup.
function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "rect", "text", "title", "path"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
