"""wgmma: products that 128 threads start together and wait for later, operands in shared memory.

| step                | here                                                                                                |
|---------------------|-----------------------------------------------------------------------------------------------------|
| `fence()`           | before the first product that uses registers written since: without, a finding                      |
| `cute.gemm`         | starts products: until they have been waited for, accumulators hold nothing that may be read or written |
| `commit_group()`    | puts the products so far into a group                                                               |
| `wait_group(n)`     | all groups but the last n are done: their operands have been read, their accumulators may be used   |

A product reads shared memory when it is waited for, as late as is legal, so a stage that was released too early shows wrong numbers
and a race. Layouts of operands in shared memory are those that wgmma's descriptors describe (`make_smem_layout_atom`).
Sources: PTX ISA 9.0, asynchronous warpgroup level matrix instructions. Not covered: sparse products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutesim.trace import Op

from ..context import STATE, fail, group, here, refused
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Layout
from ..machine.barriers import whole_warps
from ..machine.copying import CopyUniversalOp, make_copy_atom
from ..memory.log import needs_warps
from ..memory.pointers import read_raw
from ..memory.recording import record_event
from ..memory.registers import Registers
from ..memory.swizzle import ComposedLayout, Swizzle
from ..memory.tensor import Tensor, element_offsets
from ..values.numeric import BFloat16, DType, Float16, Float32, constant_number
from ..values.placeholders import Tokens
from .matrix_copies import StMatrix8x8x16bOp
from .tiled_mma import (
    Descriptors,
    MmaOp,
    OperandMajorMode,
    OperandSource,
    TiledMma,
    _check_types,
    _store,
    _values,
    make_tiled_mma,
    places,
)

_BYTES = {"INTER": 16, "SW32": 32, "SW64": 64, "SW128": 128}
SmemLayoutAtomKind = Tokens(*(f"{major}_{kind}" for major in ("MN", "K") for kind in _BYTES))


def make_smem_layout_atom(kind, element_type: DType, **_) -> ComposedLayout:
    """Eight rows of 16, 32, 64 or 128 bytes, with the swizzle of that width."""
    major, _, width = kind.name.partition("_")
    nbytes = _BYTES[width]
    count = nbytes // element_type.itemsize
    outer = Layout((count, 8), (1, count)) if major == "MN" else Layout((8, count), (count, 1))
    return ComposedLayout(Swizzle((nbytes // 32).bit_length(), 4, 3), 0, outer)


def _wide(op_name: str, a_dtype, b_dtype, acc_dtype, shape, a_src, k: int) -> MmaOp:
    m, n = shape[:2]
    if m != 64 or n % 8 or not 8 <= n <= 256 or (len(shape) > 2 and shape[2] != k):
        raise refused(f"warpgroup.{op_name} has shapes (64, 8 to 256 by 8, {k}), not {tuple(shape)}")
    c = Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))
    if a_src == OperandSource.RMEM:
        pairs = k // 4 // 2  # elements of 32 bits
        a = Layout(((4, 8, 4), (pairs, 2, 2)), ((64 * pairs, 1, 16), (64, 8, 64 * 4 * pairs)))
    else:
        a = Layout((128, (64, k)), (0, (1, 64)))
    b = Layout((128, (n, k)), (0, (1, n)))
    shared_a = a_src == OperandSource.SMEM
    return MmaOp(op_name, (64, n, k), 128, a, b, c, a_dtype, b_dtype, acc_dtype, shared_a, True, issue)


def MmaF16BF16Op(ab_dtype, acc_dtype, instruction_shape, a_src, a_major_mode, b_major_mode, **_) -> MmaOp:
    if ab_dtype not in (Float16, BFloat16) or acc_dtype not in (Float32, Float16):
        raise refused(f"warpgroup.MmaF16BF16Op has no product of {ab_dtype} in {acc_dtype}")
    return _wide("MmaF16BF16Op", ab_dtype, ab_dtype, acc_dtype, instruction_shape, a_src, 16)


def MmaF8Op(a_dtype, b_dtype, acc_dtype, instruction_shape, a_src, a_major_mode, b_major_mode, **_) -> MmaOp:
    if a_major_mode != OperandMajorMode.K or b_major_mode != OperandMajorMode.K:
        raise refused("warpgroup.MmaF8Op takes operands whose mode K is contiguous")
    return _wide("MmaF8Op", a_dtype, b_dtype, acc_dtype, instruction_shape, a_src, 32)


# ---- products under way ---------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Product:
    """Products of one gemm call: what they read, and the accumulator that they are to change."""

    op: MmaOp
    d: Tensor
    a: object
    b: Tensor
    accumulate: bool
    line: object
    run: object  # function that computes them


def _under_way(g) -> list:
    """Groups of products of this group of threads, oldest first; the last is open."""
    found = getattr(g, "products", None)
    if found is None:
        found = g.products = [[]]
    return found


def fence(**_) -> None:
    """Registers written so far are seen by the products after it."""
    _whole("fence")
    group().fenced = STATE.run.changes


def commit_group(**_) -> None:
    _whole("commit_group")
    _under_way(group()).append([])


def wait_group(n, **_) -> None:
    """Until at most `n` groups are under way."""
    _whole("wait_group")
    g, keep = group(), constant_number(n, "wait_group's number")
    groups = _under_way(g)
    while len(groups) - 1 > keep:
        done = groups.pop(0)
        for product in done:
            product.run()
        later = [product.d.pointer.memory for products in groups for product in products]
        for memory in (product.d.pointer.memory for product in done):
            if not any(memory is other for other in later):
                memory.pending = None
    record_event(Op.SYNC_WARP)  # it is .sync.aligned: each lane goes on once all have come


def _whole(what: str) -> None:
    needs_warps()
    whole_warps(f"warpgroup.{what}", "All threads of the warpgroup must come to it.")


def issue(tiled: TiledMma, d, a, b, c) -> None:
    """cute.gemm of a warpgroup's atom: starts the products."""
    _whole("gemm")
    g, op = group(), tiled.op
    if not isinstance(b, Descriptors) or (op.shared_a and not isinstance(a, Descriptors)):
        raise refused(f"{op.name} takes descriptors of shared memory: make_fragment_A and make_fragment_B give them")
    in_registers = isinstance(getattr(getattr(a, "pointer", None), "memory", None), Registers)
    if not op.shared_a and not in_registers:
        raise refused(f"{op.name} with a_src RMEM takes A from registers")
    if d.pointer.memory is not c.pointer.memory:
        raise refused(f"{op.name} adds to its own accumulator: give cute.gemm the same tensor twice")
    _check_types(op, d, a, b, c)
    memory = d.pointer.memory
    registers = {"the accumulator": memory} | ({} if op.shared_a else {"operand A": a.pointer.memory})
    for what, one in registers.items():
        if one.pending is None and one.changed > getattr(g, "fenced", 0):
            text = (
                f"Missing fence: {what} was written since the last warpgroup.fence(), and this product may see old registers (PTX "
                "ISA, wgmma.fence). Call cute.nvgpu.warpgroup.fence() between the two."
            )
            raise fail("missing wgmma fence", text, block=int(g.blocks[0]))
    accumulate = tiled.get("ACCUMULATE")
    if not isinstance(accumulate, bool):
        flat = np.broadcast_to(accumulate.a, g.shape)[g.active()]
        accumulate = bool(flat[0])
    held = None if op.shared_a else _values(a)

    def run():
        outer, STATE.group = STATE.group, g
        pending, memory.pending, changed = memory.pending, None, memory.changed
        try:
            _compute(op, d, held if held is not None else a.tensor, b.tensor, accumulate)
        finally:
            STATE.group, memory.pending, memory.changed = outer, pending, changed

    _under_way(g)[-1].append(Product(op, d, a, b.tensor, accumulate, here(), run))
    memory.pending = here()


def _compute(op: MmaOp, d: Tensor, a, b: Tensor, accumulate: bool) -> None:
    sums = _values(d)
    if not accumulate:
        sums = np.zeros_like(sums)
    g = group()
    m, n, k = op.shape_mnk
    warps = max(1, len(g.threads) // 32)
    b_parts = _shared(b, n, k)  # (B, warps, N rest, K rest, n, k)
    if isinstance(a, Tensor):
        rows = _shared(a, m, k)  # (B, warps, M rest, K rest, 64, k)
    else:
        a = a if a.ndim == 5 else a[..., None]
        rows = None
    lanes = (g.threads % 128).reshape(warps, 32)
    for step in range(b_parts.shape[3]):
        for w in range(warps):
            mine = lanes[w]
            at = places(op.c)[mine]  # (32, values): column-major in (64, N)
            at_m, at_n = at % m, at // m
            if rows is not None:
                left = rows[:, w, :, step]  # (B, M rest, 64, k)
            else:
                left = _from_registers(op, a[..., step], w, mine)
            product = np.einsum("bmik,bnjk->bmnij", left, b_parts[:, w, :, step])
            add = product[..., at_m, at_n]  # (B, M rest, N rest, 32, values)
            lane = slice(w * 32, w * 32 + 32)
            total = sums[:, lane] + add.transpose(0, 3, 4, 1, 2)
            sums[:, lane] = op.acc_dtype.round(total).astype(np.float64)
    _store(d, sums)


def _shared(tensor: Tensor, rows: int, k: int) -> np.ndarray:
    """The operand's matrices, (B, warps, rest, K rest, rows, k): every warp reads them for itself."""
    g = group()
    shape = [la.product(part) for part in tensor.shape]
    rests = shape[1:] if len(shape) > 2 else [*shape[1:], 1]
    offsets = element_offsets(tensor.layout)
    order = np.argsort(offsets, kind="stable")
    width = max(1, 16 // tensor.dtype.itemsize)
    ordered = offsets[order]
    runs = ordered[::width, None] + np.arange(width)
    if not np.array_equal(runs.reshape(-1), ordered):
        width = 1
    one = np.zeros((1, len(g.threads), 1), bool)
    one[:, ::32] = True
    chunks = len(ordered) // width
    found = np.empty((len(g.blocks), max(1, len(g.threads) // 32), len(offsets)), tensor.dtype.carrier)
    # 32 lanes read together what the warp needs; the values are the same whoever reads.
    spread = -(-chunks // 32)
    for part in range(spread):
        mine = np.arange(part * 32, min(part * 32 + 32, chunks))
        starts = ordered[mine * width]
        padded = np.concatenate((starts, np.repeat(starts[:1], 32 - len(mine))))
        lane_offset = np.tile(padded, max(1, len(g.threads) // 32))[None, :]
        keep = np.tile(np.arange(32) < len(mine), max(1, len(g.threads) // 32))[None, :, None]
        pointer = tensor.pointer.shifted(lane_offset, tensor.pointer.alignment)
        raw = read_raw(pointer, np.arange(width, dtype=np.int64), width, keep, Op.LOAD, None, arg=1)
        data = pointer.dtype.decode(raw)
        data = np.broadcast_to(data, (*g.shape, width)).reshape(len(g.blocks), -1, 32, width)[:, :, : len(mine)]
        found[:, :, order[mine[0] * width : (mine[-1] + 1) * width]] = data.reshape(len(g.blocks), data.shape[1], -1)
    # column-major: (rows, k) of the instruction, then its rests
    whole = found.reshape(*found.shape[:2], *reversed(rests), k, rows)
    return whole.transpose(0, 1, 3, 2, 5, 4).astype(np.float64)


def _from_registers(op: MmaOp, a: np.ndarray, w: int, mine: np.ndarray) -> np.ndarray:
    """(B, M rest, 64, k): this warp's 16 rows of A, from its registers."""
    m, _, k = op.shape_mnk
    part = a[:, w * 32 : w * 32 + 32]  # (B, 32, values, M rest)
    out = np.zeros((part.shape[0], part.shape[3], m * k))
    out[..., places(op.a)[mine]] = part.transpose(0, 3, 1, 2)
    return out.reshape(*out.shape[:2], k, m).swapaxes(-1, -2)


# ---- cutlass.utils.hopper_helpers -----------------------------------------------------------------------------------


def get_smem_layout_atom(layout, element_type: DType, major_mode_size: int, **_):
    """The widest swizzle that the contiguous mode allows."""
    major = "K" if layout.is_k_major_a() else "MN"
    bits = int(major_mode_size) * element_type.width
    width = next((kind for kind in ("SW128", "SW64", "SW32") if bits % (8 * _BYTES[kind]) == 0), "INTER")
    return getattr(SmemLayoutAtomKind, f"{major}_{width}")


def _staged(layout, k_major: bool, rows: int, columns: int, dtype: DType, stages: int):
    kind = get_smem_layout_atom(layout, dtype, columns if k_major else rows)
    atom = make_smem_layout_atom(kind, dtype)
    order = (0, 1, 2) if k_major else (1, 0, 2)
    outer = algebra.tile_to_shape(la.append(atom.outer, Layout(1, 0)), (rows, columns, stages), order)
    return ComposedLayout(atom.inner, 0, outer)


def make_smem_layout_a(a_layout, mma_tiler_mnk, a_dtype: DType, num_stages: int, **_):
    return _staged(a_layout, a_layout.is_k_major_a(), mma_tiler_mnk[0], mma_tiler_mnk[2], a_dtype, num_stages)


def make_smem_layout_b(b_layout, mma_tiler_mnk, b_dtype: DType, num_stages: int, **_):
    k_major = b_layout.is_n_major_b() is False
    return _staged(b_layout, k_major, mma_tiler_mnk[1], mma_tiler_mnk[2], b_dtype, num_stages)


def make_smem_layout_epi(epi_dtype: DType, epi_layout, epi_tile, epi_stage: int, **_):
    m, n = (la.size(part) if isinstance(part, Layout) else int(part) for part in epi_tile)
    return _staged(epi_layout, epi_layout.is_n_major_c(), m, n, epi_dtype, epi_stage)


def sm90_get_smem_store_op(layout_d, elem_ty_d: DType, elem_ty_acc: DType, **_):
    """stmatrix for 16-bit results, else one register at a time."""
    if elem_ty_d.width == 16:
        return make_copy_atom(StMatrix8x8x16bOp(layout_d.is_m_major_c(), 4), elem_ty_d)
    return make_copy_atom(CopyUniversalOp(), elem_ty_d)


def compute_tile_shape_or_override(tile_shape_mnk, element_type, is_cooperative=False, epi_tile_override=None, **_):
    """How much of a tile the epilogue writes at once: (rows, columns); 32 columns, or 64 of 8-bit types by one warpgroup.

    What the compiler answers for 11 tiles, 3 types and both kinds.
    """
    if epi_tile_override is not None:
        return epi_tile_override
    m, n = (la.size(extent) if isinstance(extent, tuple) else extent for extent in tile_shape_mnk[:2])
    if is_cooperative:
        return min(128, m), min(32, n)
    return min(64, m), min(64 if element_type.width == 8 else 32, n)


def make_trivial_tiled_mma(
    a_dtype,
    b_dtype,
    a_leading_mode,
    b_leading_mode,
    acc_dtype,
    atom_layout_mnk,
    tiler_mn,
    a_source=OperandSource.SMEM,
    **_,
) -> TiledMma:
    shape = (*tiler_mn[:2], 16 if a_dtype.width == 16 else 32)
    if a_dtype.width == 16:
        op = MmaF16BF16Op(a_dtype, acc_dtype, shape, a_source, a_leading_mode, b_leading_mode)
    else:
        op = MmaF8Op(a_dtype, b_dtype, acc_dtype, shape, a_source, a_leading_mode, b_leading_mode)
    return make_tiled_mma(op, atom_layout_mnk)
