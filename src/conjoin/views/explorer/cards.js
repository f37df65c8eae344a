// The columns as cards, in a list of any length: only the cards in view exist.
"use strict";

const ROW = 27; // heights in pixels; page.css has the same
const HEAD = 44;
const FOOT = 12;
const HISTOGRAM = 132;
const SUMMARY = 20;
const GAP = 14;
const MAX_ROWS = 12; // columns with more states show the most probable ones, until they are opened
const FEW_ROWS = 8;

// The parts of a bar: what stayed, what was gained and what was lost.
function setBar(bar, before, after, scale, table, vertical) {
  const [keep, gain, loss, tick] = bar.children;
  const [start, size] = vertical ? ["bottom", "height"] : ["left", "width"];
  const share = (x) => `${Math.min(100, 100 * x / scale).toFixed(2)}%`;
  keep.style[size] = share(Math.min(before, after));
  gain.style[start] = share(before);
  gain.style[size] = share(Math.max(0, after - before));
  loss.style[start] = share(after);
  loss.style[size] = share(Math.max(0, before - after));
  tick.hidden = table === undefined;
  if (table !== undefined) tick.style[start] = share(table);
}

const emptyBar = () => element("span", { class: "bar", "aria-hidden": "true" },
  element("i", { class: "keep" }), element("i", { class: "gain" }), element("i", { class: "loss" }), element("i", { class: "tick" }));

// How the distribution of a state changed, for a screen reader and as a tooltip.
function spoken(state, before, after, table, rows, other = "before") {
  const was = Math.abs(before - after) > 5e-5 ? `, ${other} ${percent(before)}` : "";
  const seen = table === undefined ? "" : `; in the table of ${rows.toLocaleString("en")} rows ${percent(table)}`;
  return `${state}: ${percent(after)}${was}${seen}`;
}

// One column.
class Card {
  constructor(list, index) {
    this.list = list;
    this.index = index;
    this.column = list.explorer.model.columns[index];
    const title = `name-${index}`;
    this.movement = element("span", { class: "movement" });
    this.pin = element("button", { class: "icon", "aria-label": `Pin ${this.column.name} as the target`, title: "Pin as the target (t)" });
    this.pin.addEventListener("click", () => this.list.explorer.togglePin(this.index));
    const more = element("button", { class: "icon", text: "⋯", "aria-haspopup": "menu", "aria-label": `Menu of ${this.column.name}`, title: "Menu" });
    more.addEventListener("click", () => this.#menu(more, -1));
    this.states = element("div", {
      class: this.column.kind !== "number" ? "states" : this.column.states.length > 9 ? `histogram narrow${this.column.states.length > 40 ? " dense" : ""}` : "histogram",
      role: "listbox",
      "aria-multiselectable": "true",
      "aria-orientation": this.column.kind === "number" ? "horizontal" : "vertical",
      "aria-labelledby": title,
    });
    this.root = element("article", { class: "card", "data-column": index, "aria-labelledby": title },
      element("header", {}, element("h3", { id: title, text: this.column.name, title: this.column.name }), this.movement, this.pin, more),
      this.states);
    this.#listen();
    this.shape = "";
  }

  // Create the rows (or bins) that are to be shown.
  #build(shown, hidden) {
    const { column } = this;
    this.states.replaceChildren();
    this.rows = new Map();
    for (const state of shown) {
      const bar = emptyBar();
      const value = element("span", { class: "value" });
      const row = element("div", { class: "state", role: "option", tabindex: "-1", "data-state": state },
        element("span", { class: "label", text: column.states[state] || "∅" }), bar, value);
      this.rows.set(state, { row, bar, value });
      this.states.append(row);
    }
    this.root.querySelectorAll(".axis, .scale, .summary, .open").forEach((old) => old.remove());
    if (column.kind === "number") {
      this.states.before(this.top = element("p", { class: "scale quiet", "aria-hidden": "true", hidden: !this.states.classList.contains("narrow") }));
      this.root.append(this.#axis());
    }
    if (column.extent) this.root.append(this.summary = element("p", { class: "summary quiet" }));
    if (hidden || this.list.open.has(this.index)) {
      const open = element("button", { class: "open plain", text: hidden ? `${hidden} more states` : "Fewer states" });
      open.addEventListener("click", () => this.list.toggleOpen(this.index));
      this.root.append(open);
    }
    this.#focusable();
  }

  #axis() {
    const { column } = this;
    const axis = element("div", { class: "axis", "aria-hidden": "true" });
    const single = (i) => Boolean(column.values) || (column.singles?.[i] ?? null) !== null;
    const all = column.dates ?? column.values ?? column.cuts.map((x, i) => Number(column.starts?.[i] || x));
    const marks = all.map((x, i) => [single(i) ? i + 0.5 : i, x]).filter(([, x], i) => !(i === column.states.length && single(i - 1)));
    const texts = column.dates ? marks.map(([, x]) => x) : axisTexts(marks.map(([, x]) => x));
    const longest = Math.max(...texts.map((text) => text.length));
    const room = Math.max(2, Math.min(7, Math.floor(36 / (longest + 2)))); // marks that fit side by side
    const step = Math.ceil(marks.length / room);
    marks.forEach(([at], i) => {
      if (i % step) return;
      const mark = element("span", { text: texts[i] });
      mark.style.left = `${100 * at / column.states.length}%`;
      axis.append(mark);
    });
    return axis;
  }

  #focusable() {
    const rows = [...this.states.children];
    const current = rows.find((row) => row.tabIndex === 0);
    if (!current && rows.length) rows[0].tabIndex = 0;
  }

  update() {
    const { explorer } = this.list;
    const { before, after, store, model } = explorer;
    const { shown, hidden } = this.list.visibleStates(this.index);
    const shape = `${shown.join()}|${hidden}`;
    if (shape !== this.shape) {
      const held = this.states.contains(document.activeElement) ? document.activeElement.dataset.state : null;
      this.#build(shown, hidden);
      this.shape = shape;
      if (held !== null) this.rows.get(Number(held))?.row.focus({ preventScroll: true });
    }
    const piece = store.evidence.get(this.index);
    const likelihood = piece ? likelihoodOf(piece, this.column) : null;
    const p = before[this.index];
    const q = after ? after[this.index] : p;
    const scale = this.column.kind === "number" ? Math.max(...p, ...q, 0.02) : 1;
    if (this.column.kind === "number") this.top.textContent = percent(scale);
    const table = store.evidence.size || store.now.base ? undefined : this.column.table;
    for (const [state, { row, bar, value }] of this.rows) {
      setBar(bar, p[state], q[state], scale, table?.[state], this.column.kind === "number");
      value.textContent = percent(q[state]);
      const change = q[state] - p[state];
      value.dataset.change = change > 5e-4 ? "up" : change < -5e-4 ? "down" : "";
      const words = spoken(this.column.states[state], p[state], q[state], table?.[state], model.rows, explorer.beforeWord);
      row.setAttribute("aria-label", words);
      row.title = words;
      row.setAttribute("aria-selected", String(Boolean(likelihood) && piece.kind !== "not" && likelihood[state] > 0));
      row.classList.toggle("excluded", Boolean(likelihood) && likelihood[state] === 0);
      row.classList.toggle("soft", piece?.kind === "soft");
    }
    if (this.column.extent) this.summary.textContent = this.summary.title = explorer.numberText(this.index);
    const distance = after ? moved(p, q) : 0;
    this.movement.textContent = piece ? "known" : distance >= 5e-4 ? `${percent(distance).replace("%", "")} pts` : "";
    this.movement.title = piece ? "You have set this column" : "Percentage points of probability that moved";
    this.root.classList.toggle("evident", Boolean(piece));
    const pinned = store.target === this.index;
    this.root.classList.toggle("pinned", pinned);
    this.pin.textContent = pinned ? "★" : "☆";
    this.pin.setAttribute("aria-pressed", String(pinned));
  }

  #stateAt(event) {
    const row = event.target.closest?.("[role=option]");
    return row && this.states.contains(row) ? Number(row.dataset.state) : -1;
  }

  #listen() {
    const { states, index } = this;
    const { store } = this.list.explorer;
    states.addEventListener("contextmenu", (event) => {
      const state = this.#stateAt(event);
      if (state < 0) return;
      event.preventDefault();
      this.#menu(this.rows.get(state).row, state, event);
    });
    states.addEventListener("keydown", (event) => this.#key(event));
    if (this.column.kind === "number") this.#drag();
    else {
      states.addEventListener("click", (event) => {
        const state = this.#stateAt(event);
        if (state < 0) return;
        if (event.shiftKey || event.ctrlKey || event.metaKey) store.toggle(index, state);
        else store.choose(index, state);
      });
    }
  }

  // Drag over the bins of a number to choose a range.
  #drag() {
    const { states, index } = this;
    const { store } = this.list.explorer;
    let from = -1;
    let to = -1;
    const mark = () => this.rows.forEach(({ row }, state) =>
      row.classList.toggle("dragged", from >= 0 && state >= Math.min(from, to) && state <= Math.max(from, to)));
    states.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = to = this.#stateAt(event);
      mark();
    });
    states.addEventListener("pointermove", (event) => {
      if (from < 0) return;
      const over = this.#stateAt({ target: document.elementFromPoint(event.clientX, event.clientY) ?? states });
      if (over >= 0) to = over;
      mark();
    });
    const end = (event) => {
      if (from < 0) return;
      const [a, b] = [Math.min(from, to), Math.max(from, to)];
      from = to = -1;
      mark();
      if (event.type === "pointercancel") return;
      if (a === b && (event.shiftKey || event.ctrlKey || event.metaKey)) store.toggle(index, a);
      else if (a === b) store.choose(index, a);
      else store.set(index, { kind: "in", states: Array.from({ length: b - a + 1 }, (_, k) => a + k) });
    };
    states.addEventListener("pointerup", end);
    states.addEventListener("pointercancel", end);
    window.addEventListener("pointerup", (event) => { if (!states.contains(event.target)) end(event); }, { signal: this.list.signal(this) });
  }

  #key(event) {
    const state = this.#stateAt(event);
    if (state < 0 || event.altKey) return;
    const { store } = this.list.explorer;
    const rows = [...this.states.children];
    const at = rows.indexOf(this.rows.get(state).row);
    const go = (to) => {
      rows.forEach((row, i) => { row.tabIndex = i === to ? 0 : -1; });
      rows[to].focus();
    };
    const next = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    const command = event.ctrlKey || event.metaKey;
    if (next !== undefined) {
      const to = Math.max(0, Math.min(rows.length - 1, next));
      if (event.shiftKey && this.column.kind === "number" && to !== at) store.toggle(this.index, Number(rows[to].dataset.state));
      go(to);
    } else if (event.key === "Enter" || event.key === " ") {
      if (event.shiftKey || command) store.toggle(this.index, state);
      else store.choose(this.index, state);
    } else if (!command && (event.key === "n" || event.key === "Delete")) store.exclude(this.index, state);
    else if (!command && event.key === "t") this.list.explorer.togglePin(this.index);
    else if (!command && (event.key === "m" || event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey))) this.#menu(rows[at], state);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #menu(anchor, state, event) {
    const { explorer } = this.list;
    const { store } = explorer;
    const { index, column } = this;
    const items = [];
    if (state >= 0) {
      items.push(
        [`Set to ${column.states[state]}`, () => store.set(index, { kind: "in", states: [state] }), "Enter"],
        [`One of: add or remove ${column.states[state]}`, () => store.toggle(index, state), "Shift+Enter"],
        [`Not ${column.states[state]}`, () => store.exclude(index, state), "n"],
      );
    }
    items.push(["Soft evidence …", () => softDialog(explorer, index)]);
    if (store.evidence.has(index)) items.push(["Clear", () => store.set(index, null)]);
    items.push([store.target === index ? "Unpin the target" : "Pin as the target", () => explorer.togglePin(index), "t"]);
    items.push(["Show in the graph", () => explorer.showInGraph(index)]);
    explorer.menu.open(items, anchor, event);
  }
}

// Soft evidence: how well what was seen fits each state.
function softDialog(explorer, index) {
  const column = explorer.model.columns[index];
  const piece = explorer.store.evidence.get(index);
  const start = piece ? Array.from(likelihoodOf(piece, column)) : column.states.map(() => 1);
  const most = Math.max(...start);
  const inputs = start.map((x, s) => element("input", { type: "range", min: 0, max: 100, step: 1, value: Math.round(100 * x / most), "aria-label": `Fit with ${column.states[s]}` }));
  const outputs = inputs.map((input) => element("output", { text: input.value }));
  inputs.forEach((input, s) => input.addEventListener("input", () => { outputs[s].textContent = input.value; }));
  explorer.ask(`Soft evidence on ${column.name}`, [
    element("p", { class: "quiet", text: "How well does what you have seen fit each state? Only the ratios count: 80 and 20 mean that it is four times as likely in the first state." }),
    element("div", { class: "sliders" }, ...column.states.flatMap((state, s) => [element("span", { text: state, title: state }), inputs[s], outputs[s]])),
  ], "Set", () => explorer.store.set(index, { kind: "soft", weights: inputs.map((input) => Number(input.value) / 100) }));
}

// All cards: their order, their places, and which of them exist.
class CardList {
  constructor(explorer, root, note) {
    this.explorer = explorer;
    this.root = root;
    this.note = note;
    this.cards = new Map(); // the cards that exist
    this.open = new Set(); // columns that show all their states
    this.query = "";
    this.only = null; // a few columns to show, by choice of a pair
    this.order = explorer.model.columns.map((_, i) => i);
    this.places = [];
    this.ended = new Map();
    this.texts = explorer.model.columns.map((column) => [column.name, ...column.states].map((text) => text.toLowerCase()));
    window.addEventListener("scroll", () => this.#soon(), { passive: true });
    new ResizeObserver(() => { this.#measure(); this.arrange(); }).observe(root);
    this.#measure();
  }

  signal(card) {
    const ended = new AbortController();
    this.ended.set(card.index, ended);
    return ended.signal;
  }

  // Where the list is in the window. To ask while the page changes would cost a layout each time.
  #measure() {
    this.top = this.root.getBoundingClientRect().top;
    this.width = this.root.clientWidth;
  }

  #soon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.#measure(); this.#show(); });
  }

  // The states that a card shows, and how many it does not.
  visibleStates(index) {
    const column = this.explorer.model.columns[index];
    const all = column.states.map((_, s) => s);
    if (column.kind === "number" || all.length <= MAX_ROWS || this.open.has(index)) return { shown: all, hidden: 0 };
    const p = (this.explorer.after ?? this.explorer.before)[index];
    const piece = this.explorer.store.evidence.get(index);
    const matches = this.query ? (s) => this.texts[index][s + 1].includes(this.query) : () => false;
    const rank = (s) => (matches(s) ? 4 : 0) + (piece?.states?.includes(s) ? 2 : 0) + p[s];
    const shown = all.sort((a, b) => rank(b) - rank(a) || a - b).slice(0, FEW_ROWS).sort((a, b) => a - b);
    return { shown, hidden: column.states.length - shown.length };
  }

  #height(index) {
    const column = this.explorer.model.columns[index];
    if (column.kind === "number") return HEAD + HISTOGRAM + (column.extent ? SUMMARY : 0) + FOOT;
    const { shown, hidden } = this.visibleStates(index);
    const button = hidden || this.open.has(index) ? ROW : 0;
    return HEAD + shown.length * ROW + button + FOOT;
  }

  toggleOpen(index) {
    if (!this.open.delete(index)) this.open.add(index);
    this.arrange();
  }

  #sorted() {
    const { model, store, before, after } = this.explorer;
    const wanted = document.getElementById("sort").value;
    const columns = model.columns.map((_, i) => i);
    const query = this.query;
    const found = columns.filter((i) => (this.only ? this.only.includes(i) : !query || this.texts[i].some((text) => text.includes(query))));
    const known = [...store.evidence.keys()];
    const now = after ?? before;
    if (query) {
      const named = (i) => (this.texts[i][0].startsWith(query) ? 0 : this.texts[i][0].includes(query) ? 1 : 2);
      return found.sort((a, b) => named(a) - named(b) || a - b);
    }
    // Known columns come first, in the order in which they were set.
    const free = found.filter((i) => !store.evidence.has(i));
    const keys = {
      name: null,
      uncertain: (i) => -entropy(now[i]),
      moved: (i) => (after ? -Math.round(1e4 * moved(before[i], after[i])) : 0),
      table: () => 0,
    };
    if (wanted === "name") free.sort((a, b) => model.columns[a].name.localeCompare(model.columns[b].name, "en", { numeric: true }) || a - b);
    else {
      const key = free.map(keys[wanted]);
      const place = new Map(free.map((i, k) => [i, key[k]]));
      free.sort((a, b) => place.get(a) - place.get(b) || a - b);
    }
    return [...known.filter((i) => found.includes(i)), ...free];
  }

  // Sort the columns and place their cards, each below the shortest stack.
  arrange() {
    this.order = this.#sorted();
    const total = this.explorer.model.columns.length;
    const { width } = this;
    const stacks = Math.max(1, Math.floor((width + GAP) / (268 + GAP)));
    const size = (width - (stacks - 1) * GAP) / stacks;
    const heights = new Array(stacks).fill(0);
    this.places = this.order.map((index) => {
      const stack = heights.indexOf(Math.min(...heights));
      const height = this.#height(index);
      const place = { index, x: stack * (size + GAP), y: heights[stack], width: size, height };
      heights[stack] += height + GAP;
      return place;
    });
    this.root.style.height = `${Math.max(0, ...heights)}px`;
    const part = this.order.length < total;
    this.note.replaceChildren();
    this.note.hidden = !part;
    if (part) {
      this.note.append(this.order.length ? `${this.order.length.toLocaleString("en")} of ${total.toLocaleString("en")} columns. ` : "No column or state has this name. ");
      this.note.append(element("button", { class: "plain", text: "Show all", onclick: () => this.explorer.search("") }));
    }
    this.#show();
  }

  // Create the cards that come into view, update all that exist, and remove the others.
  #show() {
    const low = -this.top - 300;
    const high = -this.top + window.innerHeight + 300;
    const wanted = this.places.filter(({ y, height }) => y + height > low && y < high);
    const keep = new Set(wanted.map(({ index }) => index));
    const focused = document.activeElement?.closest?.(".card")?.dataset.column;
    if (focused !== undefined && this.order.includes(Number(focused)) && !keep.has(Number(focused))) {
      wanted.push(this.places.find(({ index }) => index === Number(focused)));
      keep.add(Number(focused));
    }
    for (const [index, card] of this.cards) {
      if (keep.has(index)) continue;
      card.root.remove();
      this.ended.get(index)?.abort();
      this.cards.delete(index);
    }
    let last = null;
    for (const { index, x, y, width, height } of wanted) {
      let card = this.cards.get(index);
      const fresh = !card;
      if (fresh) {
        card = new Card(this, index);
        card.root.classList.add("fresh");
        this.cards.set(index, card);
      }
      const { root } = card;
      root.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
      root.style.width = `${width.toFixed(1)}px`;
      root.style.height = `${height}px`;
      const expected = last ? last.nextSibling : this.root.firstChild;
      if (expected !== root) {
        const held = root.contains(document.activeElement) ? document.activeElement : null;
        this.root.insertBefore(root, expected); // reading order is the order on the page
        held?.focus({ preventScroll: true });
      }
      last = root;
      card.update();
      if (fresh) requestAnimationFrame(() => root.classList.remove("fresh"));
    }
  }

  // Bring a column into view.
  reveal(index) {
    if (!this.order.includes(index)) this.explorer.search("");
    const place = this.places.find((one) => one.index === index);
    const top = this.root.getBoundingClientRect().top + window.scrollY;
    window.scrollTo(0, Math.max(0, top + place.y - window.innerHeight / 3));
    this.#measure();
    this.#show();
    const { root, states } = this.cards.get(index);
    states.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
    root.classList.add("found");
    setTimeout(() => root.classList.remove("found"), 1500);
  }
}
