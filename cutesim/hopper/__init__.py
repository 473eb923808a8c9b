"""What published Hopper kernels use that this book's do not: importing it adds to `dialect.names`; all else works without it.

| module          | what                                                                                    |
|-----------------|-----------------------------------------------------------------------------------------|
| `intrinsics`    | pairs of floats, bits, integer products, single functions of cute.math                  |
| `accesses`      | loads and stores by a pointer, shared memory without an allocator                       |
| `instructions`  | names of MLIR's dialects: types by their text, bits of pointers, plain arithmetic       |
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
from ..dialect.functions import ignore, setmaxregister
from ..dialect.names import Annotation, Tokens, of
from ..memory import swizzle
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
    tensor_maps,
    tiled_mma,
    warpgroup,
)

MATHEMATICS = of(intrinsics, "div isfinite isinf log1p trunc roundeven copysign")
MATHEMATICS |= {"abs": names.mathops.absf, "round": intrinsics.round_away}
PACKED = "fma_packed_f32x2 mul_packed_f32x2 add_packed_f32x2"
OF_SM90 = "make_smem_layout_a make_smem_layout_b make_smem_layout_epi get_smem_layout_atom make_trivial_tiled_mma"
HELPERS = of(warpgroup, f"{OF_SM90} sm90_get_smem_store_op compute_tile_shape_or_override")
ROUNDING = Tokens("RN", "RZ", "RM", "RP")
SCOPES = Tokens("CTA", "CLUSTER", "GPU", "SYS")
# What a namespace is given, by its path; one that does not exist is made.
GIVEN = {
    "cute.arch": of(
        intrinsics,
        f"{PACKED} sub_packed_f32x2 exp_packed_f32x2 prmt lop3 brev mul_wide mul_hi log2_of_pow2_int "
        "lanemask_lt smid shuffle_sync_op",
    )
    | of(accesses, "load store red prefetch alloc_smem get_dyn_smem dynamic_smem_size atomic_fmax atomic_max_float32")
    | dict.fromkeys(("warpgroup_reg_alloc", "warpgroup_reg_dealloc"), setmaxregister)
    | {"WARPS_PER_WARPGROUP": 4, "THREADS_PER_WARPGROUP": 128},
    "cute.math": MATHEMATICS | {"RoundingMode": Tokens("NEAREST_EVEN", "ZERO", "UP", "DOWN")},
    "cute": MATHEMATICS
    | of(intrinsics, "FastDivmodDivisor fast_divmod_create_divisor")
    | {"FastDivmodDivisorV2": intrinsics.FastDivmodDivisor}
    | {"fast_divmod_create_divisor_v2": intrinsics.fast_divmod_create_divisor}
    | of(accesses, "prefetch")
    | of(tensor_maps, "make_layout_image_mask")
    | of(swizzle, "get_swizzle_portion get_nonswizzle_portion")
    | of(tiled_mma, "gemm make_mma_atom make_tiled_mma")
    | of(
        matrix_copies,
        "make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C make_tiled_copy_S make_tiled_copy_D "
        "make_tiled_copy_C_atom",
    )
    | {name: Annotation(f"cute.{name}", getattr(tiled_mma, name)) for name in ("TiledMma", "ThrMma", "MmaAtom")}
    | {"ThrCopy": Annotation("cute.ThrCopy", names.copying.ThrCopy)},
    "cute.testing": {"assert_": ignore},
    "cute.nvgpu": of(tiled_mma, "MmaUniversalOp OperandMajorMode")
    | {"CacheEvictionPriority": names.CUTE.CacheEvictionPriority, "common": names.NVGPU},
    "cute.nvgpu.cpasync": of(
        tensor_maps,
        "CopyBulkTensorTileG2SOp CopyBulkTensorTileG2SMulticastOp CopyBulkTensorTileS2GOp "
        "CopyReduceBulkTensorTileS2GOp TmaInfo make_tiled_tma_atom tma_partition create_tma_multicast_mask",
    )
    | {"prefetch_descriptor": ignore},
    "cute.nvgpu.warp": of(tiled_mma, "MmaF16BF16Op MmaTF32Op")
    | of(matrix_copies, "LdMatrix8x8x16bOp StMatrix8x8x16bOp"),
    "cute.nvgpu.warpgroup": of(
        warpgroup,
        "MmaF16BF16Op MmaF8Op make_smem_layout_atom SmemLayoutAtomKind fence commit_group "
        "wait_group OperandSource OperandMajorMode",
    )
    | {"Field": tiled_mma.Field},
    "cutlass": of(intrinsics, "select_")
    | of(primitives, "make_array_view")
    | of(arrays, "Array Vector inttoptr")
    | {"GridConstant": Annotation("cutlass.GridConstant")},
    "cutlass.base_dsl.vector": of(arrays, "full"),
    "cutlass.tensor_utils": of(schedulers, "LayoutEnum"),
    "cutlass.utils": of(
        schedulers, "LayoutEnum PersistentTileSchedulerParams StaticPersistentTileScheduler WorkTileInfo HardwareInfo"
    )
    | {"get_smem_capacity_in_bytes": accesses.capacity}
    | {f"sm90_{name}": HELPERS[name] for name in OF_SM90.split()}
    | of(warpgroup, "sm90_get_smem_store_op"),
    "cutlass.utils.distributed": {"atomicAdd": accesses.atomic_add},
    "cutlass.utils.smem_allocator": of(names, "SmemAllocator"),
    "cutlass.utils.hopper_helpers": HELPERS,
    "cutlass.pipeline": of(pipelines, "PipelineTmaStore pipeline_init_arrive pipeline_init_wait arrive arrive_and_wait")
    | {"helpers": names.PIPELINE},  # a module of it that kernels import some of the names from
    "cutlass.experimental.primitives": of(
        primitives,
        "barrier_cta_sync barrier_cta_arrive bar_warp_sync elect_sync shfl_sync "
        "vote_sync griddepcontrol mbarrier_init mbarrier_arrive mbarrier_arrive_expect_tx mbarrier_wait_parity "
        "mbarrier_try_wait_parity barrier_cluster_arrive barrier_cluster_arrive_relaxed barrier_cluster_wait "
        "barrier_cta_sync_aligned barrier_cluster_arrive_aligned barrier_cluster_wait_aligned cluster_ctarank "
        "fence_sc_cluster mapa cp_async_bulk_shared_cluster_global cp_async_bulk_tensor_shared_cta_global "
        "load_ext store_ext cvt_packfloat_f32 ldmatrix",
    )
    | {
        "Shfl": Tokens("BFLY", "UP", "DOWN", "IDX"),
        "VoteSync": Tokens("ANY", "ALL", "BALLOT", "UNI"),
        "SharedSpace": Tokens("shared_cta", "shared_cluster"),
        "GridDepAction": Tokens("WAIT", "LAUNCH_DEPENDENTS"),
        "MBarrierWait": Tokens("TRY", "TEST"),
        "TMALoadMode": Tokens("TILE", "IM2COL", "IM2COL_W", "IM2COL_W_128", "TILE_GATHER4"),
        "MBarrierScope": Tokens("CTA", "CLUSTER"),
        "MemOrder": Tokens("WEAK", "RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "VOLATILE"),
        "MemScope": SCOPES,
        "MMALayout": Tokens("ROW", "COL"),
        "LoadShape": Tokens("M8N8", "M8N16", "M16N16"),
        "CVTPackFloat": Tokens("BF16X2", "F16X2", "E4M3X2", "E5M2X2"),
        "FPRoundingMode": ROUNDING,
        "SaturationModeKind": Tokens("SATFINITE"),
    },
    "cutlass.experimental.cuda.tensor_map": {
        "TensorMap": Annotation("cutlass.experimental.cuda.tensor_map.TensorMap", plain_maps.TensorMap),
        "create_tensor_map_tiled": plain_maps.create_tensor_map_tiled,
        "TensorMapSwizzle": Tokens(*plain_maps.SWIZZLES),
        "TensorMapL2Promotion": Tokens("none", "l2_64b", "l2_128b", "l2_256b"),
        "TensorMapFloatOOBFill": Tokens("none", "nan_request_zero_fma"),
    },
    "cutlass._mlir.dialects.llvm": of(instructions, "ptrtoint bitcast"),
    "cutlass._mlir.dialects.nvvm": of(instructions, "atomicrmw memory_barrier")
    | of(names.cluster, "cluster_arrive cluster_wait")
    | of(primitives, "elect_sync")
    | of(intrinsics, PACKED)
    | {
        "MemScopeKind": SCOPES,
        "ShflKind": Tokens("bfly", "up", "down", "idx"),
        "AtomicOpKind": Tokens(*"ADD FADD MAX MIN UMAX UMIN AND OR XOR EXCH CAS INC DEC".split()),
        "FPRoundingMode": ROUNDING,
        "RoundingModeKind": ROUNDING,
    },
    "cutlass._mlir.dialects.arith": instructions.ARITH | of(instructions, "FastMathFlags"),
    "cutlass._mlir.dialects.math": instructions.MATH,
    "cutlass._mlir.ir": of(instructions, "Type IntegerType")
    | {"VectorType": instructions.VectorTypes}
    | {f"{n}Type": instructions.plain_type(instructions.TYPES[n.lower()]) for n in ("F16", "BF16", "F32", "F64")},
}


def _space(path: str) -> names.Namespace:
    """The namespace of a path, which is made where there is none."""
    first, *parts = path.split(".")
    space = names.CUTE if first == "cute" else names.CUTLASS
    for i, part in enumerate(parts, 1):
        space = vars(space).setdefault(part, names.Namespace(".".join((first, *parts[:i])), {}))
    return space


def _extend() -> None:
    """Add this package's names to the DSL's namespaces."""
    cute, cutlass = vars(names.CUTE), names.CUTLASS
    for path, members in GIVEN.items():
        vars(_space(path)).update(members)
    for name in "make_swizzle make_layout make_ordered_layout Layout Tensor Pointer".split():
        object.__setattr__(cute["core"], name, cute[name])  # where cute defines them
    vars(cutlass).update(vector=cutlass.base_dsl.vector)
    vars(cutlass.utils).update(sm90=cutlass.utils.hopper_helpers)
    cute |= {name: tiled_mma.with_layout(cute[name]) for name in ("size", "shape", "rank")}
    cute["copy_atom_call"] = names.copying.copy
    vars(cute["tensor"])["rank"] = cute["rank"]
    names.PLACES[:] = map(_space, PLACES)
    Pointer.load_elements, Pointer.store_elements = arrays.load_elements, arrays.store_elements


PLACES = "cutlass.utils cutlass.utils.distributed cute.nvgpu.warpgroup cute.nvgpu.warp".split()
PLACES += ["cutlass.utils.hopper_helpers", "cutlass.experimental.cuda.tensor_map"]
_extend()
