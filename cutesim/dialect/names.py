"""The DSL's public names, as the simulator answers them: what `cutlass.…` and `cute.…` mean in simulated source.

Nothing here imports, wraps or replaces the DSL. A name that is not modelled is a `Missing`, which says so when it is used.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings

from cutesim.trace import Space

from ..context import WARP, not_simulated
from ..layouts import layout as la
from ..layouts import layout_algebra as algebra
from ..layouts.layout import Layout
from ..machine import asynchronous, atomics, barriers, cluster, copying, host, mbarriers, pipeline, shapes, warps
from ..machine.loops import DynamicRange
from ..machine.shared_memory import SmemAllocator
from ..memory import structs, swizzle
from ..memory import tensor as tn
from ..memory.pointers import Pointer
from ..values import arithmetic, indices, mathops, numeric
from ..values.numeric import DType, TensorSSA, Value
from ..values.placeholders import Annotation, Missing, Namespace, NumericAnnotation, Tokens
from . import assembly, dialects, functions

PLACES: list = []  # more namespaces in which a name that a module imported is looked for


def _static(name, function):
    def checked(*args, **kwargs):
        kwargs.pop("loc", None)
        kwargs.pop("ip", None)
        return tn.shown(function(*map(tn.hidden, args), **{k: tn.hidden(v) for k, v in kwargs.items()}))

    checked.__name__ = name
    return checked


def of(module, words: str) -> dict:
    """These names of a module."""
    return {name: getattr(module, name) for name in words.split()}


# ---- the namespaces -------------------------------------------------------------------------------------------------

_ON_LAYOUT = (
    "zipped_divide logical_divide tiled_divide flat_divide group_modes coalesce select append prepend composition tile_to_shape"
).split()
_LAYOUT = (
    "make_ordered_layout make_identity_layout make_layout_tv raked_product blocked_product logical_product zipped_product "
    "complement right_inverse left_inverse recast_layout product product_each shape_div is_congruent depth get dice "
    "flatten_to_tuple "
    "max_common_vector max_common_layout"
).split()


MATHEMATICS = of(
    mathops,
    "exp exp2 log log2 log10 sqrt rsqrt rcp tanh sin cos tan asin acos atan atan2 erf floor ceil absf isnan fma",
)


def _cute() -> dict:
    layouts = {**vars(la), **vars(algebra)}
    members = {name: tn.on_layout(layouts[name]) for name in _ON_LAYOUT}
    members |= {name: _static(name, layouts[name]) for name in _LAYOUT}
    members |= numeric.TYPES
    members |= of(
        shapes,
        "size rank shape ceil_div cosize size_in_bytes make_layout slice_ crd2idx prepend_ones idx2crd repeat_like filter_zeros "
        "local_partition is_static elem_less",
    )
    members |= of(
        tn,
        "make_tensor make_identity_tensor make_rmem_tensor make_rmem_tensor_like local_tile domain_offset recast_tensor",
    )
    members |= of(
        copying, "copy autovec_copy basic_copy basic_copy_if make_copy_atom make_tiled_copy make_tiled_copy_tv"
    )
    members |= of(
        functions,
        "printf print_tensor assume recast_ptr make_ptr full full_like zeros_like ones_like where any_ all_",
    )
    members |= of(swizzle, "make_swizzle make_composed_layout") | MATHEMATICS
    members |= {
        "flatten": lambda x, **_: tn.on_layout(la.flatten)(x),
        "make_fragment_like": tn.make_rmem_tensor_like,
        "round_up": la.round_up,
        "struct": structs.struct,
        "jit": functions.decorator("jit"),
        "kernel": functions.decorator("kernel"),
        "arch": ARCH,
        "math": MATH,
        "nvgpu": NVGPU,
        "core": Missing("cutlass.cute.core"),
        "Tensor": Annotation("cute.Tensor", (tn.Tensor, tn.CoordinateTensor)),
        "TensorSSA": Annotation("cute.TensorSSA", TensorSSA),
        # where packages add methods
        "tensor": {"_Tensor": tn.TENSORS, "TensorSSA": numeric.VECTORS, "rank": members["rank"]},
        "Layout": Annotation("cute.Layout", Layout),
        "Pointer": Annotation("cute.Pointer", Pointer),
        "ComposedLayout": Annotation("cute.ComposedLayout", swizzle.ComposedLayout),
        "Swizzle": Annotation("cute.Swizzle", swizzle.Swizzle),
        "TiledCopy": Annotation("cute.TiledCopy", copying.TiledCopy),
        "CopyAtom": Annotation("cute.CopyAtom", copying.CopyAtom),
        "Shape": Annotation("cute.Shape", (tuple, int)),
        "Tile": Annotation("cute.Tile"),
        "Tiler": Annotation("cute.Tiler"),
        "Coord": Annotation("cute.Coord", (tuple, int, Value)),
        "Stride": Annotation("cute.Stride", (tuple, int)),
        "IntTuple": Annotation("cute.IntTuple", (tuple, int)),
        "Numeric": Annotation("cute.Numeric", Value),
        "NumericMeta": Annotation("cute.NumericMeta"),
        "ReductionOp": Tokens("ADD", "MUL", "MIN", "MAX"),
        "AddressSpace": SPACES,
        "CacheEvictionPriority": Tokens("EVICT_NORMAL", "EVICT_FIRST", "EVICT_LAST", "EVICT_UNCHANGED", "NO_ALLOCATE"),
        "max": functions.math_maximum,
        "min": functions.math_minimum,
        "compile": host.compile_,
        "runtime": Namespace("cutlass.cute.runtime", {"from_dlpack": host.from_dlpack}),
    }
    return members


_ARCH = {
    indices: "thread_idx block_idx block_dim grid_dim cluster_dim lane_idx",
    warps: "FULL_MASK warp_idx make_warp_uniform shuffle_sync shuffle_sync_up shuffle_sync_down shuffle_sync_bfly warp_reduction "
    "warp_reduction_max warp_reduction_sum warp_redux_sync vote_ballot_sync vote_any_sync vote_all_sync vote_uni_sync activemask",
    barriers: "sync_warp sync_threads barrier barrier_arrive fence_acq_rel_cta fence_acq_rel_cluster fence_acq_rel_gpu "
    "fence_acq_rel_sys fence_view_async_shared fence_proxy griddepcontrol_wait griddepcontrol_launch_dependents",
    cluster: "block_idx_in_cluster block_in_cluster_idx block_in_cluster_dim cluster_size cluster_idx map_dsmem_ptr cluster_arrive "
    "cluster_arrive_relaxed cluster_wait",
    mbarriers: "mbarrier_init mbarrier_init_fence mbarrier_arrive mbarrier_arrive_and_expect_tx mbarrier_expect_tx mbarrier_wait "
    "mbarrier_try_wait mbarrier_test_wait",
    asynchronous: "cp_async_commit_group cp_async_wait_group cp_async_mbarrier_arrive_noinc store_async_dsmem "
    "cp_async_bulk_commit_group cp_async_bulk_wait_group",
    atomics: "atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_exch atomic_cas",
    arithmetic: "fmax fmin exp2 exp rcp_approx clz popc",
    assembly: "inline_ptx",
}


class _Spaces:
    gmem, smem, rmem, generic = Space.GMEM, Space.SMEM, Space.NONE, Space.NONE


SPACES = _Spaces()
ARCH = Namespace(
    "cute.arch",
    {name: x for module, words in _ARCH.items() for name, x in of(module, words).items()}
    | {
        "WARP_SIZE": WARP,
        "elect_one": functions.elect_one,
        "setmaxregister_increase": functions.setmaxregister,
        "setmaxregister_decrease": functions.setmaxregister,
    },
)
ARCH.__dict__["nvvm_wrappers"] = ARCH  # the module that has them
MATH = Namespace("cute.math", MATHEMATICS | {"max": functions.math_maximum, "min": functions.math_minimum})
CACHE_LOAD = Tokens("ALWAYS", "GLOBAL", "STREAMING", "LAST_USE", "NONE")
CACHE_STORE = Tokens("WRITE_BACK", "GLOBAL", "STREAMING", "WRITE_THROUGH", "NONE")
CPASYNC = Namespace(
    "cute.nvgpu.cpasync", of(copying, "CopyG2SOp CopyBulkG2SOp CopyBulkS2GOp") | {"LoadCacheMode": CACHE_LOAD}
)
NVGPU = Namespace(
    "cute.nvgpu",
    of(copying, "CopyUniversalOp CopyG2ROp CopyR2GOp CopyS2ROp CopyR2SOp")
    | {
        "cpasync": CPASYNC,
        "LoadCacheMode": CACHE_LOAD,
        "StoreCacheMode": CACHE_STORE,
        "L2PrefetchSize": Tokens("NONE", "SIZE_64B", "SIZE_128B", "SIZE_256B"),
        "MemoryOrder": Tokens("WEAK", "RELAXED", "ACQUIRE", "RELEASE", "ACQ_REL", "VOLATILE"),
        "MemoryScope": Tokens("CTA", "CLUSTER", "GPU", "SYS"),
    },
)


class ResultTypes:
    """T.i32() and so on: what an asm gives."""

    def __init__(self):
        for short, dtype in {**dialects.TYPES, "bool": numeric.Boolean}.items():
            setattr(self, short, lambda *_, dtype=dtype, **__: dtype)

    @staticmethod
    def vector(count: int, dtype: DType):
        return dialects.VectorType(count, dtype)


T = ResultTypes()
LLVM = Namespace(
    "llvm",
    {
        "inline_asm": assembly.inline_asm,
        "extractvalue": assembly.extractvalue,
        "AsmDialect": Tokens("AD_ATT", "AD_Intel"),
        "StructType": {"get_literal": lambda types, **_: assembly.Struct(types)},
    },
)
VECTOR = Namespace("cutlass._mlir.dialects.vector", of(dialects, "from_elements bitcast extract"))
NVVM = Namespace("cutlass._mlir.dialects.nvvm", of(dialects, "fmin fmax"))
PRIMITIVES = Namespace(
    "cutlass.experimental.primitives",
    {
        "redux_sync": dialects.redux_sync,
        "ReductionKind": Tokens(*"ADD MAX MIN UMAX UMIN AND OR XOR FMAX FMIN".split()),
    },
)


class _Cast(Annotation):
    """A type of pointers that is called to see a pointer as one to other elements."""

    def __call__(self, pointer, dtype: DType = numeric.Int8, **_) -> Pointer:
        if not isinstance(pointer, Pointer):
            raise not_simulated(f"{self._name} of a {type(pointer).__name__}")
        return pointer.recast(dtype)


BASE = Namespace(
    "cutlass.base_dsl",
    {
        "BaseDSL": dialects.BaseDSL,
        "Arch": dialects.Arch,
        "arch": {"Arch": dialects.Arch},
        "enums": {"Arch": dialects.Arch},
        "typing": {"Pointer": _Cast("base_dsl.typing.Pointer", Pointer), "Vector": dialects.Vector},
    },
)
PIPELINE = Namespace(
    "cutlass.pipeline",
    of(
        pipeline,
        "PipelineAsync PipelineCpAsync PipelineTmaAsync PipelineState make_pipeline_state CooperativeGroup NamedBarrier sync",
    )
    | {
        "Agent": Tokens("Thread", "ThreadBlock", "ThreadBlockCluster"),
        "PipelineUserType": Tokens("Producer", "Consumer"),
    },
)
CUTE = Namespace("cute", _cute(), older={"make_fragment": tn.make_rmem_tensor})
CUTLASS = Namespace(
    "cutlass",
    numeric.TYPES
    | of(functions, "const_expr dynamic_expr range_constexpr as_numeric dsl_user_op")
    | {
        "cute": CUTE,
        "Constexpr": Annotation("cutlass.Constexpr"),
        "Numeric": Annotation("cutlass.Numeric", Value),
        "Float": NumericAnnotation("cutlass.Float", 0.0),
        "range": DynamicRange,
        "range_dynamic": DynamicRange,
        "max": functions.maximum,
        "min": functions.minimum,
        "memory": {"SmemAllocator": SmemAllocator},
        "utils": {"SmemAllocator": SmemAllocator},
        "cuda": {"initialize_cuda_context": functions.ignore},
        "AddressSpace": SPACES,
        "base_dsl": BASE,
        "pipeline": PIPELINE,
        "experimental": {"primitives": PRIMITIVES},
        "cutlass_dsl": {"T": T, "dsl_user_op": functions.dsl_user_op, **numeric.TYPES},
        "_mlir": {"dialects": {"llvm": LLVM, "vector": VECTOR, "nvvm": NVVM}, "extras": {"types": T}},
    },
)
CUTE.__dict__["typing"] = CUTE


class Stream:
    """A CUDA stream: launches run one after another, whichever it is."""

    def __init__(self, *_):
        pass


CUDA = Namespace("cuda", {"bindings": {"driver": {"CUstream": Stream}}})
BUILTINS = {
    "range": DynamicRange,
    "print": functions.print_once,
    "max": functions.builtin_max,
    "min": functions.builtin_min,
    "any": functions.builtin_any,
    "all": functions.builtin_all,
}
# of a helper without @cute.jit: its range is Python's
PLAIN_BUILTINS = {"print": functions.print_once}


def by_path(path: str):
    """The namespace of a module: 'cutlass.cute.nvgpu' and so on."""
    found = CUDA if path.partition(".")[0] == "cuda" else CUTLASS
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def answers() -> dict:
    """id -> (object of the DSL's, what the simulator has for it), by the public names of the DSL's modules that are loaded."""
    return _answers(len(sys.modules)) if "cutlass" in sys.modules else {}


@functools.lru_cache(maxsize=1)
def _answers(loaded: int) -> dict:
    found, seen, waiting = {}, set(), [(CUTLASS, sys.modules.get("cutlass"))]
    while waiting:
        mine, theirs = waiting.pop()
        if id(mine) in seen:
            continue
        seen.add(id(mine))
        for name, x in vars(mine).items():
            # of a name's old place, which nobody has asked for here
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                real = getattr(theirs, name, None)
            if isinstance(x, Namespace) and isinstance(real, types.ModuleType):
                waiting.append((x, real))
            elif isinstance(x, (Missing, Annotation)) or isinstance(real, types.MethodType):
                continue
            elif callable(real):
                found[id(real)] = real, x
    return found


_ANYWHERE = (CUTLASS, CUTE, NVGPU, CPASYNC, ARCH, CUTLASS.memory, CUTLASS.cutlass_dsl)
_ANYWHERE += (LLVM, BASE, BASE.enums, BASE.typing)
# Where a name is looked for whose module's path has the word, the first of these.
_ROOMS = {
    "arch": (ARCH, CUTE, CUTLASS),
    "math": (MATH, CUTE),
    "cpasync": (CPASYNC, NVGPU),
    "_cute": _ANYWHERE,  # the enums that cute re-exports are defined among the dialects
    "dialects.vector": (VECTOR,),
    "dialects._vector": (VECTOR,),
    "dialects.nvvm": (NVVM,),
    "dialects._nvvm": (NVVM,),
    "dialects": (LLVM,),
    "pipeline": (PIPELINE,),
    "experimental": (PRIMITIVES,),
    "": _ANYWHERE,
}


def by_name(module: str, name: str):
    """The stand-in for a DSL function or class that a module imported by name."""
    word = next(word for word in _ROOMS if word in module)
    more = PLACES if word in ("_cute", "experimental", "") else ()
    for place in (*_ROOMS[word], *more):
        if name in place.__dict__:
            return place.__dict__[name]
    return Missing(f"{module}.{name}")
