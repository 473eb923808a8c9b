// Predictions: a form opens the fold of the same number and says of each guess whether it was right, near or off, beside the value
// that the fold's own cell gave. One that is answered further down keeps its guess for the form that stands there. Guesses are
// kept in this browser, a key a page, for the next visit and for the page Your path.

const QUACK_GUESSES = "quack-tutorial:guesses:";

// The rules of quack_tutorial.notebook.answer: { verdict, ratio }. No verdict for words, or where a number was wanted and none given.
function quackJudge(field, guess, near) {
  if (field.kind === "choice") return { verdict: guess.trim().toLowerCase() === field.value.toLowerCase() ? "right" : "off" };
  if (field.kind === "list") {
    const got = new Set(guess.replace(/\b(\d{1,3}),(?=\d{3}\b)/g, "$1").replace(/[,;&[\]()]|\band\b|\blines?\b|\blanes?\b/gi, " ").trim().split(/\s+/));
    const want = new Set(field.value.map(String));
    const common = [...got].filter((one) => want.has(one)).length, either = got.size + want.size - common;
    return { verdict: common === either ? "right" : 2 * common >= either ? "near" : "off" };
  }
  const number = field.kind === "number" ? quackNumber(guess, field.asked) : NaN;
  if (Number.isNaN(number)) return {};
  // On both sides by the same factor: half as much is as far off as twice as much.
  const factor = number * field.value > 0 ? Math.max(number / field.value, field.value / number) : Infinity;
  const isRight = number === field.value || (factor <= 1.05 && !field.counted);
  const verdict = isRight ? "right" : factor <= 1 + near ? "near" : "off";
  return { verdict, ratio: number > 0 && field.value > 0 ? number / field.value : undefined };
}

// What was typed as a number: "1,024", "93 %", "16 Ki" are ones; "2/3" is 67 where a percentage is asked for.
function quackNumber(text, asked) {
  const found = /^([-+]?[\d.]+(?:e[-+]?\d+)?)(?:\/([\d.]+))?([kKM]i?)?\s*%?$/.exec(text.replace(/[,_\s]/g, ""));
  if (!found) return NaN;
  const step = found[3]?.endsWith("i") ? 1024 : 1000;
  const number = (Number(found[1]) / Number(found[2] ?? 1)) * (found[3] ? step ** (found[3][0] === "M" ? 2 : 1) : 1);
  return found[2] && /percent/.test(asked) ? 100 * number : number;
}

document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const key = QUACK_GUESSES + location.pathname;
  const kept = read();

  function read() {
    try {
      return JSON.parse(localStorage.getItem(key)) ?? {};
    } catch {
      return {}; // storage is forbidden, or holds something else: nothing was kept
    }
  }

  function keep(n, fields, section) {
    const now = read(); // another tab may have kept more
    if (JSON.stringify(now.predictions?.[n]?.fields) === JSON.stringify(fields)) return;
    now.title = document.querySelector("article h1").firstChild.textContent.trim();
    now.asked = new Set(forms.map((form) => form.dataset.predict)).size;
    now.predictions = { ...now.predictions, [n]: { section, fields, when: new Date().toISOString() } };
    try {
      localStorage.setItem(key, JSON.stringify(now));
    } catch {
      // storage is full or forbidden: the answer is given all the same
    }
  }

  const forms = all("form.qt-predict");
  for (const form of forms) {
    const n = form.dataset.predict, number = `[data-predict="${n}"]`;
    const entries = all("input, select", form), others = all("form" + number).filter((other) => other !== form);
    const asked = all("label", form).map((label) => label.firstChild.textContent.trim());
    const fold = document.querySelector("details" + number);
    const later = others.length > 0 && form === document.querySelector("form" + number);
    const button = form.querySelector("button");
    const guesses = () => entries.map((entry) => entry.value.trim());
    form.hidden = false;

    const before = kept.predictions?.[n];
    // What the page asks may have changed since.
    if (before && String(before.fields.map((field) => field.asked)) === String(asked)) {
      before.fields.forEach((field, i) => { entries[i].value = field.guess; });
      if (!later && before.fields.some((field) => field.shown)) tell(judged());
      else if (later) button.textContent = "Kept: the answer comes below";
    }

    // Each field as it is kept: what was asked, the guess, and where there is one the verdict beside the value.
    function judged() {
      const answer = JSON.parse(fold.dataset.answer || '{"fields": []}');
      return guesses().map((guess, i) => {
        const field = answer.fields[i];
        if (!field) return { asked: asked[i], guess };
        return { asked: asked[i], guess, shown: field.shown, kind: field.kind, ...(guess && quackJudge(field, guess, answer.near)) };
      });
    }

    function tell(fields) {
      const box = fold.querySelector(":scope > .qt-verdicts");
      const lines = fields.filter((field) => field.shown !== undefined).map((field) => {
        const line = document.createElement("li"), { guess, shown, verdict } = field;
        const about = field.asked ? `${field.asked}: ` : "";
        if (!guess) line.textContent = `${about}${shown}`;
        else if (field.kind === "words") line.textContent = `${about}you said “${guess}”; the answer: ${shown}`;
        else if (!verdict) line.textContent = `${about}“${guess}” is not a number; it is ${shown}`;
        else {
          line.textContent = `${about}you said ${guess}, it is ${shown}: `;
          const word = document.createElement("b");
          word.className = `qt-${verdict}`;
          word.textContent = verdict;
          line.append(word);
        }
        return line;
      });
      box.querySelector("ul").replaceChildren(...lines);
      if (!box.querySelector(".qt-of-the-book")) {
        const note = document.createElement("p");
        note.className = "qt-of-the-book"; // shown where the output below is not that of the book's code
        note.textContent = "These values are those of the book's code. What stands below comes from the code as you have it.";
        box.append(note);
      }
      box.classList.toggle("qt-told", fields.some((field) => field.guess)); // then the reason stands below
    }

    function answer() {
      const fields = judged();
      tell(fields);
      if (fields.some((field) => field.guess)) keep(n, fields, sectionOf(form));
    }
    // Also where the fold is opened without the button, by hand or by a cell that was run.
    if (!later) fold?.addEventListener("toggle", () => fold.open && answer());

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!later) {
        answer();
        fold.open = true;
        fold.querySelector("summary").focus();
        return;
      }
      const isAny = guesses().some(Boolean);
      for (const other of others) all("input, select", other).forEach((entry, i) => { entry.value = entries[i].value; });
      button.textContent = isAny ? "Kept: the answer comes below" : "Keep it for later";
      if (isAny) keep(n, guesses().map((guess, i) => ({ asked: asked[i], guess })), sectionOf(form));
    });
  }

  function sectionOf(form) {
    return form.closest("section")?.querySelector(":scope > h1, :scope > h2, :scope > h3, :scope > h4")?.firstChild.textContent.trim() ?? "";
  }
});
