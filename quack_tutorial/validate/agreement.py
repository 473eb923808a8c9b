"""Suite `agreement`: random small kernels on the simulator, against numpy and against itself.

`random_kernels` makes a kernel of a seed and works out its outputs from its own list of statements. Two families:

| family             | what must hold                                                                                    |
|--------------------|---------------------------------------------------------------------------------------------------|
| as made            | fast, and checked forward, in reverse and seeded: outputs bit for bit those of numpy, no finding     |
| without a barrier  | one barrier, drawn by the seed, left out: each run has a finding if two schedules' outputs differ, or  |
|                    | if some block came to the barrier and it stood between a write and another thread's read             |

`reproduce(seed)` gives the source text and the sentences of one seed.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from quack_tutorial.simulator import simulate
from quack_tutorial.validate import random_kernels, report

SEEDS, SAMPLE_SEEDS = 1500, 25
RUNS = (
    ("fast", {"check": False}),
    ("forward", {"schedule": "forward"}),
    ("reverse", {"schedule": "reverse"}),
    ("seeded", {"schedule": "seeded", "seed": 1}),
)
# What came of a dropped barrier, by the outputs of the three schedules.
DIFFER = "schedules differ"
ALIKE = "schedules alike, not as numpy"
BETWEEN = "as numpy, though it stood between a write and another thread's read"
UNSEEN = "as numpy, any other barrier"
MAX_STEPS = 200_000
OUTPUTS = ("mT", "mO", "mJ")
FEATURES = {
    "dynamic if": random_kernels.If,
    "dynamic for": random_kernels.For,
    "shuffle": random_kernels.Shuffle,
    "exchange through a buffer": random_kernels.Exchange,
    "predicated load": random_kernels.Load,
}


@dataclass
class Tally:
    """What was found so far."""

    counts: Counter = field(default_factory=Counter)
    mismatches: list = field(default_factory=list)

    def differ(self, seed, sentence):
        self.mismatches.append(
            f"seed {seed}: {sentence}; to reproduce: "
            f'python -c "from quack_tutorial.validate.agreement import reproduce; print(reproduce({seed}))"'
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
    text = random_kernels.source(made)
    said = [f"without barrier {_dropped(made)} of {made.barriers} in the second family"]
    return "\n".join([text, *said, *(tally.mismatches or ["nothing wrong"])])


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
    host, wanted = random_kernels.loaded(made), random_kernels.computed(made)
    for name, how in RUNS:
        run, outputs = _simulated(host, made, how)
        tally.counts[f"as made, {name}"] += 1
        problems = [f"{name} against numpy: {problem}" for problem in differences(outputs, wanted)]
        problems += [f"{name}: reports {finding}" for finding in run.findings]
        for problem in problems:
            tally.differ(made.seed, problem)
        tally.counts[f"as made, {name}, agreed"] += not problems
    random_kernels.forget(host)
    kinds = {type(statement) for statement in statements(made.body)}
    tally.counts.update(name for name, kind in FEATURES.items() if kind in kinds)
    tally.counts["several warps"] += made.threads > 32
    tally.counts["several blocks"] += made.blocks > 1


def without_a_barrier(made, tally):
    """Where the schedules' outputs differ, each must have been reported."""
    dropped, executed = _dropped(made), set()
    host, wanted = random_kernels.loaded(made, dropped), random_kernels.computed(made, executed)
    ran = {name: _simulated(host, made, how) for name, how in RUNS[1:]}
    random_kernels.forget(host)
    outputs = [outputs for _, outputs in ran.values()]
    silent = [name for name, (run, _) in ran.items() if not run.findings]
    differ = any(differences(outputs[0], other) for other in outputs[1:])
    if any(differences(other, wanted) for other in outputs):
        kind = DIFFER if differ else ALIKE
    else:
        kind = BETWEEN if dropped in executed and dropped % 2 == 0 else UNSEEN
    tally.counts[f"dropped, {kind}"] += 1
    tally.counts[f"dropped, {kind}, reported"] += not silent
    if silent and kind != UNSEEN:
        tally.differ(made.seed, f"without barrier {dropped}: {kind}, and {', '.join(silent)} reports nothing")


def _dropped(made) -> int:
    return random.Random(made.seed).randrange(made.barriers)


def _simulated(host, made, how):
    arguments = random_kernels.inputs(made)
    run = simulate(host, *arguments, max_steps=MAX_STEPS, **how)
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


def statements(body):
    """Every statement of a program, those inside others too."""
    for statement in body:
        yield statement
        for name in ("body", "orelse", "between", "after"):
            yield from statements(getattr(statement, name, ()))


def _suite(tally, seeds) -> report.Suite:
    counts = tally.counts
    rows = [(f"as made, {name}", seeds, counts[f"as made, {name}, agreed"], "as numpy, no finding") for name, _ in RUNS]
    for kind in (DIFFER, ALIKE, BETWEEN, UNSEEN):
        name = f"dropped, {kind}"
        said = "nothing" if kind == UNSEEN else "reported in every schedule"
        rows.append((f"without a barrier: {kind}", counts[name], counts[f"{name}, reported"], said))
    used = [*FEATURES, "several warps", "several blocks"]
    notes = (
        "of the kernels, have: " + ", ".join(f"{name} {counts[name]}" for name in used),
        f"{UNSEEN}: after the read, where the buffer may not be written again, or in a branch that no block takes",
    )
    checked = sum(row[1] for row in rows)
    return report.Suite(
        "agreement",
        "Random kernels: the simulator against numpy, and schedule against schedule",
        ("runs", "kernels", "agreed or reported", "what had to hold"),
        tuple(rows),
        tuple(tally.mismatches),
        notes,
        checked=checked,
    )
