"""Starts the process in which a submission runs, in a sandbox where there is one, and takes what it sends back.

With bubblewrap on Linux the process sees Python, numpy, this package and its job, all read-only, 32 MiB of its own at /tmp, and
nothing else: no lab, no seed, no other submission, no network, no process but its own, and it dies with this one. Elsewhere it is
a process with the limits that `limits` sets, which is enough for a file of one's own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path

import numpy as np

from quack_tutorial import machine

from . import returned
from .judgement import Case, Outcome, Refused
from .limits import OVER

SECONDS = 30.0
MEMORY_BYTES = 2 * 2**30
TMP_BYTES = 2**25
GRACE = 30.0  # seconds of the clock beyond its own limit of processor time: a busy machine is no loop without end
ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("cutesim", "quack_tutorial", "grading")  # what a submission's process needs of ours
WORKER = ("-m", "grading.worker")
# Each thread of a BLAS library would reserve address space, which is limited.
VARIABLES = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# The same order of a set of text in each grading.
VARIABLES |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}


def outcomes(
    file: str,
    text: str,
    target: str,
    functions: tuple,
    cases: list[Case],
    seconds=SECONDS,
    memory=MEMORY_BYTES,
    seen=(),
) -> list[Outcome]:
    """Run a submission's class `target` and its functions on the cases, in a process of its own; Refused if nothing comes back.

    `seen` are outcomes of cases before.
    """
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        folder = Path(name)
        job = {"file": file, "text": text, "target": target, "functions": functions}
        kernels = [one.case for one in seen if one.case.inputs]
        job["seen"] = [(case.make, next(iter(case.inputs.values())).shape) for case in kernels]
        write_job(folder, job | {"seconds": seconds, "memory_bytes": memory}, cases)
        status, data = run(folder, WORKER, seconds + GRACE)
    if len(data) > returned.MOST_BYTES:
        most = returned.MOST_BYTES >> 20
        raise Refused("too much", f"{file} sent back more than {most} MiB; a right answer leaves a few.")
    if not data or status is None:
        raise how_it_ended(file, status, seconds, memory)
    return returned.outcomes(data, cases, memory)


def run(folder: Path, words: tuple, seconds: float, packages: tuple[Path, ...] = ()) -> tuple:
    """(exit status, what it wrote) of Python with these words and `folder`; the status is None if it had to be stopped."""
    command = [sys.executable, *words, str(folder)] if problem() else sandboxed(folder, words, packages)
    environment = {k: v for k, v in os.environ.items() if k in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "LANG")}
    environment |= VARIABLES | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    started = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **quiet)
    data = []
    most = returned.MOST_BYTES + 1
    reader = threading.Thread(target=lambda: data.append(started.stdout.read(most)), daemon=True)
    reader.start()
    try:
        reader.join(seconds)
        status = started.wait(GRACE) if data and len(data[0]) < most else None
    except subprocess.TimeoutExpired:
        status = None
    finally:
        stop(started)
    reader.join(5)
    if not problem() and status is not None and status > 128:  # bubblewrap's word for a signal
        status = 128 - status
    return status, data[0] if data else b""


def stop(started) -> None:
    """End a process and all of its group."""
    try:
        os.killpg(started.pid, signal.SIGKILL)
    except AttributeError:  # Windows
        started.kill()
    except (ProcessLookupError, PermissionError):
        pass
    started.wait()


def sandboxed(folder: Path, words: tuple, packages: tuple[Path, ...] = ()) -> list:
    """The command that runs Python in bubblewrap; the folder is /job there, and `packages` can be imported, as can numpy."""
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    known = {"PYTHONPATH": "/sandbox:/sandbox/nvidia_cutlass_dsl/dsl_packages", "LANG": "C.UTF-8"}
    for name, value in (VARIABLES | known).items():
        command += ["--setenv", name, value]
    command += ["--ro-bind", "/usr", "/usr"]
    for place in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(place):
            command += ["--symlink", os.readlink(place), place]
        else:
            command += ["--ro-bind-try", place, place]
    libraries = ("/etc/ld.so.cache", "/etc/alternatives", "/nix/store")
    python = {sys.base_prefix, sys.base_exec_prefix, sysconfig.get_path("stdlib")}
    for place in (*libraries, *sorted(one for one in python if not one.startswith("/usr/"))):
        command += ["--ro-bind-try", place, place]
    numpy = Path(np.__file__).parent
    for home in (*(ROOT / room for room in ROOMS), numpy, numpy.parent / "numpy.libs", *packages):
        command += ["--ro-bind-try", str(home), f"/sandbox/{home.name}"]
    command += ["--ro-bind", str(folder), "/job", "--dev-bind", "/dev/null", "/dev/null"]
    command += ["--size", str(TMP_BYTES), "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/"]
    python = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    return [*command, str(python), "-S", *words, "/job"]


@functools.cache
def problem() -> str | None:
    """Why there is no sandbox here, as a sentence, or None."""
    if sys.platform != "linux":
        return f"There is no sandbox on {sys.platform}: it needs Linux with bubblewrap."
    if not shutil.which("bwrap"):
        return "There is no sandbox here: install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap)."
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        command = sandboxed(Path(name), ("-c", "import grading.worker"))
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"There is no sandbox here: bubblewrap does not run ({machine.reason(error)})."
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return f"There is no sandbox here: bubblewrap is installed and does not work ({said})."
    return None


def how_it_ended(file: str, status, seconds: float, memory: int) -> Refused:
    """A process that left no result: what its exit status says."""
    if status is None or status in (-24, -9):  # SIGXCPU, SIGKILL
        return Refused("time", OVER.format(file=file, seconds=seconds, where=""))
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return Refused(
        "crash", f"{file} ended its process ({how}) and left no answer; memory is limited to {memory >> 20} MiB"
    )


def write_job(folder: Path, job: dict, cases: list[Case]) -> None:
    """Write what the worker needs: the submission, the cases, their inputs."""
    words = []
    for i, case in enumerate(cases):
        np.savez(folder / f"{i}.in.npz", **case.inputs, **case.outputs)
        # The seed of the schedule follows from that of the inputs, which nobody should read here.
        seed = int.from_bytes(hashlib.sha256(str(case.seed).encode()).digest()[:6])
        # JSON has no tuples.
        lists = [k for k, one in enumerate(case.make) if isinstance(one, list)]
        how = {"name": case.name, "make": case.make, "schedule": case.schedule, "seed": seed,
               "target": case.target, "follows": case.follows}  # fmt: skip
        words.append(how | {"lists": lists, "inputs": list(case.inputs), "outputs": list(case.outputs)})
    (folder / "job.json").write_text(json.dumps(job | {"cases": words}), encoding="utf-8")
