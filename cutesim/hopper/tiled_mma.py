"""Matrix products: atoms that a thread, a warp or a warpgroup computes together, and how tiled ones hand out operands.

An atom's layouts say which thread holds which element: A is (M, K), B (N, K), C (M, N), each as (thread, value) -> column-major
index. A tiled mma repeats the atom over threads (`atom_layout_mnk`), and its permutation over values; `partition_A` and so on give
a thread its ((values of the atom), rest of M, rest of K).

| operation                  | who     | shapes              | operands from                                      |
|----------------------------|---------|---------------------|----------------------------------------------------|
| `nvgpu.MmaUniversalOp`     | thread  | 1 x 1 x 1           | registers                                          |
| `warp.MmaF16BF16Op`        | warp    | 16 x 8 x 8, 16      | registers                                          |
| `warp.MmaTF32Op`           | warp    | 16 x 8 x 4, 8       | registers; TF32 keeps 10 bits of the fraction      |
| `warpgroup.MmaF16BF16Op`, `MmaF8Op` | 128 threads | 64 x N x 16, 32 | shared memory, A also from registers        |

Products are summed in float64 and rounded to the accumulator's type once an instruction; the hardware's own order of a sum, and its
bits beyond float32's, are not documented. Sources: PTX ISA 9.0, matrix fragments of mma.m16n8k8, k16 and of wgmma; CUTLASS's
documentation of CuTe (0t_mma_atom). Not covered: sparse and block-scaled products, mixed signs of integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..context import group, not_simulated, refused
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Layout
from ..machine.warps import require_all
from ..memory.pointers import read, write
from ..memory.registers import Registers
from ..memory.tensor import CoordinateTensor, Tensor, as_layout, element_offsets, fragment_layout, make_rmem_tensor
from ..values.numeric import BFloat16, DType, Float16, Float32, Int32, Value
from ..values.placeholders import Tokens

OperandMajorMode, OperandSource = Tokens("MN", "K"), Tokens("RMEM", "SMEM")
Field = Tokens("ACCUMULATE")


@dataclass(frozen=True)
class MmaOp:
    """One instruction: its shape, types, who holds what."""

    name: str
    shape_mnk: tuple
    threads: int
    a: Layout  # (thread, value) -> (M, K)
    b: Layout
    c: Layout
    a_dtype: DType
    b_dtype: DType
    acc_dtype: DType
    shared_a: bool = False  # operands lie in shared memory
    shared_b: bool = False
    # what cute.gemm calls to start the products, where they go on beside the threads
    start: object = None


def MmaUniversalOp(abacc_dtype: DType, **_) -> MmaOp:
    one = Layout((1, 1), (0, 0))
    return MmaOp("MmaUniversalOp", (1, 1, 1), 1, one, one, one, abacc_dtype, abacc_dtype, abacc_dtype)


_QUADS_C = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))


def MmaF16BF16Op(ab_dtype: DType, acc_dtype: DType, shape_mnk, **_) -> MmaOp:
    shape = tuple(shape_mnk)
    if (ab_dtype, acc_dtype) not in ((Float16, Float32), (Float16, Float16), (BFloat16, Float32)):
        raise refused(f"warp.MmaF16BF16Op has no product of {ab_dtype} in {acc_dtype}")
    if shape == (16, 8, 16):
        a = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))
        b = Layout(((4, 8), (2, 2)), ((16, 1), (8, 64)))
    elif shape == (16, 8, 8):
        a, b = _QUADS_C, Layout(((4, 8), 2), ((16, 1), 8))
    else:
        raise refused(f"warp.MmaF16BF16Op has the shapes (16, 8, 8) and (16, 8, 16), not {shape}")
    return MmaOp("MmaF16BF16Op", shape, 32, a, b, _QUADS_C, ab_dtype, ab_dtype, acc_dtype)


def MmaTF32Op(shape_mnk, **_) -> MmaOp:
    shape = tuple(shape_mnk)
    if shape == (16, 8, 8):
        a = Layout(((4, 8), (2, 2)), ((16, 1), (8, 64)))
        b = Layout(((4, 8), 2), ((8, 1), 32))
    elif shape == (16, 8, 4):
        a, b = Layout(((4, 8), 2), ((16, 1), 8)), Layout(((4, 8), 1), ((8, 1), 0))
    else:
        raise refused(f"warp.MmaTF32Op has the shapes (16, 8, 4) and (16, 8, 8), not {shape}")
    return MmaOp("MmaTF32Op", shape, 32, a, b, _QUADS_C, Float32, Float32, Float32)


# ---- tiled ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MmaAtom:
    op: MmaOp

    shape_mnk = property(lambda self: self.op.shape_mnk)
    thr_id = property(lambda self: _threads(self.op))


def _threads(op: MmaOp) -> Layout:
    return Layout(op.threads, 1 if op.threads > 1 else 0)


def make_mma_atom(op: MmaOp, **_) -> MmaAtom:
    if not isinstance(op, MmaOp):
        raise not_simulated(f"make_mma_atom of {op!r}")
    return MmaAtom(op)


class TiledMma:
    """An atom spread over threads."""

    def __init__(self, op: MmaOp, atom_layout: Layout, permutation: tuple):
        self.op, self.atom_layout, self.permutation = op, atom_layout, permutation
        self.fields = {}
        first = _threads(op)
        whole = la.join((first, atom_layout))
        if op.threads > 1:
            whole = algebra.logical_product(first, atom_layout)
        self.thr_layout_vmnk = la.join((whole[0], *la.modes(whole[1])))

    size = property(lambda self: la.size(self.thr_layout_vmnk))
    shape_mnk = property(lambda self: self.op.shape_mnk)
    partition_shape = property(lambda self: self.permutation)

    def get_tile_size(self, mode: int) -> int:
        return _extent(self.op, self.thr_layout_vmnk, self.permutation, mode)

    tile_mnk = property(lambda self: tuple(map(self.get_tile_size, range(3))))

    def get_slice(self, thr_idx) -> ThrMma:
        return ThrMma(self, thr_idx)

    def set(self, field, value, **_) -> None:
        """tiled_mma.set(Field.ACCUMULATE, False): the next product replaces the accumulator."""
        self.fields[getattr(field, "name", str(field))] = value

    def get(self, field, **_):
        return self.fields.get(getattr(field, "name", str(field)), True)

    # -- layouts

    def tv_layout(self, which: str) -> Layout:
        return _tiled_tv(self.op, self.thr_layout_vmnk, self.permutation, which)

    def _make_fragment(self, x, which: str):
        """Registers for an operand or the sums; for an operand in shared memory, descriptors."""
        op = self.op
        dtypes = {"A": op.a_dtype, "B": op.b_dtype, "C": op.acc_dtype}
        shared = {"A": op.shared_a, "B": op.shared_b, "C": False}
        return _fragment(x, dtypes[which], shared[which], which)

    def part(self, layout: Layout, which: str) -> Layout:
        return _threads_and_fragments(layout, self.op, self.thr_layout_vmnk, self.permutation, which)

    def _partition_shape(self, shape, which: str) -> tuple:
        values, rest = self.part(la.make_layout(tuple(shape)), which)[1].shape
        return (values, *rest)


def make_tiled_mma(op_or_atom, atom_layout_mnk=(1, 1, 1), permutation_mnk=None, **_) -> TiledMma:
    op = op_or_atom.op if isinstance(op_or_atom, MmaAtom) else op_or_atom
    if not isinstance(op, MmaOp):
        raise not_simulated(f"make_tiled_mma of {op!r}")
    layout = as_layout(tuple(atom_layout_mnk) if isinstance(atom_layout_mnk, (tuple, list)) else atom_layout_mnk)
    while la.rank(layout) < 3:
        layout = la.append(layout, Layout(1, 0))
    permutation = tuple(permutation_mnk) if permutation_mnk is not None else (None, None, None)
    return TiledMma(op, layout, permutation + (None,) * (3 - len(permutation)))


_MODES = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


@lru_cache(maxsize=2048)
def _threads_and_fragments(layout: Layout, op: MmaOp, thr_layout: Layout, permutation: tuple, which: str) -> Layout:
    """A layout of (M, K), (N, K) or (M, N) as ((thread of the atom, (threads of both modes)), (values, (rest of both modes)))."""
    modes = _MODES[which]
    tiles = tuple(permutation[i] for i in modes)
    others = la.rank(layout) - 2
    divided = algebra.logical_divide(layout, (*tiles, *([None] * others))[: la.rank(layout)])
    atom = tuple(op.shape_mnk[i] for i in modes)
    zipped = algebra.zipped_divide(la.select(divided, [0, 1]), atom)
    tv = {"A": op.a, "B": op.b, "C": op.c}[which]
    per_atom = algebra.composition(zipped[0], tv)
    rest = zipped[1]
    by_thread = algebra.logical_divide(rest, tuple(la.size(thr_layout[i + 1]) for i in modes))
    threads = la.join(by_thread[i][0] for i in range(2))
    rests = la.join(by_thread[i][1] for i in range(2))
    rest = la.join((*la.modes(rests), *la.modes(divided)[2:]))
    return la.join((la.join((per_atom[0], threads)), la.join((per_atom[1], rest))))


def _extent(op: MmaOp, thr_layout: Layout, permutation: tuple, i: int) -> int:
    """How much of one mode of M, N, K a whole tiled product has."""
    tile = permutation[i]
    if tile is None:
        return op.shape_mnk[i] * la.size(thr_layout[i + 1])
    return la.size(tile) if isinstance(tile, Layout) else int(tile)


@lru_cache(maxsize=512)
def _tiled_tv(op: MmaOp, thr_layout: Layout, permutation: tuple, which: str) -> Layout:
    """(thread, value) -> index in the tile of one whole tiled product."""
    modes = _MODES[which]
    reference = la.make_layout(tuple(_extent(op, thr_layout, permutation, i) for i in modes))
    parted = _threads_and_fragments(reference, op, thr_layout, permutation, which)
    # (thread of the atom, (threads of both modes)) from all threads: those along the third mode do the same.
    shape = [la.size(thr_layout[j]) for j in range(4)]
    missing = ({0, 1, 2} - set(modes)).pop()
    strides, step = {}, shape[0]
    for i in modes:
        strides[i] = step
        step *= shape[i + 1]
    strides[missing] = 0
    every = Layout(tuple(shape), (1, *(strides[i] for i in range(3))))
    index = algebra.composition(every, algebra.right_inverse(thr_layout))
    flat = la.join((parted[0][0], *la.modes(parted[0][1])))
    threads = algebra.composition(flat, index)
    return la.join((threads, parted[1]))


def _coordinates(thr_layout: Layout, thread):
    """(v, m, n, k) of a thread's number, which may be one a lane."""
    index = thread.a.astype(np.int64) if isinstance(thread, Value) else thread
    result = []
    for mode in la.modes(thr_layout):
        coordinate, step = 0, 1
        for extent, stride in la.leaves(mode):
            if stride:
                coordinate = coordinate + index // stride % extent * step
            step *= extent
        result.append(coordinate)
    return result


@dataclass(frozen=True)
class ThrMma:
    """One thread's share of a tiled product."""

    tiled: TiledMma
    thread: object

    def _partition(self, tensor, which: str):
        whole = tensor.relaid(lambda layout: self.tiled.part(layout, which))
        v, *mnk = _coordinates(self.tiled.thr_layout_vmnk, self.thread)
        thread = v, tuple(mnk[i] for i in _MODES[which])
        every = None, (None,) * la.rank(whole.layout.shape[1][1])
        return whole[_as_values((thread, every))]

    def __getattr__(self, name: str):
        if name.startswith(("make_fragment", "partition_shape", "shape_mnk", "op")):
            return getattr(self.tiled, name)
        raise AttributeError(name)


def _as_values(x):
    if isinstance(x, tuple):
        return tuple(map(_as_values, x))
    return Value(Int32, x.astype(np.int32)) if isinstance(x, np.ndarray) else x


def _of_operand(name: str, which: str):
    """`make_fragment_A` and so on: a method for one operand, or for the sums."""

    def call(self, x, **_):
        return getattr(self, f"_{name}")(x, which)

    call.__name__ = call.__qualname__ = f"{name}_{which}"
    return call


for _which in "ABC":
    _tv = property(lambda self, which=_which: self.tv_layout(which))
    setattr(TiledMma, f"tv_layout_{_which}_tiled", _tv)
    for _name in ("make_fragment", "partition_shape"):
        setattr(TiledMma, f"{_name}_{_which}", _of_operand(_name, _which))
    setattr(ThrMma, f"partition_{_which}", _of_operand("partition", _which))


class Descriptors:
    """Operands in shared memory, as a warpgroup's product takes them: one descriptor for the values of each instruction."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    shape = property(lambda self: (1, *self.tensor.shape[1:]))
    layout = property(lambda self: la.join((Layout(1, 0), *la.modes(self.tensor.layout)[1:])))
    element_type = property(lambda self: self.tensor.dtype)

    dtype = element_type

    __iter__ = None

    def __getitem__(self, coord):
        return Descriptors(self.tensor[coord])

    carried_type = property(lambda self: self.tensor.carried_type)


def with_layout(function):
    """A function of a layout that takes descriptors too, as what they lie in; of a tiled product its threads."""

    def take(x, *args, **kwargs):
        if isinstance(x, Descriptors):
            x = x.layout
        elif isinstance(x, TiledMma):
            x = Layout(x.size, 1)
        return function(x, *args, **kwargs)

    take.__name__ = function.__name__
    return take


def _fragment(x, dtype: DType, shared: bool, which: str):
    if shared:
        if not isinstance(x, Tensor) or isinstance(x.pointer.memory, Registers):
            raise refused("this operand of a warpgroup's product lies in shared memory: give make_fragment its tensor")
        return Descriptors(x)
    if isinstance(x, (Tensor, CoordinateTensor)):
        if which == "C" or isinstance(x, CoordinateTensor) or la.rank(x.layout) == 1:
            return make_rmem_tensor(la.make_layout(x.shape), dtype)
        values, *rest = la.modes(x.layout)
        rest, count = fragment_layout(la.join(rest)), la.size(values)
        step = lambda d: tuple(map(step, d)) if isinstance(d, tuple) else d * count  # noqa: E731
        after = Layout(rest.shape, step(rest.stride))
        return make_rmem_tensor(la.join((la.make_layout(values.shape), *la.modes(after))), dtype)
    return make_rmem_tensor(x, dtype)


# ---- the product ----------------------------------------------------------------------------------------------------


def gemm(atom, d, a, b, c, **_) -> None:
    """d = a b + c over (V, M), (V, N), (V, M, N), or with a mode K more in a and b."""
    if isinstance(atom, MmaAtom):
        atom = TiledMma(atom.op, la.make_layout((1, 1, 1)), (None, None, None))
    if not isinstance(atom, TiledMma):
        raise not_simulated(f"cute.gemm with {type(atom).__name__}")
    if atom.op.start is not None:
        atom.op.start(atom, d, a, b, c)
        return
    for side in (d, a, b, c):
        if not isinstance(side, Tensor) or not isinstance(side.pointer.memory, Registers):
            raise refused(f"cute.gemm of {atom.op.name} takes tensors in registers")
    _check_types(atom.op, d, a, b, c)
    values_a, values_b, sums = (_values(x) for x in (a, b, c))
    if values_a.ndim == 4:  # no mode K
        values_a, values_b = values_a[..., None], values_b[..., None]
    result = sums
    for k in range(values_a.shape[-1]):
        result = instruction(atom.op, values_a[..., k], values_b[..., k], result)
    _store(d, result)


def _check_types(op: MmaOp, d, a, b, c) -> None:
    given = [x.dtype for x in (d, a, b, c)]
    wanted = [op.acc_dtype, op.a_dtype, op.b_dtype, op.acc_dtype]
    if any(g is not w and g.width != w.width for g, w in zip(given, wanted)):
        raise refused(f"cute.gemm of {op.name} takes {wanted[1]} x {wanted[2]} in {wanted[0]}, got {given}")


def _values(tensor: Tensor) -> np.ndarray:
    """(B, T, values, rest ...) of a register tensor, as float64."""
    shape = [la.product(part) for part in tensor.shape]
    data = read(tensor.pointer, element_offsets(tensor.layout), 1)
    data = np.broadcast_to(data, (*group().shape, data.shape[-1]))
    data = data.reshape(*group().shape, *reversed(shape))
    return data.transpose(0, 1, *range(1 + len(shape), 1, -1)).astype(np.float64)


def _store(tensor: Tensor, values: np.ndarray) -> None:
    flat = values.transpose(0, 1, *range(values.ndim - 1, 1, -1)).reshape(*values.shape[:2], -1)
    write(tensor.pointer, element_offsets(tensor.layout), tensor.dtype.round(flat), 1)


@lru_cache(maxsize=64)
def places(layout: Layout) -> np.ndarray:
    """The column-major index of each (thread, value), or its element."""
    threads, values = la.size(layout[0]), la.size(layout[1])
    return la.offsets(layout).reshape(values, threads).T


def instruction(op: MmaOp, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """(B, T, values of C, M, N) from (B, T, values of A, M), (B, T, values of B, N) and C, every instruction of a warp at once."""
    if op.threads == 1:
        return (a[:, :, 0, :, None] * b[:, :, 0, None, :])[:, :, None] + c
    require_all(0xFFFFFFFF, op.name)
    m, n, k = op.shape_mnk
    if op.name == "MmaTF32Op":
        a, b = _tf32(a), _tf32(b)
    operands = (a, op.a, m * k), (b, op.b, n * k), (c, op.c, m * n)
    matrices = [_gather(x, places(layout), size) for x, layout, size in operands]
    whole_a = matrices[0].reshape(*matrices[0].shape[:3], k, m)  # (B, warps, M rest, k, m)
    whole_b = matrices[1].reshape(*matrices[1].shape[:3], k, n)
    product = np.einsum("bwmki,bwnkj->bwmnij", whole_a, whole_b)
    before = matrices[2].reshape(*matrices[2].shape[:4], n, m).swapaxes(-1, -2)
    total = op.acc_dtype.round(product + before).astype(np.float64)
    flat = total.swapaxes(-1, -2).reshape(*total.shape[:4], m * n)
    spread = flat[..., places(op.c)]  # (B, warps, M, N, threads, values)
    result = spread.transpose(0, 1, 4, 5, 2, 3)
    return result.reshape(result.shape[0], -1, *result.shape[3:])


def _gather(x: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    """(B, warps, rest ..., elements of the matrix) from (B, T, values, rest ...)."""
    parts = x.reshape(x.shape[0], -1, len(at), *x.shape[2:])
    parts = parts.transpose(0, 1, *range(4, parts.ndim), 2, 3)
    out = np.zeros((*parts.shape[:-2], size))
    out[..., at] = parts
    return out


def _tf32(a: np.ndarray) -> np.ndarray:
    """float32 without the lower 13 bits of its fraction, which the instruction does not read."""
    bits = a.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)
