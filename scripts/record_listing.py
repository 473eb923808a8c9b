"""Record the PTX and the SASS of a kernel, each line with the line of source that it is from; or the SASS that chapters count in.

    cd quack_tutorial/records/listings
    python ../../../scripts/record_listing.py copy CopyVectors float32 4096 --out copy-vectors.json
    python ../../../scripts/record_listing.py softmax SoftmaxRegisters float32 512 --out softmax-registers.json
    python ../../../scripts/record_listing.py --out counted.json

Needs CuTe DSL, ptxas and nvdisasm (pip install nvidia-cuda-nvdisasm), and no GPU. The generated name of the kernel is shortened to
`kernel`; blank lines and comments are left out. Line information changes no instruction: a test compiles without it.
"""

import argparse
import importlib
import os
import re
import subprocess
from pathlib import Path

os.environ["CUTE_DSL_LINEINFO"] = "1"  # read by the DSL when it is imported

import cutlass

from bench import memory, ours
from quack_tutorial import compiler, machine_code, records

# Of `bench.memory.compiled_cases`.
READS = "a plain loop", "unroll=4", "four a turn", "stream 16 x 8"
STEERED = "rmsnorm", "cluster", "float32", 131072
LEAST = 1, 2, 3, 4  # blocks of an SM


def made(module: str, name: str, dtype: str, N: int) -> str:
    """The PTX of a class of `quack_tutorial.kernels`, for aligned rows."""
    kernel = getattr(importlib.import_module(f"quack_tutorial.kernels.{module}"), name)
    spec = compiler.TensorSpec(dtype, ("M", N), ("stride", 1))
    return compiler.ptx(kernel(getattr(cutlass, compiler.DTYPES[dtype]), N), spec, spec)


def steered(ptx: str, blocks: int) -> str:
    """PTX that asks for so few registers that `blocks` blocks share an SM, as `min_blocks_per_mp` of a launch does."""
    return re.sub(r"(\.reqntid .*)", rf"\1\n.minnctapersm {blocks}", ptx)


def kept(ptx: str, *fields: str) -> dict:
    return {field: getattr(machine_code.assembled(ptx), field) for field in fields}


def counted() -> dict:
    """What chapters count in: the SASS of `READS`, and what becomes of `STEERED`."""
    cases = {name: compiler.ptx(kernel, *specs) for name, kernel, specs in memory.compiled_cases() if name in READS}
    (ptx,) = ours.ptx(*STEERED)
    return {
        "kernels": [
            {"name": name, "ptx_sha256": compiler.ptx_hash(text)} | kept(text, "registers", "sass")
            for name, text in cases.items()
        ],
        "steered": [
            {"least_blocks": blocks} | kept(steered(ptx, blocks), "registers", "spill_store_bytes", "spill_load_bytes")
            for blocks in LEAST
        ],
        "steered_kernel": {"name": " ".join(map(str, STEERED)), "ptx_sha256": compiler.ptx_hash(ptx)},
    }


def version_of(tool: str) -> str:
    said = subprocess.run([machine_code.tool(tool), "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", said).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "kernel", nargs="*", help="module of quack_tutorial.kernels, class, type, N; default: what is counted"
    )
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if problem := machine_code.missing():
        parser.error(problem)
    if args.kernel:
        try:
            found = listing(*args.kernel[:3], int(args.kernel[3]))
        except (ImportError, AttributeError, IndexError) as error:
            parser.error(f"there is no kernel {' '.join(args.kernel)}: {error}")
    else:
        found = counted()
    made_by = {
        "versions": {"CuTe DSL": cutlass.__version__, "ptxas": version_of("ptxas"), "nvdisasm": version_of("nvdisasm")},
        "date": records.today(),
        "command": " ".join(["python scripts/record_listing.py", *args.kernel, f"--out {Path(args.out).name}"]),
    }
    records.save(args.out, made_by | found)


def listing(module: str, name: str, dtype: str, N: int) -> dict:
    """The PTX and the SASS of a kernel, and the lines of source that they are from."""
    ptx = made(module, name, dtype, N)
    code = machine_code.assembled(ptx)
    listed = {"ptx": machine_code.located(ptx), "sass": list(zip(code.sass, code.places))}
    places = list(dict.fromkeys(place for lines in listed.values() for _, place in lines if place))
    number = {place: i for i, place in enumerate(sorted(places))}
    return {
        "kernel": name,
        "dtype": dtype,
        "N": N,
        "registers": code.registers,
        "sources": [machine_code.source_line(*place)[:2] for place in sorted(places)],
        **{kind: [[number.get(place, -1), text] for text, place in lines] for kind, lines in listed.items()},
    }


if __name__ == "__main__":
    main()
