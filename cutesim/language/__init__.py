"""The reader's source as the simulator sees it: functions rewritten, objects replaced, imports answered.

| module       | what                                                                                         |
|--------------|----------------------------------------------------------------------------------------------|
| `rewrite`    | kernel source -> generators that run in lockstep                                              |
| `proxies`    | what stands for the reader's functions, classes and objects                                  |
| `containers` | what Python's own containers hold                                                            |
| `builtins`   | Python's functions that look into objects                                                    |
| `loading`    | `import cutlass` answered where CuTe DSL is not installed                                     |
| `blame`      | whose an error is: the reader's, or something that is not simulated                          |

The names that only published Hopper kernels use come with `hopper`, where it is there.
"""

from importlib.util import find_spec

if find_spec("cutesim.hopper"):
    from .. import hopper  # noqa: F401
