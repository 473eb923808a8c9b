// A box of code to type in: as tall as its text, Tab indents, Ctrl-Enter runs. Escape, then Tab, leaves it. The text that
// is typed has no colour of its own; the coloured copy lies under it. Line numbers stand before it, by which reports name
// lines, and what each line moved behind it. A line that is longer than the box goes on in its next row.

import { coloured } from "./colours.js";
import { make } from "./make.js";

export function makeEditor({ parent, text, label, run, changed }) {
  const box = make("textarea", { className: "qt-editor", value: text, spellcheck: false, autocapitalize: "off", ariaLabel: label });
  box.setAttribute("autocomplete", "off");
  const [both, marker, copy, numbers, beside] = ["qt-code", "qt-mark", "qt-colours", "qt-lines", "qt-beside"].map((className) => make("div", { className }));
  for (const one of [marker, copy, numbers]) one.setAttribute("aria-hidden", "true");
  marker.hidden = true;
  both.append(marker, copy, box, numbers, beside);
  parent.append(both);
  let rows = [], now = "";
  const fit = () => {
    now = box.value;
    copy.innerHTML = coloured(now);
    const { fontSize, fontFamily, paddingLeft, paddingRight } = getComputedStyle(box), pen = document.createElement("canvas").getContext("2d");
    pen.font = `${fontSize} ${fontFamily}`;
    const columns = Math.floor((box.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight)) / pen.measureText("0").width - 0.02);
    rows = now.split("\n").map((line) => (columns > 0 ? Math.max(1, Math.ceil(line.length / columns)) : 1));
    box.rows = rows.reduce((sum, count) => sum + count);
    numbers.replaceChildren(...rows.map((_, i) => make("div", { textContent: `${i ? "\n" : ""}${i + 1}` })));
    both.style.setProperty("--qt-digits", Math.max(2, String(rows.length).length));
    for (const column of [numbers, beside]) [...column.children].forEach((row, i) => (row.style.height = `${1.5 * rows[i]}em`));
  };
  new ResizeObserver(fit).observe(both);
  document.fonts.ready.then(fit);
  let leaving = false;
  box.addEventListener("input", () => ((marker.hidden = true), fit(), changed()));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    } else if (event.key === "Escape") {
      leaving = true;
      return;
    } else if (event.key === "Tab" && !leaving && !event.shiftKey) {
      event.preventDefault();
      insert(box, "    ");
    } else if (event.key === "Enter" && !event.shiftKey) {
      const line = box.value.slice(0, box.selectionStart).split("\n").at(-1);
      event.preventDefault();
      insert(box, "\n" + line.match(/^ */)[0] + (/:\s*(#.*)?$/.test(line) ? "    " : ""));
    }
    leaving = false;
  });
  fit();

  // Marks a line (from 1), brings it into view, and puts the caret before its first letter.
  function go(line) {
    const all = now.split("\n"), at = Math.min(line, all.length) - 1;
    const caret = all.slice(0, at).reduce((sum, one) => sum + one.length + 1, 0) + all[at].search(/\S|$/);
    marker.hidden = false;
    marker.style.setProperty("--qt-line", rows.slice(0, at).reduce((sum, count) => sum + count, 0));
    box.setSelectionRange(caret, caret);
    box.focus({ preventScroll: true });
    marker.scrollIntoView({ block: "center", behavior: "instant" });
  }

  // Beside each line what it moved or waited for in a run, as {line: [[kind, words], ...]} (workbench/motion.py); code wraps
  // before it.
  function tell(lines) {
    let most = 0;
    const rows = now.split("\n").map((_, i) => {
      const told = (lines[i + 1] ?? []).map(([kind, words]) => make("span", { className: `qt-${kind}`, textContent: words }));
      most = Math.max(most, ...told.map((one) => one.textContent.length));
      return make("div", {}, ...told.flatMap((one) => [one, " "]));
    });
    beside.replaceChildren(...(most ? rows : []));
    both.style.setProperty("--qt-room", `${most && most + 2}ch`);
    fit();
  }
  return {
    tell,
    text: () => now,
    set: (value) => ((marker.hidden = true), (box.value = value), fit(), tell({})),
    focus: () => box.focus(),
    isTyping: () => document.activeElement === box && document.hasFocus(),
    go,
  };
}

// Types into the box in a way that Ctrl-Z takes back.
function insert(box, text) {
  if (document.execCommand("insertText", false, text)) return;
  box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input"));
}
