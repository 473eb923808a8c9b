"""Suite `formulas`: every version of every ladder computes the formula of the first, whatever they round.

The simulator runs each on the same random numbers in finite fields beside floats, where sums, products, quotients, exponentials
and logarithms are exact (`cutesim.values.field`). An element that differs there is another formula's, however close its float is.
Sums over rows, which the versions leave in parts of their own, are added up in the fields. The record's rows on kernels of QuACK,
Liger, FlashInfer and cuDNN's front end were made once, by the program that it names.
"""

from __future__ import annotations

import functools
import time

import torch

from cutesim.simulation import simulate
from cutesim.values.field import FIELDS, same
from cutesim.values.trees import Trees
from quack_tutorial import compiler
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import FINAL, Ours, contiguous_rows
from quack_tutorial.records import suite as report
from quack_tutorial.shipped import PARTS, TARGETS, shape_of

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
        shape = shape_of(kind, ROWS, N, parts)
        if not isinstance(spec, compiler.TensorSpec):
            made.append(spec)
        elif kind == TARGETS:
            made.append(torch.arange(ROWS) * 37 % N)
        elif name in version.kernel.errors:
            made.append(torch.zeros(shape, dtype=getattr(torch, spec.dtype)))
        else:
            made.append(numbers(name, spec.dtype, shape))
    return host, made


def takes(version: Ours, dtype: str, N: int) -> bool:
    """Whether a version takes rows of N: those with whole vectors alone refuse others."""
    try:
        return bool(version.kernels(contiguous_rows(dtype, N)))
    except ValueError:
        return False


def elements(version: Ours, field, dtype: str, N: int) -> dict:
    """{output: its elements in a pair of fields}, sums over rows added up."""
    host, made = arguments(version, dtype, N)
    names = [parameter.name for parameter in compiler.parameters_of(host) if parameter.name != "stream"]
    run = simulate(host, *made, check=False, exact=field)
    found = {}
    for name, called in zip(version.arguments, names):
        if name in version.kernel.errors and called in run.exact:
            array = run.exact[called]
            found[name] = functools.reduce(field.add, array) if version.kernel.parameters[name] == PARTS else array
    return found


def compared(one, other) -> tuple[int, int, int]:
    """(elements of all outputs, those that differ, those of which no field knows); `one` and `other` give `elements` in a field."""
    counts, left, differ = 0, {}, 0
    for field in FIELDS:
        first, second = one(field), other(field)
        shared = first.keys() & second.keys()
        counts = sum(first[name].size for name in shared)
        for name in shared:
            parts, untaken = same(first[name], second[name])
            differ = max(differ, int(parts.sum()))
            left[name] = left.get(name, True) & untaken
        if differ or not any(untaken.any() for untaken in left.values()):
            break
    return counts, differ, sum(int(untaken.sum()) for untaken in left.values())


def cost() -> str:
    """A sentence: how many times a plain run's processor time runs take in a field, and with their trees kept."""
    spent = []
    for exact in (False, False, FIELDS[0], Trees()):  # the first run reads the sources
        began = time.process_time()
        for operation in OPERATIONS.values():
            host, made = arguments(operation.ours, "float32", 1000)
            simulate(host, *made, exact=exact)
        spent.append(time.process_time() - began)
    field, trees = (after / spent[1] for after in spent[2:])
    return f"what ships, on rows of 1,000 floats, takes {field:.1f} times as long in a field, {trees:.1f} times with trees kept"


def run(sample, progress) -> report.Suite:
    """Compare every version with the first one of its ladder."""
    rows, mismatches, notes = [], [], []

    def add(name, first, versions, dtype, N):
        found = [0, 0, 0]
        for version, (count, differ, unknown) in versions:
            found = [a + b for a, b in zip(found, (count, differ, unknown))]
            where = f"{name}, {version}, {dtype}, {N} columns"
            if differ:
                mismatches.append(f"{where}: {differ:,} of {count:,} elements differ from {first}")
            elif unknown:
                notes.append(f"{where}: of {unknown:,} elements no field knows")
        if versions:
            rows.append((name, first, len(versions), dtype, N, *found))

    for name, operation in OPERATIONS.items():
        versions = {version: ours for version, ours in operation.ladder.items() if version != FINAL} | {
            FINAL: operation.ours
        }
        (first, reference), *others = versions.items()
        for dtype, N in CASES[:1] if sample else CASES:
            progress(f"{name}, {dtype}, {N}")
            able = [(version, ours) for version, ours in others if takes(ours, dtype, N)]
            wanted = functools.partial(elements, dtype=dtype, N=N)
            found = [
                (version, compared(functools.partial(wanted, reference), functools.partial(wanted, ours)))
                for version, ours in (able[-1:] if sample else able)
            ]
            add(name, first, found, dtype, N)
    if not sample:
        notes.append(cost())
    return report.Suite(
        "formulas",
        "Is each version the same formula as the first one, without rounding?",
        ("operation", "compared with", "versions", "type", "columns", "elements", "differ", "not known"),
        tuple(rows),
        tuple(mismatches),
        tuple(notes),
        checked=sum(row[5] for row in rows),
    )
