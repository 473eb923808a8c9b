"""Saved traces: what is written is read back, and other files are refused in a sentence."""

import json
import zipfile
from dataclasses import fields

import numpy as np
import pytest
from dsl import found, language
from dsl.cluster import Exchange

from cutesim.machine import scheduler
from cutesim.run import run_once
from cutesim.simulation import SCHEDULES, simulate
from cutesim.trace import FORMAT_VERSION, Trace


def of_a_cluster():
    return simulate(Exchange(), np.arange(1, 5, dtype=np.float32), np.zeros((4, 2), np.float32), values=True).trace


def of_two_launches():
    return simulate(language.two_kernels, np.arange(32, dtype=np.float32), np.zeros(32, np.float32)).trace


def with_printed_lines():
    return simulate(language.prints, np.arange(32, dtype=np.float32), np.zeros(32, np.float32)).trace


TRACES = [of_a_cluster, of_two_launches, with_printed_lines]


def saved(trace, tmp_path):
    trace.save(tmp_path / "run.trace")
    return Trace.load(tmp_path / "run.trace")


@pytest.mark.parametrize("make", TRACES)
def test_every_table_is_read_back(make, tmp_path):
    trace = make()
    again = saved(trace, tmp_path)
    for field in fields(Trace):
        before, after = getattr(trace, field.name), getattr(again, field.name)
        if isinstance(before, np.ndarray):
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)
        else:
            assert before == after, field.name
    assert len(again) == len(trace) > 0


X = np.arange(256, dtype=np.float32)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "host, tensors",
    [
        (Exchange(), [X[1:5], np.zeros((4, 2), np.float32)]),
        (found.masked_copies, [X.reshape(32, 8).T, X.reshape(32, 8).T]),
        (found.stored_and_read(False), [X[:32], X[:32], X[:1]]),
        (found.warp_number_of_whole_warps, [X[:40], np.zeros((2, 40), np.float32)]),
        (language.two_kernels, [X[:32], X[:32]]),
    ],
)
def test_warps_in_step_leave_the_trace_and_the_numbers_of_warps_apart(host, tensors, schedule, monkeypatch):
    logs, in_step = [], scheduler._in_step
    monkeypatch.setattr(scheduler, "_in_step", lambda *launch: logs.append(in_step(*launch)) or logs[-1])
    both, traces = [[x.copy("K") for x in tensors] for _ in range(2)], []
    for arrays, together in zip(both, (True, False)):
        logs.clear()
        run = run_once(host, tuple(arrays), {}, schedule=schedule, values=True, in_step=together)
        assert run.ok and all((log is not None) == together for log in logs), run
        traces.append(run.trace)
    for one, other in [*zip(*both), *([getattr(trace, name) for trace in traces] for name in ("addresses", "values"))]:
        np.testing.assert_array_equal(one, other)
    assert traces[0].events.tobytes() == traces[1].events.tobytes()
    for name in ("tensors", "lines", "launches", "calls"):
        assert getattr(traces[0], name) == getattr(traces[1], name)


# ---- other files ----------------------------------------------------------------------------------------------------


def rewritten(source, target, **changes):
    """A copy of a saved trace with some of its arrays changed, or left out where the change is None."""
    with np.load(source) as data:
        arrays = {name: data[name] for name in data.files} | changes
    with open(target, "wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def test_a_trace_of_another_version_says_so(tmp_path):
    of_two_launches().save(tmp_path / "a.npz")
    rewritten(tmp_path / "a.npz", tmp_path / "b.npz", version=np.array(FORMAT_VERSION + 1))
    rewritten(tmp_path / "a.npz", tmp_path / "c.npz", version=None)
    for name, version in (("b.npz", FORMAT_VERSION + 1), ("c.npz", 1)):
        said = rf"{name} is a trace of format {version}, .*reads format {FORMAT_VERSION}"
        with pytest.raises(ValueError, match=said):
            Trace.load(tmp_path / name)


def test_a_damaged_trace_says_so(tmp_path):
    of_a_cluster().save(tmp_path / "a.npz")
    whole = (tmp_path / "a.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as file:
        start = file.getinfo("addresses.npy").header_offset
    (tmp_path / "flipped.npz").write_bytes(whole[: start + 200] + bytes(64) + whole[start + 264 :])
    (tmp_path / "short.npz").write_bytes(whole[: len(whole) // 2])
    with np.load(tmp_path / "a.npz") as data:
        tables, events = json.loads(str(data["tables"])), data["events"]
    rewritten(tmp_path / "a.npz", tmp_path / "lines.npz", tables=np.array(json.dumps(tables | {"lines": []})))
    rewritten(tmp_path / "a.npz", tmp_path / "columns.npz", events=events[["step", "op"]])
    rewritten(tmp_path / "a.npz", tmp_path / "pickled.npz", tables=np.array(None))
    for name in ("flipped", "short", "lines", "columns", "pickled"):
        with pytest.raises(ValueError, match=f"{name}.npz is not a trace"):
            Trace.load(tmp_path / f"{name}.npz")
