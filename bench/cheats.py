"""A dozen ways to fool a benchmark, each as a softmax that wins without being one, and the checks that catch them.

A candidate is a callable (x, out): it reads x, (M, N) float32, and has written softmax of each row to out when it returns. `naive`
is the benchmark that one writes first, and that each cheat gets past. `caught` runs every check of `CHECKS`; none may object to
`honest`. All of them run on CPU tensors; what takes a GPU (another stream, a warm L2) is recorded: `records.pitfalls`.

| check           | does                                                                                        |
|-----------------|---------------------------------------------------------------------------------------------|
| poison          | fills out with NaN before the call, and looks for what is left the moment it returns         |
| fresh numbers   | draws with a seed that nobody knows, and puts other numbers at the same address              |
| float64         | compares with numpy in float64, to a few units in the last place, on rows from all over      |
| other sizes     | asks for row lengths that are no multiple of anything                                        |
| hard numbers    | asks for rows with large numbers, where exp overflows unless the maximum is subtracted       |
| inputs kept     | compares x with a copy                                                                       |
| own clock       | keeps the clock and looks whether it is still the one in its place                           |
| own work        | listens to torch's dispatcher for the operation that was to be written                       |
| floor           | refuses what is faster than a copy of as many bytes                                          |
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench.correctness import sampled
from quack_tutorial import reference

M, N = 8, 8192
SEED = 0  # that of `naive`, and everybody knows it
FLOOR_CALLS = 20
_clock = time.perf_counter  # taken before any candidate is run
_at_work = []  # threads of `later`


def honest(x, out):
    """Softmax in torch's elementwise operations."""
    y = (x - x.amax(-1, keepdim=True)).exp()
    torch.div(y, y.sum(-1, keepdim=True), out=out)


# The cheats ----------------------------------------------------------------------------------------------------------


def nothing(x, out):
    """Writes nothing: the answer of who ran before is still there."""


class Remembers:
    """Computes once, and copies its first answer from then on."""

    answer = None

    def __call__(self, x, out):
        if self.answer is None or self.answer.shape != x.shape:
            honest(x, out)
            self.answer = out.clone()
        out.copy_(self.answer)


def first_rows(x, out):
    """Does an eighth of the rows; the others still have the answer of who ran before."""
    rows = -(-len(x) // 8)
    honest(x[:rows], out[:rows])


def constant(x, out):
    """Writes 1 / N everywhere: within 0.01 of the truth, since all the truth is small."""
    out.fill_(1 / x.shape[1])


def sixteen_bits(x, out):
    """Computes in bfloat16, with 8 bits of precision."""
    y = (x - x.amax(-1, keepdim=True)).bfloat16().exp()
    out.copy_(y / y.sum(-1, keepdim=True))


def no_maximum(x, out):
    """Leaves the maximum out, and so a pass over the row: right until a number is above 88."""
    torch.exp(x, out=out)
    out.div_(out.sum(-1, keepdim=True))


def round_sizes(x, out):
    """Leaves the end of a row out if its length is no multiple of 128."""
    whole = x.shape[1] // 128 * 128
    out[:, whole:] = 0
    honest(x[:, :whole], out[:, :whole])


def later(x, out):
    """Returns at once and works in another thread, until somebody looks."""

    def work():
        time.sleep(0.02)
        honest(x, out)

    _at_work.append(threading.Thread(target=work))
    _at_work[-1].start()


def eats_its_input(x, out):
    """Subtracts the maximum in x, which saves memory, and which softmax does not notice."""
    x.sub_(x.amax(-1, keepdim=True)).clamp_(min=-80)
    torch.exp(x, out=out)
    out.div_(out.sum(-1, keepdim=True))


def slows_the_clock(x, out):
    """Does its work, and has the clock go at a tenth of its pace."""
    time.perf_counter = lambda: _clock() / 10
    honest(x, out)


def replaces_the_reference(x, out):
    """Writes zeros, and makes torch's softmax do so too."""
    out.zero_()
    torch.softmax = lambda x, dim: torch.zeros_like(x)


def borrows(x, out):
    """Calls the very operation that it was to replace."""
    out.copy_(torch.nn.functional.softmax(x, -1))


CHEATS: dict[str, Callable] = {
    "writes nothing": lambda: nothing,
    "remembers its answer": Remembers,
    "does the first rows": lambda: first_rows,
    "writes a constant": lambda: constant,
    "computes in 16 bits": lambda: sixteen_bits,
    "leaves the maximum out": lambda: no_maximum,
    "knows the size": lambda: round_sizes,
    "works later": lambda: later,
    "eats its input": lambda: eats_its_input,
    "slows the clock": lambda: slows_the_clock,
    "replaces the reference": lambda: replaces_the_reference,
    "borrows the original": lambda: borrows,
}


# The benchmark that is fooled ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What `naive` says: whether the answer is right, and milliseconds a call."""

    right: bool
    ms: float


def naive(candidate, calls: int = 20) -> Verdict:
    """What one writes first: one known input, one output, `allclose`, the best time."""
    with _put_back():
        x, seconds = drawn(M, N, SEED), []
        out = torch.softmax(x, dim=-1)  # the candidate is to write over this
        candidate(x, out)
        for _ in range(calls):
            start = time.perf_counter()
            candidate(x, out)
            seconds.append(time.perf_counter() - start)
        _wait()
        right = torch.allclose(out, torch.softmax(x, dim=-1), atol=1e-2)
    return Verdict(right, min(seconds) * 1e3)


# The checks ----------------------------------------------------------------------------------------------------------


def poison(candidate):
    x = drawn(M, N)
    out = _run(candidate, x)
    left = out.isnan().any(-1).sum().item()
    return f"{left} of {M} rows unwritten" if left else None


def fresh_numbers(candidate):
    x = drawn(M, N, SEED)
    _run(candidate, x)
    x[:, 1:] = drawn(M, N - 1)  # the same address, and the same first numbers
    return _wrong(x, _run(candidate, x), "for other numbers at the same address")


def float64(candidate):
    x = drawn(M, N)
    return _wrong(x, _run(candidate, x))


def other_sizes(candidate):
    x = drawn(8, 1001)
    return _wrong(x, _run(candidate, x), "with 1001 columns")


def hard_numbers(candidate):
    x = 100 * drawn(8, 512)
    return _wrong(x, _run(candidate, x), "where numbers are large")


def inputs_kept(candidate):
    x = drawn(M, N)
    before = x.clone()
    _run(candidate, x)
    return None if torch.equal(x, before) else "x is not what it was"


def own_clock(candidate):
    _run(candidate, drawn(M, N))
    return None if time.perf_counter is _clock else "time.perf_counter is another function"


class _Heard(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.names.add(operation.name())
        return operation(*args, **(kwargs or {}))


def own_work(candidate):
    x = drawn(M, N)
    with _Heard() as heard:
        _run(candidate, x)
    return "it calls torch's softmax" if any("softmax" in name for name in heard.names) else None


def floor(candidate):
    x, out = drawn(M, N), torch.empty(M, N)
    copy, found = (_least_ms(f, x, out) for f in (lambda x, out: out.copy_(x), candidate))
    return f"{copy / found:.0f} times as fast as a copy" if found < copy / 2 else None


_IN_TURN = (poison, fresh_numbers, float64, other_sizes)
_IN_TURN += (hard_numbers, inputs_kept, own_clock, own_work, floor)
CHECKS: dict[str, Callable] = {check.__name__.replace("_", " "): check for check in _IN_TURN}


def caught(make, checks=None) -> dict[str, str]:
    """What each check has to say against the candidate that `make()` gives; a new one for each check."""
    reasons = {}
    for name, check in (checks or CHECKS).items():
        with _put_back():
            reason = check(make())
            _wait()
        if reason:
            reasons[name] = reason
    return reasons


def drawn(M: int, N: int, seed: int | None = None):
    """(M, N) float32 numbers from `seed`, by default one that nobody knows."""
    seed = int.from_bytes(os.urandom(6), "little") if seed is None else seed
    return torch.randn(M, N, generator=torch.Generator().manual_seed(seed))


def _run(candidate, x):
    """What the candidate has written to poisoned memory when it returns."""
    out = torch.full_like(x, float("nan"))
    candidate(x, out)
    return out.clone()


def _wrong(x, out, when=""):
    rows = sampled(*x.shape, seed=int.from_bytes(os.urandom(4), "little"), elements=1 << 16)
    error = reference.softmax_error(x[rows].double().numpy(), out[rows].double().numpy(), "float32")
    return None if error <= 1 else f"{error:.2g} times the tolerated error {when}".rstrip()


def _least_ms(candidate, x, out):
    times = []
    for _ in range(FLOOR_CALLS):
        start = _clock()
        candidate(x, out)
        times.append((_clock() - start) * 1e3)
    return min(times)


def _wait():
    """Until no candidate's thread is at work."""
    while _at_work:
        _at_work.pop().join()


@contextlib.contextmanager
def _put_back():
    """Undo what a candidate did to the clock and to torch; with one thread, so that times depend less on who else is at work."""
    softmax, threads = torch.softmax, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        time.perf_counter, torch.softmax = _clock, softmax
