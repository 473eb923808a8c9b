"""How the other implementations are set up, each as its authors would have it: what an operation's peers are made with.

| provider                | what it is                                                                                 |
|-------------------------|--------------------------------------------------------------------------------------------|
| eager                   | torch as it comes; backward: what autograd runs                                            |
| compile                 | torch.compile, dynamic=False; backward: of the formula written out                         |
| compile tuned           | the same with mode max-autotune-no-cudagraphs and TORCHINDUCTOR_MULTI_KERNEL=1             |
| compile autograd        | backward of the compiled forward, as autograd gives it (donated_buffer=False)              |
| compile autograd tuned  | the same with the settings of "compile tuned"                                              |
| quack                   | QuACK's own functions; backward: those that its autograd calls                             |
| quack tuned             | QuACK's autotuned entry points, which only RMSNorm has                                     |
| liger                   | Liger's kernels in Triton                                                                  |
| liger cute              | Liger's kernels in CuTe DSL, through its dispatcher                                        |
| cudnn                   | cuDNN's norms for inference, the quickest plan of heuristics A and fallback                |

A setup function takes the inputs of a cell and returns a callable on such inputs that gives the output or outputs. All
are captured in CUDA graphs, so that no host time counts. A callable may have

- `prepare(*inputs)`: what must have happened to a set of inputs before the first call, untimed: autograd's forward
  pass;
- `judged(*inputs)`: the inputs that its result belongs to, where its own forward pass gave it one of them;
- `fresh(*inputs)`: a call on copies of the inputs, for one that writes over them: its result is checked in place of the
  graph's.

Inductor reads TORCHINDUCTOR_MULTI_KERNEL when it is imported. The process that measures a cell is started with it set,
so "compile tuned" is what the advice asks for; "compile" is compiled in the same process with that one setting put back
(options={"triton.multi_kernel": 0}, everything else at its default). That way all providers of a cell share a process.
What a peer chooses by timing is timed in that process: compiled code may come from an earlier one, choices may not (so
autotune_local_cache is off, and `WORKER_ENVIRONMENT` turns the rest off).
"""

from __future__ import annotations

import functools
import types
from importlib import import_module

from quack_tutorial.shipped import EPS

MULTI_KERNEL = "TORCHINDUCTOR_MULTI_KERNEL"
WORKER_ENVIRONMENT = {
    MULTI_KERNEL: "1",
    "TORCHINDUCTOR_DISABLE_MULTI_KERNEL_CACHE": "1",
    "QUACK_FORCE_CACHE_UPDATE": "1",
    "LIGER_KERNEL_STRICT": "1",  # refuse what its kernels in CuTe DSL cannot, in place of Triton's
}
# provider -> the distributions whose versions a record names
PACKAGES = {
    "ours": ("nvidia-cutlass-dsl",),
    "eager": ("torch",),
    "compile": ("torch", "triton"),
    "quack": ("quack-kernels", "nvidia-cutlass-dsl"),
    "liger": ("liger-kernel", "triton"),
    "liger cute": ("liger-kernel", "nvidia-cutlass-dsl"),
    "cudnn": ("nvidia-cudnn-frontend",),
}


# torch ---------------------------------------------------------------------------------------------------------------


def eager(function):
    """Set up `function` as it is."""
    return lambda *inputs: function


def compiled(function):
    """Set up torch.compile with its defaults and fixed shapes."""
    return lambda *inputs: compile_default(function)


def compiled_tuned(function):
    """Set up torch.compile with more autotuning; RuntimeError in a process without TORCHINDUCTOR_MULTI_KERNEL=1."""
    return lambda *inputs: compile_tuned(function)


def compile_default(function):
    """`function` compiled with the defaults and fixed shapes."""
    return _compile(function, "compile_default", options={"triton.multi_kernel": 0})


def compile_tuned(function):
    """`function` compiled with more autotuning; RuntimeError in a process without TORCHINDUCTOR_MULTI_KERNEL=1."""
    from torch._inductor import config

    if not config.triton.multi_kernel:
        raise RuntimeError(f"compile tuned needs a process started with {MULTI_KERNEL}=1")
    return _compile(function, "compile_tuned", mode="max-autotune-no-cudagraphs")


def _compile(function, name, **setting):
    import torch
    from torch._inductor import config

    config.autotune_local_cache = False
    return torch.compile(with_own_code(function, name), dynamic=False, **setting)


def with_own_code(function, name):
    """A copy of `function` with its own code object: torch.compile caches by code, and two settings must not mix."""
    code = function.__code__.replace(co_name=name)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


def autograd_backward(forward, arrange, compiler=lambda function: function):
    """Set up the backward pass that autograd runs for `forward`.

    `arrange(*inputs)` gives forward's arguments, how many of them (the first) want a gradient, and the gradient of
    forward's output, or of each of its outputs.
    """

    def setup(*inputs):
        from torch._functorch import config

        config.donated_buffer = False  # or a backward pass could not run twice
        return _Backward(compiler(forward), arrange)

    return setup


class _Backward:
    """autograd's backward pass, over and over, of a forward pass that `prepare` runs once for each set of inputs."""

    def __init__(self, forward, arrange):
        self.forward, self.arrange = forward, arrange
        self.passes = {}  # address of the first input -> output, leaves, gradient of the output

    def prepare(self, *inputs):
        import torch

        arguments, count, gradient = self.arrange(*inputs)
        with torch.enable_grad():
            leaves = [argument.detach().requires_grad_() for argument in arguments[:count]]
            output = self.forward(*leaves, *arguments[count:])
        if isinstance(output, tuple):
            gradient = tuple(given.to(one.dtype) for given, one in zip(gradient, output, strict=True))
        else:
            gradient = gradient.to(output.dtype)
        self.passes[inputs[0].data_ptr()] = output, leaves, gradient

    def __call__(self, *inputs):
        import torch

        output, leaves, gradient = self.passes[inputs[0].data_ptr()]
        found = torch.autograd.grad(output, leaves, gradient, retain_graph=True)
        return found if len(found) > 1 else found[0]


def autograd_fused(forward, compiler=lambda function: function):
    """Set up forward and backward in one call, (x, ...) -> (loss, gradient of its sum), as autograd runs them."""

    def setup(x, *others):
        import torch

        run, ones = compiler(forward), {}

        def call(x, *others):
            leaf = x.detach().requires_grad_()
            with torch.enable_grad():
                loss = run(leaf, *others)
            if loss.dtype not in ones:
                ones[loss.dtype] = torch.ones_like(loss)
            (gradient,) = torch.autograd.grad(loss, leaf, ones[loss.dtype])
            return loss.detach(), gradient

        return call

    return setup


def of_torch(forward, backward=None, arrange=None, eagerly=None):
    """torch's providers of an operation: eager and compiled; backward: what autograd runs, and the formula compiled.

    `eagerly` is torch's own call, where `forward` does not make it. `arrange` as in `autograd_backward`; without it
    `backward` is a formula of forward and backward in one, as `autograd_fused`.
    """
    if backward is None:
        return {
            "eager": eager(eagerly or forward),
            "compile": compiled(forward),
            "compile tuned": compiled_tuned(forward),
        }
    autograd = functools.partial(autograd_backward, arrange=arrange) if arrange else autograd_fused
    return {
        "eager": autograd(eagerly or forward),
        "compile": compiled(backward),
        "compile tuned": compiled_tuned(backward),
        "compile autograd": autograd(forward, compiler=compile_default),
        "compile autograd tuned": autograd(forward, compiler=compile_tuned),
    }


# The calls that a torch user makes -----------------------------------------------------------------------------------


def calls_of(formula, libraries, eagerly=None, arrange=None):
    """Providers of a call, torch's spelling and what `libraries` make; with `arrange`, of the gradient of the call."""
    made = {"ours": libraries["ours"], **of_torch(formula, eagerly=eagerly), **libraries}
    if arrange:
        return {name: autograd_backward(setup, arrange, lambda setup: setup()) for name, setup in made.items()}
    return made


def function_of(module, name, *more, **options):
    """Set up the function `name` of a module, with arguments to follow the tensors."""

    def setup(*_):
        function = import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        return (lambda *tensors: function(*tensors, *more, **options)) if more or options else function

    return setup


# Liger ---------------------------------------------------------------------------------------------------------------


def of_liger(name, *more, dsl="cutedsl", **options):
    """The function `name` of Liger's dispatcher, in CuTe DSL or in "triton", with arguments to follow the tensors."""

    def call(*tensors):
        from liger_kernel import functional

        return getattr(functional, name)(*tensors, *more, impl=f"nvidia-{dsl}", **options)

    return call


# cuDNN ---------------------------------------------------------------------------------------------------------------


def cudnn_norm(name, x, *vectors):
    """Set up cuDNN's norm `name`: each plan of heuristics A and fallback is built and tried, the quickest kept."""
    import cudnn
    import torch

    (M, N), kind = x.shape, cudnn.data_type
    types_of = {torch.float32: kind.FLOAT, torch.float16: kind.HALF, torch.bfloat16: kind.BFLOAT16}
    handle = _cudnn_handle()
    graph = cudnn.pygraph(handle=handle, intermediate_data_type=kind.FLOAT, compute_data_type=kind.FLOAT)

    def tensor(name, rows, columns, dtype, **more):
        stride = [columns, 1, columns, columns]
        return graph.tensor(name=name, dim=[rows, columns, 1, 1], stride=stride, data_type=types_of[dtype], **more)

    gX, roles = tensor("x", M, N, x.dtype), ("scale", "bias")[: len(vectors)]
    gVectors = [tensor(role, 1, N, vector.dtype) for role, vector in zip(roles, vectors)]
    gEps = tensor("eps", 1, 1, torch.float32, is_pass_by_value=True)
    phase = cudnn.norm_forward_phase.INFERENCE
    given = dict(zip(roles, gVectors))
    gY = getattr(graph, name)(name=name, norm_forward_phase=phase, input=gX, epsilon=gEps, **given)[0]
    gY.set_output(True).set_data_type(types_of[x.dtype])
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    eps = torch.full((1, 1, 1, 1), EPS, dtype=torch.float32)

    def runner(plan):
        graph.build_plan_at_index(plan)
        size = graph.get_workspace_size_plan_at_index(plan)
        workspace = torch.empty(max(1, size), dtype=torch.uint8, device=x.device)

        def call(x, *vectors):
            out = torch.empty_like(x)
            cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
            pack = {gX: x.view(M, N, 1, 1), gEps: eps, gY: out.view(M, N, 1, 1)}
            pack |= {g: vector.view(1, N, 1, 1) for g, vector in zip(gVectors, vectors)}
            graph.execute_plan_at_index(pack, workspace, plan, handle=handle)
            return out

        return call

    return quickest((lambda plan=plan: runner(plan) for plan in range(graph.get_execution_plan_count())), (x, *vectors))


@functools.cache
def _cudnn_handle():
    import cudnn

    return cudnn.create_handle()


def quickest(makers, inputs):
    """The callable that is quickest on `inputs`, of those that `makers` make; the last error where none can be made."""
    import torch

    best, problem = None, RuntimeError("no plan is proposed")
    for make in makers:
        try:
            call = make()
            ms = _rough_ms(call, inputs)
        except Exception as error:  # a plan that is proposed may still refuse
            torch.cuda.synchronize()
            problem = error
            continue
        if best is None or ms < best[0]:
            best = ms, call
    if best is None:
        raise problem
    return best[1]


def _rough_ms(call, inputs, times=5):
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call(*inputs)
    start.record()
    for _ in range(times):
        call(*inputs)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / times
