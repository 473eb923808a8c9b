"""Kernels with PTX instructions by their text, beside kernels that do the same with cute.copy."""

import cutlass
import cutlass.cute as cute

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


def evict_last():
    return cute.arch.inline_ptx(POLICY, write_only_types=[cutlass.Int64])


class Vectors:
    """Each row of x to out, a vector of 32-bit words a thread: `how` is "copy", "hint", "plain", "asked" or "asked hint".

    Threads at or past `limit` vectors of a row load nothing and write `fill`; `shift` moves a load by elements.
    """

    def __init__(self, dtype, words, how, limit=None, shift=0, fill=0.0):
        self.dtype, self.words, self.how, self.limit, self.shift, self.fill = dtype, words, how, limit, shift, fill
        self.size = words * 32 // dtype.width

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[0], 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        bits = 32 * self.words
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=bits)
        source = cute.local_tile(x, (1, self.size), (row, tidx))
        if cutlass.const_expr(self.shift > 0):
            source = cute.local_tile(cute.domain_offset((0, self.shift), x), (1, self.size), (row, tidx))
        registers = cute.make_rmem_tensor((1, self.size), self.dtype)
        registers.fill(self.dtype(self.fill))
        pred = cute.make_rmem_tensor((1, 1), cutlass.Boolean)
        pred[0, 0] = True if cutlass.const_expr(self.limit is None) else tidx < self.limit
        if cutlass.const_expr(self.how.startswith("asked")):
            self.load_asked(source[0, None], registers[0, None], pred[0, 0])
        elif cutlass.const_expr(self.limit is None):
            self.load(atom, source[0, None], registers[0, None])
        elif pred[0, 0]:
            self.load(atom, source[0, None], registers[0, None])
        if (tidx + 1) * self.size <= x.shape[1]:
            cute.copy(atom, registers[0, None], cute.local_tile(out, (1, self.size), (row, tidx))[0, None])

    @cute.jit
    def load(self, atom, source, registers):
        if cutlass.const_expr(self.how == "copy"):
            cute.copy(atom, source, registers)
        else:
            words = cute.recast_tensor(registers, cutlass.Int32)
            types, args, texts = [cutlass.Int32] * self.words, [source.iterator], PLAIN
            if cutlass.const_expr(self.how == "hint"):
                args, texts = [source.iterator, evict_last()], LOADS
            found = cute.arch.inline_ptx(texts[self.words], write_only_types=types, read_only_args=args)
            for k in cutlass.range_constexpr(self.words):
                words[k] = found if self.words == 1 else found[k]

    def load_asked(self, source, registers, pred):
        words, hint = cute.recast_tensor(registers, cutlass.Int32), self.how == "asked hint"
        args = [source.iterator, *([evict_last()] if hint else []), pred.to(cutlass.Int32)]
        args += [words[k] for k in range(self.words)]
        types = [cutlass.Int32] * self.words
        found = cute.arch.inline_ptx(asked(self.words, hint), write_only_types=types, read_only_args=args)
        for k in range(self.words):
            words[k] = found if self.words == 1 else found[k]


def stored(words):
    """The PTX of a store by those whose predicate is not 0."""
    values = ", ".join(f"{{$r{2 + k}}}" for k in range(words))
    return f"{{ .reg .pred p; setp.ne.b32 p, {{$r1}}, 0; @p st.global.v{words}.b32 [{{$r0}}], {{{values}}}; }}"


class Stores:
    """Each row of x to out, a vector of `words` 32-bit words a thread, by the first `limit` threads: `how` is "copy" or "asked".

    `shift` moves a store by elements.
    """

    def __init__(self, dtype, words, how, limit, shift=0):
        self.dtype, self.words, self.how, self.limit, self.shift = dtype, words, how, limit, shift
        self.size = words * 32 // dtype.width

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[0], 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=32 * self.words)
        registers = cute.make_rmem_tensor((1, self.size), self.dtype)
        registers.fill(self.dtype(0.0))
        if (tidx + 1) * self.size <= x.shape[1]:
            cute.copy(atom, cute.local_tile(x, (1, self.size), (row, tidx))[0, None], registers[0, None])
        if cutlass.const_expr(self.shift > 0):
            out = cute.domain_offset((0, self.shift), out)
        target = cute.local_tile(out, (1, self.size), (row, tidx))[0, None]
        if cutlass.const_expr(self.how == "asked"):
            words = cute.recast_tensor(registers[0, None], cutlass.Int32)
            asked = (tidx < self.limit).to(cutlass.Int32)
            args = [target.iterator, asked, *(words[k] for k in range(self.words))]
            cute.arch.inline_ptx(stored(self.words), read_only_args=args)
        elif tidx < self.limit:
            cute.copy(atom, registers[0, None], target)


class Slices:
    """A row of x to out as the kernels' rows are: ((elements, n), 1, m) slices, each predicated by registers (n, 1, m)."""

    def __init__(self, dtype):
        self.dtype, self.size = dtype, 64 // dtype.width

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[0], 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        size, columns = self.size, 2 * 2 * 32 * self.size
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=64)
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
                vector, words = source[(None, i), 0, j], cute.recast_tensor(registers[(None, i), 0, j], cutlass.Int32)
                if pred[i, 0, j]:
                    types, args = [cutlass.Int32] * 2, [vector.iterator, evict_last()]
                    found = cute.arch.inline_ptx(LOADS[2], write_only_types=types, read_only_args=args)
                    for k in cutlass.range_constexpr(2):
                        words[k] = found[k]
        cute.copy(atom, registers, target, pred=pred)


class BulkRows:
    """N elements of each row of x to out through shared memory, by a bulk copy: `how` is "copy" or "hint".

    `shift` moves its source by elements.
    """

    def __init__(self, N, how, wait=True, shift=0):
        self.N, self.how, self.wait, self.shift = N, how, wait, shift

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[x.shape[0], 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        warp = cute.arch.warp_idx()
        smem = cutlass.memory.SmemAllocator()
        mbar = smem.allocate_array(cutlass.Int64, 1, byte_alignment=8)
        s = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.N), byte_alignment=128)
        if tidx == 0:
            cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.barrier()
        source = cute.local_tile(cute.domain_offset((0, self.shift), x), (1, self.N), (row, 0))[0, None]
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(mbar, self.N * 4)
                if cutlass.const_expr(self.how == "copy"):
                    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyBulkG2SOp(), cutlass.Float32)
                    cute.copy(atom, source, s, mbar_ptr=mbar)
                else:
                    args = [s.iterator, source.iterator, cutlass.Int32(self.N * 4), mbar, evict_last()]
                    cute.arch.inline_ptx(BULK, read_only_args=args)
        if cutlass.const_expr(self.wait):
            cute.arch.mbarrier_wait(mbar, 0)
        for i in range(tidx, self.N, 64):
            out[row, i] = s[i]
        if cutlass.const_expr(not self.wait):
            cute.arch.mbarrier_wait(mbar, 0)


class Given:
    """A call of inline_ptx with any text, types and arguments; `args` are names in `known`."""

    def __init__(self, text, types=(), args=(), **options):
        self.text, self.types, self.args, self.options = text, types, args, options

    @cute.jit
    def __call__(self, x: cute.Tensor, out: cute.Tensor):
        self.kernel(x, out).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, x: cute.Tensor, out: cute.Tensor):
        s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
        policy = evict_last()
        known = {"x": x.iterator, "smem": s.iterator, "policy": policy}
        known |= {"nine": cutlass.Int32(9), "sixteen": cutlass.Int64(16)}
        cute.arch.inline_ptx(
            self.text,
            write_only_types=list(self.types),
            read_only_args=[known[name] for name in self.args],
            **self.options,
        )
