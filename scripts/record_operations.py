"""Record what a Hopper GPU gives for every operation on edge values, and print where it differs from the specification.

python scripts/record_operations.py

Writes book/records/validation/operations-h200.json, which `quack-tutorial validate operations` compares the simulator
with. A worker process runs the kernels one after another; when one fails, or does not come back, that is recorded as its
result and a fresh worker goes on with the next.
"""

from __future__ import annotations

import argparse
import datetime
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

START_S, KERNEL_S = 120, 20  # a worker's first sign of life, and then each kernel


def worker(first: int, device: str = "cuda") -> None:
    """Run the cases from number `first` on; one JSON line each."""
    import torch

    from quack_tutorial.compiler import launch
    from quack_tutorial.validate import operations

    known = operations.cases()
    torch.zeros(1, device=device)
    say({"ready": True})
    for number in range(first, len(known)):
        case = known[number]
        try:
            x, out = operations.tensors(case, device)
            launch(case.host, x, out)
            bits = operations.bits_of(out).reshape(case.out_shape)[:, : case.count]
            said = {"bits": [operations.packed(row) for row in bits]}
        except Exception as error:  # the compiler's or the GPU's: it is this case's result
            said = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        say({"number": number, **said})
        if "failed" in said and not alive(device):
            return  # the CUDA context is lost; a fresh worker goes on


def alive(device: str) -> bool:
    """Whether the device still computes."""
    import torch

    try:
        torch.zeros(1, device=device).cpu()
    except Exception:
        return False
    return True


def say(line: dict) -> None:
    print(json.dumps(line), flush=True)


class Worker:
    """A worker process and the lines it has said."""

    def __init__(self, first: int):
        command = [sys.executable, __file__, "--worker", str(first)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # the rest is the compiler's or the kernel's talk
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, seconds: int):
        """Its next line; None when it ended, "late" when it took too long."""
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return "late"

    def end(self):
        self.process.kill()
        self.process.wait()


def results(names: list[str]):
    """(number, line) of every case, through as many workers as it takes."""
    number = 0
    while number < len(names):
        running = Worker(number)
        line = running.next(START_S)
        if not isinstance(line, dict):
            running.end()
            raise SystemExit("record_operations: no worker could start on this GPU; see the lines above")
        while number < len(names):
            line = running.next(KERNEL_S)
            if isinstance(line, dict):
                yield number, line
            elif line == "late":
                yield number, {"failed": f"did not come back within {KERNEL_S} s"}
            elif running.process.wait() != 0:
                yield number, {"failed": f"its process ended with status {running.process.returncode}"}
            else:
                break  # the worker gave up after a failure that it has said
            number += 1
            if not isinstance(line, dict):
                break
        running.end()


def where() -> dict:
    """The device, the driver, the versions and the day (UTC)."""
    import torch

    from quack_tutorial import compiler

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=30)
        driver = said.stdout.splitlines()[0] if said.stdout else "unknown"
    except OSError:
        driver = "unknown"
    return {
        "device": torch.cuda.get_device_name(),
        "driver": driver,
        "dsl": compiler.DSL_VERSION,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", type=int, metavar="FIRST", help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, metavar="FILE", help="where to write (book/records/validation)")
    args = parser.parse_args()
    if args.worker is not None:
        worker(args.worker)
        return 0
    from quack_tutorial import compiler
    from quack_tutorial.validate import operations

    problem = compiler.dsl_problem() or compiler.gpu_problem()
    if problem:
        print(f"record_operations: {problem}", file=sys.stderr)
        return 1
    known, bits, failed, differences = operations.cases(), {}, {}, []
    for number, line in results([case.name for case in known]):
        case = known[number]
        if "failed" in line:
            failed[case.name] = line["failed"]
            print(f"FAILED {case.name}: {line['failed']}", flush=True)
            continue
        for operation, text in zip(case.operations, line["bits"]):
            got = operations.unpacked(text, operations.STORAGE[case.types[1]][0])
            bits[case.key(operation)] = got
            agrees = operations.agreeing(operation, case, got)
            if not agrees.all():
                differences.append(operations.sentence(operation, case, got, agrees, "the GPU"))
    path = args.to or operations.record_path()
    operations.save_record(operations.Record(where(), bits, failed), path)
    print("\n".join(differences))
    total = sum(len(one) for one in bits.values())
    print(f"{total:,} results of {len(bits)} operations, {len(failed)} of {len(known)} kernels failed,", end=" ")
    print(f"{len(differences)} operations differ from the specification; {path} ({path.stat().st_size // 1000} KB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
