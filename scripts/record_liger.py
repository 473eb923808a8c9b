"""Record what Triton and ptxas make of Liger's softmax: registers, stack, and each instruction that touches memory.

    pip install --target FOLDER --no-deps triton==3.6.0 liger-kernel==0.8.5
    PYTHONPATH=FOLDER python scripts/record_liger.py --out quack_tutorial/records/listings/liger-softmax.json

Compiles for Hopper without a GPU, for rows of 32768 and 65536 float32 numbers as Liger launches them, with Triton's own ptxas
and nvdisasm. Triton compiles a launch's aligned pointers and lengths for multiples of 16, and so does this.
"""

import argparse
import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
import types
from importlib import metadata
from pathlib import Path

from quack_tutorial import records

try:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
except ImportError as error:
    sys.exit(f"record_liger: it records what Triton makes of Liger's softmax, and neither may be missing here: {error}")

LENGTHS = 32768, 65536
TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?;)", re.MULTILINE)
MEMORY = re.compile(r"\b(LDG|STG|LDL|STL|LDS|STS|BAR)\b")


def liger_softmax():
    """Liger's module, without the rest of the library, which would look for a GPU."""
    folder = Path(importlib.util.find_spec("liger_kernel").submodule_search_locations[0])
    for name, path in (("liger_kernel", folder), ("liger_kernel.ops", folder / "ops")):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)]
    return importlib.import_module("liger_kernel.ops.softmax")


def compiled(module, N: int) -> dict:
    """What ptxas says of the kernel for rows of N numbers, and its instructions that touch memory, with their places."""
    block, warps = module.calculate_settings(N)
    types_of = {"Y_ptr": "*fp32", "Y_row_stride": "i32", "X_ptr": "*fp32", "X_row_stride": "i32", "n_cols": "i32"}
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(len(types_of))}
    source = ASTSource(
        module._softmax_single_block_forward_kernel,
        types_of | {"BLOCK_SIZE": "constexpr"},
        constexprs={(len(types_of),): block},
        attrs=attributes,
    )
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        used = said("cuobjdump", "--dump-resource-usage", file.name)
        code = INSTRUCTION.findall(said("nvdisasm", "-c", file.name))
    registers, stack = (int(re.search(rf"{what}:(\d+)", used)[1]) for what in ("REG", "STACK"))
    memory = [(place, line) for place, line in enumerate(code) if MEMORY.search(line)]
    return {
        "N": N,
        "threads": 32 * warps,
        "registers": registers,
        "stack_bytes": stack,
        "instructions": len(code),
        "memory": memory,
    }


def said(tool: str, *arguments: str) -> str:
    """What one of Triton's own tools prints."""
    return subprocess.run([TOOLS / tool, *arguments], check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description="Record the machine code of Liger's softmax.")
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    module = liger_softmax()
    record = {
        "kernel": "Liger's _softmax_single_block_forward_kernel",
        "dtype": "float32",
        "versions": {
            "Liger": metadata.version("liger-kernel"),
            "Triton": triton.__version__,
            "ptxas": re.search(r"V([\d.]+)", said("ptxas", "--version"))[1],
        },
        "date": records.today(),
        "command": f"python scripts/record_liger.py --out {Path(out).name}",
    }
    records.save(out, record | {"cells": [compiled(module, N) for N in LENGTHS]})


if __name__ == "__main__":
    main()
