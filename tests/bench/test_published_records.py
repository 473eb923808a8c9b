"""The records of each card can be read, are small, and were measured with the kernels that the package ships."""

import functools

import pytest

from bench import ours
from quack_tutorial import compiler, hardware
from quack_tutorial.records import bench as records
from quack_tutorial.records.cells import bytes_moved
from quack_tutorial.records.statistics import median


@functools.cache
def published():
    return [records.load(path) for path in files("bench")]


def files(folder):
    """What the cards' folders of that name hold."""
    found = sorted(records.FOLDER.glob(f"*/{folder}/*.json"))
    assert found
    return found


@functools.cache
def timed_kernels():
    """(operation, provider, dtype, N, card) -> the (hash, configuration) that records state for it."""
    stated = {}
    for record in published():
        for cell in record.cells:
            for result in cell.results:
                if result.ptx_sha256 and not records.changes_since(record.operation, cell.measured, result.provider):
                    on = hardware.card_of(record.device)
                    key = (record.operation, result.provider, cell.dtype, cell.N, on)
                    stated.setdefault(key, set()).add((result.ptx_sha256, result.config))
    return stated


def test_published_records_are_whole_small_and_of_a_known_gpu():
    for record in published():
        found = f"/{hardware.card_of(record.device)}/"
        assert found in record.path, f"{record.path} is of another card, {record.device}"
        assert record.cells, f"{record.path} holds no cell"
    for path in files("bench"):
        assert path.stat().st_size < 600_000, f"{path} is too large"


def test_what_records_derive_follows_from_their_samples():
    for record in published():
        keys = [record.key(cell) for cell in record.cells]
        assert len(set(keys)) == len(keys), record.path
        for key, cell in zip(keys, record.cells):
            assert cell.bytes_moved == bytes_moved(key), (record.path, key)
            ceiling = cell.bytes_moved / median(cell.ceiling_samples_us) / 1e3
            assert cell.ceiling_gb_s == pytest.approx(ceiling, rel=1e-3), (record.path, key)
            assert len({result.provider for result in cell.results}) == len(cell.results), (record.path, key)
            for found in cell.results:
                if found.status != "ok":
                    assert found.message and not found.samples_us and found.gb_s is None, (record.path, key)
                    continue
                assert len(found.samples_us) == len(cell.ceiling_samples_us) and min(found.samples_us) > 0
                given = cell.bytes_moved, cell.ceiling_gb_s, record.datasheet_gb_s
                derived = records.ok_result(found.provider, found.samples_us, *given)
                for name in ("gb_s", "fraction_of_ceiling", "percent_of_datasheet"):
                    stated = getattr(found, name)
                    assert stated == pytest.approx(getattr(derived, name), rel=1e-3), (
                        record.path,
                        key,
                        found.provider,
                        name,
                    )


KERNELS = sorted({(operation, provider) for operation, provider, *_ in timed_kernels()})


@pytest.mark.parametrize("operation, provider", KERNELS)
def test_what_was_timed_is_what_is_shipped(operation, provider):
    """Of each kernel every fourth size that was timed; `scripts/stale_cells.py` looks at all, which takes minutes."""
    if compiler.dsl_problem():
        pytest.skip(f"the shipped kernels cannot be compiled to compare them: {compiler.dsl_problem()}")
    timed = sorted(
        (N, dtype, on, stated)
        for (*kernel, dtype, N, on), stated in timed_kernels().items()
        if kernel == [operation, provider]
    )
    stale = [
        f"{dtype} N={N} on {on}"
        for N, dtype, on, stated in timed[::4]
        if {ours.shipped(operation, provider, dtype, N, on)} != stated
    ]
    assert not stale, (
        f"changed since they were timed: {', '.join(stale)}; scripts/stale_cells.py names all, measure them again"
    )


def test_a_changed_kernel_is_named_only_until_it_is_timed_again():
    for operation, changes in records.changed_kernels().items():
        cells = [cell for record in published() if record.operation == operation for cell in record.cells]
        measured = [cell.measured for cell in cells]
        for change in changes:
            assert min(measured) < change["on"], f"{operation}: nothing is left that was timed before {change['on']}"
        said = records.on_earlier_kernels([(operation, "2026-01-01")])
        assert change["what"] in said
        assert not records.on_earlier_kernels([(operation, change["on"])])
