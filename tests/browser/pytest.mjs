// Runs tests of this checkout in Pyodide, as a web page would run the package: numpy's default integer has 32 bits there.
//
//   node tests/browser/pytest.mjs SITE_PACKAGES [pytest's arguments]
//
// SITE_PACKAGES is a folder that holds pytest (.venv/lib/python3.12/site-packages). Pyodide and numpy come from .runtime,
// where `scripts/browser_runtime.py fetch` puts them.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

// All in Python, so those of any installation do.
const BORROWED = ["pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "hypothesis", "sortedcontainers", "attr", "tensor_layouts"];

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const [packages, ...words] = process.argv.slice(2);
const runtime = join(root, ".runtime");
const pyodide = join(runtime, readdirSync(runtime).find((name) => name.startsWith("pyodide-")));
const numpy = readdirSync(runtime).find((name) => name.startsWith("numpy-"));
const { loadPyodide } = await import(join(pyodide, "pyodide.mjs"));

const python = await loadPyodide({ indexURL: pyodide + "/" });
python.unpackArchive(new Uint8Array(readFileSync(join(runtime, numpy))), "wheel", { extractDir: "/lib/python3.13/site-packages" });
python.mountNodeFS("/repo", root);
for (const name of BORROWED) {
  if (existsSync(join(packages, name))) python.mountNodeFS(`/borrowed/${name}`, join(packages, name));
}
python.FS.writeFile("/borrowed/py.py", readFileSync(join(packages, "py.py")));
python.globals.set("words", python.toPy(words));
process.exitCode = python.runPython(`
import os, sys
os.chdir("/repo")
sys.path[:0] = ["/repo", "/borrowed"]
sys.dont_write_bytecode = True
import pytest
int(pytest.main(["-p", "no:cacheprovider", "-q", *words]))
`);
