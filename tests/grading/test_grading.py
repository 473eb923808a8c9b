"""The grader: what it says of files that cannot run, what a submission may not do, and what reaches its process."""

import functools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import grading as labs
from grading import corpus, folders, lab, sandbox, sizes, submission, trial
from grading.grade import grade, read
from grading.judgement import FAST, Case, Refused
from quack_tutorial import cli
from quack_tutorial.kernels.reduce import warp_reduce

LAB = lab("block-reduce")
RIGHT = corpus.answers(folders()["block-reduce"])["solution"][0]
HEAD = "import cutlass\nimport cutlass.cute as cute\n"


def with_body(lines):
    """The right answer, its warps' exchange replaced by other lines."""
    head, _, _ = RIGHT.partition("        value, index = warp_argmax(value, index)\n")
    return head + "".join(f"        {line}\n" for line in lines.splitlines())


LEAST, WARPS = "-cutlass.Float32.inf", "threads // 32"
OTHERS = (  # what stands in the right answer, and what in its place
    ("mX[row, column]", "mX[row][column]"),
    ("cute.arch.barrier", "cute.arch.barriers"),
    ("cute.arch.thread_idx()", "cute.arch.thread_index()"),
    ("RowArgmax", "Argmax"),
    ("mIndex: cute.Tensor):", "):"),
    ("self, threads)", "self)"),
    ("def __call__", "def launch"),
    ("def __call__(self, mX", "def __call__(self, more, mX"),
    ("(self, mX: cute.Tensor, mMax: cute.Tensor, mIndex: cute.Tensor):\n        M",
     "(self, *tensors):\n        mX, mMax, mIndex = tensors\n        M"),
    (".launch(grid", "\n        dict(grid"),
    ("block=[self.threads", "block=[64"),
    ("(N)", "(unknown)"),
    ("self.threads = threads", "self.threads = later"),
    ("return 4 * M * N + 8 * M", "return m"),
    ("return 4 * M * N + 8 * M", "pass"),
    ("def least_bytes", "def most_bytes"),
)  # fmt: skip
ALONE = (
    "class RowArgmax(:",
    HEAD,
    HEAD + "class RowArgMax:\n    pass",
    HEAD + "def RowArgmax(threads):\n    pass",
    "\n",
    HEAD + "x = 1\nx.y",
    HEAD + "raise SystemExit",
    HEAD + "x = later\nlater = 1",
    "x = [0] * 10**10",
    "def f(n):\n    return f(n)\n\n\nf(1)",
    "from quack_tutorial.kernels.reduce import block_reduce",
    "from math import *",
    "def f():\n    __syncthreads()",
    "async def wait():\n    pass",
    "import cutlass\nmath = cutlass.open",
)
CELLS = (  # of a notebook before the right answer, and what the answer has in its place
    ("!ls\n%matplotlib inline\n\nhelp?\n?help\nfiles = !ls", "[lane % warps]", "[(lane\n            % warps)]"),
    ("%%time\nLEAST = -float('inf')\nplot = draw(1)", LEAST, "LEAST"),
    ("%%bash\nls -l | wc", "value = -", "value = 0.0 - "),
    ("WARP: int = 32", WARPS, "threads // WARP"),
    ("SIZES = [32, 64]\nWARP = SIZES[0]", WARPS, "threads // WARP"),
    ("WARP = max(range(33))", WARPS, "threads // WARP"),
    ("def lanes():\n    return 32\nWARP = lanes()", WARPS, "threads // WARP"),
    ("if True:\n    WARP = 32\nelse:\n    WARP = 64", WARPS, "threads // WARP"),
    ("for WARP in (8, 16, 32):\n    pass", WARPS, "threads // WARP"),
    ("import numpy as np\nx = np.random.randn(4)\nLEAST = -np.inf", LEAST, "LEAST"),
    ("from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Sizes:\n    warp: int = 32\nS = Sizes()",
     WARPS, "threads // S.warp"),
    ("import matplotlib.pyplot as plt\nplt.plot([1])\nopen('x').read()\nassert 1 > 2", "value = -", "value = 0.0 - "),
    ("import os\nWARP = os.cpu_count()", "class RowArgmax:", "class RowArgmax:\n    w = WARP"),
)  # fmt: skip


def submissions():
    """(what a file has, its lab, its name, its text)."""
    for text in ALONE:
        yield repr(text), "block-reduce", "answer.py", text + "\n"
    for old, new in OTHERS:
        assert old in RIGHT
        yield f"{old!r} -> {new!r}", "block-reduce", "answer.py", RIGHT.replace(old, new)
    for before, old, new in CELLS:
        assert old in RIGHT
        yield repr(before), "block-reduce", "answer.md", cell(before) + cell(RIGHT.replace(old, new))
    unwritten = with_body("if tidx == 0:\n    mMax[row] = value")
    yield "an output without a value", "block-reduce", "answer.py", unwritten
    inherits = RIGHT.replace("class RowArgmax:", "class Base:") + "\n\nclass RowArgmax(Base):\n    pass\n"
    yield "what it inherits", "block-reduce", "answer.py", inherits
    helper = RIGHT.replace("class RowArgmax:", "def rounds(slots):\n    return slots + later\n\n\nclass RowArgmax:")
    helper = helper.replace("= threads\n", "= threads + rounds(4)\n")
    yield "an error in a helper, at the helper's line", "block-reduce", "answer.py", helper
    around = corpus.answers(folders()["butterfly"])["shuffle_in_if"][0]
    yield "a mistake around a helper, with the line that calls it", "butterfly", "answer.py", around
    head, line, rest = RIGHT.partition("import cutlass.cute as cute\n")
    yield "cells out of order", "block-reduce", "answer.md", cell(rest) + cell(f"\n{head}{line}")
    product = "import numpy as np\ndef softmax_bytes(M, N, itemsize):\n    return int(np.prod([2, M, N, itemsize]))\n"
    yield "numpy", "floor", "answer.py", product
    own = "\n\nif __name__ == '__main__':\n    import numpy\n    open('x')\n"
    yield "a test of one's own", "block-reduce", "answer.py", RIGHT + own
    without = "import os\n" + RIGHT.replace("threads // 32", "threads // os.x")
    yield "a use of what is left out", "block-reduce", "answer.py", without
    two = "def softmax_bytes(M, N, itemsize):\n    return m\ndef time_us(nbytes, gb_s):\n    return n\n"
    yield "one kind of mistake in two functions", "floor", "answer.py", two


def told(report):
    yield f"  {report.score} of {report.points} points" + (", full marks" if report.full else "")
    for diagnosis in report.diagnoses:
        message = diagnosis.message.replace("\n", "\n    ")
        yield f"  {diagnosis.kind}: {message}"
        yield from (f"      {line}" for _, _, line in diagnosis.lines)


def test_what_a_file_is_told(snapshot, of_today):
    kept = Path(__file__).with_name("told.txt")
    before = re.findall(r"^\S.*\n(?:\s.*\n)*", kept.read_text(encoding="utf-8"), re.MULTILINE)
    every, lines = list(submissions()), []
    today = of_today(every)
    assert len(every) == len(before) or os.environ.get("REPORTS") == "write"
    for asked, one in zip(every, before + [""] * len(every)):
        what, name, file, text = asked
        lines += [what, *told(grade(name, file, text))] if asked in today else one.splitlines()
    snapshot(lines, kept)


def test_a_file_nested_too_deep_is_no_python():
    assert grade("block-reduce", "answer.py", "(" * 5000).diagnoses[0].kind == "syntax"
    first = grade("block-reduce", "answer.py", f"x = {'-' * 20000}1").diagnoses[0]
    assert first.kind == "syntax" and "nested too deeply" in first.message


def test_loops_without_end_are_stopped():
    for text, kind, seconds in (
        ("while True:\n    pass\n", "time", 0.5),
        (with_body("while tidx >= 0:\n    cute.arch.barrier()"), "endless", 60),
    ):
        report = grade("block-reduce", "answer.py", text, seconds=seconds)
        assert report.diagnoses[0].kind == kind, report
        assert report.diagnoses[0].lines[0][2].startswith("while ")


def test_what_overflows_is_told_without_numpys_warnings(recwarn):
    text = corpus.answers(folders()["cross-entropy"])["no_shift"][0]
    assert not grade("cross-entropy", "answer.py", text).full
    assert not [one for one in recwarn if one.category is RuntimeWarning]


WIDTH = "        width = self.width\n"
STYLES = {  # what stands in butterfly's right answer, and what in its place
    "imports that nothing uses": (HEAD, f"import os\nimport torch as t\nfrom itertools import product\n{HEAD}"),
    "a docstring in column 0": (WIDTH, f'        """Rows\nof lanes."""  # and more\n{WIDTH}'),
    "a comment in column 0": (WIDTH, f"#        width = 8\n{WIDTH}"),
    "an argument in column 0": (WIDTH, "        width = max(\n0, self.width)\n"),
}


@pytest.mark.parametrize("style", STYLES)
def test_a_right_answer_is_right_whatever_its_style(style, monkeypatch):
    monkeypatch.undo()  # the compiler's word, too
    old, new = STYLES[style]
    text = corpus.answers(folders()["butterfly"])["solution"][0]
    assert old in text
    report = grade("butterfly", "answer.py", text.replace(old, new))
    assert report.full, report


def test_a_notebook_is_measured_without_its_plots(tmp_path):
    plot = {"output_type": "display_data", "data": {"image/png": "A" * 2**21}, "metadata": {}}
    cells = [{"cell_type": "code", "source": RIGHT, "outputs": [plot]}, {"cell_type": "markdown", "source": ""}]
    file = tmp_path / "block-reduce.ipynb"
    file.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert grade("block-reduce", file.name, read(file)).full
    cells[0]["source"] += "#" * 2**20
    file.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    with pytest.raises(Refused, match="larger than 1 MiB, even without the outputs of its cells"):
        read(file)


def cell(source):
    return f"```{{code-cell}}\n{source}\n```\n"


def test_two_hundred_thousand_empty_lines_are_read_in_no_time():
    start = time.monotonic()
    source = submission.without_magics("\n" * 200_000 + "%time\n" + "x = 1\n")
    assert source.strip() == "x = 1" and len(source.splitlines()) == 200_002 and time.monotonic() - start < 5


def test_a_misspelt_name_is_told_once(monkeypatch):
    monkeypatch.setattr("cutesim.context.in_notebook", lambda: True)
    text = corpus.answers(folders()["block-reduce"])["misspelt"][0]
    simulated = submission.load("answer.py", text, "RowArgmax", ())
    with pytest.raises(labs.NotYet) as raised:
        labs.check("block-reduce", simulated["RowArgmax"], "order")
    assert str(raised.value).count("barier") == 1 and "GPU" not in str(raised.value)


def test_a_failed_check_is_a_sentence_without_a_traceback():
    with pytest.raises(labs.NotYet) as raised:
        labs.check("block-reduce", least_bytes, "least_bytes")
    shown = raised.value._render_traceback_()
    assert " ".join(shown) == str(raised.value) and max(map(len, shown)) <= labs.COLUMNS
    assert str(raised.value).startswith("least_bytes: least_bytes(1, 1) returns 8. That is one output of two.")


def test_a_sentence_is_broken_between_words_and_a_source_line_nowhere():
    line = "    cell 5:33:  " + "x" * labs.COLUMNS
    told = labs.NotYet("order: " + "a race of shared-memory words " * 9 + "\n" + line)
    *sentence, last = told._render_traceback_()
    assert last == line and len(sentence) > 2 and {word for part in sentence for word in part.split()} == {
        "order:", "a", "race", "of", "shared-memory", "words"}  # fmt: skip


def test_an_error_in_a_notebooks_function_names_the_cell_by_its_number(monkeypatch):
    compiler = pytest.importorskip("IPython.core.compilerop").CachingCompiler()
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(compile=compiler))
    source, namespace = "def least_bytes(M, N):\n    return 4 * m * N\n", {}
    for number in (5, 7):  # the cell's last run counts
        exec(compile(source, compiler.cache(source, number), "exec"), namespace)
    with pytest.raises(labs.NotYet, match="least_bytes: cell 7:2: NameError: name 'm' is not defined\n    cell 7:2: "):
        labs.check("block-reduce", namespace["least_bytes"], "least_bytes")


def test_one_interrupt_stops_a_check_of_many_cases():
    calls = []

    def least_bytes(M, N):
        calls.append(M)
        raise KeyboardInterrupt

    with pytest.raises(labs.NotYet, match="KeyboardInterrupt"):
        labs.check("block-reduce", least_bytes, "least_bytes")
    assert len(calls) == 1


def least_bytes(M, N):
    return 4 * M * N + 4 * M


def test_a_check_knows_a_function_by_what_is_asked_and_not_by_what_it_calls_itself(capsys):
    right, wrong = lambda M, N: 4 * M * N + 8 * M, lambda M, N: 4 * M * N
    labs.check("block-reduce", right, "least_bytes")
    assert capsys.readouterr().out == "right: least_bytes\n"
    with pytest.raises(labs.NotYet, match="least_bytes"):
        labs.check("block-reduce", wrong, "least_bytes")
    with pytest.raises(labs.NotYet, match="least_bytes is a partial here: make it a function"):
        labs.check("block-reduce", functools.partial(right, 1), "least_bytes")
    with pytest.raises(labs.NotYet, match="RowArgmax is a function here: make it a class"):
        labs.check("block-reduce", least_bytes, "order")


def test_files_that_are_not_plain(tmp_path, capsys):
    marked = tmp_path / "marked.py"
    # As some editors begin a file.
    marked.write_bytes(b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode())
    assert cli.main(["grade", "block-reduce", str(marked)]) == 0
    marked.write_bytes(RIGHT.encode("utf-16"))  # as PowerShell's > writes it
    assert cli.main(["grade", "block-reduce", str(marked), "--no-compile"]) == 0
    picture = tmp_path / "picture.py"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    assert cli.main(["grade", "block-reduce", str(picture)]) == 2
    assert "picture.py is no text: hand in a notebook (.ipynb) or Python (.py, .md)" in capsys.readouterr().err
    capsys.readouterr()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert cli.main(["grade", "block-reduce", str(pipe)]) == 2
    assert f"cannot read {pipe}: it is no file" in capsys.readouterr().err
    assert cli.main(["grade", "block-reduce", str(marked), "--seconds", "inf"]) == 2
    assert "--seconds is a number above 0" in capsys.readouterr().err


def test_no_right_answer_reaches_the_process(tmp_path):
    cases = LAB.cases(3)
    sandbox.write_job(tmp_path, {"text": ""}, cases)
    assert {file.name for file in tmp_path.iterdir()} == {"job.json", *(f"{i}.in.npz" for i in range(len(cases)))}
    for i, case in enumerate(cases):
        if case.target:
            continue
        right = LAB.right(case)
        with np.load(tmp_path / f"{i}.in.npz") as arrays:
            assert sorted(arrays) == ["mIndex", "mMax", "mX"]
            assert not any((arrays[name] == right[name]).any() for name in right)


def test_the_reference_on_rows_done_by_hand():
    x = np.array([[1, 3, 3], [-2, -1, -5], [-np.inf, -np.inf, -np.inf]], np.float32)
    right = LAB.right(Case("by hand", (64,), {"mX": x}))
    assert right["mMax"].tolist() == [3, -1, -np.inf]
    assert right["mIndex"].tolist() == [1, 1, 0]


def test_seeds_give_other_rows_of_other_lengths_and_the_edges_are_there():
    first, second, third = ([c for c in LAB.cases(seed) if not c.target] for seed in (0, 1, 77))
    assert [c.inputs["mX"].shape for c in first] != [c.inputs["mX"].shape for c in second]
    for cases in (first, second, third):
        at = {c.name: (c.inputs["mX"], c.make[0]) for c in cases}
        assert at["odd"][0].shape[1] % 2 == 1 and (at["odd"][0] < 0).all()
        assert at["short"][0].shape[1] < at["short"][1]
        assert ((at["ties"][0] == at["ties"][0].max(axis=1, keepdims=True)).sum(axis=1) > 1).all()
        assert np.isneginf(at["infinite"][0][0]).all()
        assert {c.schedule for c in cases} == {"forward", "reverse", "seeded", FAST}
        assert not any(np.isnan(c.inputs["mX"]).any() for c in cases)


@pytest.mark.parametrize(
    ("condition", "asks"),
    [
        ("N < 5000", lambda M, N: N >= 5000),
        ("len(range(20)) * 250 > N", lambda M, N: N >= 5000),
        ("N % 121 != 7", lambda M, N: N % 121 == 7),
        ("N // 4 * 4 != N", lambda M, N: N % 4 == 0),
        ("M != 13", lambda M, N: M == 13),
        ("row < 750", lambda M, N: M > 750),
        ("N > 0", None),
        ("tidx < N", None),
    ],
)
def test_an_answer_is_asked_for_sizes_at_which_it_decides_otherwise(condition, asks):
    text = RIGHT.replace("mMax[row] = value", f"mMax[row] = value if {condition} else cutlass.Float32(0)")
    text = text.replace("N, threads =", "M, N, threads = mX.shape[0],")
    answer = submission.load("answer.py", text, "RowArgmax")["RowArgmax"]
    cases = [case for case in LAB.cases(4) if not case.target]
    case = next(case for case in sizes.probed(cases) if case.inputs["mX"].shape[1] % 4)
    found = sizes.asked(answer, case, cases, {"answer.py"}, ())
    assert any(asks(*shape) for shape in found) if asks else not found


def test_the_command_gives_json_and_an_exit_status(tmp_path, capsys):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT, encoding="utf-8")
    wrong.write_text(RIGHT.replace("        cute.arch.barrier()\n", ""), encoding="utf-8")
    assert cli.main(["grade", "block-reduce", str(right), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["score"], report["points"], report["full_marks"], report["diagnoses"]) == (11, 11, True, [])
    assert cli.main(["grade", "block-reduce", str(wrong), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["score"] == 1  # of the prediction
    assert {check["kind"] for check in report["checks"]} == {None, "missing barrier"}
    (diagnosis,) = report["diagnoses"]
    assert [line["text"] for line in diagnosis["lines"]][0] == "sMax[warp] = value"
    assert cli.main(["grade", "block-reduce", str(tmp_path / "none.py")]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_without_a_file_the_labs_notebook_here_is_graded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", "block-reduce"]) == 2
    assert "cannot read block-reduce.ipynb" in capsys.readouterr().err
    cells = [{"cell_type": "code", "source": RIGHT}]
    (tmp_path / "block-reduce.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert cli.main(["grade", "block-reduce", "--no-compile"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("block-reduce.ipynb: 11 of 11 points")
    assert re.search(r"^block-reduce.ipynb as it was saved at \d\d:\d\d:\d\d on ", told, re.M)


def test_a_right_answer_with_numpy_is_warned_where_it_is_right(capsys):
    def with_numpy(M, N):
        return int(np.sum([4 * M * N, 8 * M])) + 0 * max(0, np.inf > 0)

    def with_the_package(M, N):
        return 4 * M * N + 8 * M + 0 * int(warp_reduce is None)

    for answer, name in ((with_numpy, "numpy.sum"), (with_the_package, "quack_tutorial.kernels.reduce.warp_reduce")):
        labs.check("block-reduce", answer, "least_bytes")
        assert capsys.readouterr().out == f"right: least_bytes (but what you hand in has no {name})\n"


def test_a_report_that_nobody_reads_to_its_end_or_in_another_encoding(tmp_path):
    answer = tmp_path / "Müller.py"
    answer.write_text(RIGHT, encoding="utf-8")
    command = [sys.executable, "-m", "quack_tutorial.cli", "grade"]
    command += ["block-reduce", str(answer), "--no-compile"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("M\\xfcller.py: 11 of 11 points")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.stderr == ""


def test_what_a_function_may_return():
    assert trial.plain([1, (2.5, "x"), True]) == (1, (2.5, "x"), True)
    for value in (None, {}, 2**200, "x" * 300, [[[[[1]]]]], object()):
        with pytest.raises(Refused, match="the function returns"):
            trial.plain(value)


def test_grading_needs_neither_the_dsl_nor_torch():
    script = (
        "import sys; from grading import diagnoses, lab, submission, trial; module = lab('block-reduce');"
        f"answers = submission.load('answer.py', {RIGHT!r}, module.TARGET, module.FUNCTIONS);"
        "checks = diagnoses.judge(module, trial.outcomes(answers, module.cases(0)));"
        "print(sum(c.score for c in checks), sorted({'cutlass', 'cuda', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "11 []", done.stderr


def test_an_ignored_row_need_not_be_read_and_any_other_must_be():
    module = lab("cross-entropy")
    case = next(c for c in module.cases(0) if c.name == "ignored")
    assert module.may_skip(case).tolist() == [True, True, False, True, False]
    right = corpus.answers(folders()["cross-entropy"])["ignored_not_read"][0]
    found, old, rest = right.partition("elif column < N:")
    told = grade("cross-entropy", "answer.py", f"{found}elif column < N and row != 2:{rest}").checks
    told = {check.name: check.diagnosis for check in told}
    assert old
    assert told["ignored"].kind == "unread rows" and "row 2 of x" in told["ignored"].message


@pytest.mark.parametrize("seed", [11, 16, 20])
def test_rows_of_eight_warps_tell_a_kernel_that_reads_four_slots(seed):
    """Of these seeds the winners of rows of eight warps had all been in the first four."""
    four = corpus.answers(folders()["block-reduce"])["four_slots"][0]
    report = grade("block-reduce", "answer.py", four, seed, confirm=False)
    assert [check.diagnosis and check.diagnosis.kind for check in report.checks][1] == "lost warps"


def test_the_detectives_verdicts_are_asked_of_profiles_that_nobody_has_seen():
    module = lab("detective")
    asked = [
        {str(c.make[0]): module.guilt(c.make[0]) for c in module.cases(seed) if c.name == "unseen"} for seed in (0, 1)
    ]
    assert not set(asked[0]) & set(asked[1])
    assert all(set(charges.values()) == set(module.CHARGES) for charges in asked)
    page = {letter: module.guilt(module.counted(letter)) for letter in module.PROFILED}
    assert page == {"A": "reads again", "B": "spills", "C": "few warps", "D": "reads again", "E": "nothing"}
