"""How the other implementations are set up, each as its authors would have it.

| provider                | what it is                                                                                 |
|-------------------------|--------------------------------------------------------------------------------------------|
| eager                   | torch as it comes; backward: what autograd runs                                            |
| compile                 | torch.compile, dynamic=False; backward: of the formula written out                         |
| compile tuned           | the same with mode max-autotune-no-cudagraphs and TORCHINDUCTOR_MULTI_KERNEL=1             |
| compile autograd        | backward of the compiled forward, as autograd gives it (donated_buffer=False)              |
| compile autograd tuned  | the same with the settings of "compile tuned"                                              |
| quack                   | QuACK's own functions; backward: those that its autograd calls                             |
| quack tuned             | QuACK's autotuned entry points, which only RMSNorm has                                     |
| liger                   | Liger's kernels                                                                            |
| cudnn                   | cuDNN's norms for inference, the quickest plan of heuristics A and fallback                |

A setup function takes the inputs of a cell and returns a callable on such inputs that gives the output or outputs. All
are captured in CUDA graphs, so that no host time counts. A callable may have

- `prepare(*inputs)`: what must have happened to a set of inputs before the first call, untimed; autograd's forward pass;
- `judged(*inputs)`: the inputs that its result belongs to, where its own forward pass gave it one of them;
- `fresh(*inputs)`: a call on copies of the inputs, for one that writes over them: its result is checked in place of the
  graph's.

Inductor reads TORCHINDUCTOR_MULTI_KERNEL when it is imported. The process that measures a cell is started with it set,
so "compile tuned" is what the advice asks for; "compile" is compiled in the same process with that one setting put back
(options={"triton.multi_kernel": 0}, everything else at its default). That way all providers of a cell share a process.
What a peer chooses by timing is timed in that process: compiled code may come from an earlier one, choices may not (so
autotune_local_cache is off, and `WORKER_ENVIRONMENT` turns the rest off).
Liger's cross-entropy functions wait for the GPU to count targets, which a graph cannot hold: its kernel is launched as
they do, with the count known. It computes the gradient with the loss, over the logits, so it has no backward of its own.
"""

from __future__ import annotations

import functools
import types

from quack_tutorial.bench.formulas import EPS, IGNORE_INDEX

MULTI_KERNEL = "TORCHINDUCTOR_MULTI_KERNEL"
WORKER_ENVIRONMENT = {
    MULTI_KERNEL: "1",
    "TORCHINDUCTOR_DISABLE_MULTI_KERNEL_CACHE": "1",
    "QUACK_FORCE_CACHE_UPDATE": "1",
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
    import torch
    from torch._inductor import config

    config.autotune_local_cache = False
    own = with_own_code(function, "compile_default")
    return torch.compile(own, dynamic=False, options={"triton.multi_kernel": 0})


def compile_tuned(function):
    """`function` compiled with more autotuning; RuntimeError in a process without TORCHINDUCTOR_MULTI_KERNEL=1."""
    import torch
    from torch._inductor import config

    if not config.triton.multi_kernel:
        raise RuntimeError(f"compile tuned needs a process started with {MULTI_KERNEL}=1")
    config.autotune_local_cache = False
    own = with_own_code(function, "compile_tuned")
    return torch.compile(own, dynamic=False, mode="max-autotune-no-cudagraphs")


def with_own_code(function, name):
    """A copy of `function` with its own code object: torch.compile caches by code, and two settings must not mix."""
    code = function.__code__.replace(co_name=name)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


def autograd_backward(forward, arrange, compiler=lambda function: function):
    """Set up the backward pass that autograd runs for `forward`.

    `arrange(*inputs)` gives forward's arguments, how many of them (the first) want a gradient, and the gradient of
    forward's output.
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
        self.passes[inputs[0].data_ptr()] = output, leaves, gradient.to(output.dtype)

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


# QuACK ---------------------------------------------------------------------------------------------------------------


def quack_softmax(x):
    """Set up quack.softmax's forward."""
    from quack.softmax import softmax_fwd

    return softmax_fwd


def quack_softmax_backward(y, dy):
    """Set up what quack.softmax's backward calls."""
    from quack.softmax import softmax_bwd

    return lambda y, dy: softmax_bwd(dy, y)


def quack_rmsnorm(x, w):
    """Set up quack.rmsnorm's forward."""
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, w: rmsnorm_fwd(x, w, eps=EPS)[0]


def quack_rmsnorm_tuned(x, w):
    """Set up QuACK's autotuned RMSNorm; the first call tunes, which takes a while."""
    import torch
    from quack.rmsnorm import rmsnorm_fwd_tuned

    def call(x, w):
        out = torch.empty_like(x)
        rmsnorm_fwd_tuned(x, w, out, eps=EPS)
        return out

    call(x, w)
    return call


def quack_rmsnorm_backward(x, w, dy, rstd):
    """Set up what quack.rmsnorm's backward calls."""
    from quack.rmsnorm import rmsnorm_bwd

    return lambda x, w, dy, rstd: rmsnorm_bwd(x, w, dy, rstd)[:2]


def quack_rmsnorm_backward_tuned(x, w, dy, rstd):
    """Set up QuACK's autotuned RMSNorm backward, with the sum that its untuned one takes of the parts of dw."""
    import torch
    from quack.rmsnorm import rmsnorm_bwd_tuned
    from quack.rmsnorm_config import get_sm_count

    parts = get_sm_count(x.shape[1], x.device)

    def call(x, w, dy, rstd):
        dx = torch.empty_like(x)
        dw_parts = torch.empty(parts, x.shape[1], dtype=torch.float32, device=x.device)
        rmsnorm_bwd_tuned(x, w, dy, rstd, dx, dw_parts, has_dw_partial=True)
        return dx, dw_parts.sum(dim=0).to(w.dtype)

    call(x, w, dy, rstd)
    return call


def quack_layernorm(x, w, b):
    """Set up quack.rmsnorm's LayerNorm forward, which has no backward."""
    return _QuackLayerNorm()


class _QuackLayerNorm:
    """QuACK's LayerNorm takes float32 weights: those of each set of inputs are converted once, before anything is timed."""

    def __init__(self):
        self.converted = {}  # address of x -> weight and bias in float32

    def prepare(self, x, w, b):
        self.converted[x.data_ptr()] = w.float(), b.float()

    def __call__(self, x, w, b):
        from quack.rmsnorm import layernorm_fwd

        return layernorm_fwd(x, *self.converted[x.data_ptr()], eps=EPS)


def quack_cross_entropy(x, target):
    """Set up quack.cross_entropy's forward."""
    from quack.cross_entropy import cross_entropy_fwd

    return lambda x, target: cross_entropy_fwd(x, target, ignore_index=IGNORE_INDEX)


def quack_cross_entropy_backward(x, target, dloss, lse):
    """Set up what quack.cross_entropy's backward calls."""
    from quack.cross_entropy import cross_entropy_bwd

    return lambda x, target, dloss, lse: cross_entropy_bwd(x, target, dloss, lse, ignore_index=IGNORE_INDEX)


def quack_cross_entropy_fused(x, target):
    """Set up quack's cross-entropy that gives the gradient with the loss."""
    from quack.cross_entropy import cross_entropy_fwd

    return lambda x, target: cross_entropy_fwd(x, target, ignore_index=IGNORE_INDEX, return_dx=True)


# Liger ---------------------------------------------------------------------------------------------------------------


def liger_softmax(x):
    """Set up Liger's softmax."""
    from liger_kernel.ops import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply


def liger_softmax_backward(y, dy):
    """Set up what Liger's softmax calls backward, with the block size that its forward would have chosen."""
    from liger_kernel.ops.softmax import _softmax_backward
    from liger_kernel.ops.utils import calculate_settings

    block, warps = calculate_settings(y.shape[1])
    return lambda y, dy: _softmax_backward(dy, y, block, warps, y.shape[1] > block)


def liger_rmsnorm(x, w):
    """Set up Liger's RMSNorm with float32 arithmetic ("gemma")."""
    from liger_kernel.ops import LigerRMSNormFunction

    return lambda x, w: LigerRMSNormFunction.apply(x, w, EPS, 0.0, "gemma", False)


def liger_rmsnorm_backward(x, w, dy, rstd):
    """Set up what Liger's RMSNorm calls backward, in float32 arithmetic and not over dy."""
    from liger_kernel.ops import rms_norm as liger
    from liger_kernel.ops.utils import calculate_settings

    block, warps = calculate_settings(x.shape[1])
    gemma = liger._str_to_casting_mode["gemma"]
    return lambda x, w, dy, rstd: liger.rms_norm_backward(dy, x, w, rstd, 0.0, gemma, block, warps, False, None)


def liger_layernorm(x, w, b):
    """Set up Liger's LayerNorm."""
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, EPS)


def liger_layernorm_backward(x, w, dy, mean, rstd):
    """Set up what Liger's LayerNorm calls backward; the bias takes no part in it but for its type."""
    from liger_kernel.ops.layer_norm import layer_norm_backward

    return lambda x, w, dy, mean, rstd: layer_norm_backward(dy, x, w, w, mean, rstd)


def liger_cross_entropy(x, target):
    """Set up Liger's cross-entropy kernel without gradients."""
    return lambda x, target: _liger_cross_entropy(x, target, gradients=False)


def liger_cross_entropy_fused(x, target):
    """Set up Liger's cross-entropy kernel, which writes the gradient over the logits: each set of inputs gets a copy."""
    return _LigerFused()


class _LigerFused:
    def __init__(self):
        self.copies = {}  # address of x -> its copy, gradient and logits in turn

    def prepare(self, x, target):
        self.copies[x.data_ptr()] = x.clone()

    def __call__(self, x, target):
        copy = self.copies[x.data_ptr()]
        return _liger_cross_entropy(copy, target, gradients=True), copy

    def fresh(self, x, target):
        copy = x.clone()
        return _liger_cross_entropy(copy, target, gradients=True), copy


def _liger_cross_entropy(x, target, gradients):
    import torch
    import triton
    from liger_kernel.ops import cross_entropy as liger

    rows, columns = x.shape
    loss = torch.zeros(rows, dtype=x.dtype, device=x.device)
    liger.liger_cross_entropy_kernel[(rows,)](
        X_ptr=x,
        X_stride=x.stride(0),
        Y_ptr=target,
        Y_stride=1,
        weight_ptr=None,
        loss_ptr=loss,
        z_loss_ptr=None,
        loss_stride=1,
        token_accuracy_ptr=None,
        token_accuracy_stride=0,
        predicted_tokens_ptr=None,
        predicted_tokens_stride=0,
        n_cols=columns,
        n_non_ignore=rows,
        sum_non_ignore_weight=rows,
        weight_sum=0.0,
        ignore_index=IGNORE_INDEX,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="none",
        softcap=None,
        RETURN_Z_LOSS=False,
        RETURN_TOKEN_ACCURACY=False,
        RETURN_PREDICTED_TOKENS=False,
        BLOCK_SIZE=min(liger.MAX_FUSED_SIZE, triton.next_power_of_2(columns)),
        HAS_WEIGHT=False,
        HAS_SOFTCAPPING=False,
        HAS_GRADIENTS=gradients,
        num_warps=32,
    )
    return loss


# cuDNN ---------------------------------------------------------------------------------------------------------------


def cudnn_rmsnorm(x, w):
    """Set up cuDNN's RMSNorm: every plan that heuristics A and fallback propose is built and tried, the quickest kept."""
    return _cudnn_norm("rmsnorm", x, w)


def cudnn_layernorm(x, w, b):
    """Set up cuDNN's LayerNorm, as `cudnn_rmsnorm`."""
    return _cudnn_norm("layernorm", x, w, b)


def _cudnn_norm(name, x, *vectors):
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


# provider -> the distributions whose versions a record names
PACKAGES = {
    "ours": ("nvidia-cutlass-dsl",),
    "eager": ("torch",),
    "compile": ("torch", "triton"),
    "quack": ("quack-kernels", "nvidia-cutlass-dsl"),
    "liger": ("liger-kernel", "triton"),
    "cudnn": ("nvidia-cudnn-frontend",),
}
