// A box of code to type in: as tall as its text, Tab indents, Ctrl-Enter runs. Escape, then Tab, leaves it. The text that is
// typed has no colour of its own; the coloured copy lies under it, and scrolls with it.

import { coloured } from "./colours.js";

export function makeEditor({ parent, text, label, run, changed }) {
  const box = document.createElement("textarea");
  Object.assign(box, { className: "qt-editor", value: text, spellcheck: false, autocapitalize: "off", wrap: "off" });
  box.setAttribute("aria-label", label);
  box.setAttribute("autocomplete", "off");
  const both = document.createElement("div"), copy = document.createElement("div");
  both.className = "qt-code highlight";
  copy.className = "qt-colours";
  copy.setAttribute("aria-hidden", "true");
  both.append(copy, box);
  parent.append(both);
  const fit = () => {
    box.rows = box.value.split("\n").length;
    copy.innerHTML = coloured(box.value);
    copy.scrollLeft = box.scrollLeft;
  };
  box.addEventListener("scroll", () => (copy.scrollLeft = box.scrollLeft));
  let leaving = false;
  box.addEventListener("input", () => (fit(), changed()));
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
  return { text: () => box.value, set: (value) => ((box.value = value), fit()), focus: () => box.focus() };
}

// Types into the box in a way that Ctrl-Z takes back.
function insert(box, text) {
  if (document.execCommand("insertText", false, text)) return;
  box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input"));
}
