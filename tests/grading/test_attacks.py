"""Submissions that want points, or the machine, and not the lab: none gets full marks, and each is told one plain sentence.

Three walls, each tried as if the one before it had fallen: what the source may name; what a process with native code can reach;
what the grader believes of what comes back. The last tests grade a class with an attacker in it.
"""

import functools
import io
import json
import linecache
import math
import operator
import platform
import random
import re
import sys
import tempfile
import time
import types
import uuid
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cutesim.dialect import names
from cutesim.trace import Op
from grading import compiled, corpus, diagnoses, folders, lab, limits, permitted, returned, sandbox, submission, trial
from grading.grade import grade, nothing
from grading.judgement import Case, Refused
from tests.grading.red_team import NEARLY, RIGHT, SOURCES, TOP, UNSEEN, walked

FLOOR = corpus.answers(folders()["floor"])["solution"][0]


def told(report):
    """The first sentence of a report that a grader may print: no full marks, one line, short, nothing that acts on a terminal."""
    assert not report.full, report
    message = report.diagnoses[0].message
    assert message and message.isprintable() and len(message) <= 1500 and "Traceback" not in str(report)
    return message


# What the source may name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", SOURCES)
def test_a_source_that_reaches_for_more(attack, monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE", 1.0)
    seconds = 0.5 if attack == "no end" else 30
    message = told(grade("butterfly", "answer.py", SOURCES[attack], seconds=seconds))
    assert message.count(". ") < 4


@pytest.mark.parametrize("end", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
def test_a_line_is_where_python_and_the_dsl_see_it(end):
    text = f"# {end * 3}\n{FLOOR}"
    submission.load("answer.py", text, "", ("softmax_bytes",))
    assert linecache.getlines("answer.py") == text.replace(end, " ").splitlines(keepends=True)


@pytest.mark.parametrize(
    "value", ["10**400", "float('nan')", "1e400", "[0] * 10**6", "1j", "lambda: 1", "True", "'x' * 10**6"]
)
def test_what_is_no_number_costs_its_check_alone(value):
    text = FLOOR.replace("    read = M * N * itemsize\n", f"    return {value}\n    read = M * N * itemsize\n", 1)
    report = grade("floor", "answer.py", text)
    assert told(report) and report.score == 7


@pytest.mark.parametrize("value", ["'x' if a[0] > 5 else 2**99", "2**99", "5e-324", "a[0] * 5e-324", "1e308", "True"])
def test_the_grader_can_finish_with_any_number(value):
    names = lab("floor").FUNCTIONS
    text = FLOOR + "".join(f"\n\ndef {name}(*a):\n    return {value}\n" for name in names)
    report = grade("floor", "answer.py", text)
    assert told(report) and "could not finish" not in str(report)


def test_a_table_of_the_seen_cases_answers_is_worth_nothing_on_others():
    module = lab("floor")
    tables = "\n".join(
        f"def {name}(*at):\n    return { {c.make: module.RIGHT[name](*c.make) for c in module.cases(0) if c.target == name} }[at]"
        for name in module.FUNCTIONS
    )
    assert grade("floor", "answer.py", tables, seed=0).full
    assert "KeyError" in told(grade("floor", "answer.py", tables, seed=987654321))


def test_a_function_does_not_know_how_often_it_was_called():
    functions = corpus.answers(folders()["floor"])["solution"][0]
    module = lab("floor")
    name = module.FUNCTIONS[0]
    counting = f"{functions}\ncalls = 0\ndef {name}(*given):\n    global calls\n    calls += 1\n    return calls\n"
    found = sandbox.outcomes("a.py", counting, module.TARGET, module.FUNCTIONS, module.cases(3))
    assert {outcome.outputs["answer"] for outcome in found if outcome.case.target == name} == {1}


def test_an_input_that_is_destroyed_costs_points():
    write = "mY[row, first + width * i] = cute.arch.fmin(rX[i], second)"
    destroyed = RIGHT.replace(write, f"{write}\n                mX[row, first + width * i] = -rX[i]")
    report = grade("butterfly", "a.py", destroyed, confirm=False)
    assert not report.full and any(d.kind == "input" and "mX[0, 0]" in d.message for d in report.diagnoses)


@pytest.mark.parametrize("attack", UNSEEN)
def test_what_is_wrong_or_wasted_in_no_fixed_case(attack):
    name, *edits = UNSEEN[attack]
    text = corpus.answers(folders()[name])["solution"][0]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    report = grade(name, "answer.py", text, seed=len(attack), confirm=False)
    assert told(report) and report.verdict in ("wrong", "waste")


@pytest.mark.parametrize("name, old, new, kind", NEARLY, ids=[name for name, *_ in NEARLY])
def test_what_is_nearly_right_is_told_as_that(name, old, new, kind):
    text = corpus.answers(folders()[name])["solution"][0]
    assert old in text
    report = grade(name, "answer.py", text.replace(old, new), seed=11, confirm=False)
    assert told(report) and report.diagnoses[0].kind == kind
    # No number shows at which line it went wrong.
    assert kind != "wrong formula" or not report.diagnoses[0].lines


def test_a_diagnosis_that_fails_costs_no_grade(monkeypatch):
    def fails(check, views, every):
        raise IndexError("of nothing")
        yield

    monkeypatch.setattr(lab("softmax"), "explain", fails)
    text = corpus.answers(folders()["softmax"])["solution"][0]
    report = grade("softmax", "answer.py", text.replace("cute.math.log(total)", "cute.math.log2(total)"), confirm=False)
    assert {d.kind for d in report.diagnoses} == {"wrong, no diagnosis"} and report.verdict == "wrong"
    assert [c.score for c in report.checks] == [1, 0, 0, 0, 1, 2]


def test_a_notebook_that_replaces_the_check_is_graded_by_the_check():
    wrong = FLOOR.replace("read + written", "3 * read + written")
    cells = [
        "import grading as labs\nlabs.check = lambda *a, **k: print('right')",
        "import sys; sys.exit = None",
        wrong,
    ]
    text = "".join(f"```{{code-cell}}\n{cell}\n```\n" for cell in cells)
    assert told(grade("floor", "answer.md", text))


def test_an_error_says_little_of_the_hidden_numbers():
    text = FLOOR.replace(
        "def softmax_bytes(M, N, itemsize):\n", "def softmax_bytes(*a):\n    raise ValueError(str(a) * 10**6)\n"
    )
    assert text != FLOOR
    assert len(told(grade("floor", "answer.py", text, seed=7))) <= 1500


def test_what_a_submission_does_to_a_module_reaches_nobody():
    patch = "import math, operator, random\ndef put(self):\n    self.shuffle = self.prod = self.add = 1\n"
    text = f"{TOP}{patch}put(math)\nput(operator)\nput(random.Random)\n{RIGHT}"
    assert grade("butterfly", "a.py", text.replace("self.width", "self._kinds"), confirm=False).full
    before = [vars(one).copy() for one in (math, operator, random.Random)]
    submission.load("a.py", text, "ClipToSecond")
    assert [vars(one) for one in (math, operator, random.Random)] == before


EVERYTHING = (
    TOP
    + """
@cute.jit
def helper(x):
    return x + 1


class Kernel:
    def __init__(self, n):
        self.n = n

    @cute.jit
    def __call__(self, mX: cute.Tensor, mY: cute.Tensor):
        cute.printf("", mX, self.kernel, helper, mX.shape, mX.layout)
        self.kernel(mX, mY).launch(grid=[1, 1, 1], block=[32, 1, 1])

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mY: cute.Tensor):
        tidx, _, _ = cute.arch.thread_idx()
        smem = cutlass.memory.SmemAllocator()
        sX = smem.allocate_tensor(cutlass.Float32, cute.make_layout(32), 16)
        rX = cute.make_rmem_tensor(4, cutlass.Float32)
        rX.fill(0.0)
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=32)
        tiled = cute.make_tiled_copy_tv(atom, cute.make_layout((1, 32)), cute.make_layout((1, 1)))
        cX = cute.make_identity_tensor(mX.shape)
        cute.printf("", self, self.kernel, helper, mX, mX.iterator, mX[0, None], cute.local_tile(mX, (1, 32), (0, 0)), tidx,
                    tidx < 3, smem, sX, sX.iterator, rX, rX.iterator, rX.load(), atom, tiled, tiled.get_slice(tidx), cX, cX[0, 1],
                    cute.make_swizzle(2, 2, 3))
        mY[0, tidx] = helper(mX[0, tidx])
"""
)


def reachable(hidden, monkeypatch):
    """(path, object) of what no submission should hold, and attributes lead to from what a kernel sees."""
    waiting = [(names.CUTLASS, "cutlass")]
    # A partial, since a function of this module's would be simulated.
    keep = functools.partial(lambda *shown: waiting.extend((x, type(x).__name__) for x in shown))
    monkeypatch.setitem(vars(names.CUTE), "printf", keep)
    x = np.zeros((1, 32), np.float32)
    answers = submission.load("answer.py", EVERYTHING, "Kernel")
    (outcome,) = trial.outcomes(answers, [Case("one", (1,), {"mX": x}, {"mY": x.copy()})])
    assert (outcome.outputs["mY"] == 1).all() and len(waiting) > 25
    kinds = (types.ModuleType, np.ndarray, np.dtype)
    return walked(waiting, hidden, lambda one: isinstance(one, kinds))[0]


def test_no_attributes_lead_from_a_kernel_to_arrays_or_the_interpreter(monkeypatch):
    refused = permitted.HIDDEN | permitted.REFUSED_ATTRIBUTES
    assert reachable(refused, monkeypatch) == []
    for name in ("memory", "a", "carrier"):  # the walk would find what is behind them
        assert reachable(refused - {name}, monkeypatch), name


# What a process with native code can reach ------------------------------------------------------------------------------

NATIVE = """
import ctypes, os, resource, signal, socket, subprocess, sys, threading, time
from pathlib import Path
from grading.limits import limit
def write(path, size):
    with open(path, 'wb') as f:
        for _ in range(size >> 20):
            f.write(bytes(2**20))
limit(20, 2**31)
for name, attack in {attacks!r}.items():
    try:
        if eval(attack):
            print(name, flush=True)
    except (OSError, RuntimeError, ValueError):
        pass
print('and no more', flush=True)
"""
CALLS = {
    "arithmetic": "1 + 1",  # which is no attack, and has to be reached
    "a fork": "os.fork() >= 0",
    "a fork by the C library": "ctypes.CDLL(None).fork() >= 0",
    "a program": "subprocess.run(['/bin/true']).returncode == 0",
    "a program in its place": "os.execv('/bin/echo', ['echo', 'reached'])",
    "a thread": "threading.Thread(target=time.sleep, args=(1,)).start() is None",
    "a socket": "socket.socket()",
    "a pair of sockets": "socket.socketpair()",
    "a signal to the parent": "os.kill(os.getppid(), signal.SIGTERM) is None",
    "a signal to everybody": "os.kill(-1, signal.SIGKILL) is None",
    "a debugger": "ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
    "a file of 100 MB": "signal.signal(signal.SIGXFSZ, signal.SIG_IGN) and write('/tmp/x', 10**8) is None",
    "a limit lifted": "resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40)) is None",
    "memory of a file's": "ctypes.CDLL(None).syscall({'x86_64': 319, 'aarch64': 279}[os.uname().machine], b'x', 0) >= 0",
    "memory to share": "ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0",
    "a name space": "ctypes.CDLL(None).unshare(0x10000000) == 0",
}
VIEWS = {
    "arithmetic": "1 + 1",
    "the labs": "list(Path({labs!r}).iterdir())",
    "the tests": "Path({tests!r}, 'conftest.py').exists()",
    "the home": "[p for p in Path({home!r}).iterdir() if not sys.prefix.startswith(str(p))]",
    "the users": "open('/etc/passwd').read()",
    "a key in the environment": "[v for v in os.environ.values() if 'a secret' in v]",
    "other processes": "os.path.exists('/proc/1') or os.getppid() > 100",
    "the other submissions": "Path({other!r}).exists()",
    "the package, to change it": "open('/sandbox/grading/grade.py', 'a')",
    "Python, to change it": "open(os.__file__, 'a')",
    "its job, to change it": "open('/job/job.json', 'a')",
    "a pipe in its job": "os.mkfifo('/job/result.json') is None",
    "the root": "open('/x', 'w')",
    "devices": "os.listdir('/dev') != ['null']",
    "the compiler, to change it": "open('/sandbox/typing_extensions.py', 'a')",
    "the environment beside it": "[p for p in Path('/sandbox').iterdir() if p.name in ('pytest', 'pip', 'torch')]",
    "the disk": "[write(f'/tmp/{{i}}', 10**7) for i in range(8)]",
    "shared memory": "open('/dev/shm/x', 'w')",
}


# The simulator's process, and the compiler's.
PROCESSES = pytest.mark.parametrize("packages", [(), compiled.packages()], ids=["simulator", "compiler"])


def reached(attacks, folder, packages):
    """Which of the attacks a process with native code succeeds with."""
    status, data = sandbox.run(folder, ("-c", NATIVE.format(attacks=attacks)), 60, packages)
    assert status == 0
    return data.decode().splitlines()


@pytest.mark.skipif(
    platform.machine() not in limits.REFUSED or sys.platform != "linux", reason="where calls are filtered"
)
@pytest.mark.parametrize("without", [False, True], ids=["sandbox", "limits alone"])
@PROCESSES
def test_the_kernel_refuses(packages, without, tmp_path, monkeypatch):
    if without:
        monkeypatch.setattr(sandbox, "problem", lambda: "none is wanted here")
    assert reached(CALLS, tmp_path, packages) == ["arithmetic", "and no more"]


@pytest.mark.skipif(sandbox.problem() is not None, reason=sandbox.problem() or "")
@PROCESSES
def test_nothing_is_there_but_python_the_package_and_the_job(packages, tmp_path, root, monkeypatch):
    monkeypatch.setenv("KEY", "a secret")
    job, other = tmp_path / "job", tmp_path / "other"
    job.mkdir()
    other.mkdir()
    (job / "job.json").write_text("{}", encoding="utf-8")
    places = {"labs": root / "labs", "tests": root / "tests", "home": Path.home(), "other": other}
    assert all(place.exists() for place in places.values())
    places = {name: str(place) for name, place in places.items()}
    assert reached({name: attack.format(**places) for name, attack in VIEWS.items()}, job, packages) == [
        "arithmetic",
        "and no more",
    ]
    assert [file.name for file in job.iterdir()] == ["job.json"]


# What the grader believes -----------------------------------------------------------------------------------------------

CASES = [case for case in lab("butterfly").cases(0) if not case.target][:1]


def zipped(files, kind=zipfile.ZIP_DEFLATED):
    """A zip file of {name: bytes}."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return out.getvalue()


def npz(**arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def result(**changes):
    """A worker's result.json for CASES, changed."""
    return json.dumps({"outcomes": [{"findings": [], "parameters": ["mX", "mY"], "answer": None} | changes]}).encode()


def header(shape):
    """A .npy that says it has a shape and holds nothing."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return out.getvalue()


M, N = CASES[0].outputs["mY"].shape
BACK = {
    "nothing that is a zip": b"full marks",
    "an empty zip": zipped({}),
    "a zip bomb": zipped({"result.json": bytes(2**27)}),
    "a zip bomb of another kind": zipped({"result.json": bytes(2**26)}, zipfile.ZIP_BZIP2),
    "the same, of LZMA": zipped({"result.json": result()}, zipfile.ZIP_LZMA),
    "a zip bomb in an array": zipped({"result.json": result(), "0.out.npz": zipped({"mY.npy": bytes(2**27)})}),
    "a header of a petabyte": zipped({"result.json": result(), "0.out.npz": zipped({"mY.npy": header((2**48,))})}),
    "a header of too little": zipped({"result.json": result(), "0.out.npz": zipped({"mY.npy": header((1, 1)) + bytes(400)})}),
    "objects": zipped({"result.json": result(), "0.out.npz": npz(mY=np.array([[{}]], object))}),
    "another shape": zipped({"result.json": result(), "0.out.npz": npz(mY=np.zeros((1, 1), np.float32))}),
    "another type": zipped({"result.json": result(), "0.out.npz": npz(mY=np.zeros((M, N), complex))}),
    "another name": zipped({"result.json": result(), "0.out.npz": npz(mZ=np.zeros((M, N), np.float32))}),
    "no trace": zipped({"result.json": result(), "0.out.npz": npz(mY=np.zeros((M, N), np.float32))}),
    "a trace that is none": zipped(
        {"result.json": result(), "0.out.npz": npz(mY=np.zeros((M, N), np.float32)), "0.trace.npz": npz(x=np.zeros(1))}
    ),
    "no outcomes": zipped({"result.json": b"{}"}),
    "too few outcomes": zipped({"result.json": b'{"outcomes": []}'}),
    "too deep": zipped({"result.json": b"[" * 200_000}),
    "a number of a million digits": zipped({"result.json": b'{"outcomes": ' + b"9" * 10**6 + b"}"}),
    "a list": zipped({"result.json": b"[1]"}),
    "names that are none": zipped({"result.json": result(parameters=["mX", "\x1b[2J"])}),
    "findings without end": zipped({"result.json": result(findings=[{"kind": "x", "message": "x", "lines": []}] * 10**5)}),
    "a finding of numbers": zipped({"result.json": result(findings=[{"kind": 1, "message": 2, "lines": []}])}),
    "a line of numbers": zipped({"result.json": result(findings=[{"kind": "x", "message": "", "lines": [[1, 2, 3, 4]]}])}),
    "a refusal of numbers": zipped({"result.json": b'{"refused": {"kind": 1, "message": 2, "lines": 3}}'}),
    "a refusal that is none": zipped({"result.json": b'{"refused": "no"}'}),
}  # fmt: skip


def sends(code, monkeypatch):
    """Let this code be what answers for a submission, after what sets its limits."""
    start = "import os, sys, time, zipfile; from grading.limits import limit; limit(3, 2**31)\n"
    monkeypatch.setattr(sandbox, "WORKER", ("-c", start + code))


@pytest.mark.parametrize("attack", BACK)
def test_what_is_no_result_is_refused(attack, monkeypatch):
    with pytest.raises(Refused) as refused:
        returned.outcomes(BACK[attack], CASES, 2**31)
    assert (refused.value.diagnosis.kind, str(refused.value)) == ("forged", returned.FORGED)


def forged(rows, op=Op.LOAD, **fields):
    """What comes back of a right answer, its first trace made of so many rows of one kind."""
    answer = submission.load("a.py", RIGHT, "ClipToSecond")
    outcome = trial.outcomes(answer, CASES)[0]
    events = np.repeat(outcome.trace.select(Op.LOAD)[:1], rows)
    events["op"], events["mask"], events["bytes"] = int(op), 2**32 - 1, 16
    for name, value in fields.items():
        events[name] = value
    with tempfile.TemporaryDirectory() as home:
        replace(outcome.trace, events=events).save(Path(home, "trace"))
        trace = Path(home, "trace").read_bytes()
    return zipped({"result.json": result(), "0.out.npz": npz(**outcome.outputs), "0.trace.npz": trace})


@pytest.mark.parametrize(
    ("rows", "fields", "kind"),
    [
        (returned.MOST_ROWS + 1, {}, "too much"),
        (10, {"op": Op.BULK_COPY, "sources": 0, "arg": 2**40}, "forged"),
        (1000, {"op": Op.BULK_COPY, "sources": 0, "arg": 2**18}, "forged"),
        (10, {"bytes": 1024}, "forged"),
        (10, {"bytes": -4}, "forged"),
        (10, {"op": 100}, "forged"),
        (10, {"line": -128}, "forged"),
    ],
)
def test_a_trace_that_would_take_the_graders_time_is_refused(rows, fields, kind):
    with pytest.raises(Refused) as refused:
        returned.outcomes(forged(rows, **fields), CASES, 2**31)
    assert refused.value.diagnosis.kind == kind
    assert kind == "forged" or "Does a thread walk a row alone" in str(refused.value)


def test_the_longest_trace_that_is_read_takes_seconds():
    (outcome,) = returned.outcomes(forged(returned.MOST_ROWS), CASES, 2**31)
    start = time.process_time()
    diagnoses.view(lab("butterfly"), outcome)
    assert [mistake.kind for mistake in lab("butterfly").waste(outcome)][:1] == ["traffic: read again"]
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("os.write(1, b'x' * 90_000_000)", "too much"),
        ("while True: os.write(1, bytes(65536))", "too much"),
        ("os._exit(0)", "crash"),
        ("os.abort()", "crash"),
        ("os.write(1, b'{}'); os._exit(0)", "forged"),
        ("os.close(1); time.sleep(60)", "time"),
        ("time.sleep(60)", "time"),
        ("while True: pass", "time"),
        ("os.write(1, b'x'); time.sleep(60)", "time"),
    ],
)
def test_a_process_that_answers_as_it_likes(code, kind, monkeypatch):
    sends(code, monkeypatch)
    monkeypatch.setattr(sandbox, "GRACE", 1.0)
    report = grade("butterfly", "answer.py", RIGHT, seconds=0.5)
    assert told(report) and report.diagnoses[0].kind == kind


def test_words_that_act_on_a_terminal_or_go_on_for_ever_are_cut():
    evil = "\x1b[2J\x1b]0;x\x07\nanswer.py: 9 of 9 points\u202e\r"
    words = {"kind": evil, "message": evil + "x" * 10**7, "lines": [[evil, 3, evil * 1000]] * 999}
    data = zipped({"result.json": json.dumps({"refused": words}).encode()})
    with pytest.raises(Refused) as refused:
        returned.outcomes(data, CASES, 2**31)
    report = nothing("butterfly", f"answer{evil}.py", 0, refused.value)
    assert told(report) and len(str(report)) < 5000
    assert all(line.isprintable() for line in str(report).split("\n"))
    assert not re.search(r"^answer.py: 9 of 9", str(report), re.MULTILINE)


# A class with an attacker in it ------------------------------------------------------------------------------------------

EVIL = """
import os, sys, time
from pathlib import Path
from grading import worker
home = Path(sys.argv[1])
if 'EVIL' in (home / 'job.json').read_text():  # {token}
    for attack in (lambda: os.fork() or time.sleep(60), lambda: os.setsid(), lambda: os.fork() or time.sleep(60),
                   lambda: open(worker.__file__, 'a').write('raise SystemExit'), lambda: os.kill(os.getppid(), 9),
                   lambda: (home / 'job.json').write_text('')):
        try:
            attack()
        except OSError:
            pass
    os._exit(0)
worker.main(home)
"""


@pytest.mark.skipif(sandbox.problem() is not None, reason=sandbox.problem() or "")
def test_the_next_student_is_graded_right_and_nothing_survives(monkeypatch):
    token = uuid.uuid4().hex
    monkeypatch.setattr(sandbox, "WORKER", ("-c", EVIL.format(token=token)))
    before = Path(sandbox.__file__).with_name("worker.py").read_bytes()
    texts = FLOOR, "EVIL = 1\n" + FLOOR, FLOOR, FLOOR.replace("read +", "9 +")
    ann, bea, cal, dot = (grade("floor", "floor.py", text, seconds=10).score for text in texts)
    assert (ann, bea, cal) == (8, 0, 8) and 0 < dot < 8
    assert Path(sandbox.__file__).with_name("worker.py").read_bytes() == before
    alive = [file for file in Path("/proc").glob("[0-9]*/cmdline") if token.encode() in readable(file)]
    assert alive == []


def readable(file):
    """A file's bytes, or none if its process has ended."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
