"""Which machine is this: where do kernels run, why, and what would have to change for a GPU to run them.

`detect` looks, `judge` decides, `start` says it in one sentence, and `quack-tutorial doctor` says it at length and ends with
one line: what works, and what to type next. Looking imports neither torch nor CuTe DSL and creates no CUDA context: the driver is
asked through NVML, versions are read from what is installed.
"""

import ctypes
import json
import os
import platform
import re
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from quack_tutorial.compiler import DSL_VERSION, installed_version
from quack_tutorial.hardware import CLUSTERS, OLDEST

INSTALL_TORCH = "pip install 'torch>=2.11'"
INSTALL_DSL = f"{INSTALL_TORCH} nvidia-cutlass-dsl=={DSL_VERSION}"
INSTALL_TVM_FFI = "pip install apache-tvm-ffi"
# The oldest driver for programs built with a major version of CUDA, whatever the minor one:
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
DRIVERS = {12: (525,), 13: (580,)}
# ... and for each flavour of CuTe DSL 4.8: https://docs.nvidia.com/cutlass/4.8.1/media/docs/pythonDSL/quick_start.html
DSL_DRIVERS = {12: (575, 51, 3), 13: (580,)}
IN_LAB = "QUACK_TUTORIAL_LAB"  # in the environment of a JupyterLab that `quack-tutorial lab` started: its first page


@dataclass(frozen=True)
class Problem:
    """One thing that keeps kernels off the GPU: what it is, where it was seen, what to do about it."""

    what: str
    where: str
    remedy: str
    command: str = ""  # to type next, where one command is the remedy

    def __str__(self):
        return f"{self.what} ({self.where}): {self.remedy}"


@dataclass(frozen=True)
class Machine:
    """What was found, and what follows from it. `device` is "cuda" (real DSL, real GPU) or "cpu" (simulator)."""

    device: str
    reason: str
    problems: tuple[Problem, ...]
    platform: str
    python: str
    numpy: str | None
    gpu: str | None
    compute_capability: tuple[int, int] | None
    driver: str | None
    torch: str | None
    torch_cuda: str | None
    dsl: str | None
    flavours: tuple[int, ...] = ()  # CUDA 12, 13: whose libraries of CuTe DSL are installed
    tvm_ffi: str | None = None
    jupyterlab: str | None = None
    # The Python that a notebook's "Python 3" would run, where it is another one.
    kernel: str | None = None
    notes: tuple[Problem, ...] = ()  # what is missing without keeping kernels off the GPU


def detect():
    """Look at this machine and say where kernels run on it; returns a `Machine`."""
    return judge(
        system=platform.system(),
        architecture=platform.machine(),
        python=platform.python_version(),
        numpy=installed_version("numpy"),
        dsl=installed_version("nvidia-cutlass-dsl"),
        flavours=tuple(cuda for cuda in DSL_DRIVERS if installed_version(f"nvidia-cutlass-dsl-libs-cu{cuda}")),
        tvm_ffi=installed_version("apache-tvm-ffi"),
        jupyterlab=installed_version("jupyterlab"),
        kernel=other_kernel(),
        **find_gpu(),
        **find_torch(),
    )


def start():
    """Print where kernels run on this machine, in one sentence, and return the `Machine`.

    In a notebook without CuTe DSL, the notebook's own `import cutlass` is answered by the simulator from here on.
    """
    from cutesim import context

    context.ADVICE.update(
        call="run it with quack_tutorial.launch(...) or quack_tutorial.simulate(...), or the whole file with "
        "`quack-tutorial simulate FILE.py`",
        device="use quack_tutorial.launch, or tensor.cpu()",
    )
    machine = detect()
    print(machine.reason)
    if machine.torch is None and sys.platform != "emscripten":
        print(
            f"torch is not installed in this environment ({sys.prefix}), and most cells need it: {typed(INSTALL_TORCH)}"
        )
    notebook = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if notebook is not None and machine.dsl is None:
        from cutesim.language.loading import answer_imports

        answer_imports(notebook.user_ns)
    return machine


# Looking -------------------------------------------------------------------------------------------------------------


def find_torch():
    """Version of torch and of the CUDA that it was built with, read from its version.py instead of importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return {"torch": None, "torch_cuda": None}
    version_file = Path(spec.origin).with_name("version.py")
    text = version_file.read_text(encoding="utf-8") if version_file.exists() else ""
    version = re.search(r"^__version__\b.*=\s*'([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b.*=\s*'([^']+)'", text, re.MULTILINE)
    return {
        "torch": version.group(1) if version else installed_version("torch"),
        "torch_cuda": cuda.group(1) if cuda else None,
    }


def find_gpu():
    """Name and compute capability of the best visible GPU, the driver's version, and what is wrong with the driver.

    Asks NVML, which needs no CUDA context: a process that has made one can no longer fork workers that use the GPU.
    """
    nothing = {"gpu": None, "compute_capability": None, "driver": None, "driver_trouble": None, "hidden": False}
    nvml = load_nvml()
    if nvml is None:
        seen = nvidia_device_on_bus()
        trouble = "an NVIDIA GPU is on the PCI bus, but its driver is not installed" if seen else None
        return nothing | {"driver_trouble": trouble}
    status = nvml.nvmlInit_v2()
    if status != 0:
        return nothing | {"driver_trouble": f"NVIDIA's driver does not answer (NVML status {status})"}
    try:
        gpus = list_gpus(nvml)
        found = nothing | {"driver": nvml_text(nvml.nvmlSystemGetDriverVersion)}
    finally:
        nvml.nvmlShutdown()
    visible = [gpu for index, gpu in enumerate(gpus) if is_visible(index, os.environ.get("CUDA_VISIBLE_DEVICES"))]
    if not visible:
        return found | {"hidden": bool(gpus)}
    name, capability = max(visible, key=lambda gpu: gpu[1])
    return found | {"gpu": name, "compute_capability": capability}


def load_nvml():
    """NVIDIA's management library, which comes with the driver, or None."""
    if sys.platform == "emscripten":  # where any library can be opened, and none is there
        return None
    try:
        return ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return None


def nvml_text(function, *handle):
    """What an NVML function that fills a text buffer answers, or None."""
    buffer = ctypes.create_string_buffer(96)
    return buffer.value.decode() if function(*handle, buffer, ctypes.c_uint(96)) == 0 else None


def list_gpus(nvml):
    """(name, compute capability) of every GPU that NVML lists."""
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    gpus = []
    for index in range(count.value):
        handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
        nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        gpus.append((nvml_text(nvml.nvmlDeviceGetName, handle) or "NVIDIA GPU", (major.value, minor.value)))
    return gpus


def gpu_numbers(name):
    """SMs, memory's bandwidth and size of the GPU of that name, by the driver; None where it does not say all of them."""
    nvml = load_nvml()
    if nvml is None or nvml.nvmlInit_v2() != 0:
        return None
    try:
        for index, (listed, capability) in enumerate(list_gpus(nvml)):
            if listed == name:
                handle, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
                lanes, bus_bits, mhz = (ctypes.c_uint() for _ in range(3))
                nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
                asked = (
                    nvml.nvmlDeviceGetNumGpuCores(handle, ctypes.byref(lanes)),
                    nvml.nvmlDeviceGetMemoryBusWidth(handle, ctypes.byref(bus_bits)),
                    # 2 is NVML_CLOCK_MEM.
                    nvml.nvmlDeviceGetMaxClockInfo(handle, ctypes.c_int(2), ctypes.byref(mhz)),
                    nvml.nvmlDeviceGetMemoryInfo(handle, memory),
                )
                if any(asked):
                    return None
                gb_s = round(2 * mhz.value * bus_bits.value / 8e3)  # two bits a clock and wire
                return {
                    "sms": lanes.value // (64 if capability == (8, 0) else 128),
                    "bandwidth_gb_s": gb_s,
                    "memory_gb": round(memory[0] / 1e9),
                }
    except AttributeError:  # a driver older than one of these questions
        return None
    finally:
        nvml.nvmlShutdown()
    return None


def is_visible(index, visible_devices):
    """Whether CUDA_VISIBLE_DEVICES (None: unset) lets a program see GPU `index`; names instead of numbers let all."""
    if visible_devices is None:
        return True
    listed = []
    for word in visible_devices.split(","):
        if re.fullmatch(r"\s*(GPU|MIG)-.*", word):
            return True
        # CUDA stops reading at the first entry that is not an index.
        if not re.fullmatch(r"\s*\d+\s*", word):
            break
        listed.append(int(word))
    return index in listed


def nvidia_device_on_bus(devices=Path("/sys/bus/pci/devices")):
    """Whether the PCI bus lists a display controller (class 0x03) of NVIDIA's (vendor 0x10de); Linux only."""
    for device in devices.glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text(), (device / "class").read_text()
        except OSError:
            continue
        if vendor.strip() == "0x10de" and kind.startswith("0x03"):
            return True
    return False


def other_kernel(folders=None):
    """The Python of the first kernel named python3 that is none of this environment's, as a JupyterLab elsewhere would find it."""
    if folders is None:
        home = os.environ.get("JUPYTER_DATA_DIR") or Path.home() / ".local/share/jupyter"
        folders = [*filter(None, os.environ.get("JUPYTER_PATH", "").split(os.pathsep)), home]
    for folder in folders:
        try:
            python = json.loads(Path(folder, "kernels/python3/kernel.json").read_text(encoding="utf-8"))["argv"][0]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if os.path.isabs(python) and not Path(python).is_relative_to(sys.prefix):
            return python
    return None


def reason(error):
    """Why something failed, as a sentence can hold it: of an OSError what the system says, without its number and the file."""
    return getattr(error, "strerror", None) or str(error)


def pip_command():
    """How pip is typed so that it installs into this environment, whether or not it is activated."""
    active = sys.prefix in (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"))
    return "pip" if active else f"{shlex.quote(sys.executable)} -m pip"


def typed(command):
    """A command as it is typed here: with this environment's pip."""
    return command.replace("pip", pip_command(), 1) if command.startswith("pip ") else command


# Deciding ------------------------------------------------------------------------------------------------------------


def judge(*, system, architecture, driver_trouble, hidden, **found):
    """Say where kernels run, given what was found (the fields of `Machine`); returns a `Machine`. Looks at nothing itself."""
    machine = Machine(device="cuda", reason="", problems=(), platform=f"{system} {architecture}", **found)
    problems = tuple(find_problems(machine, system, driver_trouble, hidden))
    if problems:
        reason = f"Kernels run on the simulator: {problems[0].what}."
    else:
        gpu = f"{machine.gpu} (compute capability {capability(machine)})"
        reason = f"Kernels run on this machine's {gpu} through CuTe DSL {machine.dsl}."
        if machine.compute_capability < CLUSTERS:
            reason += (
                " Those with clusters, transactions of an mbarrier or bulk copies need 9.0, and run on the simulator."
            )
    notes = tuple(find_notes(machine, system))
    return replace(machine, device="cpu" if problems else "cuda", reason=reason, problems=problems, notes=notes)


def find_problems(machine, system, driver_trouble, hidden):
    """Yield a `Problem` for each thing between this machine and kernels on its GPU, the one to mend first first."""
    problem = no_gpu(machine, system, driver_trouble, hidden)
    if problem:
        yield problem
        return
    gpu, torch, dsl, built = machine.gpu, machine.torch, machine.dsl, cuda_major(machine)
    if torch is None:
        yield package(f"torch is not installed, so the {gpu} cannot be used", INSTALL_DSL)
    elif machine.torch_cuda is None:
        yield package(
            f"torch {torch} was built without CUDA, so the {gpu} cannot be used",
            "pip uninstall -y torch",
            "install a build of torch with CUDA: pip uninstall torch, then pip install 'torch>=2.11'.",
        )
    elif built in DRIVERS and version(machine.driver) < DRIVERS[built]:
        yield Problem(
            f"torch {torch} was built with CUDA {machine.torch_cuda}, which needs driver {told(DRIVERS[built])} or newer, and this "
            f"is {machine.driver}",
            "driver",
            "install a newer driver (on a rented machine: take an image with one), or a build of torch for an older CUDA: "
            "https://pytorch.org/get-started/previous-versions lists them.",
            "nvidia-smi",
        )
    if dsl is None:
        what = f"CuTe DSL (nvidia-cutlass-dsl) is not installed, so the {gpu} cannot be used"
        yield package(what, INSTALL_DSL, f"{INSTALL_DSL} (with that you accept NVIDIA's licence for it).")
        return
    if dsl != DSL_VERSION:
        what = f"CuTe DSL {dsl} is installed, and the book's kernels are written for {DSL_VERSION}"
        yield package(what, f"pip install nvidia-cutlass-dsl=={DSL_VERSION}")
    if not machine.flavours:
        again = f"pip install --force-reinstall nvidia-cutlass-dsl=={DSL_VERSION}"
        yield package("CuTe DSL is installed without its libraries for CUDA", again)
    elif machine.flavours == (13,) and version(machine.driver) < DSL_DRIVERS[13]:
        yield package(
            f"CuTe DSL's libraries are those for CUDA 13, which need driver {told(DSL_DRIVERS[13])} or newer, and this is "
            f"{machine.driver}",
            "pip uninstall -y nvidia-cutlass-dsl-libs-cu13",
            f"pip uninstall nvidia-cutlass-dsl-libs-cu13, then pip install nvidia-cutlass-dsl=={DSL_VERSION}, for CUDA 12.",
        )
    if machine.tvm_ffi is None:
        yield package(
            "apache-tvm-ffi is not installed, by which compiled kernels take torch's tensors", INSTALL_TVM_FFI
        )


def no_gpu(machine, system, driver_trouble, hidden):
    """The `Problem` where no kernel could run on a GPU whatever was installed, or None."""
    if system == "Emscripten":
        remedy = (
            "every chapter runs here; compiling for a GPU and measured times need the notebook on a machine with an NVIDIA GPU "
            "since Ampere."
        )
        return Problem("this page runs Python in your browser", "operating system", remedy)
    if system != "Linux":
        remedy = (
            "every chapter runs here on the simulator; compiling for a GPU and measured times do not. "
            "For those use a Linux machine with an NVIDIA GPU since Ampere"
        )
        what = f"CuTe DSL is installed on Linux only, and this is {'macOS' if system == 'Darwin' else system}"
        return Problem(what, "operating system", remedy + (", or WSL 2 on this one." if system == "Windows" else "."))
    if driver_trouble:
        remedy = "install NVIDIA's driver or reload it, until nvidia-smi lists the GPU."
        return Problem(driver_trouble, "driver", remedy, "nvidia-smi")
    if hidden:
        what = "CUDA_VISIBLE_DEVICES hides every GPU of this machine"
        remedy = "unset CUDA_VISIBLE_DEVICES, or set it to 0, and start Python again."
        return Problem(what, "environment", remedy, "unset CUDA_VISIBLE_DEVICES")
    if machine.gpu is None:
        what = "this machine has no NVIDIA GPU"
    elif machine.compute_capability < OLDEST:
        what = (
            f"this machine's {machine.gpu} (compute capability {capability(machine)}) is older than Ampere (8.0), the oldest that "
            "the book's kernels are compiled for"
        )
    else:
        return None
    remedy = "nothing to do for the simulator; real times need an NVIDIA GPU since Ampere, such as a rented H100."
    return Problem(what, "hardware", remedy)


def package(what, command, remedy=""):
    """A `Problem` that a command mends, with a remedy that says no more than the command unless it is given."""
    return Problem(what, "Python packages", remedy or f"{command}.", command)


def capability(machine):
    """9.0 of (9, 0)."""
    return ".".join(map(str, machine.compute_capability or ()))


def find_notes(machine, system):
    """Yield a `Problem` for what is missing on this machine while kernels run, on whatever they run."""
    if machine.torch is None and system != "Emscripten":
        yield package("torch is not installed, which most cells need", INSTALL_TORCH)
    if machine.gpu is not None and machine.compute_capability >= OLDEST:
        if machine.flavours == (12,) and version(machine.driver) < DSL_DRIVERS[12]:
            yield Problem(
                f"driver {machine.driver} is older than NVIDIA asks for with CuTe DSL's libraries for CUDA 12 "
                f"({told(DSL_DRIVERS[12])})",
                "driver",
                "try a kernel (chapter 0); if it does not load, take an image with a newer driver.",
            )
    if machine.jupyterlab is None and system != "Emscripten":
        yield Problem(
            "JupyterLab is not installed",
            "Python packages",
            f"make lab installs it, or {typed('pip install')} --editable '.[jupyter]' in a clone.",
        )
    if machine.kernel is not None:
        yield Problem(
            f'another Jupyter would run a notebook\'s "Python 3" with {machine.kernel}',
            "kernels",
            "start JupyterLab by `make lab` or `quack-tutorial lab`, which takes this environment's Python.",
        )


def cuda_major(machine):
    """The major version of the CUDA that torch was built with, or None."""
    return version(machine.torch_cuda)[0] if machine.torch_cuda else None


def version(text):
    """(580, 95, 5) of "580.95.05"; nothing is older than an unknown version."""
    return tuple(int(number) for number in re.findall(r"\d+", text)) if text else (sys.maxsize,)


def told(numbers):
    """580 or 575.51.03, as NVIDIA writes a driver's version."""
    return ".".join([str(numbers[0]), *(f"{number:02d}" for number in numbers[1:])])


def verdict(machine):
    """One line: what works on this machine, and the command to type next."""
    return f"{what_works(machine)} Next: {mending_command(machine) or next_command(machine)}"


def what_works(machine):
    """One sentence on what works on this machine."""
    if machine.numpy is None:
        return "Nothing runs yet."
    if machine.device == "cuda":
        return f"Kernels compile for the {machine.gpu} and run on it, and on the simulator."
    mendable = _mendable(machine)
    if mendable:
        return f"The simulator works; {mendable.what}."
    return "Every chapter and lab runs here, on the simulator."


def mending_command(machine):
    """The command that mends the first thing that is missing, as it is typed here; None where nothing is, or no command does it."""
    if machine.numpy is None:
        return typed("pip install numpy")
    mendable = _mendable(machine)
    return mendable and typed(mendable.command)


def _mendable(machine):
    """The first problem that a command mends, or None."""
    return next((one for one in (*machine.problems, *machine.notes) if one.command), None)


def next_command(machine):
    """What a reader types once nothing is missing: in a clone, the notebooks; in its JupyterLab there is nothing to type."""
    if IN_LAB in os.environ:
        return f"open {os.environ[IN_LAB]}, in the file browser, and choose a chapter"
    clone = Path(__file__).resolve().parents[1]
    if not (clone / "notebooks").is_dir():
        return "quack-tutorial simulate FILE.py"
    made = Path(sys.prefix) == clone / ".venv"
    return "make lab" if made or machine.jupyterlab is None else "quack-tutorial lab"


# quack-tutorial doctor -----------------------------------------------------------------------------------------------


def add_arguments(parser):
    """Declare what `quack-tutorial doctor` takes."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(args):
    """Print what this machine has, what it lacks and how to get it; 0 when the simulator can run, else 1."""
    from quack_tutorial import __version__

    machine = detect()
    simulator = machine.numpy is not None
    if args.json:
        answer = {"quack_tutorial": __version__, "simulator": simulator, **asdict(machine), "verdict": verdict(machine)}
        print(json.dumps(answer, indent=2))
        return 0 if simulator else 1
    built = f"CUDA {machine.torch_cuda}" if machine.torch_cuda else "no CUDA"
    flavours = " and ".join(map(str, machine.flavours))
    rows = {
        "quack-tutorial": __version__,
        "Python": f"{machine.python} on {machine.platform}, {sys.prefix}",
        "numpy": machine.numpy,
        "GPU": machine.gpu and f"{machine.gpu}, compute capability {capability(machine)}",
        "driver": machine.driver,
        "torch": machine.torch and f"{machine.torch}, built with {built}",
        "CuTe DSL": machine.dsl and f"{machine.dsl}" + (f", for CUDA {flavours}" if flavours else ""),
        "apache-tvm-ffi": machine.tvm_ffi,
        "JupyterLab": machine.jupyterlab,
    }
    for name, value in rows.items():
        print(f"{name:<15} {value or 'none'}")
    print(f"\n{machine.reason}")
    for problem in (*machine.problems, *machine.notes):
        print(f"- {problem}")
    if not simulator:
        print("- the simulator cannot run: numpy is not installed (Python packages): pip install 'numpy>=2.0'.")
    print(f"\n{verdict(machine)}")
    return 0 if simulator else 1
