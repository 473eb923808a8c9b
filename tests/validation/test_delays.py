"""Waits that bring a race out: those proposed leave right kernels right, and stand where the finding says."""

import numpy as np
import pytest

from cutesim import delays
from cutesim.command import main
from cutesim.simulation import simulate
from validation import corpus
from validation.delays import cases, with_delay

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_the_right_kernel_stays_right_with_the_likeliest_wait_and_the_last(name, tmp_path):
    """Such a wait may stand where one lane alone is; the finding of the faulty one stays the same."""
    found = simulate(CASES[name].host, *CASES[name].arrays(), True)
    tried = delays.candidates(found)
    assert tried
    for delay in (tried[0], tried[-1]):
        other = with_delay(name, delay, tmp_path)
        *inputs, out = other.arrays()
        run = simulate(other.host, *inputs, out, False)
        assert run.ok, run
        np.testing.assert_allclose(out, other.right(*other.arrays()[:-1]), rtol=1e-4, atol=1e-4)
        assert simulate(other.host, *other.arrays(), True).findings[0].kind == found.findings[0].kind


def test_a_fault_of_every_order_has_no_wait_to_offer():
    case = next(case for case in corpus.CASES if case.kind == "out of bounds")
    assert delays.candidates(simulate(case.host, *case.arrays(), True)) == []


def test_the_command_writes_a_file_for_each_wait_and_each_has_the_race_at_its_line(tmp_path, capsys):
    kernel = tmp_path / "racy.py"
    kernel.write_text(
        "import cutlass\nimport cutlass.cute as cute\n\n\n"
        "@cute.kernel\ndef kernel(x: cute.Tensor, out: cute.Tensor):\n"
        "    t, _, _ = cute.arch.thread_idx()\n"
        "    s = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)\n"
        "    s[t] = x[t]\n    out[t] = s[63 - t]\n\n\n"
        "@cute.jit\ndef host(x: cute.Tensor, out: cute.Tensor):\n"
        "    kernel(x, out).launch(grid=[1, 1, 1], block=[64, 1, 1])\n"
    )
    words = ["x=f32:64", "out=f32:64:nan"]
    assert main(["check", f"{kernel}:host", *words, "--delays", str(tmp_path / "late")]) == 1
    assert "warp 0 waits 4 ms before line 9" in capsys.readouterr().out
    written = sorted((tmp_path / "late").iterdir())
    assert len(written) == 4
    assert main(["check", f"{written[0]}:host", *words]) == 1
    assert "race" in capsys.readouterr().out
