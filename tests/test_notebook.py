"""What a notebook's cell asks in one line: check, answer, time, recorded; and the dynamic way to launch."""

import sys
from pathlib import Path
from types import SimpleNamespace as Namespace

import numpy as np
import pytest

import quack_tutorial as qt
from quack_tutorial import notebook
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import folder
from tests.transcripts import played


def test_what_a_cell_is_told_of_its_numbers_and_guesses(snapshot):
    file = Path(__file__).with_name("answers.txt")
    snapshot(played(file), file)


def test_check_takes_torch_tensors():
    torch = pytest.importorskip("torch")
    assert qt.check(torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.float64) * 1.004)


@pytest.mark.parametrize("step, most", [(1, 500), (1, 5), (128, 1024), (64, 512)])
def test_lengths_of_all_kinds_are_drawn(step, most):
    drawn = [qt.lengths(step, most) for _ in range(30)]
    for lengths in drawn:
        assert lengths[0] == step and not any(N % step for N in lengths)
        assert any(N > step and N // step % 2 for N in lengths)
        assert any(N // step % 2 == 0 for N in lengths)
        found = [N for N in lengths if N > most]
        assert found == [N for N in lengths if 2 * most <= N <= 3 * most] != []
    assert most // step < 8 or len(set(map(tuple, drawn))) > 1
    assert (qt.drawn(9, 9) != qt.drawn(9, 9)).any()
    assert (abs(abs(qt.drawn(9, 1, shift=2000)) - 2000) <= 999).all()


def test_pairs_of_lengths_have_each_of_them():
    for rows, columns in (([1, 2, 3], [4, 5]), ([1, 2], [4, 5, 6, 7]), ([1], [2])):
        pairs = qt.shapes(rows, columns)
        assert {M for M, _ in pairs} == set(rows) and {N for _, N in pairs} == set(columns)
        assert len(pairs) == max(len(rows), len(columns))


def test_a_timing_reads_as_a_sentence():
    untimed = qt.time(None, np.zeros(4))
    assert not untimed and "not on a GPU" in str(untimed)

    def told(us, **other):
        given = {"us": us, "nbytes": 400_000_000, "copy_gb_s": 4200.0}
        given |= {"device": "NVIDIA H200", "datasheet_gb_s": None}
        timing = notebook.Timing(**given | other)
        return timing, " ".join(str(timing).split())

    timing, said = told(100.0, datasheet_gb_s=4800)
    assert timing.gb_s == 4000 and abs(timing.of_copy - 0.952) < 1e-3
    assert "100.0 us on this NVIDIA H200: 4,000 GB/s, 95% of a plain copy here and 83% of" in said
    assert "each launch was a call of the host's" in told(100.0, in_graph=False)[1]
    for us, impossible in ((98.0, False), (20.0, True)):  # which no memory allows
        said = told(us, copy_gb_s=4000.0)[1]
        assert ("moves fewer than the 400,000,000" in said) == impossible == ("%" not in said)


def test_recorded_speeds_are_the_records():
    import json

    data = json.loads((folder() / "bench/softmax-ladder.json").read_text())
    cell = next(c for c in data["cells"] if (c["dtype"], c["N"]) == ("float32", 4096))
    speeds = qt.recorded("softmax", "float32", N=4096, ladder=True)
    measured = {result["provider"] for result in cell["results"] if result["status"] == "ok"}
    every = OPERATIONS["softmax"].ladder
    assert speeds.names == tuple(version for version in every if version in measured)
    for result in cell["results"]:
        speed = speeds[result["provider"]]
        assert (speed.gb_s, speed.of_copy) == (result["gb_s"], result["fraction_of_ceiling"])
        assert speed.us == sorted(result["samples_us"])[len(result["samples_us"]) // 2]
    assert data["device"] in str(speeds) and "three-pass" in str(speeds)
    said = "'fourth' is not recorded for softmax float32 32768 x 4096; there are thread, warp"
    with pytest.raises(KeyError, match=said):
        speeds["fourth"]


def test_each_line_names_whose_share_it_is():
    reads = str(qt.recorded("cross-entropy", "float32", N=8192, ladder=True)).splitlines()
    assert reads[0] == "cross-entropy float32 32768 x 8192, beside the best read of the same size"
    assert reads[1].startswith("two-pass ") and "% of the best read " in reads[1]
    assert reads[1].endswith(" of the peak")
    assert "% of the best copy" in str(qt.recorded("softmax", "float32", N=4096)).splitlines()[1]
    assert max(map(len, reads)) <= notebook.WIDTH


def test_what_was_not_measured_is_named_in_one_line_at_the_end(capsys):
    cells = {f"N = {N:6}": qt.recorded("softmax", "float32", N=N) for N in (1234, 4096, 12346)}
    qt.print_shares(cells, "ours", "another")
    ours = cells["N =   4096"]["ours"].of_copy
    assert capsys.readouterr().out.splitlines() == [
        f"N =   4096: ours {ours:.0%} of the best copy",
        "Not measured on an H100 yet: N = 1234; N = 12346.",
    ]
    qt.print_lacking([])
    lacking = cells["N =   1234"]
    assert capsys.readouterr().out == "" and not lacking
    assert "1234: not measured on an H100 yet." in str(lacking)


@pytest.mark.parametrize(
    "call, others, reads",
    [
        (lambda x, y, n: y.copy_(x.sum()), (1,), True),  # a loss
        (lambda x, y, n: x.fill_(1), (1,), False),  # the large one is what it writes
        (lambda x, y, n: y.copy_(x), (1000,), False),
        (lambda x, y, n: y.copy_(x[:100]), (100,), False),  # a tenth
        (lambda x, y, n: y.copy_(x[:99]), (99,), True),
    ],
)
def test_a_kernel_that_hardly_writes_is_compared_with_a_read(call, others, reads):
    torch = pytest.importorskip("torch")
    x = torch.arange(1000.0)
    x[3] = float("nan")  # which is not equal to itself
    assert notebook._hardly_writes(call, (x, torch.zeros(*others), 5)) == reads


def test_the_time_of_a_loss_is_set_beside_reads(monkeypatch):
    """On a faked GPU, where a launch takes what is said of it."""
    torch = pytest.importorskip("torch")
    from quack_tutorial import compiler, timing

    class OnGpu(torch.Tensor):
        is_cuda = property(lambda self: True)

    plain = Namespace(plain=lambda pattern, *shape: lambda x: x[:1])
    gpu = Namespace(name="NVIDIA H100 80GB HBM3", L2_cache_size=1 << 10)
    took = {"kernel": 10.0, "copy": 14.0, "copying kernel": 15.0, "read": 9.5}
    monkeypatch.setitem(sys.modules, "quack_tutorial.plain_kernels", plain)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    monkeypatch.setattr(compiler, "gpu_problem", lambda: None)
    monkeypatch.setattr(compiler, "compile_for", lambda kernel, *args: kernel)
    monkeypatch.setattr(timing, "capture", lambda call, slots, launches: slots)
    monkeypatch.setattr(
        timing, "interleaved_us", lambda replays, rounds: {name: [took[name.split(" (")[0]]] * 7 for name in replays}
    )
    x, out = torch.zeros(9500).as_subclass(OnGpu), torch.zeros(500).as_subclass(OnGpu)
    loss = qt.time(lambda x, out: out.add_(x.sum()), x, out)
    assert loss.ruler == "read" and loss.of_ruler == pytest.approx(0.95)
    assert loss.of_copy == pytest.approx(1.4)
    copy = qt.time(lambda x, y: y.copy_(x), x, x.clone())
    assert copy.ruler == "copy" and copy.of_ruler == pytest.approx(1.4)


def test_a_loss_as_fast_as_a_read_is_no_impossible_speed():
    timing = notebook.Timing(100.0, 465_700_000, copy_gb_s=4329.0, device="H200", datasheet_gb_s=4800, read_gb_s=4680.0)
    assert timing.ruler == "read" and timing.of_copy > notebook.MOST_OF_RULER
    assert "100% of a plain read here and 97% of the datasheet's" in " ".join(str(timing).split())
    with pytest.raises(ValueError, match="operation 'sofmax' is not one of copy, softmax"):
        qt.recorded("sofmax", "float32", N=4096)


def test_launch_with_sizes_that_are_known_as_it_runs():
    pytest.importorskip("torch")
    from quack_tutorial.kernels.softmax import SoftmaxOnline

    x = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    out = np.empty_like(x)
    qt.launch(SoftmaxOnline(64), x, out, dynamic=True)
    assert qt.reference.softmax_error(x, out, "float32") <= 1


def test_a_dynamic_spec_keeps_what_the_dsl_keeps():
    torch = pytest.importorskip("torch")
    from quack_tutorial import compiler

    x = torch.zeros(4, 12)[:, :9]
    spec = compiler.dynamic_spec_of(x, "t0")
    assert (spec.shape, spec.stride) == (("t0_size0", "t0_size1"), ("t0_stride0", 1))
    # the address's alignment or the rows' distance of 48 bytes, whichever is less
    assert spec.align == 16
