"""The cases of `published_worker`: kernels of published packages, with inputs and what must come of them in float64.

Each case gives (kernel, arguments, [(what it wrote, what that must be, and how far it may be off, if that is its own)]).
"""

from __future__ import annotations

import sys
from unittest.mock import MagicMock


def softmax_gradient(y, dy):
    y, dy = y.double(), dy.double()
    return y * (dy - (y * dy).sum(-1, keepdim=True))


def turned(x, angle):
    """The two halves of the last axis, turned by `angle`."""
    x = x.double()
    a, b = x.chunk(2, -1)
    result = x.clone()
    first, second = result.chunk(2, -1)
    first.copy_(a * angle.cos() - b * angle.sin())
    second.copy_(b * angle.cos() + a * angle.sin())
    return result


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
        wanted = turned(x, angle.double()[:, None])
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

    def split_k_reduce():
        parts, o = k.normal(3, 20, 200).permute(1, 2, 0), k.empty(1, 20, 200).permute(1, 2, 0)
        kernel = k.module("quack.split_k_reduce").SplitKReduce(f32, 3, False, 4)
        return kernel, (parts, o, *[None] * 6), [(o, parts.double().sum(-1, keepdim=True))]

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
        "SplitKReduce": split_k_reduce,
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

    def jsd(beta, dtype):
        x, y = (k.normal(4, 1024).log_softmax(-1).to(getattr(k.torch, dtype)) for _ in range(2))
        loss, dx, labels = k.empty(4, 1024), k.empty(4, 1024, dtype=dtype), k.torch.tensor([1, -100, 3, 4])
        X, Y = x.double(), y.double()
        Q, P = X.exp(), Y.exp()
        M = beta * P + (1 - beta) * Q
        wanted = beta * P * Y + (1 - beta) * Q * X - M * M.log(), (1 - beta) * Q * (X - M.log())
        if beta in (0.0, 1.0):
            wanted = (P * (Y - X), -P) if beta == 0.0 else (Q * (X - Y), Q * (X - Y) + Q)
        share = (labels != -100)[:, None] / 3
        kernel = k.module(place + "jsd")._LigerJSDLossAndGradCuTeDSL(k.type(dtype), 1024, beta)
        args = (x, y, loss, dx, labels, f32(1 / 3), k.cutlass.Int64(-100), None)
        return kernel, args, [(loss, wanted[0] * share), (dx, wanted[1] * share)]

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
        "JSD": lambda: jsd(0.5, "float32"),
        "JSD, forward KL": lambda: jsd(0.0, "float32"),
        "JSD, reverse KL, bfloat16": lambda: jsd(1.0, "bfloat16"),
        **{f"cutedsl: {name}": case for name, case in liger_cutedsl(k).items()},
    }


def liger_cutedsl(k):
    """The kernels of liger_kernel.ops.cutedsl."""
    torch, F = k.torch, k.torch.nn.functional
    f32, i32 = k.cutlass.Float32, k.cutlass.Int32
    place = "liger_kernel.ops.cutedsl.ops."
    norm, rope, loss = place + "rms_norm", place + "rope", place + "_fused_linear_cross_entropy_forward_sm90"

    def scale_in_place():
        x, s = k.normal(3, 1000), k.normal(1)
        wanted = x.double() * s.double()
        return k.module(place + "cross_entropy")._scale_in_place_host, (x, s), [(x, wanted)]

    def cross_entropy(N, dtype, softcap=0.0, smoothing=0.0, weighted=False, z=0.0):
        """With its gradient, over the logits, and the class of the largest; the third row is ignored."""
        x, y, ignored = k.normal(4, N, dtype=dtype), k.words(4, N), torch.tensor([False, False, True, False])
        y[2] = -100
        weight = k.normal(N).abs() if weighted else k.normal(8)
        losses, zs, hits, best = k.empty(4, dtype=dtype), k.empty(4), k.empty(4), k.empty(4, dtype="int64")
        X = x.double().requires_grad_()
        logits = softcap * torch.tanh(X / softcap) if softcap else X
        weights = weight.double() if weighted else None
        each = F.cross_entropy(logits, y, weights, label_smoothing=smoothing, reduction="none") / 3
        extra = torch.where(ignored, 0.0, z * logits.logsumexp(-1) ** 2 / 3)
        (each + extra).sum().backward()
        flags = (True, z != 0, z != 0, softcap != 0, True, True, weighted, smoothing != 0, False, 4)
        third, whole = f32(1 / 3), f32(float(weight.sum()) if weighted else 1.0)
        numbers = (third, third, f32(z), f32(softcap), f32(smoothing), whole, i32(N), i32(-100))
        results = [(losses, (each + extra).detach()), (x, X.grad)]
        results += [(best, torch.where(ignored, -1, x.double().argmax(-1)))] + ([(zs, extra.detach())] if z else [])
        kernel = k.module(place + "cross_entropy")._ce_fwd_host
        return kernel, (x, y, losses, zs, hits, best, weight, *numbers, *flags), results

    def rmsnorm(N, dtype, vectors, offset=0.0):
        x, w, y, rstd = k.normal(4, N, dtype=dtype), k.normal(N, dtype=dtype), k.empty(4, N, dtype=dtype), k.empty(4)
        wanted = x.double() * rms(x)[:, None] * (w.double() + offset)
        spread, width = (), 16 // x.element_size()
        if vectors:
            spread = (N, width, -(-N // width // 128), 4, 128)
        kernel = getattr(k.module(norm), f"_rms_norm_fwd_{'vector_' * vectors}host")
        return kernel, (x, w, y, rstd, f32(1e-6), f32(offset), 0, True, *spread), [(y, wanted), (rstd, rms(x))]

    def rmsnorm_backward(part, N=1024, dtype="float32"):
        x, w, dy = k.normal(5, N, dtype=dtype), k.normal(N, dtype=dtype), k.normal(5, N, dtype=dtype)
        rstd, dx, dw = rms(x).float(), k.empty(5, N, dtype=dtype), k.empty(2, N)
        want_dx, want_dw = rmsnorm_gradient(x, w, dy, rstd)
        results = [(dx, want_dx), (lambda: dw.double().sum(0), want_dw)]
        kernel, width = getattr(k.module(norm), f"_rms_norm_bwd_{part}_host"), 16 // x.element_size()
        if part == "dx":
            return kernel, (dy, x, w, rstd, dx, f32(0.0), -1, True), results[:1]
        if part == "dw":
            return kernel, (dy, x, rstd, dw, i32(3), -1), results[1:]
        spread = (N, width, -(-N // width // 128), 128, 4, 80)
        return kernel, (dy, x, w, rstd, dx, dw, f32(0.0), -1, *spread), results

    def dw_reduce(parallel):
        x, o = k.normal(70, 100), k.empty(100)
        module = k.module(place + "rms_norm_dw_reduce")
        if parallel:
            return module._reduce_dw_partials_parallel_host, (x, o, 8), [(o, x.double().sum(0))]
        return module._reduce_dw_partials_host, (x, o), [(o, x.double().sum(0))]

    def rotated(back, heads_of_key, by_map=False, batch=2, length=5):
        H, D = 8, 64
        q = k.normal(batch, length, H, D, dtype="bfloat16")
        key = k.normal(batch, length, heads_of_key, D, dtype="bfloat16")
        angle = k.normal(1, length, D // 2)
        cos, sin = (function(torch.cat([angle, angle], -1)) for function in (torch.cos, torch.sin))
        results = [(x, turned(x, angle.double()[:, :, None] * (-1 if back else 1))) for x in (q, key)]
        sizes = (H, heads_of_key, D // 2)
        if not by_map:
            kernel = k.module(rope)._make_launch_token(*sizes, False, True, back)
            return kernel, (q, key, cos, sin, i32(batch * length), i32(length)), results
        kernel = k.module(rope)._make_launch_tma_qk(*sizes, 8, False, True, back, length)
        rows = (i32(batch * length * H), i32(batch * length * heads_of_key))
        return kernel, (q.view(-1, D), key.view(-1, D), cos, sin, *rows), results

    def gemm(persistent, scaled):
        a, b, c = (
            k.whole(256, 128, dtype="bfloat16"),
            k.whole(256, 128, dtype="bfloat16"),
            k.empty(256, 256, dtype="bfloat16"),
        )
        scale = torch.tensor([0.5]) if scaled else None
        kernel = k.module(loss)._TileGemmSM90(scale_output=scaled, persistent=persistent, num_sms=2)
        wanted = a.double() @ b.double().T * (0.5 if scaled else 1)
        return kernel, (a[..., None], b[..., None], c, scale, None), [(c, wanted)]

    def cross_entropy_cluster():
        N = k.module(loss).CE_PARTITIONS * 1024
        x, t, nll = k.normal(2, N, dtype="bfloat16"), k.words(2, N), k.empty(2)
        results = [(nll, F.cross_entropy(x.double(), t, reduction="none"))]
        results.append((x, cross_entropy_gradient(x, t, torch.full((2,), 0.5))))
        kernel = k.module(loss)._CrossEntropyClusterVector(1024)
        return kernel, (x, t, nll, f32(0.5), i32(-100), None), results

    def cross_entropy_partials():
        x, t = k.normal(2, 3000, dtype="bfloat16"), k.words(2, 3000)
        parts = k.empty(2, k.module(loss).CE_PARTITIONS, 3)  # largest, sum of exponentials, the target's logit

        def lse():
            largest, total = parts.double()[..., 0], parts.double()[..., 1]
            return (largest + total.log()).logsumexp(-1)

        return k.module(loss)._CrossEntropyPartials(), (x, t, parts, None), [(lse, x.double().logsumexp(-1))]

    return {
        "scale in place": scale_in_place,
        "cross-entropy": lambda: cross_entropy(1024, "float32"),
        "cross-entropy, softcap, z loss, bfloat16": lambda: cross_entropy(2048, "bfloat16", softcap=3.0, z=0.1),
        "cross-entropy, smoothing": lambda: cross_entropy(1000, "float32", smoothing=0.1),
        "cross-entropy, smoothing, weights": lambda: cross_entropy(1024, "float32", smoothing=0.1, weighted=True),
        "RMSNorm": lambda: rmsnorm(1000, "float32", False),
        "RMSNorm, vectors, bfloat16": lambda: rmsnorm(2048, "bfloat16", True, 1.0),
        "RMSNorm backward, dx": lambda: rmsnorm_backward("dx"),
        "RMSNorm backward, dw": lambda: rmsnorm_backward("dw"),
        "RMSNorm backward, fused": lambda: rmsnorm_backward("fused"),
        "RMSNorm backward, fused, bfloat16": lambda: rmsnorm_backward("fused", 2048, "bfloat16"),
        "sum of dw": lambda: dw_reduce(False),
        "sum of dw, parallel": lambda: dw_reduce(True),
        "rotary embedding": lambda: rotated(False, 2),
        "rotary embedding, backward": lambda: rotated(True, 2),
        "rotary embedding, tensor map": lambda: rotated(False, 4, True, length=24),
        "rotary embedding, tensor map, backward": lambda: rotated(True, 2, True, 1, 27),
        "TileGemmSM90": lambda: gemm(False, False),
        "TileGemmSM90, scaled": lambda: gemm(False, True),
        "TileGemmSM90, persistent": lambda: gemm(True, True),
        "CrossEntropyClusterVector": cross_entropy_cluster,
        "CrossEntropyPartials": cross_entropy_partials,
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
        **flashinfer_others(k),
    }


def flashinfer_others(k):
    """FlashInfer's kernels beside its norms."""
    torch, F = k.torch, k.torch.nn.functional
    f32, i32, i64 = k.cutlass.Float32, k.cutlass.Int32, k.cutlass.Int64

    def sigmoid_gate(tokens, heads, lanes, warps, cluster):
        x, g, o = (k.normal(tokens, heads, 64, dtype="bfloat16") for _ in range(3))
        kernel = k.module("flashinfer.norm.kernels.rmsnorm_sigmoid_gate")._launch
        shape = (heads, *[heads * 64] * 3, lanes, warps, cluster, False)
        return kernel, (x, g, o, f32(1e-6), None, *shape), [(o, x.double() * rms(x)[..., None] * g.double().sigmoid())]

    def gated_residual(vector, segments, weighted):
        H = 8192
        branch, stream, w = k.normal(2, H, dtype="bfloat16"), k.normal(2, H), k.normal(H, dtype="bfloat16")
        alpha, beta, o = k.normal(H), k.normal(H), k.empty(2, H)
        X = branch.double() * (w.double() if weighted else 1)
        wanted = alpha.double() * stream.double() + beta.double() * X * rms(X)[:, None]
        smem = H // segments * 4 * (segments > 1) + 128
        spread = (vector, segments, H // (segments * vector * 512), int(weighted), True, 0.0, 1e-6, smem, 0, 1, False)
        kernel = k.module("flashinfer.norm.kernels.gated_residual_rmsnorm")._gated_residual_rmsnorm_launch
        return kernel, (branch, stream, w, alpha, beta, o, None, *spread), [(o, wanted)]

    def mxfp8(two_threads):
        """Blocks of 32 with a power of two each: every byte must be torch's."""
        x, o = k.normal(5, 512, dtype="bfloat16") * 4, torch.zeros(5, 512, dtype=torch.uint8)
        scales, blocks = torch.zeros(80, dtype=torch.uint8), x.float().view(80, 32)
        power = (blocks.double().abs().amax(-1) / 448).log2().ceil()
        bytes_ = (blocks * torch.exp2(-power.float())[:, None]).to(torch.float8_e4m3fn)
        module = k.module("flashinfer.quantization.kernels.mxfp8_quantize")
        kernel = module.MXFP8QuantizeLinearKernel(k.type("bfloat16"), 512, use_2t_per_sf=two_threads)
        results = [(scales, power + 127), (lambda: o.view(torch.float8_e4m3fn).float(), bytes_.float().view(5, 512))]
        return kernel, (x, o, scales, i32(80), i32(2), None), results

    def prefix_sum(bins, threads):
        x, o = torch.randint(0, 9, (bins,), generator=k.random, dtype=torch.int32), k.empty(bins, dtype="int32")
        kernel = k.module("flashinfer.topk_varlen.kernels.block_scan").block_prefix_sum
        made = k.hosts.Launched(kernel, (1, 1, 1), (threads, 1, 1), bins, threads)
        return made, (x, o), [(o, x.double().cumsum(0))]

    def radix_topk(dtype, ctas):
        N, most = 600, 32
        x, lengths = k.normal(1, N, dtype=dtype), torch.tensor([N - 77], dtype=torch.int32)
        places, values = k.empty(1, most, dtype="int32"), k.empty(1, most, dtype=dtype)
        module = k.module("flashinfer.topk_varlen.kernels.radix_topk")
        kernel = module.SinglePassMultiCTARadixTopKKernel(
            k.type(dtype), 608 // ctas, most, num_copy_bits=128, ctas_per_group=ctas, num_sms=2
        )
        wanted = x.double()[:, : N - 77].topk(most)[0]
        picked = lambda: x.gather(1, places.long()).sort(-1, descending=True)[0]  # noqa: E731
        results = [(lambda: values.sort(-1, descending=True)[0], wanted), (picked, wanted)]
        return kernel, (x, torch.zeros(2, module.STATE_SIZE, dtype=torch.int32), lengths, places, values, None), results

    def gdn_decode():
        """The gated delta rule's step on a state a head."""
        B, H, HV, K, V = 1, 1, 2, 128, 128
        q, key, v = (k.normal(B, 1, n, 128, dtype="bfloat16") for n in (H, H, HV))
        a, b, A, bias = (
            k.normal(B, 1, HV, dtype="bfloat16"),
            k.normal(B, 1, HV, dtype="bfloat16"),
            k.normal(HV),
            k.normal(HV),
        )
        state, o = k.normal(B * HV, K, V), k.empty(B, 1, HV, V, dtype="bfloat16")
        unit = lambda x: F.normalize(x.double()[:, 0], dim=-1).repeat_interleave(HV // H, 1)  # noqa: E731
        forget = (-A.double().exp() * F.softplus(a.double()[:, 0] + bias.double())).exp()
        S = state.double().view(B, HV, K, V) * forget[..., None, None]
        news = (v.double()[:, 0] - torch.einsum("bhk,bhkv->bhv", unit(key), S)) * b.double()[:, 0, :, None].sigmoid()
        S = S + unit(key)[..., None] * news[..., None, :]
        wanted = torch.einsum("bhk,bhkv->bhv", unit(q) * 0.25, S)[:, None]
        module = k.module("flashinfer.gdn_kernels.gdn_decode_nontranspose")
        which, lengths = torch.arange(B, dtype=torch.int32), torch.zeros(B + 1, dtype=torch.int32)
        kernel = module.run_gdn_decode_kernel_small_batch_nontranspose
        args = (lengths, q, key, v, a, b, A, bias, state, which, o, 1.0, 20.0, 0.25, 1, H, HV, K, V, True, True, None)
        return kernel, args, [(o, wanted), (state, S.view(B * HV, K, V))]

    # ---- flashinfer.experimental.b12x, which its files call b12x

    def b12x(module, made, *args, **known):
        k.beside("flashinfer", "experimental")
        kernel = getattr(k.module(f"b12x.{module}"), made)(*args)
        return k.hosts.ByPointers(kernel, **known)

    def static_fp8():
        x, o = k.normal(5000, dtype="bfloat16"), torch.zeros(5000, dtype=torch.uint8)
        wanted = torch.zeros_like(o)
        wanted[:4100] = (x[:4100].float() * 2).to(torch.float8_e4m3fn).view(torch.uint8)
        k.beside("flashinfer", "experimental")
        kernel = k.module("b12x.attention._shared.static_fp8_quant")._StaticFp8QuantKernel(5000)
        return kernel, (x.view(torch.uint8), o, torch.tensor([0.5]), i32(4100), None), [(o, wanted)]

    def embedding():
        table, o = k.normal(50, 200, dtype="bfloat16"), k.empty(7, 200, dtype="bfloat16")
        ids, live = torch.randint(0, 50, (7,), generator=k.random), torch.tensor([5], dtype=torch.int32)
        kernel = b12x("sequence.embedding._kernel", "_Embedding", 200)
        args = (table, ids, o, live, i32(7), i64(50), i64(200), i32(1), None)
        return kernel, args, [(lambda: o[:5], table.double()[ids[:5]])]

    def vision(operation):
        height, width, heads, size = 5, 7, 4, 16
        channels, rows = heads * size, height * width
        nothing, cu = k.normal(4), torch.zeros(2, dtype=torch.int32)
        x, o = k.normal(rows, channels, dtype="bfloat16"), k.empty(rows, channels, dtype="bfloat16")
        args, results = (x, o, nothing, nothing, nothing, cu), [(o, F.gelu(x.double()))]
        if operation == "merge":  # of squares of 2 x 2 pixels
            padded = torch.zeros(6, 8, channels, dtype=torch.double)
            padded[:height, :width] = x.double().view(height, width, channels)
            wanted = padded.view(3, 2, 4, 2, channels).permute(0, 2, 4, 1, 3).reshape(12, 4 * channels)
            rows, o = 12, k.empty(12, 4 * channels, dtype="bfloat16")
            args, results = (x, o, nothing, nothing, nothing, cu), [(o, wanted)]
        if operation == "rope":
            x, inverse = k.normal(rows, 3 * channels, dtype="bfloat16"), k.normal(size // 4).abs()
            q, key, v = (k.empty(rows, channels, dtype="bfloat16") for _ in range(3))
            place = torch.arange(rows)[:, None].double()
            angle = torch.cat([place // width * inverse.double(), place % width * inverse.double()], -1)[:, None]
            parts = x.view(rows, 3, heads, size).unbind(1)
            results = [(o, turned(part, angle).flatten(1)) for o, part in zip((q, key), parts)]
            args, results = (x, q, key, v, inverse, cu), [*results, (v, parts[2].double().flatten(1))]
        return (
            b12x("norm.vision", "_Vision", operation, channels, heads, 2),
            (*args, i32(rows), i32(height), i32(width), None),
            results,
        )

    def hyperconnection(name):
        T, S, H = 4, 3, 300
        x, y = k.normal(T, S, H, dtype="bfloat16"), k.normal(T, S, H, dtype="bfloat16")
        o, module = k.empty(T, S, H, dtype="bfloat16"), "norm.hyperconnection._cute"
        if name == "_GateMean":
            o = k.empty(T, H, dtype="bfloat16")
            return b12x(module, name, S, H), (x, y, o, i32(T), None), [(o, (x.double() * y.double().sigmoid()).mean(1))]
        if name == "_GroupedRmsNorm":
            wanted = x.double() * rms(x)[..., None] * (1 + y[0].double())
            return b12x(module, name, S, H), (x, y[0].contiguous(), o, f32(1e-6), i32(T * S), None), [(o, wanted)]
        z, o = torch.cat([x, y], -1) * 3, k.empty(T, S, H, dtype="bfloat16")
        gate, up = z.double().chunk(2, -1)
        wanted = F.silu(gate.clamp(max=3)) * up.clamp(-3, 3)
        kernel = b12x(module, name, "swiglu", k.type("bfloat16"), H, 3.0)
        return kernel, (z, z, o, i64(T * S * H), None), [(o, wanted)]

    return {
        "RMSNorm, sigmoid gate": lambda: sigmoid_gate(5, 3, 8, 8, 1),
        "RMSNorm, sigmoid gate, cluster": lambda: sigmoid_gate(16, 4, 32, 4, 4),
        "gated residual RMSNorm": lambda: gated_residual(4, 1, False),
        "gated residual RMSNorm, weights, segments": lambda: gated_residual(4, 4, True),
        "MXFP8Quantize, 2 threads a block": lambda: mxfp8(True),
        "MXFP8Quantize, 4 threads a block": lambda: mxfp8(False),
        "block_prefix_sum": lambda: prefix_sum(256, 256),
        "block_prefix_sum, few bins": lambda: prefix_sum(64, 256),
        "block_prefix_sum, several tiles": lambda: prefix_sum(1024, 256),
        "radix top-k": lambda: radix_topk("float32", 1),
        "radix top-k, bfloat16": lambda: radix_topk("bfloat16", 1),
        "radix top-k, two blocks a row": lambda: radix_topk("float32", 2),
        "gated delta rule, decoding": gdn_decode,
        "static quantization to e4m3": static_fp8,
        "embedding": embedding,
        "vision, GELU": lambda: vision("gelu"),
        "vision, merge of pixels": lambda: vision("merge"),
        "vision, rotary embedding": lambda: vision("rope"),
        "hyperconnection, grouped RMSNorm": lambda: hyperconnection("_GroupedRmsNorm"),
        "hyperconnection, SwiGLU": lambda: hyperconnection("_Pointwise"),
        "hyperconnection, mean of gates": lambda: hyperconnection("_GateMean"),
    }


def nvidia(k):
    """NVIDIA's examples, which FlashInfer's wheel carries: https://github.com/NVIDIA/cutlass/tree/main/examples/python/CuTeDSL"""
    f32, f16 = k.cutlass.Float32, k.cutlass.Float16
    place = "flashinfer.data.cutlass.examples.python.CuTeDSL."

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
        a, b, c = k.whole(128, 24), k.whole(128, 24), k.empty(128, 128)
        return k.module(place + "ampere.sgemm").SGemm(), (a, b, c), [(c, a.double() @ b.double().T)]

    def tensorop_gemm():
        a, b = k.whole(128, 64, 1, dtype="float16"), k.whole(128, 64, 1, dtype="float16")
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
            a, b = (
                k.whole(1, M, K, dtype="float16").permute(1, 2, 0),
                k.whole(1, N, K, dtype="float16").permute(1, 2, 0),
            )
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
        **nvidia_others(k),
    }


def nvidia_others(k):
    """More of NVIDIA's examples: those for JAX, of the language, and of attention."""
    torch, F = k.torch, k.torch.nn.functional
    place = "flashinfer.data.cutlass.examples.python.CuTeDSL."
    f32 = k.cutlass.Float32
    for_jax = place + "jax.cute_dsl_jax_kernels"

    def vector_add():
        a, b, c = k.normal(1, 256, 4), k.normal(1, 256, 4), k.empty(1, 256, 4)
        return k.module(for_jax).launch_vector_add, (None, a, b, c), [(c, a.double() + b.double())]

    def add_in_jax():
        a, b, c = k.normal(16, 256), k.normal(16, 256), k.empty(16, 256)
        return k.module(for_jax).launch_elementwise_add, (None, a, b, c), [(c, a.double() + b.double())]

    def copy_by_dataclass():
        x, o = k.normal(1000), k.empty(1000)
        return k.module(place + "cute.dataclass_immutable").memcpy_jit, (x, o, 128), [(o, x.double())]

    def vote(by_ptx):
        found = [torch.full((32,), -1, dtype=torch.int32) for _ in range(4)]  # ballot, any, all, uniform
        results = [(lambda x=x: x + 1, torch.full((32,), 1.0 + wanted)) for x, wanted in zip(found, (1023, 1, 0, 0))]
        return k.module(place + "ampere.inline_ptx").vote, (*found, by_ptx), results

    def cooperative():
        """Blocks that wait for each other; that it ends is what it shows."""
        counter = torch.zeros(1, dtype=torch.int32)
        host = k.hosts.ByPointers(k.module(place + "ampere.cooperative_launch").run_cooperative_kernel)
        return host, (counter,), []

    def hstu(causal):
        B, S, H, D = 1, 128, 1, 64
        q, key, v, o = (k.normal(B, S, H, D, dtype="bfloat16") for _ in range(4))
        bias = k.normal(B, H, S, S, dtype="bfloat16")
        scores = F.silu(torch.einsum("bqhd,bkhd->bhqk", q.double(), key.double()) + bias.double())
        wanted = torch.einsum("bhqk,bkhd->bqhd", scores.tril() if causal else scores, v.double())
        kernel = k.module(place + "ampere.hstu_attention").HSTUAttentionForwardAmpere
        made = kernel(k.type("bfloat16"), B, S, S, H, D, 64, 64, 128, is_causal=causal)
        return made, (q, key, v, o, bias, None), [(o, wanted)]

    def fmha():
        k.beside("flashinfer", "data", "cutlass", "examples", "python", "CuTeDSL")
        module, shape = k.module(place + "hopper.fmha"), (1, 1, 1, 128, 64)
        q, key, v, o = (k.normal(*shape, dtype="float16") for _ in range(4))
        lse, turned_round = k.empty(*shape[:-1]), lambda x: x.permute(3, 4, 2, 1, 0)
        wanted = (q.double() @ key.double().transpose(-1, -2) / 8).softmax(-1) @ v.double()
        mask = module.fmha_utils.MaskEnum.WINDOW_MASK
        kernel = module.HopperFusedMultiHeadAttentionForward(f32, f32, (64, 128, 64), False, mask)
        scales = (f32(1.4426950408889634 / 8), f32(0.125), f32(1.0), None, None, None)
        return kernel, (*map(turned_round, (q, key, v, o)), lse.permute(3, 2, 1, 0), *scales), [(o, wanted)]

    return {
        "vector_add (JAX)": vector_add,
        "elementwise_add (JAX)": add_in_jax,
        "memcpy by a dataclass": copy_by_dataclass,
        "votes": lambda: vote(False),
        "votes by PTX": lambda: vote(True),
        "cooperative launch": cooperative,
        "HSTU attention (Ampere)": lambda: hstu(False),
        "HSTU attention (Ampere), causal": lambda: hstu(True),
        "FMHA (Hopper)": fmha,
    }


def cudnn(k):
    """cudnn-frontend: https://github.com/NVIDIA/cudnn-frontend"""
    torch = k.torch
    i32, i64, bf16 = k.cutlass.Int32, k.cutlass.Int64, k.cutlass.BFloat16
    sys.modules["cudnn._compiled_module"] = MagicMock()  # its C++ part, which no kernel needs
    k.module("cudnn")._pybind_module = MagicMock()
    backward = "cudnn.sdpa.bwd.kernels.sm80.bprop_f16"

    def local_to_global(packed):
        module = k.module("cudnn.deepseek_sparse_attention.indexer_top_k.local_to_global_dsl")
        shape = (11, 300) if packed else (2, 3, 300)
        local = torch.randint(-1, 9, shape, generator=k.random, dtype=torch.int32)
        o, starts, bounds = k.empty(*shape, dtype="int32"), torch.arange(2)[:, None, None] * 50, (None, None)
        if packed:
            starts = torch.tensor([0] * 4 + [30] * 7)[:, None]
            bounds = [torch.tensor(b, dtype=torch.int32) for b in ([0, 4, 4, 11], [0, 10, 30, 60])]
        return (
            module.LocalToGlobalTopK(packed),
            (local, o, i32(50), *bounds, None),
            [(o, torch.where(local < 0, -1, local + starts))],
        )

    def bucketed_csr(parallel):
        """From each query block's key blocks to each key block's query blocks, by buckets of three; by atomics."""
        B, H, Q, KV, edges, bucket = 2, 2, 7, 40, 12, 3
        chosen = torch.stack([torch.randperm(KV, generator=k.random)[:edges] for _ in range(B * H * Q)]).view(
            B, H, Q, edges
        )
        groups = -(-Q // bucket)
        hit = torch.zeros(B, H, groups * bucket, KV)
        hit[:, :, :Q].scatter_(-1, chosen, 1.0)
        hit = hit.view(B, H, groups, bucket, KV)
        ends = hit.sum(3).view(B, H, -1).cumsum(-1).view(B, H, groups, KV)
        counts = torch.zeros(B, H, groups, KV, dtype=torch.int32)
        local, offsets = (k.empty(B, H, groups, KV + 1, dtype="int32") for _ in range(2))
        totals, cursors = k.empty(B, H, groups, dtype="int32"), k.empty(B, H, groups, KV, dtype="int32")
        found = k.empty(B, H, Q * edges, dtype="int32")

        def listed():
            result = torch.zeros_like(hit)
            for b, h, g, kv in torch.cartesian_prod(*map(torch.arange, (B, H, groups, KV))).tolist():
                first, last = offsets[b, h, g, kv : kv + 2].tolist()
                for q in found[b, h, first:last].tolist():
                    result[b, h, g, q - g * bucket, kv] += 1
            return result

        module = k.module("cudnn.block_sparse_attention.csrc.bwd.bucketed_k2q_csr")
        kernel, chosen = module.BucketedK2QCsrUniversal(edges, bucket, False, edges, parallel), chosen.int()
        args = (counts, local, totals, offsets, cursors, found, chosen, chosen)
        return kernel, args, [(counts, hit.sum(3)), (lambda: offsets[..., 1:], ends), (cursors, ends), (listed, hit)]

    def prefix_lengths():
        B, N, S = 2, 5, 70
        mask, o = torch.rand(B, N, S, generator=k.random) < 0.5, k.empty(B * N, dtype="int32")
        host = k.hosts.ByPointers(k.module("cudnn.triangle_attention.kernels.prefix_lengths")._host)
        sizes = map(i64, (N, S, N * S, S, 1, B * N, B * N * S))
        return host, (mask.view(torch.int8), o, *sizes, None), [(o, mask.sum(-1).flatten())]

    def engram():
        T, N = 3, 256
        x, key, v = (
            k.normal(T, 4, N, dtype="bfloat16"),
            k.normal(T, 4, N, dtype="bfloat16"),
            k.normal(T, N, dtype="bfloat16"),
        )
        w, mask = k.normal(4, N), torch.tensor([1, 0, 1], dtype=torch.int8)
        o, saved = k.empty(T, 4, N, dtype="bfloat16"), k.empty(T, 4, 4)
        dot = (x.double() * w.double() * key.double()).sum(-1) * rms(x) * rms(key) * N**-0.5
        gate = (dot.abs().clamp(min=1e-6).sqrt() * dot.sign()).sigmoid() * mask[:, None]
        results = [(o, x.double() + gate[..., None] * v.double()[:, None])]
        results.append((saved, torch.stack([gate, dot, rms(x), rms(key)], -1)))
        host = k.module("cudnn.engram._forward").launch_forward
        made = k.hosts.ByPointers(host, d=N, eps=1e-6, key_stride=4 * N, value_stride=N)
        return made, (x, key, v, w, mask, o, saved, i32(T), None), results

    def dot_of_gradient():
        B, S, H, D = 2, 5, 3, 64
        o, do, delta = k.normal(B, S, H, D, dtype="bfloat16"), k.normal(B, S, H, D, dtype="bfloat16"), k.empty(B, H, S)
        wanted = (o.double() * do.double()).sum(-1).transpose(1, 2)
        return k.module(backward)._do_dot_host, (o, do, delta, D, bf16, i32(B * H * S), None), [(delta, wanted)]

    def cast():
        x, o = k.normal(1, 10, 2, 50), k.empty(1, 10, 2, 50, dtype="bfloat16")
        return k.module(backward)._cast_host, (x, o, bf16, i32(500), None), [(o, x.double())]

    def sum_of_heads(chain):
        B, S, H, D = 2, 5, 6, 64
        x, o = k.normal(B, S, H, D, dtype="bfloat16"), k.empty(B, S, 2, D, dtype="bfloat16")
        results = [(o, x.double().view(B, S, 2, 3, D).sum(3))]
        if not chain:
            return k.module(backward)._dkv_reduce_host, (x, o, D, H, 2, bf16, i32(B * S * 2 * D), None), results
        sizes = (i64(B * S * D), i64(D), i64(D // 2), i32(4), i32(2), i32(3), D // 2, bf16, None)
        kernel = k.module("cudnn.linear_attention.frost.common.head_reduce").launch
        return kernel, (x.view(B * S, H, D), o.view(B * S, 2, D), *sizes), results

    return {
        "LocalToGlobalTopK": lambda: local_to_global(False),
        "LocalToGlobalTopK, packed": lambda: local_to_global(True),
        "BucketedK2QCsr": lambda: bucketed_csr(False),
        "BucketedK2QCsr, parallel": lambda: bucketed_csr(True),
        "prefix lengths": prefix_lengths,
        "engram gate": engram,
        "attention backward, dot": dot_of_gradient,
        "attention backward, cast": cast,
        "attention backward, sum of heads": lambda: sum_of_heads(False),
        "linear attention, sum of heads": lambda: sum_of_heads(True),
    }
