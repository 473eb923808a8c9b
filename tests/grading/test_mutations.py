"""Wrong answers made from right ones, and that a lab's cases look at what they change."""

import ast

import pytest

from grading import corpus, lab, mutations
from grading.judgement import Case
from quack_tutorial import cli

PROGRAM = """
def steps(N, width):
    whole = N // width
    if N % width and N > 0:
        whole = whole + 1
    return whole
"""


def test_each_kind_of_edit_is_made_once():
    made = list(mutations.edits(PROGRAM, [Case("steps", (96, 32), target="steps")]))
    words = {edit.words.partition("# ")[2] for edit in made}
    assert {"`N // width` made `N * width`", "1 made 2", "1 made 0", "`width` made 32", "`N` made 96"} <= words
    assert "`if N % width and N > 0` always" in words and "`N > 0` dropped from `N % width and N > 0`" in words
    assert {edit.kind for edit in made} == {"drop", "swap", "off", "order", "constant"}
    assert len({edit.text for edit in made}) == len(made)
    for edit in made:
        assert ast.unparse(ast.parse(edit.text)) != ast.unparse(ast.parse(PROGRAM))


def test_what_is_called_harmless_is_an_edit_that_is_made(name, folder):
    made = {edit.words for edit in mutations.edits(corpus.solution(folder), lab(name).cases(0))}
    assert set(corpus.harmless(folder)) <= made


@pytest.mark.parametrize("name", ["floor", "tv-layout"])
def test_no_edit_of_a_solution_keeps_full_marks(name, capsys):
    assert cli.main(["labs", "check", name, "--mutate"]) == 0
    assert f"{name}: 0 of " in capsys.readouterr().out
