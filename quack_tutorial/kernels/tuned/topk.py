"""Top-k as it ships: chapter 15's last two rungs, with the lanes of a row by a rule, and softmax of the k values if asked for.

| argument | shape  | holds                                             | type    |
|----------|--------|---------------------------------------------------|---------|
| mX       | (M, N) | x                                                 | `dtype` |
| mV       | (M, k) | the largest of each row, or softmax of them       | `dtype` |
| mI       | (M, k) | their columns                                     | int64   |
"""

from quack_tutorial.kernels.config import power_of_2
from quack_tutorial.kernels.topk import TopKMerge, TopKThreshold


def topk(dtype, N, promise="aligned", *, k=None, softmax=False, card=None, config=None):
    """The kernel for the k largest of rows of N; `config` has other lanes of a row, and threads of a block, than the rule's."""
    merges = (k or N) <= 8 and N <= (256 if dtype.width == 16 else 64)
    lanes, threads = (max(2, power_of_2(N) // 64), 128) if merges else (32, 64)
    if config:
        lanes, threads = config.threads_per_row, config.threads_per_block
    version = TopKMerge if merges else TopKThreshold
    return version(dtype, N, k, promise, lanes, softmax, threads)
