"""What Nsight Compute profiles: `python -m validation.gpu.counters_worker CASES.json` launches each named case once.

Compiled, with its arguments on the GPU, before the profiler is switched on for its launch alone. A case that could not be
launched is named, with the reason, in refused.json beside CASES.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(path) -> int:
    """Launch the cases that the JSON list in `path` names, in its order."""
    import torch

    from quack_tutorial import compiler
    from validation.gpu import counters, device

    by_name = {case.name: case for case in counters.cases()}
    profiler = torch.cuda.cudart()
    refused = {}
    for name in json.loads(Path(path).read_text()):
        case = by_name[name]
        try:
            arguments = device.on_gpu(case.arguments())
            run = compiler.compile_for(case.host, *arguments)
            torch.cuda.synchronize()
        except Exception as error:  # whatever the compiler raises: it is one case's, and is said of that case
            refused[name] = f"{type(error).__name__}: {error}"[:500]
            continue
        profiler.cudaProfilerStart()
        run(*arguments)
        torch.cuda.synchronize()
        profiler.cudaProfilerStop()
    Path(path).with_name("refused.json").write_text(json.dumps(refused))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
