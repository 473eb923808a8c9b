// A built site on a port of this machine, and a browser that sees nothing else.

import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, resolve, sep } from "node:path";
import { createGzip } from "node:zlib";
import { chromium } from "playwright-core";

// The words of a script's command line that stand alone, and its options by name: --width 390 is {width: "390"}.
export const words = [], options = { chromium: "/usr/bin/chromium" };
for (let k = 2; k < process.argv.length; k++) {
  if (process.argv[k].startsWith("--")) options[process.argv[k].slice(2)] = process.argv[++k];
  else words.push(process.argv[k]);
}

export const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".ipynb": "application/json",
  ".js": "text/javascript",
  ".json": "application/json",
  ".mjs": "text/javascript",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
  ".woff": "font/woff",
  ".woff2": "font/woff2",
};

// The file that a path of the site names, or null.
export function fileOf(site, path) {
  let file = resolve(site, "." + decodeURIComponent(path));
  if (file !== site && !file.startsWith(site + sep)) return null;
  if (existsSync(file) && statSync(file).isDirectory()) file = join(file, "index.html");
  return existsSync(file) ? file : null;
}

// Pages that show something, and do not only lead on to another.
function shows(file) {
  return !/http-equiv="refresh"/i.test(readFileSync(file, "utf8"));
}

export function htmlPages(site, folder = "") {
  return readdirSync(join(site, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder + entry.name;
    if (entry.isDirectory()) return entry.name.startsWith("_") ? [] : htmlPages(site, path + "/");
    return entry.name.endsWith(".html") && shows(join(site, path)) ? [path] : [];
  });
}

export const compressible = (type) => /^text|javascript|json|svg/.test(type);

export async function serve(site) {
  const server = createServer((request, response) => {
    const file = fileOf(site, new URL(request.url, "http://localhost").pathname);
    if (!file) return response.writeHead(404).end();
    const type = TYPES[extname(file)] ?? "application/octet-stream";
    if (!compressible(type)) return createReadStream(file).pipe(response.writeHead(200, { "content-type": type }));
    response.writeHead(200, { "content-type": type, "content-encoding": "gzip" });
    return createReadStream(file).pipe(createGzip()).pipe(response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { base: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

// Half-way through a change of colour, axe would measure a contrast that nobody sees for long.
export const STILL = "*, ::before, ::after { transition: none !important; animation: none !important }";

// What axe-core calls serious or critical in a part of a page as it stands, by all of its rules or by some.
export async function accessibility(page, part = "html", rules = null) {
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  const how = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations } = await page.evaluate(([part, how]) => window.axe.run(part, how), [part, how]);
  return violations
    .filter((rule) => ["serious", "critical"].includes(rule.impact))
    .map((rule) => `${rule.id} (${rule.impact}): ${rule.help}; ` + rule.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | "));
}

export function launch() {
  return chromium.launch({
    executablePath: options.chromium,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
      "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
  });
}

// A reader of the pages in the folder that a script is given, who notes in `seen` what each page says of errors, and what `look`
// finds wrong in both schemes and widths; what is `seen` is printed in the end.
export async function visit() {
  const browser = await launch(), site = await serve(resolve(words[0]));
  const seen = { errors: [], violations: [], overflow: [] };
  return {
    browser,
    seen,
    async opened(context, path) {
      const page = await context.newPage();
      page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
      page.on("pageerror", (error) => seen.errors.push(error.message));
      await page.goto(`${site.base}/${path}`);
      return page;
    },
    async look(page, name = "", also = () => null) {
      for (const scheme of ["light", "dark"]) {
        for (const width of [1280, 390]) {
          await page.setViewportSize({ width, height: 844 });
          await page.emulateMedia({ colorScheme: scheme });
          await page.evaluate((theme) => { document.documentElement.dataset.theme = theme; }, scheme);
          for (const text of await accessibility(page)) seen.violations.push(`${name} ${scheme} ${width}: ${text}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
          if (wide || (await also(width))) seen.overflow.push(`${name} ${scheme} ${width}`);
        }
      }
    },
    async end() {
      await browser.close();
      site.close();
      console.log(JSON.stringify(seen));
    },
  };
}

// Reports whatever the page asks for outside the site, refuses it, and reports errors on its console.
export async function watch(context, base, report) {
  await context.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(base) || /^(data|blob):/.test(url)) return route.continue();
    report("outside request", url);
    return route.abort();
  });
  await context.routeWebSocket("**/*", (socket) => report("outside request", socket.url()));
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && report("console", message.text()));
  page.on("pageerror", (error) => report("console", error.message));
  page.on("response", (response) => response.status() >= 400 && report("missing", response.url().slice(base.length)));
  return page;
}

// The rest of a player's steps by the arrow key, from the first; runs in the page, since a key from here costs a round trip.
export function playOn(root, steps) {
  const wrong = [], next = root.querySelector('button[data-go="1"]');
  for (let step = 1; step <= steps; step++) {
    const shown = root.querySelector("output").textContent;
    if (shown !== `${step} of ${steps}`) wrong.push(`shows ${shown} at step ${step}`);
    if (!root.querySelector(".qt-caption p").textContent) wrong.push(`says nothing at step ${step}`);
    next.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  }
  const shown = root.querySelector("output").textContent, stage = root.querySelector(".qt-stage").textContent;
  if (shown !== `${steps} of ${steps}` || next.getAttribute("aria-disabled") !== "true") wrong.push(`goes on from its last step to ${shown}`);
  if (!stage.endsWith("the end.")) wrong.push(`says "${stage}" at its end`);
  return wrong;
}
