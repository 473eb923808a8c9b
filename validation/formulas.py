"""Suite `formulas`: every version of every ladder computes the formula of the first, whatever they round.

The simulator runs each on the same random numbers in finite fields beside floats, where sums, products, quotients, exponentials
and logarithms are exact (`cutesim.values.field`). An element that differs there is another formula's, however close its float is.
Sums over rows, which the versions leave in parts of their own, are added up in the fields. Where QuACK, Liger, FlashInfer or
cuDNN's front end is installed, its kernels are compared with ours as well.
"""

from __future__ import annotations

import functools
import sys
import time
from importlib import import_module, metadata
from importlib.util import find_spec
from types import SimpleNamespace
from unittest.mock import patch

import torch

from cutesim.machine.scheduler import SMEM_LIMIT
from cutesim.simulation import simulate
from cutesim.sums import results
from cutesim.values.field import FIELDS, same
from cutesim.values.trees import Trees
from quack_tutorial import compiler
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import FINAL, Ours, contiguous_rows
from quack_tutorial.records import suite as report
from quack_tutorial.shipped import COLUMNS, MATRIX, PARTS, TARGETS

ROWS, CLUSTERS = 6, 4
IGNORED, EPS = -100, 1e-6
TUNED = "quack_tutorial.kernels.tuned"
LIGER = "liger_kernel.ops.backends._cutedsl"
OTHERS = {"quack": "quack-kernels", "liger_kernel": "liger-kernel"}
OTHERS |= {"flashinfer": "flashinfer-python", "cudnn": "nvidia-cudnn-frontend"}
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


def output(call, names: str, field) -> dict:
    """The elements of one output of a kernel and its arguments, which has one of these names."""
    kernel, *args = call
    found = results(kernel, args, field, {"check": False})[0]
    return {"": next(elements for called, elements in found.items() if called.lower() in names.split())}


def releases() -> dict:
    """{distribution: release} of others' kernels that are installed."""
    return {name: metadata.version(name) for package, name in OTHERS.items() if find_spec(package)}


def peers(N: int):
    """(whose, what, our kernel and its arguments, theirs and its, the output's names in small letters) of rows of N in float32."""
    import cutlass

    loss, norm, rows = (import_module(f"{TUNED}.{name}") for name in ("cross_entropy", "norm", "softmax"))
    kind, zeros = cutlass.Float32, torch.zeros(ROWS, N)
    x, dy = (numbers(name, "float32", (ROWS, N)) for name in ("x", "dy"))
    w, b = (numbers(name, "float32", (N,)) for name in ("w", "b"))
    target, row = torch.arange(ROWS) * 37 % N, torch.zeros(ROWS)
    softmax, backward = (rows.Softmax(kind, N), x, zeros), (rows.SoftmaxBackward(kind, N), x, dy, zeros)
    ours = norm.RMSNorm(kind, N), x, w, None, None, zeros, None, None, EPS
    centred = norm.LayerNorm(kind, N), x, w, b, zeros, None, None, EPS

    def norms(whose, module, *stream):
        rest = None, None, None, EPS, *stream
        yield whose, "rmsnorm", ours, (module.RMSNorm(kind, N), x, w, None, None, zeros, *rest), "mo"
        theirs = module.RMSNorm(kind, N, is_layernorm=True), x, w, b, None, zeros, *rest
        yield whose, "layernorm", centred, theirs, "mo"

    if find_spec("quack"):
        quack = {name: import_module(f"quack.{name}") for name in ("cross_entropy", "rmsnorm", "softmax")}
        for online in (True, False):
            how = "online" if online else "two passes"
            yield "QuACK", f"softmax, {how}", softmax, (quack["softmax"].Softmax(kind, N, online), x, zeros), "mo"
            theirs = quack["cross_entropy"].CrossEntropy(kind, N, online), x, target, None, row, *[None] * 3, IGNORED
            mine = loss.CrossEntropy(kind, N), x, target, row, row, IGNORED
            yield "QuACK", f"cross-entropy, {how}", mine, theirs, "mloss"
        yield "QuACK", "softmax backward", backward, (quack["softmax"].SoftmaxBackward(kind, N), dy, x, zeros), "mdx"
        yield from norms("QuACK", quack["rmsnorm"])
    if find_spec("liger_kernel"):
        liger, forward = (import_module(f"{LIGER}.{name}") for name in ("softmax", "_cute_lib.rmsnorm_fwd"))
        theirs = liger._LigerSoftmaxCuTeDSLForward(kind, N), x, zeros, None
        yield "Liger", "softmax", softmax, theirs, "mo"
        theirs = liger._LigerSoftmaxCuTeDSLBackward(kind, N), dy, x, zeros, None
        yield "Liger", "softmax backward", backward, theirs, "mdx"
        yield from norms("Liger", forward, None)
    if find_spec("flashinfer"):
        layernorm, rmsnorm = (import_module(f"flashinfer.norm.kernels.{name}") for name in ("layernorm", "rmsnorm"))
        shared = SimpleNamespace(shared_memory_per_block_optin=SMEM_LIMIT)
        with patch.multiple(torch.cuda, current_device=int, get_device_properties=lambda _: shared):
            kernel = rmsnorm.RMSNormKernel(kind, N, sm_version=90)
        yield "FlashInfer", "rmsnorm", ours, (kernel, x, w, zeros, ROWS, EPS, False, None), "mo my"
        theirs = layernorm.LayerNormKernel(kind, N), zeros, x, w, b, ROWS, EPS, False, None
        yield "FlashInfer", "layernorm", centred, theirs, "mo my"
    if find_spec("cudnn"):  # as its API chooses: a warp a row where vectors fill its lanes, else a block
        primitives = import_module("cutlass.experimental.primitives")  # as public releases call what it imports
        sys.modules.setdefault("cutlass.primitives", primitives)
        config = import_module("cudnn.norm.config_sm100")
        block, warp = (import_module(f"cudnn.norm.fprop.kernels.layernorm{how}_sm100") for how in ("", "_warp"))
        shape = config.make_warp_cfg(config.TemplateParams(config.NormVariant.LAYER_NORM, "fp32"), N)
        for name, mine, centres in (("rmsnorm", ours, False), ("layernorm", centred, True)):
            if shape:
                host, how = warp._warp_fwd_host, (1, EPS, N, shape[-1], *shape[:-1], kind, cutlass.Int32, 5, True)
            else:
                threads = config.choose_block_threads(N)
                host, how = block._ln_fwd_host, (EPS, N, 4, threads, 4, block.STAGE_BULK, False)
            theirs = host, x, zeros, w, b, row, row, ROWS, *how, centres, centres, *((0, None) if shape else (None,))
            yield "cuDNN", name, mine, theirs, "mo my"


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
    """Compare every version with the first one of its ladder, and ours with QuACK's."""
    rows, mismatches, notes = [], [], []

    def add(name, first, versions, dtype, N, told=mismatches):
        found = [0, 0, 0]
        for version, (count, differ, unknown) in versions:
            found = [a + b for a, b in zip(found, (count, differ, unknown))]
            where = f"{name}, {version}, {dtype}, {N} columns"
            if differ:
                told.append(f"{where}: {differ:,} of {count:,} elements differ from {first}")
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
    for N in () if sample else (256, 1000):
        for whose, name, ours, theirs, out in peers(N):
            calls = [functools.partial(output, call, out) for call in (ours, theirs)]
            add(name, whose, [(FINAL, compared(*calls))], "float32", N, notes)  # which is right, reading them says
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
        where=report.here() | ({} if sample else releases()),
    )
