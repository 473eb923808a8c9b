"""Operations as torch's dispatcher, its tracers and torch.func see them.

`register` gives torch an operator of the library "quack_tutorial" with all that it is asked for:

| asked for                                            | answered by                                                         |
|------------------------------------------------------|---------------------------------------------------------------------|
| the result, on the CPU and on a GPU                  | the function, which runs a kernel                                   |
| shapes and types, of fake and meta tensors           | `fake`: nothing is launched                                         |
| a gradient, in eager mode, compiled, or of torch.func | `gradient`, which calls other registered operators                 |
| vmap, batched gradients                              | a call for each element of the batch, copied if not contiguous      |
| a forward-mode gradient, a gradient of a gradient    | one sentence that says what to call instead: never a silent zero    |

A gradient is an operator too, with no gradient of its own; differentiating it raises the sentence.
"""

import torch
from torch._C import _any_requires_grad, _are_functorch_transforms_active
from torch.autograd import forward_ad
from torch.compiler import is_compiling

LIBRARY = torch.library.Library("quack_tutorial", "FRAGMENT")


def register(name, fake, instead, keep=None, gradient=None):
    """A decorator: the function becomes the operator quack_tutorial::`name`; what is called is returned.

    `fake` gives the results' shapes and types. `keep(ctx, inputs, output)` saves what `gradient(ctx, *gradients)` needs, as in
    torch.library.register_autograd. `instead` is the function to call where a gradient is needed that this one lacks.
    """

    def decorate(function):
        schema = torch.library.infer_schema(function, mutates_args=())
        LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"quack_tutorial::{name}", fake, lib=LIBRARY)
        op = getattr(torch.ops.quack_tutorial, name).default
        torch.library.register_vmap(op, _batched(op, fake), lib=LIBRARY)
        differentiable = _differentiable(op, instead, keep, gradient)

        def autograd(keys, *args):
            tensors = [arg for arg in args if isinstance(arg, torch.Tensor)] if forward_ad._current_level >= 0 else ()
            if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
                raise NotImplementedError(_no_forward_mode(name, instead))
            if torch.is_grad_enabled() and _any_requires_grad(*args):
                if _are_functorch_transforms_active():
                    raise NotImplementedError(_only_outside(name))
                return differentiable.apply(*args)
            with torch._C._AutoDispatchBelowAutograd():
                return op.redispatch(keys & torch._C._after_autograd_keyset, *args)

        LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)

        def call(*args):
            if is_compiling():
                return op(*args)
            args = tuple(_with_memory(arg) for arg in args)
            # torch.func has to see the Function itself.
            return differentiable.apply(*args) if _are_functorch_transforms_active() else op(*args)

        return call

    return decorate


def unscripted(op):
    """`op`, a function or a module's class, for which torch.jit.script has a sentence."""

    def refuse(*_):
        raise NotImplementedError(
            f"quack_tutorial.ops.{op.__name__} cannot be scripted: take torch.compile, torch.export or torch.jit.trace"
        )

    op.__prepare_scriptable__ = refuse
    return op


def _batched(op, fake):
    """What vmap makes of a registered operator, for torch.library.register_vmap."""

    def rule(info, in_dims, *args):
        def element(k):
            return [arg if dim is None else arg.select(dim, k).contiguous() for arg, dim in zip(args, in_dims)]

        def of_none(arg, dim):  # an element of a batch that has none
            return arg if dim is None else arg.new_empty(arg.shape[:dim] + arg.shape[dim:][1:])

        if info.batch_size:
            results = [op(*element(k)) for k in range(info.batch_size)]
            stack = torch.stack
        else:
            results = [fake(*map(of_none, args, in_dims))]
            stack = lambda one: one[0].new_empty((0, *one[0].shape))  # noqa: E731
        if isinstance(results[0], tuple):
            return tuple(map(stack, zip(*results))), (0,) * len(results[0])
        return stack(results), 0

    return rule


def _differentiable(op, instead, keep, gradient):
    """The autograd.Function of a registered operator."""
    name = op._opname

    class Differentiable(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args):
            return op(*args)

        @staticmethod
        def setup_context(ctx, inputs, output):
            if keep:
                keep(ctx, inputs, output)

        @staticmethod
        def backward(ctx, *gradients):
            if gradient is None:
                raise RuntimeError(_no_gradient(name, instead))
            return gradient(ctx, *gradients)

        @staticmethod
        def jvp(ctx, *tangents):
            raise NotImplementedError(_no_forward_mode(name, instead))

    return Differentiable


def _with_memory(arg):
    """What torch keeps as "zeros of this shape" as a tensor with elements, which a kernel can read."""
    return torch.zeros_like(arg) if isinstance(arg, torch.Tensor) and arg._is_zerotensor() else arg


def _no_forward_mode(name, instead):
    return (
        f"quack_tutorial.{name}: forward-mode gradients are not covered (jvp, jacfwd, hessian, dual tensors): take reverse "
        f"mode (backward, torch.func.grad, vjp, jacrev), or call {instead} here"
    )


def _only_outside(name):
    return (
        f"quack_tutorial.{name}: torch.func differentiates it through quack_tutorial.ops and outside torch.compile; in compiled "
        "code take torch.autograd.grad"
    )


def _no_gradient(name, instead):
    why = ", so gradients of gradients are not covered (create_graph=True, hvp, hessian, gradient penalties)"
    return f"quack_tutorial.{name} has no gradient{why if name.endswith('_backward') else ''}: call {instead} here"
