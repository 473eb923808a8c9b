"""`range` and `while` in a kernel: unrolled, or under masks with the variables that they carry."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Sequence

import numpy as np

from ..context import STATE, Waiting, any_of, executing, fail, group, here, refused, spread
from ..values.loaded import Loaded
from ..values.numeric import Int32, TensorSSA, Value, truth
from .joins import GONE, Unbound, carries_values, copies, entering, merge, refuse_objects, settle


def depth() -> int:
    g = STATE.group
    return 0 if g is None else len(g.masks)


SECONDS = 30  # of this process in which no warp came to its end; as many times more as `max_steps` is above its default


def check_budget() -> None:
    run = STATE.run
    run.steps += 1
    is_over = run.steps > run.max_steps
    if not run.steps % 64:
        run.began = run.began or time.process_time()
        is_over = is_over or time.process_time() - run.began > SECONDS * max(1, run.max_steps / type(run).max_steps)
    if is_over:
        raise fail(
            "endless",
            f"stopped after {run.steps - 1:,} loop steps in which no warp came to its end: does this loop end? "
            "(a longer run: simulate(..., max_steps=...))",
        )


class DynamicRange(Sequence):
    """`range(...)` in a kernel: a loop at run time. Bounds may be dynamic and differ between lanes.

    Where no `for` statement goes through it the DSL has Python's own.
    """

    def __init__(self, *bounds, unroll=None, unroll_full=False, prefetch_stages=None, **_):
        start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1)}.get(len(bounds), bounds)
        self.start, self.stop, self.step = (self._plain(b) for b in (start, stop, step))

    def __len__(self):
        return len(range(self.start, self.stop, self.step))

    def __getitem__(self, key):
        return range(self.start, self.stop, self.step)[key]

    @staticmethod
    def _plain(bound):
        if isinstance(bound, Value):
            if not bound.dtype.is_integer:
                raise refused(f"a range bound must be an integer, got {bound.dtype}")
            return int(bound.a.reshape(-1)[0]) if bound.a.size == 1 else bound.a.astype(np.int64)
        return operator.index(bound)


class ConstexprRange:
    """`range_constexpr(...)`, which CuTe DSL's preprocessor knows as what a `for` statement goes through, and nowhere else."""

    def __init__(self, *bounds):
        self.numbers = range(*bounds)

    def _refuse(self, *_):
        raise refused("range_constexpr works in a `for` statement alone; write range here, which unrolls as well")

    __iter__ = __len__ = __getitem__ = __contains__ = __reversed__ = _refuse


def loop(iterable):
    if isinstance(iterable, DynamicRange):
        return _RangeLoop(iterable)
    if isinstance(iterable, ConstexprRange):
        return _StaticLoop(iterable.numbers)
    if isinstance(iterable, (Value, TensorSSA)):
        raise refused("a for loop needs range(...), cutlass.range_constexpr(...) or a Python sequence")
    return _StaticLoop(iterable)


class _StaticLoop:
    """Python's own loop over a sequence known while tracing."""

    def carries(self, names, values) -> None:
        pass

    def __init__(self, iterable):
        self.items = iter(iterable)
        self.depth = depth()

    def __iter__(self):
        return self.items

    def enter(self, names, values):
        check_budget()
        return values

    def leave(self, names, values):
        return values

    finish = leave

    def counters(self, before, after):
        """What its own variables are afterwards."""
        return after

    def no_leaving(self, word):
        if depth() != self.depth:
            self.refuse_leaving(word)

    def refuse_leaving(self, word):
        raise refused(
            f"{word} inside an `if` without const_expr is refused by the DSL; `if cutlass.const_expr(...)` may leave a loop "
            "that is unrolled",
        )


class _Carried:
    """Names carried round a dynamic loop: typed at entry, selected where lanes have left."""

    condition = None  # lanes still in the loop, where some have left
    before = ()
    entered = False

    def enter(self, names, values):
        check_budget()
        if not self.entered:
            values = tuple(map(entering, values))
            self.entered, self.at_entry = True, values
        # A name that the loop binds first is a new one in every turn.
        values = tuple(a if isinstance(a, Unbound) else v for a, v in zip(self.at_entry, values))
        self.before = values
        return copies(values)

    def carries(self, names, values) -> None:
        refuse_objects(names, values)

    def leave(self, names, values):
        result = []
        for name, old, new in zip(names, self.before, values):
            if isinstance(old, Unbound) or new is old:
                result.append(new)
                continue
            if self.condition is None:
                result.append(settle(name, new, old))
            else:
                result.append(merge(name, self.condition, new, old))
        if self.condition is not None:
            group().pop()
            self.condition = None
        return tuple(result)

    def finish(self, names, values):
        STATE.loops -= 1
        if not self.entered:
            return values
        before = zip(names, self.at_entry, values)
        return tuple(Unbound(n, GONE) if isinstance(b, Unbound) else v for n, b, v in before)

    def counters(self, before, after):
        """What its own variables are afterwards: gone, unless they were there before."""
        return tuple(Unbound(b._name, GONE) if isinstance(b, Unbound) else a for b, a in zip(before, after))

    def no_leaving(self, word):
        self.refuse_leaving(word)

    def refuse_leaving(self, word):
        raise refused(
            f"{word} in a loop that runs on the GPU is refused by the DSL; use range_constexpr, or a condition in `while`"
        )

    def _narrow(self, stay) -> bool:
        """Mask the lanes that leave; False when none stays."""
        g = group()
        active = g.active()
        stay = spread(stay, g.shape)
        if not any_of(active & stay):
            return False
        if any_of(active & ~stay) or type(stay) is Loaded:
            self.condition = stay
            g.push(stay)
        return True


NEVER_DONE = 2**30  # passes of a loop


class _RangeLoop(_Carried):
    def __init__(self, bounds: DynamicRange):
        self.bounds = bounds
        self.index = bounds.start
        if np.max(bounds.stop) - np.min(bounds.start) > NEVER_DONE:
            self._refuse_endless(bounds.start, bounds.stop, bounds.step)
        STATE.loops += 1

    def _refuse_endless(self, start, stop, step) -> None:
        """Say at once that a loop would not come to its end in any time that one has."""
        g = STATE.group
        active = True if g is None else g.active()
        passes = np.where(active & (np.asarray(step) > 0), (np.asarray(stop) - start) / np.maximum(step, 1), 0).max()
        if passes > NEVER_DONE:
            text = f"this loop has {int(passes):,} passes, which does not end in a simulation: has anybody written its bounds?"
            raise fail("endless", text)

    def __iter__(self):
        return self

    def __next__(self):
        index, stop, step = self.index, self.bounds.stop, self.bounds.step
        if isinstance(step, int) and step == 0:
            raise refused("range() needs a step that is not 0")
        if isinstance(index, int) and isinstance(stop, int) and isinstance(step, int):
            if (index >= stop) if step > 0 else (index <= stop):
                raise StopIteration
            self.index = index + step
            return Value(Int32, np.array([[index]], np.int32))
        stay = np.asarray((index < stop) if np.all(np.asarray(step) > 0) else (index > stop))
        if not self._narrow(stay):
            raise StopIteration
        self.index = index + step
        return Value(Int32, np.atleast_2d(np.asarray(index)).astype(np.int32))


class _WhileLoop(_Carried):
    dynamic = constant = False
    idle = 0  # passes in a row that changed neither a variable nor memory, nor registers that outlive the pass
    writes = -1

    def test(self, condition, constant=False) -> bool:
        c = truth(condition)
        if c is None and (constant or STATE.group is None):
            return bool(condition)
        self.constant = c is None
        c = np.array([[bool(condition)]]) if c is None else c
        if not self.dynamic:
            STATE.loops += 1
        self.dynamic = True
        return self._narrow(c)

    def carries(self, names, values) -> None:
        if self.dynamic:
            refuse_objects(names, values)

    def enter(self, names, values):
        self.writes, self.made = STATE.run.writes, STATE.run.made
        if self.dynamic:
            g = executing()
            self.outer, g.oldest = g.oldest, math.inf
            return super().enter(names, values)
        check_budget()
        return values

    def leave(self, names, values):
        if not self.dynamic:
            return values
        result = super().leave(names, values)
        g = executing()
        idle = STATE.run.writes == self.writes and g.oldest > self.made
        # What a pass binds anew it does not hand on.
        pairs = zip(self.before, result) if idle else ()
        idle = idle and all(isinstance(old, Unbound) or _unchanged(old, new) for old, new in pairs)
        g.oldest = min(g.oldest, self.outer)
        self.idle = self.idle + 1 if idle else 0
        return result

    def spins(self) -> bool:
        return self.idle > (1 if STATE.run.order is None else 0)

    def turn(self):
        """What the warp yields: it goes on at once, when the others have had their turns."""
        if self.constant:
            text = "this loop has no end: its condition is always true, and no pass changes anything"
            raise fail("endless", text)
        return Waiting(lambda: True, "a value that nobody changes", here(), spins=True)

    def finish(self, names, values):
        return super().finish(names, values) if self.dynamic else values

    def no_leaving(self, word):
        if self.dynamic:
            super().no_leaving(word)


def _unchanged(old, new) -> bool:
    if old is new:
        return True
    if carries_values(old) and type(old) is type(new):
        same = []
        old._joined(new, lambda _, p, q: same.append(_unchanged(p, q)))
        return all(same)
    if isinstance(old, (Value, TensorSSA)) and type(old) is type(new):
        return old.dtype is new.dtype and np.array_equal(old.a, new.a)
    if isinstance(old, (tuple, list)) and type(old) is type(new) and len(old) == len(new):
        return all(map(_unchanged, old, new))
    return isinstance(old, (int, float)) and type(old) is type(new) and old == new


while_ = _WhileLoop
