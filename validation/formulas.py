"""Suite `formulas`: every version of every ladder computes the formula of the first, whatever they round.

The simulator runs each on the same random numbers in finite fields beside floats, where sums, products, quotients, exponentials
and logarithms are exact (`cutesim.values.field`). An element that differs there is another formula's, however close its float is.
Sums over rows, which the versions leave in parts of their own, are added up in the fields.
"""

from __future__ import annotations

import functools

import torch

from cutesim.simulation import simulate
from cutesim.values.field import FIELDS, same
from quack_tutorial import compiler
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import FINAL, Ours, contiguous_rows
from quack_tutorial.records import suite as report
from quack_tutorial.shipped import COLUMNS, MATRIX, PARTS, TARGETS

ROWS, CLUSTERS = 6, 4
CASES = ("float32", 256), ("float32", 1000), ("float32", 331), ("bfloat16", 1000), ("bfloat16", 331), ("float16", 256)


def numbers(name: str, dtype: str, shape) -> torch.Tensor:
    """Positive numbers that depend on the name and shape alone, such as a sum of squares or the root of one may be."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)) + sum(shape))
    return (torch.rand(shape, generator=generator) + 0.25).to(getattr(torch, dtype))


def arguments(version: Ours, dtype: str, N: int) -> tuple:
    """(the host object of a version's first launch, its arguments)."""
    host, specs = version.kernels(contiguous_rows(dtype, N))[0]
    parts = (
        host.parts_of(ROWS, host.most_parts(CLUSTERS) if hasattr(host, "most_parts") else CLUSTERS)
        if hasattr(host, "parts_of")
        else 0
    )
    made = []
    for name, spec in zip(version.arguments, specs, strict=True):
        kind = version.kernel.parameters[name]
        shape = {MATRIX: (ROWS, N), COLUMNS: (N,), PARTS: (parts, N)}.get(kind, (ROWS,))
        if not isinstance(spec, compiler.TensorSpec):
            made.append(spec)
        elif kind == TARGETS:
            made.append(torch.arange(ROWS) * 37 % N)
        elif name in version.kernel.errors:
            made.append(torch.zeros(shape, dtype=getattr(torch, spec.dtype)))
        else:
            made.append(numbers(name, spec.dtype, shape))
    return host, made


def elements(version: Ours, dtype: str, N: int, field) -> dict:
    """{output: its elements in a pair of fields}, sums over rows added up."""
    host, made = arguments(version, dtype, N)
    names = [parameter.name for parameter in compiler.parameters_of(host) if parameter.name != "stream"]
    run = simulate(host, *made, exact=field)
    if not run.ok:
        raise ValueError(str(run))
    found = {}
    for name, called in zip(version.arguments, names):
        if name in version.kernel.errors and called in run.exact:
            array = run.exact[called]
            found[name] = functools.reduce(field.add, array) if version.kernel.parameters[name] == PARTS else array
    return found


def compared(first: Ours, other: Ours, dtype: str, N: int) -> tuple[int, int, int]:
    """(elements of all outputs, those that differ, those of which no field knows)."""
    counts, left, differ = 0, {}, 0
    for field in FIELDS:
        one, two = (elements(version, dtype, N, field) for version in (first, other))
        shared = one.keys() & two.keys()
        counts = sum(one[name].size for name in shared)
        for name in shared:
            parts, untaken = same(one[name], two[name])
            differ = max(differ, int(parts.sum()))
            left[name] = left.get(name, True) & untaken
        if differ or not any(untaken.any() for untaken in left.values()):
            break
    return counts, differ, sum(int(untaken.sum()) for untaken in left.values())


def run(sample, progress) -> report.Suite:
    """Compare every version with the first one of its ladder."""
    rows, mismatches, checked = [], [], 0
    for name, operation in OPERATIONS.items():
        versions = {version: ours for version, ours in operation.ladder.items() if version != FINAL} | {
            FINAL: operation.ours
        }
        (first, reference), *others = versions.items()
        for dtype, N in CASES[:1] if sample else CASES:
            progress(f"{name}, {dtype}, {N}")
            total = different = untaken = 0
            for version, ours in others[-1:] if sample else others:
                count, differ, unknown = compared(reference, ours, dtype, N)
                total, different, untaken = total + count, different + differ, untaken + unknown
                if differ or unknown:
                    what = (
                        f"{differ:,} of {count:,} elements differ"
                        if differ
                        else f"of {unknown:,} elements no field knows"
                    )
                    mismatches.append(f"{name}, {version}, {dtype}, {N} columns: {what} from {first}")
            if others:
                rows.append((name, first, len(others), dtype, N, total, different, untaken))
                checked += total
    return report.Suite(
        "formulas",
        "Is each version the same formula as the first one, without rounding?",
        ("operation", "compared with", "versions", "type", "columns", "elements", "differ", "not known"),
        tuple(rows),
        tuple(mismatches),
        checked=checked,
    )
