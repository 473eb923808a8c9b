"""Suite `delays`: does a GPU show faults that depend on order, as they are and with a wait before one line?

The faults are those of `corpus`, and the bugs of public kernels that cutesim's README lists. Each faulty kernel runs BARE times as
it is. Where none is wrong, it runs again with each wait that `cutesim.delays` proposes from the simulator's findings, until one
shows the fault. The right kernel runs first, and again with each wait, and must stay right: what fails is the fault's doing. A case
is a process of its own; one that hangs is ended, and told.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import cutesim
from cutesim import delays
from cutesim.language.loading import answer_imports
from cutesim.simulation import simulate
from quack_tutorial.records import suite as report
from validation import corpus

BARE, DELAYED = 1000, 20
SECONDS, AT_ONCE = 100, 10
FILES = [Path(corpus.__file__), Path(cutesim.__file__).with_name("tests") / "dsl" / "field.py"]


def loaded(path: Path) -> list:
    """The cases of a file."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_delays", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    answer_imports(module.__dict__)
    spec.loader.exec_module(module)
    return module.CASES


def cases() -> dict:
    """By name."""
    return {case.name: case for path in FILES for case in loaded(path)}


def wrong_results(case, bug: bool, times: int) -> int:
    """How many launches on the GPU leave wrong results, each after one on zeros: shared memory then holds nothing right."""
    import torch

    from quack_tutorial.compiler import compile_for

    arrays = case.arrays()
    arrays = [np.ascontiguousarray(array) for array in (*arrays, case.right(*arrays[:-1]))]
    *given, wanted = (torch.from_numpy(array).cuda() for array in arrays)
    tensors, wanted = [tensor.clone() for tensor in given], wanted.to(given[-1].dtype)
    compiled = compile_for(case.host, *tensors, bug)
    wrong = 0
    for _ in range(times):
        for sources in ([torch.zeros_like(given[0]), *given[1:]], given):
            for tensor, source in zip(tensors, sources):
                tensor.copy_(source)
            compiled(*tensors, bug)
        wrong += not torch.allclose(tensors[-1], wanted, rtol=1e-4, atol=1e-4)
    return wrong


def with_delay(name: str, delay, folder: Path):
    """The case of that name in a copy of its file that has the wait."""
    path = folder / f"late_{delay.line}_{abs(hash(delay.which))}.py"
    text = Path(delay.file).read_text(encoding="utf-8")
    path.write_text(delays.delayed(text, delay), encoding="utf-8")
    return next(case for case in loaded(path) if case.name == name)


def measure(name: str, say) -> None:
    """Say how many runs are wrong, of the right kernel and of the faulty one; where none is, of each wait [who waits, how many of
    the right kernel's runs are wrong with it] and then how many of the faulty one's, until some are."""
    case = cases()[name]
    say(wrong_results(case, False, BARE))
    say(bare := wrong_results(case, True, BARE))
    found = simulate(case.host, *case.arrays(), True)
    with tempfile.TemporaryDirectory() as folder:
        for delay in [] if bare else delays.candidates(found):
            other = with_delay(name, delay, Path(folder))
            text = linecache.getline(delay.file, delay.line).split("#")[0].strip()
            say([f"{delay.who} before `{text}`", control := wrong_results(other, False, DELAYED)])
            say(wrong := wrong_results(other, True, DELAYED))
            if wrong and not control:
                return


def _tried(name: str) -> tuple[list, str]:
    """What `measure` said in a process of its own; what ended that process, "" where nothing did."""
    command = [sys.executable, "-m", "validation.delays", name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS)
        ended = "ends with an error" if done.returncode else ""
        said = re.findall(r"cudaError\w+|\w*Error: .*", done.stderr.decode())
        printed, ended = done.stdout, said[0] if ended and said else ended
    except subprocess.TimeoutExpired as late:
        printed, ended = late.stdout or b"", "hangs"
    lines = printed.decode().splitlines()
    return [json.loads(line) for line in lines if re.match(r"\[|\d", line)], ended


def run(sample, progress) -> report.Suite:
    """Try every case."""
    tried, rows, mismatches, notes = cases(), [], [], []
    names = [*tried][:2] if sample else [*tried]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, (lines, ended) in zip(names, pool.map(_tried, names)):
            progress(name)
            case = tried[name]
            if not lines or lines[0]:
                said = f"is wrong {lines[0]} times" if lines else ended
                mismatches.append(f"{name}: the right kernel {said}")
                continue
            if len(lines) % 2:  # the faulty kernel's runs ended it
                lines.append(ended if ended == "hangs" else "an error")
                notes += [f"{name}: {ended}"] * (ended != "hangs")
            elif ended:
                mismatches.append(f"{name}: with the wait after these the right kernel {ended}")
            (_, bare), *waits = zip(lines[::2], lines[1::2])
            bad = [who for (who, control), _ in waits if control]
            mismatches += [f"{name}: with {who} the right kernel is wrong" for who in bad]
            shown = [(who, wrong) for (who, control), wrong in waits if wrong and not control]
            kind = simulate(case.host, *case.arrays(), True).findings[0].kind
            rows.append((case.wrong, kind, bare, len(waits), *(shown or [("" if bare else "none", 0)])[0]))
    return report.Suite(
        "delays",
        f"Of {BARE} runs, how many does a GPU get wrong as they are, and of {DELAYED} with a wait before one line?",
        ("fault", "finding", f"wrong of {BARE}", "waits tried", "the wait that shows it", f"wrong of {DELAYED}"),
        tuple(rows),
        tuple(mismatches),
        tuple(notes),
        checked=len(rows),
        where=report.on_gpu(),
    )


if __name__ == "__main__":
    measure(sys.argv[1], lambda found: print(json.dumps(found), flush=True))
