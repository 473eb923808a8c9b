"""The operations on torch's own sample inputs, which its test suite runs torch's operators and modules on.

torch.testing._internal has them: OpInfo for functions, ModuleInfo for modules. Each sample is computed by ours in its type and by
torch in float64, with the gradients of all its tensors. What ours refuses with a call to write instead is written so; what it does
not cover is counted, with the reason.
"""

from __future__ import annotations

import sys
import types
import unittest
from collections import Counter

import torch
from torch.utils._pytree import tree_map

from quack_tutorial import compiler, ops
from quack_tutorial.records import suite as report

LOSSES = ("nn.functional.cross_entropy", "nn.functional.linear_cross_entropy")
FUNCTIONS = ("softmax", "nn.functional.rms_norm", "nn.functional.layer_norm", *LOSSES)
MODULES = ("RMSNorm", "LayerNorm", "CrossEntropyLoss")
DTYPES = ("float32", "float16", "bfloat16")
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3.2e-2}  # relative, and absolute for numbers around 1
ANOTHER_DIMENSION = "softmax over another dimension than the last"
ANOTHER_TYPE = "a result of another type than the input's"
PROBABILITIES = "class probabilities as targets"
ONE_NUMBER = "a linear layer's losses that are not the mean or the sum of rows alone"


def _torch_s_samples():
    """(operators, modules) of torch's tests. They want the package expecttest, for a kind of assertion that samples do without."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    modules = {info.module_cls.__name__: info for info in module_db}
    return [op for name in FUNCTIONS for op in op_db if op.name == name], [modules[name] for name in MODULES]


class DoesNotFit(Exception):
    """A sample that asks for what ours does not cover; the message is the reason."""


def _softmax(x, dim=-1, dtype=None):
    if dtype not in (None, x.dtype):
        raise DoesNotFit(ANOTHER_TYPE)
    if dim not in (-1, max(x.dim(), 1) - 1):
        raise DoesNotFit(ANOTHER_DIMENSION)
    return ops.softmax(x, dim)


def _rms_norm(x, shape, weight=None, eps=None):
    weight = weight if weight is None else weight.flatten()
    return ops.rmsnorm(x.flatten(-len(shape)), weight, eps=eps).view(x.shape)


def _layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    vectors = (vector if vector is None else vector.flatten() for vector in (weight, bias))
    return ops.layernorm(x.flatten(-len(shape)), *vectors, eps).view(x.shape)


def _cross_entropy(x, target, *args, **options):
    """As the messages of `ops.cross_entropy` say that other shapes are written."""
    if target.is_floating_point():
        raise DoesNotFit(PROBABILITIES)
    if x.dim() == 2:
        return ops.cross_entropy(x, target, *args, **options)
    rows = x[None] if x.dim() == 1 else x.movedim(1, -1).reshape(-1, x.shape[1])
    loss = ops.cross_entropy(rows, target.flatten(), *args, **options)
    return loss.view(target.shape) if options.get("reduction") == "none" else loss


def _linear_cross_entropy(x, w, target, reduction="mean", ignore_index=-100, options=None, **others):
    """With as many rows at a time as the sample asks for."""
    if target.is_floating_point():
        raise DoesNotFit(PROBABILITIES)
    if others or reduction == "none" or w.dim() > 2:
        raise DoesNotFit(ONE_NUMBER)
    x, target = (x[None], target[None]) if x.dim() == 1 else (x, target)
    rows = options and options.batch_chunk_size
    return ops.linear_cross_entropy(x, w, target, reduction=reduction, ignore_index=ignore_index, batch_chunk_size=rows)


OURS = dict(zip(FUNCTIONS, (_softmax, _rms_norm, _layer_norm, _cross_entropy, _linear_cross_entropy)))


def _leaves(tree, change):
    """A structure of arguments with `change` made to its floating tensors."""
    return tree_map(lambda x: change(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else x, tree)


def _gradients(function, args, kwargs, upstream=None):
    """[result, gradients of the floating tensors in args], and the tensor that the result was multiplied with.

    What samples give by name are numbers, and class weights, which have no gradient in torch.
    """
    leaves = []

    def leaf(x):
        leaves.append(x.detach().clone().requires_grad_())
        return leaves[-1]

    result = function(*_leaves(args, leaf), **kwargs)
    if upstream is None:
        generator = torch.Generator().manual_seed(0)
        upstream = torch.randn(result.shape, generator=generator).to(result.device, result.dtype)
    return [result.detach(), *torch.autograd.grad(result, leaves, upstream.to(result.dtype))], upstream


def _compare(ours, theirs, args, kwargs, dtype):
    """What is wrong with ours on a sample, or ""; DoesNotFit."""
    wanted_arguments = _leaves((args, kwargs), lambda x: x.double())
    wanted_arguments[1].pop("options", None)  # into what pieces torch cuts its work
    found, upstream = _gradients(ours, args, kwargs)
    wanted, _ = _gradients(theirs, *wanted_arguments, upstream.double())
    tolerance = TOLERANCE[dtype]
    for k, (one, exact) in enumerate(zip(found, wanted, strict=True)):
        try:
            torch.testing.assert_close(one.double(), exact, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            what = "the result" if k == 0 else f"gradient {k}"
            return f"{what}: {str(error).splitlines()[-2]}"
    return ""


def _module_samples(info, device, dtype):
    """(ours, torch's in float64, arguments) of each sample of a module."""
    for sample in info.module_inputs_func(info, device, dtype, False, True):
        made, given = sample.constructor_input, sample.forward_input
        double = _leaves((made.args, made.kwargs), lambda x: x.double())
        theirs = info.module_cls(*double[0], **double[1]).to(device, torch.float64)
        for parameter in theirs.parameters():  # not all ones and zeros
            torch.nn.init.normal_(parameter, 1.0)
        loss = info.module_cls is torch.nn.CrossEntropyLoss
        placed = {} if loss else dict(device=device, dtype=dtype)
        mine = getattr(ops, info.module_cls.__name__)(*made.args, **made.kwargs, **placed)
        mine.load_state_dict({key: value.to(dtype) for key, value in theirs.state_dict().items()})
        theirs.load_state_dict({key: value.double() for key, value in mine.state_dict().items()})
        run = _loss_of(mine) if loss else mine
        yield run, theirs, given.args, given.kwargs


def _loss_of(module):
    """The module's loss of logits of any shape, see `_cross_entropy`."""

    def call(x, target):
        options = dict(ignore_index=module.ignore_index, reduction=module.reduction)
        return _cross_entropy(x, target, module.weight, label_smoothing=module.label_smoothing, **options)

    return call


def tried(device, dtypes=DTYPES, progress=lambda said: None, every=1):
    """For each function and module: {name: (samples, right, Counter of reasons, [what is wrong])}; of `every` so many, one."""
    found = {}
    operators, modules = _torch_s_samples()
    for dtype in dtypes:
        kind = getattr(torch, dtype)
        cases = []
        for op in operators:
            for sample in op.sample_inputs(device, kind, requires_grad=False):
                cases.append((op.name, OURS[op.name], op.op, (sample.input, *sample.args), sample.kwargs))
        for info in modules:
            cases += [(f"nn.{info.module_cls.__name__}", *case) for case in _module_samples(info, device, kind)]
        for k, (name, ours, theirs, args, kwargs) in enumerate(cases[::every]):
            count, right, reasons, wrong = found.get(name, (0, 0, Counter(), []))
            try:
                problem = _compare(ours, theirs, args, kwargs, dtype)
                right += not problem
                wrong += [f"{name}, {dtype}, sample {k * every}: {problem}"] if problem else []
            except DoesNotFit as reason:
                reasons[str(reason)] += 1
            except Exception as error:  # a refusal that the mapping should have known, or a fault
                wrong += [f"{name}, {dtype}, sample {k * every}: {type(error).__name__}: {str(error).splitlines()[0]}"]
            found[name] = count + 1, right, reasons, wrong
        progress(f"{dtype}: {len(cases[::every])} samples")
    return found


def run(sample: bool, progress) -> report.Suite:
    """All samples in three types, on the GPU where there is one; a sample is every fifth in float32."""
    on_gpu = not (compiler.dsl_problem() or compiler.gpu_problem())
    where = report.on_gpu() if on_gpu else report.here() | {"torch": torch.__version__}
    options = dict(dtypes=("float32",), every=5) if sample else {}
    found = tried("cuda" if on_gpu else "cpu", progress=progress, **options)
    reasons = sum((counter for _, _, counter, _ in found.values()), Counter())
    rows = [(name, count, right, sum(out.values()), len(wrong)) for name, (count, right, out, wrong) in found.items()]
    return report.Suite(
        name="opinfo",
        title="The operations on torch's own sample inputs",
        columns=("function", "samples", "right", "not covered", "wrong"),
        rows=tuple(rows),
        mismatches=tuple(problem for _, _, _, wrong in found.values() for problem in wrong),
        notes=tuple(f"{count} ask for {reason}" for reason, count in reasons.most_common()),
        checked=sum(right for _, right, _, _ in found.values()),
        where=where,
    )
