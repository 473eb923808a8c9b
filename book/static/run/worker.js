// Python in a web worker: one session, whose cells the page sends one at a time.
//
// in:  {cell, source, after: the cell on whose names it runs, yours: the cells
//      whose text is the reader's}
// out: at the start {stage}, {ready, took: ms of each step}, {failed}; for a cell {cell, kind, text} for each piece of output, then {cell, done: ok}

let session;

const RUNTIME = new URL("../../runtime/", import.meta.url).href;
// Only a worker that safe.js made is under the page's policy.
if (location.protocol !== "blob:") throw new Error("this worker is started by safe.js");

// What outlives the page, or starts a worker without the policy, and what asks other
// servers, which the policy forbids already: taken away before the first cell, so that Python finds none of it.
const TAKEN = ["caches", "indexedDB", "BroadcastChannel", "Worker", "SharedWorker", "fetch", "XMLHttpRequest", "WebSocket",
  "WebSocketStream", "WebTransport", "EventSource", "importScripts", "webkitRequestFileSystem", "webkitRequestFileSystemSync",
  "webkitResolveLocalFileSystemURL", "webkitResolveLocalFileSystemSyncURL"];
const TAKEN_OF_NAVIGATOR = ["storage", "storageBuckets", "serviceWorker", "locks"];

function takeAway() {
  for (const [from, names] of [[self, TAKEN], [navigator, TAKEN_OF_NAVIGATOR]]) {
    for (let owner = from; owner; owner = Object.getPrototypeOf(owner)) for (const name of names) delete owner[name];
  }
}

// What is being loaded, and how much of it has come, told when a megabyte more is there and at most once a second.
const loading = { stage: "", bytes: 0, of: 0, told: 0, at: 0 };

function say(stage = loading.stage) {
  Object.assign(loading, { stage, told: loading.bytes, at: performance.now() });
  const megabytes = (bytes) => (bytes / 1e6).toFixed(0);
  const come = loading.bytes < loading.of ? `, ${megabytes(loading.bytes)} of ${megabytes(loading.of)} MB` : "";
  postMessage({ stage: stage + come });
}

// The same answer, whose bytes are counted as they come.
function counted(answer) {
  const count = new TransformStream({
    transform(piece, out) {
      loading.bytes += piece.byteLength;
      if (loading.bytes - loading.told >= 1e6 && performance.now() - loading.at >= 1000) say();
      out.enqueue(piece);
    },
  });
  return new Response(answer.body.pipeThrough(count), { headers: { "content-type": answer.headers.get("content-type") ?? "" } });
}

async function get(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} cannot be fetched (${answer.status})`);
  return counted(answer);
}

const bytes = async (address) => (await get(address)).arrayBuffer();

async function unzipped(address, type) {
  const stream = (await get(address)).body.pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream, { headers: { "content-type": type } });
}

// Python as it was kept after its start, or started anew where that does not arrive whole. The files that are kept zipped
// come under a name of their own.
async function load({ wasm, image }) {
  const plain = self.fetch, address = new URL(wasm, RUNTIME);
  self.fetch = (what, ...more) => {
    if (String(what).endsWith("pyodide.asm.wasm")) return unzipped(address, "application/wasm");
    return plain(what, ...more).then((answer) => (String(what).endsWith(".zip") && answer.ok ? counted(answer) : answer));
  };
  const memory = unzipped(new URL(image, RUNTIME), "").then((answer) => answer.arrayBuffer());
  const { loadPyodide } = await import(new URL("pyodide.mjs", RUNTIME));
  try {
    return await loadPyodide({ indexURL: RUNTIME, _loadSnapshot: await memory });
  } catch (error) {
    console.error(`Python starts from nothing: ${error}`);
    return loadPyodide({ indexURL: RUNTIME });
  }
}

async function start() {
  const manifest = await (await fetch(new URL("manifest.json", RUNTIME), { cache: "no-cache" })).json();
  loading.of = manifest.bytes;
  const took = {};
  let last = performance.now();
  const lap = (step) => ((took[step] = Math.round(performance.now() - last)), (last = performance.now()));
  // The wheels are on their way while Python starts.
  const numpy = bytes(new URL(manifest.numpy, RUNTIME)), book = bytes(new URL(manifest.package, RUNTIME));
  say("Loading Python");
  const python = await load(manifest);
  lap("python");
  say("Loading numpy");
  const packages = { extractDir: python.runPython("import site; site.getsitepackages()[0]") };
  python.unpackArchive(await numpy, "wheel", packages);
  python.runPython("import numpy");
  lap("numpy");
  say("Loading the simulator");
  python.unpackArchive(await book, "wheel", packages);
  const tell = (kind, text) => postMessage({ cell: session.cell, kind, text });
  session = { cell: 0, python: python.pyimport("workbench.session").start(tell) };
  python.runPython("import cutesim.simulation");
  lap("simulator");
  takeAway();
  postMessage({ ready: true, took });
}

onmessage = async ({ data }) => {
  try {
    session.cell = data.cell;
    session.python.take_card(data.card ?? "");
    postMessage({ cell: data.cell, done: session.python.run(data.cell, data.source, data.after, data.yours) });
  } catch (error) {
    postMessage({ failed: String(error), cell: data.cell });
  }
};

start().catch((error) => postMessage({ failed: String(error) }));
