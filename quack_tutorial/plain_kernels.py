"""The plainest kernels there are for a pattern of reads and writes: what a ceiling is made of. Needs triton and CUDA.

| pattern | kernel                          | moves                          |
|---------|---------------------------------|--------------------------------|
| 1R      | read, and keep one word a block | n words read                   |
| 1R1W    | copy                            | n words read, n written        |
| 2R1W    | add                             | 2 n words read, n written      |
| 2R2W    | add, and keep the sum twice     | 2 n words read, 2 n written    |
| 3R1W    | add three                       | 3 n words read, n written      |

They see memory as 32-bit words, so the dtype of an operation does not matter; each thread moves 16-byte vectors.
`load` is an eviction policy of triton ("", "evict_first" or "evict_last"), `store` a cache modifier ("" or ".cs").
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _read(x_ptr, out_ptr, n, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    # read n words
    x = tl.load(x_ptr + at, mask=at < n, other=0, eviction_policy=LOAD)
    tl.store(out_ptr + block, tl.sum(x, axis=0))


@triton.jit
def _copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # read n words; write n words
    x = tl.load(x_ptr + at, mask=at < n, eviction_policy=LOAD)
    tl.store(out_ptr + at, x, mask=at < n, cache_modifier=STORE)


@triton.jit
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # read 2 n words; write n words
    x = tl.load(x_ptr + at, mask=at < n, eviction_policy=LOAD)
    y = tl.load(y_ptr + at, mask=at < n, eviction_policy=LOAD)
    tl.store(out_ptr + at, x + y, mask=at < n, cache_modifier=STORE)


@triton.jit
def _add_and_keep(x_ptr, y_ptr, out_ptr, kept_ptr, n, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # read 2 n words; write 2 n words
    x = tl.load(x_ptr + at, mask=at < n, eviction_policy=LOAD)
    y = tl.load(y_ptr + at, mask=at < n, eviction_policy=LOAD)
    tl.store(out_ptr + at, x + y, mask=at < n, cache_modifier=STORE)
    tl.store(kept_ptr + at, x, mask=at < n, cache_modifier=STORE)


@triton.jit
def _add_three(x_ptr, y_ptr, z_ptr, out_ptr, n, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # read 3 n words; write n words
    x = tl.load(x_ptr + at, mask=at < n, eviction_policy=LOAD)
    y = tl.load(y_ptr + at, mask=at < n, eviction_policy=LOAD)
    z = tl.load(z_ptr + at, mask=at < n, eviction_policy=LOAD)
    tl.store(out_ptr + at, x + y + z, mask=at < n, cache_modifier=STORE)


KERNELS = {"1R": _read, "1R1W": _copy, "2R1W": _add, "2R2W": _add_and_keep, "3R1W": _add_three}


def plain(pattern: str, block: int, warps: int, load: str, store: str):
    """The pattern's kernel with `block` words a block, as a callable from int32 tensors to a new one."""
    kernel = KERNELS[pattern]

    def call(*inputs):
        n = inputs[0].numel()
        blocks = triton.cdiv(n, block)
        size, count = blocks if pattern == "1R" else n, int(pattern[2:3] or 1)
        outs = [torch.empty(size, dtype=torch.int32, device=inputs[0].device) for _ in range(count)]
        kernel[(blocks,)](*inputs, *outs, n, BLOCK=block, LOAD=load, STORE=store, num_warps=warps)
        return outs[0] if count == 1 else outs

    return call


def torch_own(pattern: str):
    """torch's own kernel for the pattern, or None where it has none that comes near (its sum does not)."""

    def copy(x):
        return torch.empty_like(x).copy_(x)

    def add(x, y):
        return torch.add(x, y)

    return {"1R1W": copy, "2R1W": add}.get(pattern)
