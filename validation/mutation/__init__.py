"""Suite `mutation`: kernels with one step taken away or altered, one place at a time; does a finding name the place?

The kernels and their inputs are in `inputs`: all of the package, and cluster and asynchronous ones of `kernels`. `mutants` says
what is edited, `locator` whether a finding names the place. Kinds: barrier, fence, mbarrier, count (of bytes or arrivals
expected), group (of asynchronous copies), predicate, index (that keeps apart what is written to shared memory), slot (that
picks what is read), shuffle.

Each mutant runs on the cases that execute the place: checked, forward, in reverse and seeded, and fast; outputs are compared
with float64. It is *detected* if a finding of a checked run locates it, which is one of

1. the line: a line of the finding is in the mutated statement (of a condition: or in what it guards);
2. between: it says that two lines are not ordered, and they enclose the place: in the log of the *unaltered* kernel some warp
   executes the one, then the mutated statement, then the other (in a loop: of any two turns). Where no warp executes both, as
   with a producer and a consumer, the place must come after the one or before the other in the warp that executes it. The
   start and the exit of a block stand for the other line where it is said to have come too late, or too early;
3. the same object: the finding is of a wait that never ends, of a byte count, of an order of calls that cannot be, or (kinds
   mbarrier and count) of bytes that are still under way, and a line of it works on the mbarrier, the barrier or the copy group
   that the mutated statement works on in the unaltered log;
4. what uses it (kinds predicate and index): the finding says that memory is touched wrongly, and a line of it computes with
   what the mutated statement computes: names are followed through assignments, arguments and results. `uninitialised`
   names who read and who stored last, not who should have written, so this does not hold for it.

Everything else is *wrong output only* (the outputs differ, perhaps with a finding elsewhere) or *survived* (neither). A
survivor must be in `EQUIVALENT` with the reason why no input could tell it from the original; one that is not is a mismatch,
as is one that is there and was found out. A shuffle, or a read of another value that is there and may be read, breaks no rule,
so a wrong number is all that it can give: mutants of kinds slot and shuffle are counted and listed, and the score, detected of
all that are not equivalent, is given with and without them. Without them it must be at least LEAST_SCORE. A finding about an
unaltered kernel, a wrong output of one, and a place of the package's kernels that no case executes are mismatches.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from cutesim import NotSimulated, SimulationError
from cutesim.mutants import KINDS, Mutant, applied, mutants_of
from quack_tutorial.records import suite as report
from validation.mutation.inputs import cases
from validation.mutation.locator import Locator, Log
from validation.outputs import Case

LEAST_SCORE = 0.95
SAMPLE, SAMPLE_SEED = 30, 2026
SAMPLE_CASES = ("CopyAsync", "softmax(7 x 70", "softmax backward(7 x 518", "rmsnorm backward(9 x 400")
SAMPLE_CASES += ("rmsnorm backward(9 x 518", "LastBlock", "Handover")
SAMPLE_CASES += ("Mirror", "RowSums", "ClusterSum(2)", "AsyncCopy")
SAMPLE_CASES += ("BulkCopy(32)",)
RUNS = (("forward", 0), ("reverse", 0), ("seeded", 1))
VALUES = ("slot", "shuffle")  # that break no rule

# Mutants that no input can tell from the original: id -> why.
SAME_VALUE = "all threads that then write hold the same value, and write it to the same place"
FOR_THE_COMPILER = "it keeps loads above it from being moved down, and orders nothing that two threads share"
A_COLUMN_OR_NONE = "the caller's column is one of the row's, or -1"
ZEROS_FROM_CP_ASYNC = "where its predicate is off cp.async has written zeros, as the registers hold"
BEHIND_THE_ROW = "behind the last tile no column is a row's, or, where a row is one tile, it is written again as it was"
EQUIVALENT: dict[str, str] = {
    "reduce.ClusterReduce.kernel: `if tidx == 0` always": SAME_VALUE,
    "softmax.SoftmaxReadTwice.kernel: loop to tiles one longer #2": BEHIND_THE_ROW,
    "row_tile.keep_loads_above: cute.arch.sync_warp() removed": FOR_THE_COMPILER,
    "row_exchange.RowExchange.share_warps: `if lane == 0` always": SAME_VALUE,
    "sums.LossReduction.kernel: `if tidx == 0` always": SAME_VALUE,
    "sums.LossReduction.kernel: loop to M one longer": "a thread that starts at row M has no row to add",
    "reduce.block_reduce: `if lane == 0` always": SAME_VALUE,
    "reduce.block_softmax_reduce: `if lane == 0` always": SAME_VALUE,
    "norm_backward.NormBackward.wait_for_free_stage: cute.arch.barrier() removed": "the values that all warps have "
    "sent each other order the same; it is there for racecheck of compute-sanitizer, which does not see that",
    "layernorm.LayerNormVectors.kernel: loop to tiles one longer #3": BEHIND_THE_ROW,
    "rmsnorm.RMSNormVectors.kernel: loop to tiles one longer #2": BEHIND_THE_ROW,
    "softmax.SoftmaxVectors.kernel: loop to tiles one longer #2": BEHIND_THE_ROW,
    "cross_entropy.CrossEntropyBackwardVectors.kernel: loop to cute.ceil_div(self.N, self.tiler[1]) one longer": BEHIND_THE_ROW,
    "cross_entropy.CrossEntropyVectors.kernel: `if tidx == 0` always": SAME_VALUE,
    "cross_entropy.CrossEntropyRows.kernel: `tidx % self.threads_per_row == 0` dropped from `tidx % self.threads_per_row == 0 and "
    "row < mX.shape[0]`": SAME_VALUE,
    "norm.mean_of: `cute.arch.shuffle_sync_bfly(mean, 0)`: offset doubled": "twice 0 is 0",
    "rmsnorm.RMSNormAsync.kernel: cute.copy(atom, tXsX, tXrX, pred=tXpX) without pred": ZEROS_FROM_CP_ASYNC,
    "rmsnorm.RMSNormCluster.kernel: cute.copy(atom, tXsX, tXrX, pred=tXpX) without pred": ZEROS_FROM_CP_ASYNC,
    "rmsnorm.RMSNormBackwardPipelined.kernel: cute.copy(atom, thr_copy.partition_S(tile_at(sX, self.tiler, turn)), tXrX, "
    "pred=tXpX) without pred": ZEROS_FROM_CP_ASYNC,
    "rmsnorm.RMSNormBackwardPipelined.kernel: cute.copy(atom, thr_copy.partition_S(tile_at(sDO, self.tiler, turn)), tXrDO, "
    "pred=tXpX) without pred": ZEROS_FROM_CP_ASYNC,
    "norm_backward.NormBackward.add_to_first: `if thread_row == 0` always": "the other rows of threads add up what only the first "
    "one stores",
    "cross_entropy.CrossEntropyTwoPass.kernel: `if tidx == 0` always": SAME_VALUE,
    "cross_entropy.CrossEntropyOnline.kernel: `if tidx == 0` always": SAME_VALUE,
    "sums.ColumnSum.kernel: loop to G one longer": "a warp that starts at row G has no row to add",
    "cross_entropy.holds: `col < tile.N` dropped from `place.piece == 0 and col < tile.N and ((col - place.body) % threads == "
    "place.thread_in_row)`": A_COLUMN_OR_NONE,
    "row_tile.RowTile.is_first: `place.thread_in_row == 0` dropped from `place.exists & (place.thread_in_row == 0)`": SAME_VALUE,
    "row_tile.RowTile.is_first: `place.piece == 0` dropped from `place.exists & (place.thread_in_row == 0) & "
    "(place.piece == 0)`": SAME_VALUE,
    "cross_entropy.holds: `col < tile.N` made `<=`": A_COLUMN_OR_NONE,
    "cross_entropy.holds: `col >= 0` dropped from `place.piece == 0 and col >= 0 and (col % threads == "
    "place.thread_in_row)`": "the remainder of a negative number is negative, and no thread's",
    "sums.ColumnSum.kernel: `if lane % lanes == 0` always": SAME_VALUE,
    "sums.ColumnSum.kernel: `warp == 0` dropped from `warp == 0 and lane < self.columns and (col < self.N)`": SAME_VALUE,
    "kernels.ClusterSum.kernel: cute.arch.mbarrier_init_fence() removed": "the cluster barrier that follows is not "
    "relaxed, so it publishes the init as it does every write",
    "kernels.ClusterSum.kernel: `if tidx == 0` always #2": SAME_VALUE,
    "kernels.LastBlock.kernel: `if lane == 0` always #2": SAME_VALUE,
}
# Of the kernels' modules: what runs on the host.
NOT_EXECUTED = ("config.", "rule.")


# ---- the unaltered kernels ------------------------------------------------------------------------------------------


@dataclass
class Baseline:
    """What a case does unaltered: the lines of our files that it executes, its log, and what is wrong with it."""

    case: Case
    lines: set  # (file, line number)
    log: Log
    problems: list
    cost: int  # warp instructions

    def executes(self, mutant: Mutant) -> bool:
        return any((mutant.file, n) in self.lines for n in range(mutant.first, mutant.line + 1))


def baseline(case: Case, files) -> Baseline:
    """Run a case unaltered, every way; note which lines of `files` it executes."""
    problems, log, cost = [], None, 0
    for schedule, seed in RUNS:
        with _lines_of(files) if log is None else nullcontext() as lines:
            run, wrong = case.run(schedule=schedule, seed=seed)
        if log is None:
            executed, log, cost = lines, Log(run.trace), len(run.trace)
        problems += [f"{case.name} unaltered, {schedule}: {finding}" for finding in run.findings]
        problems += [f"{case.name} unaltered, {schedule}: {wrong}"] if wrong else []
    _, wrong = case.run(check=False)
    problems += [f"{case.name} unaltered, fast: {wrong}"] if wrong else []
    return Baseline(case, executed, log, problems, cost)


@contextmanager
def _lines_of(files):
    """The (file, line) of `files` that are executed meanwhile, by the simulator too."""
    found = set()

    def local(frame, event, _):
        found.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def called(frame, event, _):
        if frame.f_code.co_filename in files:
            found.add((frame.f_code.co_filename, frame.f_lineno))
            return local
        return None

    outer = sys.gettrace()
    sys.settrace(called)
    try:
        yield found
    finally:
        sys.settrace(outer)


# ---- trying a mutant ------------------------------------------------------------------------------------------------

DETECTED, WRONG, SURVIVED, INVALID = "detected", "wrong output only", "survived", "does not run"


@dataclass
class Verdict:
    """What became of a mutant: `how` it was located, or what else was noticed."""

    mutant: Mutant
    outcome: str = SURVIVED
    how: str = ""
    said: str = ""
    cases: list = field(default_factory=list)


def tried(mutant: Mutant, baselines: list, modules, locator: Locator) -> Verdict:
    """Run a mutant on the cases that execute its place, the cheapest first, until a finding locates it."""
    verdict = Verdict(mutant)
    with applied(mutant, modules):
        for base in sorted(baselines, key=lambda base: base.cost):
            verdict.cases.append(base.case.name)
            for how in [dict(schedule=schedule, seed=seed) for schedule, seed in RUNS] + [dict(check=False)]:
                if _try(verdict, base, how, locator):
                    return verdict
    return verdict


def _try(verdict: Verdict, base: Baseline, how: dict, locator: Locator) -> bool:
    """One run; whether the mutant is now detected."""
    findings, wrong = (), ""
    try:
        run, wrong = base.case.run(**how)
        findings = run.findings
    except SimulationError as error:  # the fast mode stops at the first wrong access
        wrong = f"the fast mode says: {error}"
    except NotSimulated as error:
        verdict.outcome, verdict.said = INVALID, str(error)
        return True
    for finding in findings:
        located = locator.located(finding, verdict.mutant, base.log)
        if located:
            verdict.outcome, verdict.how, verdict.said = DETECTED, located, str(finding)
            return True
    if (findings or wrong) and verdict.outcome == SURVIVED:
        verdict.outcome = WRONG
        said = f"a finding elsewhere: {findings[0]}" if findings else wrong
        verdict.said = f"{base.case.name}, {how.get('schedule', 'fast')}: {said}"
    return False


# ---- the suite ------------------------------------------------------------------------------------------------------


def run(sample: bool, progress) -> report.Suite:
    """Every mutant, or a seeded choice of SAMPLE of those in a few kernels."""
    chosen = list(cases())
    rng = random.Random(SAMPLE_SEED)
    if sample:
        chosen = [case for case in chosen if case.name.startswith(SAMPLE_CASES)]
    modules = _modules(chosen)
    files = sorted({module.__file__ for module in modules})
    baselines = []
    for case in chosen:
        progress(f"{case.name} unaltered")
        baselines.append(baseline(case, set(files)))
    mutants = [mutant for file in files for mutant in mutants_of(file)]
    covering = {mutant.id: [base for base in baselines if base.executes(mutant)] for mutant in mutants}
    reached = [mutant for mutant in mutants if covering[mutant.id]]
    if sample:
        reached = sorted(rng.sample(reached, min(SAMPLE, len(reached))), key=lambda mutant: (mutant.file, mutant.start))
    locator, verdicts = Locator(files), []
    for number, mutant in enumerate(reached):
        progress(f"{number + 1} of {len(reached)}: {mutant.id}")
        verdicts.append(tried(mutant, covering[mutant.id], modules, locator))
    problems = [problem for base in baselines for problem in base.problems]
    if not sample:
        missed = [mutant for mutant in mutants if not covering[mutant.id] and not mutant.id.startswith(NOT_EXECUTED)]
        problems += [f"{mutant.where} {mutant.id}: no case executes it" for mutant in missed]
    return _suite(verdicts, problems, len(baselines), complete=not sample)


def _modules(chosen) -> list:
    """The modules of the cases' kernels and those of this package's kernels that they may use."""
    names = {type(case.host).__module__ for case in chosen}
    names |= {name for name in sys.modules if name.startswith("quack_tutorial.kernels.")}
    return [sys.modules[name] for name in sorted(names) if getattr(sys.modules[name], "__file__", None)]


def _suite(verdicts, problems, cases_run, complete) -> report.Suite:
    rows, notes, mismatches = [], [], list(problems)
    for verdict in verdicts:
        mutant, reason = verdict.mutant, EQUIVALENT.get(verdict.mutant.id)
        if reason and verdict.outcome != SURVIVED:
            said = f"listed as equivalent, but {verdict.outcome}: {verdict.said}"
            mismatches.append(f"{mutant.where} {mutant.id}: {said}")
        elif reason:
            notes.append(f"equivalent: {mutant.where} {mutant.id}: {reason}")
        elif verdict.outcome == SURVIVED and complete:
            mismatches.append(f"{mutant.where} {mutant.id}: survived on {', '.join(verdict.cases)}")
        elif verdict.outcome in (WRONG, SURVIVED, INVALID):
            notes.append(f"{verdict.outcome}: {mutant.where} {mutant.id}: {verdict.said}")
    if complete:
        known = {verdict.mutant.id for verdict in verdicts}
        gone = [name for name in EQUIVALENT if name not in known]
        mismatches += [f"{name}: listed as equivalent, but there is no such mutant" for name in gone]
    owners = {}
    for verdict in verdicts:
        owner = f"{Path(verdict.mutant.file).stem}.{verdict.mutant.function.partition('.')[0]}"
        owners.setdefault(owner, []).append(verdict)
    rows = [_row(owner, found) for owner, found in owners.items()]
    rows.append(_row("all", verdicts))
    memory = [verdict for verdict in verdicts if verdict.mutant.kind not in VALUES]
    score, whole = _score(memory), _score(verdicts)
    if complete and score < LEAST_SCORE:
        mismatches.append(f"the score is {score:.1%}; at least {LEAST_SCORE:.0%} was expected")
    how = Counter(verdict.how for verdict in verdicts if verdict.how)
    scores = (
        f"score {score:.1%} of {len(memory)} without kinds slot and shuffle, {whole:.1%} of {len(verdicts)} with them"
    )
    located = "located by: " + ", ".join(f"{name} {count}" for name, count in how.most_common())
    unaltered = f"{cases_run} kernels and inputs unaltered, each in {len(RUNS)} schedules: {len(problems)} reports"
    notes[:0] = scores, located, unaltered
    columns = ("in", "mutants", *KINDS, "detected", WRONG, "equivalent", "survived")
    title = "Broken kernels: every synchronisation and predicate altered, one at a time"
    return report.Suite("mutation", title, columns, tuple(rows), tuple(mismatches), tuple(notes), checked=len(verdicts))


def _row(owner, verdicts):
    kinds = Counter(verdict.mutant.kind for verdict in verdicts)
    equivalent = sum(v.mutant.id in EQUIVALENT and v.outcome == SURVIVED for v in verdicts)
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    counted = (outcomes[DETECTED], outcomes[WRONG], equivalent, outcomes[SURVIVED] - equivalent)
    return (owner, len(verdicts), *(kinds[kind] for kind in KINDS), *counted)


def _score(verdicts) -> float:
    """Detected of all that are not equivalent (and ran)."""
    counted = [v for v in verdicts if v.mutant.id not in EQUIVALENT and v.outcome != INVALID]
    return sum(v.outcome == DETECTED for v in counted) / len(counted) if counted else 1.0
