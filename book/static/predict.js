// Predictions: a form opens the fold of the same number and says of each guess whether it was right, near or off, beside the value
// that the fold's own cell gave. One that is answered further down keeps its guess for the form that stands there. Guesses are
// kept in this browser, a key a page, for the next visit and for the page Your path; one that came after the answer was shown
// is marked as such and never takes the place of the first.

const QUACK_GUESSES = "quack-tutorial:guesses:";

// Whether what was typed can be judged: words always, a number or a list of numbers where it is one.
function quackReads(field, guess) {
  if (field.kind === "number") return !Number.isNaN(quackNumber(guess, field.asked));
  const isNumbers = field.kind === "list" && field.value.every((one) => typeof one === "number");
  return !isNumbers || quackMembers(guess).every((one) => /^[-+]?\d*\.?\d+$/.test(one));
}

// The rules of quack_tutorial.notebook.answer: { verdict, ratio }. No verdict for words, or for what cannot be read.
function quackJudge(field, guess, near) {
  if (!quackReads(field, guess)) return {};
  if (field.kind === "choice") return { verdict: guess.trim().toLowerCase() === field.value.toLowerCase() ? "right" : "off" };
  if (field.kind === "list") {
    const got = new Set(quackMembers(guess));
    const want = new Set(field.value.map(String));
    const common = [...got].filter((one) => want.has(one)).length, either = got.size + want.size - common;
    return { verdict: common === either ? "right" : 2 * common >= either ? "near" : "off" };
  }
  if (field.kind !== "number") return {};
  const number = quackNumber(guess, field.asked);
  // On both sides by the same factor: half as much is as far off as twice as much.
  const factor = number * field.value > 0 ? Math.max(number / field.value, field.value / number) : Infinity;
  const isRight = number === field.value || (factor <= 1.05 && !field.counted);
  const verdict = isRight ? "right" : factor <= 1 + near ? "near" : "off";
  return { verdict, ratio: number > 0 && field.value > 0 ? number / field.value : undefined };
}

// What was typed as a list: "3 and 33", "lanes 1,024, 4,096"; "none" is an empty one.
function quackMembers(text) {
  const words = quackThousands(text).replace(/[,;&[\]()]|\band\b|\blines?\b|\blanes?\b/gi, " ").trim();
  return /^(none|nothing|-)?$/i.test(words) ? [] : words.split(/\s+/);
}

// "1,024" as 1024; a comma anywhere else stays.
const quackThousands = (text) => text.replace(/(?<![\d.,])\d{1,3}(,\d{3})+(?!\d)/g, (number) => number.replaceAll(",", ""));

// What was typed as a number: "1,024", "93 %", "16 Ki" are ones; "2/3" is 67 where a percentage is asked for. NaN for what is none.
function quackNumber(text, asked) {
  const found = /^([-+]?[\d.]+(?:e[-+]?\d+)?)(?:\/([\d.]+))?([kKM]i?)?\s*%?$/.exec(quackThousands(text).replace(/[_\s]/g, ""));
  if (!found) return NaN;
  const step = found[3]?.endsWith("i") ? 1024 : 1000;
  const number = (Number(found[1]) / Number(found[2] ?? 1)) * (found[3] ? step ** (found[3][0] === "M" ? 2 : 1) : 1);
  if (!Number.isFinite(number)) return NaN;
  return found[2] && /percent/.test(asked) ? 100 * number : number;
}

document.addEventListener("DOMContentLoaded", () => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const key = QUACK_GUESSES + location.pathname;
  const unkept = {}; // where the browser keeps nothing
  const shownCard = () => document.documentElement.dataset.card; // cards.js
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  let isPrinting = false; // which unfolds everything, and answers nothing
  addEventListener("beforeprint", () => (isPrinting = true));
  addEventListener("afterprint", () => setTimeout(() => (isPrinting = false)));

  function read() {
    let value;
    try {
      value = JSON.parse(localStorage.getItem(key));
    } catch {
      // storage is forbidden, or holds something else: nothing was kept
    }
    return { ...(isObject(value) ? value : {}), predictions: isObject(value?.predictions) ? value.predictions : {} };
  }

  // The fields kept of a prediction, or null. What the page asks may have changed since.
  function recordOf(n, asked) {
    const fields = (read().predictions[n] ?? unkept[n])?.fields;
    if (!Array.isArray(fields) || fields.length !== asked.length) return null;
    return fields.every((field, i) => isObject(field) && field.asked === asked[i] && typeof field.guess === "string") ? fields : null;
  }

  // Whose answer a prediction was judged by, where that is kept.
  const cardOf = (n) => (read().predictions[n] ?? unkept[n])?.card;

  // Whether the browser keeps them.
  function keep(n, fields, section) {
    const now = read(); // another tab may have kept more
    if (JSON.stringify(now.predictions[n]?.fields) === JSON.stringify(fields)) return true;
    now.title = document.querySelector("article h1").firstChild.textContent.trim();
    now.asked = new Set(forms.map((form) => form.dataset.predict)).size;
    const { card } = fields.some((field) => field.shown !== undefined) ? { card: cardOf(n) ?? shownCard() } : {};
    now.predictions[n] = { section, fields, when: new Date().toISOString(), card };
    try {
      localStorage.setItem(key, JSON.stringify(now));
      return true;
    } catch {
      unkept[n] = now.predictions[n]; // storage is full or forbidden: the answer is given all the same
      return false;
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

    const remark = document.createElement("p");
    remark.className = "qt-remark";
    remark.setAttribute("role", "alert");
    form.append(remark);

    const before = recordOf(n, asked);
    if (before) {
      before.forEach((field, i) => { entries[i].value = typeof field.later === "string" ? field.later : field.guess; });
      if (!later && isAnswered(before)) tell(judged());
      else if (later) button.textContent = "Kept: the answer comes below";
    }

    function isAnswered(fields) {
      return Boolean(fields?.some((field) => field.shown !== undefined));
    }

    // The answers of the card that was chosen (cards.js), where each card has its own.
    function answers() {
      return JSON.parse(fold?.getAttribute(`data-answer-${shownCard()}`) || fold?.dataset.answer || '{"fields": []}');
    }

    // Each field as it is kept: what was asked, the guess, and where there is one the verdict beside the value. Once the answer was
    // shown guess and verdict stay as they were then, whatever card is chosen, and another guess is `later`.
    function judged() {
      const { fields, near } = answers(), record = recordOf(n, asked);
      return guesses().map((guess, i) => {
        const field = fields[i], first = isAnswered(record) ? record[i] : null;
        if (first) return { ...first, later: guess === first.guess ? undefined : guess || first.later };
        if (!field) return { asked: asked[i], guess };
        return { asked: asked[i], guess, shown: field.shown, kind: field.kind, ...(guess && quackJudge(field, guess, near)) };
      });
    }

    // Whether all that was typed can be read; says of the first what cannot, before an answer is given away for it.
    function isRead() {
      const { fields } = answers();
      const at = guesses().findIndex((guess, i) => guess && fields[i] && !quackReads(fields[i], guess));
      entries.forEach((entry, i) => entry.setAttribute("aria-invalid", i === at));
      remark.textContent = "";
      if (at < 0) return true;
      const wanted = fields[at].kind === "list" ? "numbers: write them as 3, 33, or none" : "a number: write it as 7, 1,024, 2/3 or 1.5e3";
      remark.textContent = `“${guesses()[at]}” cannot be read as ${wanted}. Leave it empty to see the answer without a guess.`;
      entries[at].focus();
      return false;
    }

    function tell(fields) {
      const box = fold.querySelector(":scope > .qt-verdicts");
      const lines = fields.filter((field) => field.shown !== undefined).map((field) => {
        const line = document.createElement("li"), { guess, shown, verdict, later } = field;
        const about = field.asked ? `${field.asked}: ` : "";
        if (!guess) line.textContent = `${about}${shown}`;
        else if (field.kind === "words") line.textContent = `${about}you said “${guess}”; the answer: ${shown}`;
        else if (!verdict) line.textContent = `${about}“${guess}” cannot be read as ${field.kind === "list" ? "numbers" : "a number"}; it is ${shown}`;
        else {
          line.textContent = `${about}you said ${guess}, it is ${shown}: `;
          const word = document.createElement("b");
          word.className = `qt-${verdict}`;
          word.textContent = verdict;
          line.append(word);
        }
        if (later) line.append(` (you said “${later}” after the answer was shown, which does not count)`);
        return line;
      });
      const own = box.querySelector(`.qt-of-${cardOf(n) ?? shownCard()} ul`);
      (own ?? box.querySelector("ul")).replaceChildren(...lines);
      if (!box.querySelector(".qt-of-the-book")) {
        const note = document.createElement("p");
        note.className = "qt-of-the-book"; // shown where the output below is not that of the book's code
        note.textContent = "These values are those of the book's code. What stands below comes from the code as you have it.";
        box.append(note);
      }
      box.classList.toggle("qt-told", fields.some((field) => field.guess || field.later)); // then the reason stands below
    }

    function told(isKept) {
      const isGuessed = guesses().some(Boolean);
      remark.textContent = isKept || !isGuessed ? "" : "This browser does not keep your guess: its storage is full or switched off.";
    }

    function answer() {
      const fields = judged(), isKept = keep(n, fields, sectionOf(form)); // also without a guess: the next one comes after the answer
      tell(fields);
      told(isKept);
    }
    // Also where the fold is opened without the button, by hand or by a cell that was run.
    if (!later) fold?.addEventListener("toggle", () => fold.open && !isPrinting && answer());

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!isRead()) return;
      if (!later) {
        answer();
        fold.open = true;
        fold.querySelector("summary").focus();
        return;
      }
      const isAny = guesses().some(Boolean);
      for (const other of others) all("input, select", other).forEach((entry, i) => { entry.value = entries[i].value; });
      button.textContent = isAny ? "Kept: the answer comes below" : "Keep it for later";
      const fields = isAnswered(recordOf(n, asked)) ? judged() : guesses().map((guess, i) => ({ asked: asked[i], guess }));
      if (isAny) told(keep(n, fields, sectionOf(form)));
    });
  }

  function sectionOf(form) {
    return form.closest("section")?.querySelector(":scope > h1, :scope > h2, :scope > h3, :scope > h4")?.firstChild.textContent.trim() ?? "";
  }
});
