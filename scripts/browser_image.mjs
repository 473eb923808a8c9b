// Prepares what a page loads, so that little of Python's start is left to do there:
//
//   node browser_image.mjs FOLDER NUMPY PACKAGE
//
// In FOLDER, which holds Pyodide and the two zip files of these names:
//   image.bin       Python's memory after its start, with what a first cell needs of the standard library imported; gzip
//   wasm.bin        pyodide.asm.wasm, which it replaces; gzip
//   NUMPY, PACKAGE  each module is compiled to bytecode of this Python; numpy's type stubs and f2py are left out

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const [folder, numpy, book] = process.argv.slice(2);
const at = (name) => join(resolve(folder), name);
const zipped = (name, bytes) => writeFileSync(at(name), gzipSync(bytes, { level: 9 }));

const { loadPyodide } = await import(pathToFileURL(at("pyodide.mjs")));
const python = await loadPyodide({ indexURL: resolve(folder) + "/", _makeSnapshot: true });
python.runPython(`
import gc, importlib
for name in """__future__ array ast base64 bisect bz2 concurrent.futures contextlib copy ctypes dataclasses datetime decimal difflib
    dis email enum fractions functools hashlib heapq hmac html importlib.metadata importlib.resources inspect itertools json linecache
    logging numbers pathlib pickle platform random re secrets shutil statistics string struct subprocess tempfile textwrap threading
    traceback typing warnings weakref xml.etree.ElementTree zipfile""".split():
    importlib.import_module(name)
gc.collect()
`);
zipped("image.bin", python.makeMemorySnapshot());

python.runPython(`
import warnings
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash

warnings.simplefilter("ignore")

def compiled(archive, keeps_source, left_out=()):
    """The zip file with bytecode for each module, which Python takes as it is, without a look at the source."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile("/new.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        def write(name, content):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, content)
        for name in old.namelist():
            if name.endswith("/") or name.endswith((".pyi", ".pxd")) or name.startswith(left_out):
                continue
            content = old.read(name)
            if not name.endswith(".py") or name.startswith("bench/"):
                write(name, content)
                continue
            code = compile(content, f"/lib/python3.13/site-packages/{name}", "exec", dont_inherit=True)
            bytecode = _code_to_hash_pyc(code, source_hash(content), False)
            where, _, file = name.rpartition("/")
            if keeps_source:
                write(name, content)
                write(f"{where}/__pycache__/{file[:-3]}.cpython-313.pyc", bytecode)
            else:
                write(f"{name}c", bytecode)

import zipfile
`);
// The simulator reads the package's sources; nobody reads numpy's.
for (const [name, words] of [[numpy, 'False, ("numpy/f2py/",)'], [book, "True"]]) {
  python.FS.writeFile("/old.zip", readFileSync(at(name)));
  python.runPython(`compiled("/old.zip", ${words})`);
  writeFileSync(at(name), python.FS.readFile("/new.zip"));
}

zipped("wasm.bin", readFileSync(at("pyodide.asm.wasm")));
rmSync(at("pyodide.asm.wasm"));
