"""What an adversarial reading of the simulator found, each as its smallest failing case."""

import sys

import numpy as np
import pytest
from dsl import found as k
from running import MODES, gives

from cutesim import SimulationError
from cutesim.machine import scheduler
from cutesim.simulation import simulate

LANES = np.arange(32, dtype=np.float32)


def test_conversions_to_8_bits_cut_off_what_fits():
    x = np.array([127.99, -128.99, -1.5] + [0.0] * 29, np.float32)
    out = np.zeros(32, np.int32)
    assert simulate(k.narrow, x, out).ok
    np.testing.assert_array_equal(out[:3], [127, -128, -1])
    x = np.array([255.25, -0.75, 1.5] + [0.0] * 29, np.float32)
    assert simulate(k.narrow_vector, x, out).ok
    np.testing.assert_array_equal(out[:3], [255 + 255, 0, 1 + 2])


@pytest.mark.skipif(sys.maxsize < 2**32, reason="a 32-bit machine, as a browser has, holds no such array")
@pytest.mark.parametrize("how", ["element", "row", "tile", "wide"])
def test_an_offset_beyond_32_bits_of_a_static_layout(how):
    # never touched but at its ends: the system gives no memory for the rest
    kept = np.empty(2**31 + 64, np.uint8)
    x = np.lib.stride_tricks.as_strided(kept, (3, 64), (2**30, 1))
    run = simulate(k.far_rows(how), x)
    if how == "wide":
        assert run.ok, run
    else:
        (finding,) = run.findings
        assert finding.kind == "overflow"
        assert (
            "thread 0 of block 2 computes the offset 2,147,483,648 in x, which does not fit 32 bits" in finding.message
        )
    assert simulate(k.far_rows(how), x, dynamic=True).ok


def test_lanes_that_are_off_convert_nothing():
    x = np.array([1000.0, np.nan, 200.5, 100.0] + [0.0] * 28, np.float32)
    gives(k.narrow_where_it_fits, x, wanted=[-1, -1, 200, 100] + [0] * 28, dtype=np.int32)


def test_a_warp_s_number_in_a_branch_of_whole_warps():
    wanted = np.where(np.arange(40) >= 32, 1 + 320, 0)
    wanted = [wanted, wanted + 1000 * (np.arange(40) // 32)]
    gives(k.warp_number_of_whole_warps, np.zeros(40, np.float32), wanted=wanted)


@pytest.mark.parametrize("check", [True, False])
def test_a_run_tells_the_shared_memory_of_a_block(check):
    run = simulate(k.takes_shared_memory, LANES, np.zeros(32, np.float32), check=check)
    # of two launches the most; one byte, and a gap up to the next multiple of 16
    assert run.smem_bytes == 16 + 64 * 4
    assert simulate(k.swap_registers, LANES, np.zeros(32, np.float32), check=check).smem_bytes == 0


def test_a_launch_that_starts_again_changes_and_prints_once():
    x = np.arange(64, dtype=np.float32)
    wanted = x + 2
    run = simulate(k.runs_apart, x, x, check=False)  # one array as both arguments
    np.testing.assert_array_equal(x, wanted)
    assert len(run.printed) == 64


def test_the_first_run_s_results_stay_where_unwritten_memory_reaches_them():
    out = np.zeros(32, np.float32)
    assert not simulate(k.unwritten_register, LANES, out).ok
    np.testing.assert_array_equal(out, LANES)


def test_a_sum_that_depends_on_the_order_of_atomics_is_observed_and_no_fault():
    # sums of far apart numbers round differently in each order
    x = np.float32(10.0) ** (np.arange(128) % 17 - 8)
    out = np.zeros(1, np.float32)
    run = simulate(k.atomic_sum, x, out, schedule="reverse")
    assert run.ok
    (observation,) = run.observations
    assert observation.startswith("out[0] (1 element in all) depends on the order in which warps come")
    assert observation in " ".join(str(run).split())
    whole = simulate(k.atomic_sum, np.ones(128, np.float32), np.zeros(1, np.float32), schedule="reverse")
    assert whole.ok and whole.observations == ()  # exact in any order


def test_a_run_without_findings_says_what_was_looked_for_and_never_that_it_is_right():
    """Neither a kernel whose results are wrong, nor one that is not written yet, nor one that was not checked."""
    wrong = simulate(k.atomic_sum, np.full(128, np.nan, np.float32), np.zeros(1, np.float32))
    said = "No race, out-of-bounds access, deadlock or unwritten value; results not judged here."
    assert wrong.ok and str(wrong).splitlines()[1] == said
    stub = simulate(k.does_nothing, LANES, np.zeros(32, np.float32))
    assert stub.ok
    assert str(stub).endswith("moved and exchanged nothing, so there was nothing to check.")
    text = str(simulate(k.does_nothing, LANES, np.zeros(32, np.float32), check=False))
    assert "races not looked for" in text


@pytest.mark.parametrize("read", [True, False])
def test_a_bulk_store_that_was_read_is_not_yet_written(read):
    x, out = np.arange(1, 33, dtype=np.float32), np.zeros(32, np.float32)
    again = np.zeros(1, np.float32)
    run = simulate(k.stored_and_read(read), x, out, again)
    assert (out == x).all()  # when the launch has ended
    if not read:
        assert run.ok and again[0] == 1, run
        return
    (finding,) = run.findings
    assert again[0] == 0 and finding.kind == "read before arrival"
    assert "waits until the copy has read shared memory" in finding.message


@pytest.mark.parametrize("schedule", ["forward", "reverse", "seeded"])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_block_that_waits_for_another_gives_it_a_turn(schedule, backwards):
    flags, sums = np.zeros(4, np.int32), np.zeros(4, np.int32)
    run = simulate(k.handover(backwards), flags, sums, schedule=schedule)
    assert run.ok and sums.tolist() == [0, 1, 3, 6], run
    if schedule != "seeded":
        assert bool(run.observations) == (backwards == (schedule == "forward"))
        for text in run.observations:
            assert "promised by launch(..., cooperative=True) alone" in text and "found.py:" in text
    flags[:] = sums[:] = 0
    assert not simulate(k.handover(backwards, cooperative=True), flags, sums, schedule=schedule).observations


def test_a_fast_run_falls_back_where_blocks_wait_for_each_other():
    flags, sums = np.zeros(4, np.int32), np.zeros(4, np.int32)
    simulate(k.handover(backwards=True), flags, sums, check=False)
    assert sums.tolist() == [0, 1, 3, 6]


@pytest.mark.parametrize("registers", ["", "before", "in each pass"])
def test_a_warp_that_spins_lets_the_others_run(registers):
    gives(k.flag_of_a_warp(registers), wanted=[7, 7], dtype=np.int32)
    run = simulate(k.flag_of_a_warp(registers), np.zeros(2, np.int32), orders="all", blocks=1)
    assert (run.verdict, run.tried) == ("clean", 4)


def test_what_the_kernel_ahead_never_writes_may_be_read_before_the_wait():
    def run(*choice):
        tensors = LANES.copy(), LANES + 1, np.zeros(32, np.float32), np.zeros(32, np.float32)
        return simulate(k.overlapping, *tensors, *choice), tensors[-1]

    for chain in (1, 3):
        found, out = run("", chain)
        assert found.ok, found
        np.testing.assert_array_equal(out, (LANES + 1) * 2 * LANES)
        for tensor, verb in (("y", "reads"), ("x", "writes")):
            (finding,) = run(tensor, chain)[0].findings
            assert finding.kind == "early access"
            got = f"thread 0 of block 0 {verb} {tensor} before griddepcontrol_wait"
            assert got in finding.message
            assert f"while double, which uses {tensor}, still runs" in finding.message


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "order, early, found",
    [
        # Nothing but `add` can run beside `scale`, and it leaves w alone.
        ("waits, signals", "w", False),
        ("waits", "w", False),
        ("signals, waits", "w", True),  # what writes w may still run
        ("signals alone", "w", True),
        ("waits, signals", "y", True),
    ],
)
def test_a_chain_of_kernels_that_may_all_start_early(order, early, found, check):
    x = LANES.copy()
    tensors = x, x + 2, np.zeros_like(x), np.zeros_like(x)
    if found and not check:
        with pytest.raises(SimulationError, match="Early access"):
            simulate(k.chained, *tensors, order, early, check=False)
        return
    run = simulate(k.chained, *tensors, order, early, check=check)
    assert [finding.kind for finding in run.findings] == ["early access"] * found
    if not found:
        np.testing.assert_array_equal(tensors[-1], (x + 2) * (x + 1))


def test_a_proxy_fence_lets_a_bulk_copy_write_over_what_threads_wrote():
    gives(k.overwritten(fenced=True), LANES, wanted=LANES)


def test_align_rounds_the_address_up_and_a_tensor_behind_it_says_so():
    """CuTe DSL 4.8.1 compiles (x.iterator + 1).align(16) to (x + 4 + 15) & -16."""
    out = np.zeros(32, np.float32)
    run = simulate(k.moved_by_align, LANES, out)
    (observation,) = run.observations
    np.testing.assert_array_equal(out, 4 + LANES % 4)
    assert run.ok and observation.startswith("found.py:")
    assert "align(16) moved a pointer to x up to the next multiple of 16 bytes, as it does on a GPU" in observation
    run = gives(k.boundary_by_align, LANES, wanted=12 + LANES)
    assert not run.observations  # the address is asked for, and nothing is read there


def test_asynchronous_copies_of_some_lanes_without_a_predicate():
    x, out = np.arange(256, dtype=np.float32).reshape(32, 8).T, np.full((32, 8), -1, np.float32).T
    for check in (True, False):
        out[:] = -1
        assert simulate(k.masked_copies, x, out, check=check).ok
        np.testing.assert_array_equal(out, np.where(np.arange(32) < 5, x, 0))


def test_floats_are_printed_as_the_gpu_prints_them():
    assert simulate(k.prints_pi, LANES, LANES.copy()).printed == ("3.140000\n", "3.140000 and 3\n")


def test_what_has_come_before_a_block_allocates_its_place_is_kept():
    gives(k.allocated_late, LANES, wanted=[6, 5], modes=(*MODES, {"schedule": "seeded"}))


@pytest.mark.parametrize("check", [True, False])
def test_warps_that_ask_for_more_registers_than_there_are_wait_for_ever(check):
    assert simulate(k.greedy, np.zeros(384, np.float32), 24, check=check).ok
    if not check:  # test_reports has the finding
        with pytest.raises(SimulationError, match="ask for 66,560 registers"):
            simulate(k.greedy, np.zeros(384, np.float32), 40, check=False)


@pytest.mark.parametrize("order", ["as it comes", "all"])
def test_a_search_that_stands_still_ends_in_words(order):
    x = np.zeros(256, np.float32)
    run = simulate(k.half_way, x, x.copy(), **({"orders": "all"} if order == "all" else {}))
    assert run.findings[0].kind == "deadlock" and "# here" in run.findings[0].lines[0].text


@pytest.mark.parametrize(
    "host, tensors, kind, clean",
    [
        (k.over_an_mbarrier, [LANES], "mbarrier overwritten", {"at": 1}),
        (k.elected, [np.arange(40.0, dtype=np.float32)] * 2, "divergent shuffle", {"first": 32}),
        (k.hands_on, [LANES, LANES], "language", None),
        (k.asks_for_too_little, [LANES, LANES], "shared memory", None),
        (k.divided, [np.arange(32, dtype=np.int32), LANES], "division by zero", {"least": 1}),
    ],
)
def test_what_a_gpu_leaves_undefined_is_found(host, tensors, kind, clean):
    run = lambda host: simulate(host, *(x.copy() for x in tensors))  # noqa: E731
    finding = run(host if clean is None else host(*[0 if name != "first" else 4 for name in clean])).findings[0]
    assert finding.kind == kind and "# here" in finding.lines[0].text
    assert clean is None or run(host(**clean)).ok


COUNT = np.zeros(8, np.int32)


def test_orders_say_that_relaxed_operations_have_more_of_them():
    orders = [simulate(k.passes_on(flag), COUNT.copy(), COUNT.copy(), orders="all") for flag in (0, 1)]
    said = list(map(str, orders))
    found = ["every sequentially consistent order was tried" in text for text in said]
    assert found == [False, True]


@pytest.mark.parametrize("blocks, ok", [(6, True), (7, False)])
def test_blocks_that_meet_must_fit_a_gpu_at_once(blocks, ok, monkeypatch):
    """Each takes 200,000 bytes of shared memory, so that an SM holds one; the others start once one of them has ended."""
    assert scheduler.MULTIPROCESSORS == 132
    monkeypatch.setattr(scheduler, "MULTIPROCESSORS", 6)
    run = simulate(k.gathers, COUNT.copy(), np.zeros(blocks, np.int32))
    assert run.ok == ok, run
    if not ok:
        (finding,) = run.findings
        assert finding.kind == "deadlock" and "An H100 holds 6 of the 10 blocks at a time" in finding.message


def test_the_host_neither_writes_to_a_gpu_s_memory_nor_prints_what_is_there(capsys):
    x = LANES + 100.5
    run = simulate(k.host_writes, x, x.copy(), on_device=True)
    assert [finding.kind for finding in run.findings] == ["host access"] and "# here" in run.findings[0].lines[0].text
    simulate(k.host_prints, x, x.copy(), on_device=True)
    text = capsys.readouterr().out
    assert "Float32" in text and "100.5" not in text
