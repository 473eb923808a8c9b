"""Small random CuTe DSL kernels, from a seed: their source text, and what they compute, without the simulator.

A program is a tree of the statements below over six variables a thread, three Int32 and three Float32. `source` writes it
as a kernel, `computed` works it out with numpy, all threads at once. Everything is exact: integers wrap around, floats are
added and multiplied in a fixed order, one rounding each (a GPU may fuse a product with a sum: its last bits may differ).

| statement  | in the kernel                                                                    | where           |
|------------|----------------------------------------------------------------------------------|-----------------|
| `Assign`   | an operation on integers or floats, or Int32 made Float32                         | anywhere        |
| `Load`     | an element of the input if its index, which is computed, is inside                | anywhere        |
| `If`       | a dynamic `if`, on numbers of the thread, of the warp or of the block             | anywhere        |
| `For`      | a dynamic `for`, as often as a constant, the thread or the block says             | anywhere        |
| `Shuffle`  | one of the four, by a warp's 32 lanes                                             | not in part of a warp |
| `Exchange` | written to shared or global memory, barrier, another thread's read, barrier        | not in part of a block |

Race-free by construction: each thread writes its own element of a buffer, reads only after a barrier, and a second barrier
follows before the buffer can be written again. `source(program, dropped=k)` leaves out barrier k.
"""

from __future__ import annotations

import builtins
import linecache
import random
from dataclasses import dataclass

import numpy as np

from quack_tutorial.simulator.loading import answer_imports

INTS, FLOATS = ("a0", "a1", "a2"), ("f0", "f1", "f2")
PLACES = ("tidx", "lane", "block")  # integers of a thread that programs read and do not write
THREAD, WARP, BLOCK = range(3)  # what executes a statement as one
DEPTH = 3
BUFFERS = {"sA": "a", "sF": "f", "mT": "f"}  # name -> the variables it holds; mT is global
SCRATCH = "mT"


# ---- programs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assign:
    """`target` = operation(left, right); operands are names or numbers."""

    target: str
    operation: str
    left: object
    right: object = None


@dataclass(frozen=True)
class Load:
    """target = mX[left + offset] where that index is one of the tensor's."""

    target: str
    index: str
    offset: int


@dataclass(frozen=True)
class If:
    operation: str
    left: object
    right: object
    body: tuple
    orelse: tuple


@dataclass(frozen=True)
class For:
    """Runs `body` `modulus` times, or (count % modulus) times where `count` names an integer that is not negative."""

    variable: str
    count: str
    modulus: int
    body: tuple


@dataclass(frozen=True)
class Shuffle:
    target: str
    kind: str
    value: str
    offset: int


@dataclass(frozen=True)
class Exchange:
    """buffer[own] = value; between; barrier `first`; target = buffer[(tidx + shift) % threads]; after; barrier `first + 1`."""

    buffer: str
    target: str
    value: str
    shift: int
    between: tuple
    after: tuple
    first: int


@dataclass(frozen=True)
class Program:
    """`n` elements of input and a column of output each; threads behind the last do not load or store them."""

    seed: int
    threads: int
    blocks: int
    n: int
    body: tuple
    barriers: int


INT_OPERATIONS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "^": np.bitwise_xor,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "//": np.floor_divide,  # by a positive number
    "%": np.fmod,  # by a positive number; takes the sign of what is divided
    "<<": np.left_shift,
    ">>": np.right_shift,
}


def fmax(a, b):
    """The larger number, +0 being larger than -0 as the PTX ISA says; numpy's leaves that open."""
    return np.where((a == 0) & (b == 0), a + b, np.fmax(a, b))


def fmin(a, b):
    """The smaller number, -0 being smaller than +0."""
    return -fmax(-a, -b)


FLOAT_OPERATIONS = {"+": np.add, "-": np.subtract, "*": np.multiply, "fmax": fmax, "fmin": fmin}
COMPARISONS = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">": np.greater}
SHUFFLES = {
    "shuffle_sync": lambda lane, by: lane * 0 + by,
    "shuffle_sync_up": lambda lane, by: np.where(lane < by, lane, lane - by),
    "shuffle_sync_down": lambda lane, by: np.where(lane + by > 31, lane, lane + by),
    "shuffle_sync_bfly": lambda lane, by: lane ^ by,
}


class _Maker:
    """Draws a program's statements."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.barriers = self.loops = 0

    def program(self, seed) -> Program:
        threads, blocks = self.random.choice((32, 64, 64, 96)), self.random.choice((1, 2, 3))
        n = threads * blocks - self.random.choice((0, 0, 1, 17))
        self.threads = threads
        body = self.block(self.random.randint(5, 8), BLOCK, 0, ())
        # At last one buffer twice, by all threads: its barriers are all needed but the last, and what is read is put out.
        buffer = self.random.choice(list(BUFFERS))
        body += (self.exchange(0, (), buffer), self.exchange(0, (), buffer))
        return Program(seed, threads, blocks, n, body, self.barriers)

    def block(self, count, together, depth, loops) -> tuple:
        return tuple(self.statement(together, depth, loops) for _ in range(count))

    def statement(self, together, depth, loops):
        kinds = ["int", "int", "float", "float", "load"]
        kinds += ["if", "if", "for"] if depth < DEPTH else []
        kinds += ["shuffle"] * 2 if together >= WARP else []
        kinds += ["exchange"] * 3 if together == BLOCK and self.barriers < 6 else []
        kind = self.random.choice(kinds)
        if kind == "exchange":
            return self.exchange(depth, loops)
        return getattr(self, f"a_{kind}")(together, depth, loops)

    def a_int(self, together, depth, loops):
        operation = self.random.choice(list(INT_OPERATIONS))
        left = self.random.choice(INTS + PLACES + loops)
        if operation in ("//", "%"):
            right = self.random.randint(2, 9)
        elif operation in ("<<", ">>"):
            right = self.random.randint(1, 7)
        else:
            right = self.random.choice((*INTS, *PLACES, *loops, self.random.randint(-99, 99)))
        return Assign(self.random.choice(INTS), operation, left, right)

    def a_float(self, together, depth, loops):
        target, left = self.random.choice(FLOATS), self.random.choice(FLOATS)
        operation = self.random.choice([*FLOAT_OPERATIONS, "Float32"])
        if operation == "Float32":
            return Assign(target, operation, self.random.choice(INTS + loops))
        if operation == "*":  # by small numbers, so that nothing overflows
            return Assign(target, operation, left, self.random.choice((0.5, -0.75, 0.3, 1.25)))
        return Assign(target, operation, left, self.random.choice((*FLOATS, 0.1, -3.7)))

    def a_load(self, together, depth, loops):
        return Load(self.random.choice(FLOATS), self.random.choice(PLACES + INTS + loops), self.random.randint(-5, 40))

    def a_if(self, together, depth, loops):
        same = self.random.randint(0, together)  # what the condition is the same for
        if same == THREAD:
            floats = self.random.random() < 0.3
            left = self.random.choice(FLOATS if floats else INTS + PLACES[:2] + loops)
            right = self.random.choice(FLOATS) if floats else self.random.choice((*INTS, self.random.randint(0, 40)))
        elif same == WARP:
            left, right = "warp", self.random.randint(0, 2)
        else:
            left, right = "block", self.random.randint(0, 2)
        operation = self.random.choice(list(COMPARISONS))
        body = self.block(self.random.randint(1, 3), same, depth + 1, loops)
        orelse = self.block(self.random.randint(0, 2), same, depth + 1, loops)
        return If(operation, left, right, body, orelse)

    def a_for(self, together, depth, loops):
        same = self.random.randint(0, together)
        count = {THREAD: "lane", WARP: "warp", BLOCK: self.random.choice(("", "block"))}[same]
        self.loops += 1
        variable = f"k{self.loops}"
        body = self.block(self.random.randint(1, 3), same, depth + 1, (*loops, variable))
        return For(variable, count, self.random.randint(2, 3), body)

    def a_shuffle(self, together, depth, loops):
        names = self.random.choice((INTS, FLOATS))
        kind = self.random.choice(list(SHUFFLES))
        return Shuffle(self.random.choice(names), kind, self.random.choice(names), self.random.randint(0, 31))

    def exchange(self, depth, loops, buffer=None):
        buffer = buffer or self.random.choice(list(BUFFERS))
        names = INTS if BUFFERS[buffer] == "a" else FLOATS
        first, self.barriers = self.barriers, self.barriers + 2
        between, after = (self.block(self.random.randint(0, 2), THREAD, DEPTH, loops) for _ in range(2))
        target, value = self.random.choice(names), self.random.choice(names)
        return Exchange(buffer, target, value, self.random.randint(1, self.threads - 1), between, after, first)


def program(seed: int) -> Program:
    """The program of a seed, always the same."""
    return _Maker(seed).program(seed)


# ---- as source text -------------------------------------------------------------------------------------------------

HEAD = """\
import cutlass
import cutlass.cute as cute


@cute.kernel
def kernel(mX: cute.Tensor, mI: cute.Tensor, mT: cute.Tensor, mO: cute.Tensor, mJ: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    lane, warp = tidx % 32, tidx // 32
    own = block * {threads} + tidx
    smem = cutlass.memory.SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Int32, cute.make_layout({threads}), 16)
    sF = smem.allocate_tensor(cutlass.Float32, cute.make_layout({threads}), 16)
    a0, a1, a2 = tidx * 3, cutlass.Int32(5), lane - 7
    f0, f1, f2 = cutlass.Float32(0.5), cutlass.Float32(-1.25), cutlass.Float32(lane)
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
def host(mX: cute.Tensor, mI: cute.Tensor, mT: cute.Tensor, mO: cute.Tensor, mJ: cute.Tensor):
    kernel(mX, mI, mT, mO, mJ).launch(grid=[{blocks}, 1, 1], block=[{threads}, 1, 1])
"""


def source(made: Program, dropped: int | None = None) -> str:
    """The kernel as CuTe DSL, with or without barrier `dropped`."""
    body = [line for statement in made.body for line in _lines(statement, made, dropped)]
    size = {"threads": made.threads, "blocks": made.blocks, "n": made.n}
    return HEAD.format(**size) + "".join(f"    {line}\n" for line in body) + TAIL.format(**size)


def _lines(statement, made, dropped) -> list:
    def inner(statements):
        lines = [line for one in statements for line in _lines(one, made, dropped)]
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
        case If(operation, left, right, body, orelse):
            lines = [f"if {left} {operation} {right}:", *inner(body)]
            return [*lines, "else:", *inner(orelse)] if orelse else lines
        case For(variable, count, modulus, body):
            turns = f"{count} % {modulus}" if count else modulus
            return [f"for {variable} in range({turns}):", *inner(body)]
        case Shuffle(target, kind, value, offset):
            return [f"{target} = cute.arch.{kind}({value}, {offset})"]
        case Exchange(buffer, target, value, shift, between, after, first):
            start, barrier = f"block * {made.threads} + " if buffer == SCRATCH else "", ["cute.arch.barrier()"]
            return [
                f"{buffer}[{start}tidx] = {value}",
                *(line for one in between for line in _lines(one, made, dropped)),
                *barrier * (dropped != first),
                f"{target} = {buffer}[{start}(tidx + {shift}) % {made.threads}]",
                *(line for one in after for line in _lines(one, made, dropped)),
                *barrier * (dropped != first + 1),
            ]
    raise TypeError(f"{statement!r} is no statement of a program")


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


# ---- what it computes -----------------------------------------------------------------------------------------------


def inputs(made: Program) -> list:
    """Fresh [mX, mI, mT, mO, mJ]: float32 (n,), int32 (n,), float32 (threads,), outputs float32 (3, n) and int32 (3, n)."""
    rng = np.random.default_rng(made.seed)
    x = rng.standard_normal(made.n).astype(np.float32)
    i = rng.integers(-1000, 1000, made.n, dtype=np.int32)
    scratch = np.zeros(made.threads * made.blocks, np.float32)
    return [x, i, scratch, np.full((3, made.n), 77, np.float32), np.full((3, made.n), 77, np.int32)]


def computed(made: Program, executed: set | None = None) -> list:
    """[mT, mO, mJ] after the kernel, from the program's statements alone; adds the barriers some block comes to."""
    x, i, scratch, out_floats, out_ints = inputs(made)
    state = _State(made, x, scratch, set() if executed is None else executed)
    inside = state.values["own"] < made.n
    own = state.values["own"][inside]
    state.values["f0"][inside] = x[own]
    state.values["a1"][inside] = i[own]
    with np.errstate(all="ignore"):
        state.run(made.body, np.ones_like(inside))
    for row in range(3):
        out_floats[row, own] = state.values[FLOATS[row]][inside]
        out_ints[row, own] = state.values[INTS[row]][inside]
    return [scratch, out_floats, out_ints]


class _State:
    """The variables of all threads, each (blocks, threads); a statement changes those of `mask`."""

    def __init__(self, made, x, scratch, executed):
        self.x, self.executed = x, executed
        tidx = np.tile(np.arange(made.threads, dtype=np.int32), (made.blocks, 1))
        block = np.repeat(np.arange(made.blocks, dtype=np.int32)[:, None], made.threads, axis=1)
        lane = tidx % 32
        same = np.ones_like(tidx)
        self.values = {
            "tidx": tidx,
            "block": block,
            "lane": lane,
            "warp": tidx // 32,
            "own": block * made.threads + tidx,
            "a0": tidx * 3,
            "a1": same * 5,
            "a2": lane - 7,
            "f0": same * np.float32(0.5),
            "f1": same * np.float32(-1.25),
            "f2": lane.astype(np.float32),
        }
        for name in FLOATS:
            self.values[name] = self.values[name].astype(np.float32)
        self.buffers = {"sA": np.zeros_like(tidx), "sF": np.zeros(tidx.shape, np.float32)}
        self.buffers[SCRATCH] = scratch.reshape(tidx.shape)

    def operand(self, x, dtype):
        return self.values[x] if isinstance(x, str) else dtype(x)

    def put(self, target, mask, value):
        self.values[target] = np.where(mask, value, self.values[target]).astype(self.values[target].dtype)

    def run(self, statements, mask):
        for statement in statements:
            self.step(statement, mask)

    def step(self, statement, mask):
        match statement:
            case Assign(target, "Float32", left, _):
                self.put(target, mask, self.values[left].astype(np.float32))
            case Assign(target, operation, left, right):
                dtype, table = (np.int32, INT_OPERATIONS) if target in INTS else (np.float32, FLOAT_OPERATIONS)
                self.put(target, mask, table[operation](self.operand(left, dtype), self.operand(right, dtype)))
            case Load(target, index, offset):
                place = self.values[index] + np.int32(offset)
                inside = mask & (place >= 0) & (place < len(self.x))
                self.put(target, inside, self.x[np.where(inside, place, 0)])
            case If(operation, left, right, body, orelse):
                dtype = np.float32 if left in FLOATS else np.int32
                taken = COMPARISONS[operation](self.operand(left, dtype), self.operand(right, dtype))
                self.run(body, mask & taken)
                self.run(orelse, mask & ~taken)
            case For(variable, count, modulus, body):
                turns = self.values[count] % modulus if count else np.full(mask.shape, modulus)
                for turn in range(modulus):
                    self.values[variable] = np.full(mask.shape, turn, np.int32)
                    self.run(body, mask & (turn < turns))
            case Shuffle(target, kind, value, offset):
                warps = self.values[value].reshape(-1, 32)
                source_lane = SHUFFLES[kind](np.arange(32), offset)
                self.put(target, mask, warps[:, source_lane].reshape(mask.shape))
            case Exchange(buffer, target, value, shift, between, after, first):
                self.executed.update({first, first + 1} if mask.any() else ())
                held = self.buffers[buffer]
                held[mask] = self.values[value][mask]
                self.run(between, mask)
                self.put(target, mask, np.roll(held, -shift, axis=1))
                self.run(after, mask)
            case _:
                raise TypeError(f"{statement!r} is no statement of a program")
