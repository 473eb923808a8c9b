"""What runs the book's cells inside a web page, where there is Python and numpy and nothing else.

`session` runs the cells of one page in one namespace, and says what came out; `motion` runs *A kernel as you type*; `errors` says
what an exception tells a reader. `import torch` is answered by `cutesim.torch_answer`.

Importing this package loads neither. Not covered: a GPU, `cute.compile`, matplotlib, and torch beyond tensors on the CPU.
"""
