// The page Your path: lists what this browser has kept of the reader's predictions (predict.js), and of exercises and labs that were
// judged in the page (run/). Export writes it to a file; clearing asks once more. Nothing is sent anywhere.

document.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("qt-path");
  const GUESSES = "quack-tutorial:guesses:", SOLVED = "quack-tutorial:solved:";

  function make(tag, words = "", attributes = {}, ...children) {
    const node = document.createElement(tag);
    if (words) node.textContent = words;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const isField = (field) => isObject(field) && typeof field.guess === "string" && typeof field.asked === "string";
  const isGuessed = (one) => isObject(one) && Array.isArray(one.fields) && one.fields.every(isField) && one.fields.some((field) => field.guess || field.later);

  // What is kept, by page: { path: { guesses, solved } }; what is not as our pages write it is left out, and so are predictions
  // without a guess. Null where storage is forbidden.
  function read() {
    const pages = {};
    try {
      for (let i = 0; i < localStorage.length; i++) {
        const key = localStorage.key(i), kind = [GUESSES, SOLVED].find((prefix) => key.startsWith(prefix));
        if (!kind) continue;
        try {
          const value = JSON.parse(localStorage.getItem(key));
          if (!isObject(value)) continue;
          const [name, all, isOurs] = kind === GUESSES ? ["guesses", value.predictions, isGuessed] : ["solved", value, isObject];
          const kept = Object.entries(isObject(all) ? all : {}).filter(([, one]) => isOurs(one));
          if (!kept.length) continue;
          const found = Object.fromEntries(kept);
          (pages[key.slice(kind.length)] ??= {})[name] = kind === GUESSES ? { ...value, predictions: found } : found;
        } catch {
          // not ours
        }
      }
    } catch {
      return null;
    }
    return pages;
  }

  // The book's order and titles, from the list of its pages beside this one.
  const titleOf = (link) => [...link.childNodes].filter((node) => !node.matches?.(".qt-done")).map((node) => node.textContent).join("").trim();
  const links = [...document.querySelectorAll("nav.bd-links a[href]")].map((link) => [new URL(link.href).pathname, titleOf(link)]);
  const titles = new Map(links.filter(([path]) => /\/(notebooks|book\/labs)\//.test(path)));
  const places = [...titles.keys()];
  const place = (path) => (titles.has(path) ? places.indexOf(path) : places.length);

  function show() {
    const pages = read();
    if (!pages) {
      root.replaceChildren(make("p", "This browser does not let the page keep anything, so there is no list: predictions are answered all the same, and forgotten when you leave their page."));
      return;
    }
    const paths = Object.keys(pages).sort((a, b) => place(a) - place(b));
    if (!paths.length) {
      const start = make("a", places.length ? titles.get(places[0]) : "the first chapter", { href: places[0] ?? "../notebooks/00-ten-minute-win.html" });
      root.replaceChildren(make("p", "Nothing is kept yet. Guess before you press ", {}, make("b", "Reveal"), " in a chapter, and it stands here. Begin with ", start, "."));
      return;
    }
    root.replaceChildren(calibration(pages), ...paths.map((path) => section(path, pages[path])), tools(pages));
  }

  const fieldsOf = (pages) => Object.values(pages).flatMap((page) => Object.values(page.guesses?.predictions ?? {}).flatMap((one) => one.fields));

  function calibration(pages) {
    const judged = fieldsOf(pages).filter((field) => field.guess && field.verdict);
    const count = (verdict) => judged.filter((field) => field.verdict === verdict).length;
    const box = make("p", "", { class: "qt-calibration" });
    if (!judged.length) return box;
    const many = (verdict) => `${count(verdict)} ${verdict}`;
    box.append(`Of ${judged.length} ${judged.length === 1 ? "guess" : "guesses"} that could be judged ${many("right")}, ${many("near")}, ${many("off")}`);
    const numbers = judged.filter((field) => field.kind === "number"), ratios = numbers.map((field) => field.ratio).filter((ratio) => ratio > 0).sort((a, b) => a - b);
    if (numbers.length >= 5 && ratios.length) {
      const half = ratios.length >> 1, median = ratios.length % 2 ? ratios[half] : Math.sqrt(ratios[half - 1] * ratios[half]);
      const over = median > 1.05 ? "; you guess too much rather than too little" : median < 1 / 1.05 ? "; you guess too little rather than too much" : "";
      box.append(`. The median of your numbers is ${median.toPrecision(2)} times the value${over}`);
    }
    box.append(".");
    return box;
  }

  // The guess that counts, and one that came after the answer.
  const said = ({ guess, later }) => [guess, later && `(after the answer: ${later})`].filter(Boolean).join(" ");

  function section(path, { guesses, solved }) {
    const title = titles.get(path) ?? guesses?.title ?? path.split("/").at(-1);
    const part = make("section", "", {}, make("h2", "", {}, make("a", title, { href: path })));
    const predictions = Object.entries(guesses?.predictions ?? {}).sort(([a], [b]) => a - b);
    if (predictions.length) {
      const of = guesses.asked ? ` of ${guesses.asked}` : "";
      const rows = predictions.flatMap(([n, { section: where, fields }]) => fields.map((field, i) => {
        const link = make("a", where || `prediction ${n}`, { href: `${path}#predict-${n}` });
        const first = make("td", "", {}, ...(i ? [] : [link]));
        const verdict = field.verdict ?? (field.shown === undefined ? "not revealed" : field.guess ? "–" : "no guess");
        return make("tr", "", {}, first, make("td", field.asked), make("td", said(field)), make("td", field.shown ?? ""), make("td", "", {}, make("b", verdict, { class: `qt-${field.verdict}` })));
      }));
      const head = make("tr", "", {}, ...["where", "asked", "you said", "it is", "verdict"].map((words) => make("th", words, { scope: "col" })));
      const table = make("table", "", { class: "table" }, make("thead", "", {}, head), make("tbody", "", {}, ...rows));
      part.append(make("p", `${predictions.length}${of} predictions`), make("div", "", { class: "pst-scrollable-table-container" }, table));
    }
    const cells = Object.entries(solved ?? {}).sort(([a], [b]) => a - b);
    if (cells.length) {
      const points = cells.map(([, one]) => one.points).filter(Array.isArray);
      const sum = (at) => points.reduce((all, one) => all + Number(one[at] ?? 0), 0);
      const rows = cells.map(([n, one]) => {
        const of = Array.isArray(one.points) ? `, ${one.points[0]} of ${one.points[1]} points` : "";
        return make("li", "", {}, `${one.title || `cell ${n}`}: `, make("b", one.right ? "right" : "not yet", { class: one.right ? "qt-right" : "qt-near" }), of);
      });
      const right = cells.filter(([, one]) => one.right).length;
      part.append(make("p", `${right} of ${cells.length} tried ${points.length ? "checks" : "exercises"} right${points.length ? `, ${sum(0)} of ${sum(1)} points` : ""}`), make("ul", "", {}, ...rows));
    }
    return part;
  }

  function tools(pages) {
    const bar = make("p", "", { class: "qt-path-tools" });
    const button = (words, act) => {
      const made = make("button", words, { type: "button" });
      made.addEventListener("click", act);
      return made;
    };
    function offer() {
      bar.replaceChildren(button("Export as a file", save), " ", button("Clear …", ask));
    }
    function save() {
      const link = make("a", "", { href: URL.createObjectURL(new Blob([JSON.stringify({ exported: new Date().toISOString(), pages }, null, 1)], { type: "application/json" })), download: "your-path.json" });
      link.click();
      URL.revokeObjectURL(link.href);
    }
    function ask() {
      const no = button("Keep it", () => { offer(); bar.querySelector("button").focus(); });
      bar.replaceChildren(make("span", "This forgets every guess and every solved exercise on this list, for good. Your edits of cells stay.", { role: "status" }), " ", button("Forget it", clear), " ", no);
      no.focus();
    }
    function clear() {
      const ours = Object.keys(localStorage).filter((key) => key.startsWith(GUESSES) || key.startsWith(SOLVED));
      for (const key of ours) localStorage.removeItem(key);
      show();
      root.tabIndex = -1;
      root.focus();
    }
    offer();
    return bar;
  }

  show();
  addEventListener("storage", show); // another tab has guessed
});
