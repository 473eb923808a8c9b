"""Record the PTX and the SASS of a copy. Needs CuTe DSL, ptxas and nvdisasm (pip install nvidia-cuda-nvdisasm), and no GPU.

    python scripts/record_listing.py CopyVectors float32 4096 --out quack_tutorial/records/listings/copy-vectors.json

The generated name of the kernel is shortened to `kernel`; blank lines and comments are left out.
"""

import argparse
import datetime
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import cutlass

from quack_tutorial import compiler
from quack_tutorial.kernels import copy


def made(name: str, dtype: str, N: int) -> str:
    """The PTX of a version of the copy, for aligned rows."""
    kernel = getattr(copy, name)(getattr(cutlass, compiler.DTYPES[dtype]), N)
    spec = compiler.TensorSpec(dtype, ("M", N), ("stride", 1))
    return compiler.ptx(kernel, spec, spec)


def disassembled(ptx: str) -> list[str]:
    """The machine code that ptxas makes of PTX, an instruction or a label a line, without addresses."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        subprocess.run(["ptxas", f"-arch={compiler.HOPPER_ARCH}", str(source), "-o", str(binary)], check=True)
        text = output("nvdisasm", "-c", str(binary))
    lines = (re.sub(r"/\*.*?\*/", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line.endswith(";") or re.match(r"\.L_x_\d+:", line)]


def readable(ptx: str) -> list[str]:
    """The lines of PTX without comments and blank ones, with the kernel's name shortened."""
    name = re.search(r"\.entry\s+([\w$]+)", ptx).group(1)
    lines = (line.split("//")[0].rstrip() for line in ptx.replace(name, "kernel").splitlines())
    return [line for line in lines if line]


def output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is not on the PATH")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def version_of(tool: str) -> str:
    return re.search(r"V(\d+\.\d+\.\d+)", output(tool, "--version")).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel", help="a class of quack_tutorial.kernels.copy")
    parser.add_argument("dtype", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("N", type=int)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    ptx = made(args.kernel, args.dtype, args.N)
    record = {
        "kernel": args.kernel,
        "dtype": args.dtype,
        "N": args.N,
        "versions": {"CuTe DSL": cutlass.__version__, "ptxas": version_of("ptxas"), "nvdisasm": version_of("nvdisasm")},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python scripts/record_listing.py {args.kernel} {args.dtype} {args.N} --out {Path(args.out).name}",
        "registers": compiler.resources(ptx).registers,
        "ptx": readable(ptx),
        "sass": disassembled(ptx),
    }
    Path(args.out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
