"""Runs the kernels of one published package, unchanged, on the simulator, and compares what they give with float64.

    python -m validation.published_worker FOLDER PACKAGE

FOLDER holds the package's unpacked files. Only the modules with kernels are loaded: no `__init__` of the package runs, and what
they import besides CuTe DSL, torch and themselves (Triton's autotuner, say) is answered with an empty stand-in. Prints a JSON list
of {"name", "verdict", "why"}: right, wrong, finding, not simulated, or failed, where the case itself could not be made.

A kernel is right where no finding is made and its largest error, as a share of the largest number of the result, is under 1e-5 in
float32 and 1e-2 in bfloat16.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

from quack_tutorial.simulator import loading

STRANGERS = ("triton", "tvm_ffi", "einops", "cuda", "jax", "filelock", "apache_tvm_ffi")
MOST = {"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}


class _Bare(importlib.abc.MetaPathFinder):
    """Finds the package's folders without running their `__init__`, and answers for packages that are none of its business."""

    def __init__(self, folder: Path):
        self.folder, self.own = folder, {path.name for path in folder.iterdir() if path.is_dir()}

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in STRANGERS and importlib.machinery.PathFinder.find_spec(top) is None:
            return importlib.machinery.ModuleSpec(name, _StandIn(), is_package=True)
        place = self.folder.joinpath(*name.split("."))
        if top in self.own and place.is_dir():
            start = place / "__init__.py"
            loader = _AsFarAsItGoes(name, str(start)) if name != top and start.exists() else _Empty()
            spec = importlib.machinery.ModuleSpec(name, loader, is_package=True)
            spec.submodule_search_locations = [str(place)]
            return spec
        return None


class _Empty(importlib.abc.Loader):
    def exec_module(self, module):
        module.__version__ = "0"


class _AsFarAsItGoes(loading._Loader):
    """Runs a folder's `__init__` up to the first line that fails here, where much of what it is for is missing."""

    always = True

    def exec_module(self, module):
        with suppress(Exception):
            super().exec_module(module)


class _StandIn(importlib.abc.Loader):
    def create_module(self, spec):
        found = MagicMock(name=spec.name)
        found.__path__, found.__spec__ = [], spec
        return found

    def exec_module(self, module):
        pass


class Kernels:
    """A package's kernels: what a case needs to make one, its inputs, and what it must give."""

    def __init__(self, folder: Path):
        import torch

        from quack_tutorial.simulator import names

        sys.meta_path.insert(0, _Bare(folder))
        sys.path.insert(0, str(folder))
        loading.answer_folder(str(folder), always=True)
        torch.cuda.is_available, torch.cuda.current_device = lambda: True, lambda: 0  # a Hopper, for those who ask
        torch.cuda.get_device_capability = lambda *_: (9, 0)
        torch.cuda.get_device_properties = lambda *_: SimpleNamespace(
            major=9, minor=0, multi_processor_count=132, shared_memory_per_block_optin=232448, name="NVIDIA H100"
        )
        self.torch, self.cutlass = torch, names.by_path("cutlass")
        self.random = torch.Generator().manual_seed(0)

    def module(self, name):
        return importlib.import_module(name)

    def type(self, dtype):
        return {"float32": self.cutlass.Float32, "bfloat16": self.cutlass.BFloat16, "float16": self.cutlass.Float16}[
            dtype
        ]

    def normal(self, *shape, dtype="float32"):
        return self.torch.randn(*shape, generator=self.random).to(getattr(self.torch, dtype))

    def words(self, M, N):
        return self.torch.randint(0, N, (M,), generator=self.random)

    def empty(self, *shape, dtype="float32"):
        made = getattr(self.torch, dtype)
        return self.torch.full(shape, float("nan") if made.is_floating_point else -1, dtype=made)


def softmax_gradient(y, dy):
    y, dy = y.double(), dy.double()
    return y * (dy - (y * dy).sum(-1, keepdim=True))


def rms(x, eps=1e-6):
    return (x.double().pow(2).mean(-1) + eps).rsqrt()


def rmsnorm_gradient(x, w, dy, rstd):
    x, w, dy, rstd = x.double(), w.double(), dy.double(), rstd.double()[:, None]
    y, wdy = x * rstd, dy * w
    return (wdy - y * (wdy * y).mean(-1, keepdim=True)) * rstd, (dy * y).sum(0)


def cross_entropy_gradient(x, target, dloss):
    one = x.double() * 0
    one[range(len(x)), target] = 1
    return (x.double().softmax(-1) - one) * dloss.double()[:, None]


# Each case: (kernel, arguments, [(what it wrote, what that must be in float64, and how far it may be off, if that is its own)]).


def quack(k):
    """QuACK: https://github.com/Dao-AILab/quack"""
    k.module("quack.dsl")  # gives CuTe DSL's tensors methods of its own, as the package's __init__ does
    F = k.torch.nn.functional
    f32, i32 = k.cutlass.Float32, k.cutlass.Int32

    def softmax(N, dtype, M=4):
        x, o = k.normal(M, N, dtype=dtype), k.empty(M, N, dtype=dtype)
        return k.module("quack.softmax").Softmax(k.type(dtype), N), (x, o, None), [(o, x.double().softmax(-1))]

    def softmax_backward():
        y, dy, dx = k.normal(4, 1024).softmax(-1), k.normal(4, 1024), k.empty(4, 1024)
        return k.module("quack.softmax").SoftmaxBackward(f32, 1024), (dy, y, dx, None), [(dx, softmax_gradient(y, dy))]

    def rmsnorm(N, dtype, residual=False, layernorm=False):
        x, w, o = k.normal(4, N, dtype=dtype), k.normal(N), k.empty(4, N, dtype=dtype)
        r, ro = (k.normal(4, N, dtype=dtype), k.empty(4, N, dtype=dtype)) if residual else (None, None)
        h = x.double() + r.double() if residual else x.double()
        rstd, mean = k.empty(4), k.empty(4) if layernorm else None
        scale = rms(h - h.mean(-1, keepdim=True) if layernorm else h)
        wanted = (h - h.mean(-1, keepdim=True) if layernorm else h) * scale[:, None] * w.double()
        kernel = k.module("quack.rmsnorm").RMSNorm(k.type(dtype), N, is_layernorm=layernorm)
        results = [(o, wanted), (rstd, scale)] + ([(ro, h)] if residual else [])
        return kernel, (x, w, None, r, o, ro, rstd, mean, f32(1e-6), None), results

    def rmsnorm_backward():
        x, w, dy, dx, dw = k.normal(4, 1024), k.normal(1024), k.normal(4, 1024), k.empty(4, 1024), k.empty(2, 1024)
        rstd = rms(x).float()
        want_dx, want_dw = rmsnorm_gradient(x, w, dy, rstd)
        kernel = k.module("quack.rmsnorm").RMSNormBackward(f32, 1024)
        return (
            kernel,
            (x, w, dy, None, rstd, None, dx, dw, None, None, i32(2), None),
            [
                (dx, want_dx),
                (lambda: dw.double().sum(0), want_dw),
            ],
        )

    def cross_entropy(N, dtype, gradient=False):
        x, t, loss, lse = k.normal(4, N, dtype=dtype), k.words(4, N), k.empty(4), k.empty(4)
        dx = k.empty(4, N, dtype=dtype) if gradient else None
        results = [(loss, F.cross_entropy(x.double(), t, reduction="none")), (lse, x.double().logsumexp(-1))]
        if gradient:
            results.append((dx, cross_entropy_gradient(x, t, k.torch.ones(4))))
        kernel = k.module("quack.cross_entropy").CrossEntropy(k.type(dtype), N, online_softmax=not gradient)
        return kernel, (x, t, None, loss, lse, dx, None, i32(-100), None), results

    def cross_entropy_backward():
        x, t, d, dx = k.normal(4, 1024), k.words(4, 1024), k.normal(4), k.empty(4, 1024)
        kernel = k.module("quack.cross_entropy").CrossEntropyBackward(f32, 1024)
        lse = x.double().logsumexp(-1).float()
        return kernel, (x, t, d, dx, lse, None, i32(-100), None), [(dx, cross_entropy_gradient(x, t, d))]

    def topk():
        x, v, i = k.normal(4, 256), k.empty(4, 8), k.empty(4, 8, dtype="int32")
        values, places = x.double().topk(8, -1)
        keeps_a_place = 2.0**-15  # TopK writes the place, here of 8 bits, over a value's last bits
        return k.module("quack.topk").TopK(f32, 256, 8), (x, v, i, None), [(v, values, keeps_a_place), (i, places)]

    def topk_backward():
        x, dv = k.normal(4, 256), k.normal(4, 8)
        _, places = x.topk(8, -1)
        dx, places = k.empty(4, 256), places.int()
        wanted = k.torch.zeros(4, 256, dtype=k.torch.double).scatter(1, places.long(), dv.double())
        return k.module("quack.topk").TopKBackward(f32, 256, 8), (dv, None, places, dx, None), [(dx, wanted)]

    def rotary():
        B, S, H, D = 2, 24, 3, 64
        x, o, angle = k.normal(B, S, H, D), k.empty(B, S, H, D), k.normal(S, D // 2)
        cos, sin = angle.cos(), angle.sin()
        a, b = x.double().chunk(2, -1)
        c, s = cos.double()[:, None], sin.double()[:, None]
        wanted = k.torch.cat([a * c - b * s, b * c + a * s], -1)
        return k.module("quack.rotary").RotaryKernel(f32, D), (x, cos, sin, None, None, o, i32(S), None), [(o, wanted)]

    def rms_final_reduce():
        x, rstd = k.normal(4, 128).abs(), k.empty(4)
        wanted = (x.double().sum(-1) / 4096 + 1e-6).rsqrt()
        kernel = k.module("quack.rms_final_reduce").RmsFinalReduce(f32, 128)
        return kernel, (x, rstd, f32(1 / 4096), f32(1e-6), None), [(rstd, wanted)]

    def hadamard():
        x, o = k.normal(4, 256), k.empty(4, 256)
        matrix = k.torch.ones(1, 1, dtype=k.torch.double)
        while len(matrix) < 256:
            matrix = k.torch.cat([k.torch.cat([matrix, matrix], 1), k.torch.cat([matrix, -matrix], 1)])
        kernel = k.module("quack.transform.hadamard").HadamardTransform(f32, 256)
        return kernel, (x, o, f32(1 / 16), i32(132), None), [(o, x.double() @ matrix / 16)]

    return {
        "Softmax": lambda: softmax(1024, "float32"),
        "Softmax, bfloat16, cluster": lambda: softmax(65536, "bfloat16", M=1),
        "Softmax, odd rows": lambda: softmax(1000, "float32"),
        "SoftmaxBackward": softmax_backward,
        "RMSNorm": lambda: rmsnorm(1024, "float32"),
        "RMSNorm, residual, bfloat16": lambda: rmsnorm(2048, "bfloat16", residual=True),
        "LayerNorm": lambda: rmsnorm(1024, "float32", layernorm=True),
        "RMSNormBackward": rmsnorm_backward,
        "CrossEntropy": lambda: cross_entropy(1024, "float32"),
        "CrossEntropy, gradient, bfloat16": lambda: cross_entropy(2048, "bfloat16", gradient=True),
        "CrossEntropyBackward": cross_entropy_backward,
        "TopK": topk,
        "TopKBackward": topk_backward,
        "RotaryKernel": rotary,
        "RmsFinalReduce": rms_final_reduce,
        "HadamardTransform": hadamard,
    }


def liger(k):
    """Liger's CuTe DSL kernels: https://github.com/linkedin/Liger-Kernel"""
    F = k.torch.nn.functional
    f32 = k.cutlass.Float32
    place = "liger_kernel.ops.backends._cutedsl."

    def softmax():
        x, o = k.normal(4, 1024), k.empty(4, 1024)
        kernel = k.module(place + "softmax")._LigerSoftmaxCuTeDSLForward(f32, 1024)
        return kernel, (x, o, None), [(o, x.double().softmax(-1))]

    def softmax_backward():
        y, dy, dx = k.normal(4, 1024).softmax(-1), k.normal(4, 1024), k.empty(4, 1024)
        kernel = k.module(place + "softmax")._LigerSoftmaxCuTeDSLBackward(f32, 1024)
        return kernel, (dy, y, dx, None), [(dx, softmax_gradient(y, dy))]

    def rmsnorm():
        x, w, o, rstd = k.normal(4, 1024), k.normal(1024), k.empty(4, 1024), k.empty(4)
        kernel = k.module(place + "_cute_lib.rmsnorm_fwd").RMSNorm(f32, 1024)
        results = [(o, x.double() * rms(x)[:, None] * w.double()), (rstd, rms(x))]
        return kernel, (x, w, None, None, o, None, rstd, None, f32(1e-6), None), results

    def activation(name, function):
        def forward():
            a, b, c = k.normal(4, 1024), k.normal(4, 1024), k.empty(4, 1024)
            kernel = getattr(k.module(place + name.lower()), f"_Liger{name}CuTeDSLForward")(f32, 1024)
            return kernel, (a, b, c, None), [(c, function(a.double()) * b.double())]

        def backward():
            a, b, dc = k.normal(4, 1024), k.normal(4, 1024), k.normal(4, 1024)
            da, db = k.empty(4, 1024), k.empty(4, 1024)
            kernel = getattr(k.module(place + name.lower()), f"_Liger{name}CuTeDSLBackward")(f32, 1024)
            A, B = a.double().requires_grad_(), b.double().requires_grad_()
            (function(A) * B * dc.double()).sum().backward()
            return kernel, (dc, a, b, da, db, None), [(da, A.grad), (db, B.grad)]

        return {f"{name} forward": forward, f"{name} backward": backward}

    def kl_div():
        x, t = k.normal(4, 1024).log_softmax(-1), k.normal(4, 1024).softmax(-1)
        loss = k.empty(4)
        kernel = k.module(place + "kl_div")._LigerKLDivCuTeDSLForward(f32, 1024, False)
        T = t.double()
        return kernel, (x, t, loss, f32(1e-10), None), [(loss, (T * (T.log() - x.double())).sum(-1))]

    def kl_div_backward():
        t, g = k.normal(4, 1024).softmax(-1), k.empty(4, 1024)
        kernel = k.module(place + "kl_div")._LigerKLDivCuTeDSLBackward(f32, 1024, False)
        return kernel, (t, g, f32(0.25), None), [(g, -0.25 * t.double())]

    def rmsnorm_backward():
        x, w, dy, dx, dw = k.normal(4, 1024), k.normal(1024), k.normal(4, 1024), k.empty(4, 1024), k.empty(2, 1024)
        rstd = rms(x).float()
        want_dx, want_dw = rmsnorm_gradient(x, w, dy, rstd)
        kernel = k.module(place + "rms_norm")._LigerRMSNormCuTeDSLBackward(f32, 1024)
        results = [(dx, want_dx), (lambda: dw.double().sum(0), want_dw)]
        return kernel, (x, w, dy, rstd, dx, dw, k.cutlass.Int32(2), None), results

    def layernorm_backward():
        x, w, dy = k.normal(4, 1024), k.normal(1024), k.normal(4, 1024)
        dx, dw, db = k.empty(4, 1024), k.empty(2, 1024), k.empty(2, 1024)
        X, W, B = (t.double().requires_grad_() for t in (x, w, k.torch.zeros(1024)))
        (F.layer_norm(X, (1024,), W, B, 1e-6) * dy.double()).sum().backward()
        mean, rstd = x.mean(-1), (x.double().var(-1, unbiased=False) + 1e-6).rsqrt().float()
        kernel = k.module(place + "layer_norm")._LigerLayerNormCuTeDSLBackward(f32, 1024)
        results = [(dx, X.grad), (lambda: dw.double().sum(0), W.grad), (lambda: db.double().sum(0), B.grad)]
        return kernel, (x, w, dy, mean, rstd, dx, dw, db, k.cutlass.Int32(2), None), results

    return {
        "softmax forward": softmax,
        "softmax backward": softmax_backward,
        "RMSNorm forward": rmsnorm,
        "RMSNorm backward": rmsnorm_backward,
        "LayerNorm backward": layernorm_backward,
        **activation("GeGLU", lambda x: F.gelu(x, approximate="tanh")),
        **activation("SwiGLU", F.silu),
        "KL divergence forward": kl_div,
        "KL divergence backward": kl_div_backward,
    }


def flashinfer(k):
    """FlashInfer: https://github.com/flashinfer-ai/flashinfer"""
    F = k.torch.nn.functional
    f32, i64 = k.cutlass.Float32, k.cutlass.Int64
    place = "flashinfer.norm.kernels."

    def rmsnorm(H, dtype="bfloat16"):
        x, w, y = k.normal(4, H, dtype=dtype), k.normal(H, dtype=dtype), k.empty(4, H, dtype=dtype)
        kernel = k.module(place + "rmsnorm").RMSNormKernel(k.type(dtype), H, sm_version=90)
        return kernel, (x, w, y, i64(4), f32(1e-6), False, None), [(y, x.double() * rms(x)[:, None] * w.double())]

    def qk_rmsnorm():
        x, w, y = (
            k.normal(4, 3, 128, dtype="bfloat16"),
            k.normal(128, dtype="bfloat16"),
            k.empty(4, 3, 128, dtype="bfloat16"),
        )
        kernel = k.module(place + "rmsnorm").QKRMSNormKernel(k.type("bfloat16"), 128, sm_version=90)
        return (
            kernel,
            (x, w, y, i64(4), i64(3), f32(1e-6), False, None),
            [(y, x.double() * rms(x)[..., None] * w.double())],
        )

    def fused_add():
        x, r, w = (
            k.normal(4, 1024, dtype="bfloat16"),
            k.normal(4, 1024, dtype="bfloat16"),
            k.normal(1024, dtype="bfloat16"),
        )
        h = x.double() + r.double()
        kernel = k.module(place + "fused_add_rmsnorm").FusedAddRMSNormKernel(k.type("bfloat16"), 1024, sm_version=90)
        return kernel, (x, r, w, i64(4), f32(1e-6), False, None), [(x, h * rms(h)[:, None] * w.double()), (r, h)]

    def quantized(dtype, residual):
        """To 8 bits, by way of float32; every byte must be what torch rounds the float64 result to."""
        x, w = k.normal(4, 1000, dtype="bfloat16"), k.normal(1000, dtype="bfloat16")
        y, scale = k.torch.zeros(4, 1000, dtype=getattr(k.torch, dtype)), k.torch.full((1,), 0.5)
        r = k.normal(4, 1000, dtype="bfloat16") if residual else None
        h = x.double() + r.double() if residual else x.double()
        wanted = (h * rms(h)[:, None] * w.double() / 0.5).float().to(y.dtype)
        name = "FusedAddRMSNormQuantKernel" if residual else "RMSNormQuantKernel"
        kernel = getattr(k.module(place + ("fused_add_rmsnorm" if residual else "rmsnorm")), name)
        tensors = (y, x, r, w) if residual else (x, w, y)
        made = kernel(k.type("bfloat16"), 1000, sm_version=90)
        results = [(lambda: y.float(), wanted.float()), *([(r, h)] if residual else [])]
        return made, (*tensors, i64(4), scale, f32(1e-6), False, None), results

    def layernorm():
        x, g, b, y = (
            k.normal(4, 1024, dtype="bfloat16"),
            k.normal(1024),
            k.normal(1024),
            k.empty(4, 1024, dtype="bfloat16"),
        )
        kernel = k.module(place + "layernorm").LayerNormKernel(k.type("bfloat16"), 1024)
        wanted = F.layer_norm(x.double(), (1024,), g.double(), b.double(), 1e-6)
        return kernel, (y, x, g, b, i64(4), f32(1e-6), False, None), [(y, wanted)]

    def qk_l2norm():
        q, key = k.normal(6, 128, dtype="bfloat16"), k.normal(6, 128, dtype="bfloat16")
        oq, ok = k.empty(6, 128, dtype="bfloat16"), k.empty(6, 128, dtype="bfloat16")
        unit = lambda x: x.double() * (x.double().pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt()  # noqa: E731
        kernel = k.module("flashinfer.gdn_kernels.qk_l2norm")._launch
        return kernel, (q, key, oq, ok, 128, 16, 8, 1, None), [(oq, unit(q)), (ok, unit(key))]

    return {
        "qk_l2norm": qk_l2norm,
        "RMSNorm": lambda: rmsnorm(1024),
        "RMSNorm, cluster": lambda: rmsnorm(32768),
        "QKRMSNorm": qk_rmsnorm,
        "FusedAddRMSNorm": fused_add,
        "LayerNorm": layernorm,
        "RMSNormQuant, e4m3": lambda: quantized("float8_e4m3fn", False),
        "RMSNormQuant, e5m2": lambda: quantized("float8_e5m2", False),
        "FusedAddRMSNormQuant, e4m3": lambda: quantized("float8_e4m3fn", True),
    }


def nvidia(k):
    """NVIDIA's examples, which FlashInfer's wheel carries: https://github.com/NVIDIA/cutlass/tree/main/examples/python/CuTeDSL"""
    f32, f16 = k.cutlass.Float32, k.cutlass.Float16
    place = "flashinfer.data.cutlass.examples.python.CuTeDSL."

    def whole(*shape, dtype="float32"):
        """Small whole numbers, whose products and sums no type rounds."""
        return k.torch.randint(-2, 3, shape, generator=k.random).to(getattr(k.torch, dtype))

    def elementwise_add():
        a, b, c = k.normal(64, 512), k.normal(64, 512), k.empty(64, 512)
        return k.module(place + "ampere.elementwise_add").elementwise_add, (a, b, c), [(c, a.double() + b.double())]

    def elementwise_apply():
        a, b, c = k.normal(64, 512), k.normal(64, 512), k.empty(64, 512)
        kernel = k.module(place + "ampere.elementwise_apply").elementwise_apply
        return kernel, (lambda x, y: x * x + y * y, [a, b], c, None), [(c, a.double() ** 2 + b.double() ** 2)]

    def smem_allocator():
        a, b, c = k.empty(8, 4), k.empty(8, 2), k.empty(16, 2)
        wanted = [(x, k.torch.full_like(x, value).double()) for x, value in ((a, 0.5), (b, 1.0), (c, 2.0))]
        return k.module(place + "ampere.smem_allocator").host, (0.5, a, 1.0, b, 2.0, c), wanted

    def sgemm():
        a, b, c = whole(128, 24), whole(128, 24), k.empty(128, 128)
        return k.module(place + "ampere.sgemm").SGemm(), (a, b, c), [(c, a.double() @ b.double().T)]

    def tensorop_gemm():
        a, b = whole(128, 64, 1, dtype="float16"), whole(128, 64, 1, dtype="float16")
        c = k.empty(128, 128, 1, dtype="float16")
        kernel = k.module(place + "ampere.tensorop_gemm").TensorOpGemm(f16, f16, f32, (2, 2, 1))
        return kernel, (a, b, c), [(c, (a.double()[..., 0] @ b.double()[..., 0].T)[..., None])]

    def attention(causal):
        q, key, v = (k.normal(1, 128, 1, 64, dtype="bfloat16") for _ in range(3))
        o = k.empty(1, 128, 1, 64, dtype="bfloat16")
        scores = q.double()[0, :, 0] @ key.double()[0, :, 0].T / 8
        if causal:
            scores = scores.masked_fill(k.torch.ones(128, 128).triu(1).bool(), float("-inf"))
        wanted = (scores.softmax(-1) @ v.double()[0, :, 0])[None, :, None]
        kernel = k.module(place + "ampere.flash_attention_v2").FlashAttentionForwardAmpere(64, 64, 64, 128, causal)
        return kernel, (q, key, v, o, f32(0.125), None), [(o, wanted)]

    def cta_norm(kind):
        x, w, b, y = (
            k.normal(3, 1024, dtype="float16"),
            k.normal(1024, dtype="float16"),
            k.normal(1024, dtype="float16"),
            None,
        )
        y = k.empty(3, 1024, dtype="float16")
        kernel = k.module(place + "hopper.cta_norm").CtaNorm(1024, kind)
        X, W, B = x.double(), w.double(), b.double()
        wanted = X * rms(X)[:, None] * W if kind == "rms" else k.torch.nn.functional.layer_norm(X, (1024,), W, B, 1e-6)
        return kernel, (y, x, w, b if kind == "layer" else None, f32(1e-6)), [(y, wanted)]

    def wgmma_gemm(module, name, cluster, **more):
        def case():
            M, N, K = 128 * cluster[0], 128 * cluster[1], 128
            a, b = whole(1, M, K, dtype="float16").permute(1, 2, 0), whole(1, N, K, dtype="float16").permute(1, 2, 0)
            c = k.empty(1, M, N, dtype="float16").permute(1, 2, 0)
            kernel = getattr(k.module(place + module), name)(f32, (128, 128), cluster, **more)
            wanted = (a.double()[..., 0] @ b.double()[..., 0].T)[..., None]
            return kernel, (a, b, c, *([k.cutlass.Int32(1)] if "persistent" in module else []), None), [(c, wanted)]

        return case

    return {
        "elementwise_add": elementwise_add,
        "elementwise_apply": elementwise_apply,
        "smem_allocator": smem_allocator,
        "SGemm": sgemm,
        "TensorOpGemm": tensorop_gemm,
        "FlashAttention 2 (Ampere)": lambda: attention(False),
        "FlashAttention 2 (Ampere), causal": lambda: attention(True),
        "CtaNorm, RMSNorm": lambda: cta_norm("rms"),
        "CtaNorm, LayerNorm": lambda: cta_norm("layer"),
        "HopperWgmmaGemm": wgmma_gemm("hopper.dense_gemm", "HopperWgmmaGemmKernel", (1, 1)),
        "HopperWgmmaGemm, cluster, multicast": wgmma_gemm("hopper.dense_gemm", "HopperWgmmaGemmKernel", (2, 1)),
        "HopperWgmmaGemm, cluster of four": wgmma_gemm("hopper.dense_gemm", "HopperWgmmaGemmKernel", (2, 2)),
        "HopperWgmmaGemm, persistent": wgmma_gemm(
            "hopper.dense_gemm_persistent",
            "HopperWgmmaGemmPersistentKernel",
            (1, 1),
            swizzle_size=1,
            raster_along_m=True,
        ),
    }


PACKAGES = {
    "quack-kernels": (quack,),
    "liger-kernel": (liger,),
    "flashinfer-python": (flashinfer, nvidia),
}


def judged(case) -> dict:
    """The verdict on one case, and why."""
    from quack_tutorial.simulation import simulate
    from quack_tutorial.simulator.context import NotSimulated

    try:
        kernel, args, results = case()
        run = simulate(kernel, *args)
    except NotSimulated as error:
        return {"verdict": "not simulated", "why": str(error).splitlines()[0]}
    except Exception as error:
        return {"verdict": "failed", "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    if run.findings:
        return {"verdict": "finding", "why": str(run.findings[0]).splitlines()[0]}
    for got, wanted, *most in results:
        got = got() if callable(got) else got
        most = most[0] if most else MOST.get(str(got.dtype).removeprefix("torch."), 1e-5)
        share = ((got.double() - wanted.double()).abs().max() / wanted.double().abs().max()).item()
        if not share <= most:
            return {"verdict": "wrong", "why": f"off by {share:.2g} of the largest number"}
    return {"verdict": "right", "why": ""}


def main(folder, package):
    kernels, told = Kernels(Path(folder)), []
    with redirect_stdout(sys.stderr):  # the kernels' own words
        for source in PACKAGES[package]:
            for name, case in source(kernels).items():
                told.append({"source": source.__name__, "name": name, **judged(case)})
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
