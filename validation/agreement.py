"""Suite `agreement`: random small kernels on the simulator, against an interpreter of their own and against itself.

`random_kernels` makes a kernel of a seed, `random_reference` works out what it computes. Two families:

| family            | what must hold                                                                                       |
|-------------------|------------------------------------------------------------------------------------------------------|
| as made           | fast, and checked forward, in reverse and seeded: outputs bit for bit those of the reference, no finding |
| without a barrier | one left out or weakened: each schedule reports something, if the outputs of any are not the reference's, |
|                   | or if some thread came to the barrier and it stood between a write and another thread's read of it    |

`reproduce(seed)` gives the source text and the sentences of one seed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from cutesim.simulation import simulate
from quack_tutorial.records import suite as report
from validation import random_kernels, random_reference

SEEDS, SAMPLE_SEEDS = 2000, 25
RUNS = ("fast", {"check": False}), *((name, {"schedule": name}) for name in ("forward", "reverse", "seeded"))
MAX_STEPS = 200_000
OUTPUTS = ("mT", "mO", "mJ", "mC")
OTHER = "any barrier, not between a write and another thread's read of it"
FEATURES = {
    "dynamic if": random_kernels.If,
    "dynamic for": random_kernels.For,
    "while": random_kernels.While,
    "shuffle": random_kernels.Shuffle,
    "vote or redux": random_kernels.Vote,
    "predicated load": random_kernels.Load,
    "atomic": random_kernels.Atomic,
    "arrive and wait apart": random_kernels.Handover,
    "stores to another block's shared memory": random_kernels.Remote,
    "st.async": random_kernels.Send,
}


@dataclass
class Tally:
    """What was found so far."""

    counts: Counter = field(default_factory=Counter)
    mismatches: list = field(default_factory=list)

    def differ(self, seed, sentence):
        self.mismatches.append(
            f"seed {seed} of generator {random_kernels.VERSION}: {sentence}; to reproduce: "
            f'python -c "from validation.agreement import reproduce; print(reproduce({seed}))"'
        )


def run(sample: bool, progress) -> report.Suite:
    """Seeds 0, 1, ... in both families."""
    tally, count = Tally(), SAMPLE_SEEDS if sample else SEEDS
    for seed in range(count):
        if seed % 10 == 0:
            progress(f"seed {seed} of {count}")
        try_seed(seed, tally)
    return _suite(tally, count)


def reproduce(seed: int) -> str:
    """The kernel of a seed, and what is wrong with it."""
    tally = Tally()
    try_seed(seed, tally)
    made = random_kernels.program(seed)
    dropped = random_kernels.dropped_barrier(made)
    said = f"in the second family, without barrier {dropped} ({random_kernels.kind_of(made, dropped)})"
    return "\n".join([random_kernels.source(made), said, *(tally.mismatches or ["nothing wrong"])])


def try_seed(seed: int, tally: Tally) -> None:
    """Both families of one seed; whatever the simulator raises is a mismatch."""
    made = random_kernels.program(seed)
    for family in (as_made, without_a_barrier):
        try:
            family(made, tally)
        except Exception as error:  # whatever it is, it is this seed's
            tally.differ(seed, f"{family.__name__}: the simulator raises {type(error).__name__}: {error}")


def as_made(made, tally):
    """Outputs and findings of a kernel without a fault, in every way of running."""
    host, wanted = random_kernels.loaded(made), random_reference.computed(made)
    for name, how in RUNS:
        run, outputs = _simulated(host, made, how)
        problems = [f"{name} against the reference: {problem}" for problem in differences(outputs, wanted)]
        tally.counts[f"{name}, differ"] += bool(problems)
        tally.counts[f"{name}, reported"] += bool(run.findings)
        for problem in [*problems, *(f"{name}: reports {finding}" for finding in run.findings)]:
            tally.differ(made.seed, problem)
    random_kernels.forget(host)
    statements = list(random_kernels.statements(made.body))
    tally.counts.update(name for name, kind in FEATURES.items() if kind in map(type, statements))
    tally.counts["several warps"] += made.threads > 32
    tally.counts["several blocks"] += made.blocks > 1
    tally.counts["clusters"] += made.cluster > 1


def without_a_barrier(made, tally):
    """A kernel with a race, most of the time: where it has one, each schedule must report it."""
    dropped, needed = random_kernels.dropped_barrier(made), set()
    host, wanted = random_kernels.loaded(made, dropped), random_reference.computed(made, needed)
    ran = {name: _simulated(host, made, how) for name, how in RUNS[1:]}
    random_kernels.forget(host)
    silent = [name for name, (run, _) in ran.items() if not run.findings]
    differ = any(differences(outputs, wanted) for _, outputs in ran.values())
    kind = random_kernels.kind_of(made, dropped) if dropped in needed else OTHER
    tally.counts[f"{kind}, kernels"] += 1
    tally.counts[f"{kind}, differ"] += differ
    tally.counts[f"{kind}, reported"] += not silent
    if silent and (differ or kind != OTHER):
        said = "outputs are wrong" if differ else "outputs are right by chance"
        tally.differ(made.seed, f"without barrier {dropped} ({kind}): {said}, and {', '.join(silent)} reports nothing")


def _simulated(host, made, how):
    arguments = random_kernels.inputs(made)
    run = simulate(host, *arguments, max_steps=MAX_STEPS, seed=made.seed, **how)
    return run, arguments[2:]


def differences(outputs, wanted) -> list:
    """One sentence for each output of which a bit differs."""
    found = []
    for name, got, right in zip(OUTPUTS, outputs, wanted):
        different = got.view(np.uint32) != right.view(np.uint32)
        if different.any():
            where = tuple(map(int, np.argwhere(different)[0]))
            said = f"{name}{list(where)} is {got[where]!r}, expected {right[where]!r}"
            found.append(f"{said} ({np.count_nonzero(different)} of {different.size} differ)")
    return found


def _suite(tally, seeds) -> report.Suite:
    counts = tally.counts
    rows = [
        (f"as made, {name}", seeds, counts[f"{name}, differ"], counts[f"{name}, reported"], "none, nothing reported")
        for name, _ in RUNS
    ]
    for kind in (*random_kernels.BARRIERS, OTHER):
        name = kind if kind == OTHER else f"a barrier {kind}" if kind.startswith("of") else f"a {kind}"
        what = (f"{kind}, kernels", f"{kind}, differ", f"{kind}, reported")
        must = "reported where outputs differ" if kind == OTHER else "each reported"
        rows.append((f"without {name}", *(counts[one] for one in what), must))
    used = [*FEATURES, "several warps", "several blocks", "clusters"]
    notes = (
        f"generator {random_kernels.VERSION}, seeds 0 to {seeds - 1}; each kernel without a barrier runs in three schedules, and "
        "counts as reported if all three do",
        "of the kernels, have: " + ", ".join(f"{name} {counts[name]}" for name in used),
        f"{OTHER}: after the read, where the buffer may not be written again, or where no thread comes",
    )
    return report.Suite(
        "agreement",
        "Random kernels: the simulator against an interpreter, and schedule against schedule",
        ("kernels", "number", "outputs differ", "reported", "what must hold"),
        tuple(rows),
        tuple(tally.mismatches),
        notes,
        checked=sum(row[1] for row in rows),
    )
