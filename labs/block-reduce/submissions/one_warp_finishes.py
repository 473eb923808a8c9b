# Lanes hand their pair down, warp 0 finishes alone; each thread reads neighbouring columns.
import cutlass
import cutlass.cute as cute

NONE = 2147483647


class RowArgmax:
    def __init__(self, threads):
        self.warps = threads // 32

    @cute.jit
    def __call__(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        self.search(mX, mMax, mIndex).launch(grid=[mX.shape[0], 1, 1], block=[32 * self.warps, 1, 1])

    @cute.jit
    def down(self, m, at, lanes: cutlass.Constexpr):
        step = lanes // 2
        while cutlass.const_expr(step > 0):
            m_below = cute.arch.shuffle_sync_down(m, step)
            at_below = cute.arch.shuffle_sync_down(at, step)
            # Lower lanes hold lower or equal columns only by accident, so ties are compared.
            if m_below > m:
                m = m_below
                at = at_below
            elif m_below == m:
                if at_below < at:
                    at = at_below
            step = step // 2
        return m, at

    @cute.kernel
    def search(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        r, _, _ = cute.arch.block_idx()
        warp, lane = thread // 32, thread % 32
        columns = mX.shape[1]
        each = cute.ceil_div(columns, 32 * self.warps)
        smem = cutlass.memory.SmemAllocator()
        s_max = smem.allocate_tensor(cutlass.Float32, cute.make_layout(self.warps), 16)
        s_at = smem.allocate_tensor(cutlass.Int32, cute.make_layout(self.warps), 16)

        m, at = -cutlass.Float32.inf, cutlass.Int32(NONE)
        for k in cutlass.range_constexpr(each):
            column = thread * each + k
            if column < columns:
                number = mX[r, column]
                if number > m or at == NONE:
                    m = number
                    at = column
        m, at = self.down(m, at, 32)
        if lane == 0:
            s_max[warp] = m
            s_at[warp] = at
        cute.arch.barrier()
        if warp == 0:
            m, at = self.down(s_max[lane % self.warps], s_at[lane % self.warps], self.warps)
            if lane == 0:
                mMax[r] = m
                mIndex[r] = at
