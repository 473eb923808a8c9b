"""Loads that tell the L2 cache which bytes to keep: those that were read, rather than those that were written.

A row-wise kernel touches every byte once, so nothing that it reads is worth keeping. The hint is not about that. What L2
has no room for goes to memory: read bytes are dropped, written ones must be written back. With `evict_last` on the loads,
L2 gives up what was written before what was read, and the same kernel runs 2 to 4 % faster ("one read" and "one read, kept in
L2" in `book/records/rmsnorm-ladder.json` and `softmax-ladder.json`); `evict_first`, which sounds right for bytes that are used
once, made softmax slower. It seems that writes then leave L2 soon and in long runs, so that memory turns around between reading
and writing less often. A kernel that writes next to nothing gains nothing.

CuTe DSL's copy atoms have hints for L1 only. `cute.arch.inline_ptx` gives the instructions that have one for L2, by the
PTX ISA 9.0: "createpolicy", "ld" and "cp.async.bulk".
"""

import cutlass
import cutlass.cute as cute

POLICY = "createpolicy.fractional.L2::evict_last.b64 {$w0};"
LOADS = {
    2: "ld.global.L2::cache_hint.v2.b32 {{$w0}, {$w1}}, [{$r0}], {$r1};",
    4: "ld.global.L2::cache_hint.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}], {$r1};",
}  # by 32-bit words
BULK_COPY = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
    "[{$r0}], [{$r1}], {$r2}, [{$r3}], {$r4};"
)


def evict_last():
    """The policy, an opaque number that is an operand of the loads: what L2 is to give up last."""
    return cute.arch.inline_ptx(POLICY, write_only_types=[cutlass.Int64])


@cute.jit
def load_evict_last(source: cute.Tensor, target: cute.Tensor, pred: cutlass.Constexpr = None):
    """Copy vectors of 8 or 16 bytes from global memory to registers, and ask L2 to keep them longest.

    `source` and `target` are ((elements of a vector, n), 1, m); `pred` has Booleans (n, 1, m): vectors that are switched
    off keep what `target` has.
    """
    policy = evict_last()
    for j in cutlass.range_constexpr(cute.size(source, mode=[2])):
        for i in cutlass.range_constexpr(cute.size(source, mode=[0, 1])):
            vector, words = source[(None, i), 0, j], cute.recast_tensor(target[(None, i), 0, j], cutlass.Int32)
            if cutlass.const_expr(pred is None):
                load_words(vector, words, policy)
            elif pred[i, 0, j]:
                load_words(vector, words, policy)


@cute.jit
def load_words(vector: cute.Tensor, words: cute.Tensor, policy):
    """One load instruction: a vector in global memory into as many 32-bit words."""
    count = cute.size(words)
    found = cute.arch.inline_ptx(
        LOADS[count], write_only_types=[cutlass.Int32] * count, read_only_args=[vector.iterator, policy]
    )
    for k in cutlass.range_constexpr(count):
        words[k] = found[k]


def bulk_copy_evict_last(source, target, mbar):
    """Start a bulk copy from global to shared memory of as many bytes as `source` has, and ask L2 to keep them longest.

    Both are tensors of one mode without gaps, at multiples of 16 bytes; the bytes are counted at `mbar`. For one thread.
    """
    nbytes = cutlass.Int32(cute.size(source) * source.element_type.width // 8)
    cute.arch.inline_ptx(BULK_COPY, read_only_args=[target.iterator, source.iterator, nbytes, mbar, evict_last()])
