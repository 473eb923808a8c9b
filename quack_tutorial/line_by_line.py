"""`lines`: a reader's own kernel line by line: its lanes, its bytes, its PTX and machine code, and where its warps wait.

The lanes and bytes come from a run on the simulator, PTX from CuTe DSL, machine code from ptxas and nvdisasm, and the rest from
Nsight Compute on this machine's GPU. What is not to be had is left out, and the figure's last line says why.
"""

from __future__ import annotations

import inspect
import tempfile
import traceback
from pathlib import Path

import numpy as np

from cutesim.context import is_own
from quack_tutorial import compiler, machine, machine_code
from quack_tutorial.above import brought
from quack_tutorial.records.lines import Launch, compiled


def lines(kernel, *args):
    """The figure of a kernel's source in which each line opens to what became of it, for exactly these arguments.

    `kernel` is a @cute.jit function, or an object whose class has a @cute.jit `__call__`, and launches one kernel; `args` are torch
    tensors or numpy arrays, and scalars, as `quack_tutorial.launch` takes them. All runs work on copies. RuntimeError where neither
    the simulator nor CuTe DSL can say anything of it.
    """
    from quack_tutorial.figures.code import methods
    from quack_tutorial.figures.line_view import drawn

    lacks: list[str] = []
    trace = _trace(kernel, args, lacks)
    launch = _compiled(kernel, args, lacks) or (trace and Launch("", 0, 0, 0, 0, ()))
    if launch is None:
        raise RuntimeError(" ".join(f"{lack.rstrip('.')}." for lack in lacks))
    name, function = _kernel_function(kernel, trace, launch)
    codes = [next(iter(methods(function).values())) if function else []]
    if trace is not None:
        at = trace.launches[0]
        launch = Launch(launch.kernel, launch.us, launch.registers, at.threads, at.blocks, launch.lines)
    label = getattr(kernel, "__name__", type(kernel).__name__)
    sizes = ", ".join(_words(arg) for arg in args)
    return drawn({label: launch}, codes, f"{label}({sizes})", _origin(launch, lacks), trace, name, whole=True)


def _trace(kernel, args, lacks):
    """The trace of a simulated run on copies, or None and why."""
    from cutesim.context import NotSimulated, SimulationError
    from cutesim.simulation import simulate

    copies = [arg.cpu().clone() if hasattr(arg, "data_ptr") else arg.copy() if _is_array(arg) else arg for arg in args]
    try:
        run = simulate(kernel, *copies)
    except (NotSimulated, SimulationError) as error:
        lacks.append(f"Lanes and bytes are left out: {error}")
        return None
    lacks += [f"The simulator finds a fault: {finding}" for finding in run.findings[:1]]
    return run.trace


def _compiled(kernel, args, lacks) -> Launch | None:
    """What the compiler makes of the kernel, with counters where this machine has them; None and why."""
    if problem := compiler.dsl_problem():
        lacks.append(f"PTX, machine code and waiting are left out: {problem}")
        return None
    specs = [_spec(arg) if _is_array(arg) else arg for arg in args]
    found = machine.detect()
    problem = found.reason
    try:
        if found.device == "cuda":
            try:
                return _counted(kernel, args, specs)
            except NotCounted as error:
                problem = error
        launch = _assembled(_ptx(kernel, specs), lacks)
    except NotCompiled as error:
        lacks.append(str(error))
        return None
    lacks.append(f"Where warps wait is left out: {problem}")
    return launch


def _assembled(ptx: str, lacks) -> Launch:
    """The lines of a kernel with their PTX and machine code; nothing counted."""
    found: dict = {}  # of each place: PTX, instructions, registers that are live at them
    for text, place in machine_code.located(ptx):
        if place:
            found.setdefault(place, ([], [], []))[0].append(text)
    code = machine_code.assembled(ptx)
    if problem := machine_code.missing():
        lacks.append(f"Machine code is left out: {problem}")
    for n, (text, place, live) in enumerate(zip(code.sass, code.places, code.live) if code else ()):
        if place:
            _, sass, registers = found.setdefault(place, ([], [], []))
            sass.append((n, text))
            registers.append(live)
    lines = {(Path(place[0]).name, *machine_code.source_line(*place)): made for place, made in found.items()}
    return compiled(machine_code.entry(ptx), code.registers if code else 0, lines)


class NotCompiled(RuntimeError):
    """CuTe DSL refuses a kernel."""


def _ptx(kernel, specs, keep=None) -> str:
    try:
        return compiler.ptx_with_lines(kernel, *specs, keep=keep)
    except Exception as error:  # whatever it is, the kernel's author has to know it
        # Of an error that Python raised in a line of the kernel.
        said = getattr(error, "said", None)
        if said is None:
            place = next((f"{Path(entry.filename).name}:{entry.lineno}: " for entry in _own_entries(error)), "")
            said = f"{place}{type(error).__name__}: {error}"
        raise NotCompiled(f"CuTe DSL refuses the kernel: {said}") from None


def _own_entries(error):
    """The entries of a traceback that are in neither this package nor an installed one, innermost first."""
    entries = reversed(traceback.extract_tb(error.__traceback__))
    return (entry for entry in entries if "site-packages" not in entry.filename and not is_own(entry.filename))


class NotCounted(RuntimeError):
    """Why a GPU's counters cannot be had."""


def _counted(kernel, args, specs) -> Launch:
    """The launch as Nsight Compute counts it in a process that loads the compiled kernel."""
    import torch

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ptx = _ptx(kernel, specs, folder / "kernel.o")
        tensors = [torch.as_tensor(arg).cpu() if _is_array(arg) else arg for arg in args]
        torch.save(compiler.run_time_args(kernel, tensors), folder / "args.pt")
        (count,) = brought("counters")
        try:
            return count(folder, ptx)
        except RuntimeError as error:
            raise NotCounted(str(error)) from None


def _kernel_function(kernel, trace, launch):
    """(name, function or None) of the kernel that was launched."""
    if inspect.isroutine(kernel):
        host = inspect.unwrap(kernel)
        near = {name: host.__globals__.get(name) for name in host.__code__.co_names}
    else:
        near = {name: getattr(type(kernel), name) for name in dir(type(kernel)) if not name.startswith("__")}
    if trace is not None:
        name = trace.launches[0].kernel.rpartition(".")[2]
    else:
        names = [name for name in near if f"kernel_cutlass_{name}_" in launch.kernel]
        name = max(names, key=len, default="kernel")
    return name, near.get(name)


def _origin(launch: Launch, lacks) -> str:
    if launch.samples:
        import torch

        made = [f"Compiled and sampled on this machine's {torch.cuda.get_device_name()}."]
    else:
        made = [f"Compiled for {compiler.HOPPER_ARCH}."] if launch.lines else []
    return " ".join([*made, *(f"{lack.rstrip('.')}." for lack in lacks)])


def _spec(array) -> compiler.TensorSpec:
    if hasattr(array, "data_ptr"):
        return compiler.spec_of(array)
    steps = tuple(step // array.itemsize for step in array.strides)
    return compiler.TensorSpec(str(array.dtype), array.shape, steps)


def _is_array(arg) -> bool:
    return hasattr(arg, "data_ptr") or isinstance(arg, np.ndarray)


def _words(arg) -> str:
    if not _is_array(arg):
        return str(arg)
    return f"{str(arg.dtype).removeprefix('torch.')} {' x '.join(map(str, arg.shape))}"
