"""What the kernels of published packages use of CuTe DSL that the simulator lacks.

Each package is fetched from the package index with pip, its wheel unpacked, and its kernels read (`census`): nothing of it is
imported or run, and of CuTe DSL's own sources nothing is read. A kernel without a gap uses no name that the simulator does not
have; methods of values and what a host function does are not seen, so that some of these are still refused when they run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

from quack_tutorial.records.suite import Suite
from validation import census

PACKAGES = ("quack-kernels", "liger-kernel", "flashinfer-python", "nvidia-cudnn-frontend")
COLUMNS = ("package", "kernels", "that can run on Hopper", "without a gap", "share", "wanted most")
WANTED = 4


def run(sample: bool, progress) -> Suite:
    """A row a package; a sample reads the smallest two."""
    rows, notes, checked, wanted = [], [], 0, Counter()
    total = clean = 0
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES[:2] if sample else PACKAGES:
            progress(package)
            wheel = fetched(package, Path(folder))
            if wheel is None:
                notes.append(f"{package}: the index has no wheel for this machine")
                continue
            found = census.kernels(unpacked(wheel))
            row, gaps = counted(f"{package} {wheel.name.split('-')[1]}", found)
            rows.append(row)
            checked, total, clean = checked + row[1], total + row[2], clean + row[3]
            wanted.update(gaps)
    rows.append(("all", checked, total, clean, share(clean, total), most(wanted)))
    return Suite(
        "others",
        "What published kernels use that the simulator lacks",
        COLUMNS,
        tuple(rows),
        notes=tuple(notes),
        checked=checked,
    )


def counted(name: str, kernels) -> tuple[tuple, Counter]:
    """A package's row, and how many of its kernels want each name."""
    hopper = [kernel for kernel in kernels if not kernel.is_newer]
    clean = sum(not kernel.lacking for kernel in hopper)
    gaps = Counter(name for kernel in hopper for name, _ in kernel.lacking)
    return (name, len(kernels), len(hopper), clean, share(clean, len(hopper)), most(gaps)), gaps


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def most(gaps: Counter) -> str:
    return ", ".join(f"{name.removeprefix('cutlass.')} ({n})" for name, n in gaps.most_common(WANTED)) or "-"


def fetched(package: str, folder: Path) -> Path | None:
    """The wheel of a package's newest release, None where the index has none."""
    target = folder / package
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "-q",
        "-d",
        str(target),
        package,
    ]
    if subprocess.run(command, capture_output=True, timeout=600).returncode:
        return None
    return next(target.glob("*.whl"), None)


def unpacked(wheel: Path) -> Path:
    """The folder of a wheel's Python files, without CuTe DSL's own."""
    folder = wheel.parent / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py") and not any(part in f"/{name}" for part in census.SKIPPED):
                archive.extract(name, folder)
    return folder
