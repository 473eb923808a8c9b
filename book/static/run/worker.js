// Python in a web worker: one session, whose cells the page sends one at a time.
//
// in:  {runtime} (once, the folder's address), then {cell, source}
// out: {stage}, {ready}, {failed}; for a cell {cell, kind, text} for each piece of output, then {cell, done: ok}

let session;

async function bytes(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} cannot be fetched (${answer.status})`);
  return answer.arrayBuffer();
}

async function start(runtime) {
  const say = (stage) => postMessage({ stage });
  const manifest = await (await fetch(new URL("manifest.json", runtime), { cache: "no-cache" })).json();
  // The wheels are on their way while Python starts.
  const numpy = bytes(new URL(manifest.numpy, runtime)), book = bytes(new URL(manifest.package, runtime));
  say("Loading Python");
  const { loadPyodide } = await import(new URL("pyodide.mjs", runtime));
  const python = await loadPyodide({ indexURL: runtime });
  say("Loading numpy");
  const packages = { extractDir: python.runPython("import site; site.getsitepackages()[0]") };
  python.unpackArchive(await numpy, "wheel", packages);
  say("Loading the simulator");
  python.unpackArchive(await book, "wheel", packages);
  const tell = (kind, text) => postMessage({ cell: session.cell, kind, text });
  session = { cell: 0, python: python.pyimport("quack_tutorial.browser.session").start(tell) };
  python.runPython("import quack_tutorial.simulation");
  postMessage({ ready: true });
}

onmessage = async ({ data }) => {
  try {
    if (data.runtime) return await start(data.runtime);
    session.cell = data.cell;
    postMessage({ cell: data.cell, done: session.python.run(data.cell, data.source) });
  } catch (error) {
    postMessage({ failed: String(error), cell: data.cell });
  }
};
