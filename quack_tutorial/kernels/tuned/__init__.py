"""The kernels as they ship: they compute what the last rung of each ladder does, faster (`book/what-ships.md` says why).

| module             | what is in it                                                                           |
|--------------------|-----------------------------------------------------------------------------------------|
| `softmax`, `cross_entropy` | the kernels and their gradients                                                 |
| `rmsnorm`, `layernorm` | the kernels                                                                         |
| `norm_backward`    | what the gradients of both share: blocks that go through rows and add up columns         |
| `rmsnorm_backward`, `layernorm_backward` | the gradients: a kernel for each place where the next row can wait |
| `row_tile`         | a row into registers and back, for any length and address: vectors, single elements     |
| `row_exchange`     | how the warps of a row agree: shared memory in a block, distributed in a cluster        |
| `row_pipeline`     | rows on their way through shared memory while another is worked on: bulk copies         |
| `online`           | a row's maximum and sum of exponentials in one pass, a few vectors at a time            |
| `arithmetic`       | fewer instructions an element, exact as far as a result of 16 bits can tell             |
| `cache_hints`      | loads that tell the caches which bytes to keep                                          |
| `loss`             | the losses of a batch as one number: mean or sum                                        |
| `tile_copy`        | the reads and writes of a row-wise kernel without its arithmetic                        |
| `config`, `tables` | how a kernel spreads rows over threads: what a sweep tries, and what was the fastest    |

To read a kernel, begin with `softmax`, then `row_tile` and `row_exchange`, then `row_pipeline` and `online`.
"""
