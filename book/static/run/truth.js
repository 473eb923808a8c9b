// Whether what stands below a cell is what the code on the page gives.
//
// An output knows the texts that it came from (`out.texts`, by cell: its own and those above), and, when it came out here,
// the Python session, its turn there and, where it depends on that, the card whose records it read (`out.card`). It is out of
// date as soon as one of these texts is another one now, another card's figures are shown, or a cell above has run again since. A solution that stands folded counts only while it is joined: from when its reader runs it
// until what stands above it changes or runs again.

// Why a cell's output is out of date: {cell, again: whether that cell ran again, or else changed}, or {cell, card} of another card;
// null where it is not.
export function cause(cells, cell) {
  const { out } = cell;
  if (!out) return null;
  for (const above of aboveOf(cells, cell)) {
    const then = out.texts[above.number];
    if (then !== undefined && then !== above.text()) return { cell: above, again: false };
    const ranSince = out.turn && above.out?.session === out.session && above.out.turn > out.turn;
    if (ranSince) return { cell: above, again: true };
  }
  if (out.texts[cell.number] !== cell.text()) return { cell, again: false };
  const { card } = document.documentElement.dataset; // cards.js
  return out.card && out.card !== card ? { cell, card: out.card } : null;
}

// The cells that a cell builds on.
export const aboveOf = (cells, cell) => cells.filter((one) => one.number < cell.number && !(one.isAside && !one.isJoined));

export function sentence(cell, { cell: by, again, card }) {
  if (card) return `Out of date: this came from what was recorded on the ${card.toUpperCase()}.`;
  const above = `cell ${by.number} above`;
  if (cell.out.turn) {
    const then = again ? `${above} ran${by.isAside ? "" : " again"}` : by === cell ? "the cell was changed" : `${above} was changed`;
    return `Out of date: this came out before ${then}.`;
  }
  const now = by === cell ? "the text above it" : `the text that ${above} has now`;
  return `Out of date: this is what the book's code gives, not ${now}.`;
}

// The same of a cell that gave nothing to be seen.
export function past(cell, { cell: by, again, card }) {
  if (card) return `ran on what was recorded on the ${card.toUpperCase()}`;
  if (by === cell) return "changed since it ran";
  return `cell ${by.number} above ${again ? "ran again" : "was changed"} since this ran`;
}

// Whether what a cell left in Python can be built on: it came to its end there, on cells of which that is true too.
export function holds(cells, cell, session) {
  return cell.out?.session === session && cell.state === "done" && !cause(cells, cell);
}

// The cells above one that must run before it.
export function missing(cells, cell, session) {
  const above = aboveOf(cells, cell), first = above.findIndex((one) => !holds(cells, one, session));
  return first < 0 ? [] : above.slice(first);
}

// A folded solution is a part of the chapter where later cells need a name that it alone defines.
export function isAside(cells, cell) {
  if (!cell.isFolded) return false;
  return !cells.some((later) => {
    if (later.number <= cell.number || later.isFolded) return false;
    const visible = cells.filter((one) => one.number <= later.number && !one.isFolded);
    const others = new Set(visible.flatMap(defined));
    return defined(cell).some((name) => !others.has(name) && new RegExp(`\\b${name}\\b`).test(later.built));
  });
}

const DEFINITION = /^(?:(?:def|class)\s+(\w+)|(\w+)(?:, \w+)*\s*=(?!=))/gm;
const defined = (cell) => (cell.defines ??= [...cell.built.matchAll(DEFINITION)].map((match) => match[1] ?? match[2]));
