"""What runs in the page is fetched as pinned or not at all, and the package that comes with it holds what pages need."""

import functools
import hashlib
import json
import os
import sys
import tarfile
import threading
import zipfile
import zlib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from grading import folders, student

if sys.platform == "emscripten":
    pytest.skip("a page has neither processes nor servers", allow_module_level=True)

OURS = b"numpy as another site serves it"
THEIRS = b"numpy as Pyodide's distribution has it"


def digest(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def runtime(load):
    """scripts/browser_runtime.py as a module."""
    return load("scripts/browser_runtime.py")


# Fetching: from servers and folders of this test, with their own sums ---------------------------------------------------


@pytest.fixture
def distribution(tmp_path, runtime, monkeypatch):
    """The folder that a server hands out in the place of Pyodide's distribution; the sums of both numpys are those known."""
    folder = tmp_path / "distribution"
    folder.mkdir()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *words: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(runtime, "OFFICIAL", f"http://127.0.0.1:{server.server_port}/{runtime.NUMPY}")
    monkeypatch.setattr(runtime, "NUMPY_SHA256", {digest(THEIRS): "Pyodide's distribution", digest(OURS): "another"})
    yield folder
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path, runtime):
    """A cache that has Pyodide and DOMPurify."""
    folder = tmp_path / "cache"
    (folder / f"dompurify-{runtime.PURIFY}").mkdir(parents=True)
    (folder / f"pyodide-{runtime.PYODIDE}").mkdir(parents=True)
    return folder


def put(folder, runtime, content):
    folder.mkdir(exist_ok=True)
    (folder / runtime.NUMPY).write_bytes(content)
    return str(folder)


def test_the_official_file_is_taken_when_it_is_the_pinned_one(runtime, distribution, cache):
    put(distribution, runtime, THEIRS)
    runtime.fetch(cache, "official")
    assert (cache / runtime.NUMPY).read_bytes() == THEIRS


def test_only_the_official_file_is_published(runtime, distribution, cache, monkeypatch):
    """Neither a folder's file nor one that an earlier build left is packed when the official one cannot be had."""
    put(cache, runtime, OURS)
    assert not list(distribution.iterdir())
    with pytest.raises(runtime.Unavailable, match=r"numpy for Pyodide is not in reach, nor at http"):
        runtime.fetch(cache, "official")
    assert not runtime.available(cache)
    put(distribution, runtime, OURS)
    with pytest.raises(runtime.Unavailable, match="another sha256 than the one that Pyodide 0.29.3 names"):
        runtime.fetch(cache, "official")
    assert not runtime.available(cache)


def test_a_local_build_takes_either_file_from_a_folder(runtime, distribution, cache, tmp_path):
    for content in (OURS, THEIRS):
        (cache / runtime.NUMPY).unlink(missing_ok=True)
        runtime.fetch(cache, put(tmp_path / "wheels", runtime, content))
        assert (cache / runtime.NUMPY).read_bytes() == content
    (cache / runtime.NUMPY).unlink()
    folder = put(tmp_path / "wheels", runtime, b"something else")
    with pytest.raises(runtime.Unavailable, match=f"not in {folder}, nor at http"):
        runtime.fetch(cache, folder)


@pytest.fixture
def npm(tmp_path, runtime, monkeypatch):
    """A function: from here on npm gives a package of these files."""
    if os.name == "nt":
        pytest.skip("the npm of this test is a shell script")
    monkeypatch.setattr(runtime, "_numpy", lambda *words: None)

    def give(files):
        archive = tmp_path / "given.tgz"
        with tarfile.open(archive, "w:gz") as tar:
            for name in files:
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).write_text(name, encoding="utf-8")
                tar.add(tmp_path / name, f"package/{name}")
        (tmp_path / "bin").mkdir(exist_ok=True)
        script = tmp_path / "bin/npm"
        script.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "{archive}" "$last/pyodide.tgz"\n', encoding="utf-8")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
        return digest(archive.read_bytes())

    return give


def test_packages_are_taken_when_they_are_the_pinned_ones(runtime, npm, tmp_path, monkeypatch):
    given = npm((*runtime.PYODIDE_FILES, runtime.PURIFY_FILE))
    for pin in ("PYODIDE_SHA256", "PURIFY_SHA256"):
        monkeypatch.setattr(runtime, pin, given)
    runtime.fetch(tmp_path / "new")
    stored = tmp_path / f"new/pyodide-{runtime.PYODIDE}"
    assert {file.name for file in stored.iterdir()} == set(runtime.PYODIDE_FILES)
    assert runtime.purify(tmp_path / "new").read_text(encoding="utf-8") == runtime.PURIFY_FILE


def test_another_pyodide_is_refused_and_leaves_nothing(runtime, npm, tmp_path):
    npm(runtime.PYODIDE_FILES)
    with pytest.raises(runtime.Unavailable, match=r"npm gives for pyodide@0.29.3 has another sha256 than 924f3167d6bf"):
        runtime.fetch(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


def test_without_npm_the_site_is_built_without_the_button_and_the_fonts_and_says_so(
    runtime, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(runtime.fetch, "__defaults__", (tmp_path / "new", None))
    monkeypatch.setattr(runtime.fetch_fonts, "__defaults__", (tmp_path / "new",))
    runtime.main(["browser_runtime.py", "fetch"])
    assert capsys.readouterr().out == (
        "The site is built without its button Run in this page: npm, which fetches pyodide@0.29.3, is not installed.\n"
        "The site is built in its readers' own fonts: npm, which fetches @fontsource/source-serif-4@5.3.1, is not installed.\n"
    )
    assert not runtime.fonts(tmp_path / "new")


def test_each_font_comes_with_its_licence(runtime, npm, tmp_path, monkeypatch):
    given = npm(("LICENSE", "files/plain.woff2", "files/other.woff2"))
    monkeypatch.setattr(runtime, "FONTS", {"@of/letters@1.0": given})
    monkeypatch.setattr(runtime, "FACES", tmp_path / "fonts.css")
    runtime.FACES.write_text('src: url("fonts/of-letters-1.0/plain.woff2")', encoding="utf-8")
    runtime.fetch_fonts(tmp_path / "new")
    (folder,) = runtime.fonts(tmp_path / "new")
    assert {file.name for file in folder.iterdir()} == {"LICENSE", "plain.woff2"}


def test_the_pins_are_those_of_pyodides_own_list(root, runtime):
    """The file's name and sum that are demanded for publishing stand in Pyodide's own list of packages."""
    found = root / f".runtime/pyodide-{runtime.PYODIDE}/pyodide-lock.json"
    if not found.exists():
        pytest.skip("Pyodide is not here: python scripts/browser_runtime.py fetch")
    numpy = json.loads(found.read_text(encoding="utf-8"))["packages"]["numpy"]
    assert (numpy["file_name"], numpy["sha256"]) == (runtime.NUMPY, next(iter(runtime.NUMPY_SHA256)))


def test_what_is_published_demands_the_official_file(root):
    yaml = pytest.importorskip("yaml", reason="the workflow is YAML")
    workflow = yaml.safe_load((root / ".github/workflows/pages.yml").read_text(encoding="utf-8"))
    builds = [step["run"] for step in workflow["jobs"]["build"]["steps"] if "make book" in step.get("run", "")]
    assert len(builds) == 1 and builds[0].startswith("PYODIDE_WHEELS=official make book")


# The package ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def wheel(runtime, tmp_path):
    runtime.write_wheel(tmp_path / "package.whl")
    with zipfile.ZipFile(tmp_path / "package.whl") as archive:
        yield archive


def test_the_same_sources_give_the_same_bytes(runtime, tmp_path):
    runtime.write_wheel(tmp_path / "a.whl")
    runtime.write_wheel(tmp_path / "b.whl")
    assert (tmp_path / "a.whl").read_bytes() == (tmp_path / "b.whl").read_bytes()


def test_the_package_holds_each_labs_checks_and_no_solution(wheel):
    names = wheel.namelist()
    assert [n for n in names if n.startswith("labs/")] == [f"labs/{lab}/lab.packed" for lab in folders()]
    for lab, home in folders().items():
        packed = zlib.decompress(wheel.read(f"labs/{lab}/lab.packed")).decode("utf-8")
        lines = {line.strip() for line in packed.splitlines()}
        secret = student.solution_lines((home / f"{lab}.md").read_text(encoding="utf-8"))
        assert len(secret) >= 8 and not lines & set(secret)
