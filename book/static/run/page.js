// The cells of a page, made editable: each in its place, run in order by one worker.

import { makeEditor } from "./editor.js";
import * as kept from "./kept.js";
import * as lines from "./lines.js";
import * as link from "./link.js";
import { make } from "./make.js";
import { add, begin, end } from "./output.js";
import { startPython } from "./safe.js";
import * as solved from "./solved.js";
import * as truth from "./truth.js";
import { addVersions } from "./versions.js";

// What a click needs from the page that is open.
let page;

export async function start(bar, base) {
  const opened = open(bar, base);
  startWorker(performance.now());
  await opened;
  next();
}

// Make the cells editable, once; the worker is not started by that. `given`: the cells of a page that has none in a file, one for
// each node. Of these some have no text on the page, but an output.
export function open(bar, base, given) {
  if (!page) {
    const words = bar.querySelector("[role=status]");
    const python = { worker: null, running: null, queue: [], session: 1, turn: 0 };
    page = { bar, words, base, given, ...python, stale: [], cells: [], answers: [] };
    page.opened = prepare();
    page.opened.catch((error) => {
      page.cannot = `The cells of this page cannot be opened (${error.message}): load the page anew.`;
      words.textContent = page.cannot;
    });
  }
  return page.opened;
}

async function prepare() {
  const cells = page.given ?? (await fromFile());
  const sources = cells.filter((cell) => cell.cell_type === "code");
  page.prose = cells.filter((cell) => cell.cell_type === "markdown");
  page.cells = sources.map((source, i) => ({ number: i + 1, source, built: text(source), state: "new", out: null }));
  for (const cell of page.cells) cell.text = () => cell.editor?.text() ?? cell.built;
  const nodes = [...document.querySelectorAll("article.bd-article div.cell")];
  nodes.forEach(page.given ? (node, i) => place(page.cells[i], node) : findCell);
  nameKeys();
  for (const cell of page.cells) cell.isAside = truth.isAside(page.cells, cell);
  const texts = [undefined, ...page.cells.map((cell) => cell.built)];
  for (const cell of page.cells) {
    if (cell.output) cell.out = { texts };
    if (cell.input) placeIn(cell);
    if (page.given && cell.input) cell.shownBy = page.cells.find((one) => one.number > cell.number && !one.input); // runs with it
  }
  page.prose.filter((cell) => cell.metadata.nbgrader?.solution).forEach(placeAnswer);
  const buttons = { all: "Run all cells", stop: "Stop", link: "Copy link", download: "Download as notebook" };
  if (page.given) delete buttons.download;
  const html = Object.entries(buttons).map(([name, words]) => `<button type="button" data-do="${name}">${words}</button>`);
  const menu = '<button type="button" class="qt-more" popovertarget="qt-run-buttons">Cells</button>'; // on a phone
  page.bar.insertAdjacentHTML("beforeend", `${menu} <div class="qt-run-buttons qt-menu" id="qt-run-buttons" popover>${html.join(" ")}</div>`);
  const actions = { all: runAll, stop, link: copyLink, download };
  for (const button of page.bar.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
  lines.watch(document.querySelector("article.bd-article"), (...place) => jump(page.bar, page.base, ...place));
  page.said = make("span", { className: "qt-run-said", ariaLive: "polite" }); // heard, not seen: beside what it speaks of there are words already
  page.bar.append(page.said);
  addEventListener("storage", ({ key }) => kept.isOurs(key) && told(key));
  addEventListener("pageshow", wakened);
  document.addEventListener("visibilitychange", wakened);
  document.addEventListener("qt-card", () => refresh(true));
  addEventListener("hashchange", openLink);
  tellLost();
  await openLink();
  if (location.pathname.endsWith("/sandbox.html")) (await import("./sandbox.js")).addControls(page.cells);
  page.isOpen = true;
  refresh();
  // For tests, and for the console.
  const change = (n, old, by) => page.cells[n - 1].retype(page.cells[n - 1].text().replace(old, () => by));
  const runOne = (n) => (n ? run(page.cells[n - 1]) : runAll());
  const [state, verdicts] = ["state", "verdicts"].map((name) => (n) => page.cells[n - 1][name]);
  window.quackCells = { run: runOne, change, state, verdicts, idle };
  return { cells: page.cells, run, stop, idle };
}

async function fromFile() {
  const path = location.pathname.slice(new URL("..", page.base).pathname.length).replace(/\.html$/, "");
  page.notebook = new URL(`../_sources/${path}.ipynb`, page.base); // the reader's: a solution in it is text
  const hash = document.querySelector('meta[name="qt-runtime-bytes"]').dataset.cells; // so that no other build's come
  return (await (await fetch(new URL(`../_sources/${path}.cells.json?v=${hash}`, page.base))).json()).cells;
}

const FOREIGN = "It is somebody else's code: once you run it, it may do in your browser whatever this page can, so read it first.";

const text = (cell) => [cell.source].flat().join("");
const idle = () => page.isReady && !page.running && !page.queue.length;

// Cells: those of the notebook, with or without a place on the page ------------------------------------------------------

function findCell(node) {
  const input = node.querySelector("div.cell_input");
  // The output of an answer stands below its cell, in a fold.
  if (!input) return adopt(page.last, node);
  place((page.last = page.cells[Number(input.querySelector(".qt-number").dataset.cell) - 1]), node, input);
}

function place(cell, node, input = node.querySelector("div.cell_input")) {
  adopt(cell, node);
  const [mayFail, isFolded] = ["raises-exception", "hide-cell"].map((tag) => node.matches(`.tag_${tag}`));
  Object.assign(cell, { node, input, mayFail, isFolded });
}

function adopt(cell, node) {
  cell.output = node.querySelector("div.cell_output");
  cell.figures = cell.output ? [...cell.output.querySelectorAll(":scope > :is(.output.text_html, .qt-card)")] : [];
}

function placeIn(cell) {
  const { input, number } = cell;
  input.querySelector("div[class*=highlight-]").hidden = true;
  cell.editor = makeEditor({
    parent: input,
    text: cell.built,
    label: `Code of cell ${number}`,
    run: () => run(cell.shownBy ?? cell),
    changed: () => (cell.editor.tell({}), cell.typed()),
  });
  const tools = make("div", { className: "qt-cell-tools", innerHTML: `<button type="button">Run</button> <span></span>` });
  [cell.runButton, cell.words] = tools.children;
  cell.runButton.title = "Ctrl-Enter; runs the cells above first that are new, changed or out of date";
  cell.runButton.addEventListener("click", () => (page.running === cell ? stop() : run(cell.shownBy ?? cell)));
  input.append(tools);
  addVersions(cell, tools, { shown: (isTyped) => shown(cell, isTyped), failed: notKept });
  cell.retype = (now) => (cell.editor.set(now), cell.typed());
}

// The cell's text is another one: `isTyped`, or another version of it is shown.
function shown(cell, isTyped) {
  cell.follow?.(isTyped);
  if (!page.isOpen) return;
  if (!isTyped && ["link", "before"].includes(cell.version)) clearQueue(); // what waits was not asked for with this text
  // A link's code may have changed Python, which text that is not the link's is not to meet.
  if (page.ranLink && !page.cells.some(({ version }) => version === "link")) stop();
  if (page.linkNote?.isSpent()) page.linkNote.remove();
  forgetOwnLink();
  refresh(true);
}

// A lab's question that is answered in words: a box to write in takes the place of the paragraph that stands for the answer.
function placeAnswer(source) {
  const built = text(source), key = kept.keyOf(built, 0), value = kept.read(key).text ?? "";
  const box = make("textarea", { className: "qt-answer-box", rows: 6, value, placeholder: built, ariaLabel: "Your answer in words" });
  box.addEventListener("input", () => kept.write(key, box.value ? { text: box.value } : {}) || notKept());
  [...document.querySelectorAll("article.bd-article p")].find((one) => one.textContent === built).replaceWith(box);
  page.answers.push({ source, box, key });
}

// What the reader wrote -----------------------------------------------------------------------------------------------

// Each cell's key, and what is kept under it. Where the book's text of a cell is another one than the reader began from,
// what was written is found by the cell's number.
function nameKeys() {
  const seen = new Map();
  for (const cell of page.cells) {
    const nth = seen.get(cell.built) ?? 0;
    seen.set(cell.built, nth + 1);
    cell.key = kept.keyOf(cell.built, nth);
  }
  const answers = page.prose.map((cell) => kept.keyOf(text(cell), 0));
  const taken = new Set([...page.cells.map((cell) => cell.key), ...answers]);
  for (const cell of page.cells) cell.record = kept.read(cell.key);
  page.lost = [];
  for (const key of kept.keys().filter((one) => !taken.has(one))) {
    const record = kept.read(key), cell = page.cells[record.number - 1];
    if (record.text === undefined) continue;
    if (!cell?.input || cell.record.text !== undefined) page.lost.push(record);
    else {
      const remark = "The book's text of this cell has changed since you wrote yours.";
      Object.assign(cell, { record: { ...record, shows: undefined }, remark });
      if (kept.write(cell.key, cell.record)) kept.write(key, {});
    }
  }
}

function tellLost() {
  if (!page.lost.length) return;
  const count = page.lost.length === 1 ? "a text" : `${page.lost.length} texts`;
  const box = say(`You wrote ${count} for cells that this page no longer has.`);
  const was = ({ number }) => (number ? `# formerly cell ${number}\n` : "");
  const textContent = page.lost.map((record) => was(record) + record.text).join("\n\n\n");
  box.append(make("details", { innerHTML: "<summary>Show</summary>" }, make("pre", { textContent })));
}

// Another tab wrote under this key.
function told(key) {
  const record = kept.read(key), cell = page.cells.find((one) => one.key === key);
  if (cell?.input) cell.told(record);
  const answer = page.answers.find((one) => one.key === key)?.box;
  const isTyping = answer === document.activeElement && document.hasFocus();
  if (answer && !isTyping) answer.value = record.text ?? "";
}

// A page that lay asleep was told of nothing.
function wakened() {
  if (document.hidden || page.isUnkept) return;
  for (const cell of page.cells) {
    const words = (record) => JSON.stringify({ ...record, number: 0 });
    if (cell.input && words(kept.read(cell.key)) !== words(kept.clean(cell.record))) told(cell.key);
  }
}

// The browser is full, or keeps nothing: said once, and leaving the page asks.
function notKept() {
  if (page.isUnkept) return;
  page.isUnkept = true;
  const why = "its storage is full or switched off";
  say(`This browser does not keep what you write (${why}): copy the link or download the notebook before you leave.`);
  addEventListener("beforeunload", (event) => event.preventDefault());
}

// A sentence in the bar that stays.
function say(words) {
  const box = make("div", { className: "qt-run-note", role: "status", textContent: words });
  page.bar.append(box);
  return box;
}

// Show what the address carries beside what is kept. Nothing of it runs until the reader asks.
async function openLink() {
  const found = await link.read(location.hash, (n) => page.cells[n - 1]?.input);
  if (!found) return;
  page.linkNote?.remove();
  const opens = Object.keys(found.texts).length ? page.cells.filter((cell) => cell.input) : [];
  for (const cell of opens) cell.open(found.texts[cell.number]);
  const numbers = page.cells.filter((cell) => cell.version === "link").map((cell) => cell.number);
  const parts = [];
  if (numbers.length) {
    const which = numbers.length === 1 ? `cell ${numbers[0]}` : `cells ${numbers.join(", ")}`;
    parts.push(`The link carries a text for ${which}, under “the link's”. ${FOREIGN}`);
    parts.push("Nothing that you wrote is replaced unless you press “Keep it as mine” there.");
  }
  const much = numbers.length ? "in full" : "as cells";
  if (found.bad.length) parts.push(`The link cannot be read ${much}: ${found.bad.slice(0, 3).join("; ")}.`);
  if (!parts.length) return;
  page.linkNote = say(parts.join(" "));
  const carried = page.cells.filter((cell) => numbers.includes(cell.number));
  page.linkNote.isSpent = () => !found.bad.length && !carried.some((cell) => cell.linked ?? cell.record.link);
}

async function copyLink() {
  const changed = page.cells.filter((cell) => cell.input && cell.text() !== cell.built);
  const hash = await link.write(Object.fromEntries(changed.map((cell) => [cell.number, cell.text()])));
  const address = location.href.split("#")[0] + (changed.length ? hash : "");
  const copied = await navigator.clipboard?.writeText(address).then(() => true, () => false);
  if (!copied) history.replaceState(null, "", address);
  page.ownLink = copied ? null : address;
  const done = copied ? "Copied" : "The address of this page is the link now";
  const carries = changed.length ? "it carries the cells whose text is not the book's" : "every cell has the book's text, so it carries none";
  page.words.textContent = `${done}: ${carries}.`;
}

// An address that the reader made of this page tells the truth until the next edit.
function forgetOwnLink() {
  if (page.ownLink && page.ownLink === location.href) history.replaceState(null, "", location.pathname);
  page.ownLink = null;
}

async function download() {
  const answer = await fetch(page.notebook).catch(() => null);
  if (!answer?.ok) {
    page.words.textContent = "The notebook cannot be fetched now, so nothing was downloaded: is there a connection?";
    return;
  }
  const notebook = await answer.json();
  const put = (source, words) => {
    const cell = notebook.cells.find((one) => one.id === source.id);
    cell.source = text(cell).replace(text(source), () => words);
  };
  for (const cell of page.cells) if (cell.input) put(cell.source, cell.editor.text());
  for (const { source, box } of page.answers) if (box.value) put(source, box.value);
  const href = URL.createObjectURL(new Blob([JSON.stringify(notebook, null, 1)], { type: "application/x-ipynb+json" }));
  const link = make("a", { href, download: location.pathname.split("/").at(-1).replace(/\.html$/, ".ipynb") });
  link.click();
  URL.revokeObjectURL(link.href);
  page.words.textContent = `Downloaded: ${link.download}, with what each cell shows now.`;
}

// To a line of a cell, from the report in `output`; where the cell changed since, to where that line is now.
export async function jump(bar, base, number, line, output) {
  await open(bar, base);
  const cell = page.cells[number - 1], from = page.cells.find((one) => one.output === output);
  if (!cell?.input) return;
  const then = (from?.out?.texts[number] ?? cell.text()).split("\n")[line - 1], now = cell.text().split("\n");
  const same = now.flatMap((one, i) => (one === then ? [i + 1] : []));
  const at = same.sort((a, b) => Math.abs(a - line) - Math.abs(b - line))[0] ?? line;
  for (let fold = cell.input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  cell.editor.go(at);
  const gone = `Cell ${number} has changed since the report: the line is not there any more.`;
  const words = same.length ? `Line ${at} of cell ${number}: ${now[at - 1].trim()}` : gone;
  if (!same.length) cell.words.textContent = words;
  page.said.textContent = words;
}

// Running -----------------------------------------------------------------------------------------------------------

// Ask for a cell: those above it come first that have not run as they stand. What is typed meanwhile waits for the next
// time.
function run(cell) {
  const runs = (one) => one === page.running && !truth.cause(page.cells, one);
  if (runs(cell)) return;
  cell.isAsked = true;
  const above = truth.missing(page.cells, cell, page.session).filter((one) => !runs(one));
  page.queue = [...new Set([...page.queue, ...above, cell])].sort((a, b) => a.number - b.number);
  begun();
}

// Everything anew, in order, without the solutions that stand folded: in a Python in which no cell has run, since nothing else
// forgets what a line that is gone did to a module.
function runAll() {
  if (page.worker && page.hasRun) stop();
  page.queue = page.cells.filter((cell) => !cell.isAside);
  begun();
}

function begun() {
  if (!page.worker) startWorker(performance.now());
  next();
  refresh();
}

// Nothing waits any more; the cells that did.
function clearQueue() {
  for (const cell of page.queue) cell.isAsked = false;
  return page.queue.splice(0);
}

function next() {
  if (!page.isReady || !page.isOpen || page.running) return;
  const cell = page.queue.find((one) => one.isAsked || !truth.holds(page.cells, one, page.session));
  page.queue = cell ? page.queue.slice(page.queue.indexOf(cell) + 1) : [];
  if (!cell) return refresh();
  const above = truth.aboveOf(page.cells, cell).at(-1);
  const texts = [...(above?.out.texts ?? [])]; // what the cell above was given, whatever it says now
  texts[cell.number] = cell.text();
  page.running = cell;
  page.hasRun = true;
  page.ranLink ||= page.cells.some((one) => one.version === "link" && texts[one.number] === one.text());
  cell.verdicts = [];
  cell.awaits = null;
  cell.wasStale = truth.cause(page.cells, cell);
  cell.out = { texts, session: page.session, turn: ++page.turn };
  cell.started = performance.now();
  cell.state = "running";
  begin(cell);
  const changed = page.cells.filter(({ number, built }) => (texts[number] ?? built) !== built);
  const yours = changed.map((one) => one.number);
  const { card } = document.documentElement.dataset; // whose records it reads (cards.js)
  page.worker.postMessage({ cell: cell.number, source: texts[cell.number], after: above?.number ?? 0, yours, card });
  refresh();
}

function finished(cell, ok) {
  page.running = null;
  const took = (performance.now() - cell.started) / 1000;
  const failed = !ok && cell.node && !cell.mayFail;
  cell.state = failed ? "failed" : "done";
  cell.took = failed ? "stopped at the error" : took < 0.1 ? "under 0.1 s" : `${took.toFixed(1)} s`;
  if (cell.node) {
    end(cell);
    lines.link(cell.output);
    const isYours = page.cells.some(({ number, built }) => (cell.out.texts[number] ?? built) !== built);
    if (isYours && !cell.isFolded && !page.ranLink) solved.note(cell, cell.verdicts); // a link's answer is not the reader's
    const heard = readAloud(cell.output).slice(0, 300) || "no output";
    if (cell.isAsked) page.said.textContent = `Cell ${cell.number}: ${heard}`;
  }
  cell.isAsked = false;
  cell.isJoined = cell.isAside && cell.state === "done" && cell.out.session === page.session;
  if (failed) for (const one of clearQueue()) one.awaits = cell;
  refresh();
  next();
}

// Writes beside each cell how it stands. `isEdit`: what became out of date by it is said once.
function refresh(isEdit = false) {
  if (!page.isOpen) return;
  const waiting = new Set(page.queue), stale = [];
  page.bar.querySelector("[data-do=stop]").disabled = !page.running && !page.queue.length;
  let isBooks = true;
  for (const cell of page.cells) {
    cell.isJoined &&= !truth.cause(page.cells, cell);
    if (!cell.isAside) isBooks &&= cell.text() === cell.built;
    if (!cell.node) continue;
    const runs = page.running === cell, cause = truth.cause(page.cells, cell);
    const isPast = runs && !cell.isCleared; // what stands there is an earlier run's
    const why = isPast && (cause || cell.wasStale) ? "Out of date: the cell runs now." : cause ? truth.sentence(cell, cause) : "";
    if (why && hasOutput(cell)) stale.push(cell.number);
    cell.node.dataset.qtState = runs ? "running" : waiting.has(cell) ? "queued" : cause ? "stale" : cell.state;
    const stands = !cause ? (cell.took ?? "") : hasOutput(cell) ? "" : truth.past(cell, cause);
    if (cell.input) {
      cell.words.textContent = runs ? "runs" : waiting.has(cell) ? "waits" : notRun(cell) || stands;
      cell.runButton.textContent = runs ? "Stop" : does(cell);
      cell.runButton.setAttribute("aria-label", runs ? `Stop cell ${cell.number}` : asks(cell));
    }
    markStale(cell, why);
    cell.output?.toggleAttribute("data-qt-not-the-books", !(isBooks && cell.text() === cell.built));
  }
  if (isEdit && stale.some((number) => !page.stale.includes(number))) {
    const which = `${stale.slice(0, 8).join(", ")}${stale.length > 8 ? " and so on" : ""}`;
    const one = `The output of cell ${which} is out of date until it runs again.`;
    const many = `The outputs of ${stale.length} cells are out of date until they run again: ${which}.`;
    clearTimeout(page.saying);
    page.saying = setTimeout(() => (page.said.textContent = stale.length === 1 ? one : many), 600);
  }
  page.stale = stale;
}

// What the button that runs a cell says, beside it and elsewhere.
const does = (cell) => (cell.version === "link" ? "Run the link's code" : "Run");
const asks = (cell) => (does(cell) === "Run" ? `Run cell ${cell.number}` : `${does(cell)}: cell ${cell.number}`);

// Said where the cell above, for which this one waited, failed on the texts that stand there now.
function notRun({ awaits }) {
  const stands = awaits?.state === "failed" && !truth.cause(page.cells, awaits);
  return stands ? `not run: cell ${awaits.number} above it failed` : "";
}

// The words of an output; of a figure its title and what it says, since its controls and the texts in its drawing tell little.
function readAloud(output) {
  const copy = output.cloneNode(true);
  for (const part of copy.querySelectorAll("style, script, .qt-controls, .qt-picture, .qt-key, .qt-origin")) part.remove();
  for (const part of copy.querySelectorAll("div, p, code, small, li, td, th")) part.append(" ");
  return copy.textContent.replace(/\s+/g, " ").trim();
}

const hasOutput = (cell) => Boolean(cell.output && !cell.output.hidden && cell.output.children.length);

// Says above an output that it is out of date; `why` is empty where it is not.
function markStale(cell, why) {
  const is = Boolean(why) && hasOutput(cell);
  if (!is && !cell.note) return;
  if (is && !cell.note) {
    cell.note = make("p", { className: "qt-stale-note", id: `qt-stale-${cell.number}` });
    cell.note.innerHTML = '<span></span> <button type="button"></button>';
    cell.note.lastChild.addEventListener("click", () => run(cell));
    cell.output.before(cell.note);
  }
  cell.note.hidden = !is;
  if (is) {
    cell.note.firstChild.textContent = why;
    cell.note.lastChild.textContent = asks(page.cells.find((one) => one.shownBy === cell) ?? cell);
  }
  cell.output.classList.toggle("qt-stale", is);
  cell.output.setAttribute("aria-label", `Output of cell ${cell.number}${is ? ", out of date" : ""}`);
  if (is) cell.output.setAttribute("aria-describedby", cell.note.id);
  else cell.output.removeAttribute("aria-describedby");
}

// The worker ----------------------------------------------------------------------------------------------------------

function startWorker(began) {
  page.isReady = page.hasRun = page.ranLink = false;
  page.bar.querySelector(".qt-start")?.remove();
  page.worker = startPython();
  page.worker.onmessage = ({ data }) => answered(data, began);
  page.worker.onerror = (event) => answered({ failed: event.message || "the worker did not start" }, began);
}

function answered(data, began) {
  if (data.stage) page.words.textContent = `${data.stage} …`;
  else if (data.ready) {
    page.isReady = true;
    page.bar.dataset.readyMs = Math.round(performance.now() - began);
    page.bar.dataset.tookMs = JSON.stringify(data.took);
    const order = "after those above it that are new, changed or out of date";
    page.words.textContent = page.cannot ?? `Every cell can be changed now. Ctrl-Enter runs it, ${order}.`;
    next();
  } else if (data.failed) {
    stop();
    page.words.textContent = `Python stopped: ${data.failed}. The next run starts it again.`;
  } else {
    const cell = page.cells[data.cell - 1];
    if (!cell || cell !== page.running) return; // a cell speaks for itself alone
    if (!data.kind) finished(cell, data.done);
    else if (data.kind === "lines") tellLines(JSON.parse(data.text));
    else if (data.kind === "verdict") cell.verdicts = [].concat(JSON.parse(data.text) ?? []);
    else if (data.kind === "card") cell.out.card = data.text;
    else if (cell.node) add(cell, data.kind, data.text, refresh);
  }
}

// What the lines of cells moved stands beside them until they are another text.
function tellLines(found) {
  for (const [number, lines] of Object.entries(found)) page.cells[number - 1]?.editor?.tell(lines);
}

// Ends Python whatever it is doing. What came out stays; the next run starts Python again, with all cells to be run anew.
function stop() {
  page.worker?.terminate();
  page.worker = null;
  page.isReady = false;
  const stopped = page.running;
  page.running = null;
  clearQueue();
  page.session++;
  for (const cell of page.cells) cell.isJoined = false;
  if (stopped) {
    const seconds = ((performance.now() - stopped.started) / 1000).toFixed(1);
    Object.assign(stopped, { state: "stopped", took: "stopped", isAsked: false });
    if (stopped.node) {
      end(stopped, `Stopped here, after ${seconds} s.`);
      lines.link(stopped.output);
    }
  }
  page.words.textContent = "Stopped. The next run starts Python again, from the first cell.";
  refresh();
}
