"""The suite `mutation`: the edits it makes, when a finding counts, and a sample of the real thing."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cutesim.mutants import mutants_of
from cutesim.trace import Finding, Line
from validation import mutation
from validation.mutation import DETECTED
from validation.mutation import inputs as mutation_cases
from validation.mutation import kernels as mutation_kernels
from validation.mutation.locator import Locator

KERNEL = """import cutlass
import cutlass.cute as cute


class Sum:
    def __init__(self, n):
        if n < 3 and n > 1:
            self.n = n

    @cute.kernel
    def kernel(self, mX, mO):
        tidx, _, _ = cute.arch.thread_idx()
        if cutlass.const_expr(self.n > 3 and self.wide):
            tidx += 1
        if tidx < self.n and tidx != 7:
            buffer[self.n, tidx] = mX[tidx]
        cute.arch.mbarrier_arrive_and_expect_tx(
            mbar,
            4 * self.n,
        )
        cute.arch.barrier()
        cute.arch.mbarrier_wait(mbar + stage, tidx % 2)
        cute.copy(atom, mX, mO, pred=tXpX)
        cute.arch.cp_async_wait_group(1)
        cute.arch.fence_view_async_shared()
        for i in range(tidx, self.n, 32):
            mO[i] = warp_reduce(buffer[tidx], max, 32)
        for i in cutlass.range_constexpr(self.n):
            mO[i] = cute.arch.shuffle_sync_bfly(mX[i], offset=1 << i)
"""


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "sum.py"
    path.write_text(KERNEL)
    return path


def test_every_kind_of_step_is_altered(kernel):
    """By one edit each, which keeps every line where it was and has a name of its own."""
    mutants = mutants_of(str(kernel))
    assert len({m.id for m in mutants}) == len(mutants)
    for m in mutants:
        lines = m.text(KERNEL).splitlines()
        changed = [n for n, pair in enumerate(zip(KERNEL.splitlines(), lines, strict=True), 1) if len(set(pair)) == 2]
        assert m.line <= changed[0] and changed[-1] <= max(m.last, m.line + 3), m.id
    said = {(m.kind, m.edit) for m in mutants}
    expect = "cute.arch.mbarrier_arrive_and_expect_tx(mbar, 4 * self.n)"
    assert said == {
        ("predicate", "`if tidx < self.n and tidx != 7` always"),
        ("predicate", "`tidx < self.n` dropped from `tidx < self.n and tidx != 7`"),
        ("predicate", "`tidx != 7` dropped from `tidx < self.n and tidx != 7`"),
        ("predicate", "`tidx < self.n` made `<=`"),
        ("index", "`self.n` made 0 in `buffer[self.n, tidx]`"),
        ("index", "`tidx` made 0 in `buffer[self.n, tidx]`"),
        ("mbarrier", f"{expect} removed"),
        ("count", f"{expect}: + 4 bytes"),
        ("count", f"{expect}: - 4 bytes"),
        ("barrier", "cute.arch.barrier() removed"),
        ("mbarrier", "cute.arch.mbarrier_wait(mbar + stage, tidx % 2) removed"),
        ("mbarrier", "cute.arch.mbarrier_wait(mbar + stage, tidx % 2): parity flipped"),
        ("index", "`mbar + stage` without its offset"),
        ("predicate", "cute.copy(atom, mX, mO, pred=tXpX) without pred"),
        ("group", "cute.arch.cp_async_wait_group(1) removed"),
        ("group", "cute.arch.cp_async_wait_group(1): one group more"),
        ("fence", "cute.arch.fence_view_async_shared() removed"),
        ("predicate", "loop to self.n one longer"),
        ("slot", "`tidx` made 0 in `buffer[tidx]`"),
        ("shuffle", "`warp_reduce(buffer[tidx], max, 32)`: width halved"),
        ("shuffle", "`cute.arch.shuffle_sync_bfly(mX[i], offset=1 << i)`: offset doubled"),
    }


# ---- on real kernels ------------------------------------------------------------------------------------------------

FILE = mutation_kernels.__file__


def case(name):
    return next(c for c in mutation_cases.of_this_suite() if c.name == name)


def mutant(name, edit, ordinal=0):
    function = name.partition("(")[0] + ".kernel"
    return next(m for m in mutants_of(FILE) if (m.function, m.edit, m.ordinal) == (function, edit, ordinal))


def tried(name, edit, ordinal=0):
    base = mutation.baseline(case(name), {FILE})
    assert not base.problems
    return mutation.tried(mutant(name, edit, ordinal), [base], [mutation_kernels], Locator([FILE]))


@pytest.mark.parametrize("ordinal", [0, 1])
def test_a_fence_of_the_last_block_pattern_is_missed(ordinal):
    """The fence before the atomic, or the one after it: the race is between the write and the read that they stand between."""
    verdict = tried("LastBlock", "cute.arch.fence_acq_rel_gpu() removed", ordinal)
    assert (verdict.outcome, verdict.how) == (DETECTED, "between")
    assert "An atomic orders no other memory" in verdict.said


FULL = "cute.arch.barrier(barrier_id=1, number_of_threads=64) removed"
ARRIVES = "cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64) removed"
FENCE, GUARD = "cute.arch.fence_acq_rel_gpu() removed", "`if lane < blocks` always"
WAITS = "cute.arch.barrier(barrier_id=1"
WRITES, READS = "sX[lane] = mX[row, lane] * 2.0", "mO[row, lane] = sX[31 - lane]"
PART = "part = mPart[lane]"


@pytest.mark.parametrize(
    "name, edit, kind, texts, how",
    [
        ("Handover", FULL, "race", [WRITES, READS], "between"),
        # The first only computes: no warp's log has it.
        ("Handover", FULL, "race", ["lane, warp = cute.arch", READS], ""),
        # Both come before it.
        ("LastBlock", FENCE, "race", ["mX[block, lane], operator", "mPart[block] = total"], ""),
        ("Handover", ARRIVES, "deadlock", [WAITS], "object"),
        ("Handover", ARRIVES, "deadlock", ["number_of_threads=64)  # empty"], ""),
        ("Handover", ARRIVES, "race", [WAITS], ""),
        ("LastBlock", GUARD, "out of bounds", [PART], "line"),
        ("LastBlock", GUARD, "out of bounds", ["mO[0] = total"], ""),
    ],
)
def test_when_a_finding_counts(name, edit, kind, texts, how):
    """One of this kind that names the lines with these texts."""
    source = Path(FILE).read_text().splitlines()
    numbers = [1 + next(n for n, line in enumerate(source) if text in line) for text in texts]
    lines = tuple(Line(FILE, number, "", "kernel") for number in numbers)
    base = mutation.baseline(case(name), {FILE})
    assert Locator([FILE]).located(Finding(kind, "", lines), mutant(name, edit), base.log) == how


def test_a_sample_of_the_real_thing():
    found = mutation.run(True, lambda what: None)
    assert found.ok, found
    assert found.checked == mutation.SAMPLE
    total = dict(zip(found.columns, found.rows[-1]))
    # Of all kinds, those that break no rule as well; and a mutant may need a case that is not in the sample.
    assert total["detected"] >= 0.7 * mutation.SAMPLE


def test_every_kernel_that_ships_has_a_case():
    """A new kernel that ships would not be mutated without one; the ladders' come from their tables."""
    kernels = Path(mutation.__file__).parents[2] / "quack_tutorial" / "kernels" / "tuned"
    classes = Counter()
    for file in kernels.glob("*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and "cute.kernel" in ast.unparse(node):
                classes[node.name] = 0
    for made in mutation_cases.cases():
        for name in {kind.__name__ for kind in type(made.host).__mro__} & classes.keys():
            classes[name] += 1
        assert all(array.dtype != np.float64 for array in made.arguments() if isinstance(array, np.ndarray))
    assert classes and not [name for name, count in classes.items() if not count]
