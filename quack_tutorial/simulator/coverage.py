"""Which names of the DSL the simulator answers, how faithfully, and where that is tested.

`TABLE` says it, namespace by namespace, in the words of `MEANING`; `answered` derives the names from the simulator itself, so
that none can be left out (a test compares the two). `rows` gives one row a name, `markdown` the page's tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from quack_tutorial.simulator import names, pythons
from quack_tutorial.simulator.hopper import listed

EXACT, BOUND, ORDER, IGNORED = "exact", "bound", "order", "ignored"
ANNOTATION, REFUSED = "annotation", "refused"
MEANING = {
    EXACT: "as the PTX ISA and the DSL's compiler have it, to the bit",
    BOUND: "within the error that the documentation gives for the GPU's own",
    ORDER: "no value to compare: it decides what comes before what, which the search for races sees",
    IGNORED: "accepted, and changes nothing here",
    ANNOTATION: "stands in annotations, and in isinstance where the DSL allows it",
    REFUSED: "may be imported; any use of it is not simulated, and says so",
}

# where a name is tested: what the table shows, and the files of which one mentions the name
OPERATIONS = "suite operations"
MUTATION = "suite mutation"
NAMES = "tests/simulator/test_names.py"
LAYOUT = "tests/simulator/test_layout.py"
LANGUAGE = "tests/simulator/test_language.py"
ACCEPTANCE = "tests/simulator/test_acceptance.py"
BOUNDS = "tests/simulator/test_bounds.py"
KERNELS = "tests/simulator/test_kernels.py"
CLUSTER = "tests/simulator/test_cluster.py"
SCRIPT = "tests/test_kernel_file.py"
OTHERS = "tests/simulator/test_others.py"
OBJECTS = "tests/simulator/test_python_objects.py"
PUBLISHED = "tests/simulator/test_published.py"
INLINE_PTX = "tests/simulator/test_inline_ptx.py"
FILES = {
    OPERATIONS: (
        "validation/operations/kernels.py",
        *(f"validation/operations/{part}.py" for part in ("numbers", "conversions", "warps")),
    ),
    MUTATION: ("validation/mutation/kernels.py",),
    NAMES: ("tests/simulator/dsl/names.py",),
    LAYOUT: ("tests/simulator/test_layout.py",),
    LANGUAGE: ("tests/simulator/dsl/language.py",),
    ACCEPTANCE: ("tests/simulator/dsl/acceptance.py",),
    BOUNDS: ("tests/simulator/dsl/bounds.py",),
    KERNELS: ("validation/mutation/kernels.py", "quack_tutorial/kernels/copy.py"),
    CLUSTER: ("tests/simulator/dsl/cluster.py", "validation/mutation/kernels.py", "tests/simulator/dsl/acceptance.py"),
    OTHERS: ("tests/simulator/dsl/others.py",),
    OBJECTS: ("tests/simulator/dsl/python_objects.py", "tests/simulator/test_python_objects.py"),
    PUBLISHED: ("tests/simulator/dsl/published.py", "tests/simulator/test_published.py"),
    SCRIPT: ("tests/test_kernel_file.py",),
    INLINE_PTX: ("tests/simulator/dsl/inline_ptx.py",),
}


@dataclass(frozen=True)
class Line:
    """Names, separated by spaces, of which the same is true."""

    names: str
    how: str
    tested: str
    note: str = ""


_TYPES = Line(
    "Float64 Float32 Float16 BFloat16 Int64 Int32 Int16 Int8 Uint64 Uint32 Uint16 Uint8 Boolean", EXACT, OPERATIONS
)
_MATH = (
    Line("sqrt rcp floor ceil absf isnan fma max min", EXACT, OPERATIONS, "sqrt with fastmath=True within 2^-23"),
    Line("exp exp2 log log2 log10 rsqrt tanh sin cos", BOUND, OPERATIONS),
    Line("tan asin acos atan atan2 erf", BOUND, OTHERS),
)
_HINTS = Line("LoadCacheMode", IGNORED, NAMES, "a cache hint")

TABLE = {
    "cutlass": (
        _TYPES,
        Line("max min", EXACT, OPERATIONS, "NaN wins; of two zeros the second"),
        Line("const_expr dynamic_expr as_numeric range range_dynamic range_constexpr", EXACT, NAMES),
        Line("AddressSpace", EXACT, NAMES, "gmem, smem, rmem"),
        Line("Constexpr", ANNOTATION, BOUNDS),
        Line("Numeric", ANNOTATION, NAMES),
        Line("Float", ANNOTATION, OTHERS),
        Line("dsl_user_op", EXACT, OTHERS),
    ),
    "cutlass.base_dsl": (
        Line("BaseDSL", EXACT, OTHERS, "its architecture, which is sm_90a"),
        Line("Arch", EXACT, PUBLISHED),
    ),
    "cute.tensor": (Line("TensorSSA rank", EXACT, PUBLISHED, "as _Tensor, takes methods that a package gives it"),),
    "cutlass.base_dsl.arch": (Line("Arch", EXACT, PUBLISHED),),
    "cutlass.base_dsl.enums": (Line("Arch", EXACT, OTHERS),),
    "cutlass.base_dsl.typing": (
        Line("Pointer", EXACT, PUBLISHED, "Pointer(p, dtype) casts"),
        Line("Vector", EXACT, OTHERS, "from_elements, bitcast, to_elements"),
    ),
    "cutlass.experimental.primitives": (Line("redux_sync ReductionKind", EXACT, OTHERS, "of integers"),),
    "cutlass.pipeline": (
        Line("PipelineAsync PipelineCpAsync", EXACT, OTHERS),
        Line("PipelineTmaAsync", EXACT, OTHERS, "of bulk and tensor-map copies; no mcast_mode_mn"),
        Line("CooperativeGroup Agent PipelineUserType make_pipeline_state", EXACT, OTHERS),
        Line("PipelineState NamedBarrier sync", EXACT, OTHERS),
    ),
    "cutlass.memory": (Line("SmemAllocator", EXACT, OPERATIONS, "swizzles as composed layouts"),),
    "cutlass.utils": (Line("SmemAllocator", EXACT, NAMES, "swizzles as composed layouts"),),
    "cute": (
        Line("jit kernel", EXACT, LANGUAGE),
        _TYPES,
        Line(
            "Tensor TensorSSA Layout ComposedLayout Swizzle Pointer "
            "TiledCopy CopyAtom Shape Stride Coord Tile Tiler IntTuple Numeric NumericMeta",
            ANNOTATION,
            NAMES,
        ),
        Line(
            "make_layout make_ordered_layout make_identity_layout make_layout_tv size rank shape depth cosize crd2idx "
            "slice_ dice get select append prepend flatten coalesce group_modes composition complement right_inverse "
            "left_inverse logical_divide zipped_divide tiled_divide flat_divide logical_product zipped_product "
            "raked_product blocked_product recast_layout product product_each shape_div ceil_div round_up tile_to_shape "
            "is_congruent max_common_vector max_common_layout",
            EXACT,
            LAYOUT,
            "against the library tensor-layouts",
        ),
        Line("make_tensor make_rmem_tensor local_tile domain_offset make_fragment_like", EXACT, BOUNDS),
        Line("make_identity_tensor", EXACT, KERNELS),
        Line("make_rmem_tensor_like recast_tensor size_in_bytes elem_less", EXACT, NAMES),
        Line("full full_like zeros_like ones_like", EXACT, NAMES),
        Line("where ReductionOp", EXACT, OPERATIONS),
        Line("any_ all_", EXACT, ACCEPTANCE),
        Line("copy make_copy_atom make_tiled_copy autovec_copy basic_copy basic_copy_if", EXACT, NAMES),
        Line("make_tiled_copy_tv", EXACT, BOUNDS),
        *_MATH,
        Line("printf", EXACT, LANGUAGE),
        Line("AddressSpace", EXACT, NAMES, "gmem, smem, rmem"),
        Line("assume", IGNORED, NAMES, "a promise that accesses are checked against anyway"),
        Line("CacheEvictionPriority", IGNORED, NAMES, "a cache hint"),
        Line("compile", EXACT, SCRIPT, "in a file that runs on the simulator: see `kernel_file`"),
        Line(
            "prepend_ones idx2crd repeat_like filter_zeros local_partition is_static flatten_to_tuple make_ptr recast_ptr "
            "print_tensor",
            EXACT,
            OTHERS,
        ),
        Line("make_swizzle make_composed_layout", EXACT, OTHERS, "of a plain layout, for a tensor in shared memory"),
        Line("struct", EXACT, OTHERS, "MemRange, Align, scalars, structs in structs"),
        Line("core", REFUSED, NAMES),
    ),
    "cutlass.cute.runtime": (Line("from_dlpack", EXACT, SCRIPT, "also of numpy arrays"),),
    "cute.arch": (
        Line("thread_idx block_idx", EXACT, LANGUAGE),
        Line("lane_idx warp_idx", EXACT, CLUSTER),
        Line("block_dim grid_dim", EXACT, ACCEPTANCE),
        Line("block_idx_in_cluster block_in_cluster_idx block_in_cluster_dim", EXACT, NAMES),
        Line("cluster_idx cluster_dim cluster_size", EXACT, NAMES),
        Line("FULL_MASK WARP_SIZE", EXACT, NAMES),
        Line(
            "shuffle_sync shuffle_sync_up shuffle_sync_down shuffle_sync_bfly make_warp_uniform",
            EXACT,
            OPERATIONS,
            "mask_and_clamp must be a constant",
        ),
        Line("vote_ballot_sync vote_any_sync vote_all_sync vote_uni_sync", EXACT, OPERATIONS),
        Line("warp_redux_sync warp_reduction warp_reduction_sum warp_reduction_max", EXACT, OPERATIONS),
        Line("fmax fmin popc", EXACT, OPERATIONS),
        Line("clz activemask atomic_cas", EXACT, OTHERS),
        Line("elect_one", EXACT, NAMES, "after `with`"),
        Line("setmaxregister_increase setmaxregister_decrease", IGNORED, NAMES, "unless a block asks for too many"),
        Line("exp exp2 rcp_approx", BOUND, OPERATIONS),
        Line(
            "atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_exch",
            EXACT,
            OPERATIONS,
            "lanes in their order, which is one of the legal ones; of vectors atomic_add of 2 or 4 float32",
        ),
        Line("barrier barrier_arrive sync_warp", EXACT, OPERATIONS),
        Line("sync_threads", EXACT, NAMES),
        Line("cluster_arrive cluster_wait", EXACT, OPERATIONS),
        Line("cluster_arrive_relaxed map_dsmem_ptr", EXACT, CLUSTER),
        Line(
            "mbarrier_init mbarrier_init_fence mbarrier_arrive mbarrier_arrive_and_expect_tx mbarrier_wait "
            "mbarrier_test_wait store_async_dsmem",
            EXACT,
            OPERATIONS,
        ),
        Line("mbarrier_expect_tx mbarrier_try_wait", EXACT, NAMES),
        Line("cp_async_commit_group cp_async_wait_group", EXACT, KERNELS),
        Line("cp_async_mbarrier_arrive_noinc", ORDER, OTHERS, "the copies land with the arrival"),
        Line("cp_async_bulk_commit_group cp_async_bulk_wait_group", EXACT, KERNELS),
        Line("fence_acq_rel_gpu", ORDER, MUTATION),
        Line("fence_acq_rel_cta fence_acq_rel_cluster fence_acq_rel_sys fence_proxy", ORDER, NAMES),
        Line("fence_view_async_shared", ORDER, KERNELS),
        Line(
            "inline_ptx",
            EXACT,
            INLINE_PTX,
            "createpolicy.fractional, ld.global, cp.async.bulk from global to shared memory, with or without a cache hint, which "
            "changes nothing; and what llvm.inline_asm may say, see `assembly`",
        ),
        Line(
            "griddepcontrol_wait",
            ORDER,
            NAMES,
            "for the thread that calls it, and for those that meet it at a block barrier or sync_warp afterwards: where the "
            "launch says use_pdl, global memory before that is an error",
        ),
        Line(
            "griddepcontrol_launch_dependents",
            ORDER,
            NAMES,
            "whether it waited first decides what may run beside the next",
        ),
    ),
    "cute.math": _MATH,
    "cute.nvgpu": (
        Line("CopyUniversalOp CopyG2ROp CopyR2GOp CopyS2ROp CopyR2SOp", EXACT, NAMES),
        _HINTS,
        Line("StoreCacheMode L2PrefetchSize", IGNORED, NAMES, "a cache hint"),
        Line("MemoryOrder MemoryScope", IGNORED, NAMES),
    ),
    "cute.nvgpu.cpasync": (Line("CopyG2SOp CopyBulkG2SOp CopyBulkS2GOp", EXACT, KERNELS), _HINTS),
    "cutlass.cutlass_dsl": (
        _TYPES,
        Line("dsl_user_op", EXACT, OTHERS),
        Line("T", EXACT, OTHERS, "the types that llvm.inline_asm gives"),
    ),
    "built-in functions": (
        Line("range max min any all isinstance", EXACT, NAMES),
        Line("hasattr getattr issubclass super", EXACT, OBJECTS),
        Line("type", EXACT, OTHERS, "of a value its DSL type"),
        Line("print", EXACT, NAMES, "while tracing: once, however many threads run"),
    ),
}

for _space, _lines in listed.TABLE.items():
    TABLE[_space] = (*TABLE.get(_space, ()), *(Line(*_line) for _line in _lines))
FILES |= listed.FILES


def answered() -> dict[str, list[str]]:
    """The names that the simulator answers, by namespace, from the simulator's own namespaces; a namespace is no name."""
    found, waiting = {}, [names.CUTLASS]
    while waiting:
        space = waiting.pop(0)
        if space._path in found:
            continue
        members = {name: member for name, member in vars(space).items() if not name.startswith("_")}
        waiting += [member for member in members.values() if isinstance(member, names.Namespace)]
        found[space._path] = [name for name, member in members.items() if not isinstance(member, names.Namespace)]
    return found | {"built-in functions": [*names.BUILTINS, *pythons.ANSWERED]}


def rows() -> list[tuple[str, str, str, str, str]]:
    """(namespace, name, how, where it is tested, note) of every name, in the table's order."""
    return [
        (space, name, line.how, line.tested, line.note)
        for space, lines in TABLE.items()
        for line in lines
        for name in line.names.split()
    ]


def markdown() -> str:
    """What the words mean, then a table a namespace, as a page of the book shows it; names that share a line share a row."""
    parts = ["| how | means |", "|---|---|", *(f"| {how} | {meaning} |" for how, meaning in MEANING.items()), ""]
    for space, lines in TABLE.items():
        parts += [f"### {space}", "", "| names | how | tested in | note |", "|---|---|---|---|"]
        for line in lines:
            listed = ", ".join(f"`{name}`" for name in line.names.split())
            parts.append(f"| {listed} | {line.how} | {line.tested} | {line.note} |")
        parts.append("")
    return "\n".join(parts)
