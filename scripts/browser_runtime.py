"""Fetches what runs the book's cells in a web page, what cleans their outputs, and the site's fonts; packs Python for the site.

    python scripts/browser_runtime.py fetch   # into .runtime/, once; where a part cannot be had, one line says so
    python scripts/browser_runtime.py pack _build/html/runtime

| part     | from                                                                                  |
|----------|---------------------------------------------------------------------------------------|
| Pyodide  | npm, `pyodide@0.29.3`: CPython for WebAssembly                                        |
| DOMPurify | npm, `dompurify@3.5.0`: takes out of an output what is not a picture or text          |
| fonts    | npm, `@fontsource/...`: three voices, each under the SIL Open Font License 1.1        |
| numpy    | PYODIDE_WHEELS (a folder), ../shared/pyodide, or Pyodide's own distribution           |
| package  | this checkout: modules of `ROOMS`, styles, scripts, the records that chapters show, labs' checks |

Packing starts Python once in Node.js, and keeps its memory and the modules' bytecode: a page need not do that again
(`scripts/browser_image.mjs`).

Each fetched file is checked against its sha256. With PYODIDE_WHEELS=official only the file of Pyodide's distribution will do:
what is published takes that one. The site is built by Sphinx, which packs (book/extension/book_site.py).
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from pathlib import Path

import grading

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".runtime"
PYODIDE = "0.29.3"
# Of the package on npm.
PYODIDE_SHA256 = "924f3167d6bf5e553bda392615eaa82edd82a9cffc32a1cc49853a926b148c5c"
PURIFY, PURIFY_FILE = "3.5.0", "dist/purify.min.js"
PURIFY_SHA256 = "faa5f2bfe2814384b83d6edb4ed66812fbfdb2a654b4d59edd4b12304058ec20"  # the same
# Each under the SIL Open Font License 1.1: package on npm, its sha256. book/static/fonts.css says which files of it a page takes.
FONTS = {
    "@fontsource/source-serif-4@5.3.1": "54b7898afa20cf4b2d807bbf2b5a2f865e28a83db8a5fcc563dafce5ecb5e7c8",
    "@fontsource-variable/inter@5.3.0": "d26710dd38e7217484a1d47ee76c024977ec550548876f26d06ed1844af09a14",
    "@fontsource/jetbrains-mono@5.3.0": "1bbea47d1387406da5b6ccc4184cc61eae6851cc0db5c1d9bbd088ea9daa0b4a",
}
FACES = ROOT / "book/static/fonts.css"
PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm")
PYODIDE_FILES += ("python_stdlib.zip", "pyodide-lock.json")
NUMPY = "numpy-2.2.5-cp313-cp313-pyodide_2025_0_wasm32.whl"
OFFICIAL = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE}/full/{NUMPY}"
NUMPY_SHA256 = {
    "6eaab6a7bb658d71ebe702911a3deab715323642462eb41b65565ca6a7cc23f1": "Pyodide's distribution",
    "be1aee57f9855e51543bc342aa7a4eb881552887d7ddd6df58fce1f43360f8de": "the same with its modules compiled: not for publishing",
}
# What a page imports: of `bench` not the programs that need a GPU.
ROOMS = "cutesim", "quack_tutorial", "grading", "workbench"
BENCH = "__init__", "asked", "cheats", "correctness", "profile", "this_gpu", "training"
# What the wheel leaves out: what needs torch itself, what chapters gave on a GPU, and records that no cell of a chapter reads, of
# the proof suites, of tuning, of lines and of compilers.
LINES = "rmsnorm", "rmsnorm-residual", "cross-entropy-fused"
LEFT_OUT = (
    "quack_tutorial/ops/",
    "/tests/",
    "/build/",
    "/tune/",
    "/validation/",
    "/outputs/",
    *(f"/lines/{name}.json" for name in LINES),
)
LEFT_OUT += ("/compiled/releases.json", "/compiled/architectures.json")
SHOWN = (
    *(f"/tune/{name}-aligned.json" for name in ("rmsnorm", "softmax", "cross-entropy", "cross-entropy-fused")),
    "/tune/rmsnorm-quantized-aligned.json",
    "/validation/counters.json",
    "/validation/delays.json",
)
SWEPT = 1024, 4096, 8192, 16384, 32768, 128256, 131072  # rows whose sweeps chapters show


class Unavailable(Exception):
    """A part cannot be had here; says which, and why."""


def fetch(cache=CACHE, wheels=None):
    """Bring Pyodide, DOMPurify and numpy into `cache`, where they are not there yet. Raises Unavailable."""
    cache.mkdir(exist_ok=True)
    _package(cache, f"pyodide@{PYODIDE}", PYODIDE_SHA256, PYODIDE_FILES)
    _package(cache, f"dompurify@{PURIFY}", PURIFY_SHA256, (PURIFY_FILE,))
    _numpy(cache, wheels if wheels is not None else os.environ.get("PYODIDE_WHEELS", ""))


def fetch_fonts(cache=CACHE):
    """Bring the fonts and their licences into `cache`, where they are not there yet. Raises Unavailable."""
    cache.mkdir(exist_ok=True)
    for package, sha256 in FONTS.items():
        names = re.findall(rf"fonts/{_folder(package)}/([\w.-]+)", FACES.read_text(encoding="utf-8"))
        _package(cache, package, sha256, ("LICENSE", *(f"files/{name}" for name in names)))


def fonts(cache=CACHE):
    """The folders of the fonts, each with its licence, where all of them are there."""
    folders = [cache / _folder(package) for package in FONTS]
    return folders if all(folder.is_dir() for folder in folders) else []


def _folder(package):
    return package.lstrip("@").replace("/", "-").replace("@", "-")


def _package(cache, package, sha256, files):
    stamp = cache / _folder(package)
    if stamp.exists():
        return
    partial = Path(tempfile.mkdtemp(dir=cache))
    try:
        _unpack(partial, package, sha256, files)
        partial.rename(stamp)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack(folder, package, sha256, files):
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(f"npm, which fetches {package}, is not installed")
    command = [npm, "pack", package, "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(f"npm cannot fetch {package} ({why})")
    (archive,) = folder.glob("*.tgz")
    if _sha256(archive) != sha256:
        raise Unavailable(f"what npm gives for {package} has another sha256 than {sha256[:12]}")
    with tarfile.open(archive) as tar:
        for name in files:
            (folder / Path(name).name).write_bytes(tar.extractfile(f"package/{name}").read())
    archive.unlink()


def _numpy(cache, wheels):
    official = wheels == "official"
    kept = cache / NUMPY
    if kept.exists():
        if _is_numpy(kept, official):
            return
        kept.unlink()  # another file than asked for is not packed, though no other may come
    folders = [] if official else [Path(wheels)] if wheels else [ROOT.parent / "shared" / "pyodide"]
    for folder in folders:
        if (folder / NUMPY).exists() and _is_numpy(folder / NUMPY, official):
            shutil.copyfile(folder / NUMPY, kept)
            return
    try:
        with urllib.request.urlopen(OFFICIAL, timeout=30) as answer:
            kept.write_bytes(answer.read())
    except OSError as error:
        raise Unavailable(
            f"numpy for Pyodide is not in {folders[0] if folders else 'reach'}, nor at {OFFICIAL} ({error})"
        ) from None
    if not _is_numpy(kept, official=True):
        kept.unlink()
        raise Unavailable(f"{OFFICIAL} has another sha256 than the one that Pyodide {PYODIDE} names")


def _is_numpy(path, official):
    digest = _sha256(path)
    return digest in NUMPY_SHA256 and (not official or digest == next(iter(NUMPY_SHA256)))


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def available(cache=CACHE):
    """Whether everything that was to be fetched is there, and Node.js to prepare it."""
    packages = (cache / f"pyodide-{PYODIDE}").is_dir() and purify(cache).exists()
    return packages and (cache / NUMPY).exists() and shutil.which("node") is not None


def purify(cache=CACHE):
    return cache / f"dompurify-{PURIFY}" / Path(PURIFY_FILE).name


def pack(folder, cache=CACHE):
    """Put Pyodide, numpy, the package and Python's memory after its start into `folder`, with a manifest of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in PYODIDE_FILES:
        shutil.copyfile(cache / f"pyodide-{PYODIDE}" / name, folder / name)
    shutil.copyfile(cache / NUMPY, folder / "numpy.whl")
    write_wheel(folder / "package.whl")
    image = Path(__file__).with_name("browser_image.mjs")
    subprocess.run(["node", str(image), str(folder), "numpy.whl", "package.whl"], check=True)
    # A file's name changes with what is in it, so that no browser keeps an old one.
    parts = {"numpy": "numpy.whl", "package": "package.whl", "image": "image.bin", "wasm": "wasm.bin"}
    for part, name in parts.items():
        stem, _, suffix = name.partition(".")
        parts[part] = f"{stem}-{_sha256(folder / name)[:12]}.{suffix}"
        (folder / name).rename(folder / parts[part])
    manifest = {**parts, "bytes": sum(file.stat().st_size for file in folder.iterdir())}
    (folder / "manifest.json").write_text(json.dumps(manifest) + "\n", encoding="utf-8")


def write_wheel(path):
    """The package as one zip file, and beside it each lab's lab.packed: the same bytes for the same sources."""
    files = {f"bench/{name}.py": (ROOT / f"bench/{name}.py").read_bytes() for name in BENCH}
    for file in sorted(file for room in ROOMS for file in (ROOT / room).rglob("*")):
        name = file.relative_to(ROOT).as_posix()
        is_left_out = any(part in name for part in LEFT_OUT) and not name.endswith(SHOWN)
        if file.suffix in (".py", ".json", ".js", ".css", ".svg", ".html") and not is_left_out:
            files[name] = file.read_bytes()
            if "/tune/" in name:
                record = json.loads(files[name])
                record["sizes"] = [size for size in record["sizes"] if size["N"] in SWEPT]
                files[name] = json.dumps(record).encode()
    for file in sorted(ROOT.glob("labs/*/lab.py")):
        files[f"labs/{file.parent.name}/lab.packed"] = grading.pack(file.read_bytes())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)


def main(argv):
    if argv[1:] == ["fetch"]:
        for part, without in (
            (fetch, "without its button Run in this page"),
            (fetch_fonts, "in its readers' own fonts"),
        ):
            try:
                part()
            except Unavailable as why:
                print(f"The site is built {without}: {why}.")
    elif len(argv) == 3 and argv[1] == "pack":
        pack(Path(argv[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv)
