"""`quack-tutorial head`: a model's head and its loss, forward and backward, with the logits whole or in pieces; kept as a record.

| way              | logits                                                                                          |
|------------------|-------------------------------------------------------------------------------------------------|
| stock            | whole, and their float32 copy: torch's own operations                                            |
| torch.compile    | the same, compiled with dynamic=False                                                            |
| ours             | whole: torch's matrix product and `ops.cross_entropy`                                            |
| ours, in pieces  | `PIECE` rows at a time: `ops.linear_cross_entropy`                                               |
| ours, quarters   | the same, a quarter of the rows at a time                                                        |
| torch, in pieces | `torch.nn.functional.linear_cross_entropy`, in the chunks that its "auto" takes                  |
| Liger            | in pieces: its fused linear cross-entropy                                                        |
| QuACK            | in pieces of 4,096 rows: its chunked linear cross-entropy, not tuned                              |
| matrix products  | the three that each way needs at least, and no loss                                              |

Kept of each: `samples_ms`, taken in turns with the others'; `peak_bytes`, the most that torch's allocator gave out beside the
inputs and the two gradients; `loss_error`, the loss's distance from float32, and `gradient_error`, the larger of the two
gradients' relative distances (of norms).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from bench.asked import command_line, numbers, on_a_gpu
from quack_tutorial import ops, records, timing

SHAPES = ((4096, 32000), (4096, 128256), (2048, 151936))  # width of the hidden states, words
TOKENS = 8192
PIECE = 1024
ROUNDS = 7


def in_pieces(hidden, weight, target, rows=PIECE):
    """The mean loss, with the logits of so many rows at a time; None: of a quarter of them."""
    return ops.linear_cross_entropy(hidden, weight, target, batch_chunk_size=rows)


def stock(hidden, weight, target):
    """The mean loss by torch's own operations."""
    return F.cross_entropy((hidden @ weight.T).float(), target)


def ours(hidden, weight, target):
    """The mean loss by torch's matrix product and our kernel."""
    return ops.cross_entropy(hidden @ weight.T, target, dtype=torch.float32)


def torchs(hidden, weight, target):
    """The mean loss by torch's own linear cross-entropy, in chunks."""
    return F.linear_cross_entropy(hidden, weight, target, options=torch.nn.LinearCrossEntropyOptions())


def liger(hidden, weight, target):
    """The mean loss by Liger's fused linear cross-entropy."""
    from liger_kernel.ops import LigerFusedLinearCrossEntropyFunction

    return LigerFusedLinearCrossEntropyFunction.apply(hidden, weight, target)[0]


def quack(hidden, weight, target):
    """The mean loss by QuACK's chunked linear cross-entropy."""
    from quack.linear_cross_entropy import chunked_linear_cross_entropy

    return chunked_linear_cross_entropy(hidden, weight, target, tuned=False, use_scaled_exp=False)


def ways(device) -> dict:
    """Name -> (hidden, weight, target) -> the mean loss."""
    found = {
        "stock": stock,
        "ours": ours,
        "ours, in pieces": in_pieces,
        "ours, quarters": lambda *args: in_pieces(*args, None),
        "torch, in pieces": torchs,
    }
    if device == "cuda":
        found["torch.compile"] = torch.compile(stock, dynamic=False)
        found |= {"Liger": liger, "QuACK": quack}
    return found


def reference(hidden, weight, target, piece=1024):
    """(mean loss, gradients of hidden and weight) in float32, some rows at a time."""
    w = weight.detach().float()
    loss, dhidden, dweight = 0.0, torch.empty_like(hidden, dtype=torch.float32), torch.zeros_like(w)
    for rows in (slice(first, first + piece) for first in range(0, len(hidden), piece)):
        h = hidden.detach()[rows].float()
        logits = h @ w.T
        loss += F.cross_entropy(logits, target[rows], reduction="sum").item() / len(hidden)
        gradient = logits.softmax(1)
        gradient[torch.arange(len(h), device=h.device), target[rows]] -= 1
        gradient /= len(hidden)
        dhidden[rows] = gradient @ w
        dweight.addmm_(gradient.T, h)
    return loss, dhidden, dweight


def measure(tokens, width, words, clock, device="cuda", dtype=torch.bfloat16) -> dict:
    """One shape: of each way its samples, memory and errors, or why it failed."""
    draw = torch.Generator(device).manual_seed(0)
    hidden = torch.randn(tokens, width, generator=draw, device=device).to(dtype).requires_grad_()
    weight = (torch.randn(words, width, generator=draw, device=device) * width**-0.5).to(dtype).requires_grad_()
    target = torch.randint(words, (tokens,), generator=draw, device=device)
    exact, *gradients = reference(hidden, weight, target)
    norms = [gradient.norm() for gradient in gradients]
    standing = 2 * (hidden.nbytes + weight.nbytes) + target.nbytes
    found, calls = {}, {}

    def step(loss_of):
        hidden.grad = weight.grad = None
        loss = loss_of(hidden, weight, target)
        loss.backward()
        return loss.detach()

    for name, loss_of in ways(device).items():
        try:
            loss = step(loss_of)  # compiles
            far = [
                ((given.grad.float() - right).norm() / norm).item()
                for given, right, norm in zip((hidden, weight), gradients, norms)
            ]
        except Exception as error:  # whatever a library raises, the others go on
            found[name] = {"status": "failed", "message": f"{type(error).__name__}: {error}"[:160]}
            continue
        found[name] = {"status": "ok", "loss_error": abs(loss.item() - exact), "gradient_error": max(far)}
        calls[name] = lambda loss_of=loss_of: step(loss_of)
    del gradients
    hidden.grad = weight.grad = None
    for name, call in calls.items():
        found[name]["peak_bytes"] = clock.peak_bytes(call, standing)
    logits = (hidden @ weight.T).detach()

    def products():
        return hidden.detach() @ weight.detach().T, logits @ weight.detach(), logits.T @ hidden.detach()

    found["matrix products"] = {"status": "ok"}
    for name, samples in clock.interleaved_ms(calls | {"matrix products": products}).items():
        found[name]["samples_ms"] = samples
    return {"tokens": tokens, "width": width, "words": words, "dtype": str(dtype).removeprefix("torch."), "ways": found}


class Clock:
    """Milliseconds between CUDA events, and what torch's allocator gave out."""

    def peak_bytes(self, call, standing):
        """The most bytes allocated in a call, less `standing`."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - standing

    def interleaved_ms(self, calls):
        """Name -> `ROUNDS` samples."""
        found = {name: [] for name in calls}
        for turn in range(-1, ROUNDS):  # the first warms up
            for name in list(calls)[:: 1 if turn % 2 else -1]:
                ms = timing.between_events_us(calls[name]) / 1e3
                if turn >= 0:
                    found[name].append(records.rounded(ms))
        return found


def add_arguments(parser):
    """Declare what `quack-tutorial head` takes."""
    parser.add_argument("--tokens", default=str(TOKENS), help="rows of the logits (default: %(default)s)")
    parser.add_argument("--out", metavar="FILE", help="keep the record in this file, from the first shape on")


@on_a_gpu
def run(args, found) -> int:
    """Measure and print every shape; 2 without a GPU."""
    from bench.worker import describe

    (tokens,) = numbers(args.tokens, "--tokens")
    line = command_line(args, ["head"], ["tokens", "out"])
    record = records.stamped(describe(), found.driver, line) | {"shapes": []}
    for width, words in SHAPES:
        torch._dynamo.reset()
        record["shapes"].append(measure(tokens, width, words, Clock()))
        torch.cuda.empty_cache()
        print(said(record["shapes"][-1]), flush=True)
        if args.out:
            records.save(args.out, record)
    return 0


def said(shape) -> str:
    """A shape as lines of text."""
    from statistics import median

    lines = [f"{shape['tokens']:,} tokens, width {shape['width']:,}, {shape['words']:,} words"]
    for name, way in shape["ways"].items():
        if way["status"] != "ok":
            lines.append(f"  {name:16} {way['message']}")
            continue
        line = f"  {name:16} {median(way['samples_ms']):7.2f} ms"
        if "peak_bytes" in way:
            line += f" {way['peak_bytes'] / 1e9:6.2f} GB, loss within {way['loss_error']:.1e}, gradient {way['gradient_error']:.1e}"
        lines.append(line)
    return "\n".join(lines)
