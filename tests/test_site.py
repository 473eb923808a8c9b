"""The built book in a real browser: both colour schemes, desktop and phone, nothing fetched from outside, light and quick.

`tests/site/check.mjs` looks, this file judges. Where Chromium, Node.js or the built site is missing the test is skipped
and says which; with SITE_TEST=required, as in .ci/run, that is a failure instead.
"""

import datetime
import json
import os
import re
import shutil
import subprocess
from collections import Counter

import pytest
import yaml


def missing_tool(root):
    """What the browser test lacks on this machine, or None."""
    if not shutil.which("node"):
        return "Node.js is not installed"
    if not find_chromium():
        return "Chromium is not installed"
    if not (root / "tests/site/node_modules/playwright-core").exists():
        return "run `make site-tools` first"
    return None


def find_chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def skip_unless_required(lack):
    if os.environ.get("SITE_TEST") == "required":
        pytest.fail(f"the site was to be tested, but {lack}")
    pytest.skip(f"the site is not tested: {lack}")


def browsed(root, script, *words, options=(), timeout=300):
    """The answer of a script of tests/site; skips where there is no browser for it."""
    if lack := missing_tool(root):
        skip_unless_required(lack)
    command = ["node", str(root / f"tests/site/{script}.mjs"), *map(str, words)]
    command += ["--chromium", find_chromium(), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def built_site(root, part=".built"):
    """The folder of the built site; skips where it is not built, or without a part of it."""
    if not (root / "_build/html" / part).exists():
        skip_unless_required("it is not built with all that it can have; run `make book` first")
    return root / "_build/html"


def check(root, site, *options):
    """The answer of check.mjs for the site in a folder."""
    return browsed(root, "check", site, options=options, timeout=3600)


# A chapter with all that can be pointed at; a short page with both kinds of links, since axe-core is slow on long ones.
POINTED, LINKED = "notebooks/05-block-reduce.html", "notebooks/predict-a-kernel.html"


def test_every_page_works_in_both_schemes_and_widths(root):
    options = ["--search", "barrier", "--pointed", POINTED, "--popovers", LINKED]
    if os.environ.get("TESTS") == "part":  # see conftest.py
        options += ["--seventh", str(datetime.date.today().toordinal() % 7)]
    answer = check(root, built_site(root), *options)
    contents = (root / "_toc.yml").read_text("utf-8")
    pages = [yaml.safe_load(contents)["root"], *re.findall(r"- file: (\S+)", contents)]
    assert {f"{page}.html" for page in pages} <= set(answer["pages"])
    opened = set(answer["opened"])
    assert {weight["page"] for weight in answer["weights"]} == opened and len(opened) > len(pages) / 8
    every = answer["findings"]
    told = [f"{f['page']}, {f['scheme']}, {f['width']} px: {f['kind']}: {f['text']}" for f in every]
    assert not told, "\n" + "\n".join(told)


def test_the_check_finds_what_it_looks_for(root, tmp_path):
    (tmp_path / "index.html").write_text(
        """<!doctype html><html lang="en">
        <head><title>Bad</title><meta name="viewport" content="width=device-width"></head>
        <body><h1>Bad</h1><img src="https://example.org/outside.png"><a href="gone.html">gone</a>
        <img src="gone.png" alt="gone"><div style="width: 900px">wide</div>
        <p style="color: #ccc; background: #fff">faint</p>
        <style>@media (prefers-color-scheme: dark) { .dim { color: #333; background: #222 } }</style><p class="dim">dim</p>
        <style>.late { color: #000 } .late:hover { color: #ccc }</style><a class="late" href="#">late</a>
        <form class="qt-predict" data-predict="1"><label>Guess <input></label></form>
        <details open data-predict="1"><summary>Answer</summary>42</details>
        <script>console.error("said"); undefinedFunction()</script></body></html>""",
        encoding="utf-8",
    )
    answer = check(root, tmp_path)
    assert answer["pages"] == ["index.html"]
    found = {(f["kind"], f["text"].split(":")[0]) for f in answer["findings"]}
    assert ("outside request", "https") in found
    assert ("console", "said") in found
    assert ("console", "undefinedFunction is not defined") in found
    assert {("missing", "/gone.png"), ("missing", "/gone.html")} <= found
    got = {("accessibility", "image-alt (critical)"), ("accessibility", "color-contrast (serious)")}
    assert got <= found
    assert ("prediction", "1") in found
    # What is faint in one scheme only is found in that one, whether the page was opened in it or changed to it.
    among = answer["findings"]
    colours = [(f["scheme"], f["width"], f["text"]) for f in among if "color-contrast" in f["text"]]
    every = {(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)}
    assert {(scheme, width) for scheme, width, text in colours if "faint" in text} == every
    got = {(scheme, width) for scheme, width, text in colours if "dim" in text}
    assert got == {("dark", 1280), ("dark", 390)}
    # What is faint under a pointer alone is found there, in both schemes, and wherever the pointer rests.
    late = [(f["scheme"], f["width"]) for f in answer["findings"] if "late" in f["text"]]
    assert sorted(late) == [("dark", 1280), ("light", 1280)]
    # Wider than a phone, not wider than a desktop: once for each colour scheme.
    overflows = Counter(f["width"] for f in answer["findings"] if f["kind"] == "overflow")
    assert overflows == {390: 2}
