"""Top-k as it ships: the last two rungs of its ladder, with the lanes of a row by a rule, and softmax of the k values if asked for.

| argument | shape  | holds                                       | type    |
|----------|--------|---------------------------------------------|---------|
| mX       | (M, N) | x                                           | `dtype` |
| mV       | (M, k) | the largest of each row, or softmax of them | `dtype` |
| mI       | (M, k) | their columns                               | int64   |

The rule is what was quickest, or within 5 % of it, on an H200 of merges and thresholds with 2 to 32 lanes a row and 64 or 128
threads a block (30 November 2026, float32 and bfloat16: 12 pairs of 64 to 4,096 columns and k from 8 to 128). Up to k = 8 the merge
wins in short rows of 16-bit numbers, where a comparison is one instruction.
"""

from quack_tutorial.kernels.config import power_of_2
from quack_tutorial.kernels.topk import TopKMerge, TopKThreshold


def topk(dtype, N, promise="aligned", *, k=None, softmax=False, config=None):
    """The kernel for the k largest of rows of N; `config` has other lanes of a row, and threads of a block, than the rule's."""
    if dtype.width == 16 and (k or N) <= 8 and N <= 256:
        version, lanes, threads = TopKMerge, 2 if N <= 64 else 4, 128
    else:
        version, lanes, threads = TopKThreshold, min(32, max(16 if (k or N) <= 16 else 8, power_of_2(N) // 32)), 64
    if config:
        lanes, threads = config.threads_per_row, config.threads_per_block
    return version(dtype, N, k, promise, lanes, softmax, threads)
