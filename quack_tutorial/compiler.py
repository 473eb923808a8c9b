"""The one place that compiles kernels with the real CuTe DSL: for this machine's GPU, or to PTX with no GPU at all.

| function                          | needs            | gives                                                        |
|-----------------------------------|------------------|--------------------------------------------------------------|
| `launch(host_fn, *args)`          | what args are on | runs: CUDA tensors on the GPU, CPU tensors on the simulator  |
| `compile_for(host_fn, *args)`     | a GPU            | a callable on CUDA tensors, compiled once                    |
| `ptx(host_fn, *args)`             | the DSL          | the PTX text for an architecture                             |
| `ptx_with_lines(host_fn, *args)`  | the DSL          | the same with the line of the source that each part is from  |
| `ptx_hash(text)`                  | nothing          | sha256 of what the PTX says, without comments and line info  |

Where an argument stands for a tensor, a `TensorSpec` can describe it: which sizes are fixed when the kernel is compiled
(ints) and which are known only when it runs (names). None stands for a tensor that the kernel does without.

What `compile_for` compiles is kept in memory, and on disk where `kernel_cache` is told to, under a name made from the
kernel's source with all it refers to, the specs, the versions of CuTe DSL and Python, the options in the environment, and the
processor.
"""

from __future__ import annotations

import enum
import hashlib
import inspect
import os
import platform
import re
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Hashable
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from quack_tutorial import kernel_cache
from quack_tutorial.hardware import CLUSTERS, OLDEST

DSL_VERSION = "4.8.1"
HOPPER_ARCH = "sm_90a"
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", HOPPER_ARCH, "sm_100a", "sm_103a", "sm_120a")
# What the compiler says of instructions that an architecture lacks: of clusters and bulk copies, of vectors' atomics, of others.
REFUSED = re.compile(r"CONFIG_UNSUPPORTED_ARCH|NVVM backend compilation failed|requires\s+\.target sm_9")
PTX_SUFFIX = ".ptx"  # of PTX that is kept beside kernels
# The environment's name for where CuTe DSL writes files, PTX among them.
DUMP_FOLDER = "CUTE_DSL_DUMP_DIR"
LOADED = "kernel_of_a_reader"
MAX_ALIGNMENT = 16  # bytes; wider than this no load or store of Hopper asks for

# torch and numpy name -> CuTe DSL name
DTYPES = {
    "float64": "Float64",
    "float32": "Float32",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "int64": "Int64",
    "int32": "Int32",
    "int16": "Int16",
    "int8": "Int8",
    "uint8": "Uint8",
    "bool": "Boolean",
}


@dataclass(frozen=True)
class TensorSpec:
    """What a kernel is compiled to know about a tensor in global memory.

    A size or stride (in elements) is an int, fixed, or a name, given by the tensor at run time; equal names are equal
    sizes. The address, and each stride that is a name, is a multiple of `align` bytes.
    """

    dtype: str
    shape: tuple[int | str, ...]
    stride: tuple[int | str, ...]
    align: int = MAX_ALIGNMENT


def spec_of(tensor) -> TensorSpec:
    """The spec of a torch tensor with everything fixed: the sizes, the strides, and the alignment of its address."""
    if not hasattr(tensor, "data_ptr"):
        raise TypeError(f"expected a torch tensor or a TensorSpec, got {type(tensor).__name__}")
    address = tensor.data_ptr()
    align = MAX_ALIGNMENT if address == 0 else min(MAX_ALIGNMENT, address & -address)
    return TensorSpec(_dtype_name(tensor), tuple(tensor.shape), tuple(tensor.stride()), align)


def dynamic_spec_of(tensor, name) -> TensorSpec:
    """As `spec_of`, but sizes and strides are known only when the kernel runs, apart from a stride of 1 or 0.

    This is what CuTe DSL makes of a torch tensor that is passed to it directly. `name` tells this tensor's sizes from others'.
    """
    spec = spec_of(tensor)
    shape = tuple(f"{name}_size{k}" for k in range(len(spec.shape)))
    stride = tuple(step if step in (0, 1) else f"{name}_stride{k}" for k, step in enumerate(spec.stride))
    steps = [step * tensor.element_size() for step in spec.stride if step not in (0, 1)]
    align = min([spec.align, *(step & -step for step in steps)])
    return TensorSpec(spec.dtype, shape, stride, align)


def launch(host_fn, *args, dynamic=False):
    """Run `host_fn` on `args`: on the GPU where the tensors are CUDA tensors, on the simulator where they are not.

    `host_fn` is a @cute.jit function, or an object whose class has a @cute.jit `__call__`. `args` are torch tensors,
    numpy arrays (simulator only), None for absent tensors, and scalars, in order; a `stream` parameter is left out. The
    kernel is compiled for exactly these shapes, strides and alignments, once for each combination, and runs on torch's current
    stream. With `dynamic` it is compiled once for all sizes and strides, which it then knows only as it runs, as CuTe DSL
    compiles for a torch tensor that is passed to it directly.
    """
    tensors = [arg for arg in args if _is_array(arg)]
    on_gpu = [bool(getattr(tensor, "is_cuda", False)) for tensor in tensors]
    if not tensors:
        _refuse(f"launch({_name(host_fn)}): no argument is a torch tensor or a numpy array", TypeError)
    if not any(on_gpu):
        from cutesim.context import NotSimulated, SimulationError, without_frames
        from cutesim.simulation import simulate

        try:
            simulate(host_fn, *args, check=False, dynamic=True if dynamic else ())
        except (SimulationError, NotSimulated) as error:
            raise without_frames(error) from None
        return
    devices = {str(getattr(tensor, "device", "numpy")) for tensor in tensors}
    if len(devices) > 1:
        _refuse(
            f"launch({_name(host_fn)}): all tensors must be on one device, got {', '.join(sorted(devices))}; "
            "move them with .to(device)",
            ValueError,
        )
    import torch

    specs = args
    if dynamic:
        specs = tuple(dynamic_spec_of(arg, f"t{k}") if _is_array(arg) else arg for k, arg in enumerate(args))
    with torch.cuda.device(tensors[0].device):
        try:
            compiled = compile_for(host_fn, *specs)
        except NeedsNewerGPU as error:
            print(f"{error}. It runs on the simulator.")
            copies = [arg.cpu() if _is_array(arg) else arg for arg in args]
            launch(host_fn, *copies, dynamic=dynamic)
            for tensor, copy in zip(args, copies):
                if _is_array(tensor):
                    tensor.copy_(copy)
            return
        compiled(*args)


class NeedsNewerGPU(RuntimeError):
    """A kernel has instructions that the GPU lacks; the sentence says which."""


_compiled = {}
COMPILING = threading.RLock()  # CuTe DSL compiles for one thread at a time


def _made_from(host_fn, args):
    """The arguments as specs, and what tells the kernel that is compiled for them from any other."""
    args = tuple(spec_of(arg) if _is_array(arg) else arg for arg in args)
    return args, (_fingerprint(host_fn), _signature_key(host_fn, args))


def compile_for(host_fn, *args):
    """Compile `host_fn` for this GPU and return a callable on CUDA tensors and scalars, in the order of `args`.

    `args` are CUDA tensors (compiled for exactly their shapes, see `spec_of`), `TensorSpec`s, None for absent tensors, and
    scalars: a Python number where the parameter is a number at run time (the value given here does not matter then). The
    callable takes all of them by position. The result is cached; a host function, helper, global constant or object
    attribute that changed is compiled anew.
    """
    args, key = _made_from(host_fn, args)
    if key not in _compiled:
        _refuse(gpu_problem())
        import torch

        with COMPILING:
            if key not in _compiled:
                arch = arch_of(torch.cuda.get_device_capability())
                # The DSL finds Hopper out by itself.
                compiled = _load_or_compile(host_fn, args, key, None if arch == HOPPER_ARCH else arch)
                _compiled[key] = _callable(host_fn, compiled)
    return _compiled[key]


def _load_or_compile(host_fn, args, key, arch=None):
    """The compiled host function: from disk if it was kept there, else compiled, and kept for the next process.

    A loaded function is quicker to call (it takes arguments by position only, which saves a Python function), and so
    a fresh one is loaded from its file as well.
    """
    name = _kept_name(*key, arch or HOPPER_ARCH) if kernel_cache.folder() else None
    if name is None or dsl_problem():
        return _compile(host_fn, args, arch)
    kept = kernel_cache.find(name)
    loaded = kept and _load(kept, name)
    if loaded:
        return loaded
    compiled = _compile(host_fn, args, arch)
    kept = kernel_cache.keep(name, lambda path: compiled.export_to_c(path, function_name=_symbol(name)))
    return kept and _load(kept, name) or compiled


def _kept_name(fingerprint, signature, arch):
    """The name under which a kernel is kept on disk, or None if it is made from something without a lasting name."""
    specs = tuple(astuple(item) if isinstance(item, TensorSpec) else item for item in signature)
    return kernel_cache.key(fingerprint, specs, arch, _environment())


_modules = []  # a loaded function's code is its module's


def _load(path, name):
    """The function of a kept file; None, and the file removed, if it cannot be loaded."""
    from cutlass.cute.runtime import load_module

    try:
        module = load_module(str(path), enable_tvm_ffi=True)
        function = getattr(module, _symbol(name))
    except Exception as error:  # whatever it is, compiling again is the answer
        warnings.warn(f"{path} cannot be loaded and is removed: {error}", stacklevel=2)
        kernel_cache.discard(path)
        return None
    _modules.append(module)
    return function


def _symbol(name):
    return f"kernel_{name}"


@cache
def _environment():
    """What a compiled kernel depends on beside its source: versions, the DSL's options, the processor of the host code."""
    packages = ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-cu12", "nvidia-cutlass-dsl-libs-cu13", "apache-tvm-ffi")
    options = sorted(item for item in os.environ.items() if item[0].startswith("CUTE_DSL_") and item[0] != DUMP_FOLDER)
    return sys.version, *map(installed_version, packages), options, platform.machine(), _processor()


def installed_version(distribution):
    """Version of an installed distribution, or None; nothing is imported."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _processor():
    """What this machine's processor can do, on Linux: home folders are shared between machines that differ in it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()


def _callable(host_fn, compiled):
    """`compiled` itself where it can be called as it is, which costs least."""
    adapted = _Callable(host_fn, compiled)
    return compiled if adapted.has_stream and adapted.all_positional else adapted


class _Callable:
    """A compiled host function that drops compile-time arguments and launches in the order of torch's current stream."""

    def __init__(self, host_fn, compiled):
        self.compiled = compiled
        parameters = parameters_of(host_fn)
        self.has_stream = any(parameter.name == "stream" for parameter in parameters)
        arguments = [parameter for parameter in parameters if parameter.name != "stream"]
        self.positions = tuple(i for i, parameter in enumerate(arguments) if not _is_constexpr(parameter))
        self.all_positional = len(self.positions) == len(arguments)

    def __call__(self, *args):
        if not self.all_positional:
            args = tuple(args[i] for i in self.positions)
        if self.has_stream:
            # Compiled with the environment's stream: tvm-ffi asks torch for its current stream.
            self.compiled(*args)
            return
        # Without a stream parameter the launch goes to CUDA's default stream; torch's may be another one.
        import torch

        current, default = torch.cuda.current_stream(), torch.cuda.default_stream()
        if current == default:
            self.compiled(*args)
            return
        default.wait_stream(current)
        self.compiled(*args)
        current.wait_stream(default)


def ptx(host_fn, *args, arch: str = HOPPER_ARCH) -> str:
    """The PTX of `host_fn` compiled for `arch`; `args` as for `compile_for`. No GPU is needed. It is kept where kernels are."""
    args, key = _made_from(host_fn, args)
    name = _kept_name(*key, arch) if kernel_cache.folder() else None
    kept = name and kernel_cache.find(name, PTX_SUFFIX)
    if kept:
        return kept.read_text(encoding="utf-8")
    text = _compile(host_fn, args, arch, keep_ptx=True).__ptx__
    if name:
        kernel_cache.keep(name, lambda path: Path(path).write_text(text, encoding="utf-8"), PTX_SUFFIX)
    return text


def ptx_with_lines(host_fn, *args, keep: Path | None = None) -> str:
    """The PTX with the lines of the source, which changes no instruction; `args` as for `compile_for`.

    `keep` names a file for the function compiled for this machine's GPU, which `load_kept` loads and which takes `run_time_args`.
    Without it the PTX is Hopper's, and no GPU is needed.
    """
    args, _ = _made_from(host_fn, args)
    compiled = _compile(host_fn, args, None if keep else HOPPER_ARCH, keep_ptx=True, with_lines=True)
    if keep:
        compiled.export_to_c(str(keep), function_name=LOADED)
    return compiled.__ptx__


def load_kept(file: Path):
    """The function that `ptx_with_lines` has kept in a file."""
    from cutlass.cute.runtime import load_module

    _modules.append(load_module(str(file), enable_tvm_ffi=True))
    return getattr(_modules[-1], LOADED)


def run_time_args(host_fn, args) -> tuple:
    """Of the arguments in their order those that a compiled function takes."""
    parameters = [parameter for parameter in parameters_of(host_fn) if parameter.name != "stream"]
    return tuple(arg for arg, parameter in zip(args, parameters) if not _is_constexpr(parameter))


def ptx_hash(text: str) -> str:
    """The sha256 of a kernel's PTX without comments, line information and generated names.

    Two compilations of the same kernel agree; a changed instruction, register count or parameter does not.
    """
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    entries = re.findall(r"\.entry\s+([\w$]+)", text)
    for number, name in enumerate(entries):
        text = text.replace(name, f"kernel_{number}")
    lines = (line.split("//")[0].strip() for line in text.split(".section", 1)[0].splitlines())
    kept = [" ".join(line.split()) for line in lines if line and not line.startswith((".loc", ".file"))]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def dsl_problem() -> str | None:
    """One sentence on why kernels cannot be compiled here, or None: the CuTe DSL is missing or of another version."""
    try:
        import cutlass
    except ImportError as error:
        return (
            f"CuTe DSL is not installed ({error}): pip install nvidia-cutlass-dsl=={DSL_VERSION}, "
            "or pass CPU tensors, which run on the simulator."
        )
    if cutlass.__version__ != DSL_VERSION:
        return (
            f"CuTe DSL {cutlass.__version__} is installed and these kernels are written for {DSL_VERSION}: "
            f"pip install nvidia-cutlass-dsl=={DSL_VERSION}."
        )
    return None


def take_any_release() -> str:
    """Compile with the release of CuTe DSL that is installed, whichever it is, and return its name: to compare releases."""
    import cutlass

    globals().update(DSL_VERSION=cutlass.__version__)
    if not hasattr(cutlass, "memory"):  # its name since 4.8
        cutlass.memory = cutlass.utils
    return cutlass.__version__


def arch_of(capability) -> str:
    """What kernels are compiled for on a GPU of that compute capability: (8, 9) -> "sm_89", (9, 0) -> "sm_90a"."""
    plain = f"sm_{capability[0]}{capability[1]}"
    return plain if capability < CLUSTERS else f"{plain}a"


def gpu_problem(least=OLDEST) -> str | None:
    """One sentence on why compiled kernels cannot run on a GPU (torch's current one), or None: there is none, or one of
    less than the compute capability `least`."""
    try:
        import torch
    except ModuleNotFoundError:
        return "torch is not installed, which hands tensors to compiled kernels: pip install 'torch>=2.11'."

    if not torch.cuda.is_available():
        return "torch sees no CUDA GPU: pass CPU tensors, which run on the simulator."
    capability = torch.cuda.get_device_capability()
    if capability < least:
        name = torch.cuda.get_device_name()
        return (
            f"These kernels need a GPU of compute capability {least[0]}.{least[1]} or newer; this is a {name} "
            f"({capability[0]}.{capability[1]}): pass CPU tensors, which run on the simulator."
        )
    return None


def _refuse(problem, error=RuntimeError):
    """Raise an error with the sentence, if there is one; a notebook shows it without a traceback."""
    if problem:
        from cutesim.context import without_frames

        raise without_frames(error(problem))


_MISSING = object()


def _compile(host_fn, args, arch=None, keep_ptx=False, with_lines=False):
    """Compile with fake tensors; the result can run if `arch` is left out, and has its PTX as `__ptx__` if asked to."""
    _refuse(dsl_problem())
    with COMPILING:
        return _compile_alone(host_fn, args, arch, keep_ptx, with_lines)


def _compile_alone(host_fn, args, arch, keep_ptx, with_lines):
    """`_compile` while no other thread does."""
    import cutlass
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

    symbols = {}  # sizes have 32 bits; strides 64, for a row's number times its stride may pass 2^31

    def size(value):
        if isinstance(value, str):
            return symbols.setdefault(value, cute.sym_int(symbol=value))
        return value

    def fake(spec):
        dtype = getattr(cutlass, DTYPES[spec.dtype])
        divisibility = max(1, spec.align * 8 // dtype.width)

        def step(value):
            if isinstance(value, str):
                return symbols.setdefault((value, divisibility), cute.sym_int64(divisibility, symbol=value))
            return value

        shape, stride = tuple(map(size, spec.shape)), tuple(map(step, spec.stride))
        return make_fake_tensor(dtype, shape, stride, assumed_align=spec.align)

    given = iter(args)
    call = []
    for parameter in parameters_of(host_fn):
        if parameter.name == "stream":
            call.append(make_fake_stream(use_tvm_ffi_env_stream=True))
            continue
        arg = next(given, _MISSING)
        if arg is _MISSING:
            if parameter.default is inspect.Parameter.empty:
                raise TypeError(f"{_name(host_fn)}: argument {parameter.name!r} is missing")
            break
        call.append(fake(arg) if isinstance(arg, TensorSpec) else arg)
    if next(given, _MISSING) is not _MISSING:
        expected = sum(parameter.name != "stream" for parameter in parameters_of(host_fn))
        raise TypeError(f"{_name(host_fn)} takes {expected} arguments, got {len(args)}")
    # TVM FFI is the call by which compiled code takes torch's tensors, and torch's current stream.
    options = [cute.EnableTVMFFI(True)] + ([cute.GPUArch(arch)] if arch else [])
    options += [cute.GenerateLineInfo(True)] if with_lines else []
    if not keep_ptx:
        return _compiled_by_the_dsl(cute.compile[tuple(options)], host_fn, call, arch)
    keep = cute.KeepPTX(True)
    # The DSL hands PTX over through a file, in the current folder unless DUMP_FOLDER named one before it was imported. It is
    # named after the kernel, so that processes which compile the same one at once would read each other's half.
    folder = os.environ.get(DUMP_FOLDER) or os.getcwd()
    if not os.access(folder, os.W_OK):  # the DSL would give the file's name for its text
        said = f"CuTe DSL hands PTX over through a file, and the folder {folder} cannot be written: start Python in another one, or"
        _refuse(f"{said} set {DUMP_FOLDER} to one before it starts.", PermissionError)
    with _alone():
        compiled = _compiled_by_the_dsl(cute.compile[(keep, *options)], host_fn, call, arch)
        for written in Path(keep.dump_path).parent.glob(Path(keep.dump_path).name + ".*.ptx"):
            written.unlink(missing_ok=True)
    if os.environ.get(DUMP_FOLDER) and Path(keep.dump_path).parent.resolve() != Path(folder).resolve():
        _refuse(f"{DUMP_FOLDER} was set after CuTe DSL was imported, so PTX could be another process's: set it before.")
    return compiled


def _compiled_by_the_dsl(compiles, host_fn, call, arch):
    """Compile; an error that Python raises in a line of the kernel itself is told with that line, and without the DSL's frames."""
    try:
        return compiles(host_fn, *call)
    except Exception as error:
        from cutesim.language import blame

        if arch and arch.startswith("sm_8") and REFUSED.search(str(error)):
            raise NeedsNewerGPU(
                f"{_name(host_fn)} has float8, which needs compute capability 8.9, or clusters, transactions of an mbarrier, bulk "
                f"copies or atomics on vectors, which need compute capability 9.0 or newer, and is compiled for {arch}"
            ) from None
        told = blame.of_the_compiler(error)
        if told is None:
            raise
        raise told from None


@contextmanager
def _alone():
    """Of this user's processes that hand PTX over in one folder, only one is in here at a time."""
    import fcntl  # where the DSL exists, on Linux, this does too

    folder = os.environ.get(DUMP_FOLDER) or tempfile.gettempdir()
    with open(Path(folder, f"quack-tutorial-ptx-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def parameters_of(host_fn):
    """The parameters of a function, or of the `__call__` of an object without self."""
    if inspect.isroutine(host_fn):
        return _function_parameters(host_fn)
    return _function_parameters(type(host_fn).__call__)[1:]


@cache
def _function_parameters(function):
    return tuple(inspect.signature(function).parameters.values())


def _is_constexpr(parameter):
    return "Constexpr" in str(parameter.annotation)


def _is_array(arg):
    return hasattr(arg, "data_ptr") or type(arg).__name__ == "ndarray"


def _dtype_name(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise TypeError(f"tensors of {tensor.dtype} are not supported here: use one of {', '.join(DTYPES)}")
    return name


def _name(host_fn):
    return getattr(host_fn, "__name__", type(host_fn).__name__)


def _signature_key(host_fn, args):
    """The tensors' specs, compile-time values, and the types of run-time scalars."""
    parameters = [p for p in parameters_of(host_fn) if p.name != "stream"]
    fixed = [_is_constexpr(parameter) for parameter in parameters]
    return tuple(
        arg if isinstance(arg, TensorSpec) else (type(arg), _fingerprint(arg) if i < len(fixed) and fixed[i] else None)
        for i, arg in enumerate(args)
    )


def _fingerprint(value, seen=None):
    """A hashable that changes when anything the kernel is traced from changes: code, helpers, constants, attributes.

    In a notebook a reader edits a helper or a constant in another cell and launches again; the host function is the
    same object as before, and a cache by identity would run the old kernel.
    """
    seen = set() if seen is None else seen
    if isinstance(value, (types.MethodType, staticmethod, classmethod)):
        return _fingerprint(value.__func__, seen), _fingerprint(getattr(value, "__self__", None), seen)
    if isinstance(value, property):
        return _fingerprint(value.fget, seen)
    while hasattr(value, "__wrapped__"):  # the DSL's decorators keep there the function as written
        value = value.__wrapped__
    if isinstance(value, types.ModuleType):
        return value.__name__ if value.__name__.split(".")[0] in FOREIGN else value
    home = (getattr(value, "__module__", None) or "").split(".")[0]
    if home in sys.stdlib_module_names and isinstance(value, (type, *FUNCTIONS)):
        return value
    if home in FOREIGN:
        # Fixed while the program runs, but which one it is matters: Float32 or BFloat16, ADD or MAX, fmin or fmax.
        return value if isinstance(value, Hashable) else _Unknown(type(value), repr(value))
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_fingerprint(item, seen) for item in value)
    if isinstance(value, dict):
        return dict, tuple((_fingerprint(k, seen), _fingerprint(v, seen)) for k, v in value.items())
    if value is None or isinstance(value, (*PLAIN, enum.Enum)):
        return type(value), value
    if id(value) in seen:
        return ()
    seen.add(id(value))
    if isinstance(value, types.FunctionType):
        # Compiling a function gives it new code; the DSL keeps the code as written.
        code = getattr(value, "_original_code", value.__code__)
        referred = [cell.cell_contents for cell in value.__closure__ or ()]
        referred += [value.__globals__[name] for name in global_names(code) if name in value.__globals__]
        return code, _fingerprint(value.__defaults__, seen), tuple(_fingerprint(item, seen) for item in referred)
    if isinstance(value, type):
        bases = [base for base in value.__bases__ if base is not object]
        own = [item for name, item in vars(value).items() if _is_code(item) or not name.startswith("__")]
        return value, tuple(_fingerprint(item, seen) for item in (*bases, *own) if _is_code(item) or _is_plain(item))
    if hasattr(value, "__dict__"):
        return _fingerprint(type(value), seen), tuple((k, _fingerprint(v, seen)) for k, v in vars(value).items())
    return value if isinstance(value, FUNCTIONS) else _Unknown(type(value), repr(value))


@dataclass(frozen=True)
class _Unknown:
    """Stands for an object of which no more is known than how it prints: enough to tell two in this process apart."""

    kind: type
    text: str


def _is_code(item):
    return callable(item) or isinstance(item, (staticmethod, classmethod, property))


def _is_plain(item):
    return item is None or isinstance(item, PLAIN) or isinstance(item, tuple) and all(map(_is_plain, item))


FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
PLAIN = (bool, int, float, complex, str, bytes)
# What comes from there does not change while the program runs.
FOREIGN = ("cutlass", "cuda", "torch", "numpy")


@cache
def global_names(code):
    """The names that a code object, with the functions written inside it, looks up outside itself; in a fixed order."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(global_names(constant))
    return sorted(names)
