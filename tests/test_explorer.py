"""The links that open versions of the ladders in Compiler Explorer: what is compiled there."""

import base64
import json
import re
import runpy
import zlib
from types import SimpleNamespace

import pytest

from quack_tutorial import compiler

PLACE = {"address": "https://example.org/", "compiler": "cutedsl481"}


@pytest.fixture
def explorer(load):
    pytest.importorskip("cutlass")
    return load("book/extension/explorer.py")


def linked(explorer, text, place=PLACE):
    """A chapter's source with its links, and {name: the session that each opens}."""
    source = [text]
    explorer.add_links(SimpleNamespace(config=SimpleNamespace(compiler_explorer=place)), "notebooks/08-softmax", source)
    links = re.findall(r"^\[`(\w+)` in .*\]\(https://example.org/clientstate/(\S+)\)$", source[0], re.MULTILINE)
    states = {name: json.loads(zlib.decompress(base64.urlsafe_b64decode(packed))) for name, packed in links}
    return source[0], {name: state["sessions"][0] for name, state in states.items()}


def test_listings_and_comparisons_of_a_chapter_open_their_kernels(explorer, root):
    text = (root / "notebooks/08-softmax.md").read_text("utf-8")
    assert linked(explorer, text, place={}) == (text, {})
    written, sessions = linked(explorer, text)
    assert {"SoftmaxThreePass", "SoftmaxOnline", "SoftmaxHint", "SoftmaxShortExp"} <= sessions.keys()
    assert "Softmax" not in sessions  # what ships needs the table of sizes
    assert all(session["language"] == "cutedsl" for session in sessions.values())
    # An older release there does not know all words; longer addresses than 8 KiB do not arrive.
    _, older = linked(explorer, text, PLACE | {"lacks": ["inline_ptx"]})
    assert sessions.keys() - older.keys() == {"SoftmaxReadTwice", "SoftmaxHint", "SoftmaxShortExp"}
    assert max(map(len, re.findall(r"\(https://example.org\S+\)", written))) < 8 * 1024
    assert "figures.code_diff(softmax.SoftmaxThreePass, softmax.SoftmaxOnline)\n```\n\n[`SoftmaxOnline`" in written


@pytest.mark.parametrize("name", ["CopyHint", "SoftmaxOnline"])
def test_what_is_opened_is_one_file_and_becomes_the_ladder_s_kernel(explorer, name, tmp_path, monkeypatch):
    import cutlass.cute as cute

    if problem := compiler.dsl_problem():
        pytest.skip(problem)
    file = tmp_path / "opened.py"
    file.write_text(explorer.program(name))
    assert "quack_tutorial" not in file.read_text()
    called = []
    monkeypatch.setattr(cute, "compile", lambda *args: called.append(args))
    runpy.run_path(str(file))
    monkeypatch.undo()
    kernel, args = explorer.versions()[name]
    ((opened, *given),) = called
    assert len(given) == len(compiler.parameters_of(kernel))
    hashes = [compiler.ptx_hash(compiler.ptx(one, *args)) for one in (opened, kernel)]
    assert hashes[0] == hashes[1]
