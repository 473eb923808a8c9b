"""The lines of `coverage.TABLE` for these rooms' names: (names, how, where they are tested, note), namespace by namespace."""

from __future__ import annotations

EXACT, BOUND, ORDER, IGNORED = "exact", "bound", "order", "ignored"
WORDS = "tests/simulator/test_hopper_words.py"
FILES = {
    WORDS: ("tests/simulator/dsl/hopper_words.py", WORDS),
}

_FLOATS = (
    ("abs div trunc round roundeven copysign isfinite isinf", EXACT, WORDS),
    ("expm1 log1p cbrt", BOUND, WORDS),
)
TABLE = {
    "cutlass": (("select_", EXACT, WORDS),),
    "cutlass.tensor_utils": (("LayoutEnum", EXACT, WORDS),),
    "cutlass.utils": (
        ("LayoutEnum get_smem_capacity_in_bytes", EXACT, WORDS),
        (
            "StaticPersistentTileScheduler PersistentTileSchedulerParams WorkTileInfo",
            EXACT,
            WORDS,
            "without swizzle_size",
        ),
        ("HardwareInfo", EXACT, WORDS, "of an H100 with 132 multiprocessors"),
    ),
    "cutlass.utils.smem_allocator": (("SmemAllocator", EXACT, WORDS),),
    "cute": (
        *_FLOATS,
        ("FastDivmodDivisor FastDivmodDivisorV2", EXACT, WORDS, "of numbers that are not negative"),
        ("fast_divmod_create_divisor fast_divmod_create_divisor_v2", EXACT, WORDS),
        ("prefetch", IGNORED, WORDS, "there are no caches"),
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
        ("atomic_fmax atomic_fmin atomic_max_float32", EXACT, WORDS),
        ("alloc_smem get_dyn_smem dynamic_smem_size total_smem_size", EXACT, WORDS),
        ("prefetch", IGNORED, WORDS, "there are no caches"),
        ("smid", EXACT, WORDS, "any number would be"),
        ("warpgroup_reg_alloc warpgroup_reg_dealloc", IGNORED, WORDS, "registers are not counted"),
        ("WARPS_PER_WARPGROUP THREADS_PER_WARPGROUP", EXACT, WORDS),
    ),
    "cute.nvgpu": (("CacheEvictionPriority", IGNORED, WORDS, "a cache hint"),),
}
