"""How many clusters of blocks a GPU runs at once.

The blocks of a cluster share a graphics processing cluster (GPC) of up to 18 SMs, some of which are switched off (NVIDIA, H100
architecture white paper): an H200 of 132 SMs was seen to run 7 clusters of 16 blocks at once, not 8. A kernel whose blocks
stay and go through rows in a loop must know: with 8 clusters, the last starts when the others are done, and takes as long
again.
"""

import functools

from quack_tutorial.compiler import COMPILING


@functools.cache
def clusters_at_once(device, blocks):
    """How many clusters of `blocks` blocks, with one block on an SM, run at once on `device` (a `torch.device`).

    1 on the CPU, where the simulator runs one after the other. Source: the driver, which `cutlass.utils.HardwareInfo` asks.
    """
    if device.type != "cuda":
        return 1
    import torch

    if blocks == 1:
        return torch.cuda.get_device_properties(device).multi_processor_count
    from cuda.bindings import runtime
    from cutlass.utils import HardwareInfo

    with COMPILING, torch.cuda.device(device):
        index = torch.cuda.current_device()
        # The driver asks for the thread's context, and a thread of autograd's may have done nothing on the GPU so far: then it has
        # none, and torch's own guard, which finds the right device current, does not make one.
        (error,) = runtime.cudaSetDevice(index)
        if error:
            raise RuntimeError(f"the driver cannot be asked about clusters: {error}")
        return HardwareInfo(index).get_max_active_clusters(blocks)
