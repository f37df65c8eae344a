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
    const { tree, store, model, log } = this.explorer;
    const found = this.explorer.after && tree.mostProbable(store.likelihoods());
    this.found = found;
    if (!found) {
      this.best.replaceChildren(element("p", { class: "quiet", text: "No row fits the evidence." }));
      return;
    }
    const list = element("dl", { class: "row" });
    found.row.forEach((state, i) => {
      const known = store.evidence.has(i);
      list.append(element("dt", { text: model.columns[i].name, class: known ? "evident" : "" }), element("dd", { text: model.columns[i].states[state], class: known ? "evident" : "" }));
    });
    const share = found.log - log;
    const certain = found.exact ? "" : " It is the best that was found; hidden causes make it hard to prove that none is better.";
    this.best.replaceChildren(
      element("p", { class: "quiet", text: `Of all rows that fit, this one has probability ${oneIn(Math.min(0, share))}.${certain}` }),
      element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "The most probable row" }, list));
  }

  #draw() {
    const { tree, store, model } = this.explorer;
    const rows = this.explorer.after ? tree.sample(store.likelihoods(), DRAWS) : [];
    this.drawn = rows.map((row) => row.map((state, i) => {
      const column = model.columns[i];
      return column.means ? drawnValue(column, state, store.evidence.get(i)?.range ?? [-Infinity, Infinity]) : column.states[state];
    }));
    const head = element("tr", {}, ...model.columns.map(({ name }) => element("th", { scope: "col", text: name })));
    const body = this.drawn.map((row) => element("tr", {}, ...row.map((text, i) => element("td", { text, class: store.evidence.has(i) ? "evident" : "" }))));
    this.random.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  }

  #csv() {
    const { columns } = this.explorer.model;
    const cell = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [columns.map(({ name }) => name), ...this.drawn];
    return lines.map((line) => line.map(cell).join(",")).join("\n") + "\n";
  }
}
