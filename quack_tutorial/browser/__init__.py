"""What runs the book's cells inside a web page, where there is Python and numpy and nothing else.

| module         | what it holds                                                         |
|----------------|-----------------------------------------------------------------------|
| `session`      | runs the cells of one page in one namespace, and says what came out   |
| `torch_answer` | the part of torch that the chapters use, on numpy                     |

Importing this package loads neither. Not covered: a GPU, `cute.compile`, matplotlib, and torch beyond tensors on the CPU.
"""
