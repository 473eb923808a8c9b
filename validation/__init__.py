"""Proof that the simulator can be trusted: each suite compares it with something else and gives a table.

| suite            | the simulator against                                                              | needs        |
|------------------|------------------------------------------------------------------------------------|--------------|
| `operations`     | the specification's values, and those an H200 gave, edge values of every operation | nothing      |
| `rows`           | float64: the kernels that ship, on rows of any length, at any address              | nothing      |
| `mutation`       | broken kernels: every synchronisation and predicate of every kernel altered        | nothing      |
| `compiled`       | CuTe DSL's compiler: which loads, stores and shuffles are in its PTX               | the DSL      |

`command` runs them, `outputs` has what several of them compare. `quack_tutorial.records.suite` says what a suite gives and how it
is kept. Sixteen comparisons were made once and are kept as records alone: `agreement`, `orders`, `lines`, `formulas`, `bits`,
`grading`, `checkers`, `device`, `counters`, `sanitizer`, `beside`, `delays`, `shipped`, `opinfo`, `published`, `others`.
"""

from cutesim.language.loading import answer_package

# Where the DSL is not installed, the suites' kernels still load, for the simulator alone.
answer_package(__name__)
