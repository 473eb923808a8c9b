"""Top-k as it ships: chapter 15's last two rungs, with the lanes of a row by a rule, and softmax of the k values if asked for.

| argument | shape  | holds                                             | type    |
|----------|--------|---------------------------------------------------|---------|
| mX       | (M, N) | x                                                 | `dtype` |
| mV       | (M, k) | the largest of each row, or softmax of them       | `dtype` |
| mI       | (M, k) | their columns                                     | int64   |
"""

from quack_tutorial.kernels.topk import TopKMerge, TopKThreshold


def topk(dtype, N, promise="aligned", *, k=None, softmax=False, card=None, config=None):
    """The kernel for the k largest of rows of N; `config` has other lanes of a row than the rule's."""
    merges = (k or N) <= 8 and dtype.width == 16 and N <= 256
    lanes = config.threads_per_row if config else lanes_for(N, 16 if merges else 32)
    return (TopKMerge if merges else TopKThreshold)(dtype, N, k, promise, lanes, softmax)


def lanes_for(N, elements):
    """A power of 2 of lanes, 2 to 32, of which each has about so many elements."""
    return min(32, max(2, 1 << ((N - 1) // elements).bit_length()))
