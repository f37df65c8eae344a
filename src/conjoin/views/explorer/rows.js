// Whole rows: the most probable one that fits the evidence, and random ones.
"use strict";

const DRAWS = 12;

class RowsPanel {
  constructor(explorer, root) {
    this.explorer = explorer;
    this.best = element("div");
    this.random = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Random rows" });
    this.again = element("button", { class: "plain", text: "Draw again", onclick: () => this.#draw() });
    root.append(
      element("h3", { text: "The most probable row" }), this.best,
      element("h3", { text: "Random rows that fit" }), element("p", { class: "buttons" }, this.again,
        element("button", { class: "plain", text: "Copy as CSV", onclick: () => explorer.copyText(this.#csv()) })), this.random);
    this.panel = root;
  }

  // Rows cost more than distributions; they are computed when one looks at them.
  update() {
    if (this.panel.hidden || this.done === this.explorer.after) return;
    this.done = this.explorer.after;
    this.#complete();
    this.#draw();
  }

  #complete() {
    const { store, model, answers, log } = this.explorer;
    const { tree, lists, known } = this.explorer.lists;
    const rows = this.explorer.after ? lists.map((list) => tree.mostProbable(list)).filter(Boolean) : [];
    const found = rows.reduce((best, row) => (best && best.log >= row.log ? best : row), null);
    this.found = found;
    if (!found) {
      this.best.replaceChildren(element("p", { class: "quiet", text: "No row fits the evidence." }));
      return;
    }
    const list = element("dl", { class: "row" });
    found.row.forEach((state, i) => {
      const evident = store.evidence.has(i) ? "evident" : "";
      const text = model.columns[i].extent ? answers.valueInRow(known, store.evidence, i, found.row, () => 0.5) : model.columns[i].states[state];
      list.append(element("dt", { text: model.columns[i].name, class: evident }), element("dd", { text, class: evident }));
    });
    const certain = found.exact ? "" : " It is the best that was found; hidden causes make it hard to prove that none is better.";
    const share = known || [...store.evidence.values()].some(({ kind }) => kind === "marginal") ? "" : `Of all rows that fit, this one has probability ${oneIn(Math.min(0, found.log - log))}.`;
    const numbers = model.columns.some(({ extent }) => extent) ? " Numbers are medians within their intervals." : "";
    this.best.replaceChildren(
      element("p", { class: "quiet", text: `${share}${numbers}${certain}`.trim() }),
      element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "The most probable row" }, list));
  }

  #draw() {
    const { answers, store, model } = this.explorer;
    const { known } = this.explorer.lists;
    const rows = this.explorer.after ? answers.sample(this.explorer.lists, DRAWS) : [];
    this.drawn = rows.map((row) => row.map((state, i) => {
      const column = model.columns[i];
      return column.extent ? answers.valueInRow(known, store.evidence, i, row, Math.random) : column.states[state];
    }));
    const head = element("tr", {}, ...model.columns.map(({ name }) => element("th", { scope: "col", text: name })));
    const body = this.drawn.map((row) => element("tr", {}, ...row.map((text, i) => element("td", { text, class: store.evidence.has(i) ? "evident" : "" }))));
    this.random.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  }

  #csv() {
    const { columns } = this.explorer.model;
    return csvText([columns.map(({ name }) => name), ...this.drawn]);
  }
}
