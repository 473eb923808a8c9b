// Words that the glossary explains, and on pages with cells links to other pages, show what they lead to without leaving the page,
// for a click, Enter or a tap. The second click follows the link, as a browser without popovers does at once.
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article.bd-article");
  if (!article || !("popover" in HTMLElement.prototype)) return;
  const hasCells = Boolean(article.querySelector("div.cell_input"));
  let box, shown = null;

  // The link at a place of the text that can be shown, or null.
  function linkAt(node) {
    const link = node.closest?.("a.reference.internal[href]");
    if (!link || !article.contains(link) || link.matches(".download, .headerlink, .toctree-wrapper a") || link.querySelector("img, svg")) return null;
    const name = book.nameOf(link);
    return name && name.split("#")[0] !== book.nameOf(location)?.split("#")[0] && (isTerm(link) || hasCells) ? link : null;
  }
  const isTerm = (link) => link.classList.contains("qt-term");

  for (const link of article.querySelectorAll("a.reference.internal[href]")) {
    if (linkAt(link)) link.setAttribute("aria-haspopup", "dialog");
  }

  function make() {
    box = book.make("div", { className: "qt-popover", popover: "manual", role: "dialog" });
    box.setAttribute("aria-labelledby", "qt-popover-title");
    box.innerHTML = '<p id="qt-popover-title"><strong></strong> <small></small></p><div></div><p><a></a> <button type="button">Close</button></p>';
    box.querySelector("button").addEventListener("click", () => close(true));
    box.addEventListener("keydown", (event) => {
      const ends = [box.querySelector("a"), box.querySelector("button")];
      if (event.key !== "Tab" || document.activeElement !== ends[event.shiftKey ? 0 : 1]) return;
      event.preventDefault();
      close(true);
    });
    document.body.append(box);
  }

  async function show(link) {
    let section;
    try {
      const name = book.nameOf(link), { byName } = await book.sections();
      section = byName.get(name) ?? byName.get(name.split("#")[0]);
    } catch {
      section = null;
    }
    if (!section) return follow(link);
    if (!box) make();
    const [title, page] = box.querySelector("p").children, more = box.querySelector("a");
    title.textContent = section.title;
    page.textContent = section.page === section.title ? "" : section.page;
    const paragraphs = section.text.split("\n\n").slice(0, isTerm(link) ? 3 : 1);
    box.querySelector("div").replaceChildren(...paragraphs.filter(Boolean).map((text) => book.make("p", {}, ...book.written(text))));
    more.href = link.href;
    more.target = book.holdsPython() ? "_blank" : "";
    more.textContent = book.holdsPython() ? "Open the page in a new tab" : "Open the page";
    shown = link;
    if (!box.matches(":popover-open")) box.showPopover();
    place(link);
    more.focus({ preventScroll: true });
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
    const link = shown;
    shown = null;
    if (box?.matches(":popover-open")) box.hidePopover();
    if (takesFocus) link?.focus();
  }

  function follow(link) {
    close();
    if (book.holdsPython()) open(link.href, "_blank");
    else location.href = link.href;
  }

  article.addEventListener("click", (event) => {
    const link = linkAt(event.target);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (shown === link) follow(link);
    else show(link);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && shown) close(true);
  });
  document.addEventListener("pointerdown", (event) => {
    if (shown && !box.contains(event.target) && !shown.contains(event.target)) close();
  });
});
