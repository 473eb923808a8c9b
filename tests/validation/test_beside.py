"""Suite `beside` without a GPU: the simulator's part is the real one, what the others say is a stand-in's."""

import subprocess
import sys

import pytest

from tests.validation.stand_ins import quiet
from validation import mutation
from validation.gpu import beside, sanitizer


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    monkeypatch.setattr(mutation, "SAMPLE_CASES", ("Handover", "Mirror", "LastBlock", "AsyncCopy", "BulkCopy(32)"))


def test_the_sample_asks_the_simulator_alone():
    suite = beside.run(True, quiet)
    everything = next(row for row in suite.rows if row[0] == "all")
    assert suite.ok and suite.checked == everything[1] > 4 and suite.where is None
    assert everything[2] > 3 and "not asked" in everything
    missed = [note for note in suite.notes if note.startswith("not found by the simulator")]
    assert len(missed) == everything[1] - everything[2]


def test_what_was_said_is_kept_and_a_run_that_was_cut_off_goes_on(monkeypatch, tmp_path):
    asked = []

    def says(watcher, case_name, module="", path=""):
        asked.append(watcher)
        if "def kernel" in (open(path).read() if path else ""):
            return "a race" if watcher == "racecheck" else ""
        return "did not end in 60 s" if path and watcher == "1,000 runs" else ""

    monkeypatch.setenv("QUACK_VALIDATE_RAW", str(tmp_path))
    monkeypatch.setattr(beside, "watched", says)
    monkeypatch.setattr(beside, "EACH", 1)
    monkeypatch.setattr(sanitizer, "cannot_be_asked", lambda: "")
    whole = beside.run(False, quiet)
    everything, clean = (next(row for row in whole.rows if row[0] == name) for name in ("all", beside.UNALTERED_ROW))
    assert len(asked) == (everything[1] + clean[1]) * len(beside.WATCHERS)
    assert 0 < everything[beside.COLUMNS.index("racecheck")] == everything[-1] <= everything[1]
    assert everything[beside.COLUMNS.index("1,000 runs")] == everything[1] - everything[-1]
    assert not any(clean[5:])
    kept = (tmp_path / beside.KEPT).read_text().splitlines()
    (tmp_path / beside.KEPT).write_text("\n".join(kept[:-7]) + "\n")
    del asked[:]
    again = beside.run(False, quiet)
    assert len(asked) == 7 and again.rows == whole.rows and again.notes == whole.notes


def test_the_worker_takes_the_altered_module(tmp_path):
    altered = tmp_path / "kernels.py"
    altered.write_text("raise SystemExit('the altered one')\n")
    program = (
        "import sys; from validation.gpu.beside_worker import Altered; "
        "sys.meta_path.insert(0, Altered(*sys.argv[1:])); import validation.mutation.kernels"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "validation.mutation.kernels", altered], capture_output=True, text=True
    )
    assert done.stderr == "the altered one\n"
