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

  // What a cell prints wraps on a narrow page where it is sentences or a report. A table has gaps inside its lines.
  function tellSentences(root) {
    for (const printed of all(".cell_output pre", root)) {
      const text = printed.textContent.slice(0, 5000);
      const isReport = /^simulated [^]*?\bfindings?:$/m.test(text), isTable = /\S {2,}\S|\t/.test(text);
      printed.classList.toggle("qt-sentences", isReport || (text.length > 60 && !isTable));
    }
  }
  const article = document.querySelector("article.bd-article");
  if (article) {
    tellSentences(article);
    // A cell that runs in the page prints anew.
    new MutationObserver((changes) => {
      const cells = new Set(changes.map(({ target }) => target.closest?.("div.cell")).filter(Boolean));
      for (const cell of cells) tellSentences(cell);
    }).observe(article, { childList: true, subtree: true });
  }
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
