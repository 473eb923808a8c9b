"""The figures of a ladder: the difference in code, the table of a rung, a sweep as a heat map, the climb."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from quack_tutorial import cost
from quack_tutorial.figures import code_diff, heat_map, last_rungs, rung, tuning
from quack_tutorial.records import bench as records
from quack_tutorial.records import folder, memory
from tests.figures.test_players import Checker


class Before:
    """A version."""

    def go(self, x):
        """Doc of before."""
        # the same comment
        y = 2 * x
        return y + 1

    def same(self):
        return 1


class After:
    """Another version."""

    def go(self, x):
        """Doc of after."""
        y = 3 * x
        if x:
            y += 1
        return y + 1

    def same(self):
        return 1

    def new(self):
        return 2


class Heir(Before):
    """A version that inherits what it does not change."""

    def same(self):
        return 2


class Commented(Before):
    def kernel(self, x):
        # why
        y = 2 * x

        return y


class Changed(Commented):
    def kernel(self, x):
        # why not
        y = 3 * x

        return y


def differences():
    """Of pairs of versions what was changed, and the whole of the new one with what is new."""
    cases = ((Before, After), (Before, Heir), (Heir, Before), (Heir, After), (Commented, Changed))
    for old, new in cases:
        diff = code_diff(old, new)
        yield f"{old.__name__} to {new.__name__}: {diff.summary}"
        for kind, parts in (("changed", diff.parts), ("whole", diff.whole)):
            for name, lines in parts:
                yield f"  {kind} {name}"
                yield from (f"    {sign or ' '} {line}".rstrip() for sign, line in lines)


def test_differences_of_versions(snapshot):
    snapshot(differences(), Path(__file__).with_name("differences.txt"))
    text = code_diff(Before, After)._repr_html_()
    Checker(text)
    assert '<span class="k">if</span> x:' in text and "Doc of" not in text and 'data-d="+"' in text
    assert "test_rungs.py, from line" in code_diff(Before, After).where


def test_a_rung_shows_the_records():
    bench = json.loads((folder() / "bench/softmax-ladder.json").read_text())
    (cell,) = [c for c in bench["cells"] if (c["dtype"], c["N"]) == ("float32", 4096)]
    (held,) = [r for r in cell["results"] if r["provider"] == "registers"]
    shown = rung("softmax", "registers", sizes=(4096,), dtypes=("float32",))
    ((dtype, N, model, us, copy, peak, dram, registers, spilled),) = shown.rows
    assert (dtype, N) == ("float32", "4,096")
    found = float(us)
    assert found == pytest.approx(sorted(held["samples_us"])[len(held["samples_us"]) // 2], abs=0.2)
    assert copy == f"{100 * held['fraction_of_ceiling']:.0f} %"
    assert peak == f"{held['percent_of_datasheet']:.0f} %"
    # One read and one write of 32,768 rows at a little less than the datasheet's bandwidth.
    floor = 2 * 32768 * 4096 * 4 / bench["datasheet_gb_s"] / 1e3
    assert floor < float(model) < 1.2 * floor
    # Nsight Compute counted this version: one read of x, and most of y on its way to HBM.
    counts = json.loads((folder() / "profile.json").read_text())["cases"]
    wanted = {"operation": "softmax", "provider": "registers", "dtype": "float32", "N": 4096}
    (counted,) = [c for c in counts if wanted.items() <= c["case"].items()]
    every = counted["launches"]
    nbytes = sum(launch["dram_read_bytes"] + launch["dram_write_bytes"] for launch in every)
    assert dram == f"{nbytes / cell['bytes_moved']:.2f} x" and 0.9 < float(dram[:-2]) < 1.1
    # not counted there
    assert len(rung("softmax", "registers", sizes=(1024,), dtypes=("float32",)).rows[0]) == 8
    Checker(shown._repr_html_())


def test_the_model_is_of_the_card_whose_times_stand_beside_it(monkeypatch):
    recorded = rung("softmax", "registers", sizes=(16384,)).rows
    kept = replace(memory.load(), rows=tuple(replace(p, ns=20 * p.ns) for p in memory.load().points))
    monkeypatch.setattr(memory, "own", lambda: kept)
    assert cost.predict(10**9).gb_s < 300
    assert rung("softmax", "registers", sizes=(16384,)).rows == recorded


def test_a_rung_that_is_not_measured_says_so():
    (row,) = rung("softmax", "vectors", sizes=(64,), dtypes=("float32",)).rows
    assert row[3] == "not yet measured"


def test_a_heat_map_has_the_best_of_each_place():
    sweep = json.loads((folder() / "tune/rmsnorm-aligned.json").read_text())
    (size,) = [s for s in sweep["sizes"] if (s["dtype"], s["M"], s["N"]) == ("float32", 32768, 32768)]
    shown = heat_map("rmsnorm", "float32", 32768, columns="blocks a row")
    wanted = max(
        size["ceiling_us"] / (c.get("us") or c["rough_us"])
        for c in size["candidates"]
        if c["status"] == "ok" and c["config"][0] == 512 and c["config"][2] == 4
    )
    assert shown.places[512, 4] == wanted and shown.places[shown.best] == max(shown.places.values())
    text = shown._repr_html_()
    Checker(text)
    assert len(re.findall("<td data-best", text)) == 1
    assert tuning.counted(1, "blocks a row") == "1 block a row"
    assert "Best: 1,024 threads a row, 4 blocks a row, " in text
    found = f"{100 * shown.places[shown.best]:.0f} % of the speed of the fastest plain copy of the same size."
    assert found in text
    found = heat_map("cross-entropy", "bfloat16", 128256).ceiling
    assert found == "the fastest kernel that only reads the same bytes"
    with pytest.raises(ValueError, match="no sweep"):
        heat_map("rmsnorm", "float32", 3)


def test_the_last_rungs_stand_side_by_side_and_say_what_was_not_measured():
    shown = last_rungs("softmax", ("hint", "short exp", "what ships"), (8192, 64))
    found = records.load_records(records.default_folder("h100"), operation="softmax", series="ladder")
    every = records.latest_cells(found).items()
    (cell,) = (cell for key, (_, cell) in every if (key.dtype, key.N) == ("float32", 8192))
    versions = {result.provider: result.fraction_of_ceiling for result in cell.results}
    got = shown.rows[0]
    assert got == ("float32", "8,192", *(f"{versions[name]:.1%}" for name in shown.head[2:]))
    assert shown.rows[1] == ("float32", "64", *["not yet"] * 3)
    assert shown.summary.endswith('Where it says "not yet", nothing has been measured.')
    assert "H100" in shown.where
    Checker(shown._repr_html_())
