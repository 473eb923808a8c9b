// Shows what comes out of a cell where the built page has its output, with the same look, as it comes.

import { make } from "./make.js";
import { figure, revive } from "./safe.js";

const LOOKS = {
  text: "output stream highlight-myst-ansi notranslate",
  value: "output text_plain highlight-myst-ansi notranslate",
  error: "output traceback highlight-ipythontb notranslate",
  chart: "output qt-note",
  cut: "output qt-note qt-cut",
  note: "output qt-note",
};

const waiting = new Set(); // cells with pieces that are not shown yet
let frame = 0;

// A run begins: its first piece takes the place of what stands there.
export function begin(cell) {
  Object.assign(cell, { pieces: [], last: null, isCleared: false });
}

// `shown` is called once the first piece has taken that place.
export function add(cell, kind, text, shown) {
  cell.shown = shown;
  cell.pieces.push([kind, text]);
  waiting.add(cell);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    for (const one of waiting) flush(one);
    waiting.clear();
  });
}

// The run is over; `words` say so where it was stopped.
export function end(cell, words = "") {
  if (words) cell.pieces.push(["note", words]);
  waiting.delete(cell);
  flush(cell);
  if (!cell.isCleared) clear(cell);
  finishText(cell);
  cell.output.hidden = !cell.output.children.length;
  reach(cell);
}

// What scrolls in its box can be reached by keyboard.
function reach(cell) {
  for (const box of cell.output.querySelectorAll(".text_html, pre")) {
    if (box.tabIndex === 0 || (box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight)) continue;
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Output of cell ${cell.number}, scrolls`);
  }
}

function flush(cell) {
  if (!cell.pieces.length) return;
  const isFirst = !cell.isCleared;
  if (isFirst) clear(cell);
  cell.output.hidden = false;
  for (const [kind, text] of joined(cell.pieces.splice(0))) {
    if (kind === "text" && cell.last?.kind === "text") {
      cell.last.node.querySelector("pre").append(text);
      continue;
    }
    finishText(cell);
    const node = kind === "html" ? figure(text) : words(kind, text);
    cell.onGpu.length ? cell.onGpu[0].before(node) : cell.output.append(node);
    if (kind === "chart") node.after(...cell.figures);
    if (kind === "html") revive(node);
    cell.last = { kind, node };
  }
  reach(cell);
  if (isFirst) cell.shown?.();
}

function clear(cell) {
  if (!cell.output) {
    cell.output = make("div", { className: "cell_output docutils container", role: "group", ariaLabel: `Output of cell ${cell.number}` });
    cell.node.append(cell.output);
  }
  // Where the book folds the output away, the reader who runs this very cell wants to see it.
  const opens = cell.isAsked ? cell.output : null;
  for (let fold = opens?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  cell.onGpu = [...cell.output.querySelectorAll(":scope > .qt-on-gpu")]; // what was recorded there stays beside it
  cell.output.replaceChildren(...cell.onGpu);
  cell.isCleared = true;
}

// Neighbouring pieces of one kind are one text.
function joined(pieces) {
  const whole = [];
  for (const [kind, text] of pieces) {
    if (kind === "text" && whole.at(-1)?.[0] === "text") whole.at(-1)[1] += text;
    else whole.push([kind, text]);
  }
  return whole;
}

// What is printed ends with its line, as in the built page.
function finishText(cell) {
  const box = cell.last?.kind === "text" && cell.last.node.querySelector("pre");
  if (box && !box.textContent.endsWith("\n")) box.append("\n");
  if (box) box.normalize();
}

function words(kind, text) {
  const part = make("div", { className: LOOKS[kind] });
  if (part.classList.contains("qt-note")) {
    part.textContent = text;
    return part;
  }
  part.innerHTML = '<div class="highlight"><pre class="qt-printed"></pre></div>';
  part.querySelector("pre").textContent = text.endsWith("\n") || kind === "text" ? text : `${text}\n`;
  return part;
}
