"""Proof that the simulator can be trusted: each suite compares it with something else and gives a table.

| suite            | the simulator against                                                              | needs        |
|------------------|------------------------------------------------------------------------------------|--------------|
| `operations`     | the specification's values, and those an H200 gave, edge values of every operation | nothing      |
| `agreement`      | itself and numpy: random small kernels, fast and in three schedules, bit for bit   | nothing      |
| `rows`           | float64: the kernels that ship, on rows of any length, at any address              | nothing      |
| `mutation`       | broken kernels: every synchronisation and predicate of every kernel altered        | nothing      |
| `compiled`       | CuTe DSL's compiler: which loads, stores and shuffles are in its PTX               | the DSL      |
| `lines`          | Nsight Compute's counts of each line of the kernels' source                        | nothing      |
| `formulas`       | each ladder's own steps in float64                                                 | nothing      |
| `orders`         | nothing: every order of the warps' steps of the chapters' kernels                  | nothing      |
| `bits`           | itself: each ladder's sums, and a row's bits in other batches and orders of warps  | nothing      |

What several suites use: `command` runs them, `random_reference` says what a random kernel computes, `outputs` what is compared.
What they run: `random_kernels`, and `trials`, the package's kernels on the same inputs everywhere. `corpus` has faults that depend
on order, which tests alone run. `quack_tutorial.records.suite` says what a suite gives and how it is kept. Eleven comparisons were
made once and are kept as records alone: `grading`, `checkers`, `device`, `counters`, `sanitizer`, `beside`, `delays`, `shipped`,
`opinfo`, `published`, `others`.
"""

from cutesim.language.loading import answer_package

answer_package(__name__)  # where the DSL is not installed, the suites' kernels still load, for the simulator alone
