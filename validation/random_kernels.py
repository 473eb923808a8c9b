"""Small random CuTe DSL kernels, from a seed: what they are made of, and their source text.

A program is a tree of the statements below over six variables a thread, three Int32 and three Float32. `source` writes it
as a kernel; `random_reference` works out what it computes. Everything is exact: integers wrap around, floats are added and
multiplied in a fixed order, one rounding each (no operation that a compiler might fuse is compared with one).

| statement     | in the kernel                                                                   | executed together by  |
|---------------|---------------------------------------------------------------------------------|-----------------------|
| `Assign`      | an operation on integers or floats, or Int32 made Float32                        | one thread            |
| `Load`        | an element of the input if its index, which is computed, is inside               | one thread            |
| `Atomic`      | added to one of four global counters, which nobody reads                         | one thread            |
| `If`          | a dynamic `if`, on numbers of the thread, warp, block or cluster                 | one thread            |
| `For`, `While` | a dynamic loop, as often as a constant, the thread, warp or block says          | one thread            |
| `Shuffle`     | one of the four, by a warp's 32 lanes                                            | a warp                |
| `Vote`        | ballot, any, all, or a reduction over the warp by one instruction                | a warp                |
| `Exchange`    | written to shared or global memory, barrier, another thread's read, barrier       | a warp, some warps, a block |
| `Handover`    | some warps write and arrive, the others wait and read; the same the other way back | some warps            |
| `Meeting`     | as `Exchange`, with the next block of the cluster, through global memory         | a cluster             |
| `Remote`      | as `Exchange`, with a plain store to the next block's shared memory              | a cluster             |
| `Send`        | st.async to the next block, where an mbarrier waits for it                       | a cluster             |

The barriers of an `Exchange` are those of the warp, named ones of just the warps that execute it, or the block's.

Race-free by construction: each thread writes its own element of a buffer, others read it only after a barrier, and a second
barrier follows before the buffer can be written again; a `Send` has words of its own. `source(program, dropped=k)` leaves
out barrier k, or, where it is a cluster's and the seed is odd, makes its arrival a relaxed one, which orders no memory.
"""

from __future__ import annotations

import builtins
import linecache
import math
import operator
import random
from dataclasses import dataclass, make_dataclass, replace
from functools import reduce

import numpy as np

from cutesim.language.loading import answer_imports

VERSION = 2  # of what is made of a seed: (VERSION, seed) names a program
INTS, FLOATS = ("a0", "a1", "a2"), ("f0", "f1", "f2")
PLACES = ("tidx", "lane", "warp", "block")  # integers of a thread that programs read and do not write
THREAD, WARP, BLOCK, CLUSTER = range(4)  # what executes a statement as one
DEPTH = 3
MOST_BARRIERS = 12
KEEP = 0.5  # how often an operation changes a variable and does not replace it, so that what was computed is not lost
BUFFERS = {"sA": "a", "sF": "f", "mT": "f"}  # name -> the variables it holds; mT is global
SCRATCH = "mT"
COUNTERS = 4


# ---- programs -------------------------------------------------------------------------------------------------------


def _statement(name: str, fields: str, *bases):
    """A kind of statement; operands are names or numbers, `body` and the like are statements."""
    return make_dataclass(name, fields.split(), bases=bases, frozen=True)


Assign = _statement("Assign", "target operation left right")  # target = operation(left, right)
# target = mX[index + offset] where that is one of the tensor's elements
Load = _statement("Load", "target index offset")
Atomic = _statement("Atomic", "index value")  # mC[index % 4] += value
If = _statement("If", "operation left right body orelse")
# Runs `body` `modulus` times, or (count % modulus) times where `count` names an integer that is not negative.
For = _statement("For", "variable count modulus body")
While = _statement("While", "", For)
Shuffle = _statement("Shuffle", "target kind value offset")
Vote = _statement("Vote", "target kind left operation right")  # of `left operation right`, or of `left` for a reduction
# buffer[own] = value; between; barrier `first`; target = buffer[another's]; after; barrier `first + 1`. `warps` (first, last + 1)
# take part, and a thread reads from the one `shift` further among theirs; None: each warp on its own.
Exchange = _statement("Exchange", "buffer target value shift between after first warps")
# The first `producers` warps write the buffer, the others read from it; barriers `first` and `first + 1`.
Handover = _statement("Handover", "buffer target value shift producers first")
# mT[own] = value; between; cluster barrier `first`; target = mT[the next block's]; cluster barrier `first + 1`.
Meeting = _statement("Meeting", "target value shift between first")
# The next block's sR[tidx] = value; cluster barrier `first`; target = sR[another's]; cluster barrier `first + 1`.
Remote = _statement("Remote", "target value shift first")
# The next block's sC[slot, tidx] = value by st.async; wait `first`; target = sC[slot, another's].
Send = _statement("Send", "target value shift slot first")


@dataclass(frozen=True)
class Program:
    """`n` elements of input and a column of output each; threads behind the last do not load or store them.

    `cluster` blocks form a cluster; `sends` is how many `Send`s there are.
    """

    seed: int
    threads: int
    blocks: int
    n: int
    body: tuple
    barriers: int
    cluster: int = 1
    sends: int = 0


# ---- what statements mean, as the interpreter needs it; numbers are Python's --------------------------------------------


def remainder(a: int, b: int) -> int:
    """C's: it takes the sign of what is divided."""
    return int(math.fmod(a, b))


def larger(a: float, b: float) -> float:
    """The larger of two numbers; +0 is larger than -0."""
    return a if (a, math.copysign(1, a)) > (b, math.copysign(1, b)) else b


def smaller(a: float, b: float) -> float:
    return b if larger(a, b) is a else a


INT_OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "^": operator.xor,
    "&": operator.and_,
    "|": operator.or_,
    "//": operator.floordiv,  # by a positive number
    "%": remainder,  # by a positive number
    "<<": operator.lshift,
    ">>": operator.rshift,
}
FLOAT_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "fmax": larger, "fmin": smaller}
COMPARE = operator.lt, operator.le, operator.eq, operator.ne, operator.gt
COMPARISONS = dict(zip(("<", "<=", "==", "!=", ">"), COMPARE))
SHUFFLES = {
    "shuffle_sync": lambda lane, by: by,
    "shuffle_sync_up": lambda lane, by: lane if lane < by else lane - by,
    "shuffle_sync_down": lambda lane, by: lane if lane + by > 31 else lane + by,
    "shuffle_sync_bfly": lambda lane, by: lane ^ by,
}
VOTES = {
    "ballot": lambda lanes: sum(bool(x) << lane for lane, x in enumerate(lanes)),
    "any": lambda lanes: int(any(lanes)),
    "all": lambda lanes: int(all(lanes)),
}
REDUCTIONS = {
    "add": sum,
    "max": max,
    "min": min,
    "xor": lambda lanes: reduce(operator.xor, lanes),
    "and": lambda lanes: reduce(operator.and_, lanes),
    "or": lambda lanes: reduce(operator.or_, lanes),
}


# ---- drawing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Where:
    """Where a statement stands: what executes it as one, which warps (first, last + 1), under which loops."""

    together: int
    warps: tuple
    depth: int = 0
    loops: tuple = ()

    def inner(self, together, warps=None, loop=()):
        return _Where(together, warps or self.warps, self.depth + 1, (*self.loops, *loop))

    def alone(self):
        """Where threads go their own ways, and no `if` follows."""
        return replace(self, together=THREAD, depth=DEPTH)


class _Maker:
    """Draws a program's statements."""

    def __init__(self, seed):
        self.random = random.Random(f"{VERSION} {seed}")
        self.barriers = self.loops = self.sends = 0

    def program(self, seed) -> Program:
        threads = self.random.choice((32, 64, 64, 96, 128))
        cluster = self.random.choice((1, 1, 2))
        blocks = self.random.choice((1, 2, 3)) if cluster == 1 else self.random.choice((2, 4))
        n = threads * blocks - self.random.choice((0, 0, 1, 17))
        self.threads, self.cluster = threads, cluster
        top = _Where(CLUSTER if cluster > 1 else BLOCK, (0, threads // 32))
        body = self.block(self.random.randint(6, 10), top)
        # At last one buffer twice, by all threads: its barriers are all needed but the last, and what is read is put out.
        buffer = self.random.choice(list(BUFFERS))
        body += (self.exchange(top, buffer), self.exchange(top, buffer))
        return Program(seed, threads, blocks, n, body, self.barriers, cluster, self.sends)

    def block(self, count, where) -> tuple:
        return tuple(self.statement(where) for _ in range(count))

    def statement(self, where):
        kinds = ["assign_int"] * 2 + ["assign_float"] * 2 + ["load", "atomic"]
        kinds += ["branch", "loop"] * 2 if where.depth < DEPTH else []
        kinds += ["shuffle", "vote"] * 2 if where.together >= WARP else []
        if self.barriers < MOST_BARRIERS:
            kinds += ["exchange"] * (4 if where.together >= BLOCK else where.together)
            all_warps = where.together >= BLOCK and where.warps == (0, self.threads // 32)
            kinds += ["handover"] * 2 * (all_warps and self.threads > 32)
            kinds += ["meeting", "remote"] * 2 * (where.together == CLUSTER)
            kinds += ["send"] * 2 * (where.together == CLUSTER and where.depth == 0)
        return getattr(self, self.random.choice(kinds))(where)

    def two_barriers(self) -> int:
        self.barriers += 2
        return self.barriers - 2

    def assign_int(self, where):
        operation = self.random.choice(list(INT_OPERATIONS))
        target = self.random.choice(INTS)
        left = target if self.random.random() < KEEP else self.random.choice(INTS + PLACES + where.loops)
        if operation in ("//", "%"):
            right = self.random.randint(2, 9)
        elif operation in ("<<", ">>"):
            right = self.random.randint(1, 7)
        else:
            right = self.random.choice((*INTS, *PLACES, *where.loops, self.random.randint(-99, 99)))
        return Assign(target, operation, left, right)

    def assign_float(self, where):
        target = self.random.choice(FLOATS)
        left = target if self.random.random() < KEEP else self.random.choice(FLOATS)
        operation = self.random.choice([*FLOAT_OPERATIONS, "Float32"])
        if operation == "Float32":
            return Assign(target, operation, self.random.choice(INTS + where.loops), None)
        if operation == "*":  # by small numbers, so that nothing overflows
            return Assign(target, operation, left, self.random.choice((0.5, -0.75, 0.3, 1.25)))
        return Assign(target, operation, left, self.random.choice((*FLOATS, 0.1, -3.7)))

    def load(self, where):
        index = self.random.choice(PLACES + INTS + where.loops)
        return Load(self.random.choice(FLOATS), index, self.random.randint(-5, 40))

    def atomic(self, where):
        return Atomic(self.random.choice(PLACES + where.loops), self.random.choice(INTS))

    def branch(self, where):
        same = self.random.randint(THREAD, where.together)  # what the condition is the same for
        operation = self.random.choice(list(COMPARISONS))
        inner = orelse = where.inner(same)
        if same == THREAD:
            floats = self.random.random() < 0.3
            left = self.random.choice(FLOATS if floats else INTS + PLACES[:2] + where.loops)
            right = self.random.choice(FLOATS) if floats else self.random.choice((*INTS, self.random.randint(0, 40)))
        elif same == WARP:
            left, right = "warp", self.random.randint(0, 2)
            if where.together >= BLOCK:  # it is known which warps go where, so these can have barriers of their own
                taken = [COMPARISONS[operation](warp, right) for warp in range(*where.warps)]
                inner, orelse = (self.of_warps(where, taken, way) for way in (True, False))
        else:
            left, right = "cluster" if same == CLUSTER else "block", self.random.randint(0, 1)
        body = self.block(self.random.randint(1, 3), inner)
        return If(operation, left, right, body, self.block(self.random.randint(0, 2), orelse))

    def of_warps(self, where, taken, way):
        """What an arm is for the warps that take it: BLOCK if they are neighbours, so that barriers can count them."""
        here = [warp for warp, went in zip(range(*where.warps), taken) if went == way]
        if here and here[-1] - here[0] == len(here) - 1:
            return where.inner(BLOCK, (here[0], here[-1] + 1))
        return where.inner(WARP)

    def loop(self, where):
        same = self.random.randint(THREAD, where.together)
        block = self.random.choice(("", "block"))
        count = {THREAD: "lane", WARP: "warp", BLOCK: block, CLUSTER: ""}[same]
        self.loops += 1
        variable, kind = f"k{self.loops}", self.random.choice((For, For, While))
        body = self.block(self.random.randint(1, 3), where.inner(same, loop=(variable,)))
        return kind(variable, count, self.random.randint(2, 3), body)

    def shuffle(self, where):
        names = self.random.choice((INTS, FLOATS))
        kind = self.random.choice(list(SHUFFLES))
        return Shuffle(self.random.choice(names), kind, self.random.choice(names), self.random.randint(0, 31))

    def vote(self, where):
        right = self.random.choice((*INTS, self.random.randint(-40, 40)))
        kind, operation = self.random.choice((*VOTES, *REDUCTIONS)), self.random.choice(list(COMPARISONS))
        return Vote(self.random.choice(INTS), kind, self.random.choice(INTS + PLACES[:2]), operation, right)

    def exchange(self, where, buffer=None):
        whole = where.together >= BLOCK and (buffer is not None or self.random.random() < 0.75)
        buffer = buffer or self.random.choice(list(BUFFERS))
        target, value = self.two_variables(BUFFERS[buffer])
        warps = where.warps if whole else None
        shift = self.random.randint(1, (32 * (warps[1] - warps[0]) if warps else 32) - 1)
        between, after = (self.block(self.random.randint(0, 2), where.alone()) for _ in range(2))
        return Exchange(buffer, target, value, shift, between, after, self.two_barriers(), warps)

    def handover(self, where):
        buffer = self.random.choice(list(BUFFERS))
        producers = self.random.randint(1, where.warps[1] - 1)
        target, value = self.two_variables(BUFFERS[buffer])
        return Handover(buffer, target, value, self.random.randint(0, 31), producers, self.two_barriers())

    def meeting(self, where):
        between = self.block(self.random.randint(0, 2), where.alone())
        return Meeting(*self.two_variables("f"), self.shift(), between, self.two_barriers())

    def remote(self, where):
        return Remote(*self.two_variables("a"), self.shift(), self.two_barriers())

    def send(self, where):
        self.sends, self.barriers = self.sends + 1, self.barriers + 1
        target, value = self.two_variables(self.random.choice("af"))
        return Send(target, value, self.shift(), self.sends - 1, self.barriers - 1)

    def shift(self):
        return self.random.randint(0, self.threads - 1)

    def two_variables(self, kind):
        return tuple(self.random.choice(INTS if kind == "a" else FLOATS) for _ in range(2))


def program(seed: int) -> Program:
    """The program of a seed, always the same for one VERSION."""
    return _Maker(seed).program(seed)


def kind_of(made: Program, barrier: int) -> str:
    """What the barrier of this number is; see BARRIERS."""
    every = [one for one in statements(made.body) if hasattr(one, "first")]
    match next(one for one in every if one.first == barrier or one.first == barrier - 1 and not isinstance(one, Send)):
        case Exchange(warps=None):
            return "of a warp"
        case Exchange(warps=warps):
            return "of a block" if warps == (0, made.threads // 32) else "of some warps"
        case Handover():
            return "named, arrive and wait"
        case Send():
            return "wait for st.async"
    return "of a cluster, made relaxed" if made.seed % 2 else "of a cluster"


BARRIERS = (
    "of a warp",
    "of some warps",
    "named, arrive and wait",
    "of a block",
    "of a cluster",
    "of a cluster, made relaxed",
    "wait for st.async",
)


def dropped_barrier(made: Program) -> int:
    """The barrier that the second family leaves out: each kind that the program has is as likely; two of three are such that a
    read of what was written comes right after them."""
    draw = random.Random(f"{VERSION} {made.seed} dropped")
    every = [one for one in statements(made.body) if hasattr(one, "first")]
    kind = draw.choice(sorted({kind_of(made, one.first) for one in every}))
    of = draw.choice([one for one in every if kind_of(made, one.first) == kind])
    return of.first + (not isinstance(of, Send) and draw.random() < 1 / 3)


def statements(body):
    """Every statement of a program, those inside others too."""
    for statement in body:
        yield statement
        for name in ("body", "orelse", "between", "after"):
            yield from statements(getattr(statement, name, ()))


# ---- as source text -------------------------------------------------------------------------------------------------

HEAD = """\
import cutlass
import cutlass.cute as cute


@cute.kernel
def kernel(mX: cute.Tensor, mI: cute.Tensor, mT: cute.Tensor, mO: cute.Tensor, mJ: cute.Tensor, mC: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    lane, warp = tidx % 32, tidx // 32
    own = block * {threads} + tidx
    smem = cutlass.memory.SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Int32, cute.make_layout({threads}), 16)
    sF = smem.allocate_tensor(cutlass.Float32, cute.make_layout({threads}), 16)
    a0, a1, a2 = tidx * 3, cutlass.Int32(5), lane - 7
    f0, f1, f2 = cutlass.Float32(0.5), cutlass.Float32(-1.25), cutlass.Float32(lane)
"""
CLUSTER_HEAD = """\
    rank, cluster = block % {cluster}, block // {cluster}
    next_rank = (rank + 1) % {cluster}
    next_block = block - rank + next_rank
    sR = smem.allocate_tensor(cutlass.Int32, cute.make_layout({threads}), 16)
    sC = smem.allocate_tensor(cutlass.Int32, cute.make_layout({threads} * {slots}), 16)
    arrived = smem.allocate_array(cutlass.Int64, {slots}, byte_alignment=8)
    if tidx == 0:
        for slot in cutlass.range_constexpr({slots}):
            cute.arch.mbarrier_init(arrived + slot, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
"""
START = """\
    if own < {n}:
        f0 = mX[own]
        a1 = mI[own]
"""
TAIL = """\
    if own < {n}:
        mO[0, own] = f0
        mO[1, own] = f1
        mO[2, own] = f2
        mJ[0, own] = a0
        mJ[1, own] = a1
        mJ[2, own] = a2


@cute.jit
def host(mX: cute.Tensor, mI: cute.Tensor, mT: cute.Tensor, mO: cute.Tensor, mJ: cute.Tensor, mC: cute.Tensor):
    kernel(mX, mI, mT, mO, mJ, mC).launch(grid=[{blocks}, 1, 1], block=[{threads}, 1, 1]{shape})
"""


def source(made: Program, dropped: int | None = None) -> str:
    """The kernel as CuTe DSL, with or without barrier `dropped`."""
    body = [line for statement in made.body for line in _lines(statement, made, dropped)]
    size = {"threads": made.threads, "blocks": made.blocks, "n": made.n, "cluster": made.cluster}
    size |= {"slots": max(1, made.sends), "shape": f", cluster=[{made.cluster}, 1, 1]" if made.cluster > 1 else ""}
    head = HEAD + (CLUSTER_HEAD if made.cluster > 1 else "") + START
    return head.format(**size) + "".join(f"    {line}\n" for line in body) + TAIL.format(**size)


def _lines(statement, made, dropped) -> list:
    def text(statements):
        return [line for one in statements for line in _lines(one, made, dropped)]

    def inner(lines):
        return [f"    {line}" for line in lines or ["pass"]]

    match statement:
        case Assign(target, "Float32", left, _):
            return [f"{target} = cutlass.Float32({left})"]
        case Assign(target, "fmax" | "fmin" as operation, left, right):
            return [f"{target} = cute.arch.{operation}({left}, {right})"]
        case Assign(target, operation, left, right):
            return [f"{target} = {left} {operation} {f'({right})' if '-' in str(right) else right}"]
        case Load(target, index, offset):
            place = f"{index} + ({offset})"
            # `and` would not keep the second condition from being looked at, but neither touches memory.
            return [f"if {place} >= 0 and {place} < {made.n}:", f"    {target} = mX[{place}]"]
        case Atomic(index, value):
            return [f"cute.arch.atomic_add(mC.iterator + {index} % {COUNTERS}, {value})"]
        case If(operation, left, right, body, orelse):
            lines = [f"if {left} {operation} {right}:", *inner(text(body))]
            return [*lines, "else:", *inner(text(orelse))] if orelse else lines
        case While(variable, count, modulus, body):
            turns = f"{count} % {modulus}" if count else modulus
            body = inner([*text(body), f"{variable} = {variable} + 1"])
            return [f"{variable} = cutlass.Int32(0)", f"while {variable} < {turns}:", *body]
        case For(variable, count, modulus, body):
            turns = f"{count} % {modulus}" if count else modulus
            return [f"for {variable} in range({turns}):", *inner(text(body))]
        case Shuffle(target, kind, value, offset):
            return [f"{target} = cute.arch.{kind}({value}, {offset})"]
        case Vote(target, kind, left, operation, right):
            asked = f"cute.arch.vote_{kind}_sync({left} {operation} {right})"
            if kind in VOTES:
                return [f"{target} = {asked if kind == 'ballot' else f'{asked}.to(cutlass.Int32)'}"]
            return [f'{target} = cute.arch.warp_redux_sync({left}, "{kind}")']
        case Exchange(buffer, target, value, shift, between, after, first, warps):
            own, other = _places(buffer, shift, made, warps)
            barrier = [_barrier(made, warps, first)]
            return [
                f"{buffer}[{own}] = {value}",
                *text(between),
                *barrier * (dropped != first),
                f"{target} = {buffer}[{other}]",
                *text(after),
                *barrier * (dropped != first + 1),
            ]
        case Handover(buffer, target, value, shift, producers, first):
            own, other = _places(buffer, shift, made, (0, producers))
            full, empty = (f"(barrier_id={_identifier(first + k)}, number_of_threads={made.threads})" for k in (0, 1))
            has_full, has_empty = dropped != first, dropped != first + 1
            produce = [f"{buffer}[{own}] = {value}", *[f"cute.arch.barrier_arrive{full}"] * has_full]
            consume = [*[f"cute.arch.barrier{full}"] * has_full, f"{target} = {buffer}[{other}]"]
            produce += [f"cute.arch.barrier{empty}"] * has_empty
            consume += [f"cute.arch.barrier_arrive{empty}"] * has_empty
            return [f"if warp < {producers}:", *inner(produce), "else:", *inner(consume)]
        case Meeting(target, value, shift, between, first):
            other = f"next_block * {made.threads} + (tidx + {shift}) % {made.threads}"
            met = [_cluster_barrier(made, first + k, dropped) for k in (0, 1)]
            (arrive, *wait), after = met[0] or [""], met[1]
            lines = [
                f"{SCRATCH}[own] = {value}",
                arrive,
                *text(between),
                *wait,
                f"{target} = {SCRATCH}[{other}]",
                *after,
            ]
            return [line for line in lines if line]
        case Remote(target, value, shift, first):
            return [
                f"word{first} = cute.make_rmem_tensor(1, cutlass.Int32)",
                f"word{first}[0] = {value}",
                f"place{first} = cute.arch.map_dsmem_ptr(sR.iterator + tidx, next_rank)",
                f"cute.autovec_copy(word{first}, cute.make_tensor(place{first}, cute.make_layout(1)))",
                *_cluster_barrier(made, first, dropped),
                f"{target} = sR[(tidx + {shift}) % {made.threads}]",
                *_cluster_barrier(made, first + 1, dropped),
            ]
        case Send(target, value, shift, slot, first):
            floats, start = value in FLOATS, slot * made.threads
            word = f"{value}.bitcast(cutlass.Int32)" if floats else value
            received = f"sC[{start} + (tidx + {shift}) % {made.threads}]"
            if target in FLOATS and floats:
                received += ".bitcast(cutlass.Float32)"
            return [
                "if tidx == 0:",
                f"    cute.arch.mbarrier_arrive_and_expect_tx(arrived + {slot}, {4 * made.threads})",
                f"cute.arch.store_async_dsmem(sC.iterator + ({start} + tidx), {word}, arrived + {slot}, next_rank)",
                *[f"cute.arch.mbarrier_wait(arrived + {slot}, 0)"] * (dropped != first),
                f"{target} = {received}",
            ]
    raise TypeError(f"{statement!r} is no statement of a program")


def _places(buffer, shift, made, warps):
    """The index of this thread's element in a buffer, and of the one it reads."""
    start = f"block * {made.threads} + " if buffer == SCRATCH else ""
    if warps is None:
        return f"{start}tidx", f"{start}warp * 32 + (lane + {shift}) % 32"
    if warps == (0, made.threads // 32):
        return f"{start}tidx", f"{start}(tidx + {shift}) % {made.threads}"
    first, count = warps[0] * 32, (warps[1] - warps[0]) * 32
    return f"{start}tidx", f"{start}{first} + (tidx - {first} + {shift}) % {count}" if first else (
        f"{start}(tidx + {shift}) % {count}"
    )


def _identifier(first) -> int:
    """A named barrier of its own for each, so that warps which are apart do not meet; 0 is the block's."""
    return 1 + first % 15


def _barrier(made, warps, first) -> str:
    if warps is None:
        return "cute.arch.sync_warp()"
    if warps == (0, made.threads // 32):
        return "cute.arch.barrier()"
    count = (warps[1] - warps[0]) * 32
    return f"cute.arch.barrier(barrier_id={_identifier(first)}, number_of_threads={count})"


def _cluster_barrier(made, index, dropped) -> list:
    """Arrival and wait; without them, or in odd seeds with an arrival that orders no memory, where it is `dropped`."""
    if index == dropped and made.seed % 2 == 0:
        return []
    return [f"cute.arch.cluster_arrive{'_relaxed' * (index == dropped)}()", "cute.arch.cluster_wait()"]


def loaded(made: Program, dropped: int | None = None):
    """The host function. Its text is where the simulator and the DSL look for source: in linecache, under a file's name."""
    text = source(made, dropped)
    name = f"random_kernel_{made.seed}{'' if dropped is None else f'_without_barrier_{dropped}'}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {"__name__": name.removesuffix(".py"), "__builtins__": builtins}
    answer_imports(namespace)
    exec(compile(text, name, "exec"), namespace)
    return namespace["host"]


def forget(host) -> None:
    """Drop the source text of a loaded kernel."""
    linecache.cache.pop(getattr(host, "__wrapped__", host).__code__.co_filename, None)


def inputs(made: Program) -> list:
    """Fresh [mX, mI, mT, mO, mJ, mC]: float32 (n,), int32 (n,), float32 (threads of all blocks,), outputs float32 (3, n) and
    int32 (3, n), counters int32 (4,)."""
    rng = np.random.default_rng(made.seed)
    x = rng.standard_normal(made.n).astype(np.float32)
    i = rng.integers(-1000, 1000, made.n, dtype=np.int32)
    scratch = np.zeros(made.threads * made.blocks, np.float32)
    outputs = np.full((3, made.n), 77, np.float32), np.full((3, made.n), 77, np.int32)
    return [x, i, scratch, *outputs, np.zeros(COUNTERS, np.int32)]
