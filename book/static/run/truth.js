// Whether what stands below a cell is what the code on the page gives.
//
// An output knows the texts that it came from (`out.texts`, by cell: its own and those above), and, when it came out here, the
// Python session and its turn there. It is out of date as soon as one of these texts is another one now, or a cell above has run
// again since. Solutions that stand folded are read and run for themselves, so nothing hangs on them.

// Why a cell's output is out of date: {cell, again: whether that cell ran again rather than changed}; null where it is not.
export function cause(cells, cell) {
  const { out } = cell;
  if (!out) return null;
  for (const above of aboveOf(cells, cell)) {
    if (out.texts[above.number] !== above.text()) return { cell: above, again: false };
    const ranSince = out.turn && above.out?.session === out.session && above.out.turn > out.turn;
    if (ranSince) return { cell: above, again: true };
  }
  return out.texts[cell.number] === cell.text() ? null : { cell, again: false };
}

// The cells that a cell builds on.
export const aboveOf = (cells, cell) => cells.filter((one) => one.number < cell.number && !one.isAside);

export function sentence(cell, { cell: by, again }) {
  const gave = cell.out.turn ? "this came out before" : "this is what the book's code gives, not";
  if (again) return `Out of date: ${gave} cell ${by.number} above ran again.`;
  if (by === cell) return `Out of date: ${gave} ${cell.out.turn ? "the cell was changed" : "the text above it"}.`;
  return `Out of date: ${gave} ${cell.out.turn ? `cell ${by.number} above was changed` : `the text that cell ${by.number} above has now`}.`;
}

// Whether what a cell left in Python can be built on: it came to its end there, on cells of which that is true too.
function holds(cells, cell, session) {
  return cell.out?.session === session && cell.state === "done" && !cause(cells, cell);
}

// The cells above one that must run before it. Those that have run since turn `since` are not run twice.
export function missing(cells, cell, session, since) {
  const above = aboveOf(cells, cell);
  const first = above.findIndex((one) => !holds(cells, one, session));
  if (first < 0) return [];
  return above.slice(first).filter((one) => !(one.out?.session === session && one.out.turn > since));
}

// A folded solution is a part of the chapter where later cells need a name that it alone defines.
export function isAside(cells, cell) {
  if (!cell.isFolded) return false;
  return !cells.some((later) => {
    if (later.number <= cell.number || later.isFolded) return false;
    const others = new Set(cells.filter((one) => one.number <= later.number && !one.isFolded).flatMap(defined));
    return defined(cell).some((name) => !others.has(name) && new RegExp(`\\b${name}\\b`).test(later.built));
  });
}

const defined = (cell) => (cell.defines ??= [...cell.built.matchAll(/^(?:(?:def|class)\s+(\w+)|(\w+)(?:, \w+)*\s*=(?!=))/gm)].map((match) => match[1] ?? match[2]));
