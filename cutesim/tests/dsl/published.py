"""What the kernels of published packages were found to use: host code that imports and tries, coordinates of layouts, shared memory
seen as two structs, swizzled layouts over one place, a cluster that multicasts."""

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import cutlass.utils.hopper_helpers as sm90_utils
from cutlass import BFloat16, Float16, Float32, Int32
from cutlass._mlir.dialects import llvm, nvvm
from cutlass.base_dsl import typing
from cutlass.cutlass_dsl import T

from .hosts import Constexpr, launched, one_warp
from .written import write

LAYOUTS = (((2, 4), (4, 1)), (((2, 2), 3), ((6, 3), 1)), ((2, 4), (8, 2)))
LAYOUTS += (((4, 2), (0, 1)), (8, 2), (((2, 3),), ((3, 1),)))
TILES = ((64, 64, 64), (128, 128, 64), (128, 256, 64), (64, 24, 64), (64, 16, 64))


def cluster_size(number: Int32 | int | None) -> int:
    """A helper without a decorator, which the DSL runs as plain Python."""
    try:
        from no_such_module import base_dsl
    except ImportError:
        from cutlass import base_dsl
    arch = base_dsl.BaseDSL._get_dsl().get_arch_enum()
    return 2 if arch < base_dsl.Arch.sm_90 or arch < base_dsl.arch.Arch.sm_90 else 16 // number


@cute.kernel
def importing_kernel(out: cute.Tensor, factor: Constexpr):
    from functools import partial

    double = partial(lambda a, b: a * b, 2)
    tidx, _, _ = cute.arch.thread_idx()
    out[tidx] = double(tidx) * factor


@cute.jit
def importing(out: cute.Tensor):
    importing_kernel(out, cluster_size(4)).launch(grid=[1, 1, 1], block=[32, 1, 1])


def swallowed(x):
    try:
        return cute.arch.surely_not_there(x)
    except Exception:
        return 1


@cute.jit
def hides_a_gap(out: cute.Tensor):
    importing_kernel(out, swallowed(3)).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.jit
def coordinates():
    for shape, stride in LAYOUTS:
        layout = cute.make_layout(shape, stride=stride)
        print([layout.get_hier_coord(i) for i in range(7)], [layout.get_flat_coord(i) for i in range(7)])
    for tile in TILES:
        for dtype in (Float16, Float32):
            print([sm90_utils.compute_tile_shape_or_override(tile, dtype, is_cooperative=c) for c in (False, True)])
    print(sm90_utils.compute_tile_shape_or_override(TILES[0], Float16, epi_tile_override=(64, 8)))
    whole = cute.make_identity_tensor((256, 128, 3))
    for at, proj in (((1, 0, None, 2), (1, None, 1)), ((0, 1, None, 2), (None, 1, 1)), ((1, 0, None, 2), (1, 1, None))):
        tile = cute.local_tile(whole, (64, 64, 32), at, proj=proj)
        print(tile.layout)


@cute.jit
def fetch(place: typing.Pointer):
    return place.load()


def swizzled(shape, order):
    atom = cute.make_composed_layout(cute.make_swizzle(2, 3, 3), 0, cute.make_layout((8, 32), stride=(32, 1)))
    return cute.tile_to_shape(atom, shape, order)


@cute.kernel
def multicast_kernel(atom: cute.CopyAtom, x: cute.Tensor, out: cute.Tensor, releases: Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    smem = cutlass.utils.SmemAllocator()
    tile = smem.allocate_tensor(Float32, cute.make_layout((32, 1, 2)), 128)
    stages = smem.allocate_array(cutlass.Int64, 4)
    pipe = pipeline.PipelineTmaAsync.create(
        barrier_storage=stages,
        num_stages=2,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 2),
        tx_count=2 * 64,
        cta_layout_vmnk=cute.make_layout((1, 1, 2, 1)),
    )
    # Each block fetches its half of every column, and multicasts it to both.
    halves = cute.make_tensor(tile.iterator, cute.make_layout((16, 2, 2), stride=(1, 16, 32)))
    mine = cute.local_tile(x, (16, 1), (rank, None))
    sides, sources = cute.nvgpu.cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(halves[None, rank, None], 0, 1), cute.group_modes(mine, 0, 2)
    )
    put = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 2)
    taken = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 2)
    for column in cutlass.range(6, unroll=1):
        pipe.producer_acquire(put)
        cute.copy(
            atom,
            sources[None, column],
            sides[None, put.index],
            tma_bar_ptr=pipe.producer_get_barrier(put),
            mcast_mask=3,
        )
        put.advance()
        pipe.consumer_wait(taken)
        out[rank, column, tidx] = tile[tidx, 0, taken.index]
        cute.arch.sync_warp()
        if cutlass.const_expr(releases):
            pipe.consumer_release(taken)
        taken.advance()
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def multicast(x: cute.Tensor, out: cute.Tensor, releases: Constexpr):
    op = cute.nvgpu.cpasync.CopyBulkTensorTileG2SMulticastOp()
    atom, source = cute.nvgpu.cpasync.make_tiled_tma_atom(op, x, cute.make_layout((16, 1)), (16, 1))
    multicast_kernel(atom, source, out, releases).launch(grid=[2, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1])


class LeapingState(pipeline.PipelineState):
    """A state of the reader's, which goes several stages on at once."""

    def leap(self, stages: Int32):
        self._count += stages
        index = self._index + stages
        self._phase ^= index // self.stages & 1
        self._index = index % self.stages


@cute.kernel
def indexed_pointers_kernel(x: cute.Pointer, out: cute.Pointer):
    tidx, _, _ = cute.arch.thread_idx()
    r = cute.make_rmem_tensor(4, cutlass.BFloat16)
    r.iterator[1] = x[tidx]  # rounds
    out[tidx] = r.iterator[1]
    out[32 + cutlass.Int64(tidx)] = tidx
    (out + 96)[-tidx - 1] = nvvm.fmax(x[tidx], cutlass.Float32(0.5)) + nvvm.fmin(T.f32(), x[tidx], cutlass.Float32(0.5))


@cute.jit
def indexed_pointers(x: cute.Tensor, out: cute.Tensor):
    indexed_pointers_kernel(x.iterator, out.iterator).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.kernel
def cast_pointers_kernel(x: cute.Tensor, out: cute.Tensor):
    tidx, _, _ = cute.arch.thread_idx()
    halves = typing.Pointer(cutlass.make_array_view(x).data_ptr(), dtype=BFloat16)
    if tidx % 2 == 0:  # the other lanes' places are no whole number of float32
        first = typing.Pointer(halves + tidx, dtype=Float32).load()
        typing.Pointer(cutlass.make_array_view(out).data_ptr() + tidx // 2, dtype=Float32).store(first)


cast_pointers_kernel.set_name_prefix("published", remove_cutlass_symbol=True)


@cute.jit
def cast_pointers(x: cute.Tensor, out: cute.Tensor):
    cast_pointers_kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


write(globals())('''
two_views:
    layout = swizzled((16, 32), (0, 1))
    @cute.struct
    class First:
        pad: cute.struct.MemRange[Int32, 3]
        rows: cute.struct.Align[cute.struct.MemRange[BFloat16, 512], 128]
    @cute.struct
    class Second:
        rows: cute.struct.Align[cute.struct.MemRange[Float32, 32], 16]
    smem = cutlass.utils.SmemAllocator()
    storage = smem.allocate(First.size_in_bytes(), byte_alignment=128)
    rows = First(storage).rows.get_tensor(layout)
    for i in cutlass.range_constexpr(16):
        rows[i, tidx] = x[i, tidx]
    cute.arch.sync_warp()
    again = cute.make_tensor(rows.iterator, swizzled((16, 32), (0, 1)))
    transposed = cute.composition(again, cute.make_layout((32, 16), stride=(16, 1)))
    for i in cutlass.range_constexpr(16):
        out[i, tidx] = transposed[tidx, i]
    cute.arch.sync_warp()
    sums = Second(storage).rows.get_tensor(cute.make_layout(32))
    sums[tidx] = Float32(tidx)
    cute.arch.sync_warp()
    out[16, tidx] = fetch(sums.iterator + 31 - tidx).to(BFloat16)
unswizzled(out):
    rows = cutlass.utils.SmemAllocator().allocate_tensor(BFloat16, swizzled((16, 32), (0, 1)), 128)
    plain = cute.make_tensor(rows.iterator, cute.make_layout((16, 32)))
    plain[0, tidx] = out[tidx]
swizzled_rows(out):
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout((16, 2)), 64)
    swizzled = cute.make_composed_layout(cute.make_swizzle(2, 0, 2), 0, cute.make_layout(16))
    mine = cute.make_tensor(s[None, tidx // 16].iterator, swizzled)  # each half's own row
    mine[tidx % 16] = tidx
    cute.arch.sync_warp()
    out[tidx] = s[tidx % 16, tidx // 16]
one_instruction(x, out, *, text):
    """One instruction on a thread's two words of x."""
    words = [x[0, tidx].ir_value(), x[1, tidx].ir_value()]
    out[tidx] = Int32(llvm.inline_asm(T.i32(), words, text, "=r,r,r", has_side_effects=False))
at_run_time(out, columns: Int32) @launched(32, passing=True):
    layout = cute.make_layout(((4, columns // 4), 2), stride=((1, 8), 4))
    i, j = layout.get_flat_coord(tidx % cute.size(layout))
    out[tidx] = i * 10 + j
states(out, stepping: Int32) @launched(64, passing=True):
    state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
    if tidx < stepping:
        state.advance()
    out[0, tidx] = state.index
    leaping = LeapingState(4, Int32(0), Int32(0), Int32(0))
    leaping.leap(tidx)
    leaping.advance()
    out[1, tidx], out[2, tidx], out[3, tidx] = leaping.count, leaping.index, leaping.phase
''')
