// Runs attacks in a chapter of the site, and tells what came of each.
//
//   node attack.mjs SITE ATTACKS [--chromium PATH]
//
// ATTACKS is a JSON object {html: {name: HTML}, python: {name: source}, worker: {name: script}}, where ELSEWHERE stands for another
// server. HTML is what a cell displays, and then everything in it is clicked; `python` is a cell; `worker` is the script of a worker
// that a page's script starts, with nothing taken away from it. A script that reached the page calls `reached()`. The answer is
// {name: {reached, asked (requests at the other server), left: what else is not as it was, text: what the cell shows}} for each kind,
// and `bare` and `bareWorker`: the same in a page without a policy, as which the HTML is served.

import { createServer } from "node:http";
import { resolve } from "node:path";

import { launch, serve, words } from "./site.mjs";

const [site, attacks] = words;
const PAGE = "notebooks/00-ten-minute-win.html", BOX = "Code of cell 1", SETTLED = 120;

let asked = 0, bareText = "";
const other = createServer((request, response) => {
  if (request.url === "/bare") return response.writeHead(200, { "content-type": "text/html" }).end(`<div id="box">${bareText}</div>`);
  if (request.url !== "/favicon.ico") asked++;
  response.writeHead(200, { "access-control-allow-origin": "*", "content-type": "text/javascript" }).end("globalThis.reached?.()");
});
other.on("upgrade", (request, socket) => (asked++, socket.destroy()));
await new Promise((ready) => other.listen(0, "127.0.0.1", ready));
const elsewhere = `http://127.0.0.1:${other.address().port}`;

const state = () => ({
  kept: JSON.stringify(Object.entries(localStorage).filter(([key]) => !key.startsWith("quack-tutorial:"))),
  url: location.href,
  base: document.baseURI,
  title: document.title,
  top: document.elementFromPoint(innerWidth / 2, 5)?.className,
  ours: typeof window.quackCells?.run + typeof quackFigures.player + document.querySelectorAll("#qt-popover-title, #search-input, #main-content").length,
});

async function clickAll(page, box) {
  for (const one of await page.locator(`${box} :is(a, button, input, summary, label)`).all()) await one.click({ timeout: 300, noWaitAfter: true }).catch(() => {});
}

async function main() {
  const server = await serve(resolve(site)), browser = await launch(), { html, python, worker } = JSON.parse(attacks.replaceAll("ELSEWHERE", elsewhere));
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } }), answer = { html: {}, python: {}, worker: {}, bare: {}, bareWorker: {} };
    await context.addInitScript(() => {
      window.hits = 0;
      window.reached = () => window.hits++;
    });
    let opened = 0;
    context.on("page", () => opened++);
    const page = await context.newPage();
    page.on("dialog", (dialog) => dialog.dismiss());
    const open = async () => {
      await page.goto(`${server.base}/${PAGE}`, { waitUntil: "load" });
      await page.click(".qt-start");
      await page.waitForSelector(".qt-run-bar[data-ready-ms]", { timeout: 90_000 });
      await page.$$eval("details", (all) => all.forEach((fold) => (fold.open = true)));
    };
    await open();

    async function attack(kind, name, source) {
      const before = await page.evaluate(state);
      [asked, opened] = [0, 0];
      await page.evaluate(() => (window.hits = 0));
      await page.getByLabel(BOX, { exact: true }).fill(source);
      await page.evaluate(() => window.quackCells.run(1));
      await page.waitForFunction(() => window.quackCells.idle(), null, { timeout: 60_000 });
      await page.waitForTimeout(SETTLED);
      const shown = await page.evaluate(state);
      const box = 'div.cell:has([aria-label="Code of cell 1"]) .cell_output';
      if (kind === "html") await clickAll(page, box);
      await page.waitForTimeout(SETTLED);
      const after = await page.evaluate(state).catch(() => ({ url: page.url() })), text = await page.locator(box).innerText().catch(() => "");
      after.top = before.top; // clicks may scroll
      const left = [...new Set([shown, after].flatMap((now) => Object.keys(before).filter((key) => now[key] !== before[key])))];
      answer[kind][name] = { reached: await page.evaluate(() => window.hits ?? 0), asked, left: opened ? [...left, "opened"] : left, text };
      if (left.includes("url")) await open();
    }
    for (const [name, text] of Object.entries(html)) {
      await attack("html", name, `class Attack:\n    def _repr_html_(self):\n        return ${JSON.stringify(text)}\n\nAttack()`);
    }
    for (const [name, source] of Object.entries(python)) await attack("python", name, source);
    const bare = await context.newPage();
    bare.on("dialog", (dialog) => dialog.dismiss());
    for (const [name, text] of Object.entries(html)) {
      [asked, bareText] = [0, text];
      await bare.goto(`${elsewhere}/bare`);
      await bare.waitForTimeout(SETTLED);
      await clickAll(bare, "#box");
      await bare.waitForTimeout(SETTLED);
      const left = bare.url() === `${elsewhere}/bare` ? [] : ["url"];
      answer.bare[name] = { reached: await bare.evaluate(() => window.hits), asked, left };
    }
    bareText = "";
    await bare.goto(`${elsewhere}/bare`);
    for (const [name, script] of Object.entries(worker)) {
      for (const [where, kind] of [[page, "worker"], [bare, "bareWorker"]]) {
        asked = 0;
        await where.evaluate((text) => void new Worker(URL.createObjectURL(new Blob([text]))), script);
        await where.waitForTimeout(2 * SETTLED);
        answer[kind][name] = { asked };
      }
    }
    console.log(JSON.stringify(answer));
  } finally {
    await browser.close();
    server.close();
    other.close();
  }
}

await main();
