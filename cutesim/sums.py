"""In what order a result's terms were added, and whether a row's bits depend on anything but the row.

`trees` runs a kernel on the simulator and keeps of every element how it was made (`values.trees`); `Tree` is what was made of one.
`same_bits` runs it again on other batches of the same rows, and in other orders of its warps, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutesim.context import SimulationError
from cutesim.memory.arguments import as_array
from cutesim.simulation import simulate
from cutesim.values.trees import Trees

SEEDS = 3


@dataclass(frozen=True)
class Tree:
    """How one element was made; its sum is the largest that occurs in it, rescaled on the way or not."""

    table: Trees
    place: int

    @cached_property
    def sum(self) -> int | None:
        """The place of the largest sum, None where nothing is added."""
        seen, rest, sums = set(), [self.place], []
        while rest:
            at = rest.pop()
            if at in seen or not isinstance(node := self.table.nodes[at], tuple):
                continue
            seen.add(at)
            if node[0] == "add":
                sums.append(at)
            rest.extend(node[1:])
        largest = max(sums, key=lambda at: len(self._terms_of(at)), default=None)
        while largest is not None and (inner := self._without_a_constant(largest)) is not None:
            largest = inner
        return largest

    @cached_property
    def terms(self) -> list:
        """Of each term, in the order of the sum: (its place, additions between it and the sum, what last rescaled it or None)."""
        return self._terms_of(self.sum) if self.sum is not None else []

    @property
    def depth(self) -> int:
        """Additions on the longest way from a term to the sum."""
        return max((depth for _, depth, _ in self.terms), default=0)

    def parts(self, at: int) -> tuple | None:
        """What is added at a place of the sum; of a rescaled sum that sum alone; None of a term."""
        node = self.table.nodes[at]
        if not isinstance(node, tuple):
            return None
        if node[0] == "add":
            return node[1:]
        if node[0] in ("multiply", "divide") and node[1] != node[2]:
            sums = [arg for arg in node[1:] if self._is_sum(arg)]
            return tuple(sums) if len(sums) == 1 else None
        return None

    def _without_a_constant(self, at: int) -> int | None:
        """The sum to which a number of the source, such as an epsilon, is added in the end."""
        parts = self.parts(at)
        sums = [part for part in parts if self._is_sum(part)]
        alone = len(parts) == 1 or any(part in self.table.constants for part in parts)
        return sums[0] if len(sums) == 1 and alone and len(self._terms_of(sums[0])) > 2 else None

    def _is_sum(self, at: int) -> bool:
        node = self.table.nodes[at]
        return isinstance(node, tuple) and (node[0] == "add" or self.parts(at) is not None)

    def _terms_of(self, root: int) -> list:
        found, rest = [], [(root, 0, None)]
        while rest:
            at, depth, factor = rest.pop()
            parts = self.parts(at)
            if parts is None:
                found.append((at, depth, factor))
                continue
            if len(parts) == 1:
                factor = next(arg for arg in self.table.nodes[at][1:] if arg != parts[0])
            rest.extend((part, depth + (len(parts) == 2), factor) for part in reversed(parts))
        return found

    def columns(self, row) -> list:
        """Of each term the place in `row` of a number that it, or else its factor, was made of; None where there is none."""
        numbers = np.asarray(row, np.float64).tolist()
        places = {number: at for at, number in reversed([*enumerate(numbers)])}
        found = []
        for at, _, factor in self.terms:
            leaves = [leaf for one in (at, factor) if one is not None for leaf in self.leaves(one)]
            found.append(next((places[leaf] for leaf in leaves if leaf in places), None))
        return found

    def leaves(self, at: int) -> list:
        """The numbers that an expression is made of, each once."""
        seen, rest, found = set(), [at], []
        while rest:
            at = rest.pop()
            if at in seen:
                continue
            seen.add(at)
            node = self.table.nodes[at]
            if isinstance(node, tuple):
                rest.extend(reversed(node[1:]))
            else:
                found.append(node)
        return found

    def __str__(self) -> str:
        if self.sum is None:
            return "nothing is added"
        return f"{len(self.terms):,} terms, {self.depth} additions between the deepest and the sum"


def trees(kernel, *args, **options) -> dict:
    """{float tensor of `args`: an array of its elements' `Tree`s} of a run on copies; `options` are `simulate`'s."""
    table = Trees()
    made = np.vectorize(lambda place: Tree(table, int(place.real)), otypes=[object])
    return {name: made(places) for name, places in results(kernel, args, table, options)[0].items()}


@dataclass(frozen=True)
class Answer:
    """Whether two runs made the same, None where that cannot be said; `said` says it in a sentence."""

    same: bool | None
    said: str

    def __bool__(self) -> bool:
        return bool(self.same)

    def __str__(self) -> str:
        return self.said


@dataclass(frozen=True)
class Bits(Answer):
    """Whether all runs made the same bits; `trees` is how the first element that differs was made in two of them."""

    trees: tuple = ()


def same_bits(kernel, *args, **options) -> Bits:
    """Whether what a kernel makes of a row depends on that row alone: not on how many rows there are, on its place among them, on
    what its neighbours hold, or on the order in which warps run.

    The first extent of the first tensor (an array or a CPU tensor; they stay as they are) is the number of rows; each other tensor
    with that extent has a row for each, too, and an int that is this number is each batch's. What belongs to no row, as a sum over
    all, is compared between orders alone. `options` are `simulate`'s; `check=False` leaves the orders out. ValueError where a run
    has a finding, for fewer than three rows, or for as many columns.
    """
    shapes = [np.shape(x) for x in args]
    M = next((shape[0] for shape in shapes if shape), 0)
    if M < 3 or any(M in shape[1:] for shape in shapes):
        raise ValueError(f"{M} rows: take three or more, and not as many as columns")
    table, rows, fast = Trees(), range(M), options | {"check": False}
    forward, once = (results(kernel, args, table, how) for how in (options, fast))
    batches = {
        "alone": [0],
        f"in a batch of {M - 1}": [*rows[:-1]],
        f"in a batch of {3 * M}": [*rows] * 3,
        "in another place": [*rows[1:], 0],
        "beside other neighbours": [0] + [1] * (M - 1),
    }
    for how, taken in batches.items():
        batch = [_of_batch(x, shape, M, taken) for x, shape in zip(args, shapes)]
        of_rows = [{name: a[taken] for name, a in part.items() if a.shape[:1] == (M,)} for part in once]
        try:
            other = results(kernel, batch, table, fast)
        except SimulationError as error:
            return Bits(False, f"not the same {how} than among {M} rows: {error.finding}")
        apart = _apart(table, of_rows, other, f"{how} than among {M} rows", taken)
        if apart is not None:
            return apart
    seeded = [{"schedule": "seeded", "seed": seed} for seed in range(SEEDS)]
    # Without `check` all warps of a block run in lockstep.
    orders = [{"schedule": "reverse"}, *seeded] * options.get("check", True)
    for order in orders:
        other = results(kernel, args, table, options | order)
        if (apart := _apart(table, forward, other, "in another order of the warps")) is not None:
            return apart
    also = f", and in {len(orders) + 1} orders of the warps"
    also = also if orders else "; other orders of the warps were not tried"
    return Bits(True, f"the same bits: {', '.join(batches)}{also}")


def _of_batch(x, shape, M: int, taken: list):
    """Of an argument for M rows what a batch of those `taken` is given."""
    if shape[:1] == (M,):
        return x[taken]
    return len(taken) if type(x) is int and x == M else x


def results(kernel, args, exact, options) -> tuple[dict, dict]:
    """({float tensor: what `exact` keeps of its elements}, {tensor: its bits}) of a run on copies; ValueError for a finding."""
    copies = [x.clone() if hasattr(x, "clone") else x.copy() if hasattr(x, "copy") else x for x in args]
    run = simulate(kernel, *copies, exact=exact, **options)
    if not run.ok or run.exact is None:
        raise ValueError(f"{getattr(kernel, '__name__', type(kernel).__name__)} has a finding: {run}")
    floats = [as_array(x) for x in copies if hasattr(x, "shape")]
    held = [array for array, dtype in floats if dtype.is_float]
    return run.exact, dict(zip(run.exact, held, strict=True))


def _apart(table, first, other, where: str, rows=None) -> Bits | None:
    """What is said of the first element that two runs made differently; `rows` are those of the first run that the other had."""
    for name, made in first[0].items():
        arrays = (part[name] for part in (first[1], other[1]))
        bits = [array.view(f"i{array.itemsize}").reshape(made.shape) for array in arrays]
        differ = (made.real != other[0][name].real) | (bits[0] != bits[1])
        if not differ.any():
            continue
        at = tuple(int(k[0]) for k in np.nonzero(differ))
        pair = tuple(Tree(table, int(part[name][at].real)) for part in (first[0], other[0]))
        place = f"{name}[{', '.join(map(str, at if rows is None else (rows[at[0]], *at[1:])))}]"
        orders = f" ({pair[1]}; {pair[0]})" if str(pair[0]) != str(pair[1]) else ""
        chance = "" if (bits[0] != bits[1]).any() else "; these numbers' bits agree by chance"
        return Bits(False, f"not the same bits: {place} is made otherwise {where}{orders}{chance}", pair)
    return None
