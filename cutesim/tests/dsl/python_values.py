"""What Python's own operators make of the DSL's numbers, known and unknown ones."""

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float16, Float32, Int8, Int32, Uint32

from .written import write


@cute.jit
def host(kernel: cutlass.Constexpr, a: cute.Tensor, b: cute.Tensor, f: cute.Tensor, out: cute.Tensor):
    kernel(a, b, f, out).launch(grid=[1, 1, 1], block=[32, 1, 1])


write(
    globals(),
    '''
chosen:
    t, _, _ = cute.arch.thread_idx()
    i, j, x = a[t], b[t], f[t]
    out[0, t] = Float32(i or j)
    out[1, t] = Float32(i and j)
    out[2, t] = Float32(i or 7)
    out[3, t] = Float32(i and j and 9)
    out[4, t] = Float32(i and j or 9)
    out[5, t] = i or x
    out[6, t] = x or 2.5
    out[7, t] = Float32((i > 0) and j)
    out[8, t] = Float32(7 or i)
    out[9, t] = 1.5 and i
    out[10, t] = 1.0 if i and j else 0.0
    out[11, t] = Float32(not (i or j))
    out[12, t] = Float32(i in (5, 12))
    out[13, t] = Float32((lambda z: z or 9)(i))
    i &= j or 4
    out[14, t] = Float32(i)
    out[15, t] = Float32(7 in [i, 7, j])
constants:
    stage, big = Int32(0), Float32(1e30)
    out[0] = (stage - 1) % 3
    out[1] = Int32(7) % Int32(-3)
    out[2] = Int32(Int8(-7) % Int8(3))
    out[3] = Int32(Float32(-7.5) % Float32(2) * 10)
    out[4] = Int32(big * big / big > 1e31)
    out[5] = Int32(Float16(65519.0))
    out[6] = Int32((Float32(16777216) + Float32(1)) - Float32(16777216))
    out[7] = Int32(Int32(-1) // Uint32(2))
    out[8] = Int32(-1 // Uint32(2))
    out[9] = Int32(Int32(-1) >> Uint32(1))
    out[10] = Int32(Uint32(7) > -1)
    out[11] = Int32(Int32(-1) == Uint32(4294967295))
    out[12] = Int32(-7 / Uint32(4))
    out[13] = Int32(max(Int32(-1), Uint32(3)) > Uint32(3))
    out[14] = Int32(0) or Int32(6)
    out[15] = Int32(5) and Int32(6)
    out[16] = Int32(Int8(3) or 300)
    out[17] = int(Int32(4)) + [5, 6, 7][Int32(1)]
    out[18] = [5, 6, 7][not Int32(0)]
    out[19] = len(f"{Int32(30)}{a[0]}") + 10 * len(repr(Int32(30))) + 100 * len(repr(a[0])) + 10000 * len(str(a[0] > 3))
    out[20] = Int32(3 in (Int32(3), 5))
carried:
    """Numbers of the source, in the arms of an `if` that changes their variables and before it."""
    t, _, _ = cute.arch.thread_idx()
    x, unchanged, n, pair = Float32(-1.25) * 0.3, Float32(-1.25) * 0.3, 1, (1, 2)
    if f[t] < 8:
        out[0] = x * 0.3 + 0.1
        out[1] = unchanged * 0.3 + 0.1
        out[2] = Float32((n - 8) % 3)
        out[3] = Float32((pair[0] - 8) % 3)
        pair = (3, 4)
    else:
        x = x + 7
        n = n + 1
    out[4] = x * 0.3 + 0.1
    out[5] = (Float32(-1.25) * 0.3) * 0.3 + 0.1
    out[6] = Float32((n - 8) % 3 + pair[0])
counted:
    t, _, _ = cute.arch.thread_idx()
    n = 2
    if a[t] > 3:
        for i in cutlass.range_constexpr(n):
            out[i] = i
        n = 3
    out[3] = n
negated:
    out[0] = Int32(-(a[0] > 3))
or_none:
    start = None
    out[0] = start or a[0]
negated_constant:
    out[0] = Int32(-Boolean(True))
tuples:
    out[0] = Int32((a[0], 1) < (b[0], 1))
too_large:
    out[0] = Int32(3e9)
any_of_a_text:
    out[0] = Int32(any([a[0] > 3, "a"]))
uneven:
    """(2,4):(3,5), says the DSL, which has 5 at 2, where the composition has 7."""
    out[0] = cute.size(cute.composition(cute.make_layout((4, 6), stride=(1, 5)), cute.make_layout(8, stride=3)))
inverted:
    out[0] = cute.size(cute.right_inverse(cute.make_layout(4, stride=-1)))
''',
    parameters="a, b, f, out",
    host="",
)
