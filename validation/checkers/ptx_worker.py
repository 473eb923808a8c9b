"""Writes the PTX of every kernel, right and broken: `python -m validation.checkers.ptx_worker FOLDER`.

It is a process of its own because CuTe DSL reads when it is imported whether to note source lines (CUTE_DSL_LINEINFO).
"""

import sys
from pathlib import Path

import torch

from quack_tutorial import compiler
from validation.checkers import kernels

if __name__ == "__main__":
    for case in kernels.CASES.values():
        for bug in (False, True):
            text = compiler.ptx(case.host, *map(torch.from_numpy, case.arrays()), bug)
            Path(sys.argv[1], f"{case.name}.{bug:d}.ptx").write_text(text, encoding="utf-8")
