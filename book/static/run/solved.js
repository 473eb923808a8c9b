// Which exercises and checks the reader has solved on this page, kept in the browser for the page "Your path".

const KEY = `quack-tutorial:solved:${location.pathname}`;

// Notes the verdict in what a cell gave, if there is one. What was right once stays so.
export function note(cell, text) {
  const found = verdict(cell, text);
  if (!found) return;
  try {
    const all = kept(), former = all[cell.number];
    if (former?.right && !found.right) return;
    const check = found.points && cell.source.metadata.nbgrader?.grade_id;
    const title = heading(cell.node) + (check ? `: ${check.replace(/^(check|test)[-_]/, "").replaceAll(/[-_]/g, " ")}` : "");
    all[cell.number] = { title, ...found, when: new Date().toISOString() };
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // a browser that keeps nothing
  }
}

// {} where somebody else wrote under the key.
function kept() {
  try {
    const all = JSON.parse(localStorage.getItem(KEY));
    return all && typeof all === "object" && !Array.isArray(all) ? all : {};
  } catch {
    return {};
  }
}

const EXERCISE = /# your line|judge\(/; // in the book's text of a cell that judges

// {right, points: [got, of] or null}: of `qt.judge`, of an exercise that `qt.check` judges, and of a lab's check.
export function verdict(cell, text) {
  const told = text.match(/\b(\d+) of (\d+) points\b/);
  if (told) return { right: told[1] === told[2], points: [Number(told[1]), Number(told[2])] };
  const worth = cell.source.metadata.nbgrader?.points;
  if (worth !== undefined) {
    const right = /^right: [\w, -]+$/m.test(text);
    return { right, points: [right ? worth : 0, worth] };
  }
  if (!EXERCISE.test(cell.built)) return null;
  if (/^not yet\b/m.test(text)) return { right: false, points: null };
  if (/^right$/m.test(text)) return { right: true, points: null };
  if (!cell.built.includes("# your line") || !/^(Right|Wrong): /m.test(text)) return null;
  return { right: !/^Wrong: /m.test(text), points: null };
}

function heading(node) {
  const title = node.closest("section")?.querySelector("h1, h2, h3, h4")?.cloneNode(true);
  title?.querySelector(".headerlink")?.remove();
  return title?.textContent.trim() ?? document.title;
}
