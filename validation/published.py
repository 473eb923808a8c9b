"""Kernels of published packages, run unchanged on the simulator and compared with float64.

Each package is fetched from the package index with pip, its wheel unpacked, and its kernels are run by a process of their own
(`published_worker`; the cases are `published_kernels`). What is refused is said by name; what is found in somebody's kernel is a
mismatch, unless `TRUE` says why it is so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from quack_tutorial.records.suite import Suite
from validation import others, published_worker

COLUMNS = ("kernels of", "version", "run", "right and clean", "refused by name", "findings")
SOURCES = {
    "quack": "QuACK",
    "liger": "Liger",
    "flashinfer": "FlashInfer",
    "nvidia": "NVIDIA's examples (in FlashInfer)",
    "cudnn": "cudnn-frontend",
}
# Findings that are true: the kernel, and what reading it shows.
_INITIALISED = (
    "the lane that each warp elects initialises the one mbarrier, and a second time is undefined by the PTX ISA"
)
TRUE = {
    (
        "liger",
        "LayerNorm backward",
    ): "the second sum of a row and the first of the next go through one slot, and no barrier stands "
    "between the one's read and the other's write",
    ("liger", "cutedsl: rotary embedding, tensor map"): _INITIALISED,
    ("liger", "cutedsl: rotary embedding, tensor map, backward"): _INITIALISED,
    (
        "flashinfer",
        "block_prefix_sum, several tiles",
    ): "the sums of a tile's warps are still read while the next tile's are written "
    "over them, and no barrier stands between",
    (
        "flashinfer",
        "radix top-k, two blocks a row",
    ): "thread 0 signals that its block has arrived while the block's other threads "
    "may still clear and count; no barrier stands before the signal",
    (
        "flashinfer",
        "gated delta rule, decoding",
    ): "lane 0 overwrites the slot that lane 1 reads, and only a shuffle, which orders no "
    "memory, stands between; what it writes depends on what was read, so that a GPU gives the right number",
}


def run(sample: bool, progress) -> Suite:
    """A row a source; a sample runs the first package."""
    rows, notes, mismatches, checked = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for package in list(published_worker.PACKAGES)[: 1 if sample else None]:
            progress(package)
            wheel = others.fetched(package, Path(folder))
            if wheel is None:
                mismatches.append(f"{package}: the index has no wheel for this machine")
                continue
            told, version = verdicts(others.unpacked(wheel), package), wheel.name.split("-")[1]
            for source in dict.fromkeys(one["source"] for one in told):
                kernels = [one for one in told if one["source"] == source]
                rows.append(counted(source, version, kernels))
                checked += len(kernels)
                said, wrong = explained(source, kernels)
                notes, mismatches = notes + said, mismatches + wrong
    title = "Kernels of published packages, run as they are"
    return Suite("published", title, COLUMNS, tuple(rows), tuple(mismatches), tuple(notes), checked)


def verdicts(folder: Path, package: str) -> list[dict]:
    """What `published_worker` says of a package's kernels; RuntimeError with its last line where it ends with an error."""
    command = [sys.executable, "-m", "validation.published_worker", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise RuntimeError(f"{package}: {(done.stderr.strip() or 'no word').splitlines()[-1]}")
    return json.loads(done.stdout)


def counted(source: str, version: str, kernels) -> tuple:
    """A source's row."""
    number = {
        verdict: sum(one["verdict"] == verdict for one in kernels) for verdict in ("right", "not simulated", "finding")
    }
    return (SOURCES[source], version, len(kernels), *number.values())


def explained(source: str, kernels) -> tuple[list, list]:
    """What a reader of the row has to know, and what is not as it should be."""
    notes, mismatches = [], []
    for one in kernels:
        name, why = f"{SOURCES[source]}, {one['name']}", one["why"].removeprefix("not simulated: ")
        if one["verdict"] == "not simulated":
            notes.append(f"{name}: refused for {why}")
        elif one["verdict"] == "finding" and (source, one["name"]) in TRUE:
            notes.append(f"{name}: {TRUE[source, one['name']]}. The report: {why}")
        elif one["verdict"] != "right":
            mismatches.append(f"{name}: {one['verdict']}: {why}")
    return notes, mismatches
