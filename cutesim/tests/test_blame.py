"""Whose an error is: a reader's mistake is a finding in Python's words, what the simulator lacks is refused by its name."""

import collections
import random

import numpy as np
import pytest
import uses
from dsl import blamed as k

from cutesim import NotSimulated
from cutesim.simulation import simulate

X = np.arange(32, dtype=np.float32)


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
                if got is not mine and name not in ("jit", "kernel"):
                    lost.append(f"{space._path}.{name}")
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
