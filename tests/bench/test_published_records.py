"""The records in quack_tutorial/records/bench can be read, are small, and were measured with the kernels that the package ships."""

import functools
import subprocess
import sys
from collections import defaultdict

import pytest

from quack_tutorial import compiler, hardware
from quack_tutorial.bench import ours, records, tune
from quack_tutorial.bench.our_launches import FINAL
from quack_tutorial.kernels.tuned.config import candidates, fields


def published():
    return [records.load(path) for path in sorted(records.default_folder().glob("*.json"))]


def timed_kernels():
    """(operation, provider, dtype, N) -> the (hash, configuration) that records state for it."""
    stated = {}
    for record in published():
        for cell in record.cells:
            for result in cell.results:
                if result.ptx_sha256:
                    key = (record.operation, result.provider, cell.dtype, cell.N)
                    stated.setdefault(key, set()).add((result.ptx_sha256, result.config))
    return stated


def test_published_records_are_whole_small_and_of_a_known_gpu():
    for record in published():
        assert hardware.find(record.device) is not None, f"{record.path}: {record.device} is not in hardware.GPUS"
        assert record.cells, f"{record.path} holds no cell"
    for path in records.default_folder().glob("*.json"):
        assert path.stat().st_size < 600_000, f"{path} is too large"


def test_published_sweeps_can_be_read_and_shown():
    for path in sorted((records.default_folder() / "tune").glob("*.json")):
        record = tune.load(path)
        assert hardware.find(record["device"]) is not None and record["sizes"], path
        assert path.stat().st_size < 600_000, f"{path} is too large"
        assert record["operation"] in tune.as_text([record])


def test_the_shipped_table_is_what_the_sweeps_give(root):
    done = subprocess.run([sys.executable, root / "scripts/make_tables.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr} Make it again: python scripts/make_tables.py"


def test_what_is_shipped_was_among_the_best_of_its_sweep():
    for path in sorted((records.default_folder() / "tune").glob("*.json")):
        record = tune.load(path)
        by_length = defaultdict(list)
        for entry in record["sizes"]:
            by_length[entry["N"], tune.ITEM_BYTES[entry["dtype"]]].append(entry)
        for entries in by_length.values():
            size = tune.size_of(record, entries[0])
            lost = [losses_of_candidates(tune.size_of(record, entry), entry) for entry in entries]
            in_all = set.intersection(*map(set, lost))
            shipped = tune.shipped(size)
            assert shipped in in_all, f"{size}: {shipped} is shipped, which was not timed"
            worst = {config: max(here[config] for here in lost) for config in in_all}
            assert worst[shipped] <= 1.003 * min(worst.values()), f"{size}: {shipped} is shipped"


def losses_of_candidates(size, entry):
    """configuration -> its time over the least, of those timed that are candidates still."""
    bits = 8 * tune.ITEM_BYTES[size.dtype]
    offered = {fields(config) for config in candidates(size.operation, bits, size.N, size.rows)}
    timed = {tuple(candidate["config"]): candidate["us"] for candidate in entry["candidates"] if "us" in candidate}
    times = {config: us for config, us in timed.items() if config in offered}
    return {config: us / min(times.values()) for config, us in times.items()}


def test_what_was_timed_is_what_is_shipped():
    if compiler.dsl_problem():
        pytest.skip("CuTe DSL is not installed: the shipped kernels cannot be compiled to compare them")
    stale = []
    for (operation, provider, dtype, N), timed in timed_kernels().items():
        if {ours.shipped(operation, provider, dtype, N)} != timed:
            stale.append(f"{operation} {provider} {dtype} N={N}")
    assert not stale, (
        f"these kernels changed since they were timed, see scripts/stale_cells.py, and measure them again: {', '.join(stale)}"
    )


def test_a_hash_tells_two_kernels_apart_and_not_two_compilations():
    if compiler.dsl_problem():
        pytest.skip("CuTe DSL is not installed: nothing can be compiled")
    ptx = functools.partial(ours.ptx, "softmax")
    once, again = (ours.ptx_sha256(ptx("ours", "bfloat16", 1024)) for _ in range(2))
    assert once == again
    assert once == ours.ptx_sha256(ptx(FINAL, "bfloat16", 1024))
    assert once != ours.ptx_sha256(ptx("ours", "bfloat16", 2048))
    assert once != ours.ptx_sha256(ptx("online", "bfloat16", 1024))
