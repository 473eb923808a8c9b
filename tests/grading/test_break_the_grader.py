"""The lab break-the-grader: the graders that its notebook shows are those that its checks use."""

import pytest

from grading import corpus, folders, lab, submission

LAB = lab("break-the-grader")
FOLDER = folders()["break-the-grader"]
SHOWN = ("first_grader", "second_grader", "third_grader", "fourth_grader", "fifth_grader")


@pytest.fixture(scope="module")
def page():
    """What the notebook's cells define, its solution's functions and its graders."""
    known = {}
    text = (FOLDER / "break-the-grader.md").read_text(encoding="utf-8")
    for _, source, _ in submission.parts("break-the-grader.md", text):
        if "labs.check" not in source and "qt.start" not in source:
            exec(source, known)
    return known


@pytest.mark.parametrize(("hole", "grader"), list(zip(LAB.CHEATS, SHOWN)))
def test_a_grader_says_in_the_notebook_what_it_says_in_the_checks(hole, grader, page):
    asked = [case.make for case in LAB.cases(0) if case.target == hole and case.name == "asked"]
    verdicts = set()
    for text, _ in corpus.answers(FOLDER).values():
        program = {}
        exec(text.replace(corpus.IMPORTS, ""), program)
        answer = as_list(program[hole])
        passes = all(LAB.GRADERS[hole](answer(*make), LAB.right(make[0])) for make in asked)
        assert (page[grader](answer) == "right") == passes
        verdicts.add(passes)
    assert verdicts == {True, False}


def as_list(function):
    """The function, an answer that returns nothing made an empty one."""
    return lambda *at: list(function(*at) or ())


def test_rows_and_right_answers_are_the_same(page):
    for seed, length in ((0, 8), (77, 8), (33, 33), (5, 2000)):
        row = page["draw"](seed, length)
        assert row == LAB.draw(seed, length) and LAB.honest(page["softmax"](row), LAB.right(row))


def test_each_planted_kernel_is_caught_by_some_length_and_missed_by_another():
    for name, wrong, _ in LAB.PLANTED:
        assert 0 < sum(map(wrong, range(1, LAB.LONGEST + 1))) < LAB.LONGEST, name


def test_a_right_comparison_is_one_that_floats_agree_with():
    assert all(LAB.honest(got, right) == takes for seed in range(3) for takes, _, got, right, _ in LAB.pairs(seed))
