"""The kernels as they ship: the last rung of each ladder with a table of sizes, and the kernels that have no ladder.

Chapters 7, 8 and 9 climb to them. To read on from there, take the files in this order; `book/what-ships.md` says what each change
is worth.

| file                                | chapter and rung                | new in it                                           |
|-------------------------------------|---------------------------------|-----------------------------------------------------|
| `row_tile`                          | 3 `any row`, 7 `any address`    | what is known of a row when it is compiled          |
| `row_exchange`                      | 5, 6                            | any number of warps; messages from every warp       |
| `softmax`                           | 8 `any address`                 | the gradient                                        |
| `row_pipeline`                      | 8 `read twice`, 7 `bulk`        | stages, and several rows in one                     |
| `online`, `arithmetic`              | 8 `short exp`, 9 `short terms`  | nothing but `corrected`                             |
| `cache_hints`                       | 3 `hint`                        | loads and stores with predicates                    |
| `rmsnorm`, `row_weights`            | 7 `any address`, `weights once` | bias and residual; weights of rows that start anywhere |
| `norm_backward`, `rmsnorm_backward` | 7 `bulk`                        | two more places for the next row                    |
| `sum_of_parts`                      | 7 `parts`                       | it starts before the kernel ahead has ended         |
| `cross_entropy`                     | 9 `any address`                 | ignored targets; loss and gradient in one kernel    |
| `layernorm`, `layernorm_backward`   |                                 | a second sum a row                                  |
| `loss`                              |                                 | the losses of a batch as one number                 |
| `config`, `rule`                    |                                 | the sizes: their fields; by a rule, for the rungs   |
| `choice`, `tables`, `candidates`    |                                 | sizes from sweeps: which one, of what was tried     |
| `tile_copy`                         |                                 | the reads and writes of a kernel without arithmetic |
"""
