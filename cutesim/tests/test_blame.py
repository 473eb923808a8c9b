"""Whose an error is: a reader's mistake is a finding in Python's words, what the simulator lacks is refused by its name."""

import collections
import random
import subprocess
import sys

import numpy as np
import pytest

from cutesim import NotSimulated
from cutesim.language.loading import answer_package
from cutesim.simulation import simulate

answer_package("dsl")

import uses
from dsl import blamed as k

X = np.arange(32, dtype=np.float32)

READERS = {
    "unknown name": "name 'tidx' is not defined",
    "too many arguments": "reader_helper() takes 2 positional arguments but 3 were given",
    "nested with none": "nested() missing 1 required positional argument: 'a'",
    "lambda with none": "<lambda>() missing 1 required positional argument: 'a'",
    "index of a list": "list index out of range",
    "key of a dict": "KeyError: 'b'",
    "division by zero": "division by zero",
    "assert": "AssertionError: not three",
    "int of a word": "invalid literal for int() with base 10: 'two'",
    "attribute of a function": "reader_helper has no .factor",
    "index of a function": "'function' object is not subscriptable",
    "plus of an object": "unsupported operand type(s) for +: 'Scaled' and 'int'",
    "class without arguments": "missing 1 required positional argument: 'factor'",
    "list without append": "'list' object has no attribute 'add'",
}
LACKING = {
    "missing + number": "cute.no_such_thing",
    "number < missing": "cute.no_such_thing",
    "number of missing": "cute.no_such_thing",
    "store of missing": "cute.no_such_thing",
    "missing as condition": "cute.no_such_thing",
    "loop over missing": "cute.no_such_thing",
    "instance of missing": "cute.no_such_thing",
    "shape of a tuple": ".shape of a tuple",
    "layout @ layout": "unsupported operand type(s) for @: 'Layout' and 'Layout'",
    "layout < 3": "'<' not supported between instances of 'Layout' and 'int'",
    "layout of a function": "make_composed_layout of other things than a swizzle and a layout",
    "dots": "... in a coordinate",
    "sorted tensors": "sorted as it is called here: '<' not supported",
    "sum of layouts": "sum as it is called here: unsupported operand",
    "format": "unsupported format string",
    "three arguments": "fmin as it is called here",
    "number in a tuple": "`in` with a number that is known only when the kernel runs",
    "index of a token": ".value of a Token",
}


@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("check", [True, False])
def test_a_reader_s_own_mistake_is_a_finding_at_its_line(what, check):
    if check:
        (finding,) = simulate(k.Use(what), X.copy()).findings
    else:
        with pytest.raises(Exception) as raised:
            simulate(k.Use(what), X.copy(), check=False)
        finding = raised.value.finding
    assert finding.kind == "language" and READERS[what] in finding.message
    assert finding.message.startswith("blamed.py:") and finding.lines[0].function == "kernel"


@pytest.mark.parametrize("what", LACKING)
@pytest.mark.parametrize("check", [True, False])
def test_what_the_simulator_lacks_is_refused_by_name(what, check):
    with pytest.raises(NotSimulated, match=r"blamed.py:\d+\)$") as raised:
        simulate(k.Use(what), X.copy(), check=check)
    assert str(raised.value).startswith("not simulated: ") and LACKING[what] in str(raised.value)


def test_operators_of_a_reader_s_class_are_the_reader_s():
    x = X.copy()
    assert simulate(k.Use("operators"), x).ok and (x == 10).all()


def test_a_number_of_the_dsl_s_may_be_an_argument():
    cutlass = pytest.importorskip("cutlass", reason="the CuTe DSL is not installed")
    x = X.copy()
    assert simulate(k.with_a_number, x, cutlass.Int32(5)).ok
    assert (x == np.where(X < 5, 32, X)).all()


def test_every_name_that_the_simulator_has_is_found_where_the_dsl_is_installed():
    """Whatever way a kernel imports it: the DSL defines some in modules that no reader knows."""
    pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    import importlib

    from cutesim.dialect import names
    from cutesim.language.builtins import BUILTINS
    from cutesim.language.proxies import Mapper

    lost, waiting, seen = [], [names.CUTLASS], set()
    while waiting:
        space = waiting.pop()
        seen.add(space._path)
        members = {name: x for name, x in vars(space).items() if not name.startswith("_")}
        waiting += [x for x in members.values() if isinstance(x, names.Namespace) and x._path not in seen]
        module = importlib.import_module(space._path if space._path.startswith("cutlass") else f"cutlass.{space._path}")
        for name, mine in members.items():
            if callable(mine) and not isinstance(mine, (names.Annotation, names.Namespace, names.Missing)):
                got = Mapper(BUILTINS).map(getattr(module, name, None))
                lost += [f"{space._path}.{name}"] if got is not mine and name not in ("jit", "kernel") else []
    assert not lost


def test_a_host_function_may_touch_its_tensors():
    x = X.copy()
    run = simulate(k.host_touches, x)
    assert run.ok, run
    wanted = X.copy()
    wanted[4:8] += 2
    wanted[:4] = wanted[:4] * 3 + np.arange(4)
    np.testing.assert_array_equal(x, wanted)
    assert run.printed == ("12.000000 6.000000\n",) and len(run.trace) == 0
    (finding,) = simulate(k.host_leaves_the_tensor, X.copy()).findings
    assert "the host function writes 4 bytes at x[40]" in finding.message
    (finding,) = simulate(k.host_asks_for_its_thread, X.copy()).findings
    assert "belongs inside a @cute.kernel function" in finding.message


def test_all_gaps_behind_self_are_named_at_once():
    with pytest.raises(NotSimulated) as raised:
        simulate(k.Whole(), X.copy())
    said = str(raised.value)
    assert [name in said for name in ("cute.arch.first_gap", "cute.arch.second_gap", "cute.arch.third_gap")] == [
        True
    ] * 3


def test_an_index_that_overflowed_is_told_so():
    (finding,) = simulate(k.far, X.copy()).findings
    assert "at x[-1294967296]" in finding.message and "An Int32 cannot hold 3,000,000,000" in finding.message
    assert "do not count from the end" not in finding.message


def test_a_script_that_compiles_where_there_is_no_dsl_is_told_how_to_run(tmp_path):
    (tmp_path / "script.py").write_text(
        "import numpy as np\nimport cutlass.cute as cute\n"
        "@cute.jit\ndef nothing(x: cute.Tensor):\n    pass\n"
        "x = np.zeros(4, np.float32)\ncute.compile(nothing, x)(x)\n"
    )
    without = (
        "import importlib.util, runpy, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in ('cutlass', 'cuda') else find(name, *rest)\n"
        "from cutesim.__main__ import main\nmain(sys.argv[1:])\n"
    )
    ran = subprocess.run([sys.executable, "-c", without, str(tmp_path / "script.py")], capture_output=True, text=True)
    assert (
        ran.returncode == 1 and "nothing is a @cute.jit function and the CuTe DSL is not installed here" in ran.stderr
    )
    assert "cutesim check FILE.py" in ran.stderr and "IndexError" not in ran.stderr


def loaded(cases, folder):
    from cutesim.files import load

    file = folder / f"uses_{len(cases)}.py"
    file.write_text(uses.source(cases))
    return load(file)


EVERY = [(held, use) for held in uses.OBJECTS for use in (*uses.USES, *uses.STATEMENTS)]


def test_whatever_a_kernel_does_with_an_object_the_verdict_is_a_run_or_a_refusal(tmp_path, capsys):
    """A sample of all objects and uses: never Python's own error, never no end."""
    cases = random.Random(0).sample(EVERY, 300)
    module, verdicts = loaded(cases, tmp_path), collections.Counter()
    for i, (held, use) in enumerate(cases):
        try:
            run = simulate(getattr(module, f"c{i}"), X.copy(), max_steps=1000)
            verdicts[run.ok] += 1
        except NotSimulated as error:
            assert f"uses_{len(cases)}.py:" in str(error), (held, use)
            verdicts["not simulated"] += 1
    assert verdicts[True] > 30 and verdicts[False] > 30 and verdicts["not simulated"] > 90


def test_what_is_called_a_mistake_the_compiler_refuses_too(tmp_path):
    """Of the same sample: where the compiler takes a kernel, the simulator does not say that the language refuses it."""
    cute = pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    import importlib.util

    from cutlass.cute.runtime import from_dlpack

    cases = random.Random(0).sample(EVERY, 60)
    module = loaded(cases, tmp_path)
    spec = importlib.util.spec_from_file_location("uses_of_the_compiler", tmp_path / f"uses_{len(cases)}.py")
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    for i, case in enumerate(cases):
        try:
            findings = simulate(getattr(module, f"c{i}"), X.copy(), max_steps=1000).findings
        except NotSimulated:
            continue
        if any(finding.kind == "language" for finding in findings):
            try:
                cute.compile(getattr(real, f"c{i}"), from_dlpack(torch.zeros(32), assumed_align=16))
            except BaseException:  # some of what it raises is no Exception
                continue
            pytest.fail(f"{case}: the compiler takes it, and the simulator says {findings[0]}")
