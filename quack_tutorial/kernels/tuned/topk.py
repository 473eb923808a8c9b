"""Top-k as it ships: the last two rungs of its ladder, with the lanes of a row by a rule, and softmax of the k values if asked for.

| argument | shape  | holds                                       | type    |
|----------|--------|---------------------------------------------|---------|
| mX       | (M, N) | x                                           | `dtype` |
| mV       | (M, k) | the largest of each row, or softmax of them | `dtype` |
| mI       | (M, k) | their columns                               | int64   |

The rule is what was quickest on an H200 of merges and thresholds with 2 to 32 lanes a row and 64 or 128 threads a block (30
November 2026, float32 and bfloat16: 64 and 256 columns with k = 8, 1,024 with 32, 4,096 with 64 and 128). Up to k = 8 the merge
wins where a comparison is one instruction, in 16 bits, or where rows are short.
"""

from quack_tutorial.kernels.config import power_of_2
from quack_tutorial.kernels.topk import TopKMerge, TopKThreshold


def topk(dtype, N, promise="aligned", *, k=None, softmax=False, config=None):
    """The kernel for the k largest of rows of N; `config` has other lanes of a row, and threads of a block, than the rule's."""
    merges = (k or N) <= 8 and N <= (256 if dtype.width == 16 else 64)
    lanes = min(32, max(2, power_of_2(N) // (64 if merges else 8)))
    threads = 64 if lanes == 32 else 128
    if config:
        lanes, threads = config.threads_per_row, config.threads_per_block
    return (TopKMerge if merges else TopKThreshold)(dtype, N, k, promise, lanes, softmax, threads)
