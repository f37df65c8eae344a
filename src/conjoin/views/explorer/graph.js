// The graph of the columns, which can be moved and zoomed, and the list of the strongest associations.
"use strict";

const LEAST_LETTERS = 10; // pixels per em

class GraphPanel {
  constructor(explorer, root) {
    this.explorer = explorer;
    this.root = root;
    const { graph, columns } = explorer.model;
    this.stretched = [1, 1];
    this.svg = element("svg", { class: "graph", role: "group", "aria-label": "Columns that go together, joined by lines" });
    const links = element("g", { class: "links" });
    this.links = graph.links.map(({ ends, strength, direct }) => {
      const [a, b] = ends.map((i) => graph.nodes[i]);
      const line = element("line", { class: direct ? "direct" : "indirect", "stroke-width": (0.08 + 0.42 * strength).toFixed(3), "stroke-opacity": (0.35 + 0.65 * Math.sqrt(strength)).toFixed(2) });
      links.append(line);
      return { line, ends: [a.column, b.column], nodes: [a, b] };
    });
    const nodes = element("g", { class: "nodes" });
    this.nodes = graph.nodes.map(({ column, label: text, width }) => {
      const node = element("g", { class: "node", role: "button", tabindex: "0", "data-column": column },
        element("title", { text: columns[column].name }),
        element("rect", { class: "base", x: -width / 2, y: -0.85, width, height: 1.7, rx: 0.5 }),
        element("rect", { class: "heat", x: -width / 2, y: -0.85, width, height: 1.7, rx: 0.5 }),
        element("text", { y: 0.34, "text-anchor": "middle", text }));
      node.addEventListener("click", () => { if (!this.dragged) explorer.reveal(column); });
      node.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        explorer.reveal(column);
      });
      node.addEventListener("pointerenter", () => this.#highlight(column));
      node.addEventListener("pointerleave", () => this.#highlight(-1));
      node.addEventListener("focus", () => this.#highlight(column));
      node.addEventListener("blur", () => this.#highlight(-1));
      nodes.append(node);
      return node;
    });
    this.svg.append(links, nodes);
    const button = (text, title, act) => element("button", { class: "plain icon", text, title, "aria-label": title, onclick: act });
    const missing = columns.length - graph.nodes.length;
    this.root.append(
      element("div", { class: "zoom" }, button("+", "Zoom in", () => this.#zoom(0.7)), button("−", "Zoom out", () => this.#zoom(1 / 0.7)), button("Fit", "Show everything", () => this.#view(this.#full()))),
      this.svg,
      element("p", { class: "quiet note", text: `The thicker a line, the more two columns tell about each other. Dashed: through other columns only. Colour: how much a column moved.${missing ? ` ${missing} columns with weak links are not drawn.` : ""}` }));
    new ResizeObserver(() => this.#fill()).observe(this.svg);
    this.#fill();
    this.#listen();
  }

  #full() {
    const { size } = this.explorer.model.graph;
    return [-1, -1, size[0] * this.stretched[0] + 2, size[1] * this.stretched[1] + 2];
  }

  // Draw boxes further apart along the side on which there is room, and show everything, or as much around the
  // pinned column, or that of the strongest link, as can be read.
  #fill() {
    const { graph } = this.explorer.model;
    const { clientWidth, clientHeight } = this.svg;
    const [w, h] = graph.size.map((x) => x + 2);
    const wider = clientHeight ? (clientWidth / clientHeight) / (w / h) : 1;
    this.stretched = [clip(wider, 1, 2.5), clip(1 / wider, 1, 2.5)];
    const at = ({ x, y }) => [x * this.stretched[0], y * this.stretched[1]];
    this.nodes.forEach((node, i) => node.setAttribute("transform", `translate(${at(graph.nodes[i]).join(" ")})`));
    this.links.forEach(({ line, nodes }) => nodes.forEach((node, end) => {
      const [x, y] = at(node);
      line.setAttribute(`x${end + 1}`, x);
      line.setAttribute(`y${end + 1}`, y);
    }));
    const isSmall = clientWidth && clientWidth / this.#full()[2] < LEAST_LETTERS;
    if (!isSmall) this.#view(this.#full());
    else if (!this.show(this.explorer.store?.target ?? -1, false)) this.show(graph.nodes[graph.links[0]?.ends[0] ?? 0].column, false);
  }

  #view(box) {
    this.box = box;
    this.svg.setAttribute("viewBox", box.map((x) => x.toFixed(3)).join(" "));
  }

  // Zoom about a point, by default the centre.
  #zoom(factor, point = null) {
    const [x, y, w, h] = this.box;
    const limited = Math.max(8 / w, Math.min(2 * this.#full()[2] / w, factor));
    const [px, py] = point ?? [x + w / 2, y + h / 2];
    this.#view([px - (px - x) * limited, py - (py - y) * limited, w * limited, h * limited]);
  }

  #point(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [at.x, at.y];
  }

  #listen() {
    const { svg } = this;
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.#zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004), this.#point(event));
    }, { passive: false });
    const fingers = new Map();
    svg.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, this.#point(event));
      this.dragged = false;
    });
    svg.addEventListener("pointermove", (event) => {
      const from = fingers.get(event.pointerId);
      if (!from) return;
      const to = this.#point(event);
      if (fingers.size === 2) {
        const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
        const span = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
        this.#zoom(span(from, other) / Math.max(1e-6, span(to, other)), other);
        fingers.set(event.pointerId, this.#point(event));
        this.dragged = true;
        return;
      }
      const [x, y, w, h] = this.box;
      if (Math.hypot(to[0] - from[0], to[1] - from[1]) > w / 100) {
        if (!this.dragged) svg.setPointerCapture(event.pointerId);
        this.dragged = true;
      }
      if (this.dragged) this.#view([x + from[0] - to[0], y + from[1] - to[1], w, h]);
    });
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }

  #highlight(column) {
    this.svg.classList.toggle("choosing", column >= 0);
    const near = new Set([column]);
    this.links.forEach(({ line, ends }) => {
      const on = ends.includes(column);
      line.classList.toggle("on", on);
      if (on) ends.forEach((end) => near.add(end));
    });
    this.nodes.forEach((node) => node.classList.toggle("on", near.has(Number(node.dataset.column))));
  }

  // Centre a column, in letters that can be read.
  show(column, isFocused = true) {
    const found = this.explorer.model.graph.nodes.find((node) => node.column === column);
    if (!found) return false;
    const full = this.#full();
    const { clientWidth, clientHeight } = this.svg;
    const w = Math.min(full[2], (clientWidth || 300) / (LEAST_LETTERS + 1));
    const h = w * (clientHeight || 300) / (clientWidth || 300);
    const inside = (middle, extent, low, whole) => (extent >= whole ? low + (whole - extent) / 2 : clip(middle - extent / 2, low, low + whole - extent));
    this.#view([inside(found.x * this.stretched[0], w, full[0], full[2]), inside(found.y * this.stretched[1], h, full[1], full[3]), w, h]);
    if (isFocused) this.nodes.find((node) => Number(node.dataset.column) === column).focus({ preventScroll: true });
    return true;
  }

  update() {
    const { before, after, store, model, cards } = this.explorer;
    if (this.pinned !== store.target) { // what is around the pinned column
      this.pinned = store.target;
      if (store.target >= 0 && this.svg.clientWidth / this.#full()[2] < LEAST_LETTERS) this.show(store.target, false);
    }
    this.nodes.forEach((node) => {
      const column = Number(node.dataset.column);
      const distance = after ? moved(before[column], after[column]) : 0;
      const known = store.evidence.has(column);
      node.classList.toggle("evident", known);
      node.classList.toggle("target", store.target === column);
      node.querySelector(".heat").style.opacity = known ? 0 : Math.min(0.85, 1.7 * distance).toFixed(3);
      const name = model.columns[column].name;
      node.setAttribute("aria-label", known ? `${name}, known` : `${name}, moved by ${percent(distance)}`);
      node.classList.toggle("faint", Boolean(cards?.query || cards?.only) && !cards.order.includes(column));
    });
  }
}

class PairsPanel {
  constructor(explorer, root) {
    const { pairs, columns, exactPairs, rows } = explorer.model;
    this.explorer = explorer;
    this.list = element("ol", { class: "pairs" });
    const table = rows === undefined ? "" : " The small mark is the table's own figure.";
    root.append(
      element("p", { class: "quiet", text: `What goes with what when nothing is known, in bits: what knowing one column tells about the other. One bit settles an even bet.${table}${exactPairs ? "" : " Estimated from 20,000 drawn rows."}` }),
      this.list);
    if (!pairs.length) this.list.append(element("li", { class: "quiet", text: "No two columns depend on each other." }));
    const most = Math.max(1e-9, ...pairs.map(({ bits, table: seen }) => Math.max(bits, seen ?? 0)));
    this.rows = pairs.map(({ ends, bits, share, table: seen }) => {
      const [a, b] = ends.map((i) => columns[i].name);
      const bar = element("span", { class: "bar", "aria-hidden": "true" }, element("i", { class: "keep" }), element("i", { class: "tick", hidden: seen === undefined }));
      bar.firstChild.style.width = `${100 * bits / most}%`;
      if (seen !== undefined) bar.lastChild.style.left = `${100 * seen / most}%`;
      const row = element("li", {},
        element("button", { class: "plain link", title: `Show ${a} and ${b}: ${bits.toFixed(4)} bits${seen === undefined ? "" : ` (in the table ${seen.toFixed(4)})`}, up to ${percent(share)} of the doubt about one of them`, onclick: () => explorer.only(ends) },
          element("span", { text: a }), element("span", { class: "quiet", text: " · " }), element("span", { text: b })),
        bar, element("small", { text: `${bits.toFixed(3)} bits` }));
      this.list.append(row);
      return { row, text: `${a}\0${b}`.toLowerCase() };
    });
  }

  update() {
    const query = this.explorer.cards?.query ?? "";
    this.rows.forEach(({ row, text }) => { row.hidden = Boolean(query) && !text.includes(query); });
  }
}
