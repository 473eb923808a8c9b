"""The corpora: each answer told its mistake under other names, and none of the book's code a solution."""

import ast
import importlib.util
import sys
from contextlib import suppress
from functools import cache

import pytest

from grading import corpus, diagnoses, folders, lab, permitted, submission, targets, trial
from grading.grade import grade
from grading.judgement import Refused

EVERY = [(name, answer, *told) for name, folder in folders().items() for answer, told in corpus.answers(folder).items()]
COMPILED = [
    entry
    for i, entry in enumerate(EVERY)
    if lab(entry[0]).TARGET and ("compiler" in entry[3] or "right" in entry[3] or i % 4 == 0)
]


def labelled(entries):
    return pytest.mark.parametrize(
        ("name", "answer", "text", "wanted"), entries, ids=[f"{name}-{answer}" for name, answer, _, _ in entries]
    )


@labelled(EVERY)
def test_each_answer_gets_its_diagnosis(name, answer, text, wanted):
    # In one of its three disguises (which one goes by the length of its name); `quack-tutorial labs check` tries all.
    disguises = corpus.disguises(text, targets(lab(name)))
    disguise, (source, seed) = list(disguises.items())[len(answer) % len(disguises)]
    told = corpus.judged(grade(name, "answer.py", source, seed), answer, disguise, wanted)
    assert told.ok, f"{disguise}: {told.got}"


def test_a_corpus_has_right_and_wrong_answers(folder):
    told = [wanted for _, wanted in corpus.answers(folder).values()]
    assert sum("right" in wanted for wanted in told) >= 3
    assert sum("kind" in wanted for wanted in told) >= 6
    assert len({wanted["kind"] for wanted in told if "kind" in wanted}) >= 3


def test_disguises_change_the_text_and_not_the_program(block_reduce):
    text = block_reduce["solution"]
    told = corpus.disguises(text, ("RowArgmax", "least_bytes"))
    assert "warp_argmax" in text and "warp_argmax" not in told["renamed"][0] and "class RowArgmax" in told["renamed"][0]
    assert ast.dump(ast.parse(corpus.reformatted(text))) == ast.dump(ast.parse(text))


# No answer is one import, or one paste, away ---------------------------------------------------------------------------


def defined(root) -> dict:
    """{file: {name: the statement that makes it}} of the package's kernels and of each chapter's code, imports among them."""
    files = [*(root / "quack_tutorial/kernels").rglob("[a-z]*.py"), *(root / "notebooks").glob("*.md")]
    found = {}
    for file in sorted(files):
        cells = submission.parts(file.name, file.read_text(encoding="utf-8"))
        body = [node for _, source, _ in cells for node in ast.parse(source).body]
        body = [node for node in body if not permitted.refusal(node)]
        found[file.name] = {name: node for node in body for name in made_by(node)}
    return found


def made_by(node) -> list[str]:
    """The names that a statement makes in its module."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    places = [one for target in getattr(node, "targets", []) for one in ast.walk(target)]
    return [one.id for one in places if isinstance(one, ast.Name)]


@cache
def pasted(root) -> dict:
    """{(file, name): class} of the book, each as a submission that holds it and what it needs, of its file or of the kernels."""
    files, found = defined(root), {}
    kernels = {name: node for file, made in files.items() if file.endswith(".py") for name, node in made.items()}
    for file, made in files.items():
        for name in [name for name, node in made.items() if isinstance(node, ast.ClassDef)]:
            text = "\n".join(map(ast.unparse, needed(made[name], {**kernels, **made}, {})))
            with suppress(Refused):
                found[file, name] = submission.load(f"{file}-{name}.py", text, name)[name]
    return found


def needed(node, made, before) -> dict:
    """A statement behind those that make the names in it."""
    if node not in before:
        before[node] = None
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one.id in made:
                needed(made[one.id], made, before)
        before[node] = before.pop(node)
    return before


def score(name, found):
    module = lab(name)
    cases = [case for case in module.cases(0) if not case.target]
    checks = diagnoses.judge(module, trial.outcomes({module.TARGET: found}, cases))
    return sum(check.score for check in checks if check.name not in module.FUNCTIONS)


def worth(name):
    """The points of a lab's kernel."""
    return sum(points for check, points in lab(name).CHECKS.items() if check not in lab(name).FUNCTIONS)


def test_no_class_of_the_book_solves_a_lab_when_pasted(root, name):
    if not lab(name).TARGET:
        pytest.skip("the lab asks for no kernel")
    best = {where: score(name, found) for where, found in pasted(root).items()}
    assert len(best) > 40  # the others need what no submission may
    assert max(best.values()) < worth(name), best


# The real compiler ------------------------------------------------------------------------------------------------------


@labelled(COMPILED)
def test_the_real_compiler_accepts_and_refuses_the_same_answers(name, answer, text, wanted, tmp_path):
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    from quack_tutorial.compiler import TensorSpec, ptx

    if wanted.get("kind") in ("refused", "missing"):
        pytest.skip("the grader refuses it before any compiler sees it")
    file = tmp_path / f"labs_{name.replace('-', '_')}_{answer}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    loaded = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    case = next(case for case in lab(name).cases(0) if not case.target)
    arrays = [*case.inputs.values(), *case.outputs.values()]
    tensors = [TensorSpec(str(a.dtype), a.shape, tuple(s // a.itemsize for s in a.strides), a.itemsize) for a in arrays]
    if "compiler" in wanted:  # what it says, too
        with pytest.raises(Exception, match=wanted["compiler"]):
            ptx(getattr(loaded, lab(name).TARGET)(*case.make), *tensors)
    else:
        assert ".entry" in ptx(getattr(loaded, lab(name).TARGET)(*case.make), *tensors)
