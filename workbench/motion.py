"""The page of a kernel that is being typed: whether it is right, what its warps did, what its lanes read and wrote.

`tried` runs a kernel, and gives its `Verdict` and the pictures of its run. A verdict joins what the simulator found with how far
the numbers are from `wanted(x)`; it is data, which the page gets from `quack_tutorial.notebook.VERDICTS` as well.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from html import escape

import numpy as np

from cutesim.trace import Op, Space

MOST_RACES = 2
READS, WRITES = (Op.LOAD, Op.ASYNC_COPY, Op.BULK_COPY), (Op.STORE, Op.ATOMIC, Op.STORE_ASYNC)
WAITS = (Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_WAIT, Op.WAIT_GROUP)
# A vector, or where the kernel does not take one, a row: what the pictures show, and what is tried after it.
INPUTS = (((64,), (64,)), ((1, 100), (3, 100)))
FILLS = (99, 77)  # what the output holds before the kernel, and where it writes nothing, after it
# Findings of a kernel that was made for another shape, or is no kernel.
NOT_TAKEN = ("language", "launch")
STEP = 2.0**-20
# Of a result that was computed in float32.
BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 23}


@dataclass(frozen=True)
class Verdict:
    """What a kernel did on drawn numbers: `shapes` are the inputs' until one was wrong, of `compared` numbers some are wrong.

    `difference` is the largest from `wanted(x)` and None where one is NaN or infinite; `tolerance` is what was allowed there.
    """

    shapes: tuple
    ran: bool  # a kernel was launched
    findings: tuple  # of {"kind", "line", "text"}
    compared: int = 0
    wrong: int = 0
    unwritten: int = 0
    nans: int = 0  # where there should be none
    difference: float | None = None
    tolerance: float | None = None
    report: str = ""
    lines: dict | None = None  # of `beside_lines`

    @property
    def right(self) -> bool:
        return self.ran and not self.findings and self.compared > 0 and not self.wrong

    @property
    def sentences(self) -> list[str]:
        if not self.compared:
            return [] if self.findings else ["wanted(x) has no numbers to compare."]
        counts = {"never written": self.unwritten, "NaN": self.nans}
        found = [] if self.ran else ["No kernel was launched."]
        found += [
            f"Of {self.compared:,} numbers {count:,} {'is' if count == 1 else 'are'} {what}."
            for what, count in counts.items()
            if count
        ]
        if self.difference is not None:
            words = f"Largest difference from wanted(x): {self.difference:.2g}"
            allowed = f"float32 explains {self.tolerance:.1g}" if self.tolerance else "none is allowed"
            found.append(f"{words}; {allowed}." if self.wrong or self.difference else f"{words}.")
        return found

    def _repr_html_(self) -> str:
        head = "Nothing wrong found." if self.right else "Something is wrong:"
        said = escape("\n".join(filter(None, [self.report, *self.sentences])))
        lines = escape(json.dumps(self.lines or {}))
        wrong = "" if self.right else " qt-motion-wrong"
        return f'<div class="qt-motion-said{wrong}" data-lines="{lines}"><p>{head}</p><pre>{said}</pre></div>'


def tried(names) -> list:
    """The verdict on `host` and `wanted` among `names`, and the pictures of the run.

    They are called with a vector of 64 numbers, or where one of them does not take it, with a row of 100 and then with three such
    rows. A tuple SHAPE among the names is the one shape instead.
    """
    from quack_tutorial import notebook

    shape = names.get("SHAPE")
    for first, second in INPUTS if shape is None else ((shape, shape),):
        verdict, run = _tried(names, first, 0)
        if verdict.right and not (again := _tried(names, second, 1))[0].right:
            verdict, run = again
        if run is not None and not any(finding.kind in NOT_TAKEN for finding in run.findings):
            break
    notebook.note("kernel", verdict.right, **asdict(verdict))
    return [verdict, *(pictures(run) if run is not None else ())]


def _tried(names, shape, nth) -> tuple[Verdict, object]:
    """The verdict for one input, and the run; None where there is none."""
    import torch

    from cutesim import simulation
    from quack_tutorial import notebook
    from workbench.errors import told_error

    try:
        host, wanted = names["host"], names["wanted"]
        torch.manual_seed(nth)
        x = torch.randn(*shape)
        given = wanted(x)
        out = torch.full_like(given, FILLS[nth])
        want = notebook._numbers(_exact(wanted, x, given))
        allowed = _allowed(wanted, x, want, str(out.dtype).removeprefix("torch."))
        run = simulation.simulate(host, x, out, values=not nth)
    except Exception as error:
        text = (
            f"The kernel's text has no `{error.args[0]}`."
            if isinstance(error, KeyError) and error.args[0] in ("host", "wanted")
            else told_error(error)
        )
        finding = {"kind": type(error).__name__, "line": None, "text": text}
        return Verdict((shape,), False, (finding,), report=text), None
    got = notebook._numbers(out)
    with np.errstate(invalid="ignore"):
        off = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.abs(got - want))
        wrong = ~(off <= allowed)
    at = np.unravel_index(np.argmax(np.where(np.isnan(off), np.inf, off)), off.shape) if off.size else ()
    worst = float(off[at]) if off.size else 0.0
    return Verdict(
        shapes=(shape,),
        ran=bool(run.trace.launches),
        findings=tuple(
            {"kind": f.kind, "line": f.lines[0].number if f.lines else None, "text": f.message} for f in run.findings
        ),
        compared=off.size,
        wrong=int(wrong.sum()),
        unwritten=int(((got == FILLS[nth]) & wrong).sum()),
        nans=int((np.isnan(got) & wrong).sum()),
        difference=worst if np.isfinite(worst) else None,
        tolerance=float(allowed[at]) if off.size else None,
        report=str(run),
        lines=beside_lines(run),
    ), run


def _exact(wanted, x, given):
    """`wanted` of the numbers in float64, where it takes them."""
    try:
        exact = wanted(x.double())
    except Exception:
        return given
    return exact if exact.shape == given.shape else given


def _allowed(wanted, x, want, dtype):
    """How far a float32 computation of n numbers may be from each number of the answer; 0 for whole numbers.

    A sum of n terms, in whatever order, is off by at most n roundings of its terms. How much a rounding of the inputs moves the
    answer is seen by moving each by a small step up or down. Then the result is rounded to its own type.
    """
    import torch

    from quack_tutorial import notebook

    if dtype not in BITS:
        return np.zeros(want.shape)
    signs = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], tuple(x.shape)))
    try:
        moved = np.abs(notebook._numbers(wanted(x.double() * (1 + STEP * signs))) - want) / STEP
    except Exception:
        moved = np.zeros(want.shape)
    rounding = x.shape[-1] * 2.0**-23 * (np.abs(want) + moved)
    return np.nan_to_num(rounding + 2.0 ** -BITS[dtype] * np.abs(want), posinf=0.0)


def beside_lines(run) -> dict:
    """What each line moved or waited for in a run, for the margin of an editor: {file: {line: [[kind, words], ...]}}."""
    if run.recorded is None or not len(run.trace.events):
        return {}
    events, moved, waits = run.trace.events, {}, {}
    lanes = np.unpackbits(np.ascontiguousarray(events["mask"], np.uint32).view(np.uint8).reshape(-1, 4), axis=1).sum(1)
    bulk = events["op"] == Op.BULK_COPY
    sizes = np.where(bulk, events["arg"], events["bytes"].astype(np.int64) * lanes)
    codes = events["line"].astype(np.int64) << 16 | events["op"].astype(np.int64) << 8 | events["space"]
    for code, size in _summed(codes, sizes):
        line, op, space = run.trace.lines[code >> 16], Op(code >> 8 & 255), Space(code & 255)
        kind = "reads" if op in READS else "writes" if op in WRITES else None
        if kind:
            where = "" if space == Space.GMEM or op in (Op.ASYNC_COPY, Op.BULK_COPY) else " shared"
            at = line.file, line.number, kind, where
            moved[at] = moved.get(at, 0) + size
    waiting = np.isin(events["op"], [int(op) for op in WAITS])
    for key in np.unique(np.stack([events[name] for name in ("line", "block", "warp")], axis=1)[waiting], axis=0):
        line = run.trace.lines[key[0]]
        waits[line.file, line.number] = waits.get((line.file, line.number), 0) + 1
    found = {}
    for (file, number, kind, where), size in moved.items():
        found.setdefault(file, {}).setdefault(number, []).append([kind, f"{size:,} B{where}"])
    for (file, number), warps in waits.items():
        words = f"{warps} warp{'s' * (warps > 1)}"
        found.setdefault(file, {}).setdefault(number, []).append(["waits", words])
    return found


def _summed(codes, sizes):
    """(code, sum of its sizes), in the order in which the codes first come."""
    found, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, inverse, sizes)
    return [(int(found[k]), int(sums[k])) for k in np.argsort(first)]


def pictures(run):
    """The figures of one simulated run: its races, then all warps side by side, shared words, and the first warp's lanes.

    A figure that the run has nothing for is left out.
    """
    # Which `beside_lines` has no need of, and every printed run has that counted.
    from quack_tutorial import figures

    if run.recorded is None:
        return
    races = [finding for finding in run.findings if finding.kind == "race"]
    draws = [lambda finding=finding: figures.race(run.trace, finding) for finding in races[:MOST_RACES]]
    draws.append(lambda: figures.timeline(run.trace))
    draws.append(lambda: figures.block_reduce(run.trace))
    draws.append(lambda: figures.lanes(run.trace))
    for draw in draws:
        try:
            yield draw()
        except (ValueError, IndexError):  # no such events in this run
            continue
