"""What compute-sanitizer watches: `python -m validation.gpu.shipped_worker CALL TOOL` makes a call of `shipped` at all its
cases for that tool."""

from __future__ import annotations

import sys
from functools import partial


def main(name, tool, device="cuda") -> int:
    """Make the named call at each of its cases, and wait for each before the next."""
    import torch

    from validation.gpu.sanitizer import LAUNCHED
    from validation.gpu.shipped import ALL_DONE, CALLS, cases

    def filled(*shape, dtype):
        return torch.randn(*shape, device=device).to(dtype)

    for dtype, M, N in cases(name, tool):
        rows = partial(filled, M, N, dtype=getattr(torch, dtype))
        print(LAUNCHED, f"{dtype} {M} x {N}", flush=True)
        CALLS[name].run(rows().requires_grad_(), rows, lambda of, N=N: filled(N, dtype=of))
        if device == "cuda":
            torch.cuda.synchronize()
    print(ALL_DONE, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
