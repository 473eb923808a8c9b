"""What compute-sanitizer watches: `python -m validation.gpu.sanitizer_worker CASE` runs one seeded bug on the GPU.

`all-correct` runs every case without its bug.
"""

from __future__ import annotations

import sys


def main(name) -> int:
    """Run the named case once; its arguments are allocations of their own, and its output starts unwritten."""
    import torch

    from quack_tutorial import compiler
    from validation.gpu.sanitizer import ALL_CORRECT, LAUNCHED
    from validation.gpu.seeded_bugs import CASES

    bug = name != ALL_CORRECT
    for case in CASES:
        if bug and case.name != name:
            continue
        x, out = (torch.from_numpy(array) for array in case.arrays())
        x, out = x.cuda(), torch.empty(out.shape, device="cuda")
        print(LAUNCHED, case.name, flush=True)
        compiler.launch(case.host, x, out, bug)
        torch.cuda.synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
