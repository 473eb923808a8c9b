// Opens a notebook in JupyterLab or Notebook 7, runs all of its cells, and does what a reader would.
//
//   node jupyter.mjs ADDRESS [--edits JSON] [--look only] [--chromium PATH]
//
// ADDRESS is that of the notebook, in an application that was started with its app exposed. Prints {cells, ran, figures, players,
// folds, unsolved, outputs, findings, seconds}: findings are sentences, empty where all is well. Every player is stepped by mouse
// and by keyboard, every slider moved, and in each of them d is pressed twice, which deletes a cell where JupyterLab takes the keys.
// `edits` is a list of {ID OF A CELL: its new text}: all cells run after each, and `outputs` has the texts that they then gave.
// With `look only` nothing runs, and the answer is {drawings, told, spilt}: how many drawings stand in the outputs, how many lines say that
// one is left out, and of how many the texts are seen.

import { launch, options, watch, words } from "./site.mjs";

const [address] = words;

const LONG = { timeout: 120_000 };
// What the applications themselves say on the console, and why it is no fault of a notebook.
const HARMLESS = [
  // Notebook 7 (7.6.5), of the settings of a plugin; JupyterLab, which draws the same outputs, does not say it.
  "console: Cannot read properties of undefined (reading 'schema')",
];

const began = Date.now(), findings = [];
const found = (kind, text) => HARMLESS.includes(`${kind}: ${text}`) || findings.push(`${kind}: ${text}`);
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1200, height: 1000 } });
const page = await watch(context, new URL(address).origin, found);
page.setDefaultTimeout(20_000);
await context.routeWebSocket("**/*", (socket) => socket.connectToServer());

await page.goto(address);
await page.waitForSelector(".jp-Notebook .jp-Cell", LONG);
await page.waitForFunction(() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === "idle", null, LONG);

// {texts of each code cell's outputs}, after all have run.
async function runAll(edit = {}) {
  return page.evaluate(async (edit) => {
    const { commands, shell } = window.jupyterapp, notebook = shell.currentWidget.content;
    for (const { model } of notebook.widgets) if (edit[model.sharedModel.id]) model.sharedModel.setSource(edit[model.sharedModel.id]);
    await commands.execute("notebook:run-all-cells");
    const code = notebook.widgets.map(({ model }) => model.sharedModel).filter((cell) => cell.cell_type === "code");
    return code.map((cell) => ({
      ran: cell.execution_count !== null,
      mayFail: (cell.metadata.tags ?? []).includes("raises-exception"),
      text: cell.getOutputs().map((o) => [o.text ?? o.evalue ?? o.data?.["text/plain"] ?? ""].flat().join("")).join("\n"),
      wrong: cell.getOutputs().filter((o) => o.output_type === "error" || o.name === "stderr").map((o) => o.evalue ?? o.text),
    }));
  }, edit);
}

const cellCount = () => page.evaluate(() => window.jupyterapp.shell.currentWidget.content.widgets.length);

// Each output is drawn when it comes into view.
async function lookAtAll() {
  for (let at = 0; ; at += 700) {
    const height = await page.evaluate((at) => {
      const box = document.querySelector(".jp-WindowedPanel-outer");
      box.scrollTop = at;
      return box.scrollHeight;
    }, at);
    await page.waitForTimeout(120);
    if (at > height) return;
  }
}

if (options.look) {
  await lookAtAll();
  const drawings = await page.locator(".jp-OutputArea-output svg").count();
  const told = await page.locator(".jp-OutputArea-output").getByText("choose Trust Notebook in the command palette").count();
  const spilt = await page.locator(".jp-OutputArea-output .qt-picture > div:visible").count();
  console.log(JSON.stringify({ drawings, told, spilt }));
  await browser.close();
  process.exit();
}

const outputs = [];
let cells = [];
for (const edit of [{}, ...JSON.parse(options.edits ?? "[]")]) {
  cells = await runAll(edit);
  outputs.push(cells.map((cell) => cell.text));
  cells.forEach((cell, i) => cell.mayFail || cell.wrong.forEach((text) => found(`code cell ${i + 1}`, text)));
}
await lookAtAll();
for (const text of await page.locator(".jp-OutputArea-output").allTextContents()) {
  if (/Javascript Error/i.test(text)) found("error box", text.slice(0, 200));
}

// Whatever has the focus keeps its keys.
const count = await cellCount();
async function keeps(node, name) {
  await node.scrollIntoViewIfNeeded();
  await node.focus();
  await page.keyboard.press("d");
  await page.keyboard.press("d");
  if ((await cellCount()) !== count) throw new Error(`d d in ${name} deleted a cell`);
  if (!(await node.evaluate((one) => one === document.activeElement))) found("focus", `it left ${name}`);
}

const players = await page.locator(".qt-figure[data-ready]").all();
for (const figure of players) {
  const title = await figure.locator(".qt-title").textContent();
  const state = () => figure.evaluate((root) => root.querySelector(".qt-caption").textContent + [...root.querySelectorAll("output")].map((o) => o.textContent));
  const changes = async (words, act) => {
    const before = await state();
    await act();
    if ((await state()) === before) found("player", `${title}: ${words} changed nothing`);
  };
  const next = figure.locator('[data-go="1"]');
  if (await next.count()) {
    await changes("Next", () => next.click());
    const isEnd = (await next.getAttribute("aria-disabled")) === "true"; // after a single step
    await changes("an arrow key on Next", () => page.keyboard.press(isEnd ? "ArrowLeft" : "ArrowRight"));
    const back = figure.locator('[data-go="-1"]');
    if ((await back.getAttribute("aria-disabled")) === "true") await changes("Next", () => next.click());
    await changes("Back", () => back.click());
    await keeps(next, `${title}, Next`);
  }
  for (const slider of await figure.locator('input[type=range]:not([max="0"]):visible').all()) {
    await slider.scrollIntoViewIfNeeded();
    await slider.click({ position: { x: 2, y: 12 } });
    await changes("the right arrow in a slider", () => page.keyboard.press("ArrowRight"));
    await changes("the left arrow in a slider", () => page.keyboard.press("ArrowLeft"));
    await keeps(slider, `${title}, a slider`);
  }
  for (const node of await figure.locator("select:visible, .qt-picture, summary, [tabindex='0'][data-key]").all()) {
    await keeps(node, `${title}, ${await node.evaluate((one) => one.tagName)}`);
  }
}
for (const handle of await page.locator(".jupyter-widgets .noUi-handle").all()) await keeps(handle, "a slider of ipywidgets");
for (const summary of await page.locator(".qt-break summary").all()) {
  await summary.scrollIntoViewIfNeeded();
  await summary.click();
  if (!(await summary.evaluate((one) => one.parentElement.open))) found("break it", "a line does not open");
  await keeps(summary, "a line of Break it");
}

// Hints and solutions are folded, and unfold.
const folds = page.locator(".jp-RenderedMarkdown details");
const open = await page.locator(".jp-RenderedMarkdown details[open]").count();
if (open) found("folds", `${open} stand open`);
const solution = folds.filter({ hasText: "paste it into a cell" }).first();
if (await solution.count()) {
  await solution.scrollIntoViewIfNeeded();
  await solution.locator("summary").click();
  if (!(await solution.locator("pre code, pre").first().isVisible())) found("folds", "a solution shows no code");
}

await page.evaluate(() => window.jupyterapp.commands.execute("docmanager:save"));
const answer = {
  cells: count,
  ran: cells.filter((cell) => cell.ran).length,
  code: cells.length,
  figures: await page.locator(".qt-figure").count(),
  players: players.length,
  folds: await folds.count(),
  unsolved: cells.filter((cell) => /^(\S+ )?not yet\b/m.test(cell.text)).length,
  outputs,
  findings,
  seconds: (Date.now() - began) / 1000,
};
console.log(JSON.stringify(answer));
await browser.close();
