// "cell 36:10" in an output or a figure's caption becomes a link to that line.

const PLACE = /\bcell\s(\d+):(\d+)|"cell (\d+)", line (\d+)/g;
let isWatched = false;
const NOT_HERE = "a, svg, script, style, textarea, button, output";

// Makes links of the places in what `root` holds.
export function link(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (data.search(PLACE) >= 0 && !parentElement.closest(NOT_HERE)) found.push(walker.currentNode);
  }
  for (const node of found) {
    const parts = [];
    let at = 0;
    for (const match of node.data.matchAll(PLACE)) {
      const anchor = document.createElement("a");
      const [cell, line] = [match[1] ?? match[3], match[2] ?? match[4]];
      Object.assign(anchor, { className: "qt-line", textContent: match[0], href: `#cell-${cell}-${line}` });
      Object.assign(anchor.dataset, { cell, line });
      parts.push(node.data.slice(at, match.index), anchor);
      at = match.index + match[0].length;
    }
    node.replaceWith(...parts, node.data.slice(at));
  }
}

// Links in all outputs of the page; `jump(cell, line, output)` is called when one is followed.
export function watch(article, jump) {
  if (isWatched) return;
  isWatched = true;
  for (const output of article.querySelectorAll(".cell_output")) link(output);
  // A player writes its caption anew at each step.
  const stepped = ({ target }) => setTimeout(() => target.querySelectorAll(".qt-caption").forEach(link));
  article.addEventListener("qt-step", stepped, true);
  article.addEventListener("click", (event) => {
    const anchor = event.target.closest("a.qt-line");
    if (!anchor || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    jump(Number(anchor.dataset.cell), Number(anchor.dataset.line), anchor.closest(".cell_output"));
  });
}
