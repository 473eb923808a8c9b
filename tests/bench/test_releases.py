"""What releases of CuTe DSL make of the same programs: the record, and the sentence on what moved."""

from bench import releases
from quack_tutorial.figures import suites
from quack_tutorial.machine import DSL_VERSION
from quack_tutorial.records import read


def test_the_sentence_counts_what_moved_and_nothing_else():
    before = {"a": [32, 0, 4, 9, 32, 0, 4, 0], "b": [40, 0, 4, 9, 40, 0, 4, 1]}
    before |= {"c": "needs newer", "d": [16, 0, 1, 9, 16, 0, 4, 0]}
    now = {"a": [32, 0, 4, 11, 30, 0, 3, 1], "b": [48, 16, 3, 9, 40, 16, 4, 1]}
    now |= {"c": [8, 0, 1, 1, 8, 0, 4, 0], "d": "TypeError: no"}
    before, now = {"sm_90a": before}, {"sm_90a": now}
    assert releases.moved(before, before) == "nothing moved"
    said = releases.moved(before, now).split("; ")
    wanted = ["1 no longer compile", "1 compile now", "1 take other registers"]
    wanted += ["1 spill where they did not", "1 have fewer loads in flight"]
    wanted += ["1 use local memory where they did not", "1 load in narrower pieces"]
    assert [one.removeprefix("sm_90a: ") for one in said] == wanted


def test_the_record_has_the_pinned_release_and_each_program_of_today():
    kept = read(releases.FILE)
    assert tuple(kept["facts"]) == releases.FACTS
    for programs in kept["releases"][DSL_VERSION].values():
        assert list(programs) == [", ".join(map(str, program)) for program in releases.PROGRAMS]
    assert list(kept["releases"][DSL_VERSION]) == list(releases.GENERATIONS)


def test_the_page_s_table_compares_with_the_newest():
    rows = [line.split("  ") for line in suites.releases().text.splitlines()[1:]]
    newest = [row for row in rows if row[0] == DSL_VERSION]
    assert len(newest) == len(releases.GENERATIONS)
    assert all(row[5:9] == ["0"] * 4 for row in newest)
    assert any(row[5] != "0" for row in rows if len(row) == 10)
