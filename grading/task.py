"""`quack-tutorial labs export-task LAB FOLDER`: a lab's kernel as a task for others, and the verdict on a time that they measured.

| in FOLDER                                     | what                                                                      |
|-----------------------------------------------|---------------------------------------------------------------------------|
| `kernelbot/<lab>/`                            | a problem of KernelBot                                                    |
| `flashinfer/definitions/reduction/<lab>.json` | a Definition of FlashInfer-Bench; `flashinfer` is the root of a data set   |
| `flashinfer/workloads/reduction/<lab>.jsonl`  | its workloads, and in `flashinfer/blob` inputs that are not random        |

A problem stands beside the `eval.py` and `utils.py` of a problem set whose checks return a pair: `pmpp_v2` or `nvidia`, say.

A task has two stages. `quack-tutorial grade LAB FILE --json` tries the class on the simulator and says right, wrong, race, waste
or refused, with the lines. What passes runs where there is a GPU, and `--measured M,N,TIME_US,GPU` adds the time that it took: a
kernel that was faster than its bytes can be moved is refused, because it has not moved them.

Both were tried in November 2026 without a GPU: KernelBot's loader and evaluation, and FlashInfer-Bench 0.1.2's data set, reference
and check of a solution, with each lab's solution on the simulator. FlashInfer-Bench allows 1 % by default, which an index may be
off by; `--rtol 1e-4 --atol 1e-4` leaves no such room.
"""

from __future__ import annotations

import json
import textwrap
import uuid
from pathlib import Path

import numpy as np

from quack_tutorial import hardware

from . import folders, lab

FIRST = "    x = mX.double()\n"
LARGEST = (
    FIRST
    + "    most = x.max(dim=1, keepdim=True).values\n"
    + "    return most[:, 0].float(), (x == most).int().argmax(dim=1).int()\n"
)
# lab -> the body of run(inputs) in PyTorch
RUN = {
    "guarded-copy": FIRST + "    return x.float(), x.max(dim=1).values.float(), x.sum(dim=1).float()\n",
    "butterfly": FIRST + "    return x.minimum(x.topk(2, dim=1).values[:, 1:]).float()\n",
    "block-reduce": LARGEST,
    "cluster-reduce": LARGEST,
    "rmsnorm": "    w, shape = mW.double(), (len(mX), -1, mW.shape[0])\n"
    + "    x, dy = mX.double().reshape(shape), mDy.double().reshape(shape)\n"
    + "    r = (x.square().mean(dim=2, keepdim=True) + {EPS}).rsqrt()\n"
    + "    dx = r * (w * dy - x * r * (w * dy * x * r).mean(dim=2, keepdim=True))\n"
    + "    each = (dy * x * r).sum(dim=1)\n"
    + "    parts = torch.stack([each[b :: {PARTS}].sum(dim=0) for b in range({PARTS})])\n"
    + "    return dx.flatten(1).half(), parts.float()\n",
    "softmax": FIRST + "    return x.logsumexp(dim=1).float()\n",
    "cross-entropy": FIRST
    + "    ignored, target = mT == {IGNORED}, mT.clamp(min=0).long()[:, None]\n"
    + "    logs = x.log_softmax(dim=1)\n"
    + "    loss = -(1 - {SMOOTHING}) * logs.gather(1, target)[:, 0] - {SMOOTHING} * logs.mean(dim=1)\n"
    + "    smooth = torch.full_like(x, {SMOOTHING} / x.shape[1]).scatter_add(1, target, torch.full_like(x, 1 - {SMOOTHING}))\n"
    + "    gradient = torch.where(ignored[:, None], 0.0, logs.exp() - smooth)\n"
    + "    return torch.where(ignored, 0.0, loss).float(), gradient.float()\n",
    "roof": FIRST + "    return (x / x.abs().mean(dim=1, keepdim=True)).float()\n",
}
TESTS = ((5, 96), (64, 256), (128, 1000))
TIMED = ((32768, 1024), (32768, 4096))
KIND = "reduction"  # what FlashInfer-Bench calls a type of operation
PARTS = 256  # blocks of a kernel whose blocks each work on several rows
AXES = {"M": "M", "N": "N", "D": "N // 4", "P": str(PARTS)}  # as a task's Python says their lengths


def measured(name: str, M: int, N: int, time_us: float, gpu: str) -> dict:
    """What a time says of a kernel's bytes: the floor, the share of it, and whether memory can be so fast.

    A ValueError for a lab without a kernel, and for a GPU, as torch or its maker calls it, whose bandwidth is not known.
    """
    known = hardware.find(gpu) or next((one for one in hardware.GPUS if one.name == gpu), None)
    if known is None:
        raise ValueError(
            f"the bandwidth of {gpu!r} is not known: name one of {', '.join(one.name for one in hardware.GPUS)}"
        )
    floor_us = least_bytes(name, M, N) / known.bandwidth_gb_s / 1e3
    said = {"gpu": known.name, "M": M, "N": N, "time_us": time_us, "floor_us": round(floor_us, 3)}
    if time_us < floor_us:
        moved = f"the {floor_us:.4g} us that its {least_bytes(name, M, N):,} bytes take"
        why = f"{time_us:g} us is less than {moved}: it has not moved them"
        return said | {"verdict": "refused", "why": why}
    return said | {"verdict": "right", "share": round(floor_us / time_us, 4)}


def least_bytes(name: str, M: int, N: int) -> int:
    """The bytes of all inputs and outputs at a size."""
    _, inputs, outputs = tensors(name)
    size, total = sizes(M, N), 0
    for axes, dtype in (*inputs.values(), *outputs.values()):
        total += (
            int(dtype.removeprefix("float").removeprefix("int"))
            // 8
            * (size[axes[0]] * (size[axes[1]] if axes[1:] else 1))
        )
    return total


def sizes(M: int, N: int) -> dict:
    """The length of each axis of a task of M rows and N columns: D of a head, P of the parts that blocks leave."""
    return {"M": M, "N": N, "D": N // 4, "P": PARTS}


def tensors(name: str) -> tuple[object, dict, dict]:
    """(a case, {input: (axes, type)}, {output: (axes, type)}) of a lab's kernel; ValueError where it asks for none."""
    if name not in RUN:
        raise ValueError(f"{name} asks for no kernel; these do: {', '.join(RUN)}")
    case = next(case for case in lab(name).cases() if not case.target)
    M, N = case.inputs["mX"].shape
    axis = {M: "M", N: "N"} | dict.fromkeys(case.make[1:], "P")
    named = [
        {key: (tuple(axis.get(n, "D") for n in array.shape), str(array.dtype)) for key, array in part.items()}
        for part in (case.inputs, case.outputs)
    ]
    return case, *named


def run_source(name: str) -> str:
    """`run` of a lab in PyTorch, in float64 inside."""
    module, (_, inputs, _) = lab(name), tensors(name)
    body = RUN[name].format(
        PARTS=PARTS, **{key: getattr(module, key) for key in ("EPS", "IGNORED", "SMOOTHING") if hasattr(module, key)}
    )
    return f"import torch\n\n\ndef run({', '.join(inputs)}):\n{body}"


def export(name: str, folder: Path) -> list[Path]:
    """Write a lab's task; the files written. A ValueError says why there are none."""
    files = {folder / "kernelbot" / name / file: text for file, text in kernelbot(name).items()}
    definition, workloads, blobs = flashinfer(name)
    root = folder / "flashinfer"
    files[root / "definitions" / KIND / f"{name}.json"] = json.dumps(definition, indent=2) + "\n"
    files[root / "workloads" / KIND / f"{name}.jsonl"] = "".join(json.dumps(one) + "\n" for one in workloads)
    files |= {root / path: data for path, data in blobs.items()}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return list(files)


def about(name: str) -> str:
    """What a task asks for, as the lab's docstring says it."""
    return (
        textwrap.dedent(lab(name).__doc__)
        .strip()
        .split("\n\n", 1)[1]
        .replace("Neither book nor package solves it", "Hint")
    )


def flashinfer(name: str) -> tuple[dict, list[dict], dict]:
    """A Definition, its workloads, and {path: bytes} of the inputs that random numbers would not do for."""
    _, inputs, outputs = tensors(name)

    def described(part):
        return {key: {"shape": list(axes), "dtype": dtype} for key, (axes, dtype) in part.items()}

    axes = {axis for found, _ in (*inputs.values(), *outputs.values()) for axis in found}
    known = {axis for found, _ in inputs.values() for axis in found}  # the length of any other is fixed
    definition = {
        "name": name.replace("-", "_"),
        "op_type": KIND,
        "description": lab(name).TITLE,
        "axes": {
            axis: {"type": "var"} if axis in known else {"type": "const", "value": PARTS} for axis in sorted(axes)
        },
        "inputs": described(inputs),
        "outputs": described(outputs),
        "reference": run_source(name),
    }
    if "D" in axes:
        definition["constraints"] = ["N == 4 * D"]
    workloads, blobs = [], {}
    for M, N in TIMED:
        size, given = sizes(M, N), {}
        for one, (shape, dtype) in inputs.items():
            given[one] = {"type": "random"}
            if dtype.startswith("int"):  # columns, where random whole numbers would be none
                path = f"blob/workloads/{KIND}/{name}/{M}x{N}.safetensors"
                columns = np.random.default_rng([M, N]).integers(0, N, [size[axis] for axis in shape]).astype(dtype)
                given[one] = {"type": "safetensors", "path": path, "tensor_key": one}
                blobs[path] = safetensors(one, columns)
        key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {M} {N}"))
        workload = {"uuid": key, "axes": {axis: size[axis] for axis in sorted(known)}, "inputs": given}
        workloads.append({"definition": definition["name"], "workload": workload, "solution": None, "evaluation": None})
    return definition, workloads, blobs


def safetensors(name: str, array: np.ndarray) -> bytes:
    """A file of that format with one array: the header's length, the header as JSON, the bytes."""
    told = {"dtype": f"I{8 * array.itemsize}", "shape": list(array.shape), "data_offsets": [0, array.nbytes]}
    header = json.dumps({name: told}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + array.tobytes()


def kernelbot(name: str) -> dict:
    """{file: text} of a problem."""
    module, (case, inputs, outputs) = lab(name), tensors(name)
    made = []
    for axes, dtype in inputs.values():
        shape = ", ".join(AXES[axis] for axis in axes)
        if dtype.startswith("int"):
            made.append(f"torch.randint(0, N, ({shape},), generator=random, dtype=torch.{dtype}, device=DEVICE)")
        else:
            made.append(f"(torch.randn(({shape},), generator=random, device=DEVICE) + 0.25).to(torch.{dtype})")
    tolerance = []
    for key, (_, dtype) in outputs.items():
        relative, absolute = getattr(module, "TOLERANCE", {}).get(key, (1e-6, 1e-6))
        tolerance.append(
            (relative + (2**-10 if dtype == "float16" else 0), absolute)
        )  # the reference has been rounded, too
    sizes = [f'  - {{"M": {M}, "N": {N}, "seed": {1000 + 7 * M + N}}}' for M, N in TESTS]
    timed = [f'  - {{"M": {M}, "N": {N}, "seed": {M + N}}}' for M, N in TIMED]
    floors = [f"M = {M}, N = {N} needs {least_bytes(name, M, N):,} bytes" for M, N in TIMED]
    files = {
        "submission.py": "@SUBMISSION@",
        "task.py": "task.py",
        "utils.py": "../utils.py",
        "reference.py": "reference.py",
        "eval.py": "../eval.py",
    }
    listed = "\n".join(f'  - {{"name": "{file}", "source": "{source}"}}' for file, source in files.items())
    text = textwrap.indent(
        f"{module.TITLE}.\n\n{about(name)}\n\n{'; '.join(floors)}. A time below that is refused.", "  "
    )
    yml = f'# {name}\n\nfiles:\n{listed}\n\nlang: "py"\n\ndescription: |\n{text}\n\nconfig:\n  main: "eval.py"\n\n'
    yml += 'templates:\n  Python: "template.py"\n\ntests:\n' + "\n".join(sizes) + "\n\nbenchmarks:\n" + "\n".join(timed)
    yml += '\n\nranking_by: "geom"\ngpus: ["H100", "B200"]\n'
    yml += "\ntest_timeout: 180\nbenchmark_timeout: 180\nranked_timeout: 300\n"
    reference = f"""\
{run_source(name)}

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCES = {tolerance}  # (relative, absolute) of each output


def generate_input(M: int, N: int, seed: int):
    random = torch.Generator(device=DEVICE).manual_seed(seed)
    return ({", ".join(made)},)


def check_implementation(data, output):
    got = output if isinstance(output, (tuple, list)) else (output,)
    expected = run(*data)
    expected = expected if isinstance(expected, tuple) else (expected,)
    if len(got) != len(expected):
        return False, f"{{len(got)}} outputs, and {{len(expected)}} are asked for"
    for name, one, right, (relative, absolute) in zip({tuple(outputs)}, got, expected, TOLERANCES):
        if one.shape != right.shape or one.dtype != right.dtype:
            return False, f"{{name}} is {{one.dtype}} {{tuple(one.shape)}}, and {{right.dtype}} {{tuple(right.shape)}} is right"
        wrong = ~torch.isclose(one.double(), right.double(), rtol=relative, atol=absolute)
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            return False, f"{{name}}{{list(at)}} is {{one[at].item():.6g}}, and {{right[at].item():.6g}} is right"
    return True, ""
"""
    task = "from typing import TypedDict\n\ninput_t = tuple\noutput_t = tuple\n\n\n"
    task += "class TestSpec(TypedDict):\n    M: int\n    N: int\n    seed: int\n"
    empty = ", ".join(
        f"torch.empty(({''.join(AXES[axis] + ', ' for axis in axes)}), dtype=torch.{dtype}, device=mX.device)"
        for axes, dtype in outputs.values()
    )
    make = "N" if name == "roof" else ", ".join(map(str, (case.make[0], *(PARTS for _ in case.make[1:]))))
    template = f'''\
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


class {module.TARGET}:
    """{module.TITLE}."""

    ...  # your kernel: __init__, a @cute.jit __call__({", ".join((*inputs, *outputs))}), a @cute.kernel


compiled = {{}}


def compile_kernel(M, N, tensors):
    if (M, N) not in compiled:
        compiled[M, N] = cute.compile({module.TARGET}({make}), *tensors)
    return compiled[M, N]


def custom_kernel(data):
    {", ".join(inputs)}{"," if len(inputs) == 1 else ""} = data
    M, N = mX.shape
    outputs = ({empty},)
    tensors = [from_dlpack(one) for one in (*data, *outputs)]
    compile_kernel(M, N, tensors)(*tensors)
    return outputs if len(outputs) > 1 else outputs[0]
'''
    return {"task.yml": yml, "task.py": task, "reference.py": reference, "template.py": template}


def names() -> list[str]:
    """The labs that can be exported."""
    return [name for name in folders() if name in RUN]
