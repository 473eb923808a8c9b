// Opens every page of a built site in Chromium, and prints what is wrong.
//
//   node check.mjs SITE [--chromium PATH] [--seventh 0..6] [--search WORD] [--pointed PAGE] [--popovers PAGE]
//
// A page is opened and played through on the phone in the dark scheme; then the scheme changes under it, as the reader's system may, and
// its window becomes a desktop's, in both schemes: each time it is looked at again. A page of a folder of which one was looked at so is
// looked at twice, on the dark phone and on the light desktop. With --seventh every seventh page is opened.
//
// Prints one JSON object: {pages: [...], opened: [...], weights: [{page, kb, seconds}], findings: [{page, scheme, width, kind, text}]}. The
// kinds are "outside request", "console", "missing" (a request or link to a file that is not there), "accessibility"
// (axe-core, serious and critical), "overflow" (the page scrolls sideways), "prediction" (an answer that is not folded until
// it is asked for), "player" (one that does not play, or text that is under 11 px or wider than its box), "explorer" (controls that do nothing), "weight"
// (over 700 KB compressed with all that the page asks for, or text after more than 3 s at 1.6 Mbit/s; on the phone), "search"
// (from index.html) and "popover" (of the links of a PAGE). Of another PAGE, else of index.html, all that can be pressed is also looked at as
// under a pointer. The exit status says only whether the check ran.

import { readFileSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";
import { gzipSync } from "node:zlib";

import { accessibility, compressible, fileOf, htmlPages, launch, options, playOn, serve, STILL, TYPES, watch, words } from "./site.mjs";

const LOOKS = [[390, "dark"], [390, "light"], [1280, "light"], [1280, "dark"]]; // a step from one to the next changes one thing
const COLOURS = ["color-contrast", "link-in-text-block"]; // all that a scheme changes of what axe-core looks at
const MOST_KB = 700, MOST_SECONDS = 3;
const SLOW = { offline: false, latency: 150, downloadThroughput: 1.6e6 / 8, uploadThroughput: 0.75e6 / 8 }; // bytes a second

// Elements that reach past the right edge and are not inside something that scrolls by itself.
function overflowing() {
  const edge = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= edge) return null;
  const scrolls = (node) => node && (getComputedStyle(node).overflowX !== "visible" || scrolls(node.parentElement));
  const names = [...document.body.querySelectorAll("*")]
    .filter((node) => node.getBoundingClientRect().right > edge + 1 && !scrolls(node.parentElement))
    .map((node) => node.tagName.toLowerCase() + (node.id ? `#${node.id}` : "") + [...node.classList].map((c) => `.${c}`).join(""));
  return `${document.documentElement.scrollWidth} px wide at ${edge} px: ${names.slice(0, 4).join(", ") || "(no one element)"}`;
}

// What can differ between the schemes and widths, of a page as it stands.
async function look(page, report, rules) {
  await page.mouse.move(0, 0); // else what the last click left under the pointer has the colours of that; see pointed()
  const wide = await page.evaluate(overflowing);
  if (wide) report("overflow", wide);
  for (const text of await accessibility(page, "html", rules)) report("accessibility", text);
}

// Every link, button and row as it looks while a pointer rests on it.
async function pointed(page, report) {
  const line = await page.context().newCDPSession(page);
  for (const domain of ["DOM", "CSS"]) await line.send(`${domain}.enable`);
  const { root } = await line.send("DOM.getDocument");
  const { nodeIds } = await line.send("DOM.querySelectorAll", { nodeId: root.nodeId, selector: "a, button, summary, tr" });
  await Promise.all(nodeIds.map((nodeId) => line.send("CSS.forcePseudoState", { nodeId, forcedPseudoClasses: ["hover"] })));
  for (const text of await accessibility(page, "html", COLOURS)) report("accessibility", `under a pointer: ${text}`);
  await line.detach(); // and with it what it forced
}

// The system's colour scheme changes while the page is open; a page of the theme follows.
async function change(page, scheme) {
  await page.emulateMedia({ colorScheme: scheme });
  await page.waitForFunction((wanted) => [undefined, wanted].includes(document.documentElement.dataset.theme), scheme);
}

// Links to files that are not there, and to places of this site's pages that they do not have.
async function brokenLinks(page, site, base) {
  const links = await page.$$eval("a[href]", (all) => all.map((a) => new URL(a.getAttribute("href"), document.baseURI).href));
  const inside = [...new Set(links)].filter((link) => link.startsWith(base)).map((link) => new URL(link));
  const wrong = inside.flatMap((url) => {
    const file = fileOf(site, url.pathname), place = decodeURIComponent(url.hash.slice(1));
    if (!file) return [url.pathname];
    if (!place || !file.endsWith(".html")) return [];
    const cell = place.match(/^cell-(\d+)-\d+$/); // a line of it, which run/lines.js leads to
    return readFileSync(file, "utf8").includes(cell ? `>cell ${cell[1]}<` : `id="${place}"`) ? [] : [url.pathname + url.hash];
  });
  return [...new Set(wrong)];
}

// Answers every prediction as a reader does who knows the values, then opens whatever is still folded, so that the other checks see it.
async function predictions(page, report) {
  const early = await page.evaluate(() => /^(\S+ )?not yet\b|^No guess yet/m.exec(document.querySelector("main")?.innerText ?? "")?.[0]);
  if (early) report("prediction", `the page shows "${early}"`);
  for (const form of await page.locator("form.qt-predict").all()) {
    const number = await form.getAttribute("data-predict");
    const answer = page.locator(`details[data-predict="${number}"]`);
    if ((await answer.count()) !== 1 || (await answer.evaluate((node) => node.open))) {
      report("prediction", `${number}: its answer is not there once and folded`);
      continue;
    }
    const card = await page.evaluate(() => document.documentElement.dataset.card);
    const own = (await answer.getAttribute(`data-answer-${card}`)) || (await answer.getAttribute("data-answer"));
    const { fields } = JSON.parse(own || '{"fields": []}');
    const entries = await form.locator("input, select").all();
    if (!fields.length || fields.length !== entries.length) report("prediction", `${number}: ${entries.length} fields, ${fields.length} answers`);
    for (const [i, entry] of entries.entries()) {
      const guess = [fields[i]?.value].flat().join(", ");
      await (fields[i]?.kind === "choice" ? entry.selectOption(guess) : entry.fill(guess));
    }
    await form.locator("button").focus();
    await page.keyboard.press("Enter");
    const later = (await page.locator(`form[data-predict="${number}"]`).count()) === 2 && (await form.getAttribute("id")) === `predict-${number}`;
    if (later) continue;
    const told = await answer.locator(":scope > .qt-verdicts li:visible").allTextContents();
    const wrong = told.filter((line, i) => !line.endsWith(fields[i]?.kind === "words" ? fields[i].shown : ": right"));
    if (!(await answer.evaluate((node) => node.open))) report("prediction", `${number}: the button does not reveal the answer`);
    if (told.length !== fields.length || wrong.length) report("prediction", `${number}: of the right values it says "${wrong.join('", "')}"`);
    if (!(await answer.locator(":scope > .qt-verdicts > p:not(.qt-of-the-book):not(.qt-note-of)").last().isVisible())) report("prediction", `${number}: no reason stands beside the verdict`);
  }
  await page.$$eval("details", (all) => all.forEach((node) => { node.open = true; }));
}

// Texts that are squeezed, or wider than the box that they stand in.
function crowded(root) {
  const wide = (text, box) => text.textContent && box && text.getBBox().width > box.getBBox().width + 1;
  return [...root.querySelectorAll(".qt-picture svg")].filter((svg) => svg.getBoundingClientRect().width).flatMap((svg) => {
    const boxes = svg.querySelector('[data-part="boxes"]')?.children ?? [], words = svg.querySelector('[data-part="words"]')?.children ?? [];
    return [...svg.querySelectorAll("[textLength]"), ...[...words].filter((text, i) => wide(text, boxes[i]))].map((text) => text.textContent);
  });
}

// Whether every text of the figures can be read.
async function legible(page, report) {
  for (const figure of await page.locator(".qt-figure:not(.qt-thumb)").all()) {
    const title = await figure.locator(".qt-title").innerText();
    const told = (text) => report("player", `${title}: ${text}`);
    const smallest = await figure.evaluate((root) => {
      const svg = [...root.querySelectorAll(".qt-picture svg")].find((drawn) => drawn.getBoundingClientRect().width);
      const size = (text) => parseFloat(getComputedStyle(text).fontSize);
      if (!svg) { // a table, or code
        const words = [...root.querySelectorAll("td, th, code, pre, p")].filter((text) => text.textContent.trim());
        return Math.min(...words.map(size));
      }
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
      return Math.min(...texts.map((text) => size(text) * scale));
    });
    if (smallest < 10.95) told(`text of ${smallest.toFixed(1)} px`);
    const squeezed = await figure.evaluate(crowded);
    if (squeezed.length) told(`texts do not fit: ${[...new Set(squeezed)].slice(0, 4).join(", ")}`);
  }
}

// Plays every step player to its end: it opens with the finished picture or with step 1, Next from there is step 1, arrow keys
// go on and stop at the end.
async function players(page, report) {
  for (const figure of await page.locator('.qt-figure:not(.qt-thumb):has(button[data-go="1"])').all()) {
    const title = await figure.locator(".qt-title").innerText(), next = figure.locator('button[data-go="1"]');
    const told = (text) => report("player", `${title}: ${text}`);
    const output = figure.locator("output").first();
    const steps = Number(await figure.locator("input[type=range]").first().getAttribute("max"));
    const opens = await output.innerText(), stage = await figure.locator(".qt-stage").innerText();
    const wanted = stage ? (/^The picture of step (.*)\.$/.exec(stage)?.[1] ?? `all ${steps}`) : `1 of ${steps}`;
    if (opens !== wanted) told(`opens with "${opens}" beside "${stage}"`);
    await next.focus();
    if (stage) await next.click();
    for (const text of await figure.evaluate(playOn, steps)) told(text);
  }
}

// Every explorer, by keyboard: each slider from end to end, each list to its last choice; what it then says must be words.
async function explorers(page, report) {
  for (const figure of await page.locator(".qt-figure:has(input[type=range]):not(:has(button[data-go]))").all()) {
    if (await figure.evaluate((node) => node.closest(".qt-card") && !node.offsetParent)) continue; // another card's
    const title = await figure.locator(".qt-title").innerText(), said = new Set();
    const look = async (what) => {
      const text = await figure.locator(".qt-caption").innerText();
      if (!text.trim() || /NaN|undefined|Infinity/.test(await figure.innerText())) report("explorer", `${title}: ${what}: says "${text}"`);
      said.add(text);
    };
    for (const control of await figure.locator("select, input[type=range]").all()) {
      await control.focus();
      if (!(await control.evaluate((node) => node === document.activeElement))) report("explorer", `${title}: a control takes no focus`);
      for (const key of ["Home", "ArrowRight", "End", "ArrowLeft"]) {
        await page.keyboard.press(key);
        await look(key);
      }
    }
    if (said.size < 4) report("explorer", `${title}: its controls change ${said.size - 1} times what it says`);
  }
}

// How heavy a page is with everything that it asks for, and how long its text takes on a slow line with nothing cached.
// A browser under load has been seen to leave a throttled request unanswered, once in many hundred pages, so a page is loaded twice
// before it is said not to come to rest; what it waits for is named.
async function weight(browser, site, base, path, report, tries = 2) {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 } });
  const page = await context.newPage();
  const files = new Set(), waited = new Set();
  page.on("request", (request) => request.url().startsWith(base) && files.add(new URL(request.url()).pathname));
  page.on("request", (request) => waited.add(request.url()));
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => waited.delete(request.url()));
  const line = await context.newCDPSession(page);
  await line.send("Network.enable");
  await line.send("Network.emulateNetworkConditions", SLOW);
  const late = await page.goto(`${base}/${path}`, { waitUntil: "networkidle", timeout: 60000 }).then(() => null, (error) => error);
  if (late) {
    await context.close();
    if (late.name !== "TimeoutError") throw late;
    if (tries > 1) return weight(browser, site, base, path, report, tries - 1);
    report("weight", `it still waits after a minute for ${[...waited].join(", ") || "nothing that it asked for"}`);
    return { page: path, kb: null, seconds: null };
  }
  const painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime / 1000);
  if (!(painted <= MOST_SECONDS)) report("weight", `its text takes ${painted?.toFixed(1)} s at 1.6 Mbit/s`);
  const sizes = [...files].map((name) => {
    const file = fileOf(site, name), bytes = file ? readFileSync(file) : Buffer.alloc(0);
    return [file && compressible(TYPES[extname(file)] ?? "") ? gzipSync(bytes).length : bytes.length, name];
  });
  const kb = sizes.reduce((sum, [bytes]) => sum + bytes, 0) / 1000;
  const heaviest = sizes.sort(([a], [b]) => b - a).slice(0, 3).map(([bytes, name]) => `${name} ${Math.round(bytes / 1000)}`);
  if (kb > MOST_KB) report("weight", `${Math.round(kb)} KB compressed, most of all ${heaviest.join(", ")}`);
  await context.close();
  return { page: path, kb: Math.round(kb), seconds: Number(painted?.toFixed(2)) };
}

// The search as one types, from the front page: each result is a section with words of its own, and Enter leads to the first.
async function search(page, site, base, word, report) {
  const told = (text) => report("search", `"${word}": ${text}`);
  await page.goto(`${base}/index.html`);
  if (!(await page.title()) || !(await page.locator("h1").count())) told("index.html is no page");
  await page.locator("button.search-button:visible, button.search-button__button:visible").first().click();
  const box = page.locator("input[type=search]:visible").first(), results = page.locator(".qt-results:visible a");
  await box.fill(word);
  try {
    await results.first().waitFor({ timeout: 5000 });
  } catch {
    return told("no result");
  }
  const [lens, text] = await box.evaluate((input) => [input.parentNode.querySelector("i").getBoundingClientRect().right,
    input.getBoundingClientRect().left + parseFloat(getComputedStyle(input).paddingLeft)]);
  if (lens > text) told(`the lens covers ${lens - text} px of the text`);
  for (const { href, words } of await results.evaluateAll((all) => all.map((a) => ({ href: a.href, words: a.innerText })))) {
    const url = new URL(href), file = fileOf(site, url.pathname), place = decodeURIComponent(url.hash.slice(1));
    if (!file || (place && !readFileSync(file, "utf8").includes(`id="${place}"`))) told(`a result leads nowhere: ${href}`);
    if (!words.toLowerCase().includes(word) || /\.ipynb|\.md\b/.test(words)) told(`a result says "${words}"`);
  }
  await box.press("ArrowDown");
  const chosen = page.locator(`[id="${await box.getAttribute("aria-activedescendant")}"]`);
  if ((await chosen.getAttribute("aria-selected")) !== "true") told("ArrowDown chooses nothing");
  for (const found of await accessibility(page)) report("accessibility", `search: ${found}`);
  const wanted = await chosen.evaluate((link) => link.href);
  await box.press("Enter");
  await page.waitForURL(wanted, { timeout: 5000 }).catch(() => told(`Enter leads to ${page.url()}`));
}

// What the glossary and other pages say, shown without leaving the page: by keyboard, by pointer, by a mouse that rests.
async function popovers(page, base, path, report) {
  const told = (text) => report("popover", text);
  await page.goto(`${base}/${path}`, { waitUntil: "load" });
  const shown = page.locator(".qt-popover:popover-open"), term = page.locator("a.qt-term:visible").first();
  const opens = async (what) => {
    const words = await shown.innerText({ timeout: 5000 }).catch(() => "");
    if (!words.includes("Open the page") || words.length < 40) told(`${what} shows "${words}"`);
  };
  const closes = async (what) => {
    await page.keyboard.press("Escape");
    if (await shown.count()) told(`Escape does not close what ${what} shows`);
  };
  const isFocused = (link) => link.evaluate((node) => node === document.activeElement);
  const other = page.locator('article a.reference.internal[href*=".html"]:not(.qt-term):visible').first();
  for (const [what, link] of [["Enter on a term", term], ["Enter on a link", other]]) {
    await link.focus();
    await page.keyboard.press("Enter");
    await opens(what);
    for (const found of await accessibility(page, ".qt-popover")) report("accessibility", `popover: ${found}`);
    await closes(what);
    if (!(await isFocused(link))) told(`the focus does not come back after ${what}`);
  }
  await term.click();
  await opens("a click");
  await closes("a click");
  if (!page.url().endsWith(path)) told(`the page was left for ${page.url()}`);
}

async function main() {
  const site = resolve(words[0]), pages = htmlPages(site);
  const opened = pages.filter((path, k) => options.seventh === undefined || k % 7 === Number(options.seventh) || path === options.pointed);
  const findings = [], weights = [];
  const server = await serve(site);
  const browser = await launch();
  try {
    let current = "", [width, scheme] = LOOKS[0];
    const report = (kind, text) => findings.push({ page: current, scheme, width, kind, text });
    const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 844 } });
    const page = await watch(context, server.base, report);
    const become = async (next) => {
      if (next[0] !== width) await page.setViewportSize({ width: next[0], height: 844 });
      [width, scheme] = next;
      await change(page, scheme);
    };
    const folders = new Set(); // of which a page was looked at in all four ways
    for (current of opened) {
      const whole = current === options.pointed || !folders.has(dirname(current));
      folders.add(dirname(current));
      weights.push(await weight(browser, site, server.base, current, report));
      await page.goto(`${server.base}/${current}`, { waitUntil: "load" });
      await page.evaluate(() => window.MathJax?.startup?.promise);
      await page.addStyleTag({ content: STILL });
      await predictions(page, report);
      await players(page, report);
      await explorers(page, report);
      for (const path of await brokenLinks(page, site, server.base)) report("missing", path);
      for (const [k, next] of LOOKS.entries()) {
        if (k % 2 && !whole) continue;
        await become(next);
        if (k % 2 === 0) await legible(page, report);
        await look(page, report, k % 2 || (k && !whole) ? COLOURS : undefined);
        if (width === 1280 && current === (options.pointed ?? "index.html")) await pointed(page, report);
      }
      await become(LOOKS[0]);
    }
    for (const next of [LOOKS[0], LOOKS[2]]) {
      await become(next);
      if (options.search) await search(page, site, server.base, options.search, report);
      if (options.popovers) await popovers(page, server.base, (current = options.popovers), report);
    }
  } finally {
    await browser.close();
    server.close();
  }
  console.log(JSON.stringify({ pages, opened, weights, findings }));
}

await main();
