// What search.js and popover.js need of the book: elements, its sections, loaded when they are first asked for, and whether Python runs here.
const book = (() => {
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const here = document.currentScript.src;
  let loading;

  // As in run/make.js, which scripts that are no modules cannot import.
  function make(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // [{page, url, title, text}, ...] in the book's order; the names of each are in `byName`: "book/glossary.html#barrier".
  function sections() {
    loading ??= new Promise((resolve, reject) => {
      window.bookSections = ({ pages, sections }) => {
        const byName = new Map();
        const all = sections.map(([page, ids, title, text]) => {
          const [path, of] = pages[page], names = ids.split(" ");
          const section = { page: of, url: new URL(path + (ids && `#${names[0]}`), root).href, title, text };
          for (const name of names) byName.set(path + (name && `#${name}`), section);
          return section;
        });
        resolve({ all, byName });
      };
      const script = make("script", { src: new URL("./section-index.js", here).href });
      script.onerror = () => {
        loading = undefined;
        reject(new Error("the list of sections cannot be loaded"));
      };
      document.head.append(script);
    });
    return loading;
  }

  // The name of a section that a link leads to, or null where it leads out of the book.
  function nameOf(link) {
    const url = new URL(link.href, location.href);
    if (url.origin !== root.origin || !url.pathname.startsWith(root.pathname)) return null;
    const name = url.pathname.slice(root.pathname.length) + url.hash;
    try {
      return decodeURIComponent(name);
    } catch {
      return name; // a "%" that begins no letter
    }
  }

  // A page that holds a Python session is not left: links open beside it.
  const holdsPython = () => Boolean(document.querySelector(".qt-run-bar[data-ready-ms]"));

  // A text of the list, its code as code.
  function written(text) {
    return text.split("`").map((part, i) => (i % 2 ? make("code", { textContent: part }) : part));
  }

  return { make, root, sections, nameOf, holdsPython, written };
})();
