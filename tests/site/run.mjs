// Opens a chapter as a reader would, starts "Run in this page", and does what the steps say.
//
//   node run.mjs SITE PAGE STEPS [--chromium PATH]
//
// STEPS is a JSON list of
//   {"run": N}                        run cell N (0: all cells), and wait until it is done
//   {"solutions": true}               run each folded solution that Run all left out, and what is out of date by that
//   {"replace": [N, TEXT, BY]}        change the text of cell N
//   {"type": [N, TEXT]}               type the whole text of cell N
//   {"enter": N}                      press Ctrl-Enter in cell N, wait until nothing runs, and note what the cell shows then
//   {"keys": [N, KEY, ...]}           press keys in cell N, and note its text, its coloured copy and what has the focus then
//   {"answer": TEXT}                  write the answer in words, in a lab
//   {"download": true}                download the page as a notebook
//   {"reload": true}                  load the page again and start Python again
//   {"visit": HASH}                   load the page again, with what the address then carries, and do not start Python;
//                                     {number: text} in the place of HASH: cells as a link carries them
//   {"hash": {number: text}}          open such a link in the same tab
//   {"card": CARD}                    choose whose figures are shown
//   {"settled": true}                 wait until what was typed has run by itself, and nothing is out of date
//   {"tab": N}                        go on in tab N of the same browser (0 is the first), which is opened if it is new
//   {"click": NAME}                   press the first button or link of that name that is in sight
//   {"follow": true}                  follow the first "cell N:L" in sight, and note it as `followed`
//   {"wait": TEXT}                    wait until the page shows this text
//   {"size": [WIDTH, HEIGHT]}, {"scheme": "dark"}
//   {"full": true}                    from the next visit on, the browser keeps nothing
//   {"store": [KEY, TEXT]}            put a text into what the browser keeps
//   {"offline": BOOLEAN}              cut the connection, or bring it back
//   {"look": true}                    note how the page stands, in `looks`
//   {"choose": [LABEL, VALUE]}        set the control of that label, in the sandbox
//   {"link": true}                    copy the link, and open it in a fresh profile
//   {"axe": true}                     report what axe-core finds on the page as it stands
//   {"stop": N}                       run cell N, ask for a stop after a second, say how long that took
// and the answer one JSON object: {players (alive in the built page, of the card that is chosen), ready_ms, took_ms: {step}, bytes, requests_before, cells:
// [{number, state, text, figures, alive, took, beside: what stands beside its lines}], ran (the cells after the last step "run"), said: [text], keys: [{text, coloured,
// focus}], looks: [...], followed: [N, L], downloaded: [name, text], stopped_ms, findings}, `findings` as in check.mjs. A
// cell's `alive` counts its players that a script has brought to life. Python is started before the first step, unless that
// is a visit.

import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";

import { accessibility, fileOf, launch, serve, watch, words } from "./site.mjs";

const [site, path, steps] = words;
const LONG = { timeout: 240_000 };

// What each cell shows now, without what it gave on a GPU; an answer's output stands in a node of its own, after the cell's.
const cellsOf = (nodes) => {
  const cells = [];
  const shown = (node, what) => [...node.querySelectorAll(`.cell_output ${what}`)].filter((part) => !part.closest(".qt-on-gpu"));
  for (const node of nodes) {
    if (node.querySelector(".cell_input")) {
      const took = node.querySelector(".qt-cell-tools span")?.textContent;
      const number = Number(node.querySelector(".qt-number").textContent.match(/\d+/)[0]);
      cells.push({ number, state: node.dataset.qtState ?? "new", text: "", figures: 0, alive: 0, took,
        beside: [...node.querySelectorAll(".qt-beside > div")].map((row) => row.textContent.trim()) });
    }
    const cell = cells.at(-1), note = node.querySelector(".qt-stale-note:not([hidden])");
    if (note) {
      const output = node.querySelector(".cell_output.qt-stale"), heard = output?.getAttribute("aria-describedby");
      cell.stale = note.firstChild.textContent;
      cell.isHeard = Boolean(heard) && document.getElementById(heard) === note;
    }
    cell.text += shown(node, ".output:not(.text_html)").map((part) => part.textContent).join("");
    cell.figures += shown(node, ".output.text_html").length;
    cell.alive += shown(node, "[data-ready]").length;
  }
  return cells;
};

// How the page stands: its cells, what is said, whose text each cell shows, and where the focus is.
const stateOf = () => {
  const numberOf = (node) => Number(node.closest("div.cell").querySelector(".qt-number").textContent.match(/\d+/)[0]);
  const by = (selector, value) =>
    Object.fromEntries([...document.querySelectorAll(selector)].map((node) => [numberOf(node), value(node)]));
  const focus = document.activeElement, marked = document.querySelector(".qt-mark:not([hidden])");
  const box = marked?.getBoundingClientRect();
  return {
    texts: by(".qt-editor", (node) => node.value),
    versions: by(".qt-versions:not([hidden])", (node) => [...node.querySelectorAll("button:not([hidden])")].map(
      (button) => (button.ariaPressed === "true" ? "*" : "") + button.textContent)),
    remarks: by(".qt-whose:not(:empty)", (node) => node.textContent),
    numbers: by(".qt-lines", (node) => node.textContent),
    bar: [...document.querySelectorAll(".qt-run-bar [role=status]")].map((node) => node.textContent),
    said: document.querySelector(".qt-run-said")?.textContent,
    focus: { label: focus.getAttribute("aria-label"), line: focus.value?.slice(0, focus.selectionStart).split("\n").length },
    markInSight: box ? box.top > 0 && box.bottom < innerHeight : null,
    report: document.querySelector(".qt-motion-said")?.textContent,
    titles: [...document.querySelectorAll("#qt-motion .qt-figure[aria-label]")].map((node) => node.getAttribute("aria-label")),
    why: document.querySelector("#qt-sandbox-why")?.textContent,
    width: document.documentElement.scrollWidth,
    height: document.documentElement.scrollHeight,
    kept: Object.fromEntries(Object.entries(localStorage).filter(([key]) => key.startsWith("quack-tutorial:"))),
    hash: location.hash,
    asks: !dispatchEvent(new Event("beforeunload", { cancelable: true })),
  };
};

// Such an address as "Copy link" makes.
const write = async (texts) => {
  const script = document.querySelector('script[src*="_static/book.js"]').src;
  return (await import(new URL("run/link.js", script))).write(texts);
};

const idle = (page) => page.waitForFunction(() => window.quackCells.idle(), null, LONG);

async function begin(page) {
  await page.click(".qt-start");
  await page.waitForSelector(".qt-run-bar[data-ready-ms]", { timeout: 90_000 });
  await page.waitForFunction(() => window.quackCells);
}

async function main() {
  const server = await serve(resolve(site));
  const browser = await launch();
  const findings = [], fetched = new Set();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 844 } });
    let page = await watch(context, server.base, (kind, text) => findings.push({ kind, text }));
    page.on("dialog", (dialog) => dialog.accept());
    context.on("request", (request) => fetched.add(new URL(request.url()).pathname));
    await page.goto(`${server.base}/${path}`, { waitUntil: "load" });
    const before = [...fetched].filter((name) => /runtime|_static\/run\//.test(name));
    const players = await page.locator(".cell_output [data-ready]:not(.qt-on-gpu *, details.qt-card *)").count();
    const answer = { players, said: [], keys: [], looks: [], took_ms: {}, requests_before: before };
    const said = async (name) => JSON.parse(await page.getAttribute(".qt-run-bar", name));
    const todo = JSON.parse(steps), tabs = [page];
    if (todo[0]?.visit === undefined) {
      await begin(page);
      Object.assign(answer, { ready_ms: await said("data-ready-ms"), took_ms: await said("data-took-ms") });
    }
    for (const step of todo) {
      if (step.reload) {
        await page.reload({ waitUntil: "load" });
        await begin(page);
      } else if (step.visit !== undefined) {
        const hash = typeof step.visit === "string" ? step.visit : await page.evaluate(write, step.visit);
        await page.goto("about:blank");
        fetched.clear();
        await page.goto(`${server.base}/${path}${hash}`, { waitUntil: "load" });
        await page.waitForTimeout(500);
      } else if (step.hash) {
        const hash = await page.evaluate(write, step.hash);
        await page.evaluate((now) => (location.hash = now), hash);
        await page.waitForTimeout(1000);
      } else if (step.card) {
        await page.selectOption(".qt-switch select", step.card);
      } else if (step.settled) {
        const isSettled = () => window.quackCells?.idle() && !document.querySelector(".qt-stale-note:not([hidden])");
        await page.waitForFunction(isSettled, null, LONG);
      } else if (step.tab !== undefined) {
        page = tabs[step.tab] ??= await watch(context, server.base, (kind, text) => findings.push({ kind, text }));
        if (page.url() === "about:blank") await page.goto(`${server.base}/${path}`, { waitUntil: "load" });
        await page.bringToFront();
        await page.waitForTimeout(500);
      } else if (step.click) {
        const name = { name: step.click, exact: true };
        await page.getByRole("button", name).or(page.getByRole("link", name)).and(page.locator(":visible")).first().click();
        await page.waitForTimeout(200);
      } else if (step.follow) {
        const place = page.locator("a.qt-line:visible").first();
        answer.followed = await place.evaluate((node) => [Number(node.dataset.cell), Number(node.dataset.line)]);
        await place.click();
      } else if (step.wait) {
        await page.waitForFunction((text) => document.body.innerText.includes(text), step.wait, LONG);
      } else if (step.size) {
        await page.setViewportSize({ width: step.size[0], height: step.size[1] });
        await page.waitForTimeout(200);
      } else if (step.scheme) {
        await page.evaluate((scheme) => (document.documentElement.dataset.theme = scheme), step.scheme);
        await page.waitForTimeout(200);
      } else if (step.full) {
        await page.addInitScript(() => {
          const plain = Storage.prototype.setItem;
          Storage.prototype.setItem = function (key, value) {
            if (key.startsWith("quack-tutorial:")) throw new DOMException("full", "QuotaExceededError");
            plain.call(this, key, value);
          };
        });
      } else if (step.store) {
        await page.evaluate(([key, text]) => localStorage.setItem(key, text), step.store);
      } else if (step.offline !== undefined) {
        await context.setOffline(step.offline);
      } else if (step.look) {
        await page.waitForTimeout(700); // what is said of an edit is said when the typing pauses
        const python = [...fetched].filter((name) => /runtime\//.test(name)).length;
        const cells = await page.$$eval("article.bd-article div.cell", cellsOf);
        answer.looks.push({ ...(await page.evaluate(stateOf)), python, cells });
      } else if (step.solutions) {
        const folded = await page.$$eval('div.cell.tag_hide-cell[data-qt-state="new"] .qt-number', (all) =>
          all.map((node) => Number(node.textContent.match(/\d+/)[0])));
        for (const number of folded) {
          await page.evaluate((n) => window.quackCells.run(n), number);
          await idle(page);
        }
        const stale = await page.$$eval('div.cell[data-qt-state="stale"] .qt-number', (all) =>
          all.map((node) => Number(node.textContent.match(/\d+/)[0])));
        if (stale.length) await page.evaluate((n) => window.quackCells.run(n), stale.at(-1)); // what a solution made out of date
        await idle(page);
        answer.ran = await page.$$eval("article.bd-article div.cell", cellsOf);
      } else if (step.replace) {
        const [number, text, by] = step.replace;
        await page.waitForFunction(() => window.quackCells); // which a page that was just opened has in a while
        await page.evaluate(([n, old, next]) => window.quackCells.change(n, old, next), [number, text, by]);
      } else if (step.choose) {
        const [label, value] = step.choose, control = page.getByLabel(label, { exact: true });
        if (await control.evaluate((node) => node.tagName === "SELECT")) await control.selectOption(value);
        else await control.fill(value);
        await control.dispatchEvent("change");
        await page.waitForTimeout(300);
      } else if (step.link) {
        await page.evaluate(() => (navigator.clipboard.writeText = async (text) => void (window.copied = text)));
        await page.click('[data-do="link"]');
        await page.waitForFunction(() => window.copied);
        const address = await page.evaluate(() => window.copied), fresh = await browser.newContext();
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
        for (const key of keys) {
          if (key.before) await box.evaluate((node, text) => node.setSelectionRange(...[0, 0].fill(node.value.indexOf(text))), key.before);
          else await page.keyboard.press(key);
        }
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
        await page.mouse.move(0, 0); // off links, which have another colour while they are pointed at
        await page.waitForTimeout(300);
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
    const unasked = findings.filter(({ text }) => !text.includes("ERR_INTERNET_DISCONNECTED")); // asked for by "offline"
    console.log(JSON.stringify({ ...answer, findings: unasked }));
  } catch (error) {
    throw new Error(`${error.message}\n${JSON.stringify(findings)}`);
  } finally {
    await browser.close();
    server.close();
  }
}

await main();
