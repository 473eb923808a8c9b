// Marks the lines of code that a step is from, and leads from a line to its steps. Called with the panes and
// {keys, frames}: the source lines, and for each frame of the player which of them it is from, or -1.
(function (panes, data) {
  "use strict";

  const root = panes.closest(".qt-figure"), lists = [...panes.querySelectorAll("ol")];
  const lines = [...panes.querySelectorAll("button")];
  let at = 0;

  const ofKey = (key) => lines.filter((line) => Number(line.dataset.key) === key);
  // One line of each list can be reached by Tab, the others by the arrow keys.
  function reach(list, line) {
    for (const other of list.querySelectorAll("button")) other.tabIndex = other === line ? 0 : -1;
  }

  function mark(key) {
    for (const line of lines) line.removeAttribute("aria-current");
    for (const line of ofKey(key)) line.setAttribute("aria-current", "true");
    for (const list of lists) {
      const first = list.querySelector("[aria-current]");
      list.toggleAttribute("data-none", !first);
      if (!first || list.contains(document.activeElement)) continue;
      list.scrollTop += first.getBoundingClientRect().top - list.getBoundingClientRect().top - 20;
      reach(list, first);
    }
  }

  function choose(line) {
    const key = Number(line.dataset.key), many = data.frames.length;
    const to = data.frames.map((_, k) => (at + 1 + k) % many).find((k) => data.frames[k] === key);
    reach(line.closest("ol"), line);
    if (to === undefined) {
      const where = root.querySelector(".qt-source b");
      where.textContent = "";
      where.nextSibling.textContent = " " + data.keys[key];
      root.querySelector(".qt-caption p").textContent = ofKey(key).length > 1
        ? "This line only computes, so the trace has no step for it. Its instructions are marked."
        : "This line has neither a step nor an instruction of its own: it was settled when the kernel was compiled.";
    } else if (to === at) {
      // Its only step is shown: say so again, if another line's words stand there.
      root.dispatchEvent(new CustomEvent("qt-go", { detail: to ? to - 1 : many - 1 }));
      root.dispatchEvent(new CustomEvent("qt-go", { detail: to }));
    } else {
      root.dispatchEvent(new CustomEvent("qt-go", { detail: to }));
    }
    mark(key);
  }

  root.addEventListener("qt-step", (event) => {
    at = event.detail;
    mark(data.frames[at]);
  });
  // Of a list with a box, only the chosen line's instructions are shown until the box is ticked.
  for (const box of panes.querySelectorAll("input")) {
    const list = box.closest(".qt-pane").querySelector("ol");
    const few = () => list.toggleAttribute("data-few", !box.checked);
    box.parentNode.hidden = false;
    box.addEventListener("change", few);
    few();
  }
  for (const line of lines) line.addEventListener("click", () => choose(line));
  for (const list of lists) {
    list.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      const mine = [...list.querySelectorAll("button")].filter((line) => line.offsetParent), other = mine[mine.indexOf(document.activeElement) + step];
      if (!other) return;
      reach(list, other);
      other.focus();
    });
  }
});
