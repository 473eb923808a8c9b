"""The table of names: complete, without stale lines, and true about where each name is tested."""

import importlib
import re

import pytest

from quack_tutorial.simulator import coverage
from validation.command import SUITES


def listed():
    return [(space, name) for space, name, *_ in coverage.rows()]


def test_every_name_that_the_simulator_answers_has_a_line_and_no_other():
    answered = {(space, name) for space, names in coverage.answered().items() for name in names}
    assert answered - set(listed()) == set(), "the simulator answers these, and coverage.TABLE has no line for them"
    assert set(listed()) - answered == set(), "coverage.TABLE has these, and the simulator does not answer them"


def test_no_name_has_two_lines():
    assert len(listed()) == len(set(listed())) > 240


def test_a_new_name_would_be_missed(monkeypatch):
    monkeypatch.setitem(vars(coverage.names.MATH), "lgamma", lambda x: x)
    assert "lgamma" in coverage.answered()["cute.math"] and ("cute.math", "lgamma") not in listed()


def test_the_file_of_every_line_exists_and_mentions_the_name(root):
    texts = {file: (root / file).read_text(encoding="utf-8") for files in coverage.FILES.values() for file in files}
    for space, name, _, tested, _ in coverage.rows():
        used = rf"\b{name}\b" if space == "built-in functions" else rf"[.\"]{name}\b"
        assert any(re.search(used, texts[file]) for file in coverage.FILES[tested]), f"{tested}: {space}.{name}"
    for tested in coverage.FILES:
        if tested.startswith("suite "):
            assert tested.removeprefix("suite ") in dict(SUITES)
        else:
            stems = [file.rpartition("/")[2].removesuffix(".py") for file in coverage.FILES[tested]]
            text = (root / tested).read_text(encoding="utf-8")
            assert tested in texts or any(stem in text for stem in stems), f"{tested} does not use {stems}"


def test_every_line_says_how():
    assert {how for _, _, how, *_ in coverage.rows()} == set(coverage.MEANING)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_dsl_has_every_name():
    pytest.importorskip("cutlass", reason="the CuTe DSL is not installed; it exists for Linux alone")
    for space, name in listed():
        if space != "built-in functions":
            module = importlib.import_module(
                space.replace("cute", "cutlass.cute", 1) if space.startswith("cute") else space
            )
            assert hasattr(module, name), f"{space}.{name}"


def test_markdown_shows_every_name_once_a_namespace():
    text = coverage.markdown()
    for space, lines in coverage.TABLE.items():
        section = text.split(f"### {space}\n", 1)[1].split("###")[0]
        for line in lines:
            for name in line.names.split():
                assert section.count(f"`{name}`") == 1
    legend, *tables = text.split("### ")
    assert all(f"| {how} | {meaning} |" in legend for how, meaning in coverage.MEANING.items())
    assert all(line.count("|") == 5 for table in tables for line in table.splitlines() if line.startswith("|"))
