"""Which machine is this: where do kernels run, why, and what would have to change for a GPU to run them.

`detect` looks, `judge` decides, `start` says it in one sentence, and `quack-tutorial doctor` says it at length. Looking
imports neither torch nor CuTe DSL and creates no CUDA context: the driver is asked through NVML, versions are read from
what is installed. Not covered: whether a driver is new enough for the CUDA that torch was built with; torch says that
itself.
"""

import ctypes
import json
import os
import platform
import re
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

DSL_VERSION = "4.8.1"
HOPPER = (9, 0)
INSTALL_DSL = f"pip install 'torch>=2.11' nvidia-cutlass-dsl=={DSL_VERSION}"


@dataclass(frozen=True)
class Problem:
    """One thing that keeps kernels off the GPU: what it is, where it was seen, what to do about it."""

    what: str
    where: str
    remedy: str

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


def detect():
    """Look at this machine and say where kernels run on it; returns a `Machine`."""
    return judge(
        system=platform.system(),
        architecture=platform.machine(),
        python=platform.python_version(),
        numpy=installed_version("numpy"),
        dsl=installed_version("nvidia-cutlass-dsl"),
        **find_gpu(),
        **find_torch(),
    )


def start():
    """Print where kernels run on this machine, in one sentence, and return the `Machine`.

    In a notebook without CuTe DSL, the notebook's own `import cutlass` is answered by the simulator from here on.
    """
    machine = detect()
    print(machine.reason)
    notebook = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if notebook is not None and machine.dsl is None:
        from quack_tutorial.simulator.loading import answer_imports

        answer_imports(notebook.user_ns)
    return machine


# Looking -------------------------------------------------------------------------------------------------------------


def installed_version(distribution):
    """Version of an installed distribution, or None; nothing is imported."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


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
    names = ["nvml.dll"] if sys.platform == "win32" else ["libnvidia-ml.so.1"]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
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


# Deciding ------------------------------------------------------------------------------------------------------------


def judge(
    *,
    system,
    architecture,
    python,
    numpy,
    gpu,
    compute_capability,
    driver,
    driver_trouble,
    hidden,
    torch,
    torch_cuda,
    dsl,
):
    """Say where kernels run, given what was found; returns a `Machine`. Looks at nothing itself."""
    problems = tuple(find_problems(system, gpu, compute_capability, driver_trouble, hidden, torch, torch_cuda, dsl))
    if problems:
        reason = f"Kernels run on the simulator: {problems[0].what}."
    else:
        capability = ".".join(map(str, compute_capability))
        reason = f"Kernels run on this machine's {gpu} (compute capability {capability}) through CuTe DSL {dsl}."
    return Machine(
        device="cpu" if problems else "cuda",
        reason=reason,
        problems=problems,
        platform=f"{system} {architecture}",
        python=python,
        numpy=numpy,
        gpu=gpu,
        compute_capability=compute_capability,
        driver=driver,
        torch=torch,
        torch_cuda=torch_cuda,
        dsl=dsl,
    )


def find_problems(system, gpu, compute_capability, driver_trouble, hidden, torch, torch_cuda, dsl):
    """Yield a `Problem` for each thing between this machine and kernels on its GPU, the one to mend first first."""
    if system == "Emscripten":
        yield Problem(
            "this page runs Python in your browser",
            "operating system",
            "every chapter runs here; compiling for a GPU and measured times need the notebook on a machine with a Hopper GPU.",
        )
        return
    if system != "Linux":
        name = {"Darwin": "macOS"}.get(system, system)
        yield Problem(
            f"CuTe DSL exists for Linux only, and this is {name}",
            "operating system",
            "every chapter runs here on the simulator; compiling for a GPU and measured times do not. "
            "For those use a Linux machine with a Hopper GPU"
            + (", or WSL 2 on this one." if system == "Windows" else "."),
        )
        return
    if driver_trouble:
        yield Problem(driver_trouble, "driver", "install NVIDIA's driver or reload it, until nvidia-smi lists the GPU.")
        return
    if hidden:
        yield Problem(
            "CUDA_VISIBLE_DEVICES hides every GPU of this machine",
            "environment",
            "unset CUDA_VISIBLE_DEVICES, or set it to 0, and start Python again.",
        )
        return
    if gpu is None:
        yield Problem(
            "this machine has no NVIDIA GPU",
            "hardware",
            "nothing to do for the simulator; real times need a Hopper GPU, such as a rented H100.",
        )
        return
    if compute_capability < HOPPER:
        yield Problem(
            f"this machine's {gpu} (compute capability {compute_capability[0]}.{compute_capability[1]}) is older than "
            "Hopper (9.0), and the book's kernels use Hopper's clusters",
            "hardware",
            "nothing to do for the simulator; real times need a Hopper GPU, such as a rented H100.",
        )
        return
    if torch is None:
        yield Problem(f"torch is not installed, so the {gpu} cannot be used", "Python packages", f"{INSTALL_DSL}.")
    elif torch_cuda is None:
        yield Problem(
            f"torch {torch} was built without CUDA, so the {gpu} cannot be used",
            "Python packages",
            "install a build of torch with CUDA: pip uninstall torch, then pip install 'torch>=2.11'.",
        )
    if dsl is None:
        yield Problem(
            f"CuTe DSL (nvidia-cutlass-dsl) is not installed, so the {gpu} cannot be used",
            "Python packages",
            f"{INSTALL_DSL} (with that you accept NVIDIA's licence for it).",
        )
    elif dsl != DSL_VERSION:
        yield Problem(
            f"CuTe DSL {dsl} is installed, and the book's kernels are written for {DSL_VERSION}",
            "Python packages",
            f"pip install nvidia-cutlass-dsl=={DSL_VERSION}.",
        )


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
        print(json.dumps({"quack_tutorial": __version__, "simulator": simulator, **asdict(machine)}, indent=2))
        return 0 if simulator else 1
    capability = ".".join(map(str, machine.compute_capability or ()))
    built = f"CUDA {machine.torch_cuda}" if machine.torch_cuda else "no CUDA"
    rows = {
        "quack-tutorial": __version__,
        "Python": f"{machine.python} on {machine.platform}",
        "numpy": machine.numpy,
        "GPU": machine.gpu and f"{machine.gpu}, compute capability {capability}",
        "driver": machine.driver,
        "torch": machine.torch and f"{machine.torch}, built with {built}",
        "CuTe DSL": machine.dsl,
    }
    for name, value in rows.items():
        print(f"{name:<15} {value or 'none'}")
    print(f"\n{machine.reason}")
    for problem in machine.problems:
        print(f"- {problem}")
    if not simulator:
        print("- the simulator cannot run: numpy is not installed (Python packages): pip install 'numpy>=2.0'.")
    return 0 if simulator else 1
