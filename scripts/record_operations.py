"""Record what a Hopper GPU gives for every operation on edge values, and print where it differs from the specification.

python scripts/record_operations.py

Writes quack_tutorial/records/validation/operations-h200.json, which `python -m validation operations` compares the simulator
with. A worker process runs the kernels one after another; when one fails, or does not come back, that is recorded as its
result and a fresh worker goes on with the next.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from pathlib import Path

START_S, KERNEL_S = 120, 20


def worker(first: int, device: str = "cuda") -> None:
    """Run the cases from this number on; one JSON line each, and before them an empty one. Ends when the GPU is lost."""
    import torch

    from quack_tutorial.compiler import launch
    from validation import operations

    torch.zeros(1, device=device)
    print("{}", flush=True)
    for case in operations.cases()[first:]:
        try:
            x, out = operations.tensors(case, device)
            launch(case.host, x, out)
            bits = operations.bits_of(out).reshape(case.out_shape)[:, : case.count]
            said = {"bits": [operations.packed(row) for row in bits]}
        except Exception as error:  # the compiler's or the GPU's: it is this case's result
            said = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        print(json.dumps(said), flush=True)
        if "failed" in said:
            try:
                torch.zeros(1, device=device).cpu()
            except Exception:  # the CUDA context is lost; a fresh worker goes on
                return


def results(command: list, count: int, start_s: float = START_S, each_s: float = KERNEL_S):
    """(number, line) of so many jobs, through as many workers as it takes: `command` and the first number start one. A job that
    takes longer than `each_s`, or whose worker dies, has failed. RuntimeError where none starts."""
    done = 0
    while done < count:
        process, first, late = subprocess.Popen([*command, str(done)], stdout=subprocess.PIPE, text=True), done, []

        def end(process=process, late=late):
            late.append(True)
            process.kill()

        started, timer = False, threading.Timer(start_s, end)
        timer.start()
        for line in process.stdout:
            if not line.startswith("{"):  # the compiler's or the kernel's talk
                continue
            timer.cancel()
            if started:
                yield done, json.loads(line)
                done += 1
            started, timer = True, threading.Timer(each_s, end)
            timer.start()
        timer.cancel()
        status = process.wait()
        if not started:
            raise RuntimeError("no worker could start; see the lines above")
        if done < count and (late or status or first == done):
            why = f"did not come back within {each_s} s" if late else f"its process ended with status {status}"
            yield done, {"failed": why}
            done += 1


def where() -> dict:
    """The device, the driver, the versions and the day (UTC)."""
    import torch

    from quack_tutorial import compiler, machine, records

    return {
        "device": torch.cuda.get_device_name(),
        "driver": machine.detect().driver or "unknown",
        "dsl": compiler.DSL_VERSION,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "date": records.today(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", type=int, metavar="FIRST", help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, metavar="FILE", help="where to write (quack_tutorial/records/validation)")
    args = parser.parse_args()
    from quack_tutorial import compiler
    from validation import operations

    if args.worker is not None:
        worker(args.worker)
        return 0

    problem = compiler.dsl_problem() or compiler.gpu_problem()
    if problem:
        print(f"record_operations: {problem}", file=sys.stderr)
        return 1
    known, bits, failed, differences = operations.cases(), {}, {}, []
    command = [sys.executable, __file__, "--worker"]
    for number, line in results(command, len(known)):
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
