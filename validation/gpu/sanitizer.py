"""The corpus's kernels with one fault each: what the simulator says of them, and what compute-sanitizer's four tools say.

The simulator has to name every bug that it can know of, at its lines, and has to be silent on the same kernel without the bug,
in every order of the warps. What compute-sanitizer says is set beside it and is neither right nor wrong here: each tool runs
a bug in a process of its own, which ends after `TIMEOUT_S` at the latest. Without a GPU, or as a sample, only the simulator
is asked.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from cutesim import NotSimulated, SimulationError
from cutesim.simulation import simulate
from quack_tutorial import compiler
from quack_tutorial.records import suite as report
from validation.corpus import CASES
from validation.gpu.device import where
from validation.workers import ALL_CORRECT, LAUNCHED

TIMEOUT_S = 40
WORKER = "validation.gpu.worker"
TOOLS = {
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": (),
    "synccheck": (),
    "initcheck": ("--initcheck-address-space", "all"),
}
ORDERS = ({"schedule": "forward"}, {"schedule": "reverse"}, {"schedule": "seeded", "seed": 1}, {"check": False})


# ---- the simulator --------------------------------------------------------------------------------------------------


def simulated(case) -> tuple:
    """(what the simulator says of the bug, in short; sentences on what it should have said)."""
    findings = simulate(case.host, *case.arrays(), True, orders=case.orders).findings
    if not findings:
        said, wrong = "nothing", case.kind is not None
    else:
        first = findings[0]
        said = f"{first.kind}, {_lines(line.number for line in first.lines)}"
        wrong = first.kind != case.kind or not first.lines or any("# here" not in line.text for line in first.lines)
    if not wrong:
        return said if findings or not case.why else f"nothing: {case.why}", []
    found = f"{findings[0].message}" if findings else "nothing was found"
    return said, [f"{case.name}: expected {case.kind or 'nothing'} at the lines marked `# here`; {found}"]


def silent(case) -> list:
    """A sentence for each order of the warps in which the simulator says anything of the kernel without the bug."""
    wrong = []
    for options in ORDERS:
        try:
            said = simulate(case.host, *case.arrays(), False, **options).findings
        except (SimulationError, NotSimulated) as error:  # the fast mode raises what it finds
            said = (error,)
        wrong += [f"{case.name} without its bug ({options}): {finding}" for finding in said]
    return wrong


def _lines(numbers) -> str:
    numbers = list(dict.fromkeys(numbers))
    return f"line{'s' * (len(numbers) > 1)} {' and '.join(map(str, numbers))}"


# ---- compute-sanitizer ----------------------------------------------------------------------------------------------

BANNER = "========= "
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
NOT_A_REPORT = ("COMPUTE-SANITIZER", "Saved host backtrace", "ERROR SUMMARY", "RACECHECK SUMMARY", "LEAK SUMMARY")
PLACE = re.compile(r"\s+at \S+\+0x[0-9a-fA-F]+(?: in \S+)?")
SOURCE = re.compile(r" in \S*\.py:(\d+)")


def said_by(text: str) -> str:
    """The first report in what compute-sanitizer writes, in one line, with the Python lines it names; "" for none."""
    lines = [line.removeprefix(BANNER) for line in text.splitlines() if line.startswith(BANNER)]
    reports = [i for i, line in enumerate(lines) if _begins_a_report(line)]
    if not reports:
        found = SUMMARY.search(text)
        if found is None:
            rest = [line for line in text.splitlines() if line.strip(" =")]
            return f"(no summary: {rest[-1].strip()[:160] if rest else 'no output'})"
        return "" if found.group(1) == "0" else f"({found.group(1)} errors without a report)"
    first = reports[0]
    after = reports[1] if len(reports) > 1 else len(lines)
    message = re.sub(r"^(?:ERROR|Error|WARN|Warning): ", "", lines[first].strip())
    details = [line.strip() for line in lines[first + 1 : after]]
    if details and details[0].startswith("and "):
        message += " " + re.sub(r" \[\d+ hazards?\]", "", details[0])
    elif any("misaligned" in line for line in details):
        message += ", misaligned"
    places = dict.fromkeys(SOURCE.findall("\n".join(lines[first:after])))
    message = PLACE.sub("", message).rstrip(".: ")
    return message + (f" ({_lines(places)})" if places else "")


def _begins_a_report(line: str) -> bool:
    """Whether a line, without the banner, is the first of a report: not indented, and not about the run as a whole."""
    return bool(line) and not line[0].isspace() and line[0] != "=" and not line.startswith((*NOT_A_REPORT, "and "))


def first_report(lines: list) -> int:
    """Where compute-sanitizer's first report begins in all the lines of an output; their number if there is none."""
    found = (k for k, line in enumerate(lines) if line.startswith(BANNER))
    return next((k for k in found if _begins_a_report(lines[k].removeprefix(BANNER))), len(lines))


def watched(job: str, asked: list, timeout_s, progress, extra: dict | None = None) -> tuple:
    """({(name, tool): what a tool and the worker's `job`, told both words, print}, "") of all that are asked, or ({}, why
    compute-sanitizer cannot be); `timeout_s(name)`. `extra` is added to the environment."""
    sanitizer, said = shutil.which("compute-sanitizer"), {}
    problem = compiler.dsl_problem() or compiler.gpu_problem() if sanitizer else "it is not on the PATH"
    if problem:
        return {}, f"compute-sanitizer was not asked: {problem}"

    def output(one):
        name, tool = one
        words = (job, name) if job == "bug" else (job, name, tool)
        command = [sanitizer, "--tool", tool, *TOOLS[tool], "--print-limit", "5", sys.executable, "-m", WORKER, *words]
        text = _output(command, timeout_s(name), extra)
        if "nrecogni" in text and "initcheck-address-space" in text:  # before CUDA 13 it knows global memory only
            command = [part for part in command if part not in TOOLS["initcheck"]]
            text = _output(command, timeout_s(name), extra)
        return text

    # Importing and compiling take most of a job's time, on one core.
    with ThreadPoolExecutor(max(1, min(14, (os.cpu_count() or 2) - 2))) as pool:
        for (name, tool), text in zip(asked, pool.map(output, asked)):
            progress(f"compute-sanitizer --tool {tool}: {name}")
            said[name, tool] = text
    return said, ""


def _output(command, timeout_s, extra=None) -> str:
    """What a command and its children say; they are ended after `timeout_s`."""
    # Each tensor an allocation of its own, or memcheck would see one large one.
    extra = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", **(extra or {})}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | extra,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text = process.communicate()[0]
        return f"{text}\n{BANNER}Did not {'end' if LAUNCHED in text else 'start'} in {timeout_s} s\n"


# ---- the suite ------------------------------------------------------------------------------------------------------


def run(sample: bool, progress) -> report.Suite:
    """The simulator's side of all cases, and compute-sanitizer's where it can be asked and `sample` is not set."""
    mismatches, notes, mine, noisy = [], [], {}, 0
    for case in CASES:
        progress(f"simulating {case.name}")
        mine[case.name], wrong = simulated(case)
        too_much = silent(case)
        noisy += bool(too_much)
        mismatches += wrong + too_much
    theirs, problem = ({}, "") if sample else asked(progress)
    if problem:
        mismatches.append(problem)
    rows = [(case.wrong, mine[case.name], *_cells(theirs, case.name)) for case in CASES]
    quiet = f"nothing, of {len(CASES) - noisy} of {len(CASES)} and in each of {len(ORDERS)} orders of their warps"
    rows.append(("the same kernels without the bug", quiet, *_cells(theirs, ALL_CORRECT)))
    if theirs:
        seen = sum(any(theirs[case.name].values()) for case in CASES)
        named = sum(case.kind is not None for case in CASES)
        notes.append(f"The simulator names {named} of {len(CASES)} bugs, compute-sanitizer's four tools {seen}.")
    return report.Suite(
        name="sanitizer",
        title="Seeded bugs: the simulator and compute-sanitizer",
        columns=("bug", "simulator", "compute-sanitizer"),
        rows=tuple(rows),
        mismatches=tuple(mismatches),
        notes=tuple(notes),
        checked=len(CASES) * (1 + len(ORDERS)),
        where=where() if theirs else None,
    )


def _cells(theirs, name) -> tuple:
    if name not in theirs:
        return ("not asked",)
    said = [f"{tool}: {text}" for tool, text in theirs[name].items() if text]
    return ("; ".join(said) or "nothing",)


def asked(progress) -> tuple:
    """({case: {tool: what it says}}, "") or ({}, why compute-sanitizer cannot be asked)."""
    # The longest first: all kernels together, then those that may wait for ever.
    names = [ALL_CORRECT, *(case.name for case in sorted(CASES, key=lambda case: case.kind != "deadlock"))]
    jobs = [(name, tool) for name in names for tool in TOOLS]
    lines = {"CUTE_DSL_LINEINFO": "1"}  # their numbers in the compiled kernels
    said, problem = watched("bug", jobs, lambda name: TIMEOUT_S * (6 if name == ALL_CORRECT else 1), progress, lines)
    theirs = {}
    for (name, tool), text in said.items():
        theirs.setdefault(name, {})[tool] = said_by(text)
    return theirs, problem
