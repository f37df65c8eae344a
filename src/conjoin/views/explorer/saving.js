// What one has found, as a picture and as a table.
"use strict";

// A column per line: the states that are shown on its card, before and after.
function tableOf({ model, store, before, after, beforeWord }) {
  const rows = model.columns.flatMap(({ name, states }, i) => states.map((state, s) =>
    [name, state, before[i][s].toPrecision(6), (after ?? before)[i][s].toPrecision(6)]));
  const known = conditions(store) || "nothing known";
  return csvText([["column", "state", beforeWord === "before" ? "nothing known" : "A", known], ...rows]);
}

// The pinned column, or the ones that moved most, as a picture.
function pictureOf(explorer) {
  const { model, store, before, after, cards } = explorer;
  const shown = store.target >= 0 ? [store.target] : cards.order.filter((i) => !store.evidence.has(i)).slice(0, 4);
  const [width, row] = [640, 24];
  let y = 34;
  const lines = [];
  const text = (x, content, more = "") => lines.push(`<text x="${x}" y="${y}" ${more}>${escaped(content)}</text>`);
  const bar = (size, fill) => lines.push(`<rect x="220" y="${y - 12}" width="${(330 * size).toFixed(1)}" height="14" ${fill}/>`);
  text(20, [...store.evidence.keys()].map((i) => explorer.pieceText(i)).join(", ") || "Nothing is known", 'font-size="16" font-weight="600"');
  for (const i of shown) {
    y += row + 8;
    text(20, model.columns[i].name, 'font-weight="600"');
    const q = (after ?? before)[i];
    for (const s of cards.visibleStates(i).shown) {
      y += row;
      text(30, model.columns[i].states[s]);
      bar(1, 'fill="#eceef4"');
      bar(q[s], 'fill="#5b76d8"');
      bar(before[i][s], 'fill="none" stroke="#1a2130" stroke-dasharray="3 2"');
      text(width - 20, percent(q[s]), 'text-anchor="end"');
    }
  }
  y += row + 8;
  text(20, `Dashed: ${store.now.base ? "in A" : "when nothing is known"}. ${model.title}, Conjoin ${model.version}`, 'font-size="11" fill="#5a6478"');
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y + 16}" font-family="system-ui, sans-serif" font-size="13" fill="#1a2130"><rect width="100%" height="100%" fill="#fff"/>${lines.join("")}</svg>\n`;
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function saveFile(name, content) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([content], { type: name.endsWith("svg") ? "image/svg+xml" : "text/csv" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
