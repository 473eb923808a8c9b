"""What a notebook's cell asks for in one line: is it right, how fast is it, what was recorded.

| function   | what it gives                                                                             |
|------------|-------------------------------------------------------------------------------------------|
| `check`    | a sentence: right, or where the largest error is and what stood there                      |
| `judge`    | an exercise's verdict on simulated runs: right for these lengths, or not yet and why       |
| `verdict`  | the same of whatever an exercise compared itself                                          |
| `lengths`, `drawn` | lengths of all kinds, and numbers, drawn anew at each call                        |
| `answer`   | a prediction's verdict: right, near or off, beside the value                                |
| `time`     | a kernel's time on this machine's GPU, beside a copy or a read and the datasheet; elsewhere a sentence |
| `recorded` | the recorded speeds of one operation, dtype and size, with device and date                  |
| `print_shares` | the shares of several recorded sizes, a line each; one line names those not measured     |
| `print_lacking` | one line that names what was not measured on the card whose records are read             |

What was printed of a right or a wrong answer is in `VERDICTS` as data, too: a page of the book reads it there and not in the text.

Importing this module loads neither torch nor CuTe DSL.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from html import escape
from numbers import Integral, Real

import numpy as np

from quack_tutorial import hardware
from quack_tutorial.records import folder

WIDTH = 84  # of what is printed, so that it fits beside the page's margins
MOST_OF_RULER = 1.05  # of a copy's or read's speed, beyond which a kernel cannot have moved the bytes that are counted
TOO_FAST = "No kernel that moves these bytes is so fast"
MEASURED = 0.05  # a guess so near a value that was not counted is right
NUMBER = re.compile(r"([-+]?[\d.]+(?:e[-+]?\d+)?)(?:/([\d.]+))?([kKM]i?)?%?")
# In a list that was written as words.
BESIDE_MEMBERS = re.compile(r"[,;&\[\](){}]|\band\b|\blines?\b|\blanes?\b", re.IGNORECASE)
RELATIVE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-12}

# The last ones: {"of": who judged, "right": whether it was right, ...}.
VERDICTS: deque = deque(maxlen=1000)


def note(of: str, right, **more) -> None:
    """Add a verdict to `VERDICTS`."""
    VERDICTS.append({"of": of, "right": bool(right), **more})


def check(result, wanted, tolerance=None) -> bool:
    """Compare `result` with `wanted`, tensors or arrays of one shape, and print how it went; returns whether all is right.

    A NaN is right only where `wanted` has one. `tolerance` is the largest absolute error allowed: a number, or an array of the same
    shape. By default it depends on the result's dtype: for float32 it is 1e-5 of the largest finite magnitude of `wanted`, for
    float16 2e-3 of it, for bfloat16 1e-2, and for integers 0.
    """
    right, said = _compared(result, wanted, tolerance)
    print(textwrap.fill(f"{'Right' if right else 'Wrong'}: {said}", WIDTH))
    note("check", right)
    return right


def judge(once, cases, of=None) -> bool:
    """Print one verdict on `cases`: "right for N = 1, 37 and 512", or "not yet", and why, for the first that is not right.

    `once(case)`, or once(*case), gives a simulated run, its result, what is wanted, perhaps a tolerance as `check` takes it, and
    words on what else is wrong. A case is a length, a shape, or what else `of` says. What the simulator found is printed, too.
    """
    cases = list(cases)
    of = of or ("M x N" if isinstance(cases[0], tuple) else "N")
    words = [" x ".join(map(_shown, case)) if isinstance(case, tuple) else _shown(case) for case in cases]
    for case, word in zip(cases, words):
        run, *given = once(*case) if isinstance(case, tuple) else once(case)
        right, said = _judged(run, *given)
        if not right:
            verdict(False, f"for {of} = {word}, {said}")
            if not getattr(run, "ok", True):
                print(run)
            return False
    *first, last = dict.fromkeys(words)
    verdict(True, f"for {of} = {', '.join(first)}{' and ' * bool(first)}{last}")
    return True


def lengths(step=1, most=500) -> list[int]:
    """Multiples of `step`, drawn anew at each call: `step`, twice it, an odd prime times it, a power of two times it, an odd number
    times six, any number up to `most`, nearly `most`, and two to three times as much."""
    rng, count = np.random.default_rng(), most // step
    primes = [n for n in range(3, count + 1, 2) if all(n % d for d in range(3, n, 2))]
    six = 12 * rng.integers(0, max(1, count // 12)) + 6
    near = rng.integers(count - count // 4, count + 1)
    beyond = rng.integers(2 * count, 3 * count + 1)
    power, anywhere = 1 << count.bit_length() - 1, rng.integers(1, count + 1)
    found = 1, 2, rng.choice(primes), power, min(six, count), anywhere, near, beyond
    return sorted({step * int(n) for n in found})


def shapes(rows, columns) -> list[tuple[int, int]]:
    """Pairs of lengths, as `lengths` gives them, in which each occurs with another at random."""
    few, many = sorted((rows, columns), key=len)
    mixed = np.random.default_rng().permutation([few[k % len(few)] for k in range(len(many))]).tolist()
    return list(zip(mixed, many) if few is rows else zip(many, mixed))


def drawn(*shape, low=-999, high=999, shift=0, rough=False) -> np.ndarray:
    """Numbers as float32, drawn anew at each call: quarters, whose sums are exact in every order, or `rough` ones, of many sizes,
    with all of their bits; rows moved up or down by `shift`."""
    rng = np.random.default_rng()
    if rough:
        numbers = rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 5, shape)
    else:
        numbers = rng.integers(4 * low, 4 * high + 1, shape) / 4
    return (numbers + shift * rng.choice((-1, 1), (len(numbers), 1)) if shift else numbers).astype(np.float32)


def bytes_read(run, *names) -> int:
    """How many bytes a simulated run's lanes loaded from the tensors of those names."""
    from cutesim import analysis

    loads = analysis.requests(run.trace, kind="load")
    return sum(
        int(loads["bytes"][loads["tensor"] == k].sum()) for k, t in enumerate(run.trace.tensors) if t.name in names
    )


def verdict(right, why="") -> None:
    """Print "right", or "not yet:", and `why`."""
    begun, why = "right " if right else "not yet: ", str(why)
    text = begun + why if "\n" in why else textwrap.fill(begun + why, WIDTH, subsequent_indent=" " * len(begun))
    print(text.rstrip(" :"))
    note("judge", right)


def _judged(run, result, wanted, tolerance=None, also="") -> tuple[bool, str]:
    """Whether the simulated `run` found nothing and `result` is within tolerance of `wanted`, and what is wrong."""
    if not hasattr(run, "ok"):
        return False, f"the run is {run!r:.40}, not what qt.simulate gives."
    if not run.ok:
        return False, "see what the simulator found."
    if changed := _changed_inputs(run):
        return False, f"the kernel writes to {changed[0]}, which it has read: an input must stay as it is."
    right, said = _compared(result, wanted, tolerance, first=True)
    return right and not also, also if right else said


def _changed_inputs(run) -> list[str]:
    """The names of the tensors in global memory that a simulated run wrote to after it had read them."""
    from cutesim import analysis

    if getattr(run, "recorded", None) is None:
        return []
    accesses, first = analysis.requests(run.trace), {}
    for tensor, kind in zip(accesses["tensor"], accesses["kind"]):
        first.setdefault(int(tensor), int(kind))
    written = {int(tensor) for tensor in accesses["tensor"][accesses["kind"] > 0]}
    # Read, or read by an atomic.
    return [run.trace.tensors[k].name for k in sorted(written - {-1}) if first[k] != 1]


def _compared(result, wanted, tolerance, first=False) -> tuple[bool, str]:
    """Whether `result` is within tolerance of `wanted`, and a sentence on the largest error, or on the first."""
    dtype, got, want = _dtype(result), _numbers(result), _numbers(wanted)
    if got.shape != want.shape:
        return False, f"the result has shape {got.shape} instead of {want.shape}."
    finite = np.isfinite(want)
    largest = float(np.abs(want[finite]).max(initial=0.0))
    allowed = np.broadcast_to(
        RELATIVE.get(dtype, 0.0) * largest if tolerance is None else _numbers(tolerance), want.shape
    )
    with np.errstate(invalid="ignore"):
        error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.abs(got - want))
    error = np.where(np.isnan(error), np.inf, error)
    wrong = error > allowed
    if not wrong.any():
        return True, f"all {got.size:,} numbers; largest error {error.max(initial=0.0):.2g}."
    at = np.unravel_index(np.argmax(wrong if first else np.where(wrong, error, -1.0)), got.shape)
    place = f" at {tuple(map(int, at))}" if at else ""
    worst = f"The {'first' if first else 'largest error'} is{place}: {got[at]:.9g} instead of {want[at]:.9g}."
    count = (
        f"{int(wrong.sum()):,} of {got.size:,}" if not wrong.all() else f"all {got.size:,}" if got.size > 1 else "the 1"
    )
    return False, f"{count} number{'s' * (got.size > 1)} differ{'s' * (int(wrong.sum()) == 1)}. {worst}"


def answer(guess, *values, near=0.25) -> Answer:
    """Judge a prediction: `guess` maps each thing that was asked to the reader's guess, `values` are the answers in that order.

    | a value that is  | asked as           | and its guess is                                                             |
    |------------------|--------------------|------------------------------------------------------------------------------|
    | a whole number   | `"sectors"`        | right if equal; near within a factor of 1 + `near`; else off                  |
    | a float          | `"percent"`        | right within 5 %, else the same                                               |
    | a tuple          | `"lanes"`          | right with the same members in any order, near with half in common, else off  |
    | one of a choice  | `"from: L1 | L2"`  | right or off                                                                  |
    | other words      | `"what comes out"` | not judged, but shown beside the answer                                       |

    A guess may also be words, as they are typed in the page: "1,024", "93 %", "16 Ki", "lanes 1 and 3". A guess of None is not
    judged. Where the book is built nobody has guessed, and the page takes the answers from here: its form
    compares by the same rules (book/static/predict.js).
    """
    if not isinstance(guess, dict):  # a reader who wrote `guess = 7`
        guesses = (guess,) if len(values) == 1 or guess is None else guess
        guess = dict(enumerate(guesses if isinstance(guesses, (tuple, list)) else (guesses,)))
        guess |= {place: None for place in range(len(guess), len(values))}
    if len(guess) != len(values):
        raise AnotherGuess(
            f"This cell judges a prediction of {len(values)} values, and the guess that was run last has {len(guess)}. "
            "Run the cell with this prediction's guess, then this one again."
        )
    fields = [_Field(*_asked(words), value) for words, value in zip(guess, values)]
    return Answer(tuple(fields), tuple(map(_python, guess.values())), near)


def _python(guess):
    """A guess as Python has it: of a tensor or an array of one number that, and of a fraction a float."""
    if hasattr(guess, "item") and math.prod(getattr(guess, "shape", ())) == 1:
        return guess.item()
    return float(guess) if isinstance(guess, (Fraction, Decimal)) else guess


def _asked(words) -> tuple[str, tuple[str, ...]]:
    """What was asked and what there is to choose from: "where: L1 | L2" asks "where" and offers L1 and L2."""
    if not isinstance(words, str):
        return "", ()
    asked, _, choices = words.rpartition(": ") if " | " in words else (words, "", "")
    return asked, tuple(choice.strip() for choice in choices.split(" | ")) if choices else ()


@dataclass(frozen=True)
class _Field:
    """One thing that a prediction asks for, and its answer."""

    asked: str
    choices: tuple[str, ...]
    value: object

    def __post_init__(self):
        if self.choices and self.value not in self.choices:
            raise AnotherGuess(
                f"The answer {self.value!r} is not one of the choices of the guess that was run last, {' | '.join(self.choices)}. "
                "Run the cell with this prediction's guess, then this one again."
            )

    @property
    def kind(self) -> str:
        if self.choices:
            return "choice"
        if isinstance(self.value, (tuple, list)):
            return "list"
        return "number" if isinstance(self.value, (Real, np.number)) else "words"

    @property
    def shown(self) -> str:
        return _shown(self.value)

    def verdict(self, guess, near: float) -> str:
        """right, near or off; empty for words, and for a guess that cannot be the answer, as `wanted` says."""
        if self.kind == "choice":
            return "right" if _word(guess) == _word(self.value) else "off" if self._is_choice(guess) else ""
        if self.kind == "list":
            got, want = ({str(_plain(one)) for one in some} for some in (_members(guess), self.value))
            return "right" if got == want else "near" if 2 * len(got & want) >= len(got | want) else "off"
        guess = _number(guess, self.asked) if self.kind == "number" else None
        if guess is None:
            return ""
        if guess == self.value:
            return "right"
        # On both sides by the same factor: half as much is as far off as twice as much.
        factor = max(guess / self.value, self.value / guess) if guess * self.value > 0 else float("inf")
        if factor <= 1 + MEASURED and not isinstance(self.value, Integral):
            return "right"
        return "near" if factor <= 1 + near else "off"

    def _is_choice(self, guess) -> bool:
        return _word(guess) in map(_word, self.choices)

    @property
    def wanted(self) -> str:
        """What a guess that cannot be judged is not."""
        return f"one of {' | '.join(self.choices)}" if self.choices else "a number"


class AnotherGuess(ValueError):
    """A guess that belongs to another question; a notebook shows the sentence alone."""

    def _render_traceback_(self) -> list[str]:
        return textwrap.wrap(str(self), WIDTH)


@dataclass(frozen=True)
class Answer:
    """The verdicts on a prediction, a line for each thing that was asked; in HTML with what the built page needs to judge."""

    fields: tuple[_Field, ...]
    guesses: tuple
    near: float

    @property
    def verdicts(self) -> tuple[str, ...]:
        """right, near or off for each thing that was asked; empty where nothing was guessed, or where words are not judged."""
        return tuple(
            "" if guess is None else field.verdict(guess, self.near) for field, guess in zip(self.fields, self.guesses)
        )

    @property
    def lines(self) -> list[str]:
        """What is shown: the verdicts, or what is missing."""
        missing = "No guess yet: put yours in place of None above, run that cell and this one again, or read on."
        lines = [missing] if all(guess is None for guess in self.guesses) else []
        for field, guess, verdict in zip(self.fields, self.guesses, self.verdicts):
            asked = f"{field.asked}: " if field.asked else ""
            if guess is None:
                told = field.shown if lines[:1] == [missing] else f"no guess; it is {field.shown}"
            elif verdict:
                told = f"you said {_shown(guess)}, it is {field.shown}: {verdict}"
            elif field.kind == "words":
                told = f"you said: {guess}; the answer: {field.shown}"
            else:
                told = f"{guess!r} is not {field.wanted}; it is {field.shown}"
            lines.append(f"{asked}{told}.".replace("..", "."))
        return lines

    def __str__(self) -> str:
        return "\n".join(textwrap.fill(line, WIDTH) for line in self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        fields = [
            {"asked": f.asked, "kind": f.kind, "choices": f.choices, "shown": f.shown, "value": _plain(f.value)}
            | {"counted": isinstance(f.value, Integral)}
            for f in self.fields
        ]
        told = "<br>\n".join(escape(line) for line in self.lines)
        return (
            f'<p class="qt-answer" data-answer="{escape(json.dumps({"near": self.near, "fields": fields}))}">{told}</p>'
        )


def _shown(value) -> str:
    """A value in few words: thousands apart, three digits of what was measured."""
    if isinstance(value, (tuple, list, set)):
        return ", ".join(map(_shown, value))
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if not isinstance(value, (Real, np.number)):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _word(value) -> str:
    """A choice as it is compared."""
    return str(value).strip().lower().replace(",", "")


def _number(guess, asked: str):
    """A guess as a number, also one that was typed as words: "1,024", "93 %", "16 Ki", "2/3"; None for what is none."""
    if isinstance(guess, (Real, np.number)) and not isinstance(guess, bool):
        most = math.inf  # for what no float holds
        return guess if abs(guess) < 1e300 else most if guess > 0 else -most
    # 1,024 is a number; of 0,5 nobody can be sure.
    if not isinstance(guess, str) or re.search(r",(?!\d{3}(?!\d))", guess):
        return None
    found = NUMBER.fullmatch(re.sub(r"[,_\s]", "", guess))
    if not found:
        return None
    above, below, unit = found.groups()
    try:
        number = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        return None
    number *= (1024 if unit.endswith("i") else 1000) ** (2 if unit[0] == "M" else 1) if unit else 1
    number = 100 * number if below and "percent" in asked else number
    return number if math.isfinite(number) else None


def _members(guess):
    """The members of a list that was guessed, also of one that was written as words: "lanes 1, 3 and 1,024"."""
    if isinstance(guess, str):
        return BESIDE_MEMBERS.sub(" ", re.sub(r"\b(\d{1,3}),(?=\d{3}\b)", r"\1", guess)).split()
    return guess if isinstance(guess, (tuple, list, set)) else (guess,)


def _plain(value):
    """A value as JSON has it."""
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Timing:
    """A kernel's time: microseconds a launch, GB/s of `nbytes`, beside a plain copy of as many bytes on the same GPU.

    The copy is the faster of two: torch's `copy_`, and its addition of 0. A kernel that hardly writes is compared with a plain
    read instead, the faster of two of `quack_tutorial.plain_kernels`, because HBM reads faster than it copies.
    """

    us: float
    nbytes: int
    copy_gb_s: float
    device: str
    datasheet_gb_s: float | None
    in_graph: bool = True
    read_gb_s: float | None = None

    @property
    def gb_s(self) -> float:
        """Bytes that must be moved over the time, in 1e9 bytes a second."""
        return self.nbytes / self.us / 1e3

    @property
    def of_copy(self) -> float:
        """The speed as a fraction of the copy's."""
        return self.gb_s / self.copy_gb_s

    @property
    def ruler(self) -> str:
        """What the speed is compared with: "read" or "copy"."""
        return "read" if self.read_gb_s else "copy"

    @property
    def of_ruler(self) -> float:
        """The speed as a fraction of the ruler's."""
        return self.gb_s / (self.read_gb_s or self.copy_gb_s)

    def __str__(self) -> str:
        peak, text = "", f"{self.us:,.1f} us on this {self.device}"
        if self.datasheet_gb_s:
            peak = f" and {self.gb_s / self.datasheet_gb_s:.0%} of the datasheet's {self.datasheet_gb_s:,.0f} GB/s"
        if self.of_ruler > MOST_OF_RULER:
            text += (
                f". {TOO_FAST}: it moves fewer than the {self.nbytes:,} that are counted, so it has no bandwidth. See first "
                "whether its result is right."
            )
        else:
            text += f": {self.gb_s:,.0f} GB/s, {self.of_ruler:.0%} of a plain {self.ruler} here{peak}."
        if not self.in_graph:
            text += (
                " Its host function takes no stream, so each launch was a call of the host's: a few us are that call's."
            )
        return textwrap.fill(text, WIDTH)

    __repr__ = __str__


@dataclass(frozen=True)
class NotTimed:
    """Why there is no time; prints as one sentence, and is false where a Timing is true."""

    why: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return textwrap.fill(f"Not timed: {self.why}.", WIDTH)

    __repr__ = __str__


def time(kernel, *args, nbytes=None) -> Timing | NotTimed:
    """The time of `kernel(*args)` on this machine's GPU; `args` as for `launch`.

    `nbytes` is what the kernel must move; None counts each tensor once, which is right where each is either read or written.
    Inputs go round so that none is found in L2, launches are replayed from a CUDA graph, and the median counts, see
    `quack_tutorial.timing`.
    The ruler is a plain copy; it is a plain read where one tensor, which a launch leaves as it was, is more than ten times as
    large as all others together.
    A kernel whose host function takes no `stream` cannot be in a graph: the host makes each call, and the answer says so.
    Where the tensors are not on a GPU that can run it the answer says so: the simulator is not a timing model.
    """
    tensors = [arg for arg in args if hasattr(arg, "is_cuda")]
    if not tensors or not all(tensor.is_cuda for tensor in tensors):
        return NotTimed("the tensors are not on a GPU, and the simulator is not a timing model")
    from quack_tutorial.compiler import gpu_problem

    if problem := gpu_problem():
        return NotTimed(problem.rstrip("."))
    import torch

    from quack_tutorial import timing
    from quack_tutorial.compiler import NeedsNewerGPU, compile_for
    from quack_tutorial.records.statistics import median

    try:
        compiled = compile_for(kernel, *args)
    except NeedsNewerGPU as error:
        return NotTimed(str(error))
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    nbytes = held if nbytes is None else nbytes
    properties = torch.cuda.get_device_properties(tensors[0].device)
    count = timing.slots_for(held, properties.L2_cache_size)
    slots = [args] + [tuple(arg.clone() if hasattr(arg, "is_cuda") else arg for arg in args) for _ in range(count - 1)]
    launches = timing.launches_for(nbytes, count)
    half = max(1, nbytes // 8)
    pairs = [
        tuple(torch.empty(half, dtype=torch.float32, device=tensors[0].device) for _ in range(2)) for _ in range(count)
    ]
    in_graph = getattr(compiled, "has_stream", True)
    replays = {
        "kernel": (timing.capture if in_graph else timing.one_by_one)(compiled, slots, launches),
        "copy": timing.capture(lambda source, target: target.copy_(source), pairs, launches),
        "copying kernel": timing.capture(lambda source, target: torch.add(source, 0.0, out=target), pairs, launches),
    }
    if _hardly_writes(compiled, args):
        replays |= _plain_reads(nbytes, count, launches, tensors[0].device)
    samples = timing.interleaved_us(replays, timing.MIN_REPLAYS)
    reads = [median(taken) for name, taken in samples.items() if name.startswith("read")]
    gpu = hardware.find(properties.name)
    return Timing(
        us=median(samples["kernel"]),
        nbytes=nbytes,
        # torch's copy is not always the faster: on an H200 (2026-11-24) it ran at 4,230 GB/s for chapter 8 and at 2,775, of more
        # than half a gigabyte, for chapter 7.
        copy_gb_s=8 * half / min(median(samples["copy"]), median(samples["copying kernel"])) / 1e3,
        device=properties.name,
        datasheet_gb_s=gpu.bandwidth_gb_s if gpu else None,
        in_graph=in_graph,
        read_gb_s=nbytes / min(reads) / 1e3 if reads else None,
    )


def _hardly_writes(call, args) -> bool:
    """Whether `call(*args)` leaves a tensor as it was that is more than ten times as large as all others together."""
    import torch

    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    if 11 * max(sizes) <= 10 * sum(sizes):
        return False
    largest = tensors[sizes.index(max(sizes))]
    before = largest.clone()
    call(*args)
    return torch.equal(*(tensor.reshape(-1).view(torch.uint8) for tensor in (before, largest)))


def _plain_reads(nbytes, count, launches, device) -> dict:
    """Plain reads of so many bytes, ready to be timed; none where Triton, which compiles them, is not installed."""
    import torch

    from quack_tutorial import timing
    from quack_tutorial.records.cells import UNSWEPT

    try:
        from quack_tutorial import plain_kernels
    except ImportError:
        return {}
    buffers = [(torch.zeros(-(-nbytes // 16) * 4, dtype=torch.int32, device=device),) for _ in range(count)]
    return {f"read {shape}": timing.capture(plain_kernels.plain("1R", *shape), buffers, launches) for shape in UNSWEPT}


@dataclass(frozen=True)
class Speed:
    """One recorded speed: GB/s, microseconds a launch, fractions of the ceiling and of the datasheet's peak.

    `spread` is half the interquartile range of the samples, of whose median `us` is, as a fraction of it.
    """

    name: str
    gb_s: float
    us: float
    of_copy: float
    of_peak: float | None
    spread: float


@dataclass(frozen=True)
class Recorded:
    """The recorded speeds of one cell: `recorded["ours"].gb_s`, `recorded.names`; false where nothing is recorded."""

    what: str
    speeds: tuple[Speed, ...]
    provenance: str
    # Whose speed the shares are of: the best copy, the best read, ...
    ruler: str = "best plain kernel"

    @property
    def names(self) -> tuple[str, ...]:
        """Who was timed: implementations, or the versions of a ladder in the order they are taught."""
        return tuple(speed.name for speed in self.speeds)

    def __bool__(self) -> bool:
        return bool(self.speeds)

    def __getitem__(self, name) -> Speed:
        for speed in self.speeds:
            if speed.name == name:
                return speed
        raise KeyError(f"{name!r} is not recorded for {self.what}; there are {', '.join(self.names) or 'none'}")

    def __str__(self) -> str:
        if not self.speeds:
            return f"{self.what}: not measured on {hardware.called(folder().name)} yet."
        width = max(map(len, self.names))
        lines = [f"{self.what}, beside the {self.ruler} of the same size"]
        for speed in self.speeds:
            peak = "" if speed.of_peak is None else f"  {speed.of_peak:4.0%} of the peak"
            share = f"{speed.of_copy:4.0%} of the {self.ruler}{peak}"
            lines.append(f"{speed.name:{width}}  {speed.us:9,.1f} us  {speed.gb_s:5,.0f} GB/s  {share}")
        spread = max(0.001, *(speed.spread for speed in self.speeds))
        lines.append(f"Half of the samples of each lie within {spread:.1%} of their median.")
        return "\n".join([*lines, textwrap.fill(self.provenance, WIDTH)])

    __repr__ = __str__

    def shares(self, *names) -> str:
        """The shares of those of `names` that were timed, of all without names: "ours 100%, quack 98% of the best copy"."""
        told = ", ".join(f"{name} {self[name].of_copy:.0%}" for name in names or self.names if name in self.names)
        return f"{told} of the {self.ruler}" if told else f"not measured on {hardware.called(folder().name)} yet"


def print_shares(cells, *names) -> None:
    """Print a line for each of `cells`, {what it is: what `recorded` gave}; one line at the end names those without a record.

    `names` are the implementations to print, by default all of them. TypeError unless `cells` is a dict.
    """
    if not isinstance(cells, dict):
        raise TypeError(f"print_shares: expected {{what it is: qt.recorded(...)}}, got {cells!r:.60}")
    for what, found in cells.items():
        if found:
            print(f"{what}: {found.shares(*names)}")
    print_lacking(what for what, found in cells.items() if not found)


def print_lacking(names) -> None:
    """Print in one line what was not measured on the card whose records are read; nothing where all was."""
    if names := [" ".join(name.split()) for name in names]:
        print(textwrap.fill(f"Not measured on {hardware.called(folder().name)} yet: {'; '.join(names)}.", WIDTH))


def recorded(operation: str, dtype: str, N: int, M: int | None = None, ladder: bool = False) -> Recorded:
    """The recorded speeds of `operation` ("softmax", "rmsnorm backward", ...) on M rows of N; M None is what goes with N.

    `ladder=True` gives the versions of the lesson, otherwise ours and the other implementations. A size that is not recorded gives
    an empty answer that says so. ValueError for an unknown operation or type, with the names of those there are, and for sizes that
    are not whole numbers of at least 1.
    """
    from quack_tutorial.operations import OPERATIONS, named
    from quack_tutorial.records import bench as records
    from quack_tutorial.records import results
    from quack_tutorial.records.cells import CellKey, default_rows, requested_dtypes
    from quack_tutorial.records.statistics import median

    (dtype,) = requested_dtypes(str(dtype).removeprefix("torch."))
    if any(isinstance(size, bool) or not isinstance(size, Integral) or size < 1 for size in (N, 1 if M is None else M)):
        raise ValueError(f"recorded: N and M are whole numbers of at least 1, got N={N!r}, M={M!r}")
    key = CellKey(named(operation), dtype, M or default_rows(N), N)
    found = records.latest_cells(records.load_records(operation=key.operation, series="ladder" if ladder else "peers"))
    if key not in found:
        return Recorded(str(key), (), "")
    record, cell = found[key]
    by_name = {result.provider: result for result in cell.results if result.status == "ok"}
    order = [name for name in OPERATIONS[key.operation].ladder if name in by_name] if ladder else list(by_name)
    speeds = tuple(
        Speed(
            name,
            by_name[name].gb_s,
            median(by_name[name].samples_us),
            by_name[name].fraction_of_ceiling,
            None if by_name[name].percent_of_datasheet is None else by_name[name].percent_of_datasheet / 100,
            by_name[name].iqr_us / 2 / median(by_name[name].samples_us),
        )
        for name in order
    )
    return Recorded(str(key), speeds, results.provenance(record), records.ruler([cell.ceiling])[0])


def _numbers(values):
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double().numpy() if values.is_floating_point() else values.numpy()
    return np.asarray(values).astype(np.float64)


def _dtype(values) -> str:
    return str(getattr(values, "dtype", "float64")).removeprefix("torch.")
