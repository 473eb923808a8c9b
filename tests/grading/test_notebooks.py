"""The master notebook: nbgrader's metadata, a student version without a solution, and a solution that gets full marks."""

import builtins
import functools
import json
import re
import runpy
import textwrap
from types import SimpleNamespace

import pytest

from grading import corpus, lab, rules, student, submission, trial, watch
from grading.grade import grade
from grading.judgement import Refused

FIELDS = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}


@pytest.fixture
def master(name, folder):
    return name, (folder / f"{name}.md").read_text(encoding="utf-8")


def cells(text):
    """(nbgrader's metadata, source) of each code cell."""
    yaml = pytest.importorskip("yaml", reason="the metadata are YAML")
    for body in re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        _, head, source = body.split("---\n", 2)
        yield yaml.safe_load(head)["nbgrader"], source


def test_metadata_are_nbgraders_schema_3(master):
    name, text = master
    found = list(cells(text))
    assert len({meta["grade_id"] for meta, _ in found}) == len(found)
    for meta, source in found:
        assert set(meta) == FIELDS | ({"points"} if meta["grade"] else set())
        assert meta["schema_version"] == 3 and meta["task"] is False
        assert meta["locked"] is not meta["solution"]
        assert meta["solution"] == ("### BEGIN SOLUTION" in source)
        assert meta["grade"] == ("labs.check(" in source)
    points = [meta["points"] for meta, _ in found if meta["grade"]]
    assert len(points) >= 3 and max(points) <= 3


def test_each_check_of_the_lab_has_its_cell_and_its_points(master):
    name, text = master
    found = {re.search(rf'check\("{name}", \w+, "(\w+)"\)', source)[1]: meta["points"]
             for meta, source in cells(text) if "labs.check" in source}  # fmt: skip
    assert found == lab(name).CHECKS
    checks = [source for _, source in cells(text) if "labs.check" in source]
    # What stands before meets an unfilled cell with a traceback.
    assert all(source.startswith("labs.check(") for source in checks)


def test_it_has_a_page_of_the_book_where_its_checks_may_fail(master, root, tmp_path):
    pytest.importorskip("jupytext", reason="it writes the notebook to download")
    name, text = master
    assert f"\n    - file: book/labs/{name}\n" in (root / "_toc.yml").read_text(encoding="utf-8")
    (tmp_path / "book").mkdir()
    runpy.run_path(str(root / "book/extension/book_site.py"))["write_labs"](SimpleNamespace(srcdir=tmp_path), None)
    page = (tmp_path / "book/labs" / f"{name}.md").read_text(encoding="utf-8")
    graded = [meta for meta, _ in cells(text) if meta["grade"]]
    assert page.count("---\ntags: [raises-exception]\nnbgrader:") == len(graded)


def test_a_question_is_answered_in_words_and_has_a_rubric(master):
    _, text = master
    meta, answer = re.search(r'^\+\+\+ (\{"nbgrader".*\})\n(.*)\Z', text, re.DOTALL | re.MULTILINE).groups()
    meta = json.loads(meta)["nbgrader"]
    assert meta["grade"] and meta["solution"] and not meta["locked"] and meta["grade_id"] == "explain"
    assert f"{meta['points']} points:" in answer and "### BEGIN SOLUTION" in answer


def test_it_says_what_for_how_long_and_after_which_chapter(master):
    _, text = master
    start = text.partition("```")[0]
    assert re.search(r"In this lab you .*\n\n- ", start)
    assert re.search(r"It takes about \d+ minutes", start) and re.search(r"Chapters? \d", start)


def test_it_states_the_rules_as_they_are_now(master):
    name, text = master
    assert rules.with_rules(name, text) == text, "python -m grading.rules writes them"
    section = text.partition("## The rules\n\n")[2].partition("\n\n")[0]
    assert f"worth {sum(lab(name).CHECKS.values())} points" in section
    assert bool(lab(name).TARGET) == ("compiled by CuTe DSL" in section)


def test_the_rules_name_each_function_and_statement_that_is_refused(root):
    rule = " ".join((root / "labs/floor/floor.md").read_text(encoding="utf-8").partition("- Refused ")[2].split())
    statements, functions = (
        set(re.findall(r"`(\w+)`", part)) for part in re.findall(r"(?:line|functions)\W[^;]*", rule)[:2]
    )
    functions_of_python = {
        name for name, one in vars(builtins).items() if isinstance(one, type(len)) and name[0] != "_"
    }
    lines = {name: f"x = {name}" for name in functions_of_python | functions} | {
        "async": "async def f():\n    pass",
        "del": "del x.y",
        **{one: f"{one} x:\n    pass" for one in ("for x in", "if", "while", "with")},
        "try": "try:\n    pass\nfinally:\n    pass",
    }
    refused = {name for name, line in lines.items() if is_refused(line)}
    assert refused == functions | statements


def is_refused(line):
    try:
        submission.load("answer.py", f"def f(x):\n{textwrap.indent(line, '    ')}\n", "", ())
    except Refused as refused:
        return refused.diagnosis.kind == "refused"
    return False


def test_the_masters_solution_gets_full_marks(master):
    name, text = master
    report = grade(name, f"{name}.md", text)
    assert report.full, report


def test_no_solution_line_is_in_the_student_version(master):
    name, text = master
    given = student.student_version(text)
    lines = {line.strip() for line in given.splitlines()}
    secret = student.solution_lines(text)
    assert len(secret) >= 8
    assert [line for line in secret if line in lines] == []
    assert "BEGIN" not in given
    # Lines are only taken away, but for the stub that says so.
    stub = {line for line in lines if line not in {one.strip() for one in text.splitlines()}}
    assert stub == {*student.STUB, *student.PROSE_STUB}


def test_the_student_version_fails_loudly(master):
    name, text = master
    report = grade(name, f"{name}.md", student.student_version(text))
    assert report.score == 0
    assert all("this cell is not filled in yet" in diagnosis.message for diagnosis in report.diagnoses)
    assert report.diagnoses[0].lines[0][0] == f"{name}.md"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("### BEGIN SOLUTION\nx\n", "line 1: ### BEGIN SOLUTION has no ### END SOLUTION"),
        ("### END SOLUTION\n", "line 1: ### END SOLUTION ends nothing"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n", "line 2: ### BEGIN SOLUTION inside the part that line 1"),
    ],
)
def test_marks_without_a_partner_are_refused(text, says):
    with pytest.raises(ValueError, match=says):
        student.student_version(text)


def answer_of(folder, text):
    module = lab(folder.name)
    return submission.load("answer.py", text, module.TARGET, module.FUNCTIONS)[module.TARGET]


def test_a_right_answer_can_be_watched(master, folder, capsys):
    name, text = master
    if "labs.watch(" not in text:
        pytest.skip("it asks for no kernel that a picture would help to see, or is long enough")
    assert f'labs.watch("{name}", {lab(name).TARGET})' in text
    assert "qt-" in watch(name, answer_of(folder, corpus.solution(folder)))._repr_html_()
    assert "results not judged here" in capsys.readouterr().out


def test_a_race_is_what_one_watches_and_a_stub_says_what_is_missing(root, capsys):
    folder = root / "labs/block-reduce"
    text = corpus.answers(folder)["no_barrier"][0]
    assert watch("block-reduce", answer_of(folder, text)).title.startswith("A race:")
    assert "Race" in capsys.readouterr().out
    stub = answer_of(folder, corpus.solution(folder).replace("def kernel(", "def other("))
    assert watch("block-reduce", stub) is None
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Nothing to watch yet: answer.py:") and "RowArgmax has no .kernel: is it spelt so" in said
    assert watch("block-reduce", len) is None
    assert "RowArgmax is a builtin_function_or_method here: make it a class" in " ".join(
        capsys.readouterr().out.split()
    )
    with pytest.raises(ValueError, match="the lab floor asks for no kernel"):
        watch("floor", stub)


def test_where_the_first_case_is_clean_one_watches_the_first_that_is_not(root, capsys):
    folder = root / "labs/guarded-copy"
    assert watch("guarded-copy", answer_of(folder, corpus.answers(folder)["no_guard"][0])) is not None
    said = " ".join(capsys.readouterr().out.split())
    assert (
        said.startswith("The first case is clean; this is the one with mX (5, ") and "Out of bounds: thread 31" in said
    )


def test_a_wrapped_builtin_beside_the_answer_is_no_hindrance():
    """As IPython's own `open` is, which it puts into every notebook's names."""

    @functools.wraps(open)
    def wrapped(*args):
        return open(*args)

    class Answer:
        def __call__(self):
            pass

    Answer.__call__.__globals__["wrapped_open"] = wrapped
    try:
        assert trial._files(Answer) >= {__file__}
    finally:
        del Answer.__call__.__globals__["wrapped_open"]
