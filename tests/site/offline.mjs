// Reads a built site with a connection, without one, and after it was built anew; prints what is wrong, one line each.
//
//   node offline.mjs SITE [--chromium PATH]
//
// The site is served below a folder of its own. To lose the connection, the server stops.

import { createReadStream, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { fileOf, launch, TYPES, words } from "./site.mjs";

const site = resolve(words[0]), BELOW = "/a/book";
const READ = "notebooks/04-warp-reduce.html", RUN = "notebooks/05-block-reduce.html", UNREAD = "notebooks/06-cluster-reduce.html";
const wrong = [];
const expect = (isRight, text) => isRight || wrong.push(text);

let server, port = 0, changed = {}; // files of a later build: {path: text}

async function connect() {
  server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const file = path.startsWith(`${BELOW}/`) && fileOf(site, path.slice(BELOW.length));
    if (!file) return response.writeHead(404).end("Not found");
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "cache-control": "max-age=600" });
    const later = changed[file.slice(site.length + 1)];
    return later === undefined ? createReadStream(file).pipe(response) : response.end(later);
  });
  await new Promise((ready) => server.listen(port, "127.0.0.1", ready));
  port = server.address().port;
}

async function disconnect() {
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
}

const address = (page) => `http://127.0.0.1:${port}${BELOW}/${page}`;
const text = (path) => readFileSync(join(site, path), "utf8");
const heading = (page) => page.locator("h1").first().innerText({ timeout: 10000 }).catch(() => "");

// Whether a file is kept, with these words in it, once it is or after twenty seconds.
async function isKept(page, path, text = "") {
  const look = async ([url, text]) => ((await (await caches.match(url))?.text()) ?? null)?.includes(text) ?? false;
  for (let i = 0; i < 100; i++) {
    if (await page.evaluate(look, [address(path), text])) return true;
    await page.waitForTimeout(200);
  }
  return false;
}

// Starts Python in the page, writes a line into the first cell that is in sight, and runs it.
async function run(page, source, wanted, when) {
  await page.locator(".qt-run-bar button.qt-start").click();
  const said = () => page.locator(".qt-run-bar").innerText();
  const isReady = await page.waitForSelector(".qt-run-bar[data-ready-ms]", { timeout: 90000 }).then(() => true, () => false);
  if (!isReady) return wrong.push(`${when}: Python does not start: ${await said()}`);
  const cell = page.locator(".qt-editor:visible").first();
  await cell.fill(source, { timeout: 10000 }).catch(async () => wrong.push(`${when}: no cell can be changed: ${await said()}`));
  await cell.press("Control+Enter");
  await page.waitForFunction((wanted) => document.querySelector("article").innerText.includes(wanted), wanted, { timeout: 60000 })
    .catch(() => wrong.push(`${when}: the cell does not give "${wanted}"`));
  console.error(`${when}: Python ready after ${await page.getAttribute(".qt-run-bar", "data-ready-ms")} ms`);
}

const browser = await launch();
try {
  const context = await browser.newContext({ serviceWorkers: "allow" });
  const page = await context.newPage();
  page.on("dialog", (dialog) => dialog.accept());
  page.on("pageerror", (error) => wrong.push(`error on ${page.url()}: ${error.message}`));

  await connect();
  await page.goto(address(READ), { waitUntil: "load" });
  const title = await heading(page);
  expect(await isKept(page, READ), "the first page that was read is not kept");
  expect(await isKept(page, "_static/book.js"), "a script that came before the worker is not kept");
  await page.goto(address(RUN), { waitUntil: "load" });
  const hasRuntime = existsSync(join(site, "runtime/manifest.json"));
  if (hasRuntime) await run(page, "print(f'it is {6 * 7}')", "it is 42", "with a connection");
  expect(await isKept(page, RUN), "a page that was read is not kept");

  await disconnect();
  await page.goto(address(READ), { waitUntil: "load" }).catch((error) => wrong.push(`without a connection: ${error.message}`));
  expect((await heading(page)) === title, "without a connection, a page that was read is not shown");
  expect(await page.evaluate(() => getComputedStyle(document.querySelector("article.bd-article")).lineHeight !== "normal"
    && document.querySelectorAll("[role=region]").length > 0), "without a connection, styles or scripts are missing");
  await page.goto(address(RUN), { waitUntil: "load" });
  if (hasRuntime) await run(page, "print(f'it is {7 * 8}')", "it is 56", "without a connection");
  await page.goto(address(UNREAD), { waitUntil: "load" });
  expect((await heading(page)) === "There is no connection", "without a connection, an unread page says nothing");
  const offered = await page.locator("li a").evaluateAll((links) => links.map((link) => link.href));
  expect([READ, RUN].every((path) => offered.includes(address(path))), `an unread page offers only ${offered}`);

  // The site is built anew: a new page is seen at once, and the kept copies of the others become new ones.
  changed = Object.fromEntries([READ, RUN].map((path) => [path, text(path).replace("<h1>", "<h1>Anew: ")]));
  changed["sw.js"] = text("sw.js").replace(/BUILD = "[^"]*"/, 'BUILD = "later"');
  await connect();
  await page.goto(address(READ), { waitUntil: "load" });
  expect((await heading(page)).startsWith("Anew: "), "after a new build, the old page is shown");
  expect(await isKept(page, RUN, "<h1>Anew: "), "after a new build, the old copy of another page is kept");
  await disconnect();
  await page.goto(address(RUN), { waitUntil: "load" });
  const last = await heading(page);
  expect(last.startsWith("Anew: "), `without a connection, a page of the old build is shown: ${last}`);
  await context.close();

  // A page that is opened as a file has no worker, and says no error.
  const files = await (await browser.newContext({ serviceWorkers: "allow" })).newPage();
  files.on("console", (message) => message.type() === "error" && /worker/i.test(message.text()) && wrong.push(`as a file: ${message.text()}`));
  files.on("pageerror", (error) => wrong.push(`as a file: ${error.message}`));
  await files.goto(pathToFileURL(join(site, READ)).href, { waitUntil: "load" });
  expect((await heading(files)) === title, "a page is not shown as a file");
} finally {
  await browser.close();
}
console.log(JSON.stringify(wrong));
