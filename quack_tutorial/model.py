"""A small transformer in the style of Llama whose norms and loss can be exchanged, and what it needs to be trained.

| part                              | computed by                                                        |
|-----------------------------------|--------------------------------------------------------------------|
| RMSNorm, with the residual's sum  | `Operations.norm`: torch's own, ours, Liger's or QuACK's            |
| cross-entropy                     | `Operations.loss`: the same four                                   |
| attention, rotary positions       | torch: scaled_dot_product_attention and elementwise operations     |
| SwiGLU, linear layers, embedding  | torch                                                              |

Parameters and AdamW's moments are float32. Activations, logits among them, have `Config.dtype`, to which a layer converts its
weights when it uses them. B sequences of T tokens go through the layers as a matrix of B T rows.

Not covered: grouped queries, a key-value cache, dropout, schedules of the learning rate, sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from quack_tutorial import ops

EPS = 1e-6


@dataclass(frozen=True)
class Operations:
    """The two operations that are exchanged.

    norm(x, residual, weight) -> (RMSNorm of h, h)
        with h = x + residual, or x where residual is None
    loss(logits, target) -> the mean cross-entropy
    """

    norm: Callable
    loss: Callable


def _stock_norm(x, residual, weight):
    h = x if residual is None else x + residual
    return F.rms_norm(h, h.shape[-1:], weight, EPS), h


def _our_norm(x, residual, weight):
    if residual is None:
        return ops.rmsnorm(x, weight, eps=EPS), x
    return ops.rmsnorm(x, weight, residual=residual, eps=EPS)


def _stock_loss(logits, target):
    # As most training code has it: torch's own keeps 16-bit logits' log-probabilities in 16 bits.
    return F.cross_entropy(logits.float(), target)


STOCK = Operations(_stock_norm, _stock_loss)
STOCK_16 = Operations(_stock_norm, F.cross_entropy)
OURS = Operations(_our_norm, ops.cross_entropy)


def liger() -> Operations:
    """Liger's, with arithmetic in float32; its loss writes the gradient over the logits."""
    from liger_kernel.ops import LigerCrossEntropyFunction, LigerFusedAddRMSNormFunction, LigerRMSNormFunction

    def norm(x, residual, weight):
        if residual is None:
            return LigerRMSNormFunction.apply(x, weight, EPS, 0.0, "gemma", False), x
        return LigerFusedAddRMSNormFunction.apply(x, residual, weight, EPS, 0.0, "gemma", False)

    return Operations(norm, lambda logits, target: LigerCrossEntropyFunction.apply(logits, target, None)[0])


def quack() -> Operations:
    """QuACK's."""
    from quack import cross_entropy, rmsnorm

    def norm(x, residual, weight):
        if residual is None:
            return rmsnorm(x, weight, eps=EPS), x
        return rmsnorm(x, weight, residual=residual, eps=EPS, prenorm=True)

    return Operations(norm, cross_entropy)


@dataclass(frozen=True)
class Config:
    """Sizes; the width is a multiple of twice the heads, for rotary positions turn pairs of numbers of a head."""

    vocabulary: int = 256
    width: int = 64
    layers: int = 2
    heads: int = 4
    hidden: int = 192  # of the SwiGLU
    dtype: torch.dtype = torch.float32


class Linear(nn.Linear):
    """A linear layer without bias that uses its float32 weight in the type of its input."""

    def __init__(self, rows, columns):
        super().__init__(rows, columns, bias=False)
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class Norm(nn.Module):
    """RMSNorm of the sum of input and residual; returns the norm and the sum."""

    def __init__(self, config, operations):
        super().__init__()
        self.weight, self.norm = nn.Parameter(torch.ones(config.width)), operations.norm

    def forward(self, x, residual):
        return self.norm(x, residual, self.weight.to(x.dtype))


class Attention(nn.Module):
    """Causal attention whose queries and keys are turned by their positions."""

    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = Linear(config.width, 3 * config.width)
        self.out = Linear(config.width, config.width)

    def forward(self, x, cos, sin):
        T, D = cos.shape[0], 2 * cos.shape[1]
        # Each (B, heads, T, D).
        q, k, v = self.qkv(x).view(-1, T, 3, self.heads, D).permute(2, 0, 3, 1, 4)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))


def turned(x, cos, sin):
    """Rotary positions: the pairs (x[i], x[i + D/2]) of (..., T, D), each turned by its position times its frequency."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class SwiGLU(nn.Module):
    """silu(x gate) * (x up), projected back."""

    def __init__(self, config):
        super().__init__()
        self.both = Linear(config.width, 2 * config.hidden)
        self.down = Linear(config.hidden, config.width)

    def forward(self, x):
        gate, up = self.both(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Model(nn.Module):
    """Tokens and their successors, (B, T) each -> the mean loss."""

    def __init__(self, config: Config, operations: Operations = STOCK):
        super().__init__()
        self.config, self.loss = config, operations.loss
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.norms = nn.ModuleList(Norm(config, operations) for _ in range(2 * config.layers + 1))
        self.attention = nn.ModuleList(Attention(config) for _ in range(config.layers))
        self.swiglu = nn.ModuleList(SwiGLU(config) for _ in range(config.layers))
        self.head = Linear(config.width, config.vocabulary)

    def forward(self, tokens, targets):
        x, residual = self.embedding(tokens.flatten()).to(self.config.dtype), None
        cos, sin = self.positions(tokens)
        for i in range(self.config.layers):
            y, residual = self.norms[2 * i](x, residual)
            x = self.attention[i](y, cos, sin)
            y, residual = self.norms[2 * i + 1](x, residual)
            x = self.swiglu[i](y)
        y, _ = self.norms[-1](x, residual)
        return self.loss(self.head(y), targets.flatten())

    def positions(self, tokens):
        """The cosines and sines of each position's angles, (T, D/2) each."""
        half = self.config.width // self.config.heads // 2
        frequencies = 10000.0 ** (-torch.arange(half, device=tokens.device) / half)
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * frequencies
        return angles.cos().to(self.config.dtype), angles.sin().to(self.config.dtype)


def sums(lines: int, seed: int = 0) -> bytes:
    """A text to learn: so many lines like "37+5=42"."""
    pairs = np.random.default_rng(seed).integers(0, 100, (lines, 2)).tolist()
    return "".join(f"{a}+{b}={a + b}\n" for a, b in pairs).encode()


def batches(text: bytes, B: int, T: int, steps: int, bytes_a_token: int = 1, seed: int = 0):
    """(steps, B, T + 1) int64: random pieces of the text, whose tokens are 1 byte or 2 each."""
    tokens = np.frombuffer(text[: len(text) // 2 * 2], np.uint8 if bytes_a_token == 1 else np.uint16).astype(np.int64)
    starts = np.random.default_rng(seed).integers(0, len(tokens) - T, (steps, B, 1))
    return torch.from_numpy(tokens[starts + np.arange(T + 1)])


def train(model, data, lr: float = 1e-3, before_step=lambda step: None):
    """Train on `data` as `batches` gives it, with AdamW; returns the losses, (steps,) float32, on the data's device."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), fused=data.is_cuda)
    losses = torch.empty(len(data), device=data.device)
    for step, batch in enumerate(data):
        before_step(step)
        loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[step] = loss.detach()
    return losses


class Traffic(TorchDispatchMode):
    """While it is entered: the bytes that torch's operations read and write, were each input read and each output written once.

    `rows` are (operation, bytes read, bytes written). Views move nothing. nll_loss reads one element a row and is counted so; an
    operation that a library does not show to torch's dispatcher is not seen.
    """

    def __init__(self):
        super().__init__()
        self.rows = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **(kwargs or {}))
        if not operation.is_view and "detach" not in operation.name():
            read = 0 if "nll_loss" in operation.name() else _bytes((args, kwargs))
            self.rows.append((operation.name().removeprefix("aten::"), read, _bytes(out)))
        return out

    @property
    def total(self) -> int:
        """All bytes read and written."""
        return sum(read + written for _, read, written in self.rows)

    def table(self, elements: int) -> str:
        """Bytes read and written for each of `elements`, a line an operation; those that move less than half a byte left out."""
        rows = [row for row in self.rows if sum(row[1:]) >= elements / 2]
        lines = [f"{'':40} read written"]
        lines += [f"{name:40} {read / elements:4.0f} {written / elements:7.0f}" for name, read, written in rows]
        return "\n".join(lines)


def _bytes(tree):
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
