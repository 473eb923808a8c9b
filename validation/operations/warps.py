"""Cases of the suite `operations`: shuffles, votes and reductions of warps, reductions of vectors, atomics, barriers.

Sections named here are those of the PTX ISA 9.0.
"""

from __future__ import annotations

import math
import operator
from functools import partial, reduce

import cutlass
import cutlass.cute as cute
import numpy as np

from validation.operations import kernels as k
from validation.operations import vectors as v
from validation.operations.operation import (
    BLOCK,
    STORAGE,
    WARP,
    Case,
    Operation,
    as_bits,
    case,
    float_pairs,
    integer_pairs,
    second_if,
    width_of,
)

# ---- warps ----------------------------------------------------------------------------------------------------------

# Of the shuffles, a warp each.
DISTANCES = np.array([0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 30, 31])
WARPS = len(DISTANCES)
LANES = np.arange(WARP * WARPS)
# mask_and_clamp: segments of 32, 16, 8, 4, 2 lanes (the segment mask is 32 - width), then clamps that cut segments short
SEGMENTS = tuple((32 - width) << 8 for width in (32, 16, 8, 4, 2))
SHUFFLES = (
    ("idx", "shuffle_sync", [s | 31 for s in SEGMENTS] + [0x0007, 0x1003, 0x0C1F]),
    ("down", "shuffle_sync_down", [s | 31 for s in SEGMENTS] + [0x0007, 0x180C]),
    ("bfly", "shuffle_sync_bfly", [s | 31 for s in SEGMENTS] + [0x000F, 0x1C05]),
    ("up", "shuffle_sync_up", [*SEGMENTS, 0x0003, 0x1812]),
)

KINDS = {"add": operator.add, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "max": max, "min": min}


def warp_cases():
    """Sections shfl.sync, vote.sync, redux.sync, elect.sync."""
    values = (LANES + 0x40000000).astype(np.uint32)
    for kind, name, clamps in SHUFFLES:
        # idx: every lane asks for its own; the others: a warp a distance
        distance = (LANES * 13 + LANES // 32 * 5) % 32 if kind == "idx" else DISTANCES[LANES // 32]
        rows = []
        for c in clamps:
            at = [lane // 32 * 32 + v.shuffled(kind, lane % 32, int(b), c) for lane, b in zip(LANES, distance)]
            rows.append((f"cute.arch.{name}", f"cute.arch.{name}(a, b, mask_and_clamp={c})", values[at], "bits"))
        yield case(f"shuffle {kind}", ("Int32", "Int32"), [values, distance], rows)
    yield from typed_shuffles()
    yield from votes()
    yield from reductions_of_warps()


def typed_shuffles():
    """Values of other widths move as they are."""
    for name in ("Float32", "Float64", "Int64", "Float16", "BFloat16", "Int16", "Int8"):
        width = width_of(name)
        values = as_bits(name, v.random_bits(width, WARP * 4, 18))
        if name in v.FLOATS:
            values[: len(v.edges(v.FLOATS[name]))] = v.edges(v.FLOATS[name])
        lanes = LANES[: len(values)]
        row = "shuffles of other types" if width >= 32 else "shuffles of 8 and 16 bits"
        how = "bits" if width >= 32 else None  # 16-bit floats travel as float32
        read = {"shuffle_sync_bfly(a, 21)": lanes ^ 21, "shuffle_sync(a, 9)": lanes // 32 * 32 + 9}
        rows = [(row, f"cute.arch.{called}", values[source], how) for called, source in read.items()]
        yield case(f"shuffles of {name}", (name, name), [values], rows)


def votes():
    """Ballots of patterns: nobody, everybody, one lane, all but one, halves, alternating, and random ones."""
    patterns = [0, 0xFFFFFFFF, 1, 1 << 31, 0xFFFFFFFE, 0x7FFFFFFF, 0xFFFF, 0xFFFF0000, 0x55555555]
    patterns += v.random_bits(32, WARPS - len(patterns), 17)
    says = np.array([pattern >> lane & 1 for pattern in patterns for lane in range(WARP)], np.uint32)
    ballots = np.repeat(np.array(patterns, np.uint32), WARP)
    none, every = ballots == 0, ballots == 0xFFFFFFFF
    rows = [
        ("cute.arch.vote_ballot_sync", "cute.arch.vote_ballot_sync(a != 0)", ballots),
        ("cute.arch.vote_any_sync", "Int32(cute.arch.vote_any_sync(a != 0))", ~none),
        ("cute.arch.vote_all_sync", "Int32(cute.arch.vote_all_sync(a != 0))", every),
        ("cute.arch.vote_uni_sync", "Int32(cute.arch.vote_uni_sync(a != 0))", none | every),
    ]
    yield case("votes", ("Int32", "Int32"), [says], rows)

    halves = np.where(LANES % 32 < 16, 0xFFFF, 0xFFFF0000).astype(np.uint32)
    named = ballots & halves
    x = as_bits("Int32", says)[None]
    answers = [named, named != 0, named == halves]
    answers += [(named == 0) | (named == halves), x[0][LANES ^ 5]]
    names = ["vote_ballot_sync", "vote_any_sync", "vote_all_sync"]
    names += ["vote_uni_sync", "shuffle_sync_bfly"]
    yield hand_made(
        "half warps", k.HalfWarps(), x, [(f"cute.arch.{n}, half a warp's mask", a) for n, a in zip(names, answers)]
    )
    yield hand_made("elect", k.ElectOne(), x[:, :BLOCK], [("cute.arch.elect_one: one lane of a warp", np.full(4, 2))])


def hand_made(name, host, x, rows, types=("Int32", "Int32")) -> Case:
    """A case whose kernel is not `Each`: a row of out an operation, its answers in bits."""
    operations = tuple(
        Operation(row, f"{i} {row}", np.asarray(a).astype(STORAGE[types[1]][0])) for i, (row, a) in enumerate(rows)
    )
    count = len(operations[0].answers)
    return Case(name, host, types, x, (len(rows), count), operations, count)


def reductions_of_warps():
    edge = list(v.integer_edges(32))
    values = np.array([edge[i % len(edge)] for i in range(WARP * 4)] + v.random_bits(32, WARP * 8, 19), np.int64)
    values[:WARP] = -3  # a warp of one number, and one of the largest
    values[WARP : 2 * WARP] = (1 << 31) - 1
    warps = [[v.wrapped(int(x), 32) for x in warp] for warp in values.reshape(-1, WARP)]
    unsigned = [[x & 0xFFFFFFFF for x in warp] for warp in warps]

    def folded(function, source):
        each = [v.wrapped(reduce(function, warp), 32, False) for warp in source]
        return np.repeat(np.array(each, np.uint32), WARP)

    redux = [*((kind, f, warps) for kind, f in KINDS.items()), ("umax", max, unsigned), ("umin", min, unsigned)]
    rows = [
        (f"cute.arch.warp_redux_sync, {kind}", f'cute.arch.warp_redux_sync(a, "{kind}")', folded(f, source))
        for kind, f, source in redux
    ]
    rows.append(("cute.arch.warp_reduction_sum", "", folded(operator.add, warps)))
    rows.append(("cute.arch.warp_reduction_max", "", folded(max, warps)))
    first = np.repeat(np.array([warp[0] for warp in unsigned], np.uint32), WARP)
    rows.append(("cute.arch.make_warp_uniform", "", first))
    yield case("warp reductions", ("Int32", "Int32"), [values], rows)
    yield from float_warps()


def float_warps():
    """Butterflies of float32, rounded after every step as the hardware does."""
    for name in ("Float32", "Float64"):
        format = v.FLOATS[name]
        ordinary = [format.encode(x) for x in v.random_numbers(200.0, WARP * 4, 20)]
        bits = ordinary + [v.edges(format)[i % 34] for i in range(0, WARP * 4 * 5, 5)]

        def fold(function, width, format=format, bits=bits):
            numbers = [format.decode(b) for b in bits]
            offset = width // 2
            while offset:
                numbers = [
                    format.decode(format.encode(function(numbers[i], numbers[i ^ offset]))) for i in range(len(numbers))
                ]
                offset //= 2
            return np.array([format.encode(x) for x in numbers], STORAGE[format.name][0])

        # Of float64 the maximum is compiled like cutlass.max, with which NaN wins.
        pick = v.largest if name == "Float32" else second_if(operator.le, 1)
        rows = []
        for kind, given, function, width in (
            ("_sum", "", v.add, 32),
            ("_sum", "", v.add, 4),
            ("", "operator.mul, ", v.multiply, 16),
            ("_max", "", pick, 32),
            ("_max", "", pick, 8),
        ):
            called = f"cute.arch.warp_reduction{kind}"
            group = (f"{called}, threads_in_group", f"{called}(a, {given}threads_in_group={width})")
            rows.append((*((called, "") if width == WARP else group), fold(function, width)))
        yield case(f"{name} warp reductions", (name, name), [bits], rows)


# ---- reductions of vectors, atomics, barriers -----------------------------------------------------------------------


def reduction_cases():
    """TensorSSA.reduce: ADD and MUL fold from the left, MAX and MIN let NaN win."""
    count = BLOCK
    for name in ("Float32", "Float16", "BFloat16"):
        format = v.FLOATS[name]
        ordinary = [format.encode(x) for x in v.random_numbers(60.0, count * 4, 21)]
        edge = [v.edges(format)[(7 * i + i // 34) % 34] for i in range(count * 4)]
        x = as_bits(name, ordinary + edge)
        most, least = (partial(pick, nan=True) for pick in (v.largest, v.smallest))
        operations = dict(ADD=v.add, MUL=v.multiply, MAX=most, MIN=least)

        def fold(function, format=format, x=x):
            rounded = lambda total, bits: format.decode(format.encode(function(total, format.decode(bits))))  # noqa: E731
            return np.array([format.encode(reduce(rounded, group, 1.0)) for group in x.reshape(-1, 8)])

        rows = [(f"TensorSSA.reduce, {op}", fold(f)) for op, f in operations.items()]
        host = k.Reduce([getattr(cute.ReductionOp, op) for op in operations], 1.0)
        yield hand_made(f"{name} reduce", host, x[None], rows, (name, name))
    x = as_bits("Int32", v.random_bits(32, count * 8, 22))
    groups = [[v.wrapped(int(b), 32) for b in group] for group in x.reshape(-1, 8)]
    rows = [
        ("TensorSSA.reduce, ADD", as_bits("Int32", [3 + sum(group) for group in groups])),
        ("TensorSSA.reduce, MUL", as_bits("Int32", [3 * math.prod(group) for group in groups])),
    ]
    host = k.Reduce([cute.ReductionOp.ADD, cute.ReductionOp.MUL], 3)
    yield hand_made("Int32 reduce", host, x[None], rows)


INTEGER_ATOMICS = {
    "atomic_add": KINDS["add"],
    "atomic_max": KINDS["max"],
    "atomic_min": KINDS["min"],
    "atomic_and": KINDS["and"],
    "atomic_or": KINDS["or"],
    "atomic_xor": KINDS["xor"],
    "atomic_exch": lambda old, new: new,
}


def atomic_cases():
    """Section atom: what it returns and leaves; float32 sums in global memory flush subnormals, in shared memory not."""
    for shared in (False, True):
        where = "shared" if shared else "global"
        for name in ("Int32", "Int64"):
            left, right = (column[: 2 * BLOCK] for column in integer_pairs(width_of(name)))
            x = np.stack([as_bits(name, left), as_bits(name, right)])
            for op, function in INTEGER_ATOMICS.items():
                after = as_bits(name, [function(a, b) for a, b in zip(left, right)])
                row = f"cute.arch.{op}"
                host = k.Atomic(getattr(cute.arch, op), getattr(cutlass, name), shared)
                yield hand_made(f"{row} of {name}, {where}", host, x, [(row, x[0]), (row, after)], (name, name))
        for name in ("Float32", "Float16"):
            yield _float_atomic(name, shared, where)
    x = as_bits("Int32", v.random_bits(32, BLOCK, 23))
    numbers = [v.wrapped(int(b), 32) for b in x]
    names, lefts = [op for op in INTEGER_ATOMICS if op != "atomic_exch"], []
    for op in names:
        left = reduce(lambda total, number: v.wrapped(INTEGER_ATOMICS[op](total, number), 32), numbers, 5)
        lefts.append(as_bits("Int32", [left]))
    host = k.Contended([getattr(cute.arch, op) for op in names])
    yield hand_made("contended atomics", host, x[None], [(f"cute.arch.{op}", a) for op, a in zip(names, lefts)])


def _float_atomic(name, shared, where):
    format = v.FLOATS[name]
    left, right = (as_bits(name, column[: 9 * BLOCK]) for column in float_pairs(format))
    flush = v.flushed if name == "Float32" and not shared else float

    def total(a, b):
        exact = v.add(flush(format.decode(a)), flush(format.decode(b)))
        return format.encode(flush(format.decode(format.encode(exact))))

    after = np.array([total(a, b) for a, b in zip(left, right)])
    host = k.Atomic(cute.arch.atomic_add, getattr(cutlass, name), shared)
    row = f"cute.arch.atomic_add of floats, {where} memory"
    return hand_made(f"{row}: {name}", host, np.stack([left, right]), [(row, left), (row, after)], (name, name))


def barrier_cases():
    """Sections bar, mbarrier.init, mbarrier.arrive, mbarrier.test_wait, st.async; last, since a wrong one may wait for ever."""
    lanes = np.arange(WARP)
    x = as_bits("Int32", v.random_bits(32, BLOCK, 24))[None]
    swapped = np.concatenate([x[0, 32:64], x[0, :32], x[0, 64:96], x[0, 64:96]])
    yield hand_made("named barriers", k.Named(), x, [("named barriers", swapped)])
    waits = [("mbarrier_wait, phase by phase", lanes + step) for step in range(k.Phases.PHASES + 1)]
    yield hand_made("mbarrier waits", k.Phases(), x[:, :WARP], waits)
    # (parity 0 is over, parity 1 is over): fresh, after one arrival of two, after two, after four
    tests = [0, 1, 0, 1, 1, 0, 0, 1]
    rows = [("mbarrier_test_wait", np.full(WARP, said)) for said in tests]
    yield hand_made("mbarrier tests", k.PhaseTests(), x[:, :WARP], rows)
    sent = np.repeat([x[0, 32 + 7], x[0, 7]], WARP)
    yield hand_made(
        "bytes before expect_tx", k.EarlyBytes(), x[:, : 2 * WARP], [("bytes that arrive before expect_tx", sent)]
    )
