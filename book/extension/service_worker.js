// Keeps what was read, and Python once it has come, for a reader without a connection. With a connection everything comes from the
// site, so that no page is older than it. When the site was built anew, the kept pages are fetched once more.

const BUILD = "@BUILD@";
const SCOPE = registration.scope, CACHE = `quack-tutorial ${SCOPE}`, BUILT = `${SCOPE}.kept-of`, RUNTIME = `${SCOPE}runtime/`;
const ANY = { ignoreVary: true };

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("message", (event) => event.waitUntil(renew().then(() => keep(event.data.read))));
addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && event.request.url.startsWith(SCOPE)) event.respondWith(answer(event));
});

async function answer(event) {
  const { url, mode } = event.request;
  try {
    // A page is asked for anew, however long the server lets it be kept; what it loads is named by its content.
    const found = await fetch(event.request, mode === "navigate" ? { cache: "no-cache" } : {});
    event.waitUntil(put(url, found.clone()).catch(() => {})); // the browser's room may be full
    return found;
  } catch (error) {
    const cache = await caches.open(CACHE), name = nameOf(url);
    const kept = (await cache.match(name, ANY)) ?? (name.endsWith("/") ? await cache.match(`${name}index.html`, ANY) : undefined);
    if (kept) return kept;
    if (mode === "navigate") return notKept(cache);
    throw error;
  }
}

// One copy a file, the last: without what tells its versions apart, or the place in a page.
const nameOf = (url) => url.split(/[?#]/)[0];

async function put(url, found) {
  if (found.status !== 200 || found.redirected) return;
  const cache = await caches.open(CACHE), name = nameOf(url);
  const manifest = url.startsWith(`${RUNTIME}manifest.json`) ? await found.clone().text() : null;
  await cache.put(name, found);
  // Parts of an earlier Python, whose names change with what is in them.
  for (const { url: part } of manifest ? await cache.keys() : []) {
    if (part.startsWith(RUNTIME) && /-[0-9a-f]{12}\./.test(part) && !manifest.includes(part.slice(RUNTIME.length))) await cache.delete(part);
  }
}

// What a page had loaded before there was this worker comes from the browser's own cache.
async function keep(urls) {
  const cache = await caches.open(CACHE);
  for (const url of urls.filter((url) => url.startsWith(SCOPE))) {
    if (!(await cache.match(nameOf(url), ANY))) await fetch(url, { cache: "force-cache" }).then((found) => put(url, found)).catch(() => {});
  }
}

// Every kept page and file of another build anew; one that is gone is dropped. Python stays until it is asked for.
async function renew() {
  const cache = await caches.open(CACHE), built = await cache.match(BUILT);
  if ((await built?.text()) === BUILD) return;
  try {
    for (const { url } of built ? await cache.keys() : []) {
      if (url === BUILT || url.startsWith(RUNTIME)) continue;
      const found = await fetch(url, { cache: "no-cache" });
      if (found.ok) await put(url, found);
      else if ([404, 410].includes(found.status)) await cache.delete(url);
    }
    await cache.put(BUILT, new Response(BUILD));
  } catch {
    // No connection: the next page tries again.
  }
}

async function notKept(cache) {
  const links = [];
  for (const { url } of await cache.keys()) {
    if (!url.endsWith(".html")) continue;
    const title = /<title>\s*(.*?)\s*(?:&#8212;.*)?<\/title>/.exec(await (await cache.match(url, ANY)).text())?.[1];
    if (title) links.push(`<li><a href="${url}">${title}</a></li>`);
  }
  const page = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>No connection</title><style>:root { color-scheme: light dark; font: 1.1rem/1.6 system-ui, sans-serif }
body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem }</style>
<main><h1>There is no connection</h1><p>This page was not opened before, so it is not kept here. These were:</p><ul>${links.join("\n")}</ul></main></html>`;
  return new Response(page, { status: 503, headers: { "content-type": "text/html; charset=utf-8" } });
}
