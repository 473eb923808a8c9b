// Uses the layout playground as a reader would, by mouse and keyboard, and prints what it saw as JSON.
//
//   node playground.mjs FOLDER [--chromium PATH]      FOLDER holds page.html and the site's _static

import { visit } from "./site.mjs";

const { browser, seen, opened, look, end } = await visit();

async function open(scheme, width, hash = "") {
  const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme: scheme });
  await context.addInitScript((theme) => addEventListener("DOMContentLoaded", () => { document.documentElement.dataset.theme = theme; }), scheme);
  const page = await opened(context, `page.html${hash}`);
  await page.waitForSelector("#layout-algebra[data-ready]");
  return page;
}
const said = (page, half) => page.locator(`#${half} .pg-sentence`).allTextContents();
const boxes = (page, label) => page.locator(`[aria-label^="${label}"] [data-i]`);

await look(await open("light", 1280));

const beside = await open("light", 1280, "#a=(4,8):(8,1)&op=composition&b=(4,4):(1,8)");
const marked = () => beside.$$eval("#layout-algebra .at", (all) => all.map((box) => box.closest(".pg-picture").getAttribute("aria-label")[0] + box.dataset.i));
await boxes(beside, "The layout").nth(4).hover();
await boxes(beside, "The layout").nth(5).hover();
seen.beside = [await marked(), (await said(beside, "layout-algebra"))[0]];
await boxes(beside, "A of the").nth(2).click();
seen.beside.push((await said(beside, "layout-algebra"))[0]);
await boxes(beside, "A of the").nth(1).click();
seen.beside.push((await said(beside, "layout-algebra"))[0]);
await beside.close();

const page = await open("light", 1280);
await page.fill("#pg-a", "(2,2):(1,4)");
seen.typed = await page.textContent("#layout-algebra .pg-result");
await boxes(page, "The layout").nth(1).click();
seen.clicked = (await said(page, "layout-algebra"))[0];
await page.focus('[aria-label^="The layout"]');
await page.keyboard.press("ArrowDown");
seen.arrow = (await said(page, "layout-algebra"))[0];
await boxes(page, "The memory: from").nth(2).click();
seen.hole = (await said(page, "layout-algebra"))[0];
const top = (selector) => page.locator(selector).evaluate((node) => node.getBoundingClientRect().top + scrollY);
const below = await top("#threads-and-values");
await page.fill("#pg-a", "(4,8");
seen.wrong = await page.textContent("#layout-algebra .pg-error");
seen.kept = [await page.textContent("#layout-algebra .pg-kept"), await boxes(page, "The layout").count(), await page.locator("#layout-algebra .stale").count()];
seen.shift = [(await top("#threads-and-values")) - below];
await page.fill("#pg-a", "4:-1");
seen.negative = [await page.textContent("#layout-algebra .pg-result"), await boxes(page, "The layout").count(), await page.locator("#layout-algebra .stale").count()];
await boxes(page, "The memory: from").nth(0).click();
seen.negative.push((await said(page, "layout-algebra"))[0]);
await page.fill("#pg-a", "(4,8):(8,1)");
await page.selectOption("#pg-op", "zipped_divide");
await page.fill("#pg-b", "(3,4)");
seen.rounded = [await page.textContent("#layout-algebra .pg-result"), await page.locator("#layout-algebra rect.outside").count()];
await page.selectOption("#pg-op", "none");
await page.fill("#pg-a", "(128,64)");
seen.large = [await page.textContent("#layout-algebra .pg-error")];
await page.fill("#pg-a", "(64,64)");
seen.large.push(await boxes(page, "The layout").count(), await page.textContent("#layout-algebra .pg-part"));
await page.selectOption("#pg-open-a", { label: "Cut into tiles (chapter 2)" });
seen.divided = await page.textContent("#layout-algebra .pg-result");
seen.code = await page.textContent("#layout-algebra pre");

await page.selectOption("#pg-open-b", { label: "Chapter 2: TileCopy" });
await page.fill("#pg-x", "(128,128):(128,1)");
await page.fill("#pg-tile", "128,64");
seen.largeTile = await page.textContent("#threads-and-values .pg-error");
await page.fill("#pg-tile", "64,64");
const under = await top("#threads-and-values .pg-code");
await page.fill("#pg-tile", "128,6x");
seen.kept.push(await page.textContent("#threads-and-values .pg-kept"));
seen.shift.push((await top("#threads-and-values .pg-code")) - under);
await page.fill("#pg-x", "(128,128):(-128,1)");
await page.fill("#pg-tile", "");
seen.negative.push(await page.textContent("#threads-and-values .pg-error"));
await page.selectOption("#pg-open-b", { label: "Chapter 2: patches of 2 x 2" });
await boxes(page, "The tile").nth(2 * 8 + 5).click();
seen.tile = (await said(page, "threads-and-values"))[0];
await page.focus("#pg-thread");
await page.keyboard.press("ArrowRight");
seen.next = (await said(page, "threads-and-values"))[0];
await page.selectOption("#pg-open-b", { label: "Chapter 2: the fault, values wider than the atom" });
seen.fault = (await said(page, "threads-and-values"))[1];
await page.selectOption("#pg-open-b", { label: "Chapter 5: columns of shared memory, bank conflicts" });
seen.banks = (await said(page, "threads-and-values"))[1];
await page.fill("#pg-swz", "5,0,5");
seen.swizzled = (await said(page, "threads-and-values"))[1];
seen.address = await page.evaluate(() => location.hash);

await page.locator('[aria-label^="The memory that"] [data-t="7"]').first().click();
seen.lane = (await said(page, "threads-and-values"))[0];
await page.fill("#pg-base", "4");
await page.selectOption("#pg-open-b", { label: "Chapter 2: TileCopy" });
await page.fill("#pg-base", "4");
await page.selectOption("#pg-bits", "128");
seen.misaligned = [await page.textContent("#threads-and-values .pg-error"), await page.locator("#threads-and-values .pg-facts li").nth(2).textContent()];

// The address alone brings all of it back.
const again = await open("light", 1280, seen.address);
seen.back = (await said(again, "threads-and-values"))[1];
const ragged = await open("light", 390, "#x=(6,1000):(1000,1)&t=(4,32):(32,1)&v=(1,8)&tile=4,1024&item=2&at=1,0");
seen.ragged = await ragged.locator("#threads-and-values .pg-facts li").last().textContent();
const hostile = await open("light", 1280, "#a=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&x=%3Cb%3E&op=nonsense");
seen.hostile = [await hostile.locator("#layout-algebra .pg-error").textContent(), await hostile.locator("img").count()];
await end();
