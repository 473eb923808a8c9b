// The cells of a page, made editable: each in its place, run in order by one worker.

import { makeEditor } from "./editor.js";
import * as link from "./link.js";
import { show } from "./output.js";

const KEPT = `quack-tutorial:${location.pathname}`; // the reader's own texts, by the book's text that they replace

// What a click needs from the page that is open.
let page;

export async function start(bar, base) {
  const opened = open(bar, base);
  startWorker(performance.now());
  await opened;
  next();
}

// Make the cells editable, once; the worker is not started by that.
export function open(bar, base) {
  if (!page) {
    const words = bar.querySelector("[role=status]");
    page = { bar, words, base, worker: null, running: null, queue: [], kept: readKept(), cells: [], answers: [] };
    page.opened = prepare();
  }
  return page.opened;
}

async function prepare() {
  const path = location.pathname.slice(new URL("..", page.base).pathname.length).replace(/\.html$/, "");
  page.notebook = new URL(`../_sources/${path}.ipynb`, page.base); // the reader's: a solution in it is text
  const { cells } = await (await fetch(new URL(`../_sources/${path}.cells.json`, page.base))).json();
  const linked = await link.read(location.hash);
  const sources = cells.filter((cell) => cell.cell_type === "code");
  page.cells = sources.map((source, i) => ({ number: i + 1, source, built: text(source), state: "new", linked: linked[i + 1] }));
  for (const node of document.querySelectorAll("article.bd-article div.cell")) placeIn(node);
  cells.filter((cell) => cell.cell_type === "markdown" && cell.metadata.nbgrader?.solution).forEach(placeAnswer);
  const buttons = { all: "Run all cells", stop: "Stop", link: "Copy link", download: "Download as notebook" };
  const html = Object.entries(buttons).map(([name, words]) => `<button type="button" data-do="${name}">${words}</button>`);
  page.bar.insertAdjacentHTML("beforeend", `<span class="qt-run-buttons">${html.join(" ")}</span>`);
  const actions = { all: () => run(page.cells.at(-1)), stop, link: copyLink, download };
  for (const button of page.bar.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
  page.bar.querySelector("[data-do=stop]").disabled = true;
  if (location.pathname.endsWith("/sandbox.html")) (await import("./sandbox.js")).addControls(page.cells, set);
  // For tests, and for the console.
  const change = (n, old, by) => set(page.cells[n - 1], page.cells[n - 1].editor.text().replace(old, () => by));
  window.quackCells = { run: (n) => run(page.cells.at(n - 1)), change, state: (n) => page.cells[n - 1].state, idle };
}

const text = (cell) => [cell.source].flat().join("");
const idle = () => page.isReady && !page.running && !page.queue.length;

// Cells: those of the notebook, with or without a place on the page ------------------------------------------------------

function placeIn(node) {
  const input = node.querySelector("div.cell_input");
  // The output of an answer stands below its cell, in a fold.
  if (!input) return adopt(page.last, node);
  const cell = (page.last = page.cells[Number(input.querySelector(".qt-number").textContent.match(/\d+/)[0]) - 1]);
  adopt(cell, node);
  Object.assign(cell, { node, mayFail: node.matches(".tag_raises-exception") });
  input.querySelector("div[class*=highlight-]").hidden = true;
  cell.editor = makeEditor({
    parent: input,
    text: cell.linked ?? page.kept[cell.built] ?? cell.built,
    label: `Code of cell ${cell.number}`,
    run: () => run(cell),
    changed: () => keep(cell),
  });
  const tools = document.createElement("div");
  tools.className = "qt-cell-tools";
  tools.innerHTML = `<button type="button">Run</button> <button type="button">Reset</button> <span></span>`;
  [cell.runButton, cell.resetButton, cell.words] = tools.children;
  cell.runButton.setAttribute("aria-label", `Run cell ${cell.number}`);
  cell.runButton.title = "Ctrl-Enter; runs the cells above first that have not run";
  cell.resetButton.setAttribute("aria-label", `Reset cell ${cell.number} to the book's text`);
  cell.runButton.addEventListener("click", () => (page.running === cell ? stop() : run(cell)));
  cell.resetButton.addEventListener("click", () => (set(cell, cell.built), cell.editor.focus()));
  input.append(tools);
  cell.resetButton.hidden = cell.editor.text() === cell.built;
}

// A lab's question that is answered in words: a box to write in takes the place of the paragraph that stands for the answer.
function placeAnswer(source) {
  const built = text(source), box = document.createElement("textarea");
  Object.assign(box, { className: "qt-answer-box", rows: 6, value: page.kept[built] ?? "", placeholder: built });
  box.setAttribute("aria-label", "Your answer in words");
  box.addEventListener("input", () => remember(built, box.value || built));
  [...document.querySelectorAll("article.bd-article p")].find((one) => one.textContent === built).replaceWith(box);
  page.answers.push({ source, box });
}

function adopt(cell, node) {
  cell.output = node.querySelector("div.cell_output");
  cell.figures = cell.output ? [...cell.output.querySelectorAll(":scope > .output.text_html")] : [];
}

function mark(cell, state, words = "") {
  cell.state = state;
  page.bar.querySelector("[data-do=stop]").disabled = !page.running;
  if (!cell.node) return;
  cell.node.dataset.qtState = state;
  cell.words.textContent = words;
  cell.runButton.textContent = state === "running" ? "Stop" : "Run";
}

// What the reader changed ---------------------------------------------------------------------------------------------

function readKept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

function keep(cell) {
  const text = cell.editor.text();
  remember(cell.built, text);
  cell.resetButton.hidden = text === cell.built;
  if (cell.state === "done" && cell.ran !== text) mark(cell, "changed", "changed since it ran");
}

function remember(built, text) {
  if (text === built) delete page.kept[built];
  else page.kept[built] = text;
  try {
    if (Object.keys(page.kept).length) localStorage.setItem(KEPT, JSON.stringify(page.kept));
    else localStorage.removeItem(KEPT);
  } catch {
    // a browser that keeps nothing: the texts last as long as the page
  }
}

function set(cell, text) {
  cell.editor.set(text);
  keep(cell);
}

async function copyLink() {
  const changed = page.cells.filter((cell) => cell.node && cell.editor.text() !== cell.built);
  const hash = await link.write(Object.fromEntries(changed.map((cell) => [cell.number, cell.editor.text()])));
  history.replaceState(null, "", changed.length ? hash : location.pathname);
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  page.words.textContent = `${copied ? "Copied" : "The address of this page is the link now"}: it carries the cells that you changed.`;
}

async function download() {
  const notebook = await (await fetch(page.notebook)).json();
  const put = (source, words) => {
    const cell = notebook.cells.find((one) => one.id === source.id);
    cell.source = text(cell).replace(text(source), () => words);
  };
  for (const cell of page.cells) if (cell.node) put(cell.source, cell.editor.text());
  for (const { source, box } of page.answers) if (box.value) put(source, box.value);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(notebook, null, 1)], { type: "application/x-ipynb+json" }));
  link.download = location.pathname.split("/").at(-1).replace(/\.html$/, ".ipynb");
  link.click();
  URL.revokeObjectURL(link.href);
}

// Running -----------------------------------------------------------------------------------------------------------

// Ask for a cell: those above it come first that have not run as they stand.
function run(cell) {
  cell.isAsked = true;
  const above = page.cells.slice(0, cell.number - 1).filter((one) => !["done", "queued", "running"].includes(one.state));
  for (const one of [...above, cell]) {
    if (page.queue.includes(one) || page.running === one) continue;
    page.queue.push(one);
    mark(one, "queued", "waits");
  }
  if (!page.worker) startWorker(performance.now());
  next();
}

function next() {
  if (!page.isReady || !page.cells.length || page.running || !page.queue.length) return;
  const cell = page.queue.shift();
  page.running = cell;
  cell.ran = cell.node ? cell.editor.text() : cell.built;
  cell.pieces = [];
  cell.started = performance.now();
  mark(cell, "running", "runs");
  page.worker.postMessage({ cell: cell.number, source: cell.ran });
}

function finished(cell, ok) {
  page.running = null;
  if (cell.node) show(cell);
  cell.isAsked = false;
  const took = (performance.now() - cell.started) / 1000;
  const seconds = took < 0.1 ? "under 0.1 s" : `${took.toFixed(1)} s`;
  const failed = !ok && cell.node && !cell.mayFail;
  mark(cell, failed ? "failed" : "done", failed ? "stopped at the error" : seconds);
  if (failed && page.queue.length) {
    for (const one of page.queue.splice(0)) mark(one, "new", `not run: cell ${cell.number} above it failed`);
  }
  next();
}

// The worker ----------------------------------------------------------------------------------------------------------

function startWorker(began) {
  page.isReady = false;
  page.bar.querySelector(".qt-start")?.remove();
  page.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  page.worker.onmessage = ({ data }) => answered(data, began);
  page.worker.onerror = (event) => answered({ failed: event.message || "the worker did not start" }, began);
  page.worker.postMessage({ runtime: new URL("../runtime/", page.base).href });
}

function answered(data, began) {
  if (data.stage) page.words.textContent = `${data.stage} …`;
  else if (data.ready) {
    page.isReady = true;
    page.bar.dataset.readyMs = Math.round(performance.now() - began);
    page.bar.dataset.tookMs = JSON.stringify(data.took);
    page.words.textContent = "Every cell can be changed now. Ctrl-Enter runs it, after those above it that have not run.";
    next();
  } else if (data.failed) {
    stop();
    page.words.textContent = `Python stopped: ${data.failed}. The next run starts it again.`;
  } else if (data.kind) page.cells[data.cell - 1].pieces.push([data.kind, data.text]);
  else finished(page.cells[data.cell - 1], data.done);
}

// Ends Python whatever it is doing; the next run starts it again, with all cells to be run anew.
function stop() {
  page.worker?.terminate();
  page.worker = null;
  const stopped = page.running;
  page.running = null;
  page.queue = [];
  for (const cell of page.cells) if (cell.state !== "new") mark(cell, "new");
  if (stopped) mark(stopped, "new", "stopped");
  page.words.textContent = "Stopped. The next run starts Python again, from the first cell.";
}
