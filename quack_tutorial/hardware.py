"""What NVIDIA publishes about the GPUs that the book's figures refer to: one row a GPU, with the source of each number.

| GPU               | memory bandwidth | SMs | L2       |
|-------------------|------------------|-----|----------|
| H100 SXM5, 80 GB  | 3.35 TB/s        | 132 | 50 MB    |
| H100 PCIe, 80 GB  | 2 TB/s           | 114 | 50 MB    |
| H200 SXM, 141 GB  | 4.8 TB/s         | 132 | 60 MiB   |

The three share one SM (compute capability 9.0): 227 KB of shared memory for a block, 228 KB an SM, 65536 registers.
A datasheet's bandwidth is what the memory's pins could carry; no kernel reaches it, not even a copy.

Not covered: H100 NVL, GH200, H20, clocks, arithmetic rates.
"""

from __future__ import annotations

from dataclasses import dataclass

TUNING_GUIDE = "https://docs.nvidia.com/cuda/hopper-tuning-guide/index.html"
HOPPER_IN_DEPTH = "https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/"
H100_PAGE = "https://www.nvidia.com/en-us/data-center/h100/"
H200_PAGE = "https://www.nvidia.com/en-us/data-center/h200/"
H100_PCIE_BRIEF = "https://www.nvidia.com/content/dam/en-zz/Solutions/gtcs22/data-center/h100/PB-11133-001_v01.pdf"
DEVICE_PROPERTIES = "https://docs.nvidia.com/cuda/cuda-runtime-api/structcudaDeviceProp.html"


@dataclass(frozen=True)
class Source:
    """Where the numbers of some fields come from: a page of NVIDIA's, and the place on it."""

    fields: tuple[str, ...]
    url: str
    where: str


@dataclass(frozen=True)
class GPU:
    """One GPU; `bandwidth_gb_s` is the datasheet's (1 GB = 1e9 bytes), sizes are in bytes."""

    name: str
    torch_names: tuple[str, ...]  # what torch.cuda.get_device_name() says
    bandwidth_gb_s: int
    memory_gb: int
    sms: int
    l2_bytes: int
    smem_per_sm_bytes: int
    smem_per_block_bytes: int
    registers_per_sm: int
    registers_per_thread: int
    threads_per_sm: int
    blocks_per_sm: int
    sources: tuple[Source, ...]


_SM = dict(
    smem_per_sm_bytes=228 * 1024,
    smem_per_block_bytes=227 * 1024,
    registers_per_sm=65536,
    registers_per_thread=255,
    threads_per_sm=64 * 32,
    blocks_per_sm=32,
)
_SM_SOURCE = Source(tuple(_SM), TUNING_GUIDE, "section 1.4.1.1, Occupancy (64 warps, 32 blocks, 64K registers, 228 KB)")

GPUS = (
    GPU(
        name="H100 SXM5 80GB",
        torch_names=("NVIDIA H100 80GB HBM3",),
        bandwidth_gb_s=3350,
        memory_gb=80,
        sms=132,
        l2_bytes=50 * 1024**2,
        **_SM,
        sources=(
            Source(("bandwidth_gb_s", "memory_gb"), H100_PAGE, "Product Specifications, column H100 SXM"),
            Source(
                ("sms", "l2_bytes"), HOPPER_IN_DEPTH, "NVIDIA H100 GPU architecture in-depth, list of the SXM5 board"
            ),
            _SM_SOURCE,
        ),
    ),
    GPU(
        name="H100 PCIe 80GB",
        torch_names=("NVIDIA H100 PCIe",),
        bandwidth_gb_s=2000,
        memory_gb=80,
        sms=114,
        l2_bytes=50 * 1024**2,
        **_SM,
        sources=(
            Source(("bandwidth_gb_s", "memory_gb"), H100_PCIE_BRIEF, "product brief PB-11133-001, Overview and Memory"),
            Source(
                ("sms", "l2_bytes"), HOPPER_IN_DEPTH, "NVIDIA H100 GPU architecture in-depth, list of the PCIe board"
            ),
            _SM_SOURCE,
        ),
    ),
    GPU(
        name="H200 SXM 141GB",
        torch_names=("NVIDIA H200",),
        bandwidth_gb_s=4800,
        memory_gb=141,
        sms=132,
        l2_bytes=60 * 1024**2,
        **_SM,
        sources=(
            Source(("bandwidth_gb_s", "memory_gb"), H200_PAGE, "Specifications, column H200 SXM"),
            # The H200 page names neither; these are what the driver answers.
            Source(
                ("sms", "l2_bytes"),
                DEVICE_PROPERTIES,
                "multiProcessorCount and l2CacheSize, as driver 580.159 answers on an H200",
            ),
            _SM_SOURCE,
        ),
    ),
)


def find(torch_name: str) -> GPU | None:
    """The row of the GPU that torch calls `torch_name` ("NVIDIA H200"), or None where this table has none."""
    return next((gpu for gpu in GPUS if torch_name in gpu.torch_names), None)


def gpu(name: str) -> GPU:
    """The row called `name` ("H200 SXM 141GB"); KeyError names the rows there are."""
    for row in GPUS:
        if row.name == name:
            return row
    raise KeyError(f"hardware has no GPU {name!r}: it has {', '.join(row.name for row in GPUS)}")
