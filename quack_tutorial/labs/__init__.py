"""Labs: assignments whose wrong answers get a diagnosis instead of a failed assertion. No GPU is needed.

| module         | what                                                                              |
|----------------|-----------------------------------------------------------------------------------|
| `judgement`    | cases, outcomes, diagnoses, checks, reports: the records that pass between modules |
| `submission`   | a student's file: what it may hold, and loading it                                |
| `trial`        | runs a submission on a lab's cases, on the simulator                              |
| `worker`       | … in a process of its own                                                         |
| `sandbox`      | starts that process, with limits, and reads back what it found                    |
| `evidence`     | a trace -> who read which column, and what findings mean                          |
| `block_reduce` | the lab `block-reduce`: its cases, its right answers, its diagnoses               |
| `grade`        | `quack-tutorial grade`                                                            |
| `command`      | `quack-tutorial labs`                                                             |
| `corpus`       | submissions whose diagnosis is known, and disguises of them                       |
| `student`      | a master notebook -> the student's                                                |

A submission's process holds inputs only. The right answers are computed in the grader's, from float64, after it has ended.
"""

from importlib import import_module

# A lab is a module with NAME, TITLE, TARGET, cases(seed), judge(outcomes) and CHECKS.
LABS = {"block-reduce": "block_reduce"}


def lab(name: str):
    """The module of the lab of that name; a ValueError that lists the labs if there is none."""
    if name not in LABS:
        raise ValueError(f"there is no lab {name!r}; there is {', '.join(LABS)}")
    return import_module(f"{__name__}.{LABS[name]}")


def check(name: str, answer, *parts: str, seed: int = 0) -> None:
    """Try a class in the notebook where it stands; AssertionError with the diagnosis if one of the checks `parts` fails.

    Without `parts` all of the lab's checks count. The command `quack-tutorial grade` does the same from outside.
    """
    from . import trial

    module = lab(name)
    cases = module.cases(seed)
    failed = [
        one
        for one in module.judge(trial.outcomes(answer, cases))
        if one.diagnosis and one.name in (parts or module.CHECKS)
    ]
    if failed:
        raise AssertionError(f"{failed[0].name}: {failed[0].diagnosis.message}")
    print("right:", ", ".join(parts or module.CHECKS))
