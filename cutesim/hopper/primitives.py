"""cutlass.experimental.primitives and views of tensors as arrays, as far as they stand for what cute.arch and tensors have.

| names                                                       | here                                      |
|-------------------------------------------------------------|-------------------------------------------|
| `barrier_cta_sync`, `barrier_cta_arrive`, `bar_warp_sync`    | barriers of the block and of a warp; aligned or not |
| `shfl_sync`, `vote_sync`, `elect_sync`, `griddepcontrol`     | as cute.arch has them                     |
| `mbarrier_init`, `mbarrier_arrive`, `mbarrier_wait_parity`, ... | an mbarrier by a pointer or an array  |
| `barrier_cluster_arrive`, `barrier_cluster_wait`, `mapa`     | the cluster, as cute.arch has it          |
| `cp_async_bulk_tensor_shared_cta_global`                     | a box of a tensor map (`plain_maps`)      |
| `cp_async_bulk_shared_cluster_global`                        | as many bytes as it says, to its own block |
| `load_ext`, `store_ext`                                      | a number or a vector by a pointer         |
| `ldmatrix`                                                   | matrices of 8 x 8 numbers of 16 bits      |
| `cvt_packfloat_f32`                                          | two floats in one register                |
| `make_array_view(tensor)`                                    | the tensor, element by element            |

Not covered: the other copies and the products of the primitives; any other use of a view is refused by its name.
"""

from __future__ import annotations

from dataclasses import replace

from cutesim.trace import ShuffleKind

from ..context import group, not_simulated, refuse_other, refused, wrong_kind
from ..dialect import assembly, packed
from ..dialect.dialects import Vector, VectorType
from ..layouts.layout import Layout
from ..machine import barriers, cluster, mbarriers, warps
from ..machine.control import elect
from ..memory.pointers import Pointer
from ..memory.tensor import Tensor, make_rmem_tensor
from ..values.numeric import Float32, Int32, Uint16, Value, convert
from . import accesses, matrix_copies, plain_maps
from .arrays import pointer_of


def barrier_cta_sync(barrier_id=0, *, thread_count=None, **_):
    return barriers.barrier(barrier_id=barrier_id, number_of_threads=thread_count)


barrier_cta_sync_aligned = barrier_cta_sync


def barrier_cta_arrive(barrier_id, thread_count, **_):
    return barriers.barrier_arrive(barrier_id=barrier_id, number_of_threads=thread_count)


def bar_warp_sync(mask, **_) -> None:
    barriers.sync_warp(mask)


def elect_sync(*, membermask=warps.FULL_MASK, **_) -> Value:
    """The lowest lane that is here; which one the hardware picks is not said."""
    refuse_other("elect_sync with membermask", membermask, warps.FULL_MASK)
    return elect()


def shfl_sync(thread_mask, val, offset, mask_and_clamp, kind, *, return_value_and_is_valid=None, **_):
    if return_value_and_is_valid:
        raise not_simulated("shfl_sync with return_value_and_is_valid")
    return warps.shuffle(val, offset, ShuffleKind[_word(kind)], thread_mask, mask_and_clamp)


def vote_sync(mask, pred, kind, **_) -> Value:
    vote = getattr(warps, f"vote_{_word(kind).lower()}_sync")
    return vote(convert(pred, Int32) != 0, mask)


def griddepcontrol(kind, **_) -> None:
    wait = _word(kind) == "WAIT"
    (barriers.griddepcontrol_wait if wait else barriers.griddepcontrol_launch_dependents)()


# ---- mbarriers and clusters -----------------------------------------------------------------------------------------


def _word(token) -> str:
    return str(token).rpartition(".")[2]


def mbarrier_init(addr, count, **_) -> None:
    mbarriers.mbarrier_init(pointer_of(addr), count)


def mbarrier_arrive(addr, *, count=None, scope=None, relaxed=None, **_) -> None:
    mbarriers.mbarrier_arrive(pointer_of(addr), None, 1 if count is None else count, relaxed=relaxed, scope=scope)


def mbarrier_arrive_expect_tx(addr, txcount, *, scope=None, relaxed=None, **_) -> None:
    mbarriers.mbarrier_arrive_and_expect_tx(pointer_of(addr), txcount, relaxed=relaxed, scope=scope)


def mbarrier_wait_parity(addr, phase, kind, *, scope=None, order=None, **_):
    """Whether the phase has completed: TRY may wait a while for it, TEST does not."""
    if order is not None and _word(order) != "ACQUIRE":
        raise not_simulated(f"mbarrier_wait_parity with order={_word(order)}")
    # A wait learns what is released to its cluster; without one that is its block.
    scopes = ("CLUSTER", "CTA") if group().launch.cluster_size == 1 else ("CLUSTER",)
    refuse_other("mbarrier_wait_parity with scope", "CLUSTER" if scope is None else _word(scope), *scopes)
    wait = mbarriers.mbarrier_try_wait if _word(kind) == "TRY" else mbarriers.mbarrier_test_wait
    return wait(pointer_of(addr), phase)


def mbarrier_try_wait_parity(addr, phase, *, time_limit=None, scope=None, order=None, **_):
    return mbarrier_wait_parity(addr, phase, "TRY", scope=scope, order=order)


barrier_cluster_arrive = barrier_cluster_arrive_aligned = cluster.cluster_arrive
barrier_cluster_arrive_relaxed = cluster.cluster_arrive_relaxed
barrier_cluster_wait = barrier_cluster_wait_aligned = cluster.cluster_wait
cluster_ctarank, fence_sc_cluster = cluster.block_idx_in_cluster, barriers.fence_acq_rel_cluster


def mapa(addr, cta_rank, *, addrspace=7, **_) -> Pointer:
    """The same place in the shared memory of the block of that rank."""
    if not isinstance(addr, Pointer):
        raise not_simulated("mapa of a cutlass.Array; give it the array's data_ptr()")
    refuse_other("mapa with addrspace", addrspace, 7)
    return cluster.map_dsmem_ptr(addr, cta_rank)


def cp_async_bulk_tensor_shared_cta_global(
    dst_mem, tma_descriptor, coordinates, mbar, im2col_offsets=None, *, l2_cache_hint=None, mode=None, **_
) -> None:
    """A box of a tensor map, whose bytes count at `mbar`."""
    if im2col_offsets is not None or mode is not None and _word(mode) != "TILE":
        raise not_simulated(f"cp_async_bulk_tensor_shared_cta_global with mode={_word(mode)}")
    plain_maps.copy_box(pointer_of(dst_mem), tma_descriptor, coordinates, pointer_of(mbar))


def cp_async_bulk_shared_cluster_global(dst_mem, src_mem, mbar, size, **_) -> None:
    """`size` bytes, a multiple of 16, which count at `mbar`."""
    target, source = pointer_of(dst_mem), pointer_of(src_mem)
    assembly.bulk("cp_async_bulk_shared_cluster_global", target, source, size, pointer_of(mbar))


# ---- loads, stores, conversions -------------------------------------------------------------------------------------


def load_ext(addr, *, dtype=None, count=None, order=None, scope=None, shared_space=None, **_):
    if shared_space is not None:
        refuse_other("load_ext with shared_space", _word(shared_space), "shared_cta")
    pointer = pointer_of(addr)
    dtype = pointer.dtype if dtype is None else dtype
    return accesses.load(pointer, dtype if count is None else VectorType(count, dtype), sem=order, scope=scope)


def store_ext(value, addr, *, order=None, scope=None, **_) -> None:
    accesses.store(pointer_of(addr), value, sem=order, scope=scope)


_PAIRS = {"BF16X2": "bf16x2", "F16X2": "f16x2", "E4M3X2": "e4m3x2", "E5M2X2": "e5m2x2"}


def cvt_packfloat_f32(src_a, src_b, src_c, to, *, rnd=None, sat=None, relu=None, extract_hi=None, **_) -> Value:
    """Two floats in one register, `src_b` in the lower half."""
    kind, eight = _PAIRS.get(_word(to)), _word(to).startswith("E")
    if rnd is None:
        raise refused("cvt_packfloat_f32 needs rnd")
    other = _word(rnd) != "RN" or extract_hi or eight != (sat is not None)
    if kind is None or other or not (isinstance(src_c, int) and src_c == 0):
        raise not_simulated(f"cvt_packfloat_f32 to {_word(to)}, as it is called here,")
    words = ["rn", *(["satfinite"] if eight else []), *(["relu"] if relu else []), kind, "f32"]
    return convert(packed.convert(words, [src_a, src_b], lambda x, dtype: convert(x, Float32)), Int32)


def ldmatrix(ptr, num: int, layout, *, shape=None, src_format=None, **_):
    """`num` matrices, whose rows the lanes' pointers are: two numbers of 16 bits of each in a lane's register."""
    if shape is not None and _word(shape) != "M8N8" or src_format is not None:
        raise not_simulated(f"ldmatrix with shape={_word(shape)}, as it is called here,")
    atom = matrix_copies.MatrixAtom(matrix_copies.LdMatrix8x8x16bOp(_word(layout) == "COL", num), Uint16)
    pointer = pointer_of(ptr)
    registers = make_rmem_tensor((2 * num,), Uint16)
    pointer = pointer if pointer.dtype is Uint16 else pointer.recast(Uint16)
    # an alignment that the instruction takes for granted
    atom.run_copy(Tensor(replace(pointer, alignment=16), Layout(8, 1)), registers)
    found = [registers[i] for i in range(2 * num)]
    words = [convert(packed.join(found[2 * i : 2 * i + 2]), Int32) for i in range(num)]
    return words[0] if num == 1 else Vector(words)


# ---- views ----------------------------------------------------------------------------------------------------------


class ArrayView(Tensor):
    """A tensor's elements by their coordinates."""

    __slots__ = ()

    def data_ptr(self, **_):
        if self.pointer.swizzle is not None:
            raise not_simulated("the pointer of a view of a tensor whose layout has a swizzle")
        return self.pointer

    def __getattr__(self, name: str):
        raise not_simulated(f"cutlass.make_array_view(...).{name}")


def make_array_view(tensor, **_) -> ArrayView:
    if not isinstance(tensor, Tensor):
        raise wrong_kind(f"make_array_view takes a tensor, got {type(tensor).__name__}", tensor)
    return ArrayView(tensor.pointer, tensor.layout, tensor.coords)
