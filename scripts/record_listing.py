"""Record the PTX and the SASS of a kernel, each line with the line of source that it is from.

    cd quack_tutorial/records/listings
    python ../../../scripts/record_listing.py copy CopyVectors float32 4096 --out copy-vectors.json
    python ../../../scripts/record_listing.py softmax SoftmaxRegisters float32 512 --out softmax-registers.json

Needs CuTe DSL, ptxas and nvdisasm (pip install nvidia-cuda-nvdisasm), and no GPU. The generated name of the kernel is shortened to
`kernel`; blank lines and comments are left out. Line information changes no instruction: a test compiles without it.
"""

import argparse
import ast
import importlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

os.environ["CUTE_DSL_LINEINFO"] = "1"  # read by the DSL when it is imported

import cutlass

from quack_tutorial import compiler, records

PTX_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
SASS_LOCATION = re.compile(r'\s*//## File "([^"]+)", line (\d+)')


def made(module: str, name: str, dtype: str, N: int) -> str:
    """The PTX of a class of `quack_tutorial.kernels`, for aligned rows."""
    kernel = getattr(importlib.import_module(f"quack_tutorial.kernels.{module}"), name)
    spec = compiler.TensorSpec(dtype, ("M", N), ("stride", 1))
    return compiler.ptx(kernel(getattr(cutlass, compiler.DTYPES[dtype]), N), spec, spec)


def disassembled(ptx: str) -> list[tuple[str, tuple[str, int] | None]]:
    """The machine code that ptxas makes of PTX, an instruction or a label a line, without addresses; and where each is from."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        subprocess.run(
            ["ptxas", f"-arch={compiler.HOPPER_ARCH}", "-lineinfo", str(source), "-o", str(binary)], check=True
        )
        text = output("nvdisasm", "-c", "-g", str(binary))
    found, place = [], None
    for line in text.splitlines():
        if location := SASS_LOCATION.match(line):
            place = location[1], int(location[2])
        line = re.sub(r"/\*.*?\*/", "", line).strip()
        if line.endswith(";") or re.match(r"\.L_x_\d+:", line):
            found.append((line, place if line.endswith(";") else None))
    return found


def readable(ptx: str) -> list[tuple[str, tuple[str, int] | None]]:
    """The lines of PTX without comments and blank ones, with the kernel's name shortened; and where each is from."""
    files = dict(re.findall(r'\.file\s+(\d+)\s+"([^"]+)"', ptx))
    name = re.search(r"\.entry\s+([\w$]+)", ptx).group(1)
    body = ptx.replace(name, "kernel").split(".section", 1)[0]
    found, place = [], None
    for line in body.splitlines():
        if location := PTX_LOCATION.match(line):
            place = files[location[1]], int(location[2])
            continue
        line = line.split("//")[0].rstrip()
        if line and not line.startswith("\t.file"):
            found.append((line, place if line.startswith("\t") and line.endswith(";") else None))
    return found


@cache
def source_line(file: str, number: int) -> tuple[str, str]:
    """(function, text) of a line; of a `def` or its decorator, the text is what stands there."""
    text = Path(file).read_text(encoding="utf-8")
    inside = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and min([node.lineno, *(d.lineno for d in node.decorator_list)]) <= number <= node.end_lineno
    ]
    function = max(inside, key=lambda node: node.lineno).name if inside else ""
    return function, text.splitlines()[number - 1].strip()


def output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is not on the PATH")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def version_of(tool: str) -> str:
    return re.search(r"V(\d+\.\d+\.\d+)", output(tool, "--version")).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", help="a module of quack_tutorial.kernels")
    parser.add_argument("kernel", help="a class there")
    parser.add_argument("dtype", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("N", type=int)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    missing = [tool for tool in ("ptxas", "nvdisasm") if shutil.which(tool) is None]
    if missing:
        parser.error(f"{' and '.join(missing)} must be on the PATH")
    try:
        ptx = made(args.module, args.kernel, args.dtype, args.N)
    except (ImportError, AttributeError) as error:
        parser.error(f"there is no kernel {args.module} {args.kernel}: {error}")
    listed = {"ptx": readable(ptx), "sass": disassembled(ptx)}
    places = list(dict.fromkeys(place for lines in listed.values() for _, place in lines if place))
    sources = [source_line(*place) for place in sorted(places)]
    number = {place: i for i, place in enumerate(sorted(places))}
    asked = f"{args.module} {args.kernel} {args.dtype} {args.N}"
    record = {
        "kernel": args.kernel,
        "dtype": args.dtype,
        "N": args.N,
        "versions": {"CuTe DSL": cutlass.__version__, "ptxas": version_of("ptxas"), "nvdisasm": version_of("nvdisasm")},
        "date": records.today(),
        "command": f"python scripts/record_listing.py {asked} --out {Path(args.out).name}",
        "registers": compiler.resources(ptx).registers,
        "sources": sources,
        **{kind: [[number.get(place, -1), text] for text, place in lines] for kind, lines in listed.items()},
    }
    records.save(args.out, record)


if __name__ == "__main__":
    main()
