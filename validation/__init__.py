"""Proof that the simulator can be trusted: each suite compares it with something else and gives a table.

| suite            | the simulator against                                                              | needs        |
|------------------|------------------------------------------------------------------------------------|--------------|
| `operations`     | the specification's values, and those an H200 gave, edge values of every operation | nothing      |
| `agreement`      | itself and numpy: random small kernels, fast and in three schedules, bit for bit   | nothing      |
| `rows`           | float64: the kernels that ship, on rows of any length, at any address              | nothing      |
| `mutation`       | broken kernels: every synchronisation and predicate of every kernel altered        | nothing      |
| `compiled`       | CuTe DSL's compiler: which loads, stores and shuffles are in its PTX               | the DSL      |
| `orders`         | nothing: every order of the warps' steps of the chapters' kernels                  | nothing      |
| `gpu.device`     | an H200: the kernels' outputs                                                      | a Hopper GPU |
| `gpu.counters`   | Nsight Compute's counters of sectors and wavefronts on an H200                     | a Hopper GPU |
| `gpu.sanitizer`  | what compute-sanitizer says of kernels with seeded bugs                            | a Hopper GPU |
| `gpu.shipped`    | nothing: what compute-sanitizer says of the kernels that ship                      | a Hopper GPU |
| `gpu.opinfo`     | nothing: the operations on a GPU, against torch on the samples of torch's tests    | a Hopper GPU |

What several suites run: `corpus`, `random_kernels`, `language_kernels`, `staged_copy`, and `trials`, the package's kernels on the
same inputs everywhere. `quack_tutorial.records.suite` says what a suite gives and how it is kept. Five comparisons
were made once and are kept as records alone: `grading`, `checkers`, `beside`, `published`, `others`.
"""

import sys
from pathlib import Path

from cutesim.language.loading import answer_package

sys.path.append(str(Path(__file__).resolve().parents[1] / "cutesim/tests"))  # whose kernels in dsl/ suites run, too
answer_package(__name__)  # where the DSL is not installed, the suites' kernels still load, for the simulator alone
