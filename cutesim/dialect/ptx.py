"""cute.arch.inline_ptx: the few PTX instructions that kernels give by their text, each as the access that it is.

| instruction                                                                             | becomes                          |
|-----------------------------------------------------------------------------------------|----------------------------------|
| `createpolicy.fractional.L2::evict_*.b64`                                               | a number; no effect              |
| `ld.global{.L1::evict_*}{.L2::cache_hint}{.v2, .v4}.b32`                                | one vector load, as of cute.copy |
| `{ .reg .pred p; setp.ne.b32 p, {$r1}, 0; mov.b32 {$w0}, {$r2}; @p ld.global... }`      | the same, where p; else the movs |
| `{ .reg .pred p; setp.ne.b32 p, {$r1}, 0; @p st.global.v2 or .v4 ... }`                 | one vector store, where p        |
| `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{.L2::cache_hint}`    | cute.copy with CopyBulkG2SOp     |

Cache hints change nothing: there are no caches here. The operands of the third form are those of its load, then the
predicate, an Int32, and the words of the threads where that is 0; those of the fourth the address, the predicate and the
words. Any other text goes the way of llvm.inline_asm (`assembly`). Sources: PTX ISA 9.0, createpolicy, ld, st, setp,
cp.async.bulk. Not covered: `predicate`, `read_write_args`, another block's shared memory as a target of a bulk copy.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np

from cutesim.trace import Op, Space

from ..context import any_of, fail, group, not_simulated, refused
from ..layouts.layout import make_layout, size
from ..machine.asynchronous import bulk_copy
from ..memory import pointers as m
from ..memory.bounds import Place
from ..memory.tensor import Tensor, contiguous_run, coordinate_spans, make_tensor
from ..values.exact import contiguous
from ..values.numeric import Int32, Int64, Value, scalar
from . import assembly

POLICY = 0x0CAC4E  # what createpolicy gives: opaque, the same for every policy
ASKING = re.compile(
    r"{ \.reg \.pred p; setp\.ne\.b32 p, {\$r\d}, 0; (mov\.b32 {\$w\d}, {\$r\d}; )+@p (?P<load>ld\.[^;]+;) }"
)
STORING = re.compile(r"{ \.reg \.pred p; setp\.ne\.b32 p, {\$r1}, 0; @p st\.global\.v[24]\.b32 [^;]+; }")
CREATE = re.compile(r"createpolicy\.fractional\.L2::evict_(last|first|normal|unchanged)\.b64")
LOAD = re.compile(
    r"ld\.global(\.L1::(evict_normal|evict_unchanged|evict_first|evict_last|no_allocate))?"
    r"(?P<hint>\.L2::cache_hint)?(\.v(?P<words>[24]))?\.b32"
)
BULK = re.compile(r"cp\.async\.bulk\.shared::cluster\.global\.mbarrier::complete_tx::bytes(?P<hint>\.L2::cache_hint)?")
FRACTION = re.compile(r",(1\.0+|0\.0*[1-9]\d*);$")


def inline_ptx(ptx_code, *, write_only_types=None, read_only_args=None, read_write_args=None, predicate=None, **_):
    """One of the instructions above, or whatever inline assembly may say."""
    if not isinstance(ptx_code, str):
        raise refused(f"inline_ptx takes the PTX as a string, got {type(ptx_code).__name__}")
    name, operands, plain, asking = _taken_apart(ptx_code)
    if predicate is not None or read_write_args is not None:
        what = "read_write_args" if predicate is None else "predicate"
        raise not_simulated(f"inline_ptx of {name} with {what}")
    types, args = tuple(write_only_types or ()), tuple(read_only_args or ())
    if asking:
        return _load_if(plain, asking["load"], types, args)
    if STORING.fullmatch(plain):
        return _store_if(plain, types, args)
    if CREATE.fullmatch(name):
        _expect(name, FRACTION.sub(";", operands), "{$w0};", types, (Int64,), args, 0)
        return Value(Int64, np.array([[POLICY]], np.int64))
    if found := LOAD.fullmatch(name):
        count = int(found["words"] or 1)
        words = ",".join(f"{{$w{k}}}" for k in range(count))
        text = f"{words if count == 1 else f'{{{words}}}'},[{{$r0}}]" + (",{$r1};" if found["hint"] else ";")
        _expect(name, operands, text, types, (Int32,) * count, args, 2 if found["hint"] else 1)
        _policy(name, args[1:])
        return _load(name, args[0], count)
    if found := BULK.fullmatch(name):
        text = "[{$r0}],[{$r1}],{$r2},[{$r3}]" + (",{$r4};" if found["hint"] else ";")
        _expect(name, operands, text, types, (), args, 5 if found["hint"] else 4)
        _policy(name, args[4:])
        return bulk(name, *args[:4])
    if not name:
        raise not_simulated("inline_ptx of nothing")
    return _as_assembly(ptx_code, types, args)


@lru_cache(maxsize=256)
def _taken_apart(code: str) -> tuple:
    """The instruction, its operands without spaces, all of it with single ones, and its match as a load that asks."""
    name, *operands = code.split() or [""]
    plain = " ".join(code.split())
    return name, "".join(operands), plain, ASKING.fullmatch(plain)


def _as_assembly(text: str, types: tuple, args: tuple):
    """Any other text, as llvm.inline_asm takes it."""
    text = re.sub(r"{\$w(\d+)}", r"$\1", text)
    text = re.sub(r"{\$r(\d+)}", lambda found: f"${len(types) + int(found[1])}", text)
    result = None if not types else types[0] if len(types) == 1 else assembly.Struct(types)
    found = assembly.inline_asm(result, args, text, ",".join(["=r"] * len(types) + ["r"] * len(args)))
    return tuple(found) if isinstance(found, assembly.Struct) else found


def _load_if(code: str, load: str, types: tuple, args: tuple):
    """A load by the threads whose predicate is not 0; the others get the words that go with it."""
    count, p = len(types), len(args) - 1 - len(types)
    moves = " ".join(f"mov.b32 {{$w{k}}}, {{$r{p + 1 + k}}};" for k in range(count))
    text = f"{{ .reg .pred p; setp.ne.b32 p, {{$r{p}}}, 0; {moves} @p {load} }}"
    if p < 1 or code != text:
        raise not_simulated(f"inline_ptx of {code}; known is {text}")
    asked, *others = _words(args[p:])
    g, there, found = group(), asked.a != 0, tuple(others)
    g.push(there)
    if any_of(g.active()):
        found = inline_ptx(load, write_only_types=types, read_only_args=args[:p])
        found = found if count > 1 else (found,)
    g.pop()
    chosen = tuple(Value(Int32, np.where(there, one.a, other.a)) for one, other in zip(found, others))
    return chosen if count > 1 else chosen[0]


def _store_if(code: str, types: tuple, args: tuple) -> None:
    """A store of the words of the threads whose predicate is not 0."""
    count = len(args) - 2
    words = ", ".join(f"{{$r{2 + k}}}" for k in range(count))
    text = f"{{ .reg .pred p; setp.ne.b32 p, {{$r1}}, 0; @p st.global.v{count}.b32 [{{$r0}}], {{{words}}}; }}"
    if types or code != text:
        raise not_simulated(f"inline_ptx of {code}; known is, without write_only_types, {text}")
    asked, *values = _words(args[1:])
    g = group()
    g.push(asked.a != 0)
    if any_of(g.active()):
        _store(args[0], values)
    g.pop()


def _words(args) -> list:
    """A predicate and the words that go with it, all of them Int32."""
    found = [scalar(arg) for arg in args]
    if any(value.dtype is not Int32 for value in found):
        raise refused("the predicate and the words of an access that is asked must be Int32")
    return found


def _expect(name: str, operands: str, text: str, types: tuple, wanted: tuple, args: tuple, count: int) -> None:
    """Refuse operands that are not `text`, and other types and numbers of arguments than go with it."""
    if operands != text:
        raise not_simulated(f"inline_ptx of {name} with the operands {operands or 'left out'}; known is {text}")
    if len(types) != len(wanted) or any(a is not b for a, b in zip(types, wanted)):
        say = lambda some: f"[{', '.join(map(str, some))}]"  # noqa: E731
        raise refused(f"{name} needs write_only_types={say(wanted)}, got {say(types)}")
    if len(args) != count:
        raise refused(f"{name} needs {count} read_only_args, got {len(args)}")


def _policy(name: str, args: tuple) -> None:
    """What a cache hint must be: a number that createpolicy gave."""
    for policy in args:
        made = isinstance(policy, Value) and policy.dtype is Int64
        if not made or any_of((policy.a != POLICY) & group().active()):
            raise refused(f"the cache policy of {name} must be what createpolicy gave")


def _pointer(name: str, pointer, space: Space, what: str) -> m.Pointer:
    if isinstance(pointer, m.Pointer) and isinstance(pointer.memory, m.Either):
        raise not_simulated(f"inline_ptx of {name} with a tensor that a dynamic `if` rebinds")
    if not isinstance(pointer, m.Pointer) or pointer.memspace is not space:
        got = f"one to {m.SPACE_NAMES[pointer.memspace]}" if isinstance(pointer, m.Pointer) else type(pointer).__name__
        raise refused(f"{name}: {what} must be a pointer to {m.SPACE_NAMES[space]}, got {got}")
    return pointer


def _access(name: str, pointer, count: int):
    """(the pointer, its elements in `count` words) of one instruction, whatever the type of its elements."""
    pointer = _pointer(name, pointer, Space.GMEM, "the address")
    if 4 * count % pointer.dtype.itemsize:  # elements wider than the access
        factor = pointer.dtype.itemsize // Int32.itemsize
        pointer = replace(pointer, dtype=Int32, offset=pointer.offset * factor, view=None)
    return pointer, 4 * count // pointer.dtype.itemsize


def _store(pointer, values: list) -> None:
    """The words `values` to `pointer` in one instruction."""
    pointer, width = _access(f"st.global.v{len(values)}.b32", pointer, len(values))
    words = np.stack([np.broadcast_to(value.a, group().shape) for value in values], axis=-1).astype(np.int32)
    m.write_raw(
        pointer,
        np.arange(width, dtype=np.int64),
        words.view(pointer.dtype.storage),
        width,
        None,
        _place(pointer, width),
    )


def _load(name: str, pointer, count: int):
    """`count` words from `pointer` in one instruction."""
    pointer, width = _access(name, pointer, count)
    raw = m.read_raw(pointer, np.arange(width, dtype=np.int64), width, None, Op.LOAD, _place(pointer, width))
    words = contiguous(raw).view(np.int32)
    found = tuple(Value(Int32, words[..., k]) for k in range(count))
    return found if count > 1 else found[0]


def _place(pointer: m.Pointer, width: int) -> Place | None:
    """The coordinates of the first `width` elements from a pointer that remembers its view."""
    if pointer.view is None:
        return None
    layout, coords = pointer.view
    if size(layout) % width or contiguous_run(layout) % width:
        return None
    spans = coordinate_spans(coords.layout, len(coords.base), width)
    low, high = (tuple(s if isinstance(s, int) else int(s[0]) for s in side) for side in spans)
    return Place(coords.base, low, high)


def bulk(name: str, target, source, nbytes, mbar) -> None:
    """A bulk copy by each active thread, of as many bytes as it says."""
    target, mbar = _pointer(name, target, Space.SMEM, "the target"), _pointer(name, mbar, Space.SMEM, "the mbarrier")
    source = _pointer(name, source, Space.GMEM, "the source")
    if target.rows is not None or mbar.rows is not None:
        raise not_simulated(f"{name} to another block of the cluster")
    g, amount = group(), scalar(nbytes)
    if amount.dtype is not Int32:
        raise refused(f"{name}: the number of bytes must be Int32, got {amount.dtype}")
    for count in np.unique(np.broadcast_to(amount.a, g.shape)[g.active()]).tolist():
        if count <= 0 or count % 16:
            raise refused(f"a bulk copy moves a multiple of 16 bytes, got {count}")
        g.push(amount.a == count)
        bulk_copy(_run(source, count, source), _run(target, count, source), mbar)
        g.pop()


def _run(pointer: m.Pointer, nbytes: int, like: m.Pointer) -> Tensor:
    """The `nbytes` from a pointer as a tensor of elements like another's: the pointer's view, where it is just that."""
    if pointer.dtype is not like.dtype:
        offset, left = np.divmod(np.asarray(pointer.offset) * pointer.dtype.itemsize, like.dtype.itemsize)
        if left.any():
            raise fail("misaligned", "the target of a bulk copy must be at a multiple of 16 bytes")
        pointer = replace(pointer, dtype=like.dtype, offset=offset if offset.ndim else int(offset), view=None)
    count = nbytes // pointer.dtype.itemsize
    if pointer.view is not None and size(pointer.view[0]) == contiguous_run(pointer.view[0]) == count:
        return make_tensor(pointer, pointer.view[0])
    return Tensor(replace(pointer, view=None), make_layout(count))
