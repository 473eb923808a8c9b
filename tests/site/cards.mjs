// Switches the card as a reader would, in a page made by cards.py and folds.py, and prints what it showed as JSON.
//
//   node cards.mjs FOLDER [--chromium PATH]      FOLDER holds notebooks/page.html and the site's _static

import { visit } from "./site.mjs";

const { browser, seen, opened: openedAt, look: lookAt, end } = await visit();
const opened = (context) => openedAt(context, "notebooks/page.html");
const look = (page) => lookAt(page, "", async (width) => {
  const box = await page.locator(".qt-switch select").boundingBox();
  return box.height < 24 || box.x + box.width > width;
});
// The lines that a reader sees of the cells, and of the verdicts.
const lines = async (page) => (await page.locator("#cells").innerText()).split("\n").map((line) => line.trim()).filter(Boolean);
const verdicts = async (page) => (await page.locator(".qt-verdicts").innerText()).split("\n").map((line) => line.trim()).filter(Boolean);

const context = await browser.newContext({ viewport: { width: 1280, height: 844 } });
let page = await opened(context);
seen.first = await lines(page);
await page.locator("form input").fill("100");
await page.locator("form button").click();
seen.judged = await verdicts(page);
await look(page);

const other = await opened(context); // another tab follows
await page.locator(".qt-switch select").focus();
await page.keyboard.press("ArrowDown"); // by keyboard alone
seen.switched = [await lines(page), await verdicts(page)];
await other.waitForFunction(() => document.documentElement.dataset.card === document.querySelector(".qt-switch select").value && document.querySelector(".qt-switch select").selectedIndex === 1);
seen.followed = await lines(other);
await look(page);
await page.reload();
await page.locator("details.qt-answered > summary").click();
seen.reloaded = [await lines(page), await verdicts(page)];
await page.locator(".qt-switch select").selectOption({ index: 0 });
seen.back = await verdicts(page);

// Where storage is forbidden, the choice holds for the page.
const strict = await browser.newContext();
await strict.addInitScript(() => Object.defineProperty(window, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } }));
page = await opened(strict);
await page.locator(".qt-switch select").selectOption({ index: 1 });
seen.forbidden = await lines(page);

// Without scripts both are there, one of them folded.
const plain = await browser.newContext({ javaScriptEnabled: false });
page = await opened(plain);
seen.plain = await lines(page);
await page.locator("#cells summary").first().click();
seen.unfolded = await lines(page);

await end();
