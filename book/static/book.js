// Mends what a screen reader or a keyboard would stumble over in the theme's own markup.
document.addEventListener("DOMContentLoaded", () => {
  // A label that hides the visible text: voice control could not find the button by the words that it shows.
  for (const node of document.querySelectorAll("summary[aria-label], button.search-button-field[aria-label]")) {
    node.removeAttribute("aria-label");
  }
  // A box that scrolls must be reachable by keyboard.
  for (const box of document.querySelectorAll(".pst-scrollable-table-container, .cell_output .text_html")) {
    if (box.scrollWidth <= box.clientWidth) continue;
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", box.matches(".text_html") ? "Figure, scrolls sideways" : "Table, scrolls sideways");
  }
});
