// Opens a chapter as a reader would, starts "Run in this page", and does what the steps say.
//
//   node run.mjs SITE PAGE STEPS [--chromium PATH]
//
// STEPS is a JSON list of
//   {"run": N}                        run cell N (0: all cells), and wait until it is done
//   {"replace": [N, TEXT, BY]}        change the text of cell N
//   {"type": [N, TEXT]}               type the whole text of cell N
//   {"enter": N}                      press Ctrl-Enter in cell N, wait until nothing runs, and note what the cell shows then
//   {"keys": [N, KEY, ...]}           press keys in cell N, and note its text, its coloured copy and what has the focus then
//   {"answer": TEXT}                  write the answer in words, in a lab
//   {"download": true}                download the page as a notebook
//   {"reload": true}                  load the page again and start Python again
//   {"choose": [LABEL, VALUE]}        set the control of that label, in the sandbox
//   {"link": true}                    copy the link, and open it in a fresh profile
//   {"axe": true}                     report what axe-core finds on the page as it stands
//   {"stop": N}                       run cell N, ask for a stop after a second, say how long that took
// and the answer one JSON object: {players (alive in the built page), ready_ms, took_ms: {step}, bytes, requests_before, cells:
// [{number, state, text, figures, alive, took}], ran (the cells after the last step "run"), said: [text], keys: [{text, coloured,
// focus}], downloaded: [name, text], stopped_ms, findings}, `findings` as in check.mjs. A cell's `alive` counts its
// players that a script has brought to life.

import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";

import { accessibility, fileOf, launch, serve, watch } from "./site.mjs";

const [site, path, steps, , chromium = "/usr/bin/chromium"] = process.argv.slice(2);
const LONG = { timeout: 240_000 };

// What each cell shows now, without what it gave on a GPU; an answer's output stands in a node of its own, after the cell's.
const cellsOf = (nodes) => {
  const cells = [];
  const shown = (node, what) => [...node.querySelectorAll(`.cell_output ${what}`)].filter((part) => !part.closest(".qt-on-gpu"));
  for (const node of nodes) {
    if (node.querySelector(".cell_input")) {
      const took = node.querySelector(".qt-cell-tools span")?.textContent;
      const number = Number(node.querySelector(".qt-number").textContent.match(/\d+/)[0]);
      cells.push({ number, state: node.dataset.qtState ?? "new", text: "", figures: 0, alive: 0, took });
    }
    const cell = cells.at(-1);
    cell.text += shown(node, ".output:not(.text_html)").map((part) => part.textContent).join("");
    cell.figures += shown(node, ".output.text_html").length;
    cell.alive += shown(node, "[data-ready]").length;
  }
  return cells;
};

const idle = (page) => page.waitForFunction(() => window.quackCells.idle(), null, LONG);

async function begin(page) {
  await page.click(".qt-start");
  await page.waitForSelector(".qt-run-bar[data-ready-ms]", { timeout: 90_000 });
  await page.waitForFunction(() => window.quackCells);
}

async function main() {
  const server = await serve(resolve(site));
  const browser = await launch(chromium);
  const findings = [], fetched = new Set();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 844 } });
    let page = await watch(context, server.base, (kind, text) => findings.push({ kind, text }));
    page.on("dialog", (dialog) => dialog.accept());
    context.on("request", (request) => fetched.add(new URL(request.url()).pathname));
    await page.goto(`${server.base}/${path}`, { waitUntil: "load" });
    const before = [...fetched].filter((name) => /runtime|_static\/run\//.test(name));
    const players = await page.locator(".cell_output [data-ready]:not(.qt-on-gpu *)").count();
    await begin(page);
    const said = async (name) => JSON.parse(await page.getAttribute(".qt-run-bar", name));
    const answer = { players, said: [], keys: [], ready_ms: await said("data-ready-ms"), took_ms: await said("data-took-ms"), requests_before: before };
    for (const step of JSON.parse(steps)) {
      if (step.reload) {
        await page.reload({ waitUntil: "load" });
        await begin(page);
      } else if (step.replace) {
        const [number, text, by] = step.replace;
        await page.evaluate(([n, old, next]) => window.quackCells.change(n, old, next), [number, text, by]);
      } else if (step.choose) {
        const [label, value] = step.choose, control = page.getByLabel(label, { exact: true });
        if (await control.evaluate((node) => node.tagName === "SELECT")) await control.selectOption(value);
        else await control.fill(value);
        await control.dispatchEvent("change");
        await page.waitForTimeout(300);
      } else if (step.link) {
        await page.click('[data-do="link"]');
        await page.waitForFunction(() => location.hash.startsWith("#cells="));
        const address = page.url(), fresh = await browser.newContext();
        page = await watch(fresh, server.base, (kind, text) => findings.push({ kind, text }));
        await page.goto(address, { waitUntil: "load" });
        await page.waitForSelector(".qt-editor");
        answer.linked = await page.$$eval(".qt-editor", (boxes) => boxes.map((box) => box.value));
        await begin(page);
      } else if (step.run !== undefined) {
        await page.evaluate((n) => window.quackCells.run(n), step.run);
        await idle(page);
        answer.ran = await page.$$eval("article.bd-article div.cell", cellsOf);
      } else if (step.type) {
        const [number, text] = step.type;
        await page.getByLabel(`Code of cell ${number}`, { exact: true }).fill(text);
      } else if (step.enter) {
        await page.getByLabel(`Code of cell ${step.enter}`, { exact: true }).press("Control+Enter");
        await idle(page);
        const cells = await page.$$eval("article.bd-article div.cell", cellsOf);
        answer.said.push(cells.find((cell) => cell.number === step.enter).text);
      } else if (step.keys) {
        const [number, ...keys] = step.keys, box = page.getByLabel(`Code of cell ${number}`, { exact: true });
        await box.focus();
        for (const key of keys) await page.keyboard.press(key);
        answer.keys.push(await box.evaluate((node) => ({
          text: node.value,
          coloured: [...node.parentElement.querySelectorAll(".qt-colours span")].map((span) => [span.className, span.textContent]),
          focus: document.activeElement.getAttribute("aria-label"),
        })));
      } else if (step.answer) {
        await page.getByLabel("Your answer in words").fill(step.answer);
      } else if (step.download) {
        const [file] = await Promise.all([page.waitForEvent("download"), page.click('[data-do="download"]')]);
        answer.downloaded = [file.suggestedFilename(), readFileSync(await file.path(), "utf8")];
      } else if (step.axe) {
        for (const text of await accessibility(page)) findings.push({ kind: "accessibility", text });
      } else if (step.stop) {
        await page.evaluate((n) => window.quackCells.run(n), step.stop);
        await page.waitForFunction((n) => window.quackCells.state(n) === "running", step.stop, LONG);
        await page.waitForTimeout(500);
        const began = Date.now();
        await page.click('[data-do="stop"]');
        await page.waitForFunction(() => !document.querySelector("[data-qt-state=running]"));
        answer.stopped_ms = Date.now() - began;
      }
    }
    answer.cells = await page.$$eval("article.bd-article div.cell", cellsOf);
    answer.bytes = [...fetched].map((name) => fileOf(resolve(site), name)).filter((file) => file && /runtime/.test(file))
      .reduce((sum, file) => sum + statSync(file).size, 0);
    console.log(JSON.stringify({ ...answer, findings }));
  } catch (error) {
    throw new Error(`${error.message}\n${JSON.stringify(findings)}`);
  } finally {
    await browser.close();
    server.close();
  }
}

await main();
