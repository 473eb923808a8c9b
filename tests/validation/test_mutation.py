"""The suite `mutation`: the edits it makes, when a finding counts, what it calls a mismatch, and a sample of the real thing."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cutesim.mutants import Mutant, mutants_of
from cutesim.trace import Finding, Line
from validation import mutation
from validation.mutation import DETECTED, SURVIVED, WRONG, Verdict
from validation.mutation import inputs as mutation_cases
from validation.mutation import kernels as mutation_kernels
from validation.mutation.locator import Flow, Locator

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


# ---- when a finding counts ------------------------------------------------------------------------------------------


def located(name, edit, kind, texts, ordinal=0):
    """Whether a finding of this kind that names the lines with these texts locates the mutant."""
    source = Path(FILE).read_text().splitlines()
    numbers = [1 + next(n for n, line in enumerate(source) if text in line) for text in texts]
    lines = tuple(Line(FILE, number, "", "kernel") for number in numbers)
    base = mutation.baseline(case(name), {FILE})
    return Locator([FILE]).located(Finding(kind, "", lines), mutant(name, edit, ordinal), base.log)


def test_two_lines_count_only_if_the_place_is_executed_between_them():
    full = "cute.arch.barrier(barrier_id=1, number_of_threads=64) removed"
    write, read = "sX[lane] = mX[row, lane] * 2.0", "mO[row, lane] = sX[31 - lane]"
    assert located("Handover", full, "race", [write, read]) == "between"
    # computes: no warp's log has it
    assert located("Handover", full, "race", ["lane, warp = cute.arch", read]) == ""
    fence, part = "cute.arch.fence_acq_rel_gpu() removed", "mPart[block] = total"
    loaded = "mX[block, lane], operator"
    assert located("LastBlock", fence, "race", [part, "part = mPart[lane]"]) == "between"
    assert located("LastBlock", fence, "race", [loaded, part]) == ""  # both come before it


def test_a_wait_that_never_ends_counts_for_what_works_on_the_same_barrier():
    full = "cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64) removed"
    assert located("Handover", full, "deadlock", ["cute.arch.barrier(barrier_id=1"]) == "object"
    assert located("Handover", full, "deadlock", ["number_of_threads=64)  # empty"]) == ""
    assert located("Handover", full, "race", ["cute.arch.barrier(barrier_id=1"]) == ""


def test_a_condition_is_located_by_what_it_guards():
    guard = "`if lane < blocks` always"
    assert located("LastBlock", guard, "out of bounds", ["part = mPart[lane]"]) == "line"
    assert located("LastBlock", guard, "out of bounds", ["mO[0] = total"]) == ""
    assert located("LastBlock", guard, "uninitialised", ["mO[0] = total"]) == ""


def test_what_is_used_is_followed_through_calls_and_results(tmp_path):
    file = tmp_path / "flow.py"
    file.write_text(
        "def inside(col, n):\n"
        "    limit = n\n"
        "    return col < limit\n"
        "def kernel(mX, mO):\n"
        "    p = inside(mX, 4)\n"
        "    other = mX\n"
        "    save(mO, p)\n"
        "def save(mO, keep):\n"
        "    one = 1\n"
        "    mO[one] = keep\n"
    )
    (edit,) = mutants_of(str(file))
    used = {number for _, number in Flow([str(file)]).used_by(edit)}
    assert used == {3, 5, 7, 10}


# ---- what the suite says --------------------------------------------------------------------------------------------


SAME = (SURVIVED, "same")  # which is listed as equivalent


@pytest.mark.parametrize(
    "verdicts, problems, wrong, noted",
    [
        ([(DETECTED, "k")] * 20 + [SAME], [], "", "score 100.0% of 21"),
        ([(DETECTED, "k")] * 40 + [SAME, (SURVIVED, "k")], [], "k.py:1 k.k: x removed: survived", ""),
        ([(DETECTED, "same")], [], "listed as equivalent, but detected", ""),
        ([(DETECTED, "k")], [], "k.same: x removed: listed as equivalent, but there is no such mutant", ""),
        ([(DETECTED, "k")] * 9 + [(WRONG, "k"), SAME], [], "the score is 90.0%; at least 95% was expected", ""),
        # What breaks no rule is counted, but not in this score.
        ([(DETECTED, "k"), (WRONG, "s", "shuffle"), SAME], [], "", "50.0% of 3 with them"),
        ([SAME], ["kernel unaltered: Race"], "kernel unaltered: Race", ""),
    ],
)
def test_what_the_suite_calls_a_mismatch(monkeypatch, verdicts, problems, wrong, noted):
    monkeypatch.setattr(mutation, "EQUIVALENT", {"k.same: x removed": "it does nothing"})
    made = [
        Verdict(Mutant("k.py", name, (*kind, "barrier")[0], "x removed", 0, 1, "", 1, 1, 1, 0), outcome, said="so")
        for outcome, name, *kind in verdicts
    ]
    found = mutation._suite(made, problems, 1, complete=True)
    assert len(found.mismatches) == bool(wrong) and wrong in "".join(found.mismatches)
    assert any(noted in note for note in (*found.notes, ""))


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
