"""Labs: assignments whose wrong answers get a diagnosis instead of a failed assertion. No GPU is needed.

A lab is a folder `labs/<name>/` of the repository: the master notebook `<name>.md`, `lab.py` (cases, right answers, what a
wrong one shows) and `answers.toml` (answers whose diagnosis is known, as edits of the notebook's solution).

| module       | what                                                                              |
|--------------|-----------------------------------------------------------------------------------|
| `judgement`  | cases, outcomes, diagnoses, checks, reports: the records that pass between modules |
| `submission` | a student's file: what it may hold, and loading it                                |
| `permitted`  | what its source may name                                                          |
| `trial`      | runs a submission on a lab's cases, on the simulator                              |
| `sizes`      | at which sizes it may do something else                                           |
| `worker`     | … in a process of its own                                                         |
| `limits`     | what that process may use of the machine                                          |
| `sandbox`    | starts it, in bubblewrap where there is one                                       |
| `compiled`   | full marks confirmed by CuTe DSL's compiler, in a second such process             |
| `returned`   | what it sends back, as a stranger's bytes                                         |
| `evidence`   | a trace -> who read which column, and what findings mean                          |
| `diagnoses`  | the mistakes that many labs look for, and the order in which a lab asks for them  |
| `grade`      | `quack-tutorial grade`                                                            |
| `command`    | `quack-tutorial labs`                                                             |
| `corpus`     | answers whose diagnosis is known, and disguises of them                           |
| `student`    | a master notebook -> the student's                                                |
| `rules`      | a lab's rules, as its notebook states them                                        |
| `release`    | what is handed out: a course's folder, a student's notebook, tables for pages     |
| `course`     | how nbgrader grades in such a folder                                              |

A submission's process holds inputs only. The right answers are computed in the grader's, from float64, after it has ended.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import importlib.util
import inspect
import itertools
import os
import textwrap
import zlib
from pathlib import Path
from types import FunctionType, ModuleType

# What `quack-tutorial` takes from here: name, what it does, module.
COMMANDS = (
    ("grade", "grade a submission to a lab, on the simulator, and say what is wrong with it", "grading.grade"),
    ("labs", "list the labs, try the corpus of submissions, write a student version", "grading.command"),
)
FILES = ("lab.py", "lab.packed")  # a student's copy has the second
COLUMNS = 84  # of an output in JupyterLab beside its file list; it breaks a longer line in the middle of a word


def folders() -> dict:
    """{name: folder} of the labs: where QUACK_TUTORIAL_LABS says, else the repository's, and the one that this process is in."""
    root = os.environ.get("QUACK_TUTORIAL_LABS") or Path(__file__).resolve().parents[1] / "labs"
    found = {file.parent.name: file.parent for file in sorted(Path(root).glob("*/lab.p*")) if file.name in FILES}
    here = Path.cwd()
    return {here.name: here} | found if any((here / file).is_file() for file in FILES) else found


def lab(name: str):
    """The module of a lab; a ValueError that lists the labs if there is none of that name.

    It has TITLE, TARGET (a class), FUNCTIONS, CHECKS ({check: points}) and cases(seed); `diagnoses.judge` says what else, and
    PICTURES, where it is there, what `watch` may draw.
    """
    found = folders()
    if name not in found:
        raise ValueError(
            f"there is no lab {name!r}; there is {', '.join(found) or 'none: QUACK_TUTORIAL_LABS names them'}"
        )
    return _loaded(name, next(found[name] / file for file in FILES if (found[name] / file).is_file()))


@functools.lru_cache
def _loaded(name: str, file: Path):
    spec = importlib.util.spec_from_file_location(
        f"quack_tutorial_lab_{name.replace('-', '_')}", file.with_suffix(".py")
    )
    module = importlib.util.module_from_spec(spec)
    if file.suffix == ".py":
        spec.loader.exec_module(module)
    else:
        exec(zlib.decompress(file.read_bytes()), vars(module))
    module.NAME = name
    module.TARGET, module.FUNCTIONS = getattr(module, "TARGET", ""), getattr(module, "FUNCTIONS", ())
    return module


def pack(source: bytes) -> bytes:
    """A lab's lab.py as its lab.packed."""
    return zlib.compress(source, 9)


def targets(module) -> tuple:
    """The names that a lab asks for: a class if it asks for a kernel, and functions of plain Python."""
    return tuple(filter(None, (module.TARGET, *module.FUNCTIONS)))


class NotYet(AssertionError):
    """A check that fails; a notebook shows its sentence without a traceback, which would show our code and not the student's."""

    def _render_traceback_(self):
        said, *lines = str(self).splitlines()
        return textwrap.wrap(said, COLUMNS, break_long_words=False, break_on_hyphens=False) + lines


def check(name: str, answer, *parts: str, seed: int = 0) -> None:
    """Try a class or function in the notebook where it stands; AssertionError with the diagnosis if a check of `parts` fails.

    Without `parts` all of the lab's checks count. The command `quack-tutorial grade` does the same from outside.
    """
    from quack_tutorial import notebook

    from . import diagnoses, trial
    from .judgement import Refused

    module = lab(name)
    called = getattr(answer, "__name__", "")
    asked = next((one for one in parts or (called,) if one in module.FUNCTIONS), "")
    parts = parts or tuple(name for name in module.CHECKS if (name == asked) == bool(asked))
    cases = [case for case in module.cases(seed) if case.target == asked]
    try:
        if not isinstance(answer, FunctionType if asked else type):
            what = "function" if asked else "class"
            raise Refused("missing", f"{asked or module.TARGET} is a {type(answer).__name__} here: make it a {what}")
        _refuse_what_a_grade_refuses(answer)
        checks = diagnoses.judge(module, trial.outcomes({asked or called: answer}, cases))
        failed = [(one.name, one.diagnosis) for one in checks if one.diagnosis and one.name in parts]
    except Refused as refused:  # nothing can be tried
        failed = [(parts[0], refused.diagnosis)]
    notebook.note("lab", not failed, checks=parts)
    if failed:
        name, told = failed[0]
        lines = (f"    {file}:{number}:  {text}" for file, number, text in told.lines)
        raise NotYet("\n".join([f"{name}: {told.message}", *lines])) from None
    print("right:", ", ".join(parts), *(f"(but what you hand in has no {name})" for name in _not_permitted(answer)))


def watch(name: str, answer):
    """A picture of the class's own run on the lab's first case, or on the first where the simulator finds something.

    That is the race, if there is one, else how the threads exchange numbers.

    Prints what the simulator found; where nothing can be drawn it says why, and returns None.
    """
    from quack_tutorial import figures

    from . import judgement, trial
    from .judgement import Refused

    module = lab(name)
    cases = [case for case in module.cases() if not case.target and case.schedule != judgement.FAST]
    if not cases:
        raise ValueError(f"the lab {name} asks for no kernel, so there is no run to watch: try labs.check")
    try:
        if not isinstance(answer, type):
            raise Refused("missing", f"{module.TARGET} is a {type(answer).__name__} here: make it a class")
        trial.check_signature(answer, cases[0])
        runs = ((case, trial.run_of(answer, case, values=True)[0]) for case in cases)
        first = case, run = next(runs)
        with contextlib.suppress(Refused):  # of a later case the checks tell
            case, run = first if run.findings else next((one for one in runs if one[1].findings), first)
        if case is not cases[0]:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in case.inputs.items())
            print(f"The first case is clean; this is the one with {shapes}:")
        if run.findings and not len(run.trace):  # it stopped before its first access
            raise Refused("stopped", run.findings[0].message)
    except Refused as refused:
        print(textwrap.fill(f"Nothing to watch yet: {refused.diagnosis.message}", COLUMNS, break_long_words=False))
        return None
    print(run)
    races = [finding for finding in run.findings if finding.kind == "race"]
    pictures = getattr(module, "PICTURES", ("cluster_exchange", "block_reduce", "butterfly", "lanes"))
    drawn = [lambda trace: figures.race(trace, *races)] if races else []
    for draw in [*drawn, *(getattr(figures, picture) for picture in pictures)]:
        try:
            return draw(run.trace)
        except ValueError as error:  # there is nothing of this kind in the run
            why = error
    print(f"Nothing to draw: {why}")
    return None


def _refuse_what_a_grade_refuses(answer) -> None:
    """Refused if the answer, or a function or class beside it that it uses, says what a submission may not say."""
    from cutesim.context import display_name

    from . import submission
    from .judgement import Refused
    from .permitted import bound, refusal, refused_builtin

    seen, waiting = set(), [inspect.unwrap(answer)]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            lines, start = inspect.getsourcelines(one)
        except (OSError, TypeError):  # nobody kept the text
            continue
        source = textwrap.dedent("".join(lines))
        tree = ast.parse(source)
        _, tree = submission.straight(source, tree, submission.own_attributes(tree))
        functions = [one] if isinstance(one, FunctionType) else map(inspect.unwrap, vars(one).values())
        around = next((f.__globals__ for f in functions if isinstance(f, FunctionType)), {})
        own = bound(tree) | set(around)
        for node in ast.walk(tree):
            if reason := refusal(node) or refused_builtin(node, own):
                at = getattr(node, "lineno", 1) - 1
                line = (display_name(inspect.getsourcefile(one)), max(start, 1) + at, lines[at].strip())
                raise Refused("refused", f"it would be refused when you hand it in: line {line[1]} {reason}.", (line,))
            beside = inspect.unwrap(around.get(node.id)) if isinstance(node, ast.Name) and node.id in around else None
            if isinstance(beside, (FunctionType, type)) and beside.__module__ == one.__module__:
                waiting.append(beside)


def _not_permitted(answer) -> list[str]:
    """What an answer calls of modules, or of this package, that a notebook imports and a submission may not."""
    from .permitted import IMPORTED, IMPORTS

    found = []
    for function in map(inspect.unwrap, [answer, *vars(answer).values()]):
        code = dis.get_instructions(function) if isinstance(function, FunctionType) else ()
        for whose, what in itertools.pairwise(code):
            value = function.__globals__.get(whose.argval) if whose.opname == "LOAD_GLOBAL" else None
            root = value.__name__.partition(".")[0] if isinstance(value, ModuleType) else "cutlass"
            if root not in IMPORTS and not hasattr(IMPORTED.get(root), what.argval):
                found.append(f"{value.__name__}.{what.argval}")
            home = str(getattr(value, "__module__", ""))
            if home.startswith("quack_tutorial."):
                found.append(f"{home}.{whose.argval}")
    return found
