"""The page "How far to trust the simulator": made from records alone, honest where there is none, readable on a phone."""

import json
import re

import pytest

from quack_tutorial import compiler
from quack_tutorial.figures import suites as page
from quack_tutorial.records import suite as report
from tests.figures.test_players import Checker
from tests.validation.test_coverage import ROWS, TABLE
from validation import command

KEPT = report.Suite(
    name="counters",
    title="Requests <and> sectors",
    columns=("kernels", "number", "equal"),
    rows=(("copy & paste", 12345, 7), ("softmax", 2, 1)),
    mismatches=("softmax: simulated 3, counted 4",),
    notes=("`a_metric` is what is counted",),
    checked=12347,
    date="2026-01-02",
    where={"device": "NVIDIA H200", "dsl": "4.8.1", "python": "3.12"},
)


def words(html):
    """What is shown of it; fails at a tag that is closed in the wrong place."""
    page = Checker(html)
    assert page.open == page.wrong == []
    return page.shown


@pytest.fixture
def folder(tmp_path):
    report.save(KEPT, tmp_path)
    return tmp_path


def test_the_overview_has_every_suite_and_says_what_is_not_recorded(folder):
    html = page.overview(folder).html
    shown = words(html)
    for name, _ in command.SUITES:
        assert f">{name}<" in html
    assert shown.count("not recorded") == len(command.SUITES) - 1
    assert "Requests <and> sectors" in shown and "12,347" in shown
    assert "2026-01-02, NVIDIA H200, CuTe DSL 4.8.1" in shown


def test_a_suite_shows_its_numbers_mismatches_and_notes(folder):
    shown = page.suite("counters", folder)
    said = words(shown.html)
    assert "copy & paste" in said and "12,345" in said
    assert said.startswith("12,347 compared, 1 did not agree. 2026-01-02, NVIDIA H200")
    assert "softmax: simulated 3, counted 4" in said
    assert "a_metric" in said and "<code>a_metric</code>" in shown.html
    assert repr(shown) == str(KEPT)


def test_a_suite_without_a_record_says_how_to_make_one(tmp_path):
    said = "rows: not recorded. `python -m validation rows --record` runs it."
    shown = page.suite("rows", tmp_path)
    assert words(shown.html) == said.replace("`", "") and repr(shown) == said
    with pytest.raises(KeyError):
        page.suite("nonsense", tmp_path)


def test_the_coverage_shows_every_name():
    shown = page.coverage()
    text = words(shown.html.replace("<", " <"))
    for space, name, *_ in ROWS:
        assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text), f"{space}.{name}"
    found = shown.html.count("<table")
    assert found == shown.html.count("overflow-x: auto") == 1 + len(TABLE["names"])


def test_the_page_shows_every_suite_and_types_no_number_into_its_prose(root):
    text = (root / "book" / "trust.md").read_text("utf-8")
    for name, _ in command.SUITES:
        assert f'page.suite("{name}")' in text
    prose = re.sub(r"^---.*?^---|^```.*?^```|^    .*?$|`[^`]*`", "", text, flags=re.M | re.S)
    # 16 bits are a type, not a result
    numbers = [number for number in re.findall(r"\d+", prose) if number != "16"]
    assert numbers == []


def test_each_generation_says_who_ran_it_and_what_compiles(root):
    kept = json.loads((root / "quack_tutorial/records/compiled/architectures.json").read_text("utf-8"))
    lines = dict(zip(kept, page.cards().text.splitlines()[1:], strict=True))
    assert lines["sm_90a"].startswith("9.0  H100") and "H200 SXM 141GB  " in lines["sm_90a"]
    assert "compiled only" in lines["sm_89"]
    assert lines["sm_89"].endswith(f"  {kept['sm_89']['need newer']}")
    assert set(kept) == set(compiler.ARCHITECTURES)


@pytest.mark.parametrize("name, need", command.SUITES)
def test_each_suite_has_a_record_of_all_of_it_that_says_how_it_was_made(name, need):
    kept = report.load(report.default_folder() / f"{name}.json")
    assert kept.name == name and kept.checked > 0 and not kept.sample
    assert kept.rows and {len(row) for row in kept.rows} == {len(kept.columns)}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept.date) and {"python", "numpy"} <= set(kept.where)
    # All of its program, or a part, is in the history alone.
    if need == report.RECORDED or kept.program:
        assert name in kept.program["command"]
        assert re.fullmatch("[0-9a-f]{40}", kept.program["commit"])
        assert kept.program["commit"][:12] in page.suite(name).html
