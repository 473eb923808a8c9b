"""A copy that is wider than the alignment that the compiler knows of is refused here too, and no other."""

import numpy as np
import pytest

from cutesim.language.loading import answer_package
from cutesim.memory.arguments import HostTensor
from cutesim.simulation import simulate

answer_package("dsl")

from dsl.alignment import Wide

TAKEN = {
    "tile": True,
    "pointer + n": False,
    "pointer + 4 * n": False,
    "pointer + assumed n": True,
    "offset n": False,
    "offset 4": True,
    "row n, constant 2": True,
    "row n, n": False,
    "autovec, offset n": True,
}


@pytest.mark.parametrize("how", TAKEN)
def test_a_wide_copy_needs_an_address_that_is_known_to_be_aligned(how):
    run = simulate(Wide(how), np.zeros(2048, np.float32), np.zeros(8, np.float32), 0)
    assert run.ok is TAKEN[how], run
    if not run.ok:
        (finding,) = run.findings
        assert finding.kind == "language" and "cute.copy(atom" in finding.lines[0].text
        known = 8 if "row" in how else 4
        assert f"to be a multiple of 16 bytes, and of this one in x a multiple of {known} is known" in finding.message


def test_an_alignment_that_is_not_promised_is_not_known():
    x, out = np.zeros(2048, np.float32), np.zeros(8, np.float32)
    assert simulate(Wide("tile"), HostTensor(x, 16), out, 0).ok
    assert not simulate(Wide("tile"), HostTensor(x, 4), out, 0).ok


@pytest.mark.parametrize("how", TAKEN)
def test_the_compiler_takes_and_refuses_the_same(how):
    cute = pytest.importorskip("cutlass.cute", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    from cutlass.cute.runtime import from_dlpack

    x, out = (from_dlpack(torch.zeros(n), assumed_align=16) for n in (2048, 8))
    try:
        cute.compile(Wide(how), x, out, 0)
        taken = True
    except Exception as error:
        taken = False
        assert "does not meet requirement (128 bits)" in " ".join(str(error).split())
    assert taken is TAKEN[how]
