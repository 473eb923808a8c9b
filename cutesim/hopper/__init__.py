"""What published Hopper kernels use that this book's do not: importing it adds to `dialect.names`; all else works without it.

| module          | what                                                                                    |
|-----------------|-----------------------------------------------------------------------------------------|
| `intrinsics`    | pairs of floats, bits, integer products, single functions of cute.math                  |
| `accesses`      | loads and stores by a pointer, shared memory without an allocator                       |
| `instructions`  | names of MLIR's dialects: types by their text, bits of pointers, plain arithmetic       |
| `swizzled`      | composed layouts in the functions of layouts                                            |
| `tensor_maps`   | tiles that the TMA unit copies                                                          |
| `plain_maps`    | the same of maps made of an address, extents and strides                                |
| `tiled_mma`     | matrix products of a thread, a warp; who holds which element                            |
| `matrix_copies` | ldmatrix, stmatrix, tiled copies that follow a product                                  |
| `warpgroup`     | wgmma, its fences and groups, how its operands lie in shared memory                     |
| `pipelines`     | the rest of cutlass.pipeline                                                            |
| `primitives`    | cutlass.experimental.primitives, as far as they stand for what cute.arch has            |
| `arrays`        | cutlass.Array, vectors, pointers made of numbers                                        |
| `schedulers`    | persistent tile schedulers, LayoutEnum, HardwareInfo                                    |

No kernel of the book needs any of it. Each module says what it leaves out.
"""

from __future__ import annotations

from ..dialect import names
from ..dialect.functions import ignore
from ..memory.pointers import Pointer
from . import (
    accesses,
    arrays,
    instructions,
    intrinsics,
    matrix_copies,
    pipelines,
    plain_maps,
    primitives,
    schedulers,
    swizzled,
    tensor_maps,
    tiled_mma,
    warpgroup,
)


def _extend() -> None:
    """Add this package's names to the DSL's namespaces."""
    space, tokens = names.Namespace, names.Tokens
    arch, cute, cutlass = names.ARCH.__dict__, names.CUTE.__dict__, names.CUTLASS.__dict__
    arch |= names.of(
        intrinsics,
        "fma_packed_f32x2 mul_packed_f32x2 add_packed_f32x2 sub_packed_f32x2 exp_packed_f32x2 prmt lop3 brev "
        "mul_wide mul_hi log2_of_pow2_int lanemask_lt smid shuffle_sync_op",
    )
    arch |= names.of(
        accesses,
        "load store red prefetch alloc_smem get_dyn_smem dynamic_smem_size atomic_fmax atomic_max_float32",
    )
    arch |= {
        "warpgroup_reg_alloc": names.functions.setmaxregister,
        "warpgroup_reg_dealloc": names.functions.setmaxregister,
        "WARPS_PER_WARPGROUP": 4,
        "THREADS_PER_WARPGROUP": 128,
    }
    mathematics = {
        "abs": names.mathops.absf,
        "div": intrinsics.div,
        "round": intrinsics.round_away,
        **names.of(intrinsics, "isfinite isinf log1p trunc roundeven copysign"),
    }
    names.MATH.__dict__.update(mathematics, RoundingMode=tokens("NEAREST_EVEN", "ZERO", "UP", "DOWN"))
    cute |= mathematics | {
        "FastDivmodDivisor": intrinsics.FastDivmodDivisor,
        "FastDivmodDivisorV2": intrinsics.FastDivmodDivisor,
        "fast_divmod_create_divisor": intrinsics.fast_divmod_create_divisor,
        "fast_divmod_create_divisor_v2": intrinsics.fast_divmod_create_divisor,
        "prefetch": accesses.prefetch,
    }
    cute["testing"] = space("cute.testing", {"assert_": ignore})
    for name in ("make_swizzle", "make_layout", "make_ordered_layout", "Layout", "Tensor", "Pointer"):
        object.__setattr__(cute["core"], name, cute[name])  # where cute defines them
    enumerations = {"LayoutEnum": schedulers.LayoutEnum}
    cutlass |= {"select_": intrinsics.select_}
    cutlass["tensor_utils"] = space("cutlass.tensor_utils", dict(enumerations))
    cutlass["utils"].__dict__.update(
        enumerations,
        **names.of(schedulers, "PersistentTileSchedulerParams StaticPersistentTileScheduler WorkTileInfo HardwareInfo"),
        get_smem_capacity_in_bytes=accesses.capacity,
        distributed=space("cutlass.utils.distributed", {"atomicAdd": accesses.atomic_add}),
        smem_allocator=space("cutlass.utils.smem_allocator", {"SmemAllocator": names.SmemAllocator}),
    )
    nvgpu = names.NVGPU.__dict__
    nvgpu["CacheEvictionPriority"] = cute["CacheEvictionPriority"]
    nvgpu["common"] = names.NVGPU
    names.PLACES[:] = [cutlass["utils"], cutlass["utils"].distributed]
    _extend_tensor_maps()
    _extend_products()
    _extend_pipelines()
    _extend_dialects()
    cute["copy_atom_call"] = names.copying.copy
    cute["tensor"].__dict__["rank"] = cute["rank"]
    Pointer.load_elements, Pointer.store_elements = arrays.load_elements, arrays.store_elements


def _extend_tensor_maps() -> None:
    cute = names.CUTE.__dict__
    cute |= swizzled.taking_composed(cute)
    cute["make_layout_image_mask"] = tensor_maps.make_layout_image_mask
    maps = names.of(
        tensor_maps,
        "CopyBulkTensorTileG2SOp CopyBulkTensorTileG2SMulticastOp CopyBulkTensorTileS2GOp CopyReduceBulkTensorTileS2GOp "
        "TmaInfo make_tiled_tma_atom tma_partition create_tma_multicast_mask",
    )
    names.CPASYNC.__dict__.update(maps, prefetch_descriptor=ignore)


def _extend_products() -> None:
    space = names.Namespace
    cute, nvgpu, utils = names.CUTE.__dict__, names.NVGPU.__dict__, names.CUTLASS.utils.__dict__
    cute |= names.of(tiled_mma, "gemm make_mma_atom make_tiled_mma")
    cute |= names.of(
        matrix_copies,
        "make_copy_atom make_tiled_copy make_tiled_copy_tv make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C "
        "make_tiled_copy_S make_tiled_copy_D make_tiled_copy_C_atom",
    )
    cute |= {name: tiled_mma.with_layout(cute[name]) for name in ("size", "shape", "rank")}
    cute["TiledMma"] = names.Annotation("cute.TiledMma", tiled_mma.TiledMma)
    cute["ThrMma"] = names.Annotation("cute.ThrMma", tiled_mma.ThrMma)
    cute["MmaAtom"] = names.Annotation("cute.MmaAtom", tiled_mma.MmaAtom)
    cute["ThrCopy"] = names.Annotation("cute.ThrCopy", names.copying.ThrCopy)
    nvgpu |= names.of(tiled_mma, "MmaUniversalOp OperandMajorMode")
    nvgpu["warp"] = space(
        "cute.nvgpu.warp",
        names.of(tiled_mma, "MmaF16BF16Op MmaTF32Op") | names.of(matrix_copies, "LdMatrix8x8x16bOp StMatrix8x8x16bOp"),
    )
    nvgpu["warpgroup"] = space(
        "cute.nvgpu.warpgroup",
        names.of(
            warpgroup,
            "MmaF16BF16Op MmaF8Op make_smem_layout_atom SmemLayoutAtomKind fence commit_group wait_group OperandSource "
            "OperandMajorMode",
        )
        | {"Field": tiled_mma.Field},
    )
    helpers = names.of(
        warpgroup,
        "make_smem_layout_a make_smem_layout_b make_smem_layout_epi get_smem_layout_atom make_trivial_tiled_mma "
        "sm90_get_smem_store_op compute_tile_shape_or_override",
    )
    utils["hopper_helpers"] = utils["sm90"] = space("cutlass.utils.hopper_helpers", helpers)
    for name in helpers.keys() - {"compute_tile_shape_or_override"}:
        utils[name if name.startswith("sm90_") else f"sm90_{name}"] = helpers[name]
    names.PLACES.extend((names.NVGPU.warpgroup, names.NVGPU.warp, names.CUTLASS.utils.hopper_helpers))


def _extend_pipelines() -> None:
    names.PIPELINE.__dict__.update(
        names.of(pipelines, "PipelineTmaStore pipeline_init_arrive pipeline_init_wait arrive arrive_and_wait")
    )
    names.PIPELINE.__dict__["helpers"] = names.PIPELINE  # a module of it that kernels import some of the names from
    names.PRIMITIVES.__dict__.update(
        names.of(
            primitives,
            "barrier_cta_sync barrier_cta_arrive bar_warp_sync elect_sync shfl_sync vote_sync griddepcontrol mbarrier_init "
            "mbarrier_arrive mbarrier_arrive_expect_tx mbarrier_wait_parity mbarrier_try_wait_parity barrier_cluster_arrive "
            "barrier_cluster_arrive_relaxed barrier_cluster_wait barrier_cta_sync_aligned barrier_cluster_arrive_aligned "
            "barrier_cluster_wait_aligned cluster_ctarank fence_sc_cluster mapa cp_async_bulk_shared_cluster_global "
            "cp_async_bulk_tensor_shared_cta_global load_ext store_ext cvt_packfloat_f32 ldmatrix",
        ),
        Shfl=names.Tokens("BFLY", "UP", "DOWN", "IDX"),
        VoteSync=names.Tokens("ANY", "ALL", "BALLOT", "UNI"),
        SharedSpace=names.Tokens("shared_cta", "shared_cluster"),
        GridDepAction=names.Tokens("WAIT", "LAUNCH_DEPENDENTS"),
        MBarrierWait=names.Tokens("TRY", "TEST"),
        TMALoadMode=names.Tokens("TILE", "IM2COL", "IM2COL_W", "IM2COL_W_128", "TILE_GATHER4"),
        MBarrierScope=names.Tokens("CTA", "CLUSTER"),
        MemOrder=names.Tokens("WEAK", "RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "VOLATILE"),
        MemScope=names.Tokens("CTA", "CLUSTER", "GPU", "SYS"),
        MMALayout=names.Tokens("ROW", "COL"),
        LoadShape=names.Tokens("M8N8", "M8N16", "M16N16"),
        CVTPackFloat=names.Tokens("BF16X2", "F16X2", "E4M3X2", "E5M2X2"),
        FPRoundingMode=names.Tokens("RN", "RZ", "RM", "RP"),
        SaturationModeKind=names.Tokens("SATFINITE"),
    )
    maps = names.Namespace(
        "cutlass.experimental.cuda.tensor_map",
        {
            "TensorMap": names.Annotation("cutlass.experimental.cuda.tensor_map.TensorMap", plain_maps.TensorMap),
            "create_tensor_map_tiled": plain_maps.create_tensor_map_tiled,
            "TensorMapSwizzle": names.Tokens(*plain_maps.SWIZZLES),
            "TensorMapL2Promotion": names.Tokens("none", "l2_64b", "l2_128b", "l2_256b"),
            "TensorMapFloatOOBFill": names.Tokens("none", "nan_request_zero_fma"),
        },
    )
    names.CUTLASS.experimental.__dict__["cuda"] = names.Namespace("cutlass.experimental.cuda", {"tensor_map": maps})
    names.PLACES.append(maps)
    names.CUTLASS.__dict__["GridConstant"] = names.Annotation("cutlass.GridConstant")
    vector = names.Namespace("cutlass.base_dsl.vector", {"full": arrays.full})
    names.BASE.__dict__["vector"] = vector
    names.CUTLASS.__dict__.update(
        make_array_view=primitives.make_array_view,
        Array=arrays.Array,
        Vector=names.dialects.Vector,
        inttoptr=arrays.inttoptr,
        vector=vector,
    )


def _extend_dialects() -> None:
    space = names.Namespace
    names.LLVM.__dict__.update(ptrtoint=instructions.ptrtoint, bitcast=instructions.bitcast)
    names.NVVM.__dict__.update(
        atomicrmw=instructions.atomicrmw,
        **names.of(names.cluster, "cluster_arrive cluster_wait"),
        elect_sync=names.PRIMITIVES.elect_sync,
        memory_barrier=instructions.memory_barrier,
        MemScopeKind=names.Tokens("CTA", "CLUSTER", "GPU", "SYS"),
        ShflKind=names.Tokens("bfly", "up", "down", "idx"),
        AtomicOpKind=names.Tokens(*"ADD FADD MAX MIN UMAX UMIN AND OR XOR EXCH CAS INC DEC".split()),
        FPRoundingMode=names.Tokens("RN", "RZ", "RM", "RP"),
        RoundingModeKind=names.Tokens("RN", "RZ", "RM", "RP"),
        **{n: names.ARCH.__dict__[n] for n in ("fma_packed_f32x2", "mul_packed_f32x2", "add_packed_f32x2")},
    )
    mlir = names.CUTLASS.__dict__["_mlir"].__dict__
    mlir["dialects"].__dict__.update(
        arith=space("cutlass._mlir.dialects.arith", instructions.ARITH | {"FastMathFlags": instructions.FastMathFlags}),
        math=space("cutlass._mlir.dialects.math", dict(instructions.MATH)),
    )
    mlir["ir"] = space(
        "cutlass._mlir.ir",
        {
            "Type": instructions.Type,
            "IntegerType": instructions.IntegerType,
            "VectorType": instructions.VectorTypes,
            **{
                f"{short}Type": instructions.plain_type(instructions.TYPES[short.lower()])
                for short in ("F16", "BF16", "F32", "F64")
            },
        },
    )


_extend()
