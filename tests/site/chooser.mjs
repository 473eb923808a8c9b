// Plays "You choose who runs next" as a reader would, by mouse and keyboard, and prints what it saw as JSON.
//
//   node chooser.mjs FOLDER [--chromium PATH]      FOLDER holds page.html, with one figure
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { chromium } from "playwright-core";

const folder = resolve(process.argv[2]), chosen = process.argv.indexOf("--chromium");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath: chosen > 0 ? process.argv[chosen + 1] : "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync", "--disable-background-networking",
    "--disable-component-update", "--disable-quic"],
});
const seen = { errors: [], violations: [], overflow: [], plain: "", turns: [], ends: [], focus: [], waits: [] };

async function open(options) {
  const page = await browser.newPage(options);
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  page.on("pageerror", (error) => seen.errors.push(error.message));
  await page.goto(`file://${folder}/page.html`);
  return page;
}
const turns = (page) => page.locator(".qt-chooser > ol.qt-turns > li").allTextContents();
const end = (page) => page.locator(".qt-chooser > .qt-end").textContent();
const warp = (page, i) => page.locator(`[data-agent="${i}"]`);

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 390]) {
    const page = await open({ viewport: { width, height: 844 }, colorScheme });
    await page.locator(".qt-solution summary").click();
    for (const state of ["begun", "ended"]) {
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], preload: false }));
      for (const rule of violations) if (["serious", "critical"].includes(rule.impact)) seen.violations.push(`${colorScheme} ${width} ${state} ${rule.id}: ${rule.nodes[0].html.slice(0, 200)}`);
      if (await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth)) seen.overflow.push(`${colorScheme} ${width} ${state}`);
      const out = process.env.CHOOSER_PICTURES;
      if (out) await page.screenshot({ path: `${out}/${colorScheme}-${width}-${state}.png`, fullPage: true });
      if (state === "begun") await page.locator('[data-do="rest"]').click();
    }
    await page.close();
  }
}

// Without scripts: the task and the solution.
const context = await browser.newContext({ javaScriptEnabled: false });
const plain = await context.newPage();
await plain.goto(`file://${folder}/page.html`);
seen.plain = await plain.locator(".qt-chooser").innerText();
seen.plainButtons = await plain.locator(".qt-chooser button:visible").count();
await context.close();

// By mouse: the usual order, back, then the solution.
const page = await open({ viewport: { width: 1000, height: 900 } });
const before = (await turns(page)).length;
await page.locator('[data-do="rest"]').click();
seen.ends.push(await end(page));
await page.locator('[data-do="anew"]').click();
seen.atStart = (await turns(page)).length === before && (await end(page)) === "";
for (const i of [0, 1, 1, 0]) await warp(page, i).click();
seen.turns = (await turns(page)).slice(before);
seen.ends.push(await end(page));
seen.waits = await page.locator(".qt-agents li span").allTextContents();
await warp(page, 0).click({ force: true }); // it waits: nothing happens
seen.stays = (await turns(page)).length === before + 4;
await page.locator('[data-do="back"]').click();
seen.back = (await turns(page)).length === before + 3 && (await end(page)) === "";

// By keyboard: Tab to the first warp, Enter, then numbers; Backspace takes one back.
await page.locator('[data-do="anew"]').focus();
await page.keyboard.press("Enter");
await warp(page, 0).focus();
await page.keyboard.press("Enter");
for (const key of ["2", "2", "Backspace", "2", "1"]) await page.keyboard.press(key);
seen.ends.push(await end(page));
seen.focus = await page.evaluate(() => document.activeElement.dataset.agent);
console.log(JSON.stringify(seen));
await browser.close();
