"""Suite `sanitizer` without a GPU: a stand-in plays compute-sanitizer; the simulator's part is the real one."""

import dataclasses
import sys

import pytest

from cutesim.simulation import simulate
from tests.validation.stand_ins import quiet
from validation.corpus import CASES
from validation.gpu import sanitizer

BY_NAME = {case.name: case for case in CASES}


def test_a_bug_that_is_missed_is_a_mismatch():
    _, (other,) = sanitizer.simulated(dataclasses.replace(BY_NAME["missing_sync_warp"], kind="deadlock"))
    assert other.startswith(
        "missing_sync_warp: expected deadlock at the lines marked `# here`; Race (read after write)"
    )
    _, (nothing,) = sanitizer.simulated(dataclasses.replace(BY_NAME["uninitialised_global"], kind="uninitialised"))
    assert nothing.endswith("nothing was found")


def test_false_alarms_are_mismatches_in_every_order(monkeypatch):
    def with_the_bug(host, x, y, out, bug, **options):
        return simulate(host, x, y, out, True, **options)

    monkeypatch.setattr(sanitizer, "simulate", with_the_bug)
    race, overrun = (sanitizer.silent(BY_NAME[name]) for name in ("missing_sync_warp", "past_the_allocation"))
    assert [said.count("Race (read after write)") for said in race] == [1, 1, 1]  # the fast mode sees none
    assert [said.count("Out of bounds") for said in overrun] == [1, 1, 1, 1]


def test_the_sample_asks_the_simulator_alone():
    suite = sanitizer.run(True, quiet)
    assert suite.ok and suite.checked == 5 * len(CASES)
    assert {row[2] for row in suite.rows} == {"not asked"}
    assert suite.rows[-1][1].startswith(f"nothing, of {len(CASES)} of {len(CASES)}")


MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at kernel_cutlass_kernel_0+0x110 in /x/quack_tutorial/validate/seeded_bugs.py:134
=========     by thread (60,0,0) in block (0,0,0)
=========     Access at 0x7f6c1a8000f0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f6c1a800000 of size 240 bytes
=========
========= Invalid __global__ read of size 4 bytes
=========     at kernel_cutlass_kernel_0+0x110 in /x/quack_tutorial/validate/seeded_bugs.py:134
=========     by thread (61,0,0) in block (0,0,0)
========= ERROR SUMMARY: 4 errors
"""
MISALIGNED = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at kernel_cutlass_kernel_0+0x110
=========     by thread (1,0,0) in block (0,0,0)
=========     Access at 0x7f6c1a800004 is misaligned
========= ERROR SUMMARY: 31 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at kernel_cutlass_kernel_0+0x90 in /x/seeded_bugs.py:40
=========     and Read access at kernel_cutlass_kernel_0+0xa0 in /x/seeded_bugs.py:43 [256 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SYNCCHECK = """some line of the program
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at kernel_cutlass_kernel_0+0xb0 in /x/seeded_bugs.py:210
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 16 errors
"""
INITCHECK = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at kernel_cutlass_kernel_0+0x70
=========     by thread (31,0,0) in block (0,0,0)
=========     Address 0x7f3c7ec000fc
========= ERROR SUMMARY: 64 errors
"""


@pytest.mark.parametrize(
    "text, said",
    [
        (MEMCHECK, "Invalid __global__ read of size 4 bytes (line 134)"),
        (MISALIGNED, "Invalid __global__ read of size 16 bytes, misaligned"),
        (RACECHECK, "Race reported between Write access and Read access (lines 40 and 43)"),
        (SYNCCHECK, "Barrier error detected. Divergent thread(s) in warp (line 210)"),
        (INITCHECK, "Uninitialized __global__ memory read of size 4 bytes"),
        ("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", ""),
        ("========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", ""),
        ("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 3 errors\n", "(3 errors without a report)"),
        ("========= COMPUTE-SANITIZER\n========= Did not end in 30 s\n", "Did not end in 30 s"),
        ("Segmentation fault\n", "(no summary: Segmentation fault)"),
        ("", "(no summary: no output)"),
    ],
)
def test_what_compute_sanitizer_says_becomes_one_line(text, said):
    assert sanitizer.said_by(text) == said


def test_a_process_that_hangs_is_ended_with_its_children(monkeypatch):
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
    text = sanitizer._output([sys.executable, "-c", child + "print('now launching', flush=True); time.sleep(60)"], 2)
    assert sanitizer.said_by(text) == "Did not end in 2 s"
    text = sanitizer._output([sys.executable, "-c", "import time; time.sleep(60)"], 1)
    assert sanitizer.said_by(text) == "Did not start in 1 s"


def test_without_compute_sanitizer_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(sanitizer.shutil, "which", lambda _: None)
    suite = sanitizer.run(False, quiet)
    assert suite.mismatches == ("compute-sanitizer was not asked: it is not on the PATH",)
    assert {row[2] for row in suite.rows} == {"not asked"}


def test_both_sides_stand_in_one_table(monkeypatch):
    says = {name: dict.fromkeys(sanitizer.TOOLS, "") for name in (sanitizer.ALL_CORRECT, *(c.name for c in CASES))}
    says[CASES[0].name]["racecheck"] = "Race reported"
    monkeypatch.setattr(sanitizer, "asked", lambda progress: (says, ""))
    suite = sanitizer.run(False, quiet)
    assert suite.ok
    assert suite.rows[0][2] == "racecheck: Race reported" and {row[2] for row in suite.rows[1:]} == {"nothing"}
    assert "tools 1." in suite.notes[0]
