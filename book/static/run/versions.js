// Whose text a cell shows, and with it runs: the book's, the reader's, the one that the reader's replaced, or a link's.

import * as kept from "./kept.js";
import { make } from "./make.js";

const NAMES = { yours: "yours", before: "yours, older", link: "the link's", book: "the book's" };
const MOST_OLDER = 5; // texts that were replaced, the last first

// `shown` is called after the cell's text is another one, and told whether it was typed; `failed` when the browser does not keep it.
export function addVersions(cell, place, { shown, failed }) {
  const box = make("span", { className: "qt-versions", role: "group", ariaLabel: `Whose text cell ${cell.number} shows` });
  const says = make("span", { className: "qt-whose" });
  place.append(box, says);

  let older = 0; // which of them “yours, older” shows
  const text = (name) => {
    const { text: yours, before, link } = cell.record;
    return { yours, before: before?.[older] ?? before?.[0], link: link?.text ?? cell.linked, book: cell.built }[name];
  };
  // From now on a text of the reader's can be had under “yours, older”.
  function lay(replaced) {
    cell.record.before = [replaced, ...(cell.record.before ?? []).filter((one) => one !== replaced)].slice(0, MOST_OLDER);
    older = 0;
  }
  const buttons = new Map();
  for (const name of Object.keys(NAMES)) buttons.set(name, button(NAMES[name], () => choose(name)));
  const take = button("Keep it as mine", keepLink);
  take.classList.add("qt-take");
  box.append(...buttons.values(), take);

  function draw() {
    const there = Object.keys(NAMES).filter((name) => text(name) !== undefined);
    box.hidden = there.length < 2;
    for (const [name, one] of buttons) {
      one.hidden = !there.includes(name);
      one.setAttribute("aria-pressed", name === cell.version);
    }
    const many = cell.record.before?.length, isOne = cell.version !== "before" || many === 1;
    buttons.get("before").textContent = isOne ? NAMES.before : `${NAMES.before}, ${older + 1} of ${many}`;
    take.hidden = cell.version !== "link";
    const own = cell.record.text === undefined ? "" : " Yours is kept.";
    const from = `From the link${cell.record.link ? ", changed by you" : ""}: somebody else's code. Read it before you run it.`;
    says.textContent = cell.version === "link" ? `${from}${own}` : (cell.remark ?? "");
  }

  function save() {
    cell.record.number = cell.number;
    cell.isUnkept = !kept.write(cell.key, cell.record);
    if (cell.isUnkept) failed();
  }

  // Pressed again, “yours, older” goes on to the text before that.
  function choose(name) {
    older = name === "before" && cell.version === name ? (older + 1) % cell.record.before.length : 0;
    show(name, true);
  }

  // Show one of the texts; `isChosen`, if the reader asked for it.
  function show(name, isChosen = false) {
    cell.version = name;
    if (isChosen) {
      cell.remark = "";
      if (name === "book") cell.record.shows = "book";
      else delete cell.record.shows;
      save();
    }
    if (cell.editor.text() !== text(name)) cell.editor.set(text(name));
    draw();
    shown();
  }

  // The reader typed. What that replaces can be had back, and a link's text becomes the reader's own only when asked.
  function typed() {
    const { record } = cell, now = cell.editor.text();
    if (cell.version === "link") record.link = { from: record.link?.from ?? cell.linked, text: now };
    else {
      const replaced = cell.version === "yours" ? undefined : record.text;
      if (replaced !== undefined && replaced !== now) lay(replaced);
      record.text = now;
      cell.version = "yours";
      delete record.shows;
      if (now === cell.built) {
        delete record.text;
        cell.version = "book";
      }
    }
    cell.remark = "";
    save();
    draw();
    shown(true);
  }

  // Puts a text in the place of the one shown, which can be had back.
  function replace(now) {
    if (cell.record.text !== undefined && cell.record.text !== now) lay(cell.record.text);
    if (cell.version === "link") show("book");
    cell.editor.set(now);
    typed();
  }

  function keepLink() {
    const now = text("link");
    if (cell.record.text !== undefined && cell.record.text !== now) lay(cell.record.text);
    delete cell.record.link;
    delete cell.linked;
    cell.record.text = now;
    show("yours", true);
    cell.editor.focus();
  }

  // Show a link's text beside what is kept; undefined: the link has the book's here.
  function open(linked) {
    if ((linked ?? cell.built) === cell.editor.text()) return;
    if (linked === undefined || linked === cell.built) {
      cell.remark = "The link has the book's text here. Yours is kept.";
      return show("book");
    }
    cell.linked = linked;
    const { link } = cell.record;
    if (link && link.from !== linked) {
      if (link.text !== link.from) lay(link.text); // what the reader made of another link
      delete cell.record.link;
      save();
    }
    show("link");
  }

  // Another tab wrote. Whoever types here goes on with the text that is here, which else stands nowhere where nothing is kept.
  function told(record) {
    const theirs = record.text, mine = cell.record.text;
    if (cell.editor.isTyping() || cell.isUnkept) {
      cell.record = mine === undefined ? record : { ...record, text: mine };
      if (theirs === mine) return;
      if (mine !== undefined && theirs !== undefined) lay(theirs);
      cell.remark = `Another tab changed this cell: its text is under “${mine === undefined ? NAMES.yours : NAMES.before}”.`;
    } else {
      cell.record = record;
      if (cell.version !== "link") return show(theirs === undefined || record.shows === "book" ? "book" : "yours");
    }
    if (text(cell.version) === undefined) show("book");
    draw();
  }

  Object.assign(cell, { typed, replace, open, told });
  show(cell.record.text === undefined || cell.record.shows === "book" ? "book" : "yours");
}

const button = (words, onclick) => make("button", { type: "button", textContent: words, onclick });
