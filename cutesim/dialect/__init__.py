"""The DSL's names, as the simulator answers them.

| module      | what                                                                                        |
|-------------|---------------------------------------------------------------------------------------------|
| `names`     | what `cutlass.…` and `cute.…` mean in simulated source                                       |
| `functions` | functions of the language itself: const_expr, printf, where                                  |
| `assembly`, `packed` | PTX by its text, as inline_asm and inline_ptx take it; several numbers in one register |
| `dialects`  | names from below CuTe DSL                                                                     |
"""
