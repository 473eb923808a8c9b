// Words that the glossary explains, and links to other pages, show what they lead to without leaving the page: under a mouse
// that rests on them, and for a click, Enter or a tap. The second click follows the link, as a browser without popovers does
// at once. On pages without cells a click on a link to another page follows it.
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article.bd-article");
  if (!article || !("popover" in HTMLElement.prototype)) return;
  const hasCells = Boolean(article.querySelector("div.cell_input"));
  const REST = 400, LEAVE = 300; // ms
  let box, shown = null, isPinned = false, timer;

  // The link at a place of the text that can be shown, or null.
  function linkAt(node) {
    const link = node.closest?.("a.reference.internal[href]");
    if (!link || !article.contains(link) || link.matches(".download, .headerlink, .toctree-wrapper a") || link.querySelector("img, svg")) return null;
    const name = book.nameOf(link);
    return name && name.split("#")[0] !== book.nameOf(location)?.split("#")[0] ? link : null;
  }
  const isTerm = (link) => link.classList.contains("qt-term");
  const onClick = (link) => isTerm(link) || hasCells;

  for (const link of article.querySelectorAll("a.reference.internal[href]")) {
    if (!linkAt(link)) continue;
    link.removeAttribute("title"); // it would stand over the same words
    if (onClick(link)) link.setAttribute("aria-haspopup", "dialog");
  }

  function make() {
    box = document.createElement("div");
    box.className = "qt-popover";
    box.popover = "manual";
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-labelledby", "qt-popover-title");
    box.innerHTML = '<p id="qt-popover-title"><strong></strong> <small></small></p><div></div><p><a></a> <button type="button">Close</button></p>';
    box.querySelector("button").addEventListener("click", () => close(true));
    box.addEventListener("mouseenter", () => clearTimeout(timer));
    box.addEventListener("mouseleave", leave);
    box.addEventListener("keydown", (event) => {
      const ends = [box.querySelector("a"), box.querySelector("button")];
      if (event.key !== "Tab" || document.activeElement !== ends[event.shiftKey ? 0 : 1]) return;
      event.preventDefault();
      close(true);
    });
    document.body.append(box);
  }

  async function show(link, pin) {
    clearTimeout(timer);
    let section;
    try {
      const name = book.nameOf(link), { byName } = await book.sections();
      section = byName.get(name) ?? byName.get(name.split("#")[0]);
    } catch {
      section = null;
    }
    if (!section) return pin ? follow(link) : undefined;
    if (!pin && !link.matches(":hover")) return; // the mouse has moved on while the list came
    if (!box) make();
    const [title, page] = box.querySelector("p").children, more = box.querySelector("a");
    title.textContent = section.title;
    page.textContent = section.page === section.title ? "" : section.page;
    const paragraphs = section.text.split("\n\n").slice(0, isTerm(link) ? 3 : 1);
    box.querySelector("div").replaceChildren(...paragraphs.filter(Boolean).map((text) => {
      const paragraph = document.createElement("p");
      paragraph.append(...book.written(text));
      return paragraph;
    }));
    more.href = link.href;
    more.target = book.holdsPython() ? "_blank" : "";
    more.textContent = book.holdsPython() ? "Open the page in a new tab" : "Open the page";
    shown = link;
    isPinned = pin;
    if (!box.matches(":popover-open")) box.showPopover();
    place(link);
    if (pin) more.focus({ preventScroll: true });
  }

  // Below the link, or above it where there is no room.
  function place(link) {
    const at = link.getClientRects()[0], { width, height } = box.getBoundingClientRect(), edge = 8;
    const left = Math.max(edge, Math.min(at.left, document.documentElement.clientWidth - width - edge));
    const below = at.bottom + 6 + height < innerHeight || at.top < height + 6;
    box.style.left = `${left + scrollX}px`;
    box.style.top = `${(below ? at.bottom + 6 : at.top - height - 6) + scrollY}px`;
  }

  function close(takesFocus) {
    clearTimeout(timer);
    const link = shown;
    shown = null;
    if (box?.matches(":popover-open")) box.hidePopover();
    if (takesFocus) link?.focus();
  }

  function leave() {
    clearTimeout(timer);
    if (!isPinned) timer = setTimeout(close, LEAVE);
  }

  function follow(link) {
    close();
    if (book.holdsPython()) open(link.href, "_blank");
    else location.href = link.href;
  }

  article.addEventListener("mouseover", (event) => {
    const link = linkAt(event.target);
    if (!link || link === shown || isPinned && shown) return;
    clearTimeout(timer);
    timer = setTimeout(() => show(link, false), REST);
  });
  article.addEventListener("mouseout", (event) => linkAt(event.target) && leave());
  article.addEventListener("click", (event) => {
    const link = linkAt(event.target);
    if (!link || !onClick(link) || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (shown === link && isPinned) follow(link);
    else show(link, true);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && shown) close(isPinned);
  });
  document.addEventListener("pointerdown", (event) => {
    if (shown && !box.contains(event.target) && !shown.contains(event.target)) close();
  });
});
