"""Sizes at which an answer may do something else than in its cases: the next cases are of these.

In a run on a small case the numbers of rows and columns are `Size`s. What the answer computes of one knows what it would be of
every other. So each comparison tells at which sizes it would end otherwise; and a remainder, or whatever else does not grow with
the size, which of its values no case has had. What a kernel compares with a number of its threads counts as a size.
"""

from __future__ import annotations

import operator
import random
import sys
from contextlib import ExitStack, suppress
from unittest import mock

import numpy as np

from cutesim.dialect import functions
from cutesim.machine import control
from cutesim.memory import arguments
from cutesim.simulation import simulate
from cutesim.values import numeric

from .judgement import DRAWN, FAST, Case

# Values of one number that are asked for, and among how many sizes from the first that is new.
FEW, MANY = 12, 1000
ROWS = 4096  # that a case may have
LEAST = 200  # of a number that counts as a size
COMPARED = ("<", "<=", ">", ">=", "==", "!=", "%", "//", "&")


class Size(int):
    """A size of the case, or a number computed of it: `of` gives it of an array of all sizes of that axis."""

    def __new__(cls, value: int, axis: int, of, noted: _Noted):
        self = super().__new__(cls, value)
        self.axis, self.of, self.noted = axis, of, noted
        return self

    __hash__ = int.__hash__

    def __bool__(self):
        return self != 0


def _operators(name: str, compares: bool):
    function = getattr(operator, name)

    def operate(self, other, turned=False):
        if not isinstance(other, int):
            return NotImplemented
        pair = lambda a, b: function(b, a) if turned else function(a, b)  # noqa: E731
        value = pair(int(self), int(other))
        same = isinstance(other, Size) and other.axis == self.axis
        of = lambda sizes: pair(self.of(sizes), other.of(sizes) if same else int(other))  # noqa: E731
        self.noted.number(self.axis, of, None if same else int(other), compares)
        return value if compares else Size(value, self.axis, of, self.noted)

    setattr(Size, f"__{name.strip('_')}__", operate)
    if not compares:
        setattr(Size, f"__r{name.strip('_')}__", lambda self, other: operate(self, other, True))


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _operators(_name, True)
for _name in ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "rshift"):
    _operators(_name, False)


class _Noted:
    """What a run's answer decides by, each once: at its place in the answer, of the sizes of an axis."""

    def __init__(self, files: set):
        self.files, self.found, self.constants = files, {}, {}

    def number(self, axis: int, of, other, compares: bool) -> None:
        frame = sys._getframe(2)
        while frame.f_code.co_filename in WAY:
            frame = frame.f_back
        if frame.f_code.co_filename in self.files:
            self.found.setdefault((frame.f_code, frame.f_lasti, other if compares else None), (axis, of))

    def binary(self, op: str, x, y):
        """`numeric.binary`, and what an integer of the threads meets."""
        for value, number in ((x, numeric.known(y)), (y, numeric.known(x))):
            integer = isinstance(value, numeric.Value) and value.dtype.is_integer
            if integer and op in COMPARED and type(number) is int and number >= LEAST:
                self.constants[number] = None
        return BINARY(op, x, y)


BINARY = numeric.binary
WAY = (__file__, control.__file__, functions.__file__)  # from the answer to a size's operator


def asked(answer, case: Case, others: list[Case], files: set, seen: list) -> tuple:
    """((rows, columns), ...) at which `answer` may do something else than on any of the cases, none longer than these.

    `seen` are (make, shape) of cases before: where there are none, a comparison is to end otherwise than in `case`, whatever it
    does on others, since it may lead to another.
    """
    rng, shape, noted = random.Random(repr((case.seed, case.make))), _shape(case), _Noted(files)
    sized = [Size(n, axis, lambda sizes: sizes, noted) for axis, n in enumerate(shape)]
    known = dict(zip(shape, sized))
    of_size = [all(one.make[k] in _shape(one) for one in others) for k in range(len(case.make))]
    make = [known[one] if sized else one for one, sized in zip(case.make, of_size)]
    tensors = [x.copy() for x in (*case.inputs.values(), *case.outputs.values())]
    with ExitStack() as stack:
        for module, name, value in (
            (numeric, "binary", noted.binary),
            (numeric, "_KNOWN", (*numeric._KNOWN, Size)),
            (numeric, "_PYTHON", numeric._PYTHON | {Size: numeric.Int32}),
            (arguments, "plain", lambda values: tuple(known.get(int(v), int(v)) for v in values)),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        with suppress(Exception):  # a run on plain numbers has told
            simulate(answer(*make), *tensors, check=False, on_device=True, max_steps=10_000)
    every = [*seen, *((one.make, _shape(one)) for one in others)]
    most = ROWS, max(one[1] for _, one in every)
    alike = np.array([one for made, one in every if made == case.make or any(of_size)])
    steps, found = np.gcd.reduce(alike, axis=0), []
    ranges = [np.arange(step, last + 1, step) for step, last in zip(steps, most)]
    # Which sizes have been decided alike so far.
    paths = [np.ones(len(sizes), bool) for sizes in ranges]
    for axis, of in noted.found.values():
        sizes, path, at = ranges[axis], paths[axis], alike[:, axis] // steps[axis] - 1
        # Of sizes that the answer would never ask for.
        with np.errstate(all="ignore"), suppress(Exception):
            values = np.broadcast_to(of(sizes), sizes.shape)
            if values.dtype == bool or (np.diff(values) < 0).any():
                own = values[shape[axis] // steps[axis] - 1]
                first = values.dtype == bool and not seen
                new = path & (values != own if first else ~np.isin(values, values[at[path[at]]]))
                new &= sizes < sizes[new.argmax()] + MANY
                pairs = list(zip(values[new].tolist(), sizes[new].tolist()))
                one_each = dict(rng.sample(pairs, len(pairs))).values()
                found += [(axis, n) for n in list(one_each)[:FEW]]
                # And the nearest, behind which another comparison may lie.
                if values.dtype == bool and new.any():
                    found.append((axis, int(sizes[new][0])))
            if values.dtype == bool:
                path &= values == own
    found += [(axis, n + 1) for n in noted.constants if n not in shape for axis in (0, 1) if n < most[axis]]
    return tuple(dict.fromkeys((n, shape[1]) if axis == 0 else (shape[0], n) for axis, n in found))


def probed(cases: list[Case]) -> list[Case]:
    """Of each way in which a kernel is made the smallest case that tells rows from columns, and small ones that were asked for."""
    chosen: dict = {}
    for case in sorted(cases, key=lambda case: np.prod(_shape(case))):
        fast = case.schedule == FAST
        if len({*_shape(case), 1}) == 3 and (not fast or case.name == DRAWN and np.prod(_shape(case)) < 2**12):
            chosen.setdefault((case.make, fast and _shape(case)), case)
    return list(chosen.values())


def _shape(case: Case) -> tuple:
    return next(iter(case.inputs.values())).shape
