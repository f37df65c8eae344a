// The pinned target: its distribution, what explains it, and what to ask next.
"use strict";

const SHOWN = 8; // how many contributions and questions are listed

class TargetPanel {
  constructor(explorer, root) {
    this.explorer = explorer;
    this.root = root;
    this.select = element("select", { id: "target-column", "aria-label": "Target column" },
      element("option", { value: "-1", text: "Choose a column …" }),
      ...explorer.model.columns.map((column, i) => element("option", { value: i, text: column.name })));
    this.select.addEventListener("change", () => explorer.store.pin(Number(this.select.value)));
    this.body = element("div", { class: "body" });
    this.root.append(element("h2", { text: "Target" }), this.select, this.body);
  }

  // The state that is explained: the chosen one, or the most probable one.
  #focus(p) {
    const { focus } = this.explorer.store.now;
    return focus >= 0 ? focus : p.indexOf(Math.max(...p));
  }

  update() {
    const { store, before, after, model } = this.explorer;
    const { target } = store;
    this.select.value = String(target);
    if (target < 0) {
      this.body.replaceChildren(element("p", { class: "quiet", text: "Pin the column you care about (☆ on its card): you will see what explains it, and which question to ask next." }));
      return;
    }
    const column = model.columns[target];
    const p = before[target];
    const q = after ? after[target] : p;
    const focus = this.#focus(q);
    this.headline = element("p", { class: "headline" },
      element("strong", { text: percent(q[focus]) }),
      element("span", { text: `${column.name} = ${column.states[focus] || "∅"}` }),
      element("small", { text: store.evidence.size || store.now.base ? `${this.explorer.beforeWord} ${percent(p[focus])}` : "nothing is known yet" }),
      column.extent ? element("small", { text: `${column.name}: ${this.explorer.numberText(target)}` }) : null);
    this.reasons = element("section", { class: "reasons", "aria-label": "What explains it" });
    this.questions = element("section", { class: "questions", "aria-label": "What to ask next" });
    this.body.replaceChildren(this.headline, this.#bars(column, p, q, focus), this.reasons, this.questions);
    if (!after) return;
    if (store.evidence.has(target)) {
      this.reasons.append(element("p", { class: "quiet", text: "You have set this column yourself. Clear it to see what explains it." }),
        element("button", { class: "plain", text: `Clear ${column.name}`, onclick: () => store.set(target, null) }));
      return;
    }
    this.#explain(column, q, focus, after);
  }

  #bars(column, p, q, focus) {
    const list = element("div", { class: "states", role: "radiogroup", "aria-label": `The state of ${column.name} to explain` });
    const table = this.explorer.store.evidence.size ? undefined : column.table;
    const order = p.length <= (column.kind === "number" ? 24 : 12) ? [...q.keys()] : [...q.keys()].sort((a, b) => q[b] - q[a]).slice(0, 10);
    if (!order.includes(focus)) order.push(focus);
    for (const s of order) {
      const bar = emptyBar();
      setBar(bar, p[s], q[s], 1, table?.[s], false);
      const change = q[s] - p[s];
      const words = spoken(column.states[s], p[s], q[s], table?.[s], this.explorer.model.rows, this.explorer.beforeWord);
      const row = element("div", { class: "state", role: "radio", "aria-checked": String(s === focus), tabindex: s === focus ? "0" : "-1", "aria-label": words, title: words },
        element("span", { class: "label", text: column.states[s] || "∅" }), bar,
        element("span", { class: "value", text: percent(q[s]), "data-change": change > 5e-4 ? "up" : change < -5e-4 ? "down" : "" }));
      row.addEventListener("click", () => this.#pick(s));
      row.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
        if (event.key === "Enter" || event.key === " ") this.#pick(s);
        else if (step) this.#pick(order[(order.indexOf(s) + step + order.length) % order.length]);
        else return;
        event.preventDefault();
      });
      list.append(row);
    }
    return list;
  }

  #pick(state) {
    const { store } = this.explorer;
    store.pin(store.target, state);
    this.body.querySelector("[aria-checked=true]")?.focus();
  }

  // Compute contributions and questions piece by piece, so that the page stays responsive.
  async #explain(column, q, focus, after) {
    const { explorer, reasons, questions } = this;
    const { store, lists, answers: asked } = explorer;
    const { target } = store;
    const steps = explorer.steps("target");
    const pieces = [...store.evidence.keys()];
    if (pieces.length) reasons.append(element("h3", { text: `What explains ${column.name} = ${column.states[focus] || "∅"}` }));
    const found = [];
    for (const i of pieces) {
      if (!await steps.next()) return;
      const left = new Map(store.evidence);
      left.delete(i);
      const without = asked.marginals(left).marginals[target];
      found.push({ i, without: without[focus], change: logOdds(q[focus]) - logOdds(without[focus]) });
    }
    if (pieces.length) this.#listReasons(found, column, focus);
    const answers = [];
    for (let s = 0; s < q.length; s++) {
      if (q[s] === 0) { answers.push(null); continue; }
      if (!await steps.next()) return;
      answers.push(asked.inState(lists, target, s));
    }
    if (!await steps.next()) return;
    this.#listQuestions(information(answers, after, target), q, column);
    explorer.explained = { target, focus, contributions: found };
  }

  #listReasons(found, column, focus) {
    const { model, store } = this.explorer;
    found.sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
    const size = (x) => Math.min(Math.abs(x), 6);
    const most = Math.max(0.7, ...found.map(({ change }) => size(change)));
    const list = element("ul", { class: "diverging" });
    for (const { i, change, without } of found.slice(0, SHOWN)) {
      const piece = this.explorer.pieceText(i);
      const side = Math.abs(change) < Math.log(1.05) ? "none" : change > 0 ? "up" : "down";
      const words = {
        none: "hardly matters here",
        up: change === Infinity ? "makes it certain" : `raises the odds ${times(change)}`,
        down: change === -Infinity ? "rules it out" : `lowers the odds ${times(change)}`,
      }[side];
      const bar = element("span", { class: `bar ${side}`, "aria-hidden": "true" }, element("i"));
      bar.firstChild.style.width = `${50 * size(change) / most}%`;
      list.append(element("li", {},
        element("button", { class: "plain link", text: piece, title: piece, onclick: () => this.explorer.reveal(i) }), bar,
        element("small", { text: `${words} (${percent(without)} without it)` })));
    }
    this.reasons.append(list);
    if (found.length > SHOWN) this.reasons.append(element("p", { class: "quiet", text: `and ${found.length - SHOWN} smaller ones` }));
    this.reasons.append(element("p", { class: "quiet note", text: "Each line compares the answer with and without one piece of evidence, all others kept." }));
  }

  #listQuestions(bits, q, column) {
    const { store, model } = this.explorer;
    const left = entropy(q);
    this.questions.append(element("h3", { text: "What to ask next" }));
    const ranked = [...bits.keys()].filter((i) => i !== store.target && !isKnown(store.evidence.get(i)) && bits[i] > 1e-4)
      .sort((a, b) => bits[b] - bits[a] || a - b).slice(0, SHOWN);
    this.explorer.questions = { bits, ranked };
    if (!ranked.length) {
      const words = left < 1e-4 ? `${column.name} is certain already.` : "No other column tells more.";
      this.questions.append(element("p", { class: "quiet", text: words }));
      return;
    }
    const list = element("ol", { class: "ranked" });
    for (const i of ranked) {
      const bar = element("span", { class: "bar", "aria-hidden": "true" }, element("i", { class: "keep" }));
      bar.firstChild.style.width = `${100 * bits[i] / bits[ranked[0]]}%`;
      list.append(element("li", {},
        element("button", { class: "plain link", text: model.columns[i].name, title: model.columns[i].name, onclick: () => this.explorer.reveal(i) }), bar,
        element("small", { text: `${percent(bits[i] / left)} of the doubt (${bits[i].toFixed(3)} bits)` })));
    }
    this.questions.append(list, element("p", { class: "quiet note", text: `How much of the doubt about ${column.name} an answer removes on average.` }));
  }
}

const logOdds = (p) => Math.log(p) - Math.log1p(-p);

const isKnown = (piece) => piece?.kind === "in" && piece.states.length === 1;
