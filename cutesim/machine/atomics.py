"""Atomics on global and shared memory, one a lane. Source: PTX ISA 9.0 (atom, red)."""

from __future__ import annotations

import ast
import functools

import numpy as np

from cutesim.trace import Op, Space

from ..context import STATE, group, refused, spread, text_of
from ..memory import pointers as m
from ..memory.bounds import Place, check
from ..memory.log import needs_warps
from ..memory.pointers import Pointer
from ..memory.recording import current_line, record
from ..values.arithmetic import flush
from ..values.numeric import DType, Float32, TensorSSA, Value, convert, scalar


def lane_by_lane(function):
    """A function that is one atomic a lane: where orders are chosen, another warp may come between two of them."""
    function.is_lane_by_lane = True
    return function


def _atomic(name: str):
    @lane_by_lane
    def atomic(ptr: Pointer, val, *, sem=None, scope=None, **_):
        return run_atomic(name, ptr, val if isinstance(val, TensorSSA) else scalar(val), sem, scope=scope)

    atomic.__name__ = f"atomic_{name}"
    return atomic


_COMBINE = {
    "add": lambda old, new: old + new,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,  # of floats, which cute.arch.atomic_max refuses
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "exch": lambda old, new: new,
}


# What the analysis takes an atomic to do beside its own, acquire and release, and whom it does not reach (`analysis.ordering`).
_SEMANTICS = {"acquire": 1, "release": 2, "acq_rel": 3}
_NARROWER = {"cluster": 4, "cta": 8}


def meaning(sem, scope) -> int:
    """The trace's `arg` of an atomic with these; each is a string, a member of an enumeration, or None."""
    semantics, scope = (str(x).rpartition(".")[2].lower() for x in (sem, scope))
    return _SEMANTICS.get(semantics, 0) | _NARROWER.get(scope, 0)


def _goes_unread(name: str) -> bool:
    """Whether the call stands alone on its line, so that nobody reads what the word held before."""
    recorder = STATE.run.recorder
    if recorder is None or STATE.group is None:
        return False
    line = recorder.lines[current_line(recorder)[0]]
    calls = [call for call in _calls(text_of(line.file)) if call[0] <= line.number <= call[1]]
    alone = [alone for _, _, callee, alone in calls if callee.rpartition(".")[2] == name]
    return bool(alone) and all(alone)


@functools.lru_cache(maxsize=64)
def _calls(text: str) -> tuple:
    """(first line, last line, what is called, whether it is a statement of its own) of each call that may be an atomic's."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    calls = [(node, ast.unparse(node.func)) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [(node, name) for node, name in calls if "atomic" in name]
    return tuple((node.lineno, node.end_lineno, name, id(node) in alone) for node, name in found)


@lane_by_lane
def atomic_cas(ptr: Pointer, *, cmp, val, sem=None, scope=None, **_) -> Value:
    """`val` where the element is `cmp`; what it was before."""
    return run_atomic("cas", ptr, scalar(val), sem, convert(cmp, ptr.dtype).a, scope)


def run_atomic(name: str, ptr: Pointer, val: Value | TensorSSA, sem=None, wanted=None, scope=None) -> Value | TensorSSA:
    """One atomic a lane; of a vector one instruction, whose elements are updated one by one (PTX ISA, atom)."""
    needs_warps()
    g = group()
    dtype: DType = ptr.dtype
    vector, width = isinstance(val, TensorSSA), 1
    if vector:
        width = val.numel
        if (name, dtype, ptr.memory.space) != ("add", Float32, Space.GMEM) or width not in (2, 4):
            raise refused(
                f"atomic_{name} of {width} x {dtype} at once: of vectors the simulator has atomic_add of 2 or 4 float32 in "
                f"global memory (atom.global.add.v4.f32)",
            )
    if dtype.is_float and name not in ("add", "exch", "cas", "fmax"):
        raise refused(f"atomic_{name} takes integers, not {dtype}; of floats there are atomic_add and atomic_exch")
    # PTX ISA, atom: float32 sums in global memory flush subnormal numbers, in shared memory they do not.
    flushes = dtype is Float32 and name == "add" and ptr.memory.space is Space.GMEM
    settled = flush if flushes else lambda numbers: numbers
    zero = np.zeros(1, np.int64)
    flat, index = m._flat_index(ptr, zero)
    lanes = m._lanes(None, 1)
    place = None if vector or ptr.view is None else Place(ptr.view[1].base)
    check(ptr, zero, width, lanes, Op.ATOMIC, place)
    facts = {"arg": meaning(sem, scope), "arg2": _goes_unread(f"atomic_{name}")}
    record(ptr, zero, width, lanes, Op.ATOMIC, flat, index, **facts)
    writes, changed = STATE.run.writes, False
    if ptr.memory.space is Space.GMEM:
        STATE.run.before_write(ptr.memory)
    index = spread(index[..., 0], g.shape)
    shape = (*g.shape, width)
    amount = spread(val.to(dtype).a if vector else convert(val, dtype).a[..., None], shape)
    active = spread(g.active()[..., None], shape)
    old = np.zeros(shape, dtype.carrier)
    combine = _COMBINE.get(name)
    wanted = None if wanted is None else spread(wanted, g.shape)
    shadows = STATE.run.shadows if STATE.exact and dtype.is_float else None
    for b, t, k in zip(*np.nonzero(active)):  # lane order: one legal order
        at = index[b, t] + k
        raw, one = flat[at : at + 1], amount[b, t, k : k + 1]
        held = dtype.decode(raw if shadows is None else shadows.load(flat, np.array([at]), raw))
        before = held[0]
        old[b, t, k] = before
        terms = settled(held), settled(one)
        if wanted is not None:
            after = terms[1] if before == wanted[b, t] else terms[0]
        else:
            after = settled(dtype.round(combine(terms[0], terms[1])))
        changed = changed or after[0] != before
        raw = dtype.encode(after)
        if shadows is not None:
            shadows.store(flat, np.array([at]), raw)
        flat[at] = raw[0]
    # one that changes nothing, as in a spin on a flag, is none
    STATE.run.writes = writes + bool(changed)
    if STATE.run.order is not None:
        STATE.run.order.atomics.append((name, changed))
    return TensorSSA(dtype, old, (width,)) if vector else Value(dtype, old[..., 0])


atomic_add, atomic_max, atomic_min = _atomic("add"), _atomic("max"), _atomic("min")
atomic_and, atomic_or, atomic_xor, atomic_exch = map(_atomic, ("and", "or", "xor", "exch"))
