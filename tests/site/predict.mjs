// Predicts as a reader would, in pages made of folds.py's own forms, and prints what the pages said as JSON.
//
//   node predict.mjs FOLDER [--chromium PATH]      FOLDER holds notebooks/page.html, book/your-path.html and the site's _static

import { readFileSync } from "node:fs";

import { visit } from "./site.mjs";

const { browser, seen, opened, look, end } = await visit();
const verdicts = (page, n) => page.locator(`details[data-predict="${n}"] .qt-verdicts li`).allTextContents();
const reason = (page, n) => page.locator(`details[data-predict="${n}"] .qt-verdicts p:not(.qt-of-the-book)`).isVisible();
const rows = async (page) => (await page.locator("#qt-path tbody tr").allInnerTexts()).map((row) => row.split("\t"));

const context = await browser.newContext({ viewport: { width: 1280, height: 844 } });
const nothing = await opened(context, "book/your-path.html");
seen.nothing = await nothing.locator("#qt-path").innerText();

let page = await opened(context, "notebooks/page.html");
const first = page.locator("#predict-1");
seen.before = [await verdicts(page, 1), await page.locator('details[data-predict="1"]').evaluate((node) => node.open)];
await first.locator("input").nth(0).focus();
await page.keyboard.type("5"); // by keyboard alone
await page.keyboard.press("Tab");
await page.keyboard.type("1,024");
await page.keyboard.press("Enter");
seen.revealed = [await verdicts(page, 1), await reason(page, 1), await page.evaluate(() => document.activeElement.textContent)];
await page.locator("#predict-2 select").selectOption("L2");
await page.locator("#predict-2 input").fill("zeros <b>");
await page.locator("#predict-2 button").click();
seen.words = await verdicts(page, 2);
await page.locator("#predict-3 button").click(); // without a guess
seen.without = [await verdicts(page, 3), await reason(page, 3)];
await page.locator("#predict-4 input").fill("12");
await page.locator("#predict-4 button").click();
seen.later = [await page.locator("#predict-4 button").textContent(), await page.locator("#predict-4-again input").inputValue()];
await page.locator("#predict-4-again button").click();
seen.again = await verdicts(page, 4);
await look(page, "chapter");

await page.reload();
seen.reloaded = [await first.locator("input").nth(0).inputValue(), await verdicts(page, 1), await verdicts(page, 2),
  await page.locator("#predict-4 input").inputValue(), await verdicts(page, 4)];

// After the answer was shown: another guess, a first one, and one that cannot be read.
await first.locator("input").nth(0).fill("7");
await first.locator("button").click();
await page.locator("#predict-3 input").fill("1/0");
await page.locator("#predict-3 button").click();
seen.unread = [await page.locator("#predict-3 .qt-remark").textContent(), await page.locator('details[data-predict="3"]').evaluate((node) => node.open)];
await look(page, "unread");
await page.locator("#predict-3 input").fill("5");
await page.locator("#predict-3 button").click();
const changed = async () => [await verdicts(page, 1), await verdicts(page, 3)];
seen.changed = await changed();
await page.reload();
seen.changed_reloaded = [await first.locator("input").nth(0).inputValue(), ...(await changed())];

const path = await opened(context, "book/your-path.html");
seen.path = await rows(path);
seen.few = await path.locator(".qt-calibration").innerText();
seen.links = await path.locator("#qt-path a").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
await path.evaluate(() => {
  const many = [2, 4, 8, 16].map((ratio, n) => [10 + n, { section: "", fields: [{ asked: "x", guess: "1", shown: "1", kind: "number", verdict: "off", ratio }] }]);
  localStorage.setItem("quack-tutorial:guesses:/elsewhere.html", JSON.stringify({ title: "Elsewhere", predictions: Object.fromEntries(many) }));
  localStorage.setItem("quack-tutorial:guesses:/broken.html", "{");
  localStorage.setItem("quack-tutorial:solved:/book/labs/lab.html", JSON.stringify({ 12: { title: "sums", right: false, points: [1, 2], when: "" }, 3: { title: "order", right: true, points: [2, 2], when: "" } }));
  localStorage.setItem("quack-tutorial:edits:/notebooks/page.html", "kept");
});
await path.reload();
seen.many = await path.locator(".qt-calibration").innerText();
seen.titles = await path.locator("#qt-path h2").allInnerTexts();
seen.lab = await path.locator("#qt-path ul").innerText();
await look(path, "path");
await path.setViewportSize({ width: 1280, height: 844 });
const [download] = await Promise.all([path.waitForEvent("download"), path.getByRole("button", { name: "Export as a file" }).click()]);
seen.exported = Object.keys(JSON.parse(readFileSync(await download.path(), "utf8")).pages).sort();
await path.getByRole("button", { name: "Clear …" }).click();
await path.keyboard.press("Enter"); // the focus is on what changes nothing
seen.kept = (await rows(path)).length;
await path.getByRole("button", { name: "Clear …" }).click();
await path.getByRole("button", { name: "Forget it" }).click();
seen.cleared = [await path.locator("#qt-path").innerText(), await path.evaluate(() => Object.keys(localStorage).sort())];

// Where storage is forbidden, reading and writing it throws.
const strict = await browser.newContext();
await strict.addInitScript(() => Object.defineProperty(window, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } }));
page = await opened(strict, "notebooks/page.html");
await page.locator("#predict-1 input").nth(0).fill("7");
await page.locator("#predict-1 button").click();
const seenFirst = await verdicts(page, 1);
seen.unkept = await page.locator("#predict-1 .qt-remark").textContent();
await page.locator("#predict-1 input").nth(0).fill("8");
await page.locator("#predict-1 button").click();
seen.forbidden_late = await verdicts(page, 1);
seen.forbidden = [seenFirst, await (await opened(strict, "book/your-path.html")).locator("#qt-path").innerText()];

// What somebody else wrote under our names breaks nothing, and is replaced.
const kinds = ["null", "5", "[]", '"x"', "{", '{"predictions":null}', '{"predictions":[1]}', '{"predictions":{"1":null}}', '{"predictions":{"1":{"fields":5}}}',
  '{"predictions":{"1":{"fields":[null,{"guess":{}}]}},"title":{}}'];
seen.junk = [];
for (const junk of kinds) {
  const strange = await browser.newContext();
  await (await opened(strange, "book/your-path.html")).evaluate((text) => {
    for (const kind of ["guesses", "solved"]) localStorage.setItem(`quack-tutorial:${kind}:/notebooks/page.html`, text);
  }, junk);
  page = await opened(strange, "notebooks/page.html");
  await page.locator("#predict-1 input").nth(1).fill("1,024");
  await page.locator("#predict-1 button").click();
  const list = await opened(strange, "book/your-path.html");
  seen.junk.push((await rows(list)).length === 2 ? (await verdicts(page, 1))[1] : await list.locator("#qt-path").innerText());
  await strange.close();
}

await end();
