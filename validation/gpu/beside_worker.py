"""One case of `mutation.inputs` on the GPU, altered or not: `python -m validation.gpu.beside_worker CASE RUNS [MODULE PATH]`.

With MODULE and PATH the module's source is the file PATH. It prints how many of RUNS, each on fresh inputs, had wrong outputs.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class Altered:
    """Finds one module in another file."""

    def __init__(self, module: str, path: str):
        self.module, self.path = module, path

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        """The spec of the altered module, None for every other."""
        return spec_from_file_location(name, self.path) if name == self.module else None


def main(case_name, runs, module="", path="") -> int:
    """Compile the case's kernel, run it, compare each run's outputs."""
    if module:
        sys.meta_path.insert(0, Altered(module, path))
    import numpy as np
    import torch

    from quack_tutorial import compiler
    from validation.gpu.device import on_gpu
    from validation.gpu.sanitizer import LAUNCHED
    from validation.mutation.inputs import cases

    case = next(case for case in cases() if case.name == case_name)
    wrong = 0
    for _ in range(int(runs)):
        fresh = case.arguments()
        arguments = on_gpu(fresh)
        print(LAUNCHED, flush=True) if not wrong else None
        compiler.launch(case.function, *arguments)
        torch.cuda.synchronize()
        back = [item.cpu().numpy() if isinstance(item, torch.Tensor) else item for item in arguments]
        with np.errstate(all="ignore"):
            wrong += not case.error(back) <= 1
    print(f"{wrong} of {runs} runs were wrong", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
