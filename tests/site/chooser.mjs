// Plays "You choose who runs next" as a reader would, by mouse and keyboard, and prints what it saw as JSON.
//
//   node chooser.mjs FOLDER [--chromium PATH]      FOLDER holds page.html, with one figure

import { visit } from "./site.mjs";

const { browser, seen, opened, look, end: ended } = await visit();
Object.assign(seen, { plain: "", turns: [], ends: [], focus: [], waits: [] });
const open = async (options) => opened(await browser.newContext(options), "page.html");
const turns = (page) => page.locator(".qt-chooser > ol.qt-turns > li").allTextContents();
const end = (page) => page.locator(".qt-chooser > .qt-end").textContent();
const warp = (page, i) => page.locator(`[data-agent="${i}"]`);

const first = await open();
await first.locator(".qt-solution summary").click();
await look(first, "begun");
await first.locator('[data-do="rest"]').click();
await look(first, "ended");

// Without scripts: the task and the solution.
const context = await browser.newContext({ javaScriptEnabled: false });
const plain = await opened(context, "page.html");
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
await ended();
