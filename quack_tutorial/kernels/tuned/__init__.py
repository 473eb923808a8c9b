"""The kernels as they ship: the last rung of each ladder with sizes by a rule, and the kernels that have no ladder.

Chapters 7, 8 and 9 climb to them; `book/what-ships.md` says what each change is worth. One reads on from `softmax`:

| file                    | chapter and rung                | new in it                                                    |
|-------------------------|---------------------------------|--------------------------------------------------------------|
| `softmax`, `online`     | 8 `read twice`, `any address`   | the gradient                                                 |
| `row_tile`, `rule`      | 3 `any row`, 7 `any address`    | what is known of a row when it is compiled; sizes by a rule  |
| `row_exchange`          | 5, 6                            | any number of warps; messages from every warp                |
| `row_pipeline`          | 8 `read twice`, 7 `bulk`        | stages                                                       |
| `cross_entropy`, `sums` | 9 `any address`, 7 `parts`      | loss and gradient in one kernel; sums behind a kernel        |
| `norm`, `row_weights`   | 7 `any address`, `weights once` | bias and residual; weights of rows that start anywhere       |
| `quantized`             | `rmsnorm_quantized`             | a second reduction, of the result; float8 and its scales     |
| `topk`                  | the page on top-k               | which rung, and how many lanes a row                         |
| `norm_backward`         | 7 `bulk`, `cluster`             | any row; LayerNorm's second sum                              |
"""
