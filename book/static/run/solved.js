// Which exercises and checks the reader has solved on this page, kept in the browser for the page "Your path".

import { parsed } from "./kept.js";

const KEY = `quack-tutorial:solved:${location.pathname}`;

// Notes what the verdicts of a cell's run come to, if there are any. What was right once stays so.
export function note(cell, verdicts) {
  const found = verdict(cell, verdicts);
  if (!found) return;
  try {
    const all = parsed(KEY), former = all[cell.number];
    if (former?.right && !found.right) return;
    const check = found.points && cell.source.metadata.nbgrader?.grade_id;
    const title = heading(cell.node) + (check ? `: ${check.replace(/^(check|test)[-_]/, "").replaceAll(/[-_]/g, " ")}` : "");
    all[cell.number] = { title, ...found, when: new Date().toISOString() };
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // a browser that keeps nothing
  }
}

// {right, points: [got, of] or null}: of a lab's check, or of an exercise's. `verdicts` is what Python sent of them
// (quack_tutorial/notebook.py); what was printed plays no part.
export function verdict(cell, verdicts) {
  const of = (kind) => verdicts.filter((one) => one.of === kind), all = (some) => some.length > 0 && some.every(({ right }) => right);
  const worth = cell.source.metadata.nbgrader?.points;
  if (worth !== undefined) {
    const right = all(of("lab"));
    return { right, points: [right ? worth : 0, worth] };
  }
  const told = of("judge");
  return told.length ? { right: all(told), points: null } : null;
}

function heading(node) {
  const title = node.closest("section")?.querySelector("h1, h2, h3, h4")?.cloneNode(true);
  title?.querySelector(".headerlink")?.remove();
  return title?.textContent.trim() ?? document.title;
}
