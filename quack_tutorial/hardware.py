"""What NVIDIA publishes about the GPUs that readers have: one row a card, with the source of each number.

| card        | GPU               | compute capability | memory bandwidth | SMs | L2      |
|-------------|-------------------|--------------------|------------------|-----|---------|
| h100        | H100 SXM5, 80 GB  | 9.0                | 3.35 TB/s        | 132 | 50 MB   |
| h100pcie    | H100 PCIe, 80 GB  | 9.0                | 2 TB/s           | 114 | 50 MB   |
| h100nvl     | H100 NVL, 94 GB   | 9.0                | 3.9 TB/s         | 132 |         |
| h200        | H200 SXM, 141 GB  | 9.0                | 4.8 TB/s         | 132 | 60 MiB  |
| gh200       | GH200, 96 GB      | 9.0                | 4 TB/s           | 132 | 60 MB   |
| b200        | B200, 180 GB      | 10.0               | 8 TB/s           | 148 | 126 MB  |
| a100_40     | A100, 40 GB       | 8.0                | 1.56 TB/s        | 108 | 40 MB   |
| a100_80     | A100 SXM, 80 GB   | 8.0                | 2.04 TB/s        | 108 | 40 MB   |
| a100_80pcie | A100 PCIe, 80 GB  | 8.0                | 1.94 TB/s        | 108 | 40 MB   |
| l4          | L4, 24 GB         | 8.9                | 0.3 TB/s         | 58  |         |
| l40s        | L40S, 48 GB       | 8.9                | 0.86 TB/s        | 142 |         |
| rtx3090     | RTX 3090, 24 GB   | 8.6                | 0.94 TB/s        | 82  | 6 MB    |
| rtx4090     | RTX 4090, 24 GB   | 8.9                | 1.01 TB/s        | 128 | 72 MB   |
| rtx5090     | RTX 5090, 32 GB   | 12.0               | 1.79 TB/s        | 170 | 96 MB   |

A card is named as in the first column: records, tables and the command line take these names (`card` says which is meant).
A datasheet's bandwidth is what the memory's pins could carry; no kernel reaches it, not even a copy. `None` stands where no page of
NVIDIA's was found that says a number.

Not covered: clocks, arithmetic rates.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

# Of an element, by the name that records give its type.
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
SCALE_COLUMNS = (
    128  # of a row in float8 that share a scale, where a row has several: as many as a matmul multiplies in one go
)
MOST_TOP, MOST_TOP_COLUMNS = 128, 4096  # the most numbers that top-k finds, and of how long a row


def usual_top(N: int) -> int:
    """The k of top-k in tests and in the benchmark, for rows of N: 8 up to 256, 32 up to 1,024, else 64."""
    return min(N, 8 if N <= 256 else 32 if N <= 1024 else 64)


# The compute capability that the kernels need at least, and those with clusters, transactions of an mbarrier, bulk copies, or an
# early start.
OLDEST, CLUSTERS = (8, 0), (9, 0)

COMPUTE_CAPABILITIES = "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/compute-capabilities.html"
HOPPER_IN_DEPTH = "https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/"
GRACE_HOPPER_IN_DEPTH = "https://developer.nvidia.com/blog/nvidia-grace-hopper-superchip-architecture-in-depth/"
AMPERE_IN_DEPTH = "https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth/"
BLACKWELL_TUNING_GUIDE = "https://docs.nvidia.com/cuda/blackwell-tuning-guide/"
DATA_CENTER = "https://www.nvidia.com/en-us/data-center/"
H100_PCIE_BRIEF = "https://www.nvidia.com/content/dam/en-zz/Solutions/gtcs22/data-center/h100/PB-11133-001_v01.pdf"
DEVICE_PROPERTIES = "https://docs.nvidia.com/cuda/cuda-runtime-api/structcudaDeviceProp.html"
WHITEPAPERS = "https://images.nvidia.com/aem-dam/"
GA102 = WHITEPAPERS + "en-zz/Solutions/geforce/ampere/pdf/NVIDIA-ampere-GA102-GPU-Architecture-Whitepaper-V1.pdf"
ADA = WHITEPAPERS + "Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"
RTX_BLACKWELL = WHITEPAPERS + "Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf"


@dataclass(frozen=True)
class Source:
    """Where the numbers of some fields come from: a page of NVIDIA's, and the place on it."""

    fields: tuple[str, ...]
    url: str
    where: str


@dataclass(frozen=True)
class GPU:
    """One GPU; `bandwidth_gb_s` is the datasheet's (1 GB = 1e9 bytes), sizes are in bytes."""

    card: str
    name: str
    torch_names: tuple[str, ...]  # what torch.cuda.get_device_name() says
    capability: tuple[int, int]
    bandwidth_gb_s: int
    memory_gb: int
    sms: int
    l2_bytes: int | None
    smem_per_sm_bytes: int
    smem_per_block_bytes: int
    registers_per_sm: int
    registers_per_thread: int
    threads_per_sm: int
    blocks_per_sm: int
    sources: tuple[Source, ...] = ()


# compute capability -> KB of shared memory an SM, threads an SM, blocks an SM
SMS = {
    (8, 0): (164, 2048, 32),
    (8, 6): (100, 1536, 16),
    (8, 9): (100, 1536, 24),
    (9, 0): (228, 2048, 32),
    (10, 0): (228, 2048, 32),
    (10, 3): (228, 2048, 32),
    (12, 0): (100, 1536, 24),
}
# Words of a name that tell a card from the most usual one of its first word.
TOLD_APART = ("PCIe", "NVL", "40GB")


def sm_of(capability: tuple[int, int]) -> dict:
    """What one SM of a compute capability has, as fields of `GPU`; of one not in the table, as of the last one before it."""
    smem_kb, threads, blocks = SMS[max((known for known in SMS if known <= capability), default=min(SMS))]
    return dict(
        smem_per_sm_bytes=smem_kb * 1024,
        smem_per_block_bytes=(smem_kb - 1) * 1024,
        registers_per_sm=65536,
        registers_per_thread=255,
        threads_per_sm=threads,
        blocks_per_sm=blocks,
    )


def _row(card, name, torch_names, capability, bandwidth_gb_s, memory_gb, sms, l2_mib, speed, size):
    """A row; `speed` and `size` are (page, place) of what the memory carries and holds, and of the number of SMs and L2's size."""
    sm = sm_of(capability)
    counted = ("sms", "l2_bytes") if l2_mib else ("sms",)
    sources = (
        Source(("bandwidth_gb_s", "memory_gb"), *speed),
        Source(counted, *size),
        Source(tuple(sm), COMPUTE_CAPABILITIES, f"tables 30 and 31, column {capability[0]}.{capability[1]}"),
    )
    l2_bytes = l2_mib * 1024**2 if l2_mib else None
    return GPU(card, name, torch_names, capability, bandwidth_gb_s, memory_gb, sms, l2_bytes, **sm, sources=sources)


_A100 = (AMPERE_IN_DEPTH, "A100 GPU hardware architecture and table 4")
GPUS = (
    _row(
        *("h100", "H100 SXM5 80GB", ("NVIDIA H100 80GB HBM3",), (9, 0), 3350, 80, 132, 50),
        (DATA_CENTER + "h100/", "Product Specifications, column H100 SXM"),
        (HOPPER_IN_DEPTH, "NVIDIA H100 GPU architecture in-depth, list of the SXM5 board"),
    ),
    _row(
        *("h100pcie", "H100 PCIe 80GB", ("NVIDIA H100 PCIe",), (9, 0), 2000, 80, 114, 50),
        (H100_PCIE_BRIEF, "product brief PB-11133-001, Overview and Memory"),
        (HOPPER_IN_DEPTH, "NVIDIA H100 GPU architecture in-depth, list of the PCIe board"),
    ),
    _row(
        *("h100nvl", "H100 NVL 94GB", ("NVIDIA H100 NVL",), (9, 0), 3900, 94, 132, None),
        (DATA_CENTER + "h100/", "Product Specifications, column H100 NVL"),
        (DATA_CENTER + "h100/", "60 teraFLOPS of float32, which 132 SMs of 128 lanes give at 1.785 GHz"),
    ),
    _row(
        *("h200", "H200 SXM 141GB", ("NVIDIA H200",), (9, 0), 4800, 141, 132, 60),
        (DATA_CENTER + "h200/", "Specifications, column H200 SXM"),
        # The H200 page names neither; these are what the driver answers.
        (DEVICE_PROPERTIES, "multiProcessorCount and l2CacheSize, as driver 580.159 answers on an H200"),
    ),
    _row(
        *("gh200", "GH200 96GB", ("NVIDIA GH200 480GB",), (9, 0), 4000, 96, 132, 60),
        (DATA_CENTER + "grace-hopper-superchip/", "Specifications, HBM3 memory"),
        (GRACE_HOPPER_IN_DEPTH, "L2 of 60 MB; SMs as of the H100 SXM, whose arithmetic rates the datasheet gives it"),
    ),
    _row(
        *("b200", "B200 180GB", ("NVIDIA B200",), (10, 0), 8000, 180, 148, 126),
        (DATA_CENTER + "dgx-b200/", "Specifications: 1,440 GB and 64 TB/s of eight"),
        (BLACKWELL_TUNING_GUIDE, "section 1.4.2.2; SMs as the driver answers, by pull request 4002 of pytorch/ao"),
    ),
    _row(
        *("a100_40", "A100 40GB", ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"), (8, 0), 1555, 40, 108, 40),
        (AMPERE_IN_DEPTH, "40 GB HBM2 and 40 MB L2 cache"),
        _A100,
    ),
    _row(
        *("a100_80", "A100 SXM 80GB", ("NVIDIA A100-SXM4-80GB",), (8, 0), 2039, 80, 108, 40),
        (DATA_CENTER + "a100/", "Specifications, column A100 80GB SXM"),
        _A100,
    ),
    _row(
        *("a100_80pcie", "A100 PCIe 80GB", ("NVIDIA A100 80GB PCIe",), (8, 0), 1935, 80, 108, 40),
        (DATA_CENTER + "a100/", "Specifications, column A100 80GB PCIe"),
        _A100,
    ),
    _row(
        *("l4", "L4 24GB", ("NVIDIA L4",), (8, 9), 300, 24, 58, None),
        (DATA_CENTER + "l4/", "Specifications"),
        (DATA_CENTER + "l4/", "product brief: 7,424 CUDA cores, 128 an SM"),
    ),
    _row(
        *("l40s", "L40S 48GB", ("NVIDIA L40S",), (8, 9), 864, 48, 142, None),
        (DATA_CENTER + "l40s/", "Specifications"),
        (DATA_CENTER + "l40s/", "Specifications: 18,176 CUDA cores, 128 an SM"),
    ),
    _row(
        *("rtx3090", "RTX 3090 24GB", ("NVIDIA GeForce RTX 3090",), (8, 6), 936, 24, 82, 6),
        (GA102, "table of the GeForce RTX 3090"),
        (GA102, "table of the GeForce RTX 3090"),
    ),
    _row(
        *("rtx4090", "RTX 4090 24GB", ("NVIDIA GeForce RTX 4090",), (8, 9), 1008, 24, 128, 72),
        (ADA, "table of the GeForce RTX 4090"),
        (ADA, "table of the GeForce RTX 4090"),
    ),
    _row(
        *("rtx5090", "RTX 5090 32GB", ("NVIDIA GeForce RTX 5090",), (12, 0), 1792, 32, 170, 96),
        (RTX_BLACKWELL, "table of the GeForce RTX 5090"),
        (RTX_BLACKWELL, "table of the GeForce RTX 5090"),
    ),
)


def find(torch_name: str) -> GPU | None:
    """The row of the GPU that torch calls `torch_name` ("NVIDIA H200"), or None where this table has none."""
    return next((gpu for gpu in GPUS if torch_name in gpu.torch_names), None)


def gpu(name: str) -> GPU:
    """The row of a card ("h200") or of that name ("H200 SXM 141GB"); KeyError names the rows there are."""
    for row in GPUS:
        if name in (row.card, row.name):
            return row
    raise KeyError(f"hardware has no GPU {name!r}: it has {', '.join(row.card for row in GPUS)}")


def called(card: str) -> str:
    """A card as a sentence names it, also one that this table lacks: "an H100", "an H100 PCIe", "an A10G"."""
    row = next((row for row in GPUS if row.card == card), None)
    first, *more = row.name.split() if row else card.upper().split("_")
    name = " ".join([first, *(more[:1] if first == "RTX" else [w for w in more if not row or w in TOLD_APART])])
    return f"{'an' if name[0] in 'AHLR' else 'a'} {name}"


def card_of(torch_name: str) -> str:
    """The card of the GPU that torch calls `torch_name`, also of one that this table lacks: "NVIDIA A10G" -> "a10g"."""
    row = find(torch_name)
    return row.card if row else re.sub(r"\W+", "_", torch_name.lower().removeprefix("nvidia ")).strip("_")


def nearest(row: GPU, cards) -> str:
    """That of `cards` which is most like the GPU `row`: by the ratios of SMs and of bandwidth, as logarithms added up."""

    def distance(card):
        other = gpu(card)
        return sum(abs(math.log(getattr(row, field) / getattr(other, field))) for field in ("sms", "bandwidth_gb_s"))

    return min(cards, key=distance)
