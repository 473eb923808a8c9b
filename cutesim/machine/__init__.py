"""The machine that moves bytes: who runs, who waits for whom, which copy moves what, and what a host may call.

| module                        | what                                                                          |
|-------------------------------|-------------------------------------------------------------------------------|
| `control`, `loops`, `joins`   | branches and loops under masks, calls that may block, joined names            |
| `scheduler`                   | launches, batches of blocks, warps                                            |
| `warps`, `barriers`           | shuffles, votes; barriers of warps and blocks                                 |
| `cluster`, `mbarriers`        | clusters of blocks, mbarriers and their phases                                |
| `asynchronous`, `pipeline`    | cp.async, bulk copies, st.async; cutlass.pipeline                             |
| `atomics`                     | atomic operations                                                                        |
| `copying`, `shapes`           | tiled copies; functions of shapes that know tensors                           |
| `shared_memory`               | SmemAllocator                                                                  |
| `host`                        | what a file calls outside its kernels                                         |
"""
