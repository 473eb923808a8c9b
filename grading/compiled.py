"""Full marks, confirmed: the kernel compiled by CuTe DSL for the lab's shapes, up to rows of `LONGEST`, in a second process.

The process has the walls of `sandbox` and the limits of `limits`, unchanged: the compiler needs no thread, no program, no network
and no home. Two things differ from the simulator's process. The DSL's packages are there, read-only. And a source may name more:
`import cutlass` is answered with the DSL's own functions and types (`seen` says which), because the compiler takes nothing else,
and `locals` and `type` are there, because the code that the DSL makes of a kernel calls them. Whoever finds a way from there to
Python whole wins this process' one line, which says whether their own kernel compiled, and nothing more.

`python -m grading.compiled FOLDER` is that process; `problem` and `compile_answer` are for the grader's.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np

from cutesim.dialect import names
from quack_tutorial import machine
from quack_tutorial.compiler import DSL_VERSION, HOPPER_ARCH, MAX_ALIGNMENT, TensorSpec, ptx

from . import permitted, sandbox, submission
from .judgement import Case, Diagnosis, Refused, clean
from .limits import limit

SECONDS = 60.0  # a right answer takes about one
LONGEST = 4096  # numbers of a row: a loop over more, unrolled, takes minutes
WORKER = ("-m", "grading.compiled")
MOST_BYTES = 4096  # of the line that comes back
# The code that the DSL makes of a kernel calls the second.
REWRITTEN = ("cutlass.base_dsl", "cutlass.base_dsl.ast_helpers")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of the DSL's messages, which point at a line so:
POINTS_AT = re.compile(r"--> (.+?):(\d+)")
PROBE = """\
import cutlass
import cutlass.cute as cute


class Probe:
    @cute.jit
    def __call__(self, mX: cute.Tensor):
        self.kernel(mX).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        mX[tidx] = mX[tidx] + 1
"""
SILENT = "its process ended without a word that could be believed"


# The grader's side --------------------------------------------------------------------------------------------------


@functools.cache
def problem() -> str | None:
    """Why full marks cannot be confirmed here, as a sentence, or None."""
    version = machine.installed_version("nvidia-cutlass-dsl")
    if version is None:
        return "CuTe DSL is not installed here."
    if version != DSL_VERSION:
        return f"CuTe DSL {version} is installed here, and the labs are written for {DSL_VERSION}."
    told = compile_answer("probe.py", PROBE, "Probe", [Case("probe", (), {"mX": np.zeros(32, np.float32)})])
    return told and f"CuTe DSL {version} is installed here and does not work ({told.message})."


def packages() -> tuple[Path, ...]:
    """The files and folders that the DSL is made of; what it needs beside numpy."""
    found = importlib.util.find_spec("nvidia_cutlass_dsl")
    if found is None or not found.submodule_search_locations:
        return ()
    home = Path(found.submodule_search_locations[0])
    beside = [home.parent / name for name in ("cuda", "google", "tvm_ffi", "typing_extensions.py")]
    return (home, *beside)


def compile_answer(file: str, text: str, target: str, cases: list[Case]) -> Diagnosis | None:
    """What the compiler says against an answer that the simulator accepts, or None, for rows of at most LONGEST numbers."""
    tried = [case for case in cases if not case.target and next(iter(case.inputs.values())).shape[-1] <= LONGEST]
    shapes = {json.dumps([case.make, specs(case)]): None for case in tried}
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        folder = Path(name)
        job = {"file": file, "text": text, "target": target, "shapes": list(shapes)}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        status, data = sandbox.run(folder, WORKER, SECONDS + sandbox.GRACE, packages())
    if status is None or status in (-24, -9):  # SIGXCPU, SIGKILL
        return Diagnosis("not compiled", f"it had not finished after {SECONDS:g} s")
    try:
        error, name, number = _read(data)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Diagnosis("not compiled", SILENT)
    known = {name: source for name, source, _ in submission.parts(file, text)} | {file: text}
    known = known.get(name, "").splitlines()
    lines = ((name, number, known[number - 1].strip()),) if 0 < number <= len(known) else ()
    return Diagnosis("not compiled", error, lines) if error else None


def _read(data: bytes) -> tuple:
    """(error or "", file, line) of the process' one line; a ValueError if it is anything else."""
    if len(data) > MOST_BYTES or data.count(b"\n") != 1 or not data.endswith(b"\n"):
        raise ValueError("not one short line")
    said = json.loads(data)
    if set(said) != {"error", "file", "line"} or [type(said[key]) for key in sorted(said)] != [str, str, int]:
        raise ValueError("not the words that are asked for")
    return clean(said["error"], 300), said["file"], said["line"]


# The process -------------------------------------------------------------------------------------------------------


def specs(case: Case) -> list:
    """What the compiler is told of a case's tensors: type, shape and strides, and addresses as an allocator gives them."""
    arrays = [*case.inputs.values(), *case.outputs.values()]
    return [[str(a.dtype), a.shape, [step // a.itemsize for step in a.strides], MAX_ALIGNMENT] for a in arrays]


def main(folder: Path) -> None:
    """Compile what the job in `folder` says, and write the line."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a submission or the compiler prints
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    limit(SECONDS, sandbox.MEMORY_BYTES)
    said = {"error": "", "file": "", "line": 0}
    try:
        compile_shapes(job)
    except BaseException as error:  # SystemExit is the student's, too
        told = error if isinstance(error, Refused) else error_of(job, error)
        for file, number, _ in told.diagnosis.lines:
            said |= {"file": file[:100], "line": number}
        said["error"] = clean(str(told), 300)
    out.write(json.dumps(said).encode() + b"\n")
    out.close()


def compile_shapes(job: dict) -> None:
    """Compile the answer for each shape; raises what the compiler, or Python, says against it."""
    permitted.BUILTINS.update(__import__=_import, locals=locals, type=type)
    answer = submission.load(job["file"], job["text"], job["target"])[job["target"]]
    for make, tensors in map(json.loads, job["shapes"]):
        described = [TensorSpec(dtype, tuple(shape), tuple(stride), align) for dtype, shape, stride, align in tensors]
        ptx(answer(*map(_plain, make)), *described, arch=HOPPER_ARCH)


def error_of(job: dict, error: BaseException) -> Refused:
    """What was raised: the first line of it that says something, and the submission's innermost line."""
    names = [name for name, _, _ in submission.parts(job["file"], job["text"])]
    told = submission.error_at(error, names).diagnosis
    text = COLOURS.sub("", str(error))
    said = next((line.strip() for line in text.splitlines() if line.strip()), "")
    points_at = POINTS_AT.search(text)
    if points_at and points_at[1] in names:
        told = Diagnosis(told.kind, "", ((points_at[1], int(points_at[2]), ""),))
    what = said if said.startswith("error[") else f"{type(error).__name__}: {said}"
    return Refused(told.kind, what, told.lines)


def _import(name, globals=None, locals=None, fromlist=(), level=0, others=permitted._import):
    top, *parts = name.split(".")
    if top == "cutlass":
        root = seen(importlib.import_module(top), names.CUTLASS)
        place = functools.reduce(lambda at, part: getattr(at, part, None), parts, root)
        # What the place lacks, `import` would look for among the real modules, by the name.
        if place is not None and all(hasattr(place, one) for one in fromlist or ()):
            return place if fromlist else root
    return others(name, globals, locals, fromlist, level)


def is_the_dsls(value) -> bool:
    """Whether a function or type is the DSL's own, and no type of types."""
    value = value.func if isinstance(value, functools.partial) else value
    home = (getattr(value, "__module__", None) or "").partition(".")[0]
    return home == "cutlass" and not (isinstance(value, type) and issubclass(value, type))


@functools.cache
def seen(module: ModuleType, simulated) -> ModuleType:
    """A module of the DSL as a submission sees it: its own functions, types and numbers, and of the modules in it those
    that the simulator has, too, and REWRITTEN's."""
    said = repr(simulated or module)  # so that no module's text tells which of the two runs
    shown = type("module", (ModuleType,), {"__repr__": lambda _: said})(module.__name__)
    for name in {*dir(module), *getattr(simulated, "__dict__", ())}:
        if name.startswith("__"):  # a module's own __getattr__ would bring its modules back
            continue
        value = getattr(module, name, None)
        known = vars(simulated).get(name) if isinstance(simulated, names.Namespace) else None
        if isinstance(value, ModuleType):
            if isinstance(known, names.Namespace) or f"{module.__name__}.{name}" in REWRITTEN:
                setattr(shown, name, seen(value, known))
        elif isinstance(value, (int, float)) or callable(value) and is_the_dsls(value):
            setattr(shown, name, value)
    return shown


def _plain(value):
    return tuple(map(_plain, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
