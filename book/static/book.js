document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Mends what a screen reader or a keyboard would stumble over in the theme's own markup.
  // A label that hides the visible text: voice control could not find the button by the words that it shows.
  for (const node of all("summary[aria-label], button.search-button-field[aria-label]")) node.removeAttribute("aria-label");
  // A button that shows the pages below another one, with an arrow for all its words.
  for (const node of all("li > details > summary")) {
    if (!node.textContent.trim()) node.setAttribute("aria-label", `Pages below ${node.closest("li").querySelector("a").textContent.trim()}`);
  }

  // A box that scrolls must be reachable by keyboard.
  function mendBoxes(root) {
    for (const box of all(".pst-scrollable-table-container, .cell_output .text_html, .qt-table", root)) {
      if (box.scrollWidth <= box.clientWidth || box.tabIndex === 0) continue;
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", box.matches(".text_html") ? "Figure, scrolls sideways" : "Table, scrolls sideways");
    }
  }
  mendBoxes(document);
  document.addEventListener("toggle", (event) => mendBoxes(event.target), true);

  // Paper cannot be unfolded. Long lists in other folds stay folded, as in scripts/print_book.py.
  const folds = all("details.qt-fold, details.sd-dropdown, .qt-break details");
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = folds.filter((fold) => !fold.open);
    for (const fold of unfolded) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of unfolded) fold.open = false;
  });
});
