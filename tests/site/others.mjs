// Opens pages of a built site in Debian's Firefox (over WebDriver BiDi) or WebKitGTK's MiniBrowser (over WebDriver), which
// playwright-core cannot drive, and does there what check.mjs and run.mjs do in Chromium, in short.
//
//   node --experimental-websocket others.mjs SITE firefox|webkit [PAGE ...]
//
// Prints one JSON object: {pages: [...], players, popovers, findings: [{page, text}]}. Of each page: its errors and what its policy
// refused, whether it scrolls sideways on a phone, each player from its first step to its last, one word of the glossary by
// keyboard. In the sandbox the reduce runs, then without its barrier, and the race is played.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { htmlPages, playOn, serve } from "./site.mjs";

const [folder, browser, ...chosen] = process.argv.slice(2);
const PORT = 20000 + (process.pid % 20000);
const [TAB, ENTER, CONTROL, ESCAPE, END, HOME, RIGHT] = ["\uE004", "\uE007", "\uE009", "\uE00C", "\uE010", "\uE011", "\uE014"];
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// WebDriver tells of no errors, so each page notes its own, from before its first script on.
const NOTES = `<script>{
  const seen = (window.seen = []), plain = console.error;
  console.error = (...words) => (seen.push(words.join(" ")), plain(...words));
  addEventListener("error", ({ message, target }) => /ResizeObserver loop/.test(message) || seen.push(message ?? "not loaded: " + (target.src ?? target.href)), true);
  addEventListener("unhandledrejection", ({ reason }) => seen.push(String(reason)));
  document.addEventListener("securitypolicyviolation", (event) => seen.push(event.violatedDirective + " refused " + event.blockedURI));
}</script>`;

// Ends with all that it started, however this script ends.
function started(command, words) {
  const child = spawn(command, words, { detached: true, stdio: "ignore", env: { ...process.env, NO_AT_BRIDGE: "1" } });
  process.on("exit", () => { try { process.kill(-child.pid, "SIGKILL"); } catch { /* it has ended */ } });
}
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(1));

async function patiently(ask, tries = 300) {
  try {
    return await ask();
  } catch (error) {
    if (!tries) throw error;
    return wait(100).then(() => patiently(ask, tries - 1));
  }
}

async function firefox() {
  const profile = mkdtempSync(join(tmpdir(), "firefox-"));
  process.on("exit", () => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
  started("firefox-esr", ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", String(PORT)]);
  const socket = await patiently(() => new Promise((open, fail) => {
    const one = new WebSocket(`ws://127.0.0.1:${PORT}/session`);
    one.onopen = () => open(one);
    one.onerror = () => fail(new Error("Firefox does not answer"));
  }));
  const asked = [];
  socket.onmessage = ({ data }) => {
    const { type, id, result, error, message } = JSON.parse(data);
    if (type === "error") asked[id][1](new Error(`${error}: ${message}`));
    if (type === "success") asked[id][0](result);
  };
  const send = (method, params = {}) => new Promise((...both) => {
    socket.send(JSON.stringify({ id: asked.push(both) - 1, method, params }));
  });
  await send("session.new", { capabilities: {} });
  const { context } = await send("browsingContext.create", { type: "tab" }); // the one that it opens with never has the focus
  return {
    goto: (url) => send("browsingContext.navigate", { context, url, wait: "complete" }),
    act: (actions) => send("input.performActions", { context, actions }),
    size: (width, height) => send("browsingContext.setViewport", { context, viewport: { width, height } }),
    async call(code) {
      const { result, exceptionDetails } = await send("script.callFunction", { functionDeclaration: code, awaitPromise: true, target: { context } });
      if (exceptionDetails) throw new Error(exceptionDetails.text);
      return result.value;
    },
  };
}

async function webkit() {
  started("xvfb-run", ["-a", "-s", "-screen 0 1400x1000x24", "WebKitWebDriver", `--port=${PORT}`]);
  const send = async (method, path, body) => {
    const answer = await fetch(`http://127.0.0.1:${PORT}${path}`, { method, body: body && JSON.stringify(body) });
    const { value } = await answer.json();
    if (value?.error) throw new Error(`${value.error}: ${value.message}`);
    return value;
  };
  await patiently(() => send("GET", "/status"));
  const libraries = `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;
  const binary = join(libraries, readdirSync(libraries).find((name) => /^webkit2?gtk-[\d.]+$/.test(name)), "MiniBrowser");
  const alwaysMatch = { "webkitgtk:browserOptions": { binary, args: ["--automation"] }, timeouts: { script: 300_000 } };
  const { sessionId } = await send("POST", "/session", { capabilities: { alwaysMatch } });
  const post = (path, body) => send("POST", `/session/${sessionId}/${path}`, body);
  return {
    goto: (url) => post("url", { url }),
    act: (actions) => post("actions", { actions }),
    size: (width, height) => post("window/rect", { width, height }), // it takes at least 447 pixels
    async call(code) {
      const script = `const done = arguments[0]; (${code})().then((value) => done([value]), (error) => done([null, String(error)]));`;
      const [value, error] = await post("execute/async", { script, args: [] });
      if (error) throw new Error(error);
      return value;
    },
  };
}

const driver = await { firefox, webkit }[browser]();
// The JSON of what a function of the page gives, which may be asked again until it gives something.
const ask = async (code, ...given) => JSON.parse((await driver.call(`async () => JSON.stringify((await (${code})(...${JSON.stringify(given)})) ?? null)`)));
const until = (code, ...given) => ask(`async (...given) => {
  for (const end = Date.now() + 120_000; Date.now() < end; await new Promise((done) => setTimeout(done, 50))) {
    const found = await (${code})(...given);
    if (found) return found;
  }
  throw new Error("waited in vain for " + ${JSON.stringify(String(code))});
}`, ...given);
const press = (keys, held) => {
  const strokes = keys.flatMap((value) => [{ type: "keyDown", value }, { type: "keyUp", value }]);
  const holding = (type) => (held ? [{ type, value: held }] : []);
  return driver.act([{ type: "key", id: "keys", actions: [...holding("keyDown"), ...strokes, ...holding("keyUp")] }]);
};
const focus = (selector) => ask(`(selector) => {
  const node = [...document.querySelectorAll(selector)].find((one) => one.checkVisibility());
  node?.scrollIntoView({ block: "center" });
  node?.focus();
  return Boolean(node);
}`, selector);

// The reduce runs, and nothing is found; without its barrier, run by keyboard, it races, which the player below shows.
async function race(told) {
  const code = '[aria-label="Code of cell 2"]', player = ".qt-ran-here .qt-figure";
  await focus(".qt-start");
  await press([ENTER]);
  await until(`() => document.querySelector(".qt-run-bar").dataset.readyMs && window.quackCells`);
  await ask(`() => {
    const list = document.querySelector('[aria-label="Start from"]');
    list.value = "reduce";
    list.dispatchEvent(new Event("change", { bubbles: true }));
  }`);
  await until(`(code) => document.querySelector(code).value.includes("barrier()")`, code);
  await ask(`() => quackCells.run(3)`);
  await until(`() => quackCells.idle() && document.querySelector("article").innerText.includes("No race, out-of-bounds access")`);
  await ask(`() => quackCells.change(2, "    cute.arch.barrier()\\n", "")`);
  await focus('[aria-label="Code of cell 3"]');
  await press([ENTER], CONTROL);
  await until(`() => quackCells.idle() && /Race \\(read after write\\)/.test(document.querySelector("article").innerText)`);
  await focus(`${player} button[data-go="1"]`);
  const said = [];
  for (const key of [HOME, RIGHT, END]) {
    await press([key]);
    said.push(await ask(`(player) => document.querySelector(player + " .qt-caption p").textContent`, player));
  }
  if (new Set(said).size < 3) told(`the race says "${said.join('", "')}"`);
  await focus(code);
  await press([..."if x:", ENTER]);
  await press([ESCAPE, TAB]);
  const [typed, left] = await ask(`(code) => [document.querySelector(code).value, document.activeElement.textContent]`, code);
  if (!/if x:\n +$/m.test(typed) || left !== "Run") told(`typed "${typed}", Tab leads to "${left}"`);
}

const site = await serve(resolve(folder), NOTES);
const answer = { pages: chosen.length ? chosen : htmlPages(resolve(folder)), players: 0, popovers: 0, findings: [] };
await driver.size(1280, 900);
for (const page of answer.pages) {
  const told = (text) => answer.findings.push({ page, text });
  await driver.goto(`${site.base}/${page}`);
  const opened = await ask(`async () => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    const players = [...document.querySelectorAll('.qt-figure:has(.qt-stage):has(button[data-go="1"])')].filter((one) => one.checkVisibility());
    return { players: players.length, wrong: players.flatMap((root) => {
      const key = (name) => root.querySelector('button[data-go="1"]').dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
      for (const name of ["End", "Home"]) key(name);
      return (${playOn})(root, Number(root.querySelector("input[type=range]").max));
    }) };
  }`);
  answer.players += opened.players;
  opened.wrong.forEach(told);
  if (await focus("article a.qt-term")) {
    await press([ENTER]);
    await until(`() => document.querySelector(".qt-popover:popover-open")?.contains(document.activeElement)`).catch(() => told("Enter on a term shows nothing"));
    await press([ESCAPE]);
    if (!(await ask(`() => document.activeElement.matches("a.qt-term") && !document.querySelector(".qt-popover:popover-open")`))) told("Escape does not lead back");
    else answer.popovers++;
  }
  if (page.endsWith("sandbox.html")) await race(told).catch((error) => told(error.message));
  await driver.size(390, 844);
  const wide = await ask(`() => document.documentElement.scrollWidth - document.documentElement.clientWidth`);
  if (wide > 0) told(`${wide} px wider than a phone`);
  await driver.size(1280, 900);
  (await ask("() => window.seen")).forEach(told);
}
console.log(JSON.stringify(answer));
process.exit(0);
