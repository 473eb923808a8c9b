"""What a random kernel computes, worked out without the simulator: one Python generator a thread, numbers one at a time.

A thread runs alone until it meets others: at a barrier, or where a warp's lanes swap numbers. Then the next one runs, in an
order drawn from the seed. In a program without races the order cannot matter, so what comes out is the only right answer.

| a thread yields             | and goes on                                                           |
|-----------------------------|-----------------------------------------------------------------------|
| `(key, count, value)`       | when `count` threads have come to `key`, with their values by thread   |
| `(key, count, None, False)` | at once: it has arrived and does not wait                             |

A float that the source writes, and what + - * make of such alone, is Python's own and is not rounded. It becomes a
float32 where it meets a number of run time or is handed on (to memory, a shuffle, fmax), and at both ends of a dynamic
`if` or of a loop's turn that assigns to its variable.
"""

from __future__ import annotations

import ctypes
import random
from collections import defaultdict

from validation import random_kernels as made_of


def float32(x) -> float:
    """Rounded to float32, as a Python number: for +, - and * of two float32 that is their float32 result, to the bit."""
    return ctypes.c_float(x).value


def int32(x) -> int:
    """The 32 bits of an integer, signed."""
    return ctypes.c_int32(int(x)).value


class Written(float):
    """A float that the source writes, or that + - * make of such alone."""


def written(numbers) -> bool:
    return all(type(number) is Written for number in numbers)


def assigned(statement) -> set:
    """The float variables that a statement, or one inside it, assigns to."""
    return {one.target for one in made_of.statements((statement,)) if getattr(one, "target", None) in made_of.FLOATS}


def computed(made: made_of.Program, needed: set | None = None) -> list:
    """[mT, mO, mJ, mC] after the kernel. Adds to `needed` the barriers that some thread comes to between a write and another
    thread's read."""
    arguments = made_of.inputs(made)
    grid = _Grid(made, arguments, set() if needed is None else needed)
    threads = [_Thread(grid, block, tidx) for block in range(made.blocks) for tidx in range(made.threads)]
    _run(threads, random.Random(made.seed))
    _, _, scratch, floats, integers, counters = arguments
    scratch[:] = grid.memory[made_of.SCRATCH]
    counters[:] = grid.counters
    for thread in threads:
        if thread.own < made.n:
            floats[:, thread.own] = [thread.values[name] for name in made_of.FLOATS]
            integers[:, thread.own] = [thread.values[name] for name in made_of.INTS]
    return [scratch, floats, integers, counters]


def _run(threads, order) -> None:
    """Run all threads to their ends; RuntimeError if some wait for others that do not come."""
    order.shuffle(threads)
    ready = [(thread, thread.steps(), None) for thread in threads]
    parked = defaultdict(list)  # key -> (thread, its generator or None where it does not wait, value)
    while ready:
        thread, steps, sent = ready.pop()
        while True:
            try:
                key, count, value, *waits = steps.send(sent)
            except StopIteration:
                break
            parked[key].append((thread, None if waits else steps, value))
            if len(parked[key]) == count:
                met = parked.pop(key)
                values = {other.tidx: number for other, _, number in met}
                ready += [(other, waiting, values) for other, waiting, _ in met if waiting]
            if not waits:
                break
            sent = None
    if parked:
        raise RuntimeError(f"threads wait at {sorted(parked)} and nobody comes")


class _Grid:
    """What threads share: memory by name, and by block where it is shared memory."""

    def __init__(self, made, arguments, needed):
        self.made, self.needed = made, needed
        self.x, self.i = arguments[0].tolist(), arguments[1].tolist()
        self.memory = defaultdict(dict)
        self.memory[made_of.SCRATCH] = arguments[2].tolist()
        self.counters = [0] * made_of.COUNTERS
        self.assigned = {id(one): assigned(one) for one in made_of.statements(made.body)}


class _Thread:
    """One thread: its variables, and its steps through the program."""

    def __init__(self, grid, block, tidx):
        made = grid.made
        self.grid, self.block, self.tidx = grid, block, tidx
        self.lane, self.warp, self.own = tidx % 32, tidx // 32, block * made.threads + tidx
        self.cluster = block // made.cluster
        self.next_block = self.cluster * made.cluster + (block + 1) % made.cluster
        self.values = {"tidx": tidx, "lane": self.lane, "warp": self.warp, "block": block, "cluster": self.cluster}
        self.values |= {"a0": tidx * 3, "a1": 5, "a2": self.lane - 7, "f0": 0.5}
        self.values |= {"f1": Written(-1.25), "f2": float(self.lane)}  # a dynamic `if` has assigned to f0
        if self.own < made.n:
            self.values |= {"f0": grid.x[self.own], "a1": grid.i[self.own]}

    def steps(self):
        return self.run(self.grid.made.body)

    def number(self, operand, kind=int32):
        return self.values[operand] if isinstance(operand, str) else kind(operand)

    def put(self, target, value):
        self.values[target] = float32(value) if target in made_of.FLOATS else int32(value)

    def numbers(self, left, right, floats) -> list:
        """Both operands: of floats rounded, unless the source writes both."""
        numbers = [self.number(operand, Written if floats else int32) for operand in (left, right)]
        return [*map(float32, numbers)] if floats and not written(numbers) else numbers

    def holds(self, operation, left, right) -> bool:
        return bool(made_of.COMPARISONS[operation](*self.numbers(left, right, left in made_of.FLOATS)))

    def join(self, statement):
        """Begin or end a dynamic `if`, or a loop's turn."""
        for name in self.grid.assigned[id(statement)]:
            self.put(name, self.values[name])

    def shared(self, name, block=None):
        """The words of a buffer: of the grid for global memory, of a block otherwise."""
        return self.grid.memory[name if name == made_of.SCRATCH else (name, self.block if block is None else block)]

    # keys of `_run`: where threads meet, and how many of them

    def warp_meets(self, value=None):
        return ("warp", self.block, self.warp), 32, value

    def warps_meet(self, first, last, barrier):
        return ("warps", self.block, first, barrier), (last - first) * 32, None

    def cluster_meets(self):
        made = self.grid.made
        return ("cluster", self.cluster), made.threads * made.cluster, None

    def run(self, statements):
        for statement in statements:
            yield from self.step(statement)

    def step(self, statement):
        match statement:
            case made_of.Assign(target, "Float32", left, _):
                self.put(target, self.number(left))
            case made_of.Assign(target, operation, left, right):
                floats = target in made_of.FLOATS
                table = made_of.FLOAT_OPERATIONS if floats else made_of.INT_OPERATIONS
                numbers = self.numbers(left, right, floats)
                result = table[operation](*numbers)
                self.put(target, result)
                if floats and operation in "+-*" and written(numbers):
                    self.values[target] = Written(result)
            case made_of.Load(target, index, offset):
                place = int32(self.values[index] + offset)
                if 0 <= place < self.grid.made.n:
                    self.put(target, self.grid.x[place])
                self.join(statement)
            case made_of.Atomic(index, value):
                k = self.values[index] % made_of.COUNTERS
                self.grid.counters[k] = int32(self.grid.counters[k] + self.values[value])
            case made_of.If(operation, left, right, body, orelse):
                arm = body if self.holds(operation, left, right) else orelse
                self.join(statement)
                yield from self.run(arm)
                self.join(statement)
            case made_of.For(variable, count, modulus, body):  # and While
                self.join(statement)
                for turn in range(self.values[count] % modulus if count else modulus):
                    self.values[variable] = turn
                    yield from self.run(body)
                    self.join(statement)
            case made_of.Shuffle(target, kind, value, offset):
                lanes = yield self.warp_meets(self.values[value])
                source = made_of.SHUFFLES[kind](self.lane, offset)
                self.put(target, lanes[self.warp * 32 + source])
            case made_of.Vote(target, kind, left, operation, right):
                votes = kind in made_of.VOTES
                lanes = yield self.warp_meets(self.holds(operation, left, right) if votes else self.number(left))
                table = made_of.VOTES if votes else made_of.REDUCTIONS
                self.put(target, table[kind]([lanes[tidx] for tidx in sorted(lanes)]))
            case made_of.Exchange():
                yield from self.exchange(statement)
            case made_of.Handover():
                yield from self.handover(statement)
            case made_of.Meeting() | made_of.Remote() | made_of.Send():
                yield from self.to_next_block(statement)
            case _:
                raise TypeError(f"{statement!r} is no statement of a program")

    def exchange(self, statement):
        first, last = statement.warps or (self.warp, self.warp + 1)

        def meets(barrier):
            return self.warps_meet(first, last, barrier)

        yield from self.write_and_read(
            statement, meets, first * 32 + (self.tidx - first * 32 + statement.shift) % (32 * (last - first))
        )

    def write_and_read(self, statement, meets, source):
        self.grid.needed.add(statement.first)
        buffer = self.shared(statement.buffer)
        start = self.own - self.tidx if statement.buffer == made_of.SCRATCH else 0
        buffer[start + self.tidx] = self.values[statement.value]
        yield from self.run(statement.between)
        yield meets(statement.first)
        self.put(statement.target, buffer[start + source])
        yield from self.run(statement.after)
        yield meets(statement.first + 1)

    def handover(self, statement):
        self.grid.needed.add(statement.first)
        buffer, everybody = self.shared(statement.buffer), self.grid.made.threads // 32
        start = self.own - self.tidx if statement.buffer == made_of.SCRATCH else 0
        full, empty = (self.warps_meet(0, everybody, statement.first + k) for k in (0, 1))
        if self.warp < statement.producers:
            buffer[start + self.tidx] = self.values[statement.value]
            yield (*full, False)
            yield empty
            self.join(statement)
        else:
            yield full
            source = (self.tidx + statement.shift) % (32 * statement.producers)
            self.put(statement.target, buffer[start + source])
            yield (*empty, False)

    def to_next_block(self, statement):
        """The three ways to another block of the cluster."""
        self.grid.needed.add(statement.first)
        threads, value = self.grid.made.threads, self.values[statement.value]
        source = (self.tidx + statement.shift) % threads
        match statement:
            case made_of.Meeting(between=between):
                buffer = self.shared(made_of.SCRATCH)
                buffer[self.own] = value
                yield from self.run(between)
                yield self.cluster_meets()
                self.put(statement.target, buffer[self.next_block * threads + source])
                yield self.cluster_meets()
            case made_of.Remote():
                self.shared("sR", self.next_block)[self.tidx] = value
                yield self.cluster_meets()
                self.put(statement.target, self.shared("sR")[source])
                yield self.cluster_meets()
            case made_of.Send(slot=slot):
                # Nobody writes these words again: waiting for all instead of for the bytes makes no difference.
                self.shared("sC", self.next_block)[slot, self.tidx] = value
                yield self.cluster_meets()
                self.put(statement.target, self.shared("sC")[slot, source])
