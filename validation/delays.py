"""Suite `delays`: does a GPU show the faults of `corpus` that depend on order, as they are and with a wait before one line?

Each faulty kernel runs BARE times as it is. Where none is wrong, it runs again with each wait that `cutesim.delays` proposes from
the simulator's finding, until one shows the fault. The right kernel runs with the same wait and must stay right: what fails is the
fault's doing. A case is a process of its own; one that hangs is ended, and told.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from cutesim import delays
from cutesim.simulation import simulate
from quack_tutorial.records import suite as report
from validation import corpus

BARE, DELAYED = 1000, 20
SECONDS, AT_ONCE = 60, 10


def wrong_results(case, bug: bool, times: int) -> int:
    """How many of so many launches on the GPU leave other results than the case says."""
    import torch

    from quack_tutorial.compiler import compile_for

    x, y, out = (torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in case.arrays())
    wanted = torch.from_numpy(np.ascontiguousarray(case.right(*case.arrays()[:2]))).cuda().to(out.dtype)
    compiled, given = compile_for(case.host, x, y, out, bug), (x.clone(), y.clone())
    wrong = 0
    for _ in range(times):
        x.copy_(given[0]), y.copy_(given[1]), out.zero_()
        compiled(x, y, out, bug)
        wrong += not torch.allclose(out, wanted, rtol=1e-4, atol=1e-4)
    return wrong


def with_delay(name: str, delay, folder: Path):
    """The case of that name in a copy of the corpus that has the wait."""
    path = folder / f"corpus_{delay.line}_{abs(hash(delay.which))}.py"
    path.write_text(delays.delayed(Path(corpus.__file__).read_text(encoding="utf-8"), delay), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(case for case in module.CASES if case.name == name)


def measure(name: str) -> None:
    """Print, as lines of JSON, how many runs are wrong; where none is, of each wait [who waits, how many of the right kernel's
    runs are wrong with it] and then how many of the faulty one's, until some are."""
    case = next(case for case in corpus.CASES if case.name == name)
    bare = wrong_results(case, True, BARE)
    print(json.dumps(bare), flush=True)
    (finding, *_) = simulate(case.host, *case.arrays(), True).findings
    with tempfile.TemporaryDirectory() as folder:
        for delay in [] if bare else delays.candidates(finding):
            other = with_delay(name, delay, Path(folder))
            text = Path(corpus.__file__).read_text(encoding="utf-8").splitlines()[delay.line - 1].split("#")[0].strip()
            print(json.dumps([f"{delay.who} before `{text}`", wrong_results(other, False, DELAYED)]), flush=True)
            wrong = wrong_results(other, True, DELAYED)
            print(json.dumps(wrong), flush=True)
            if wrong:
                return


def _tried(case) -> tuple[list, str]:
    """What `measure` printed in a process of its own; what ended that process, "" where nothing did."""
    command = [sys.executable, "-m", "validation.delays", case.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        return _lines(late.stdout), "hangs"
    said = [line for line in done.stderr.splitlines() if "Error" in line]
    return _lines(done.stdout), "" if done.returncode == 0 else (said or ["ends with an error"])[-1]


def _lines(text) -> list:
    text = text.decode() if isinstance(text, bytes) else text or ""
    return [json.loads(line) for line in text.splitlines() if re.match(r"\[|\d", line)]


def run(sample, progress) -> report.Suite:
    """Try every case whose finding has a wait to offer."""
    cases = [case for case in corpus.CASES if case.kind in delays.KINDS and not case.orders]
    rows, mismatches, notes = [], [], []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for case, (lines, ended) in zip(cases, pool.map(_tried, cases[:2] if sample else cases)):
            progress(case.name)
            if not lines:
                mismatches.append(f"{case.name}: {ended}")
                continue
            bare, *tried = lines
            waits = [*zip(tried[::2], [*tried[1::2], ended])]
            if ended and not waits:
                mismatches.append(f"{case.name}: with the first wait the right kernel {ended}")
            notes += [
                f"{case.name}: with {who} the right kernel is wrong too" for (who, control), _ in waits if control
            ]
            (who, control), became = waits[-1] if waits else (("", 0), 0)
            shown = bool(became) and not control
            notes += [f"{case.name}: {became}"] if isinstance(became, str) and became not in ("", "hangs") else []
            became = became if became in ("", "hangs") or isinstance(became, int) else "an error"
            rows.append(
                (
                    case.wrong,
                    case.kind,
                    bare,
                    len(waits),
                    who if shown else "" if bare else "none",
                    became if shown else 0,
                )
            )
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
    measure(sys.argv[1])
