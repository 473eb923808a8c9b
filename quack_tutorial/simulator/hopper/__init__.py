"""What Hopper's kernels use beyond this book: names that `names` takes in, in rooms of their own.

| module          | what                                                                                    |
|-----------------|-----------------------------------------------------------------------------------------|
| `words`         | pairs of floats, bits, integer products, single functions of cute.math                  |
| `accesses`      | loads and stores by a pointer, shared memory without an allocator                       |
| `instructions`  | names of MLIR's dialects: types by their text, bits of pointers, plain arithmetic       |
| `schedulers`    | persistent tile schedulers, LayoutEnum, HardwareInfo                                    |

No kernel of the book needs any of it. Each module says what it leaves out.
"""

from __future__ import annotations

PLACES: list = []  # namespaces in which a name that a module imported is looked for


def extend(names) -> None:
    """Add these rooms' names to the DSL's namespaces in `names`."""
    from . import accesses, instructions, schedulers, words

    space, tokens = names.Namespace, names.Tokens
    arch, cute, cutlass = names.ARCH.__dict__, names.CUTE.__dict__, names.CUTLASS.__dict__
    for name in (
        "fma_packed_f32x2 mul_packed_f32x2 add_packed_f32x2 sub_packed_f32x2 exp_packed_f32x2 prmt lop3 brev bfe bfi bfind shf "
        "mul_wide mul_hi mul24 mad24 add_sat_int sub_sat_int log2_of_pow2_int lanemask_eq lanemask_lt lanemask_le lanemask_gt "
        "lanemask_ge smid"
    ).split():
        arch[name] = getattr(words, name)
    for name in (
        "load store red prefetch alloc_smem get_dyn_smem dynamic_smem_size total_smem_size atomic_fmax atomic_fmin "
        "atomic_max_float32"
    ).split():
        arch[name] = getattr(accesses, name)
    arch |= {
        "warpgroup_reg_alloc": names.ignore,
        "warpgroup_reg_dealloc": names.ignore,
        "WARPS_PER_WARPGROUP": 4,
        "THREADS_PER_WARPGROUP": 128,
    }
    mathematics = {
        "abs": names.mathops.absf,
        "div": words.div,
        "round": words.round_away,
        **{n: getattr(words, n) for n in "isfinite isinf log1p expm1 cbrt trunc roundeven copysign".split()},
    }
    names.MATH.__dict__.update(mathematics, RoundingMode=tokens("NEAREST_EVEN", "ZERO", "UP", "DOWN"))
    cute |= mathematics | {
        "FastDivmodDivisor": words.FastDivmodDivisor,
        "FastDivmodDivisorV2": words.FastDivmodDivisor,
        "fast_divmod_create_divisor": words.fast_divmod_create_divisor,
        "fast_divmod_create_divisor_v2": words.fast_divmod_create_divisor,
        "prefetch": accesses.prefetch,
    }
    cute["testing"] = space("cute.testing", {"assert_": names.ignore})
    for name in ("make_swizzle", "make_layout", "make_ordered_layout", "Layout", "Tensor", "Pointer"):
        object.__setattr__(cute["core"], name, cute[name])  # where cute defines them
    enumerations = {"LayoutEnum": schedulers.LayoutEnum}
    cutlass |= {"select_": words.select_}
    cutlass["tensor_utils"] = space("cutlass.tensor_utils", dict(enumerations))
    cutlass["utils"].__dict__.update(
        enumerations,
        **{
            n: getattr(schedulers, n)
            for n in "PersistentTileSchedulerParams StaticPersistentTileScheduler WorkTileInfo HardwareInfo".split()
        },
        get_smem_capacity_in_bytes=accesses.capacity,
        smem_allocator=space("cutlass.utils.smem_allocator", {"SmemAllocator": names.SmemAllocator}),
    )
    nvgpu = names.NVGPU.__dict__
    nvgpu["CacheEvictionPriority"] = cute["CacheEvictionPriority"]
    nvgpu["common"] = names.NVGPU
    _extend_dialects(names, instructions)
    PLACES[:] = [cutlass["utils"]]


def _extend_dialects(names, instructions) -> None:
    space = names.Namespace
    names.LLVM.__dict__.update(ptrtoint=instructions.ptrtoint, bitcast=instructions.bitcast)
    names.NVVM.__dict__.update(
        atomicrmw=instructions.atomicrmw,
        AtomicOpKind=names.Tokens(*"ADD FADD MAX MIN UMAX UMIN AND OR XOR EXCH CAS INC DEC".split()),
        FPRoundingMode=names.Tokens("RN", "RZ", "RM", "RP"),
        RoundingModeKind=names.Tokens("RN", "RZ", "RM", "RP"),
        **{n: names.ARCH.__dict__[n] for n in ("fma_packed_f32x2", "mul_packed_f32x2", "add_packed_f32x2")},
    )
    mlir = names.CUTLASS.__dict__["_mlir"].__dict__
    mlir["dialects"].__dict__.update(
        arith=space("cutlass._mlir.dialects.arith", dict(instructions.ARITH)),
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
