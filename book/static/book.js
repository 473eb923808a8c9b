document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // The theme's button to print holds a line of script, which no page runs (extension/safe.py).
  for (const button of all("[data-click]")) button.addEventListener("click", () => print());

  // A box that scrolls must be reachable by keyboard.
  function mendBoxes(root) {
    for (const box of all(".pst-scrollable-table-container, .cell_output .text_html, .qt-table", root)) {
      if (box.scrollWidth <= box.clientWidth || box.tabIndex === 0) continue;
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      const under = box.closest("section")?.querySelector("h1, h2, h3")?.firstChild.textContent;
      box.setAttribute("aria-label", `${box.matches(".text_html") ? "Figure" : "Table"} under “${under}”, scrolls sideways`);
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

  // The number of a cell stands below its code: it names the whole, and what came of it, for those who hear the page from top to bottom.
  for (const number of article ? all(".qt-number", article) : []) {
    const cell = number.closest("div.cell"), output = cell.querySelector(".cell_output");
    for (const [part, name] of [[cell, ""], [output, "Output of "]]) {
      part?.setAttribute("role", "group");
      part?.setAttribute("aria-label", name + number.textContent);
    }
  }

  // What a kernel's code reads, writes and waits for has the colours of the figures. CuTe's names say what is memory: m whole, g a
  // block's tile, s shared; a thread's part is tXgX or tXsX. `read MN elements` is the book's comment above each access.
  const MEMORY = /^(m[A-Z]\w*|[gs][A-Z]\w*|t\w+[gs][A-Z]\w*|buffer|slots)$/;
  const WAITS = /^(barrier|sync_warp|sync_threads|cluster_(arrive|wait)|mbarrier_(wait|try_wait|arrive\w*)|cp_async_wait_\w+|griddepcontrol_wait)$/;
  function tellAccesses(root) {
    for (const name of all(".highlight .n", root)) {
      const text = name.textContent;
      if (WAITS.test(text)) name.classList.add("qt-waits");
      else if (MEMORY.test(text) && name.nextSibling?.textContent.startsWith("[")) name.classList.add(isStored(name) ? "qt-writes" : "qt-reads");
    }
    for (const comment of all(".highlight .c1", root)) {
      if (!/^# (read|write) /.test(comment.textContent)) continue;
      comment.innerHTML = comment.innerHTML.replace(/\b(read|write) [^;]*?elements?/g, (words, verb) => `<span class="qt-${verb}s">${words}</span>`);
    }
  }

  // Whether `name[...]` is followed by "=": the bracket that closes is counted over the pieces of the line.
  function isStored(name) {
    let depth = 0, rest = "";
    for (let node = name.nextSibling; node && !node.textContent.includes("\n"); node = node.nextSibling) rest += node.textContent;
    for (let i = 0; i < rest.length; i++) {
      if ("[(".includes(rest[i])) depth++;
      if ("])".includes(rest[i]) && --depth === 0) return /^\s*([-+*/]?=)(?!=)/.test(rest.slice(i + 1));
    }
    return false;
  }
  if (article) tellAccesses(article);

  // A remark in brackets that ends a paragraph stands in the margin where there is room for it (book.css).
  const REMARK = /[.!?:]\s\((?=[A-Z]|$)(?!.*[.!?:]\s\((?=[A-Z]|$))/s;
  for (const paragraph of article ? all("section > p", article) : []) {
    if (!/[.!?]\)$/.test(paragraph.textContent.trim())) continue;
    const text = [...paragraph.childNodes].findLast((node) => node.nodeType === Node.TEXT_NODE && REMARK.test(node.data));
    if (!text) continue;
    const remark = document.createElement("span");
    remark.className = "qt-aside";
    text.splitText(text.data.search(REMARK) + 2).before(remark);
    while (remark.nextSibling) remark.append(remark.nextSibling);
  }

  // The sections in view are marked in the list at the side.
  const entries = new Map(all(".bd-toc-nav a").map((link) => [document.getElementById(link.hash.slice(1)), link]));
  const spy = new IntersectionObserver((seen) => seen.forEach((one) => entries.get(one.target).classList.toggle("active", one.isIntersecting)), { rootMargin: "-15% 0px -70%" });
  for (const section of entries.keys()) if (section) spy.observe(section);

  // Beside each page in the list: how many of its predictions and exercises this browser has kept (predict.js, run/solved.js).
  for (const link of all("nav.bd-links a[href]")) {
    const path = new URL(link.href).pathname;
    if (!/\/(notebooks|book\/labs)\//.test(path)) continue;
    const guesses = kept(`quack-tutorial:guesses:${path}`), solved = kept(`quack-tutorial:solved:${path}`);
    const guessed = Object.keys(guesses.predictions ?? {}).length, right = Object.values(solved).filter((one) => one?.right).length;
    if (!guessed && !right) continue;
    const mark = document.createElement("span");
    mark.className = "qt-done";
    mark.textContent = guesses.asked ? `${guessed}/${guesses.asked}` : `${right}`;
    link.parentElement.style.setProperty("--qt-done", guesses.asked ? guessed / guesses.asked : 1);
    mark.title = `${guessed} of ${guesses.asked ?? guessed} predictions, ${right} solved: Your path`;
    link.append(" ", mark);
  }

  function kept(key) {
    try {
      return JSON.parse(localStorage.getItem(key)) ?? {};
    } catch {
      return {};
    }
  }

  // Paper cannot be unfolded. What draws a picture, is long or stands there twice stays folded, and is not printed; solutions go to
  // the end.
  const folds = all("details.qt-fold:not(.qt-small, .qt-on-gpu, .qt-ran)").filter((fold) => !["Code", "Output"].includes(fold.firstElementChild.textContent.trim()));
  const isSolution = (fold) => fold.firstElementChild.textContent.trim() === "Solution";
  let unfolded = [], moved = [];
  addEventListener("beforeprint", () => {
    unfolded = folds.filter((fold) => !fold.open);
    for (const fold of unfolded) fold.open = true;
    const solutions = folds.filter(isSolution);
    if (!solutions.length) return;
    const end = document.createElement("section");
    end.className = "qt-solutions";
    end.innerHTML = "<h2>Solutions</h2>";
    moved = solutions.map((fold, i) => {
      const place = document.createElement("p");
      place.textContent = `Solution ${i + 1} is at the end.`;
      fold.replaceWith(place);
      fold.firstElementChild.textContent = `Solution ${i + 1}`;
      end.append(fold);
      return [fold, place];
    });
    article.append(end);
  });
  addEventListener("afterprint", () => {
    for (const [fold, place] of moved) {
      place.replaceWith(fold);
      fold.firstElementChild.textContent = "Solution";
    }
    document.querySelector(".qt-solutions")?.remove();
    moved = [];
    for (const fold of unfolded) fold.open = false;
  });
});
