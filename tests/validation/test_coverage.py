"""The table of names: complete, without stale lines, and true about where each name is tested."""

import importlib
import json
import re

import pytest

from cutesim.dialect import names
from cutesim.language import builtins
from quack_tutorial.records import FOLDER
from validation.command import SUITES

TABLE = json.loads((FOLDER / "validation/names.json").read_text("utf-8"))
ROWS = [
    (space, name, *line[1:3]) for space, lines in TABLE["names"].items() for line in lines for name in line[0].split()
]
WRITTEN = ("nothing",)  # by a test of what may be written where, in the same process
LISTED = [(space, name) for space, name, *_ in ROWS]


def answered() -> set:
    """(namespace, name) of all that the simulator answers, from its own namespaces; a namespace is no name."""
    found, waiting = {}, [names.CUTLASS]
    while waiting:
        space = waiting.pop(0)
        if space._path in found:
            continue
        members = {
            name: member for name, member in vars(space).items() if not name.startswith("_") and name not in WRITTEN
        }
        waiting += [member for member in members.values() if isinstance(member, names.Namespace)]
        found[space._path] = [name for name, member in members.items() if not isinstance(member, names.Namespace)]
    found["built-in functions"] = [*names.BUILTINS, *builtins.ANSWERED]
    return {(space, name) for space, members in found.items() for name in members}


def test_every_name_that_the_simulator_answers_has_a_line_and_no_other():
    found = answered() - set(LISTED)
    assert found == set(), "the simulator answers these, and names.json has no line for them"
    found = set(LISTED) - answered()
    assert found == set(), "names.json has these, and the simulator does not answer them"


def test_no_name_has_two_lines():
    assert len(LISTED) == len(set(LISTED)) > 240


def test_the_file_of_every_line_exists_and_mentions_the_name(root):
    files = TABLE["files"]
    texts = {file: (root / file).read_text("utf-8") for group in files.values() for file in group}
    for space, name, _, tested in ROWS:
        used = rf"\b{name}\b" if space == "built-in functions" else rf"[.\"]{name}\b"
        assert any(re.search(used, texts[file]) for file in files[tested]), f"{tested}: {space}.{name}"
    for tested in files:
        if tested.startswith("suite "):
            assert tested.removeprefix("suite ") in dict(SUITES)
        else:
            stems = [file.rpartition("/")[2].removesuffix(".py") for file in files[tested]]
            text = (root / tested).read_text("utf-8")
            assert tested in texts or any(stem in text for stem in stems), f"{tested} does not use {stems}"


def test_every_line_says_how():
    assert {how for _, _, how, _ in ROWS} == set(TABLE["meaning"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_dsl_has_every_name():
    pytest.importorskip("cutlass", reason="the CuTe DSL is not installed")
    for space, name in LISTED:
        if space != "built-in functions":
            module = importlib.import_module(
                space.replace("cute", "cutlass.cute", 1) if space.startswith("cute") else space
            )
            assert hasattr(module, name), f"{space}.{name}"
