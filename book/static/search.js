// The search: results as one types, each at its section. It uses the theme's box, and the page search.html.
document.addEventListener("DOMContentLoaded", () => {
  const onPage = document.getElementById("search-results"), wrapper = document.querySelector(".search-button__wrapper");
  for (const form of document.querySelectorAll("form.bd-search")) begin(form);

  function begin(form) {
    const input = form.querySelector("input"), inOverlay = wrapper?.contains(form);
    const most = inOverlay ? 12 : 60;
    input.id = inOverlay ? "search-input" : "search-page-input";
    const list = book.make("div", { id: `${input.id}-results`, className: "qt-results", role: "listbox", ariaLabel: "Sections found" });
    const status = book.make("p", { className: "qt-search-status", role: "status" });
    for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" })) {
      input.setAttribute(name, value);
    }
    if (inOverlay) form.after(status, list);
    else onPage.replaceChildren(status, list);
    let chosen = -1, asked = 0;

    function choose(to) {
      const options = [...list.children];
      if (!options.length) return;
      chosen = (to + options.length) % options.length;
      options.forEach((option, i) => option.setAttribute("aria-selected", String(i === chosen)));
      input.setAttribute("aria-activedescendant", options[chosen].id);
      options[chosen].scrollIntoView({ block: "nearest" });
    }

    async function look() {
      const query = input.value.trim(), mine = ++asked;
      let found = [], words = wordsOf(query), said = "";
      if (words.length) {
        try {
          const { all } = await book.sections();
          if (mine !== asked) return;
          found = search(all, query, words);
          said = found.length ? `${found.length} section${found.length > 1 ? "s" : ""}` : `No section has ${words.length > 1 ? "all of these words" : "this word"}.`;
          if (found.length > most) said += `, the first ${most} below`;
        } catch (error) {
          said = `Nothing can be searched: ${error.message}.`;
        }
      }
      chosen = -1;
      input.removeAttribute("aria-activedescendant");
      input.setAttribute("aria-expanded", String(found.length > 0));
      list.replaceChildren(...found.slice(0, most).map((section, i) => option(section, words, `${list.id}-${i}`)));
      list.hidden = !found.length;
      if (status.textContent !== said) status.textContent = said;
    }

    function follow(link) {
      if (book.holdsPython() && new URL(link.href).pathname !== location.pathname) return void open(link.href, "_blank");
      wrapper?.classList.remove("show");
      location.href = link.href;
    }

    input.addEventListener("input", look);
    input.addEventListener("focus", () => book.sections().catch(() => {}));
    input.addEventListener("keydown", (event) => {
      const keys = { ArrowDown: () => choose(chosen + 1), ArrowUp: () => choose(chosen < 0 ? -1 : chosen - 1) };
      if (event.key === "Escape" && inOverlay) {
        event.preventDefault();
        wrapper.classList.remove("show");
        [...document.querySelectorAll(".search-button__button")].find((button) => button.offsetParent)?.focus();
      } else if (event.key in keys && list.children.length) {
        event.preventDefault();
        keys[event.key]();
      }
    });
    form.addEventListener("submit", (event) => {
      const link = list.children[Math.max(chosen, 0)];
      // Before anything was found, the form leads to the page search.html.
      if (!link && inOverlay) return;
      event.preventDefault();
      if (link) follow(link);
    });
    list.addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      follow(link);
    });
    list.hidden = true;
    if (!inOverlay) {
      input.value = new URLSearchParams(location.search).get("q") ?? "";
      look();
    }
  }

  function wordsOf(query) {
    return [...new Set(query.toLowerCase().match(/[\p{L}\p{N}_.]+/gu) ?? [])].map((word) => word.replace(/^\.+|\.+$/g, "")).filter(Boolean);
  }

  // Matches a word from its start: "barr" finds barrier, "syncthreads" also __syncthreads.
  const starts = (word) => new RegExp(`(?<![\\p{L}\\p{N}])_*${word.replace(/[.]/g, "\\.")}`, "giu");

  // The sections that have every word, those first that are called so or speak of it most.
  function search(all, query, words) {
    const patterns = words.map(starts), asked = query.toLowerCase();
    const found = [];
    all.forEach((section, order) => {
      let score = section.title.toLowerCase() === asked ? 100 : 0;
      for (const pattern of patterns) {
        const inTitle = (section.title.match(pattern) ?? []).length, inText = (section.text.match(pattern) ?? []).length;
        if (!inTitle && !inText && !pattern.test(section.page)) return;
        pattern.lastIndex = 0;
        if (!inTitle && !inText && words.length === 1) return;
        score += (inTitle ? 20 : 0) + Math.min(inText, 6);
      }
      found.push({ section, score, order });
    });
    return found.sort((a, b) => b.score - a.score || a.order - b.order).map((one) => one.section);
  }

  function option(section, words, id) {
    const title = book.make("strong", {}, ...marked(section.title, words));
    const place = book.make("small", { textContent: section.page === section.title ? "" : section.page });
    const snippet = book.make("span", {}, ...marked(around(section.text.replaceAll("`", "").replace(/\s+/g, " "), words), words));
    const properties = { id, href: section.url, tabIndex: -1, role: "option", ariaSelected: "false" };
    return book.make("a", properties, title, " ", place, snippet);
  }

  // The part of a text where the first word stands, about two lines long.
  function around(text, words) {
    const places = words.map((word) => text.search(starts(word))).filter((place) => place >= 0);
    const place = Math.max(0, Math.min(...places, text.length) - 50), from = places.length && place ? text.indexOf(" ", place) + 1 : 0;
    const to = text.length > from + 170 ? text.lastIndexOf(" ", from + 170) : text.length;
    return (from ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : "");
  }

  function marked(text, words) {
    const parts = [], all = new RegExp(words.map((word) => starts(word).source).join("|"), "giu");
    let at = 0;
    for (const match of text.matchAll(all)) {
      parts.push(text.slice(at, match.index), book.make("mark", { textContent: match[0] }));
      at = match.index + match[0].length;
    }
    return [...parts, text.slice(at)];
  }
});
