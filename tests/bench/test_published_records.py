"""The records of each card can be read, are small, and were measured with the kernels that the package ships."""

import functools
import subprocess
import sys
from collections import defaultdict

import pytest

from bench import ours, tune
from quack_tutorial import card, compiler, hardware
from quack_tutorial.kernels.tuned import tables
from quack_tutorial.kernels.tuned.candidates import candidates
from quack_tutorial.kernels.tuned.config import fields
from quack_tutorial.records import bench as records


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
                if result.ptx_sha256 and not records.is_of_earlier_kernel(record.operation, cell.measured):
                    on = hardware.card_of(record.device)
                    key = (record.operation, result.provider, cell.dtype, cell.N, on)
                    stated.setdefault(key, set()).add((result.ptx_sha256, result.config))
    return stated


def test_published_records_are_whole_small_and_of_a_known_gpu():
    for record in published():
        assert f"/{hardware.card_of(record.device)}/" in record.path, (
            f"{record.path} is of another card, {record.device}"
        )
        assert record.cells, f"{record.path} holds no cell"
    for path in files("bench"):
        assert path.stat().st_size < 600_000, f"{path} is too large"


def test_published_sweeps_can_be_read_and_shown():
    for path in files("tune"):
        record = tune.load(path)
        assert hardware.card_of(record["device"]) == path.parts[-3] and record["sizes"], path
        assert path.stat().st_size < 600_000, f"{path} is too large"
        assert record["operation"] in tune.as_text([record])


def test_the_shipped_table_is_what_the_sweeps_give(root):
    done = subprocess.run([sys.executable, root / "scripts/make_tables.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr} Make it again: python scripts/make_tables.py"


def test_what_is_shipped_was_among_the_best_of_its_sweep():
    for path in files("tune"):
        record = tune.load(path)
        by_length = defaultdict(list)
        for entry in record["sizes"]:
            by_length[entry["N"], tune.ITEM_BYTES[entry["dtype"]]].append(entry)
        for entries in by_length.values():
            size = tune.size_of(record, entries[0])
            with card.taken_for(path.parts[-3]):
                shipped = tune.shipped(size)
            if not has_own_table(path.parts[-3], size):
                for entry in entries:
                    (us,) = (c.get("us", c["rough_us"]) for c in entry["candidates"] if tuple(c["config"]) == shipped)
                    assert us <= 1.01 * entry["ceiling_us"], f"{size}: {shipped} is shipped, another card's choice"
                continue
            for time in ("us", "rough_us"):  # the second where no finalist of one sweep was one of all
                lost = [losses_of_candidates(tune.size_of(record, entry), entry, time) for entry in entries]
                in_all = set.intersection(*map(set, lost))
                if in_all:
                    break
            assert shipped in in_all, f"{size}: {shipped} is shipped, which was not timed"
            worst = {config: max(here[config] for here in lost) for config in in_all}
            assert worst[shipped] <= 1.003 * min(worst.values()), f"{size}: {shipped} is shipped"


def has_own_table(on, size):
    """Whether a card takes what its own sweeps chose for rows like these."""
    key = size.operation, 8 * tune.ITEM_BYTES[size.dtype], size.rows
    return on == tables.FIRST or key in tables.OTHERS.get(on, {})


def losses_of_candidates(size, entry, time):
    """configuration -> its time over the least, of those timed that are candidates still."""
    bits = 8 * tune.ITEM_BYTES[size.dtype]
    offered = {fields(config) for config in candidates(size.operation, bits, size.N, size.rows)}
    timed = {tuple(candidate["config"]): candidate[time] for candidate in entry["candidates"] if time in candidate}
    times = {config: us for config, us in timed.items() if config in offered}
    return {config: us / min(times.values()) for config, us in times.items()}


KERNELS = sorted({(operation, provider) for operation, provider, *_ in timed_kernels()})


@pytest.mark.parametrize(("operation", "provider"), KERNELS)
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
    for operation, change in records.changed_kernels().items():
        measured = [cell.measured for record in published() for cell in record.cells if record.operation == operation]
        assert min(measured) < change["on"], f"{operation}: nothing is left that was timed before {change['on']}"
        said = records.on_earlier_kernels([(operation, "2026-01-01")])
        assert change["what"] in said and not records.on_earlier_kernels([(operation, change["on"])])
