"""Figures of what the simulator found and kept: races drawn by their lines, and races in the package's helpers."""

import operator

import cutlass
import cutlass.cute as cute
import numpy as np
import pytest
from dsl import found
from dsl.hosts import launched, one_warp

from cutesim.simulation import simulate
from quack_tutorial import figures
from quack_tutorial.kernels.reduce import block_reduce

X = np.ones(64, np.float32)


@launched(64)
@cute.kernel
def two_block_reduces(x: cute.Tensor, out: cute.Tensor):
    """Two of the package's block reduces in one buffer, with no barrier between them."""
    tidx, _, _ = cute.arch.thread_idx()
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((1, 2)), 16)
    largest = block_reduce(x[tidx], cute.arch.fmax, buffer)
    total = block_reduce(largest + x[tidx], operator.add, buffer)
    out[tidx] = total


@one_warp
@cute.kernel
def part_of_a_block(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((1, 1)))
    if tidx < 8:
        out[tidx] = block_reduce(x[tidx], operator.add, buffer)


@one_warp
@cute.kernel
def wrong_buffer(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(1))
    out[tidx] = block_reduce(x[tidx], operator.add, buffer)


def test_a_race_in_the_package_s_helper_is_drawn_and_begins_at_the_reader_s_line():
    run = simulate(two_block_reduces, X, X.copy())
    (finding,) = run.findings
    inside = [line for line in finding.lines if line.function == "block_reduce"]
    assert [line.text.partition(" =")[0] for line in finding.lines[:2]] == ["largest", "total"]
    assert len(inside) == 2
    title = figures.race(run.trace, finding).title
    assert title == "A race: " + " against ".join(line.where for line in inside)


def test_a_race_between_two_calls_of_a_helper_is_drawn_by_its_accesses():
    run = simulate(found.called_twice, X, X.copy())
    (finding,) = run.findings
    read, write = finding.lines[:2]
    assert figures.race(run.trace, finding).title == f"A race: {read.where} against {write.where}"


@pytest.mark.parametrize(
    "kernel, kind", [(part_of_a_block, "divergent shuffle"), (wrong_buffer, "language")], ids=["part", "buffer"]
)
def test_what_goes_wrong_inside_the_package_is_said_at_the_line_that_called_it(kernel, kind):
    (finding,) = simulate(kernel, X[:32], X[:32].copy()).findings
    reader, inside = finding.lines
    assert finding.kind == kind
    assert "block_reduce(x[tidx], operator.add, buffer)" in reader.text
    assert inside.function == "block_reduce"
