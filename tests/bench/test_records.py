"""Records come back as they were written, and broken ones say in a sentence what is wrong with them."""

import functools
import importlib
import json

import pytest

from quack_tutorial.records import RecordError
from quack_tutorial.records import bench as records
from quack_tutorial.records.bench import Result
from tests.bench import synthetic

KINDS_OF_ONE_FILE = [
    f"quack_tutorial.records.{name}" for name in "head levels memory pitfalls profile training".split()
]


def test_a_record_comes_back_as_it_was_written(tmp_path):
    refused = (Result("liger", "unsupported", "RuntimeError: too wide"), Result("cudnn", "missing", "not installed"))
    written = synthetic.record(synthetic.cell(N=256, refused=refused), synthetic.cell(N=4096, ours_us=None))
    records.save(written, tmp_path / "r.json")
    read = records.load(tmp_path / "r.json")
    assert read.path == str(tmp_path / "r.json")
    assert read.cells == written.cells
    found = (read.device, read.versions, read.command)
    assert found == (written.device, written.versions, written.command)


def test_a_file_is_read_again_once_it_has_changed(tmp_path):
    first, second = (synthetic.record(synthetic.cell(N=N)) for N in (256, 512))
    for record in (first, second, first):
        records.save(record, tmp_path / "r.json")
        for _ in range(2):
            assert records.load(tmp_path / "r.json").cells == record.cells
            assert [one.cells for one in records.load_records(tmp_path)] == [record.cells]
    (tmp_path / "r.json").write_text("{}")
    for _ in range(2):
        with pytest.raises(RecordError, match="it has no list of cells"):
            records.load(tmp_path / "r.json")


def test_one_cell_a_line_so_that_a_diff_shows_what_changed(tmp_path):
    records.save(synthetic.record(synthetic.cell(N=256), synthetic.cell(N=4096)), tmp_path / "r.json")
    lines = (tmp_path / "r.json").read_text().splitlines()
    assert [sum(f'"N": {N},' in line for line in lines) for N in (256, 4096)] == [1, 1]
    assert len(lines) < 20


def test_a_new_measurement_of_a_cell_takes_the_place_of_the_old(tmp_path):
    record = synthetic.record(synthetic.cell(N=256, ours_us=40), synthetic.cell(N=4096))
    record = records.with_cell(record, synthetic.cell(N=256, ours_us=39), {"torch": "0.0", "triton": "3"})
    assert len(record.cells) == 2
    assert record.versions == {"torch": "0.0", "quack-kernels": "0.0", "triton": "3"}
    assert {cell.N: cell.result("ours").gb_s for cell in record.cells}[256] > 100


def test_the_latest_measurement_of_a_cell_counts():
    old = synthetic.record(synthetic.cell(measured="2020-01-01T00:00:00+00:00", ours_us=50))
    new = synthetic.record(synthetic.cell(measured="2021-01-01T00:00:00+00:00", ours_us=40))
    for order in ([old, new], [new, old]):
        ((_, cell),) = records.latest_cells(order).values()
        assert cell.measured.startswith("2021")


def test_load_records_takes_one_series_and_operation(tmp_path):
    records.save(synthetic.record(synthetic.cell()), tmp_path / "a.json")
    records.save(synthetic.record(synthetic.cell(), series="ladder"), tmp_path / "b.json")
    assert [r.series for r in records.load_records(tmp_path)] == ["peers"]
    assert [r.series for r in records.load_records(tmp_path, series="ladder")] == ["ladder"]
    assert records.load_records(tmp_path, "softmax") and not records.load_records(tmp_path / "none")


BROKEN = r"""
cells 0 results 0 samples_us | [40, 40] | cell bfloat16 8192 x 4096: ours: status ok without 3 samples
cells 0 results 0 gb_s | null | ours: status ok without 3 samples and a speed
cells 0 M | "8192" | M must be int, got '8192'
schema | 99 | schema 99, this version reads 1
device | null | device must be str, got None
note | "hello" | unknown field note
cells 0 results 1 | {"provider": "eager", "status": "fine"} | status 'fine' is not one of ok
cells 0 results 1 | {"status": "ok"} | provider is missing
"""


@pytest.mark.parametrize("line", BROKEN.strip().split("\n"))
def test_a_broken_record_says_where_and_what(line, tmp_path):
    place, value, sentence = line.split(" | ")
    value = json.loads(value)
    path = tmp_path / "r.json"
    records.save(synthetic.record(synthetic.cell()), path)
    data = json.loads(path.read_text())
    *way, last = (int(step) if step.isdigit() else step for step in place.split())
    at = functools.reduce(lambda held, step: held[step], way, data)
    at[last] = value
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=sentence) as caught:
        records.load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", [records, *map(importlib.import_module, KINDS_OF_ONE_FILE)], ids=lambda kind: kind.__name__
)
def test_what_is_no_record_of_a_kind_says_so_in_one_sentence(kind, tmp_path):
    path = tmp_path / "r.json"
    rows = getattr(getattr(kind.load, "__self__", None), "ROWS", "cells")
    for text, sentence in (
        ("{", "cannot be read as JSON"),
        ("[]", "a record is a JSON object, this is a list"),
        ("{}", f"it has no list of {rows}"),
        ('{"schema": 99}', "schema 99, this version reads 1"),
        (json.dumps({rows: [{"x": 1}]}), "is missing|not what this version reads"),
    ):
        path.write_text(text)
        with pytest.raises(RecordError, match=sentence) as caught:
            kind.load(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_samples_keep_five_digits_and_numbers_follow_from_them():
    result = records.ok_result("ours", [100.123456, 99.987654, 100.0], 4 * 10**8, 4100.0, 4800.0)
    assert result.samples_us == (100.12, 99.988, 100.0)
    assert result.gb_s == 4000  # 4e8 bytes in the median, 100 us
    assert result.fraction_of_ceiling == 0.9756  # 4000 / 4100
    assert result.percent_of_datasheet == 83.33  # 4000 / 4800
