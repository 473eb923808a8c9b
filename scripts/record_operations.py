"""Record what a Hopper GPU gives for every operation on edge values, and print where it differs from the specification.

python scripts/record_operations.py

Writes quack_tutorial/records/validation/operations-h200.json, which `python -m validation operations` compares the simulator
with. A worker process runs the kernels one after another; when one fails, or does not come back, that is recorded as its
result and a fresh worker goes on with the next.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

KERNEL_S = 20


def worker(numbers: range, device: str = "cuda") -> None:
    """Run these cases; one JSON line each."""
    from quack_tutorial.compiler import launch
    from validation import operations, workers

    known = operations.cases()

    def bits(number):
        case = known[number]
        x, out = operations.tensors(case, device)
        launch(case.host, x, out)
        bits = operations.bits_of(out).reshape(case.out_shape)[:, : case.count]
        return {"bits": [operations.packed(row) for row in bits]}

    workers.work(numbers, bits, device)


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
    parser.add_argument("--worker", metavar="NUMBERS", help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, metavar="FILE", help="where to write (quack_tutorial/records/validation)")
    args = parser.parse_args()
    from quack_tutorial import compiler
    from validation import operations, workers

    if args.worker is not None:
        worker(workers.numbers(args.worker))
        return 0

    problem = compiler.dsl_problem() or compiler.gpu_problem()
    if problem:
        print(f"record_operations: {problem}", file=sys.stderr)
        return 1
    known, bits, failed, differences = operations.cases(), {}, {}, []
    command = [sys.executable, __file__, "--worker"]
    for number, line in workers.results(command, range(len(known)), KERNEL_S):
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
