"""Kernels with PTX instructions by their text, beside those that do the same with cute.copy; each block has a row of x and out."""

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from .hosts import Constexpr, initialise, launched, one_warp
from .written import write

POLICY = "createpolicy.fractional.L2::evict_last.b64 {$w0};"
LOADS = {
    1: "ld.global.L2::cache_hint.b32 {$w0}, [{$r0}], {$r1};",
    2: "ld.global.L2::cache_hint.v2.b32 {{$w0}, {$w1}}, [{$r0}], {$r1};",
    4: "ld.global.L1::no_allocate.L2::cache_hint.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}], {$r1};",
}
PLAIN = {
    1: "ld.global.b32   {$w0},[{$r0}];",
    2: "ld.global.v2.b32 { {$w0}, {$w1} }, [ {$r0} ];",
    4: "ld.global.L1::evict_first.v4.b32\t{{$w0},{$w1},{$w2},{$w3}}, [{$r0}] ;",
}
BULK = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
    "[{$r0}], [{$r1}], {$r2}, [{$r3}], {$r4};"
)


def asked(words, hint):
    """The PTX of a load by those whose predicate is not 0; the others get other words."""
    targets, p = ", ".join(f"{{$w{k}}}" for k in range(words)), 2 if hint else 1
    moves = " ".join(f"mov.b32 {{$w{k}}}, {{$r{p + 1 + k}}};" for k in range(words))
    vector, targets = (f".v{words}", f"{{{targets}}}") if words > 1 else ("", targets)
    load = f"ld.global{'.L2::cache_hint' if hint else ''}{vector}.b32 {targets}, [{{$r0}}]{', {$r1}' if hint else ''};"
    return f"{{ .reg .pred p; setp.ne.b32 p, {{$r{p}}}, 0; {moves} @p {load} }}"


def stored(words):
    """The PTX of a store by those whose predicate is not 0."""
    values = ", ".join(f"{{$r{2 + k}}}" for k in range(words))
    return f"{{ .reg .pred p; setp.ne.b32 p, {{$r1}}, 0; @p st.global.v{words}.b32 [{{$r0}}], {{{values}}}; }}"


def evict_last():
    return cute.arch.inline_ptx(POLICY, write_only_types=[cutlass.Int64])


def load(how, source, registers, pred=None):
    """A vector of words to registers: `how` is "hint", "plain", "asked" or "asked hint"."""
    words = cute.recast_tensor(registers, Int32)
    count, hint = cute.size(words), [evict_last()] if how.endswith("hint") else []
    text, args = (LOADS if hint else PLAIN)[count], [source.iterator, *hint]
    if how.startswith("asked"):
        text = asked(count, bool(hint))
        args += [pred.to(Int32), *(words[k] for k in range(count))]
    found = cute.arch.inline_ptx(text, write_only_types=[Int32] * count, read_only_args=args)
    for k in range(count):
        words[k] = found if count == 1 else found[k]


def copy(how, atom, source, registers):
    if how == "copy":
        cute.copy(atom, source, registers)
    else:
        load(how, source, registers)


def atom_of(dtype, words):
    return cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=32 * words)


def vector_of(tensor, size, shift=0):
    """The thread's vector of the block's row, moved by elements."""
    place = cute.arch.block_idx()[0], cute.arch.thread_idx()[0]
    return cute.local_tile(cute.domain_offset((0, shift), tensor), (1, size), place)[0, None]


two_warps = launched(64, blocks="x.shape[0]")


write(globals())('''
vectors(x, out, *, dtype, words, how, limit=None, shift=0, fill=0.0) @two_warps:
    """A vector of words a thread. Threads from `limit` on load nothing and write `fill`; `shift` moves a load by elements."""
    size = words * 32 // dtype.width
    atom, source = atom_of(dtype, words), vector_of(x, size, shift)
    registers = cute.make_rmem_tensor((size,), dtype)
    registers.fill(dtype(fill))
    pred = cute.make_rmem_tensor(1, cutlass.Boolean)
    pred[0] = True if cutlass.const_expr(limit is None) else tidx < limit
    if cutlass.const_expr(how.startswith("asked")):
        load(how, source, registers, pred[0])
    elif cutlass.const_expr(limit is None):
        copy(how, atom, source, registers)
    elif pred[0]:
        copy(how, atom, source, registers)
    if (tidx + 1) * size <= x.shape[1]:
        cute.copy(atom, registers, vector_of(out, size))
stores(x, out, *, dtype, words, how, limit, shift=0) @two_warps:
    """A vector of words a thread, by the first `limit` threads: `how` is "copy" or "asked"; `shift` moves a store by elements."""
    size = words * 32 // dtype.width
    atom, target = atom_of(dtype, words), vector_of(out, size, shift)
    registers = cute.make_rmem_tensor((size,), dtype)
    registers.fill(dtype(0.0))
    if (tidx + 1) * size <= x.shape[1]:
        cute.copy(atom, vector_of(x, size), registers)
    if cutlass.const_expr(how == "asked"):
        held = cute.recast_tensor(registers, Int32)
        args = [target.iterator, (tidx < limit).to(Int32), *(held[k] for k in range(words))]
        cute.arch.inline_ptx(stored(words), read_only_args=args)
    elif tidx < limit:
        cute.copy(atom, registers, target)
slices(x, out, *, dtype) @launched(32, blocks="x.shape[0]"):
    """As the kernels' rows are: ((elements, n), 1, m) slices, each predicated by registers (n, 1, m)."""
    row, size = cute.arch.block_idx()[0], 64 // dtype.width
    columns, atom = 2 * 2 * 32 * size, atom_of(dtype, 2)
    thread, value = cute.make_ordered_layout((1, 32), order=(1, 0)), cute.make_layout((1, 2 * size))
    thr_copy = cute.make_tiled_copy_tv(atom, thread, value).get_slice(tidx)
    source = thr_copy.partition_S(cute.local_tile(x, (1, columns), (row, 0)))
    target = thr_copy.partition_D(cute.local_tile(out, (1, columns), (row, 0)))
    col = thr_copy.partition_S(cute.make_identity_tensor((1, columns)))
    registers = cute.make_fragment_like(source)
    registers.fill(0.0)
    pred = cute.make_rmem_tensor((2, 1, 2), cutlass.Boolean)
    for j in cutlass.range_constexpr(2):
        for i in cutlass.range_constexpr(2):
            pred[i, 0, j] = col[(0, i), 0, j][1] < x.shape[1]
            if pred[i, 0, j]:
                load("hint", source[(None, i), 0, j], registers[(None, i), 0, j])
    cute.copy(atom, registers, target, pred=pred)
bulk_rows(x, out, *, N, how, wait=True, shift=0) @two_warps:
    """N elements through shared memory, by a bulk copy: `how` is "copy" or "hint"; `shift` moves its source by elements."""
    row, warp = cute.arch.block_idx()[0], cute.arch.warp_idx()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
    s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(N), byte_alignment=128)
    initialise(mbar, 1)
    source = cute.local_tile(cute.domain_offset((0, shift), x), (1, N), (row, 0))[0, None]
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, N * 4)
            if cutlass.const_expr(how == "copy"):
                atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
                cute.copy(atom, source, s, mbar_ptr=mbar)
            else:
                args = [s.iterator, source.iterator, Int32(N * 4), mbar, evict_last()]
                cute.arch.inline_ptx(BULK, read_only_args=args)
    if cutlass.const_expr(wait):
        cute.arch.mbarrier_wait(mbar, 0)
    for i in range(tidx, N, 64):
        out[row, i] = s[i]
    if cutlass.const_expr(not wait):
        cute.arch.mbarrier_wait(mbar, 0)
given(x, out, *, text, types=(), args=(), options=()):
    """A call of inline_ptx with any text, types and arguments; `args` are names in `known`."""
    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
    known = {"x": x.iterator, "smem": s.iterator, "policy": evict_last(), "nine": Int32(9), "sixteen": cutlass.Int64(16)}
    arguments = [known[name] for name in args]
    cute.arch.inline_ptx(text, write_only_types=list(types), read_only_args=arguments, **dict(options))
''')
