// The page: reads the model, computes answers when the evidence changes, and tells all parts.
"use strict";

const MIDDLE = "(min-width: 48.01rem) and (max-width: 70rem)"; // the target is a tab, as in page.css

const byId = (id) => document.getElementById(id);

// A menu beside an element, or at the pointer.
class Menu {
  constructor(root) {
    this.root = root;
    document.addEventListener("pointerdown", (event) => { if (!root.contains(event.target)) this.close(); });
    window.addEventListener("scroll", () => this.close(), { passive: true });
    root.addEventListener("keydown", (event) => this.#key(event));
  }

  // `items` are [text, action, key], and the key is only shown.
  open(items, anchor, event) {
    this.anchor = anchor;
    this.root.replaceChildren(...items.map(([text, act, key]) => element("button", {
      role: "menuitem", tabindex: "-1", onclick: () => { this.close(); act(); },
    }, element("span", { text }), key ? element("kbd", { text: key }) : null)));
    this.root.hidden = false;
    const box = anchor.getBoundingClientRect();
    const at = event ? [event.clientX, event.clientY] : [box.left, box.bottom + 4];
    const { offsetWidth, offsetHeight } = this.root;
    this.root.style.left = `${Math.max(8, Math.min(at[0], window.innerWidth - offsetWidth - 8))}px`;
    this.root.style.top = `${Math.max(8, Math.min(at[1], window.innerHeight - offsetHeight - 8))}px`;
    this.root.firstChild.focus({ preventScroll: true });
  }

  close() {
    if (this.root.hidden) return;
    const inside = this.root.contains(document.activeElement);
    this.root.hidden = true;
    if (inside) this.anchor.focus?.({ preventScroll: true });
  }

  #key(event) {
    const items = [...this.root.children];
    const at = items.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) items[(at + step + items.length) % items.length].focus();
    else if (event.key === "Escape" || event.key === "Tab") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// Work in small steps: `await next()` lets the page breathe, and is false once newer work has begun.
class Steps {
  constructor(explorer, name) {
    this.current = () => explorer.running[name] === this;
    explorer.running[name] = this;
  }

  async next() {
    await new Promise((resolve) => { setTimeout(resolve); });
    return this.current();
  }
}

class Explorer {
  constructor(model, numbers, trees) {
    this.model = model;
    this.running = {};
    const take = reader(numbers);
    this.tree = new JunctionTree(model.tree, take);
    model.columns.filter(({ extent }) => extent).forEach((column) => prepareNumbers(column, take));
    const fine = model.fine && new FineNumbers(model.fine, model.columns, take);
    const chain = model.chain && new Chain(model.chain, model.columns, this.tree, reader(Int16Array.from(trees, (x) => (x >> 1) ^ -(x & 1))));
    this.answers = new Answers(this.tree, model.columns, fine, chain);
    this.store = new Store(model.columns);
    this.prior = this.answers.marginals(new Map()).marginals;
    this.before = this.after = this.prior;
    this.log = 0;
    byId("title").textContent = model.title;
    byId("title").title = model.title;
    byId("app").hidden = false;
    const example = condition(model.columns[0], { kind: "in", states: [model.columns[0].states.length - 1] });
    if (byId("search").clientWidth < 240) byId("search").placeholder = "Search, or type a condition";
    else if (example.length <= 14) byId("search").placeholder = `Search, or type  ${example}  ( / )`;
    this.menu = new Menu(byId("menu"));
    this.cards = new CardList(this, byId("cards"), byId("shown"));
    this.target = new TargetPanel(this, byId("target"));
    this.graph = new GraphPanel(this, byId("graph"));
    this.pairs = new PairsPanel(this, byId("pairs"));
    this.rows = new RowsPanel(this, byId("rows"));
    this.#controls();
    this.#keys();
    this.store.address = this.#hash();
    this.store.listen(() => this.update());
    window.addEventListener("hashchange", () => { clearTimeout(this.writing); this.store.address = this.#hash(); });
    this.update();
    this.#warmUp();
  }

  // Run inference a few times while nobody waits, so that the browser has compiled it before the first click.
  async #warmUp() {
    const steps = this.steps("warm-up");
    for (let k = 0; k < 5 && await steps.next(); k++) {
      this.tree.marginals(this.model.columns.map(({ states }, i) => (i === k ? new Float64Array(states.length).fill(0.5) : null)));
      if (this.model.chain) this.answers.marginals(new Map(this.model.columns.map((_, i) => [i, { kind: "in", states: [0] }]).slice(k + 2)));
    }
  }

  steps(name) { return new Steps(this, name); }

  #hash() { return window.location.hash.slice(1); }

  // Compute all distributions and show them.
  update() {
    const start = performance.now();
    const { store, answers } = this;
    const { base } = store.now;
    this.lists = answers.lists(store.evidence);
    const { log, marginals } = this.lists.tree.mixed(this.lists.lists);
    this.after = marginals;
    this.log = [...store.evidence.values()].some(({ value }) => value !== undefined) ? answers.log(store.evidence) : log;
    this.before = base && (base === this.base ? this.before : answers.marginals(base).marginals) || this.prior;
    this.base = base;
    this.beforeWord = base ? "in A" : "before";
    this.numbers = [];
    const computed = performance.now();
    document.body.classList.toggle("impossible", !this.after);
    this.cards.arrange();
    this.#known();
    this.target.update();
    if (this.pinned !== store.target && store.target >= 0 && window.matchMedia(MIDDLE).matches) this.view("target");
    this.pinned = store.target;
    this.graph.update();
    this.pairs.update();
    this.rows.update();
    this.#write();
    this.times = { inference: computed - start, update: performance.now() - start };
  }

  // The distribution of a number given the evidence.
  number(i) {
    return this.numbers[i] ??= this.answers.number(this.lists, this.store.evidence, i, (this.after ?? this.before)[i]);
  }

  // What is known or expected of a number.
  numberText(i) {
    return this.store.evidence.get(i)?.value === undefined ? this.number(i).text : this.pieceText(i);
  }

  pieceText(i) { return pieceText(this.model.columns[i], this.store.evidence.get(i), !this.lists.known); }

  // Keep the evidence in the address, where the browser allows it. That is slow, so it waits for a pause.
  #write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.#writeNow(), 100);
  }

  #writeNow() {
    const { address } = this.store;
    if (address === this.#hash()) return;
    try {
      window.history.replaceState(null, "", address ? `#${address}` : window.location.pathname + window.location.search);
    } catch { /* a page inside a notebook has no address of its own */ }
  }

  // The chips and the probability of the evidence.
  #known() {
    const { store, model } = this;
    const { base } = store.now;
    byId("chips").replaceChildren(...[...store.evidence].map(([i, piece]) => {
      const { name, text, before } = chipText(model.columns[i], piece, !this.lists.known);
      const words = this.pieceText(i);
      return element("li", { class: `chip ${piece.kind}` },
        element("button", { class: "what", title: `${words}: show the column`, onclick: () => this.reveal(i) },
          before ? element("span", { text: `${before} ` }) : null, element("b", { text: name }), element("span", { text: ` ${text}` })),
        element("button", { class: "remove", text: "×", "aria-label": `Remove ${words}`, title: "Remove", onclick: () => store.set(i, null) }));
    }));
    byId("probability").textContent = this.#likely();
    const alone = this.model.chain && this.store.evidence.size && this.after && this.lists.tree === this.tree;
    byId("probability").title = alone ? "Too much is unknown for the chain: answered by the network alone" : "";
    const compared = base && [...base].map(([i, piece]) => pieceText(model.columns[i], piece)).join(", ");
    byId("compared").replaceChildren(...(base ? [
      element("span", {}, element("b", { text: "A" }), ` ${compared || "nothing known"}`),
      element("button", { class: "plain", text: "Swap", title: "Exchange A and what is known now", onclick: () => store.swap() }),
      element("button", { class: "remove", text: "×", "aria-label": "Stop comparing", title: "Stop comparing", onclick: () => store.compare(null) })] : []));
    byId("undo").disabled = !store.past.length;
    byId("redo").disabled = !store.future.length;
    byId("clear").disabled = !store.evidence.size;
    byId("compare").disabled = !store.evidence.size || base === store.evidence;
  }

  // How probable the evidence is, and how many rows that would be.
  #likely() {
    const pieces = [...this.store.evidence.values()];
    if (!pieces.length) return "Nothing is known yet. Click a state of any column.";
    if (!this.after) return "This cannot happen: the model gives it probability 0.";
    if (pieces.some(({ kind }) => kind === "marginal")) return "With a new distribution of a column";
    const p = oneIn(Math.min(0, this.log));
    const isEvent = pieces.every((piece) => piece.kind !== "soft" || !/\blikelihood\b/.test(piece.words ?? "likelihood"));
    if (!isEvent) return `Likelihood of all this: ${p}`;
    const total = this.model.learnedRows;
    const rows = total * Math.exp(this.log);
    const about = rows >= 0.5 ? `≈ ${Math.round(rows).toLocaleString("en")}` : "fewer than 1";
    return `Probability of all this: ${p}${total ? `, ${about} of ${total.toLocaleString("en")} rows` : ""}`;
  }

  togglePin(column) {
    this.store.pin(this.store.target === column ? -1 : column);
  }

  reveal(column) {
    this.view("columns");
    this.cards.reveal(column);
  }

  showInGraph(column) {
    this.view("graph");
    if (!this.graph.show(column)) this.toast("This column has only weak links and is not drawn.");
  }

  // Show columns whose name or states contain a text.
  search(text) {
    byId("search").value = text;
    this.cards.only = null;
    this.cards.query = looksLikeConditions(text) ? "" : text.trim().toLowerCase();
    this.#found();
  }

  // Set the evidence that a text states, as in Python and on the command line.
  setConditions(text) {
    if (!looksLikeConditions(text)) return;
    try {
      this.store.setAll(new ConditionReader(this.model.columns).read(text));
      this.search("");
    } catch (error) {
      this.toast(error.message);
    }
  }

  // Show a few columns only.
  only(columns) {
    this.search("");
    this.cards.only = columns;
    this.view("columns");
    this.#found();
  }

  #found() {
    this.cards.arrange();
    this.graph.update();
    this.pairs.update();
  }

  // On a phone one part is shown at a time; otherwise only the tabs on the right change.
  view(name) {
    document.body.dataset.view = name;
    document.querySelectorAll("#views button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.view === name)));
    if (name !== "columns") {
      for (const tab of document.querySelectorAll("#tabs [role=tab]")) {
        const on = tab.id === `tab-${name}`;
        tab.setAttribute("aria-selected", String(on));
        tab.tabIndex = on ? 0 : -1;
        if (![name, tab.getAttribute("aria-controls")].includes("target")) byId(tab.getAttribute("aria-controls")).hidden = !on;
      }
    }
    this.rows.update();
    if (name === "columns") this.cards.arrange();
  }

  toast(text) {
    const toast = byId("toast");
    toast.textContent = text;
    toast.classList.add("shown");
    clearTimeout(this.fading);
    this.fading = setTimeout(() => toast.classList.remove("shown"), 2500);
  }

  async copyText(text) {
    this.copied = text;
    try {
      await navigator.clipboard.writeText(text);
      this.toast("Copied");
    } catch { // without permission, as in a notebook
      const area = element("textarea", { class: "copied", readonly: true, rows: 6, "aria-label": "Text to copy" });
      area.value = text;
      this.ask("Copy this text", [area], null, null);
      area.select();
    }
  }

  // A dialog with a button that acts, or a close button alone.
  ask(title, content, action, act) {
    const dialog = byId("dialog");
    const done = element("button", { class: "primary", text: action ?? "Close", value: "done" });
    const form = element("form", { method: "dialog" }, element("h2", { id: "dialog-title", text: title }), ...content,
      element("div", { class: "buttons" }, action ? element("button", { class: "plain", text: "Cancel", value: "cancel" }) : null, done));
    form.addEventListener("submit", (event) => { event.preventDefault(); dialog.close(); if (event.submitter === done && act) act(); });
    dialog.replaceChildren(form);
    dialog.showModal();
  }

  #controls() {
    const { store } = this;
    byId("search").addEventListener("input", (event) => { this.search(event.target.value); });
    byId("sort").addEventListener("change", () => this.cards.arrange());
    byId("undo").addEventListener("click", () => store.undo());
    byId("redo").addEventListener("click", () => store.redo());
    byId("clear").addEventListener("click", () => store.clear());
    byId("help").addEventListener("click", () => this.#help());
    byId("theme").addEventListener("click", () => {
      const { dataset } = document.documentElement;
      const dark = dataset.theme ? dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
      dataset.theme = dark ? "light" : "dark";
    });
    byId("compare").addEventListener("click", () => store.compare(store.evidence));
    byId("copy").addEventListener("click", () => this.menu.open([
      ["As a picture (SVG file)", () => saveFile("finding.svg", pictureOf(this))],
      ["As a table (CSV file)", () => saveFile("finding.csv", tableOf(this))],
      ["As Python", () => this.copyText(asPython(store, this.model.file))],
      ["As a command", () => this.copyText(asCommand(store, this.model.file))],
      ["A link to this page", () => this.copyText(`${window.location.href.split("#")[0]}#${store.address}`)],
    ], byId("copy")));
    for (const button of document.querySelectorAll("#views button")) button.addEventListener("click", () => this.view(button.dataset.view));
    const tabs = [...document.querySelectorAll("#tabs [role=tab]")];
    tabs.forEach((tab, at) => {
      tab.addEventListener("click", () => this.view(tab.getAttribute("aria-controls")));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(at + step + tabs.length) % tabs.length];
        this.view(next.getAttribute("aria-controls"));
        next.focus();
      });
    });
    byId("widen").addEventListener("click", () => {
      const wide = document.body.classList.toggle("wide");
      byId("widen").setAttribute("aria-pressed", String(wide));
    });
  }

  #keys() {
    document.addEventListener("keydown", (event) => {
      const typing = event.target.matches?.("input, textarea, select");
      const command = event.ctrlKey || event.metaKey;
      if (command && event.key.toLowerCase() === "z" && !typing) {
        if (event.shiftKey) this.store.redo();
        else this.store.undo();
      } else if (command && event.key.toLowerCase() === "y" && !typing) this.store.redo();
      else if (event.key === "/" && !typing) byId("search").focus();
      else if (event.key === "?" && !typing) this.#help();
      else if (event.key === "Escape" && event.target === byId("search")) this.search("");
      else if (event.key === "Enter" && event.target === byId("search")) this.setConditions(event.target.value);
      else return;
      event.preventDefault();
    });
  }

  #help() {
    const keys = [
      ["Click, Enter", "set a state; again to take it back"],
      ["Shift+click, Shift+Enter", "one of several states"],
      ["Drag over a histogram", "a range of a number"],
      ["Right-click, ⋯, m", "menu: not, soft evidence, pin"],
      ["n", "not this state"],
      ["t or ☆", "pin a column as the target"],
      ["Arrows, Tab", "next state, next column"],
      ["/", "search, or type conditions (age > 40, city=Ulm) and Enter"],
      ["Compare", "keep what is known as A, and change it: bars show the difference from A"],
      ["Ctrl+Z, Ctrl+Shift+Z", "undo, redo"],
    ];
    const hidden = this.model.tree.lanes > 1 ? " A hidden column is summed out of every answer." : "";
    this.ask("How to use this page", [
      element("p", { text: "Click a state: everything else moves. Answers are exact for this model, and those of “conjoin query”. Nothing leaves this page." }),
      element("div", { class: "legend" },
        element("span", { class: "bar" }, element("i", { class: "keep" })), element("span", { text: "probability" }),
        element("span", { class: "bar" }, element("i", { class: "gain" })), element("span", { text: "gained since nothing was known, or compared with A" }),
        element("span", { class: "bar" }, element("i", { class: "loss" })), element("span", { text: "lost" }),
        ...(this.model.rows === undefined ? [] : [element("span", { class: "bar" }, element("i", { class: "tick" })), element("span", { text: `frequency in the table of ${this.model.rows.toLocaleString("en")} rows` })])),
      element("dl", { class: "keys" }, ...keys.flatMap(([key, what]) => [element("dt", {}, element("kbd", { text: key })), element("dd", { text: what })])),
      element("p", { class: "quiet", text: `${this.model.columns.length.toLocaleString("en")} columns. Conjoin ${this.model.version}.${hidden}` }),
    ], null, null);
  }
}

// A message instead of the page.
function say(title, ...paragraphs) {
  const message = byId("message");
  message.hidden = false;
  message.replaceChildren(element("h1", { text: title }), ...paragraphs.map((text) => element("p", { text })));
}

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Numbers of which the first bytes come first, then the second ones, and so on.
function numbersOf(planes, Numbers) {
  const size = Numbers.BYTES_PER_ELEMENT;
  const count = planes.length / size;
  return new Numbers(planes.map((_, at) => planes[(at % size) * count + Math.floor(at / size)]).buffer);
}

// A function that takes the next numbers.
function reader(numbers) {
  let read = 0;
  return (count) => numbers.subarray(read, (read += count));
}

async function begin() {
  const model = JSON.parse(new TextDecoder().decode(await unpacked("model")));
  if (model.tooLarge) {
    say(model.title,
      "This model is too large to be explored in a browser: its columns depend on each other so densely that exact answers would need more memory and time than a page has.",
      model.tooLarge,
      `Its ${model.columns.length.toLocaleString("en")} columns can still be asked about: use "conjoin query" or conjoin.marginals, which fall back on sampling. To explore the table, learn a thin model from it: "conjoin learn" makes one by default.`);
    return;
  }
  window.explorer = new Explorer(model, numbersOf(await unpacked("numbers"), Float64Array), numbersOf(await unpacked("trees"), Uint16Array));
}

begin().catch((error) => {
  say("This page cannot be shown", "Your browser may be too old: versions of Chrome, Edge, Firefox and Safari since 2024 work.", String(error));
  throw error;
});
