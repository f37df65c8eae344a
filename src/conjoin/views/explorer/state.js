// What the user has set: evidence, the pinned target, and the way back.
"use strict";

// Text as part of an address; half characters, which have no encoding, are replaced.
const encoded = (text) => encodeURIComponent(text.toWellFormed ? text.toWellFormed() : text);

const samePiece = (a, b) => JSON.stringify(a) === JSON.stringify(b);

class Store {
  constructor(columns) {
    this.columns = columns;
    // evidence and base: column -> piece; the base is what the evidence is compared with, null for nothing known
    this.now = { evidence: new Map(), target: -1, focus: -1, base: null };
    this.past = [];
    this.future = [];
    this.listeners = [];
  }

  get evidence() { return this.now.evidence; }

  get target() { return this.now.target; }

  listen(listener) { this.listeners.push(listener); }

  #tell() { this.listeners.forEach((listener) => listener()); }

  #change(next) {
    this.past.push(this.now);
    this.future = [];
    this.now = next;
    this.#tell();
  }

  undo() {
    if (!this.past.length) return;
    this.future.push(this.now);
    this.now = this.past.pop();
    this.#tell();
  }

  redo() {
    if (!this.future.length) return;
    this.past.push(this.now);
    this.now = this.future.pop();
    this.#tell();
  }

  // Set the evidence on one column; null removes it.
  set(column, piece) { this.setAll(new Map([[column, piece]])); }

  // The same on several columns.
  setAll(pieces) {
    const evidence = new Map(this.evidence);
    let changed = false;
    for (const [column, piece] of pieces) {
      const tidy = this.#tidy(column, piece);
      if (samePiece(this.evidence.get(column) ?? null, tidy)) continue;
      changed = true;
      evidence.delete(column);
      if (tidy) evidence.set(column, tidy); // the column that was set last is the last one
    }
    if (changed) this.#change({ ...this.now, evidence });
  }

  // Evidence that says nothing is none; states are sorted.
  #tidy(column, piece) {
    if (!piece) return null;
    const size = this.columns[column].states.length;
    if (piece.kind === "marginal" || piece.value !== undefined) return piece;
    if (piece.kind === "soft") {
      const most = Math.max(...piece.weights);
      return most > 0 && piece.weights.some((x) => x !== most) ? piece : null;
    }
    if (piece.words) return piece.states.length < size ? piece : null;
    const states = [...new Set(piece.states)].sort((a, b) => a - b);
    if (!states.length || states.length >= size) return null;
    if (piece.kind === "not" && states.length > 1) {
      return { kind: "in", states: Array.from({ length: size }, (_, s) => s).filter((s) => !states.includes(s)) };
    }
    return { kind: piece.kind, states };
  }

  // A click on a state: set it, or take it back.
  choose(column, state) {
    const piece = this.evidence.get(column);
    const again = piece?.kind === "in" && piece.states.length === 1 && piece.states[0] === state;
    this.set(column, again ? null : { kind: "in", states: [state] });
  }

  // A shift-click: add a state to "one of", or take it away.
  toggle(column, state) {
    const piece = this.evidence.get(column);
    const before = piece?.kind === "in" ? piece.states : [];
    const states = before.includes(state) ? before.filter((s) => s !== state) : [...before, state];
    this.set(column, { kind: "in", states });
  }

  exclude(column, state) {
    const piece = this.evidence.get(column);
    if (piece?.kind === "in" && piece.states.length > 1) this.set(column, { kind: "in", states: piece.states.filter((s) => s !== state) });
    else if (piece?.kind === "not" && !piece.states.includes(state)) this.set(column, { kind: "not", states: [...piece.states, state] });
    else this.set(column, { kind: "not", states: [state] });
  }

  clear() {
    if (this.evidence.size) this.#change({ ...this.now, evidence: new Map() });
  }

  // Compare whatever is known next with what is known now; null compares with nothing known.
  compare(base) {
    if (base !== this.now.base) this.#change({ ...this.now, base });
  }

  // Exchange what is known and what it is compared with.
  swap() { this.#change({ ...this.now, evidence: this.now.base, base: this.evidence }); }

  // Pin a column, or unpin it with -1; `focus` is the state that is explained, -1 for the most probable.
  pin(column, focus = -1) {
    if (column !== this.now.target || focus !== this.now.focus) {
      this.#change({ ...this.now, target: column, focus });
    }
  }

  // The part of the address after #: name=state, name=in:a,b, name=not:a, name=soft:1,0.5, name=words:age>40,
  // /target=name:state, and /compare with /A:name=state for what it is compared with. Names and states are percent-encoded; a state whose text is not unique is written @number.
  get address() {
    const parts = this.#addressOf(this.evidence);
    if (this.now.base) parts.push("/compare", ...this.#addressOf(this.now.base).map((part) => `/A:${part}`));
    if (this.target >= 0) {
      const column = this.columns[this.target];
      const focus = this.now.focus >= 0 ? `:${stateKey(column, this.now.focus)}` : "";
      parts.push(`/target=${encoded(column.name)}${focus}`);
    }
    return parts.join("&");
  }

  #addressOf(evidence) {
    return [...evidence].map(([i, piece]) => {
      const column = this.columns[i];
      if (piece.words) return `${encoded(column.name)}=words:${encoded(piece.words)}`;
      const states = piece.kind === "soft"
        ? piece.weights.map((x) => +x.toPrecision(6)) : piece.states.map((s) => stateKey(column, s));
      const kind = piece.kind === "in" && states.length === 1 ? "" : `${piece.kind}:`;
      return `${encoded(column.name)}=${kind}${states.join(",")}`;
    });
  }

  // Read an address; parts that do not fit the model are ignored, and their number is returned.
  set address(text) {
    const places = new Map(this.columns.map((column, i) => [column.name, i]));
    const next = { evidence: new Map(), target: -1, focus: -1, base: null };
    this.ignored = 0;
    for (const part of text.split("&").filter(Boolean)) {
      try {
        this.#read(part, places, next);
      } catch {
        this.ignored += 1;
      }
    }
    if (this.address !== this.#written(next)) this.#change(next);
  }

  #written(next) {
    const current = this.now;
    this.now = next;
    const text = this.address;
    this.now = current;
    return text;
  }

  #read(part, places, next) {
    if (part === "/compare" || part.startsWith("/A:")) {
      next.base ??= new Map();
      if (part !== "/compare") this.#read(part.slice(3), places, { ...next, evidence: next.base });
      return;
    }
    const cut = part.indexOf("=");
    const key = part.slice(0, cut);
    const [head, tail] = part.slice(cut + 1).split(":");
    const place = (name) => {
      const i = places.get(decodeURIComponent(name));
      if (i === undefined) throw new Error("no such column");
      return i;
    };
    if (key === "/target") {
      next.target = place(head);
      if (tail !== undefined) next.focus = stateOf(this.columns[next.target], tail);
      return;
    }
    const i = place(key);
    const column = this.columns[i];
    let piece;
    if (tail === undefined) piece = { kind: "in", states: [stateOf(column, head)] };
    else if (head === "soft") {
      const weights = tail.split(",").map(Number);
      const fine = weights.length === column.states.length && weights.every((x) => x >= 0 && x < Infinity);
      if (!fine) throw new Error("wrong weights");
      piece = { kind: "soft", weights };
    } else if (head === "in" || head === "not") {
      piece = { kind: head, states: tail.split(",").map((text) => stateOf(column, text)) };
    } else if (head === "words") piece = new ConditionReader(this.columns).read(decodeURIComponent(tail)).get(i);
    else throw new Error("unknown kind");
    piece = this.#tidy(i, piece);
    if (piece) next.evidence.set(i, piece);
  }
}

function stateKey(column, state) {
  const text = column.states[state];
  const unique = column.states.filter((other) => other === text).length === 1;
  return unique ? encoded(text) : `@${state}`;
}

function stateOf(column, text) {
  const state = text.startsWith("@") ? Number(text.slice(1)) : column.states.indexOf(decodeURIComponent(text));
  if (!Number.isInteger(state) || state < 0 || state >= column.states.length) throw new Error("no such state");
  return state;
}
