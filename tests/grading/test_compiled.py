"""Full marks confirmed by the real compiler: what it accepts and refuses, what is said of it, and what its process cannot do."""

import json
import types

import pytest

from grading import compiled, corpus, folders, lab, permitted, release, sandbox
from grading.grade import grade
from quack_tutorial import cli
from tests.grading.red_team import walked

RIGHT = corpus.answers(folders()["butterfly"])["solution"][0]
WIDTH = "        width = self.width\n"
# A string that a loop at run time carries round: Python and the simulator let it, a compiled loop cannot hold it.
SIMULATED_ONLY = RIGHT.replace(
    WIDTH, f"{WIDTH}        said = 'a'\n        for _ in cutlass.range(3):\n            said = 'a'\n"
)


real = pytest.mark.skipif(compiled.problem() is not None, reason=compiled.problem() or "")


def wrong(text, file="answer.py"):
    """The one diagnosis of an answer that is right on the simulator and not compiled, which costs a point."""
    report = grade("butterfly", file, text)
    assert (report.score, report.compiled) == (8, "") and [c.name for c in report.checks if c.diagnosis] == ["traffic"]
    (diagnosis,) = report.diagnoses
    start = f"The simulator accepts this kernel, and CuTe DSL {compiled.DSL_VERSION} refuses to compile it"
    assert diagnosis.kind == "not compiled" and diagnosis.message.startswith(start)
    assert "which costs the point of traffic: " in diagnosis.message and diagnosis.message.isprintable()
    return diagnosis


@real
@pytest.mark.parametrize("name", [name for name in folders() if lab(name).TARGET])
def test_a_solution_is_compiled_for_each_shape(name):
    report = grade(name, "answer.py", corpus.answers(folders()[name])["solution"][0], seed=31)
    told = f"Compiled by CuTe DSL {compiled.DSL_VERSION} for each shape of rows of up to 4,096 numbers."
    assert report.full and report.compiled == told
    assert report.as_json()["compiled"] == report.compiled and str(report).endswith(report.compiled)


@real
@pytest.mark.parametrize("suffix", [".md", ".ipynb"])
def test_a_notebook_is_compiled_as_it_is_graded(suffix):
    text = (folders()["butterfly"] / "butterfly.md").read_text(encoding="utf-8")
    if suffix == ".ipynb":
        pytest.importorskip("jupytext", reason="it writes the notebook")
        text = release.notebook("butterfly", text)
    assert grade("butterfly", "butterfly" + suffix, text).compiled.startswith("Compiled by")


@real
def test_what_only_the_simulator_accepts_is_told_with_its_line_and_costs_a_point():
    diagnosis = wrong(SIMULATED_ONLY)
    number = SIMULATED_ONLY.splitlines().index("        for _ in cutlass.range(3):") + 1
    assert diagnosis.lines == (("answer.py", number, "for _ in cutlass.range(3):"),)
    assert (
        f"compile it at answer.py:{number}" in diagnosis.message and "carried through this `for`" in diagnosis.message
    )
    cell = f"```{{code-cell}}\n{SIMULATED_ONLY}```\n"
    assert wrong(cell, "answer.md").lines == (("answer.md", number + 1, "for _ in cutlass.range(3):"),)


@real
def test_imports_that_kernels_have_compile():
    lines = """\
from cutlass.cute.runtime import from_dlpack
import cutlass.torch as cutlass_torch
import cuda.bindings.driver as cuda
from cutlass import Float32, Int32, const_expr, range_constexpr
from cutlass.cute.nvgpu import cpasync
"""
    assert grade("butterfly", "answer.py", lines + RIGHT).compiled.startswith("Compiled by")


def test_what_a_refusal_costs_is_the_check_of_the_bytes():
    last = {name: list(lab(name).CHECKS.items())[-1] for name in folders() if lab(name).TARGET}
    assert {check for check, _ in last.values()} == {"traffic", "requests"}
    # As the syllabus says.
    assert {name: points for name, (_, points) in last.items() if points != 1} == {"softmax": 2}


def test_without_the_dsl_full_marks_stand_and_the_report_says_so(monkeypatch, tmp_path, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(compiled, "problem", lambda: "CuTe DSL is not installed here.")
        patched.setattr(compiled, "compile_answer", None)
        report = grade("butterfly", "answer.py", SIMULATED_ONLY)
    assert report.full and report.compiled == "Not compiled: CuTe DSL is not installed here."
    (tmp_path / "answer.py").write_text(SIMULATED_ONLY, encoding="utf-8")
    monkeypatch.setattr(compiled, "compile_answer", None)
    assert cli.main(["grade", "butterfly", str(tmp_path / "answer.py"), "--no-compile"]) == 0
    assert "  Not compiled: --no-compile leaves it out." in capsys.readouterr().out


@real
@pytest.mark.skipif(sandbox.problem() is not None, reason=sandbox.problem() or "")
def test_a_compiler_that_does_not_work_is_not_the_students_mistake(monkeypatch):
    whole = compiled.packages()
    monkeypatch.setattr(compiled, "problem", compiled.problem.__wrapped__)
    for without in ("tvm_ffi", "typing_extensions.py", "nvidia_cutlass_dsl"):
        monkeypatch.setattr(compiled, "packages", lambda gone=without: tuple(p for p in whole if p.name != gone))
        report = grade("butterfly", "answer.py", RIGHT)
        assert report.full and "is installed here and does not work (" in report.compiled
    monkeypatch.setattr(compiled, "DSL_VERSION", "0.1")
    assert grade("butterfly", "answer.py", RIGHT).compiled.endswith("and the labs are written for 0.1.")


def test_no_compiler_is_asked_about_less_than_full_marks_or_no_kernel(monkeypatch):
    monkeypatch.setattr(compiled, "problem", None)
    monkeypatch.setattr(compiled, "compile_answer", None)
    assert not grade("butterfly", "answer.py", RIGHT.replace("1 << i", "1")).full
    assert grade("floor", "answer.py", corpus.answers(folders()["floor"])["solution"][0]).full


# The process, and what comes back ----------------------------------------------------------------------------------------


@real
def test_the_dsls_modules_lead_to_no_others():
    lines = (
        "cutlass.base_dsl.os.getpid()",
        "cutlass.base_dsl.ast_helpers.sys.getsizeof(1)",
        "cutlass.cutlass_dsl.subprocess.run('true')",
        "import cutlass.base_dsl.common as c\nc.os.getpid()",
        "from cutlass.base_dsl import subprocess\nsubprocess.run('true')",
        "from cutlass.base_dsl import common\ncommon.os.getpid()",
        "cutlass.base_dsl.ast_helpers.getmembers(cutlass.range)[0]",
        "import cuda.bindings.driver as c\nc.sys.getsizeof(1)",
    )
    cases = lab("butterfly").cases(0)

    def told(line):
        """What the compiler's process says of a right answer with this line before it, whatever the simulator would."""
        return compiled.compile_answer("answer.py", f"import cutlass\n{line}\n{RIGHT}", "ClipToSecond", cases)

    assert all(told(line) is not None for line in lines)
    # The same with a line that uses the DSL alone, which does get through.
    assert told("cutlass.base_dsl.ast_helpers.closure_check([])") is None


@real
def test_no_attributes_lead_from_the_dsl_to_a_module_or_the_interpreter():
    import cutlass.experimental  # noqa: F401  its modules come by a __getattr__ of its own

    compiled.seen.cache_clear()
    refused = permitted.HIDDEN | permitted.REFUSED_ATTRIBUTES

    def imported(one):
        return isinstance(one, types.ModuleType) and one.__spec__ is not None

    found, seen = walked([(compiled._import("cutlass"), "cutlass")], refused, imported)
    assert found == [] and len(seen) > 1000


LINE = {"error": "", "file": "", "line": 0}
BACK = {
    "nothing": b"",
    "no line": json.dumps(LINE).encode(),
    "two lines": 2 * (json.dumps(LINE).encode() + b"\n"),
    "no words": b"compiled\n",
    "a list": b"[]\n",
    "a word too many": json.dumps(LINE | {"score": 9}).encode() + b"\n",
    "a word too few": b'{"error": ""}\n',
    "another type": json.dumps(LINE | {"line": True}).encode() + b"\n",
    "no error, and no text": json.dumps(LINE | {"error": None}).encode() + b"\n",
    "too deep": b"[" * 4000 + b"\n",
    "too long": json.dumps(LINE | {"error": "x" * 5000}).encode() + b"\n",
}


@pytest.mark.parametrize("attack", BACK)
def test_what_is_not_its_one_line_is_no_proof(attack, monkeypatch):
    monkeypatch.setattr(sandbox, "run", lambda *_: (0, BACK[attack]))
    cases = lab("butterfly").cases(0)
    told = compiled.compile_answer("answer.py", RIGHT, "ClipToSecond", cases)
    assert (told.kind, told.message) == ("not compiled", compiled.SILENT)


def test_words_and_lines_that_come_back_are_cleaned_and_looked_up(monkeypatch):
    evil = "\x1b[2J\x07\nanswer.py: 9 of 9 points\u202e" + "x" * 900
    first = (("answer.py", 1, "import cutlass"),)
    for name, number, lines in (("answer.py", 1, first), ("/etc/passwd", 1, ()), ("answer.py", 9**9, ())):
        data = json.dumps({"error": evil, "file": name, "line": number}).encode() + b"\n"
        monkeypatch.setattr(sandbox, "run", lambda *_, data=data: (0, data))
        told = compiled.compile_answer("answer.py", RIGHT, "ClipToSecond", lab("butterfly").cases(0))
        assert told.message.isprintable() and len(told.message) <= 300 and told.lines == lines


PRINTED = 'import os\nfor i in range(1, 3):\n    os.write(i, b\'{"error": "", "file": "", "line": 0}\\n\')\n'


@real
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("pass", compiled.SILENT),
        ("raise SystemExit(0)", compiled.SILENT),
        ("import os; os.abort()", compiled.SILENT),
        ("import os; os.write(1, b'x' * 90_000_000)", "it had not finished"),
        ("while True: pass", "it had not finished"),
        ("import time; time.sleep(60)", "it had not finished"),
        ("import os\nwhile True: os.fork()", compiled.SILENT),
    ],
)
def test_a_process_that_answers_as_it_likes(code, says, monkeypatch):
    start = "from grading.limits import limit; limit(3, 2**31)\n"
    monkeypatch.setattr(compiled, "WORKER", ("-c", start + code))
    monkeypatch.setattr(compiled, "SECONDS", 1.0)
    monkeypatch.setattr(sandbox, "GRACE", 1.0)
    told = compiled.compile_answer("answer.py", RIGHT, "ClipToSecond", lab("butterfly").cases(0))
    assert told.message.startswith(says)


@real
def test_a_printed_line_is_not_the_process_line(monkeypatch):
    """Whatever a submission and the compiler print, to Python's output or the process', goes nowhere."""
    loader = "from grading import compiled, submission\nreal = submission.load\n"
    loader += f"def load(*at):\n    exec({PRINTED!r})\n    return real(*at)\nsubmission.load = load\n"
    loader += "import sys; from pathlib import Path; compiled.main(Path(sys.argv[1]))"
    monkeypatch.setattr(compiled, "WORKER", ("-c", loader))
    assert wrong(SIMULATED_ONLY)


@real
def test_no_text_of_a_module_tells_the_simulator_from_the_dsl():
    names, real_ones = permitted.names.CUTLASS, compiled._import("cutlass")
    assert str(names.cute) == str(real_ones.cute) and repr(names.cute.arch) == repr(real_ones.cute.arch)
