// A box of code to type in: as tall as its text, Tab indents, Ctrl-Enter runs. Escape, then Tab, leaves it.

export function makeEditor({ parent, text, label, run, changed }) {
  const box = document.createElement("textarea");
  Object.assign(box, { className: "qt-editor", value: text, spellcheck: false, autocapitalize: "off", wrap: "off" });
  box.setAttribute("aria-label", label);
  box.setAttribute("autocomplete", "off");
  parent.append(box);
  const fit = () => (box.rows = box.value.split("\n").length);
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
