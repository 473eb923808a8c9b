"""Loads that ask L2 to give up last what they read.

A row-wise kernel touches every byte once, so nothing that it reads is worth keeping. The hint is not about that. What L2
has no room for goes to memory: read bytes are dropped, written ones must be written back. With `evict_last` on the loads,
L2 gives up what was written before what was read, and on an H200 the same kernel runs 0.7 to 4.9 % faster than without the
hint, softmax with not a byte found in L2 (`bench/STANDING.md`), on an H100 up to 1.5 %; `evict_first`, which sounds right
for bytes that are used once, made softmax slower. It seems that writes then leave L2 soon and in long runs, so that memory
turns around between reading and writing less often.

Chapter 3 measures the hint on a copy. CuTe DSL has the first kind of load: with a `CopyG2ROp` atom `cute.copy(...,
cache_policy=policy())` becomes `ld.global.L2::cache_hint`, as in `kernels.copy.CopyHint`. Three things it
has not (4.8.1, by the PTX that it emits). They are written here as PTX, by the PTX ISA 9.0:

- "createpolicy", which makes the policy;
- a hint on bulk copies and on cp.async: both take the argument and leave it out;
- a load or store that a predicate switches off: what the DSL makes of `pred` is a branch. Behind a branch the compiler may wait for
  one load before it comes to the next, and before a branch in a loop it keeps more in registers.

So that there is one way and not two, every hinted load from global memory to registers is of the last kind or of its form without
a predicate.
"""

import cutlass
import cutlass.cute as cute

EVICT_LAST = "evict_last"
POLICY = "createpolicy.fractional.L2::{priority}.b64 {{$w0}};"
BULK_COPY = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
    "[{$r0}], [{$r1}], {$r2}, [{$r3}], {$r4};"
)


def load_ptx(count, hinted, predicated):
    """The PTX that loads `count` 32-bit words. Two words with a policy and a predicate are

        { .reg .pred p; setp.ne.b32 p, {$r2}, 0;                        p: whether {$r2} is not 0
          mov.b32 {$w0}, {$r3}; mov.b32 {$w1}, {$r4};                   the words where nothing is loaded
          @p ld.global.L2::cache_hint.v2.b32 {{$w0}, {$w1}}, [{$r0}], {$r1}; }

    `{$r0}` stands for the first of `inline_ptx`'s `read_only_args`: the address, then the policy if it is `hinted`, then the
    predicate and the words to have without it. `{$w0}` is the first result, whose type is the first of `write_only_types`. Doubled
    braces in the code are Python's, for `format` and f-strings.
    """
    words = ", ".join(f"{{$w{k}}}" for k in range(count))
    level, policy = (".L2::cache_hint", ", {$r1}") if hinted else ("", "")
    load = f"ld.global{level}.v{count}.b32 {{{words}}}, [{{$r0}}]{policy};"
    if not predicated:
        return load
    p = 2 if policy else 1
    moves = " ".join(f"mov.b32 {{$w{k}}}, {{$r{p + 1 + k}}};" for k in range(count))
    return f"{{ .reg .pred p; setp.ne.b32 p, {{$r{p}}}, 0; {moves} @p {load} }}"


def policy_of(priority):
    """The opaque number that is an operand of a load with a hint for L2."""
    return cute.arch.inline_ptx(POLICY.format(priority=priority), write_only_types=[cutlass.Int64])


def load_vector(source, target, hinted, inside=None):
    """Copy a vector from global memory to registers, with the hint or without.

    Both are ((elements, n), 1): n loads of 8 or 16 bytes, one behind the other. Where `inside`, a Boolean, is given and is
    false, nothing is loaded and `target` stays as it is.
    """
    operands = [policy_of(EVICT_LAST)] if hinted else []
    predicate = [] if inside is None else [inside.to(cutlass.Int32)]
    for i in range(cute.size(source, mode=[0, 1])):
        words = cute.recast_tensor(target[(None, i), 0], cutlass.Int32)
        count = cute.size(words)
        kept = [words[k] for k in range(count)] if predicate else []
        found = cute.arch.inline_ptx(
            load_ptx(count, hinted, bool(predicate)),
            write_only_types=[cutlass.Int32] * count,
            read_only_args=[source[(None, i), 0].iterator, *operands, *predicate, *kept],
        )
        for k in range(count):
            words[k] = found[k]


def store_vector(source, target, inside):
    """Copy a vector from registers to global memory where `inside`, a Boolean, is true; shapes as in `load_vector`."""
    for i in range(cute.size(source, mode=[0, 1])):
        words = cute.recast_tensor(source[(None, i), 0], cutlass.Int32)
        count = cute.size(words)
        values = ", ".join(f"{{$r{2 + k}}}" for k in range(count))
        store = f"@p st.global.v{count}.b32 [{{$r0}}], {{{values}}};"
        cute.arch.inline_ptx(
            f"{{ .reg .pred p; setp.ne.b32 p, {{$r1}}, 0; {store} }}",
            read_only_args=[target[(None, i), 0].iterator, inside.to(cutlass.Int32), *(words[k] for k in range(count))],
        )


def bulk_copy_evict_last(source, target, mbar, count=None):
    """Start a bulk copy from global to shared memory of the first `count` elements of `source`, by default of all, and ask L2 to
    keep them longest.

    Both are tensors of one mode without gaps, at multiples of 16 bytes, and so many bytes are copied; they are counted at `mbar`.
    For one thread.
    """
    count = cute.size(source) if count is None else count
    nbytes = cutlass.Int32(count * (source.element_type.width // 8))
    cute.arch.inline_ptx(
        BULK_COPY, read_only_args=[target.iterator, source.iterator, nbytes, mbar, policy_of(EVICT_LAST)]
    )
