"""What a notebook's cell asks in one line: check, answer, time, recorded; and the dynamic way to launch."""

import re
import sys
from types import SimpleNamespace as Namespace

import numpy as np
import pytest

import quack_tutorial as qt
from quack_tutorial import notebook
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.records import folder


def test_check_says_right_with_the_largest_error(capsys):
    wanted = np.array([1.0, 2.0, np.nan], np.float64)
    assert qt.check((wanted + 1e-6).astype(np.float32), wanted)
    assert capsys.readouterr().out.startswith("Right: all 3 numbers; largest error ")


def test_check_names_the_worst_place(capsys):
    result = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = result.astype(np.float64).copy()
    wanted[1, 2], wanted[0, 1] = 7.0, 1.5
    assert not qt.check(result, wanted)
    assert capsys.readouterr().out == "Wrong: 2 of 6 numbers differ. The largest error is at (1, 2): 5 instead of 7.\n"


def test_check_is_exact_for_integers_and_takes_a_tolerance(capsys):
    assert not qt.check(np.array([3]), np.array([4]))
    assert qt.check(np.array([3.0]), np.array([4.0]), tolerance=1.0)
    assert not qt.check(np.zeros(2, np.float32), np.array([0.0, np.nan]))
    assert not qt.check(np.zeros(2), np.zeros(3))
    assert "the result has shape (2,) instead of (3,)" in capsys.readouterr().out


def test_check_takes_torch_tensors():
    torch = pytest.importorskip("torch")
    assert qt.check(torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.float64) * 1.004)


def test_judge_names_the_lengths_or_the_first_that_is_wrong(capsys):
    clean, twos = Namespace(ok=True), (np.ones(2), np.ones(2))
    assert qt.judge(lambda N: (clean, *twos), [1, 1, 1024]) and notebook.VERDICTS[-1] == {"of": "judge", "right": True}
    assert qt.judge(lambda M, N: (clean, *twos), [(3, 7)], of="tile")
    assert capsys.readouterr().out == "right for N = 1 and 1,024\nright for tile = 3 x 7\n"
    for given, says in (
        (
            (clean, np.array([1, 3, 9]), np.array([1, 2, 3])),
            "2 of 3 numbers differ. The first is at (1,): 3 instead of 2.",
        ),
        ((clean, np.zeros(77), np.ones(77)), "all 77 numbers differ."),
        ((clean, *twos, 0, "a row is read twice."), "a row is read twice."),
        ((Namespace(ok=False), *twos), "see what the simulator found."),
        ((None, *twos), "the run is None"),
    ):
        assert not qt.judge(lambda N: given if N == 5 else (clean, *twos), [1, 5])  # noqa: B023
        assert " ".join(capsys.readouterr().out.split()).startswith(f"not yet: for N = 5, {says}")


@pytest.mark.parametrize(("step", "most"), [(1, 500), (1, 5), (128, 1024), (64, 512)])
def test_lengths_of_all_kinds_are_drawn(step, most):
    drawn = [qt.lengths(step, most) for _ in range(30)]
    for lengths in drawn:
        assert lengths[0] == step and not any(N % step for N in lengths)
        assert any(N > step and N // step % 2 for N in lengths) and any(N // step % 2 == 0 for N in lengths)
        assert [N for N in lengths if N > most] == [N for N in lengths if 2 * most <= N <= 3 * most] != []
    assert most // step < 8 or len(set(map(tuple, drawn))) > 1
    assert (qt.drawn(9, 9) != qt.drawn(9, 9)).any() and (abs(abs(qt.drawn(9, 1, shift=2000)) - 2000) <= 999).all()


def test_pairs_of_lengths_have_each_of_them():
    for rows, columns in (([1, 2, 3], [4, 5]), ([1, 2], [4, 5, 6, 7]), ([1], [2])):
        pairs = qt.shapes(rows, columns)
        assert {M for M, _ in pairs} == set(rows) and {N for _, N in pairs} == set(columns)
        assert len(pairs) == max(len(rows), len(columns))


def test_a_run_says_whose_name_it_was_asked_for():
    from quack_tutorial.kernels.softmax import SoftmaxThreePass

    x = np.broadcast_to(np.arange(2, dtype=np.float32)[:, None], (2, 64))  # which cannot be written
    run = qt.simulate(SoftmaxThreePass(), x, out := np.zeros((2, 64), np.float32))
    assert run.ok and (out == 1 / 64).all()
    with pytest.raises(AttributeError, match=r"a run has no events; its trace has: write .trace behind the run$"):
        qt.analysis.sectors_per_request(run)
    with pytest.raises(AttributeError, match="a run has no oks$"):
        run.oks  # noqa: B018
    run = qt.simulate(SoftmaxThreePass(), x, out, check=False)
    with pytest.raises(ValueError, match=r"^this run has no trace, because check=False records none: simulate again"):
        qt.analysis.sectors_per_request(run.trace)
    for blocks in (0, 1.5, "all"):
        with pytest.raises(ValueError, match="it is how many blocks of each launch are simulated"):
            qt.simulate(SoftmaxThreePass(), x, out, blocks=blocks)


@pytest.mark.parametrize("wrong", [("int8", 1024), ("float32", "1024"), ("float32", 0), ("float32", 1024, 1.5)])
def test_what_no_record_can_hold_is_refused(wrong):
    with pytest.raises(ValueError, match="dtype 'int8' is not one of|N and M are whole numbers of at least 1, got N="):
        qt.recorded("softmax", *wrong)


def test_an_answer_says_what_is_missing():
    asked = {"shuffles a warp": None, "from: L1 | L2": None}
    assert str(qt.answer(asked, 7, "L1")).splitlines()[-2:] == ["shuffles a warp: 7.", "from: L1."]
    assert str(qt.answer(asked, 7, "L1")).startswith("No guess yet: ")
    half = qt.answer(asked | {"shuffles a warp": 5}, 7, "L1")
    assert str(half).splitlines() == ["shuffles a warp: you said 5, it is 7: off.", "from: no guess; it is L1."]
    assert half.verdicts == ("off", "")


def test_an_answer_shows_words_side_by_side_and_numbers_in_three_digits():
    answer = qt.answer({"what": "zeros", "GB/s": 4000, "us": "two"}, "stale words", 4461.3, 0.12345)
    assert str(answer).splitlines()[:3] == [
        "what: you said: zeros; the answer: stale words.",
        "GB/s: you said 4,000, it is 4,461: near.",
        "us: 'two' is not a number; it is 0.123.",
    ]
    assert qt.answer({"GB/s": 4300}, np.float32(4461.3)).verdicts == ("right",)
    assert qt.answer({"GB/s": 9000}, 4461.3).verdicts == ("off",)
    assert qt.answer({"GB/s": 10**400}, 4461.3).verdicts == ("off",)
    assert qt.answer({"GB/s": 9000}, 4461.3, near=1.1).verdicts == ("near",)


def test_an_answer_takes_a_guess_that_lost_its_labels():
    assert str(qt.answer(7, 7)) == "you said 7, it is 7: right."
    assert qt.answer((7, 5), 7, 4).verdicts == ("right", "near")
    assert qt.answer(None, 7, 4).verdicts == ("", "")


def test_a_choice_takes_its_number_and_names_the_choices_for_any_other_word():
    asked = {"N: 1,024 | 4,096": 4096}
    assert qt.answer(asked, "4,096").verdicts == ("right",) and qt.answer(asked, "1,024").verdicts == ("off",)
    assert str(qt.answer({"from: L1 | L2": "HBM"}, "L1")) == "from: 'HBM' is not one of L1 | L2; it is L1."


@pytest.mark.parametrize(
    ("guess", "values", "told"),
    [
        ({"a": None, "b": None}, (1,), "a prediction of 1 values, and the guess that was run last has 2"),
        ({"from: L1 | L2": None}, ("HBM",), "'HBM' is not one of the choices of the guess that was run last, L1 | L2"),
    ],
)
def test_a_guess_of_another_question_gets_one_sentence(guess, values, told):
    with pytest.raises(ValueError, match=re.escape(told)) as found:
        qt.answer(guess, *values)
    shown = " ".join(found.value._render_traceback_())
    assert shown == str(found.value) and "Run the cell with this prediction's guess" in shown


def test_a_timing_reads_as_a_sentence():
    untimed = qt.time(None, np.zeros(4))
    assert not untimed and "not on a GPU" in str(untimed)

    def told(us, **other):
        given = {"us": us, "nbytes": 400_000_000, "copy_gb_s": 4200.0, "device": "NVIDIA H200", "datasheet_gb_s": None}
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
    assert speeds.names == tuple(version for version in OPERATIONS["softmax"].ladder if version in measured)
    for result in cell["results"]:
        speed = speeds[result["provider"]]
        assert (speed.gb_s, speed.of_copy) == (result["gb_s"], result["fraction_of_ceiling"])
        assert speed.us == sorted(result["samples_us"])[len(result["samples_us"]) // 2]
    assert data["device"] in str(speeds) and "three-pass" in str(speeds)
    with pytest.raises(
        KeyError, match="'fourth' is not recorded for softmax float32 32768 x 4096; there are thread, warp"
    ):
        speeds["fourth"]


def test_each_line_names_whose_share_it_is():
    reads = str(qt.recorded("cross-entropy", "float32", N=8192, ladder=True)).splitlines()
    assert reads[0] == "cross-entropy float32 32768 x 8192, beside the best read of the same size"
    assert reads[1].startswith("two-pass ") and "% of the best read " in reads[1] and reads[1].endswith(" of the peak")
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
    assert capsys.readouterr().out == "" and not lacking and "1234: not measured on an H100 yet." in str(lacking)


@pytest.mark.parametrize(
    ("call", "others", "reads"),
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
    assert loss.ruler == "read" and loss.of_ruler == pytest.approx(0.95) and loss.of_copy == pytest.approx(1.4)
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
    assert spec.align == 16  # the address's alignment or the rows' distance of 48 bytes, whichever is less
