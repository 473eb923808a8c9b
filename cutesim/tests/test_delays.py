"""Waits that bring a race out: those proposed leave right kernels right, and stand where the finding says."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from dsl import field

from cutesim import delays
from cutesim.command import main
from cutesim.language.loading import answer_imports
from cutesim.simulation import simulate

CASES = {case.name: case for case in field.CASES}


def with_delay(name, delay, folder):
    """The case of that name in a copy of its file that has the wait."""
    path = folder / f"late_{delay.line}_{abs(hash(delay.which))}.py"
    path.write_text(delays.delayed(Path(delay.file).read_text("utf-8"), delay), "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    answer_imports(module.__dict__)
    spec.loader.exec_module(module)
    return next(case for case in module.CASES if case.name == name)


@pytest.mark.parametrize("name", CASES)
def test_the_right_kernel_stays_right_with_the_likeliest_wait_and_the_last(name, tmp_path):
    """Such a wait may stand where one lane alone is; the finding of the faulty one stays the same."""
    found = simulate(CASES[name].host, *CASES[name].arrays(), True)
    tried = delays.candidates(found)
    assert tried
    for delay in (tried[0], tried[-1]):
        other = with_delay(name, delay, tmp_path)
        x, out = other.arrays()
        run = simulate(other.host, x, out, False)
        assert run.ok, run
        np.testing.assert_allclose(out, other.right(x), rtol=1e-4, atol=1e-4)
        assert simulate(other.host, *other.arrays(), True).findings[0].kind == found.findings[0].kind


def test_the_command_writes_a_file_for_each_wait_and_each_has_the_race_at_its_line(tmp_path, capsys):
    words = ["x=f32:128", "out=f32:128"]
    assert main(["check", f"{field.__file__}:tile_reused", *words, "--delays", str(tmp_path)]) == 1
    line = simulate(CASES["tile_reused"].host, *CASES["tile_reused"].arrays()).findings[0].lines[0]
    assert f"warp 0 waits 4 ms before line {line.number}" in capsys.readouterr().out
    written = sorted(tmp_path.iterdir())
    assert len(written) == 4
    assert main(["check", f"{written[0]}:tile_reused", *words]) == 1
    assert "Race (write after read)" in capsys.readouterr().out
