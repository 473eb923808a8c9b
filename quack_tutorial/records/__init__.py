"""What was measured or compared, as JSON, and what reads it.

| folder        | holds                                                                         |
|---------------|-------------------------------------------------------------------------------|
| `bench/`      | times of kernels and their peers                                              |
| `tune/`       | sweeps of configurations                                                      |
| `compiled/`   | registers and spills of the ladders' versions; see `compiled`                 |
| `host/`       | what a call costs on the host                                                 |
| `levels/`     | chapter 14's kernels beside what ships; see `levels`                          |
| `listings/`   | PTX and SASS of a kernel; see `listings`                                      |
| `memory/`     | latencies and bandwidths of the memory hierarchy                              |
| `model/`      | losses, step times and memory of a small transformer's training               |
| `outputs/`    | what the chapters' cells gave on a GPU; see `outputs`                         |
| `parallel/`   | cross-entropy over a vocabulary that several GPUs share                       |
| `pitfalls/`   | one kernel timed in ways that mislead, and in ways that do not                |
| `validation/` | how the simulator compares with specification, compiler and GPU; see `suite`  |

`changed_kernels.json` names the operations whose kernels have changed since they were timed, see `bench.records`.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}  # of an element, by the name that records give its type
