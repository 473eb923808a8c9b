"""Where bytes are, and how warps reach them.

| module      | what                                                                                        |
|-------------|---------------------------------------------------------------------------------------------|
| `pointers`  | global and shared memory, pointers into them, reads and writes                              |
| `registers` | memory of a thread's own                                                                     |
| `tensor`    | a pointer with a layout                                                                      |
| `swizzle`   | layouts whose addresses are permuted                                                         |
| `structs`   | @cute.struct                                                                                  |
| `bounds`    | which accesses are refused                                                                   |
| `recording` | the rows of the trace                                                                        |
| `log`       | what warps in step do, until it is played to the trace                                      |
| `arguments` | what `simulate` is given, as tensors                                                         |
"""
