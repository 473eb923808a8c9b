// Uses the page "A kernel as you type" as a reader does, and prints as JSON what it showed.
//
//   node motion.mjs SITE [--chromium PATH]
//
// Prints {built, mended, twice, broken, opened: what the page showed, caret: the line a report's link led to, fetched_before: files of
// Python asked for before the first change, findings: what axe, the console or the network had against it}.

import { resolve } from "node:path";

import { accessibility, launch, serve, STILL, watch } from "./site.mjs";

const site = resolve(process.argv[2]), chosen = process.argv.indexOf("--chromium");
const BARRIER = "    cute.arch.barrier()", NONE = "    # cute.arch.barrier()", LONG = { timeout: 60000 };

// What the page shows: its verdict, the report, each figure's title and drawing, and what stands beside the lines of the kernel.
function shown() {
  const all = (selector) => [...document.querySelectorAll(`#qt-motion ${selector}`)];
  const drawn = (picture) => `${picture.querySelectorAll("rect").length} boxes: ${picture.textContent.replace(/\s+/g, " ").trim()}`;
  const beside = all(".qt-beside > div").map((row) => row.textContent.trim());
  const lines = document.querySelector("#qt-motion .qt-editor").value.split("\n").map((line) => line.trim());
  return {
    source: document.querySelector("#qt-motion .qt-editor").value,
    verdict: document.querySelector("#qt-motion [role=status]").textContent,
    report: all(".qt-motion-said").map((said) => said.textContent).join("\n"),
    figures: Object.fromEntries(all(".qt-figure[aria-label]").map((node) => [node.getAttribute("aria-label"), drawn(node.querySelector(".qt-picture"))])),
    lines: Object.fromEntries(beside.flatMap((words, i) => (words ? [[lines[i], words]] : []))),
  };
}

const server = await serve(site), browser = await launch(chosen > 0 ? process.argv[chosen + 1] : "/usr/bin/chromium");
const findings = [], answer = { findings };
try {
  const open = async (address) => {
    const context = await browser.newContext({ colorScheme: "light", viewport: { width: 1280, height: 844 } });
    const page = await watch(context, server.base, (kind, text) => findings.push(`${kind}: ${text}`));
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(address, { waitUntil: "load" });
    await page.waitForSelector("#qt-motion .qt-editor");
    return { page, python: () => asked.filter((url) => url.includes("/runtime/")).length };
  };
  const drawn = async (page) => {
    await page.waitForFunction(() => !document.querySelector("#qt-motion .qt-motion-old"), null, LONG);
    return page.evaluate(shown);
  };
  const type = async (page, old, text) => {
    const editor = page.getByLabel("The kernel", { exact: true }), source = await editor.inputValue();
    if (!source.includes(old)) throw new Error(`the kernel has no ${old}`);
    await editor.fill(source.replace(old, text));
    return drawn(page);
  };

  const { page, python } = await open(`${server.base}/book/motion.html`);
  // The editor is there a moment before what stands beside its lines.
  await page.waitForFunction(() => [...document.querySelectorAll("#qt-motion .qt-beside > div")].some((row) => row.textContent.trim()), null, LONG);
  answer.built = await drawn(page);
  answer.fetched_before = python();
  answer.mended = await type(page, NONE, BARRIER);
  answer.twice = await type(page, "buffer[0] + buffer[1]", "buffer[0] + buffer[0]");
  await type(page, "buffer[0] + buffer[0]", "buffer[0] + buffer[1]");
  answer.broken = await type(page, BARRIER, NONE);
  await page.addStyleTag({ content: STILL });
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted, scheme);
    for (const text of await accessibility(page)) findings.push(`${scheme}: ${text}`);
  }
  const place = page.locator(".qt-motion-said a[data-line]").first(), line = await place.getAttribute("data-line");
  await place.click();
  answer.caret = await page.evaluate(() => {
    const box = document.activeElement;
    return box.value.slice(0, box.selectionStart).split("\n").length;
  });
  if (String(answer.caret) !== line) findings.push(`the link to line ${line} leads to line ${answer.caret}`);
  await page.evaluate(() => (navigator.clipboard.writeText = async (text) => void (window.copied = text)));
  await page.getByRole("button", { name: "Copy link to this kernel" }).click();
  await page.waitForFunction(() => window.copied);
  const fresh = await open(await page.evaluate(() => window.copied));
  await fresh.page.waitForFunction(() => /^(Something is wrong:|Nothing wrong)/.test(document.querySelector("#qt-motion [role=status]").textContent) && !document.querySelector("#qt-motion .qt-motion-old"), null, LONG);
  answer.opened = await fresh.page.evaluate(shown);
} catch (error) {
  findings.push(error.message);
} finally {
  await browser.close();
  server.close();
}
console.log(JSON.stringify(answer));
