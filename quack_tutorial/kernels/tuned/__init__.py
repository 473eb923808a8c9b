"""The kernels as they ship: the last rung of each ladder with sizes by a rule, and the kernels that have no ladder.

Chapters 7, 8 and 9 climb to them. To read on from there, take the files in this order; `book/what-ships.md` says what each change
is worth.

| file                                | chapter and rung                | new in it                                           |
|-------------------------------------|---------------------------------|-----------------------------------------------------|
| `config`                            |                                 | the sizes of a kernel as fields with names          |
| `cache_hints`                       | 3 `hint`                        | loads and stores with predicates                    |
| `row_tile`                          | 3 `any row`, 7 `any address`    | what is known of a row when it is compiled          |
| `row_exchange`                      | 5, 6                            | any number of warps; messages from every warp       |
| `softmax`                           | 8 `any address`                 | the gradient                                        |
| `row_pipeline`                      | 8 `read twice`, 7 `bulk`        | stages, and several rows in one                     |
| `online`, `arithmetic`              | 8 `short exp`, 9 `short terms`  | `corrected`, a more accurate 1 / sqrt; else nothing |
| `rmsnorm`, `row_weights`            | 7 `any address`, `weights once` | bias and residual; weights of rows that start anywhere |
| `norm_backward`                     | 7 `bulk`, `cluster`             | any row; LayerNorm's second sum                     |
| `sum_of_parts`                      | 7 `parts`                       | it starts before the kernel ahead has ended         |
| `cross_entropy`                     | 9 `any address`                 | ignored targets; loss and gradient in one kernel    |
| `layernorm`                         |                                 | a second sum a row                                  |
| `loss`                              |                                 | the losses of a batch as one number                 |
| `rule`                              |                                 | sizes by a rule, for rows of every length           |
| `tile_copy`                         |                                 | the reads and writes of a kernel without arithmetic |

Words that the files share:

| word           | means                                                                                          |
|----------------|------------------------------------------------------------------------------------------------|
| promise        | what is known of the addresses of rows: "aligned", "congruent" or "any", see `row_tile`        |
| place          | where a thread is: in which row, in which piece of it, and as which of the row's threads       |
| piece          | the columns of a row that one block has, or that its threads load before they go on            |
| single element | an element before a row's first vector or behind its last one                                  |
| turn           | one step of a block that goes through rows: the row, or the rows, that it then works on        |
| stage          | the room in shared memory for the rows of one turn                                             |
| parts          | the sums of dw or db that each block leaves, (parts, N) numbers, which `sum_of_parts` adds up  |
"""
