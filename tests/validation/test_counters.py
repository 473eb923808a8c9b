"""Suite `counters` without a GPU: stand-ins play Nsight Compute; patterns, rules and tables are the real ones."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dsl.weights import last_of_four, weights_of_one_block

from cutesim.simulation import simulate
from cutesim.trace import Space
from tests.validation.stand_ins import quiet, stand_in
from validation import differences, outputs
from validation.gpu import access_patterns, counters

NCU_CSV = """==PROF== Connected to process 4242 (/usr/bin/python3.12)
==PROF== Profiling "kernel_0" - 0: 0%....50%....100% - 5 passes
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",\
"smsp__inst_executed_op_shared_ld.sum"
"","","","","","","","","","","","","sector","inst"
"0","4242","python3.12","127.0.0.1","kernel_0","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","1","1,004","n/a"
"1","4242","python3.12","127.0.0.1","kernel_1","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","2","8","0"
"""


def test_ncu_s_table_is_read():
    first, second = counters.parse(NCU_CSV)
    assert (first["kernel"], second["kernel"]) == ("kernel_0", "kernel_1")
    assert first["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 1004
    assert first["smsp__inst_executed_op_shared_ld.sum"] is None
    assert second["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 2


@pytest.mark.parametrize(
    "text, said, reason",
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            "",
            "may not read the GPU's counters",
        ),
        ("==PROF== Connected\n==ERROR== Failed to find metric abc", "", "==ERROR== Failed to find metric abc"),
        ("", "ImportError: no torch", "it said: ImportError: no torch"),
        ("", "", "it said: nothing"),
    ],
)
def test_without_a_table_one_sentence_says_why(text, said, reason):
    with pytest.raises(counters.NotCounted, match=reason):
        counters.parse(text, said)


def test_only_counters_that_ncu_knows_are_asked_for():
    listing = "Device NVIDIA H200 (GH100)\nl1tex__t_sectors_pipe_lsu_mem_global_op_ld  Counter  sector  # of sectors\n"
    assert counters.available(listing) == ["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    assert set(counters.available("")) == {m for q in counters.QUANTITIES for added in q.metrics for m in added}
    both = "\n".join(f"{kind}__x_{i}" for i, kind in enumerate(("l1tex", "smsp")))
    assert len(counters.available(both)) == len(counters.available(""))  # none of ours: then all are tried


def counted_as_simulated(launched):
    """Kernels as ncu would give them if both agreed."""
    kernels = []
    for _, (launches, numbers) in launched:
        kernels += [dict.fromkeys((m for q in counters.QUANTITIES for a in q.metrics for m in a), 0.0)] * (launches - 1)
        kernel = {}
        for quantity in counters.QUANTITIES:
            for added in quantity.metrics:
                kernel |= {metric: 0.0 for metric in added} | {added[0]: float(numbers[str(quantity)])}
        kernels.append(kernel)
    return kernels


def test_equal_counts_agree_and_a_different_one_is_named(monkeypatch):
    pytest.importorskip("torch")
    chosen = counters.cases(sample=True)
    launched = [(case, counters.simulated(case)) for case in chosen]
    kernels = counted_as_simulated(launched)
    monkeypatch.setattr(counters, "profile", lambda names, progress: (kernels, {}))
    suite = counters.run(True, quiet)
    assert suite.ok and suite.checked >= 4 * len(chosen) // 2
    assert sum(row[2] for row in suite.rows) == sum(row[3] for row in suite.rows) == suite.checked

    at = next(i for i, kernel in enumerate(kernels) if kernel["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"])
    kernels[at] = kernels[at] | {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 1234.0}
    (mismatch,) = counters.run(True, quiet).mismatches
    assert (
        chosen[at].name in mismatch
        and "global loads and cp.async: sectors: simulated" in mismatch
        and "counted 1234" in mismatch
    )


def test_a_case_that_was_not_launched_and_launches_too_few_are_said(monkeypatch):
    pytest.importorskip("torch")
    chosen = counters.cases(sample=True)
    kernels = counted_as_simulated([(case, counters.simulated(case)) for case in chosen])
    assert len(kernels) == len(chosen)
    refused = {chosen[0].name: "ValueError: no"}
    monkeypatch.setattr(counters, "profile", lambda names, progress: (kernels[1:], refused))
    assert counters.run(True, quiet).mismatches == (f"{chosen[0].name}: not launched: ValueError: no",)
    monkeypatch.setattr(counters, "profile", lambda names, progress: (kernels[1:], {}))
    (mismatch,) = counters.run(True, quiet).mismatches
    assert mismatch == (
        f"nothing was compared: ncu saw {len(kernels) - 1} kernel launches where {len(kernels)} were expected"
    )


def test_without_ncu_one_sentence_says_so(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(counters.shutil, "which", lambda _: None)
    suite = counters.run(True, quiet)
    assert suite.mismatches == ("nothing was compared: Nsight Compute's ncu is not on the PATH",) and not suite.checked


NCU = """
if args == ["--query-metrics"]:
    print("l1tex__t_sectors_pipe_lsu_mem_global_op_ld  Counter  sector  sectors of loads")
    sys.exit()
names = json.load(open(args[-1]))
header = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", args[args.index("--metrics") + 1]]
with open(args[args.index("--log-file") + 1], "w") as file:
    print("==PROF== Connected", file=file)
    for row in [header, [""] * 6] + [[i, 1, "python", "here", "k", i + 5] for i in range(len(names))]:
        print(",".join(f'"{cell}"' for cell in row), file=file)
assert "--csv" in args and args[-4:-1] == ["-m", "validation.gpu.worker", "profiled"]
"""


def test_ncu_is_run_once_and_its_table_read(monkeypatch, tmp_path):
    stand_in(monkeypatch, tmp_path, "ncu", NCU)
    kernels, refused = counters.profile(["a", "b"], quiet)
    assert [kernel["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] for kernel in kernels] == [5, 6]
    assert refused == {}


def test_a_command_that_hangs_is_ended():
    with pytest.raises(counters.NotCounted, match="did not end in 1 seconds"):
        counters._output([sys.executable, "-c", "import time; time.sleep(60)"], 1)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_cp_async_patterns_write_zeros_for_idle_lanes(width):
    pattern = access_patterns.Pattern(width, read=access_patterns.IN_ORDER, below=17)
    x, out, *rest = access_patterns.arguments(pattern, True)
    run = simulate(access_patterns.AsyncPattern(width, fills=True), x, out, *rest)
    count = len(x) // 32
    assert run.ok and (out == np.where(np.arange(len(x)) < 17 * count, x, 0)).all()
    assert counters.counted(run.trace)["shared cp.async: wavefronts"] == width // 4


RECORDED = json.loads(Path(__file__).with_name("counters_h200.json").read_text())


def test_every_pattern_counts_what_nsight_compute_counted_on_an_h200():
    pytest.importorskip("torch")
    by_name = {case.name: case for case in counters.cases()}
    assert len(RECORDED["patterns"]) > 150
    wrong = []
    for name, numbers in RECORDED["patterns"].items():
        mine = {quantity: number for quantity, number in counters.simulated(by_name[name])[1].items() if number}
        wrong += [f"{name}: {mine} against {numbers}"] if mine != numbers else []
    assert not wrong, "\n".join(wrong)


# What ncu counted of two kernels whose accesses the compiler changed, on the same H200: (case, quantity, number, rule)
CHANGED = [
    ("softmax, online, float32, 5 x 257", "shared loads: requests", 40, differences.MERGED),
    ("softmax, online, float32, 5 x 257", "shared stores: wavefronts", 40, differences.MERGED),
    ("softmax, online, float32, 5 x 257", "shared stores: wavefronts", 41, ""),
    ("copy, cp.async, float32, 5 x 257", "shared loads: wavefronts", 73, differences.LEFT_OUT),
    ("copy, cp.async, float32, 5 x 257", "shared loads: wavefronts", 59, ""),
    ("copy, cp.async, float32, 5 x 257", "shared loads: wavefronts", 97, ""),
    ("copy, cp.async, float32, 5 x 257", "shared loads: requests", 154, differences.EMPTY),
    ("copy, cp.async, float32, 5 x 257", "shared loads: requests", 169, ""),
    ("copy, cp.async, float32, 5 x 257", "global stores: sectors", 190, ""),
]
COUNTED = 16, 256, 1, 4, 1, 1, 0  # the configuration that was counted
LOSS = "cross-entropy, float32, 5 x 257"
CHANGED += [
    ("softmax, online, float32, 5 x 257", "shared loads: wavefronts", 81, ""),
    # Warps without a row load a target's logit for nothing.
    (LOSS, "global loads and cp.async: requests", 51, differences.LEFT_OUT),
    (LOSS, "global loads and cp.async: sectors", 377, differences.LEFT_OUT),
    (LOSS, "global loads and cp.async: requests", 25, ""),  # each row's logits and all targets are needed
    (LOSS, "global loads and cp.async: requests", 57, ""),
    # A maximum ignores NaN, but these loads are needed.
    ("softmax, three-pass, float32, 5 x 257", "global loads and cp.async: requests", 134, ""),
]
PTX = "ld.shared.v2.b32 {%r1, %r2}, [%r3];\nst.shared.v2.f32 [%r3], {%f1, %f2};"


@pytest.mark.parametrize("name, quantity, number, rule", CHANGED)
def test_differences_are_explained_by_rules_alone(name, quantity, number, rule):
    pytest.importorskip("torch")
    case = next(case for case in counters.package_cases() if case.name == name)
    if name == LOSS:
        case = replace(case, host=counted_loss())
    wanted = next(q for q in counters.QUANTITIES if str(q) == quantity)
    simulated = counters.simulated(case)[1][quantity]
    comparison = counters.Comparison(case, wanted, simulated, number, ("x",))
    assert differences.Rules(case, counters.counted, ptx=lambda case: PTX).explain(comparison) == rule
    if rule == differences.MERGED:  # not where the compiler has no such access
        assert differences.Rules(case, counters.counted, ptx=lambda case: "ld.shared.f32").explain(comparison) == ""


def counted_loss():
    """The kernel of `LOSS` as it was when an H200 counted it, whatever ships now."""
    from quack_tutorial.kernels.tuned import cross_entropy
    from quack_tutorial.kernels.tuned.config import Config

    return cross_entropy.CrossEntropy(
        cross_entropy.cutlass.Float32,
        257,
        promise="congruent",
        lse=True,
        config=Config(*COUNTED[:3], vectors_at_once=COUNTED[3]),
    )


def test_widths_in_ptx():
    text = "ld.shared::cta.v4.b32 {..};\nld.global.nc.L1::no_allocate.v2.b64 {..};\nst.global.b16 [%rd1], %rs1;"
    assert differences.ptx_widths(text, "load", Space.SMEM) == {16}
    assert differences.ptx_widths(text, "load", Space.GMEM) == {16}
    assert differences.ptx_widths(text, "store", Space.GMEM) == {2}


def test_loads_that_change_no_output_of_their_block_can_be_left_out():
    """Three of four blocks load weights and store nothing that depends on them."""
    x, out = np.arange(64, dtype=np.float32), np.zeros((4, 32), np.float32)
    case = outputs.Trial("weights", "weights", weights_of_one_block, lambda: (x.copy(), out.copy()))
    trace = simulate(case.host, *case.arguments()).trace
    assert counters.counted(trace)["global loads and cp.async: requests"] == 4
    assert counters.counted(differences.needed(case, trace))["global loads and cp.async: requests"] == 1


def test_a_load_is_needed_wherever_in_a_vector_its_value_is_stored():
    x, out = np.arange(32, dtype=np.float32), np.zeros(128, np.float32)
    case = outputs.Trial("vector", "vector", last_of_four, lambda: (x.copy(), out.copy()))
    run = simulate(case.host, *(arguments := case.arguments()))
    assert run.ok and (arguments[1].reshape(32, 4)[:, 3] == x).all()
    found = [counters.counted(trace) for trace in (run.trace, differences.needed(case, run.trace))]
    assert [numbers["global stores: requests"] for numbers in found] == [1, 1]  # one vector a thread
    assert [numbers["global loads and cp.async: requests"] for numbers in found] == [1, 1]
