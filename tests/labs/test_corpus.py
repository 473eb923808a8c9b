"""The corpus of submissions: each told its mistake under other names, and none of the book's code a solution."""

import ast
import importlib.util
import json
import sys

import pytest

from quack_tutorial.labs import block_reduce, corpus, submission, trial
from quack_tutorial.labs.grade import grade
from quack_tutorial.labs.judgement import Refused

NAME = block_reduce.NAME


@pytest.fixture(scope="module")
def folder(root):
    return root / "labs" / NAME


def pytest_generate_tests(metafunc):
    if "entry" in metafunc.fixturenames:
        path = metafunc.config.rootpath / "labs" / NAME / "submissions/expected.json"
        expected = json.loads(path.read_text(encoding="utf-8"))
        metafunc.parametrize("entry", expected.items(), ids=expected)


def test_each_submission_under_other_names_gets_its_diagnosis(folder, entry):
    file, wanted = entry
    text, seed = corpus.disguises((folder / "submissions" / file).read_text(encoding="utf-8"), "RowArgmax")["renamed"]
    told = corpus.judged(grade(NAME, "answer.py", text, seed), file, "renamed", wanted)
    assert told.ok, told.got


def test_the_corpus_lists_every_file_and_has_right_and_wrong_ones(folder):
    expected = json.loads((folder / "submissions/expected.json").read_text(encoding="utf-8"))
    assert {p.name for p in (folder / "submissions").glob("*.py")} == set(expected)
    assert sum("right" in entry for entry in expected.values()) >= 2
    assert len({entry["kind"] for entry in expected.values() if "kind" in entry}) >= 12


def test_disguises_change_the_text_and_not_the_program(folder):
    text = (folder / "submissions/pair.py").read_text(encoding="utf-8")
    told = corpus.disguises(text, "RowArgmax")
    assert "better" in text and "better" not in told["renamed"][0] and "class RowArgmax" in told["renamed"][0]
    assert ast.dump(ast.parse(corpus.reformatted(text))) == ast.dump(ast.parse(text))


def test_a_wrong_expectation_is_noticed(folder):
    report = grade(NAME, "answer.py", "this is no Python")
    assert not corpus.judged(report, "x", "", {"right": "nothing"}).ok
    assert not corpus.judged(report, "x", "", {"kind": "ties", "says": ""}).ok


# No answer is one import, or one paste, away ---------------------------------------------------------------------------

FRAME = """

class RowArgmax:
    def __init__(self, threads):
        self.threads = threads

    @cute.jit
    def __call__(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        self.kernel(mX, mMax, mIndex).launch(grid=[mX.shape[0], 1, 1], block=[self.threads, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        slots = cute.make_layout({slots})
        smem = cutlass.memory.SmemAllocator()
        first = smem.allocate_tensor(cutlass.Float32, slots, 16)
        second = smem.allocate_tensor(cutlass.Float32, slots, 16)
        value = -cutlass.Float32.inf
        index = cutlass.Float32(2.0**30)
        for i in cutlass.range_constexpr(cute.ceil_div(mX.shape[1], self.threads)):
            column = tidx + self.threads * i
            if column < mX.shape[1]:
                x = mX[row, column]
                if x > value or index > 2.0**29:
                    value = x
                    index = cutlass.Float32(column)
        best = {function}({value}, cute.arch.fmax, first)
        candidate = cutlass.Float32(-(2.0**30))
        if value == best:
            candidate = -index
        lowest = {function}({candidate}, cute.arch.fmax, second)
        if tidx == 0:
            mMax[row] = best
            mIndex[row] = cutlass.Int32(-lowest)
"""


def code_of(root):
    """(name, source) of the package's kernels and of each chapter's code, without its calls and imports of the package."""
    files = [*(root / "quack_tutorial/kernels").glob("[a-z]*.py"), *(root / "notebooks").glob("*.md")]
    for file in sorted(files):
        ((_, source, _),) = submission.parts(file.name, file.read_text(encoding="utf-8"))
        kept, known = [], set()
        for node in ast.parse(source).body:
            defines = isinstance(node, (ast.FunctionDef, ast.ClassDef))
            constant = isinstance(node, ast.Assign) and not any(isinstance(n, ast.Call) for n in ast.walk(node.value))
            if defines or constant:
                kept.append(node)
                known.add(getattr(node, "name", None))
        yield file.name, kept


def score(text):
    try:
        answer = submission.load("answer.py", text, "RowArgmax")
        checks = block_reduce.judge(trial.outcomes(answer, block_reduce.cases(0)))
    except Refused:
        return 0
    return sum(check.score for check in checks)


def test_no_class_or_reduction_of_the_book_solves_the_lab_when_pasted(root):
    top = "import operator\nimport cutlass\nimport cutlass.cute as cute\n"
    best, tried = {}, 0
    warp_reduce = next(
        ast.unparse(n) for name, kept in code_of(root) for n in kept if getattr(n, "name", "") == "warp_reduce"
    )
    for name, kept in code_of(root):
        for node in kept:
            text = ast.unparse(node)
            if isinstance(node, ast.ClassDef):
                everything = "\n".join(map(ast.unparse, kept))
                best[name, node.name] = score(f"{top}{everything}\nclass RowArgmax({node.name}):\n    pass\n")
            elif isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args] == ["value", "op", "buffer"]:
                # A block's reduction of one number, twice: what one paste and the rest of the lab's work would give.
                in_warp = "warp_reduce({}, cute.arch.fmax)" if "mode=[1]" in text else "{}"
                words = {one: in_warp.format(one) for one in ("value", "candidate")}
                slots = "(1, self.threads // 32)" if "mode=[1]" in text else "self.threads // 32"
                frame = FRAME.format(function=node.name, slots=slots, **words)
                best[name, node.name] = score(top + warp_reduce + "\n\n" + text + frame)
                tried += 1
    assert tried >= 5 and len(best) > tried
    assert max(best.values()) < sum(block_reduce.CHECKS.values()), best
    assert best["reduce.py", "block_reduce"] == 9  # it computes the right thing: with an exchange too many


# The real compiler ------------------------------------------------------------------------------------------------------


def test_the_real_compiler_accepts_and_refuses_the_same_submissions(folder, entry):
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    from quack_tutorial.compiler import TensorSpec, ptx

    file, wanted = entry
    if wanted.get("kind") == "refused":
        pytest.skip("the grader refuses it before any compiler sees it")
    name = f"labs_{file[:-3]}"
    spec = importlib.util.spec_from_file_location(name, folder / "submissions" / file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, maximum, index = (TensorSpec("float32", (4, 641), (641, 1), 4), TensorSpec("float32", (4,), (1,), 4),
                         TensorSpec("int32", (4,), (1,), 4))  # fmt: skip
    if "compiler" in wanted:  # what it says, too
        with pytest.raises(Exception, match=wanted["compiler"]):
            ptx(module.RowArgmax(128), x, maximum, index)
    else:
        assert ".entry" in ptx(module.RowArgmax(128), x, maximum, index)
