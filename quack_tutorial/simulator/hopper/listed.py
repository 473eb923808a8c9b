"""The lines of `coverage.TABLE` for these rooms' names: (names, how, where they are tested, note), namespace by namespace."""

from __future__ import annotations

EXACT, BOUND, ORDER, IGNORED, ANNOTATION = "exact", "bound", "order", "ignored", "annotation"
WORDS = "tests/simulator/test_hopper_words.py"
PUBLISHED = "tests/simulator/test_published.py"
MAPS = "tests/simulator/test_tensor_maps.py"
PRODUCTS = "tests/simulator/test_products.py"
PIPELINES = "tests/simulator/test_pipelines.py"
EIGHT = "tests/simulator/test_eight_bits.py"
ARRAYS = "tests/simulator/test_arrays.py"
FILES = {
    ARRAYS: ("tests/simulator/dsl/arrays.py", ARRAYS),
    EIGHT: ("tests/simulator/dsl/eight_bits.py", EIGHT),
    PIPELINES: ("tests/simulator/dsl/pipelines.py",),
    MAPS: ("tests/simulator/dsl/tensor_maps.py", MAPS),
    PRODUCTS: ("tests/simulator/dsl/products.py", PRODUCTS),
    WORDS: ("tests/simulator/dsl/hopper_words.py", WORDS),
}

_FLOATS = (
    ("abs div trunc round roundeven copysign isfinite isinf", EXACT, WORDS),
    ("expm1 log1p cbrt", BOUND, WORDS),
)
_EIGHT_BITS = ("Float8E4M3FN Float8E5M2", EXACT, EIGHT, "a number that the compiler folds saturates here")
TABLE = {
    "cutlass.cutlass_dsl": (_EIGHT_BITS,),
    "cutlass": (
        _EIGHT_BITS,
        ("select_", EXACT, WORDS),
        ("make_array_view", EXACT, PIPELINES, "elements by their coordinates"),
        ("Array", EXACT, ARRAYS, "in registers and shared memory, without views"),
        ("Vector inttoptr", EXACT, ARRAYS),
        ("GridConstant", ANNOTATION, ARRAYS),
    ),
    "cutlass.experimental.cuda.tensor_map": (
        ("create_tensor_map_tiled TensorMapSwizzle", EXACT, ARRAYS),
        ("TensorMapFloatOOBFill", EXACT, ARRAYS, "zeros alone"),
        ("TensorMapL2Promotion", IGNORED, ARRAYS, "there are no caches"),
        ("TensorMap", ANNOTATION, ARRAYS),
    ),
    "cutlass.base_dsl.vector": (("full", EXACT, ARRAYS, "of one mode"),),
    "cutlass.block": (("block_copy", EXACT, ARRAYS, "of tensor maps"),),
    "cutlass.utils.distributed": (("atomicAdd", EXACT, ARRAYS),),
    "cutlass.pipeline": (
        ("PipelineOrder", EXACT, ARRAYS, "outside of dynamic ifs and loops"),
        ("PipelineTmaStore pipeline_init_arrive pipeline_init_wait arrive arrive_and_wait", EXACT, PIPELINES),
    ),
    "cutlass.experimental.primitives": (
        (
            "barrier_cta_sync barrier_cta_arrive bar_warp_sync elect_sync shfl_sync vote_sync griddepcontrol",
            EXACT,
            PIPELINES,
        ),
        ("Shfl VoteSync GridDepAction", EXACT, PIPELINES),
        (
            "mbarrier_init mbarrier_arrive mbarrier_arrive_expect_tx mbarrier_wait_parity mbarrier_try_wait_parity MBarrierWait "
            "barrier_cluster_arrive barrier_cluster_arrive_relaxed barrier_cluster_wait mapa",
            EXACT,
            ARRAYS,
        ),
        ("MBarrierScope", IGNORED, ARRAYS, "the widest is meant"),
        ("cp_async_bulk_tensor_shared_cta_global TMALoadMode", EXACT, ARRAYS, "boxes alone"),
        ("load_ext store_ext MemOrder MemScope ldmatrix MMALayout LoadShape", EXACT, ARRAYS),
        ("cvt_packfloat_f32 CVTPackFloat FPRoundingMode SaturationModeKind", EXACT, ARRAYS, "to the nearest alone"),
    ),
    "cutlass.tensor_utils": (("LayoutEnum", EXACT, WORDS),),
    "cutlass.utils": (
        ("LayoutEnum get_smem_capacity_in_bytes", EXACT, WORDS),
        (
            "StaticPersistentTileScheduler PersistentTileSchedulerParams WorkTileInfo",
            EXACT,
            WORDS,
            "without swizzle_size",
        ),
        (
            "sm90_make_smem_layout_a sm90_make_smem_layout_b sm90_make_smem_layout_epi sm90_get_smem_layout_atom "
            "sm90_get_smem_store_op sm90_make_trivial_tiled_mma",
            EXACT,
            PRODUCTS,
        ),
        ("HardwareInfo", EXACT, WORDS, "of an H100 with 132 multiprocessors"),
    ),
    "cutlass.utils.smem_allocator": (("SmemAllocator", EXACT, WORDS),),
    "cute": (
        _EIGHT_BITS,
        *_FLOATS,
        ("FastDivmodDivisor FastDivmodDivisorV2", EXACT, WORDS, "of numbers that are not negative"),
        ("fast_divmod_create_divisor fast_divmod_create_divisor_v2", EXACT, WORDS),
        ("prefetch", IGNORED, WORDS, "there are no caches"),
        ("copy_atom_call", EXACT, ARRAYS),
        ("make_layout_image_mask", EXACT, MAPS),
        ("get_nonswizzle_portion get_swizzle_portion", EXACT, MAPS),
        ("gemm make_mma_atom make_tiled_mma", BOUND, PRODUCTS, "sums in float64, rounded once an instruction"),
        (
            "make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C make_tiled_copy_S make_tiled_copy_D make_tiled_copy_C_atom",
            EXACT,
            PRODUCTS,
            "layouts as the compiler prints them",
        ),
        ("TiledMma ThrMma MmaAtom ThrCopy", ANNOTATION, PRODUCTS),
    ),
    "cute.math": (*_FLOATS, ("RoundingMode", EXACT, WORDS, "to the nearest alone")),
    "cute.testing": (("assert_", IGNORED, WORDS),),
    "cute.arch": (
        (
            "prmt lop3 brev bfe bfi bfind shf mul_wide mul_hi mul24 mad24 add_sat_int sub_sat_int log2_of_pow2_int",
            EXACT,
            WORDS,
        ),
        ("lanemask_eq lanemask_lt lanemask_le lanemask_gt lanemask_ge", EXACT, WORDS),
        (
            "fma_packed_f32x2 mul_packed_f32x2 add_packed_f32x2 sub_packed_f32x2 exp_packed_f32x2",
            EXACT,
            WORDS,
            "with a note: the compiler refuses them for Hopper",
        ),
        ("load store red", EXACT, WORDS, "with `sem` as atomics"),
        ("shuffle_sync_op", EXACT, ARRAYS),
        ("atomic_fmax atomic_fmin atomic_max_float32", EXACT, WORDS),
        ("alloc_smem get_dyn_smem dynamic_smem_size total_smem_size", EXACT, WORDS),
        ("prefetch", IGNORED, WORDS, "there are no caches"),
        ("smid", EXACT, WORDS, "any number would be"),
        ("warpgroup_reg_alloc warpgroup_reg_dealloc", IGNORED, WORDS, "unless a block asks for too many"),
        ("WARPS_PER_WARPGROUP THREADS_PER_WARPGROUP", EXACT, WORDS),
    ),
    "cute.nvgpu": (
        ("CacheEvictionPriority", IGNORED, WORDS, "a cache hint"),
        ("MmaUniversalOp OperandMajorMode", EXACT, PRODUCTS),
    ),
    "cute.nvgpu.cpasync": (
        (
            "CopyBulkTensorTileG2SOp CopyBulkTensorTileG2SMulticastOp CopyBulkTensorTileS2GOp CopyReduceBulkTensorTileS2GOp",
            EXACT,
            MAPS,
            "tiles without gaps, whose contiguous mode is the tensor's",
        ),
        (
            "make_tiled_tma_atom tma_partition TmaInfo create_tma_multicast_mask",
            EXACT,
            MAPS,
            "layouts as the compiler prints them",
        ),
        ("prefetch_descriptor", IGNORED, MAPS, "there are no caches"),
    ),
    "cute.nvgpu.warp": (
        ("MmaF16BF16Op MmaTF32Op", BOUND, PRODUCTS, "sums in float64, rounded once an instruction"),
        ("LdMatrix8x8x16bOp StMatrix8x8x16bOp", EXACT, PRODUCTS),
    ),
    "cute.nvgpu.warpgroup": (
        ("MmaF16BF16Op", BOUND, PRODUCTS, "sums in float64, rounded once an instruction"),
        ("MmaF8Op", BOUND, PRODUCTS, "the same; Hopper adds products of 8 bits with fewer bits than float32 has"),
        ("make_smem_layout_atom SmemLayoutAtomKind OperandSource OperandMajorMode Field", EXACT, PRODUCTS),
        ("fence commit_group wait_group", ORDER, PRODUCTS, "accumulators may not be touched before"),
    ),
    "cutlass.utils.hopper_helpers": (
        (
            "make_smem_layout_a make_smem_layout_b make_smem_layout_epi get_smem_layout_atom make_trivial_tiled_mma "
            "sm90_get_smem_store_op",
            EXACT,
            PRODUCTS,
        ),
        ("compute_tile_shape_or_override", EXACT, PUBLISHED),
    ),
}
