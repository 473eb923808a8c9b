"""The suites that need a GPU, as far as they go without one: the simulator's side, and what is made of the tools' output.

| section     | suite, and what is played by stand-ins                                                   |
|-------------|------------------------------------------------------------------------------------------|
| device      | `device`: the process that runs kernels on the GPU                                       |
| counters    | `counters`: Nsight Compute and its tables                                                |
| seeded bugs | `sanitizer`: compute-sanitizer and its words; the simulator's part is the real one       |
"""

import dataclasses
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from quack_tutorial.simulator import simulate
from quack_tutorial.simulator.trace import Space
from quack_tutorial.validate import (
    access_patterns,
    counters,
    differences,
    language_kernels,
    sanitizer,
    seeded_bugs,
    workers,
)
from tests.simulator.dsl.weights import weights_of_one_block


def quiet(_):
    """Progress that nobody watches."""


# ---- device ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", language_kernels.KERNELS, ids=lambda kernel: kernel.about)
def test_the_simulator_gives_numpy_s_bits(kernel):
    x, out = kernel.arrays()
    assert simulate(kernel.host, x, out).ok
    assert (out.view(np.int32) == np.ascontiguousarray(kernel.answer(x)).view(np.int32)).all()


@pytest.fixture
def device(monkeypatch):
    """The suite with the simulator in the GPU's place."""
    pytest.importorskip("torch")
    from quack_tutorial.validate import device

    monkeypatch.setattr(device, "on_the_gpu", device.simulated)
    return device


def test_what_agrees_is_a_table_without_mismatches(device):
    suite = device.run(True, quiet)
    assert suite.ok, suite
    assert suite.checked == len(language_kernels.KERNELS) + len(device_trials(sample=True))
    first = suite.rows[0]
    assert first[:3] == ("the language, one warp or cluster",) + (len(language_kernels.KERNELS),) * 2
    assert first[4:] == ("100.0 %", "exact", "exact")
    assert any(row[5] not in ("exact", "0.00") for row in suite.rows), "no kernel's error was measured"


def test_processes_share_the_kernels_and_one_that_hangs_is_a_mismatch(device, monkeypatch):
    wanted = device.jobs(True)

    lines = [json.loads(json.dumps(dataclasses.asdict(compare(given)))) for _, _, compare, given in wanted]
    lines[3] = {"failed": "did not come back"}

    def results(command, jobs, each_s):
        return ((number, lines[number]) for number in jobs)

    monkeypatch.setattr(workers, "results", results)
    suite = device.run(True, quiet, processes=2)
    assert suite.mismatches == (f"{wanted[3][1]}: did not come back",)
    assert [row[0] for row in suite.rows] == list(dict.fromkeys(job[0] for job in wanted))
    assert sum(row[2] for row in suite.rows) == len(wanted) - 1


def test_without_a_gpu_no_worker_starts_and_the_suite_says_so(device):
    from quack_tutorial import compiler

    if not compiler.gpu_problem():
        pytest.skip("this is what a machine without a GPU says, and here is one")
    (mismatch,) = device.run(True, quiet, processes=2).mismatches
    assert mismatch.startswith("nothing was compared: no worker could start")


def device_trials(sample):
    from quack_tutorial.validate import trials

    return trials.trials(sample)


@pytest.mark.parametrize("family, said", [("softmax", "times the tolerance"), ("copy, vectors", "not the right bits")])
def test_a_wrong_output_of_the_gpu_is_a_mismatch(device, monkeypatch, family, said):
    def wrong(host, arguments):
        arguments = device.simulated(host, arguments)
        arguments[1][2, 5] += 1
        return arguments

    trial = next(t for t in device_trials(sample=False) if t.family == family and "float32, 5 x 1000" in t.name)
    assert device.compared(trial).ok
    monkeypatch.setattr(device, "on_the_gpu", wrong)
    result = device.compared(trial)
    assert result.different == 1
    assert len(result.problems) == 1 and said in result.problems[0] and "the GPU" in result.problems[0]


def test_an_output_left_unwritten_is_a_mismatch(device, monkeypatch):
    monkeypatch.setattr(device, "on_the_gpu", lambda host, arguments: list(arguments))
    for trial in device_trials(sample=True):
        assert not device.compared(trial).ok, trial.name
    assert not any(device.language(kernel).ok for kernel in language_kernels.KERNELS)


def test_a_kernel_that_cannot_be_launched_is_a_mismatch_of_its_own(device, monkeypatch):
    def refuses(host, arguments):
        if host is language_kernels.helper:
            raise RuntimeError("no")
        return device.simulated(host, arguments)

    monkeypatch.setattr(device, "on_the_gpu", refuses)
    assert device.run(True, quiet).mismatches == ("a helper function: RuntimeError: no",)


def test_every_trial_is_right_on_the_simulator(device):
    wrong = [problem for trial in device_trials(sample=False) for problem in device.compared(trial).problems]
    assert not wrong, "\n".join(wrong)


def test_views_keep_their_alignment_on_the_way_to_the_gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    from quack_tutorial.validate import device

    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    x = torch.arange(40.0)[3:35].view(4, 8)[:, :5]
    (moved,) = device.on_gpu([x])
    assert torch.equal(moved, x) and moved.data_ptr() != x.data_ptr()
    assert (moved.storage_offset(), moved.stride()) == (3, (8, 1))
    assert device.on_gpu([None, 3]) == [None, 3]


# ---- counters -------------------------------------------------------------------------------------------------------

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


def stand_in(monkeypatch, folder, name, source):
    """Puts a Python script on the PATH under the name of one of NVIDIA's tools."""
    script = folder / name
    script.write_text(f"#!{sys.executable}\nimport json, os, sys\nargs = sys.argv[1:]\n{source}")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return script


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
assert "--csv" in args and args[-3:-1] == ["-m", "quack_tutorial.validate.counters_worker"]
"""


def test_ncu_is_run_once_and_its_table_kept(monkeypatch, tmp_path):
    stand_in(monkeypatch, tmp_path, "ncu", NCU)
    monkeypatch.setenv("QUACK_VALIDATE_RAW", str(tmp_path / "kept"))
    kernels, refused = counters.profile(["a", "b"], quiet)
    assert [kernel["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] for kernel in kernels] == [5, 6]
    assert refused == {}
    assert counters.parse((tmp_path / "kept" / "counters-ncu.csv").read_text()) == kernels


def test_a_command_that_hangs_is_ended():
    with pytest.raises(counters.NotCounted, match="did not end in 1 seconds"):
        counters._output([sys.executable, "-c", "import time; time.sleep(60)"], 1)


def numbers(kernel, pattern, shared):
    """{quantity: number} of one pattern."""
    trace = simulate(kernel(pattern.width), *access_patterns.arguments(pattern, shared)).trace
    return counters.counted(trace)


@pytest.mark.parametrize(
    "pattern, sectors",
    [
        (dict(width=4), 4),  # 128 bytes in a row
        (dict(width=4, start=1), 5),
        (dict(width=4, stride=2), 8),
        (dict(width=4, stride=8), 32),
        (dict(width=16), 16),
        (dict(width=16, start=1), 17),
        (dict(width=4, below=17), 3),
        (dict(width=16, every=4), 8),
        (dict(width=2, stride=16), 32),
    ],
)
def test_patterns_touch_the_sectors_counted_by_hand(pattern, sectors):
    found = numbers(access_patterns.GlobalPattern, access_patterns.Pattern(**pattern), shared=False)
    assert (found["global loads and cp.async: requests"], found["global stores: requests"]) == (1, 1)
    assert (found["global loads and cp.async: sectors"], found["global stores: sectors"]) == (sectors, sectors)


@pytest.mark.parametrize(
    "pattern, stored, loaded",
    [
        (dict(width=4), 1, 1),
        (dict(width=4, stride=2), 2, 2),
        (dict(width=4, stride=33), 1, 1),
        (dict(width=4, stride=32), 32, 32),
        (dict(width=4, stride=32, read=access_patterns.PAIRS), 32, 16),
        (dict(width=4, stride=32, read=access_patterns.ALL_THE_SAME), 32, 1),
    ],
)
def test_patterns_need_the_wavefronts_counted_by_hand(pattern, stored, loaded):
    found = numbers(access_patterns.SharedPattern, access_patterns.Pattern(**pattern), shared=True)
    assert (found["shared stores: wavefronts"], found["shared loads: wavefronts"]) == (stored, loaded)


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
# The same of a kernel with bulk copies, in two runs; then numbers too far away, too small, and of other things.
BULK = "rmsnorm backward, bfloat16, 5 x 4096"
CHANGED += [
    (BULK, "shared loads: wavefronts", 1369, differences.BULK),
    (BULK, "shared loads: wavefronts", 1373, differences.BULK),
    (BULK, "shared loads: wavefronts", 1388, ""),
    (BULK, "shared stores: wavefronts", 10_000, ""),
    (BULK, "shared loads: requests", 401, ""),
    (BULK, "global loads and cp.async: sectors", 1000_000, ""),
    ("softmax, online, float32, 5 x 257", "shared loads: wavefronts", 81, ""),
]
PTX = "ld.shared.v2.b32 {%r1, %r2}, [%r3];\nst.shared.v2.f32 [%r3], {%f1, %f2};"


@pytest.mark.parametrize("name, quantity, number, rule", CHANGED)
def test_differences_are_explained_by_rules_alone(name, quantity, number, rule):
    pytest.importorskip("torch")
    case = next(case for case in counters.package_cases() if case.name == name)
    wanted = next(q for q in counters.QUANTITIES if str(q) == quantity)
    simulated = counters.simulated(case)[1][quantity]
    comparison = counters.Comparison(case, wanted, simulated, number, ("x",))
    assert differences.Rules(case, counters.counted, ptx=lambda case: PTX).explain(comparison) == rule
    if rule == differences.MERGED:  # not where the compiler has no such access
        assert differences.Rules(case, counters.counted, ptx=lambda case: "ld.shared.f32").explain(comparison) == ""


def test_widths_in_ptx():
    text = "ld.shared::cta.v4.b32 {..};\nld.global.nc.L1::no_allocate.v2.b64 {..};\nst.global.b16 [%rd1], %rs1;"
    assert differences.ptx_widths(text, "ld", Space.SMEM) == {16}
    assert differences.ptx_widths(text, "ld", Space.GMEM) == {16}
    assert differences.ptx_widths(text, "st", Space.GMEM) == {2}


def test_loads_that_change_no_output_of_their_block_can_be_left_out():
    """Three of four blocks load weights and store nothing that depends on them."""
    x, out = np.arange(64, dtype=np.float32), np.zeros((4, 32), np.float32)
    case = counters.Case("weights", "weights", weights_of_one_block, lambda: (x.copy(), out.copy()))
    trace = simulate(case.host, *case.arguments()).trace
    assert counters.counted(trace)["global loads and cp.async: requests"] == 4
    assert counters.counted(differences.needed(case, trace))["global loads and cp.async: requests"] == 1


def test_a_run_is_compared_again_from_what_it_kept(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    chosen = counters.cases(sample=True)
    kernels = counted_as_simulated([(case, counters.simulated(case)) for case in chosen])
    names = [case.name for case in chosen]
    header = list(dict.fromkeys(m for q in counters.QUANTITIES for added in q.metrics for m in added))
    lines = [["ID", "a", "b", "c", "Kernel Name", *header], [""] * (5 + len(header))]
    lines += [[i, "", "", "", "k", *(kernel[m] for m in header)] for i, kernel in enumerate(kernels)]
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    (tmp_path / "counters-ncu.csv").write_text(text)
    (tmp_path / "counters-cases.json").write_text(json.dumps({"names": names, "refused": {}}))
    assert counters.replay(tmp_path).ok
    (tmp_path / "counters-cases.json").write_text(json.dumps({"names": ["gone", *names[1:]], "refused": {}}))
    assert counters.replay(tmp_path).mismatches == ("gone: not launched: there is no such case any more",)


# ---- seeded bugs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", seeded_bugs.CASES, ids=lambda case: case.name)
def test_the_simulator_names_the_bug_and_only_the_bug(case):
    said, wrong = sanitizer.simulated(case)
    assert not wrong and not sanitizer.silent(case)
    assert said.startswith(case.kind or "nothing: ")


def test_a_bug_that_is_missed_is_a_mismatch():
    by_name = {case.name: case for case in seeded_bugs.CASES}
    _, (other,) = sanitizer.simulated(dataclasses.replace(by_name["missing_barrier"], kind="deadlock"))
    assert other.startswith("missing_barrier: expected deadlock at the lines marked `# here`; Race (read after write)")
    _, (nothing,) = sanitizer.simulated(dataclasses.replace(by_name["uninitialised_global"], kind="uninitialised"))
    assert nothing.endswith("nothing was found")


def test_false_alarms_are_mismatches_in_every_order(monkeypatch):
    def with_the_bug(host, x, out, bug, **options):
        return simulate(host, x, out, True, **options)

    monkeypatch.setattr(sanitizer, "simulate", with_the_bug)
    race, overrun = (
        next(case for case in seeded_bugs.CASES if case.name == n) for n in ("missing_barrier", "past_the_allocation")
    )
    assert [said.count("Race (read after write)") for said in sanitizer.silent(race)] == [
        1,
        1,
        1,
    ]  # the fast mode sees none
    assert [said.count("Out of bounds") for said in sanitizer.silent(overrun)] == [1, 1, 1, 1]


def test_the_sample_asks_the_simulator_alone():
    suite = sanitizer.run(True, quiet)
    assert suite.ok and suite.checked == 5 * len(seeded_bugs.CASES)
    assert {row[2] for row in suite.rows} == {"not asked"}
    assert suite.rows[-1][1].startswith(f"nothing, of {len(seeded_bugs.CASES)} of {len(seeded_bugs.CASES)}")


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


COMPUTE_SANITIZER = """
if "--initcheck-address-space" in args:
    sys.exit("Error: unrecognised option '--initcheck-address-space'")
assert os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
assert args[-2] == "quack_tutorial.validate.sanitizer_worker"
print("========= COMPUTE-SANITIZER")
if args[args.index("--tool") + 1] == "initcheck":
    print("========= Uninitialized __global__ memory read of size 4 bytes")
print("========= ERROR SUMMARY: 1 errors" if "initcheck" in args else "========= ERROR SUMMARY: 0 errors")
"""


def test_compute_sanitizer_is_asked_and_its_words_kept(monkeypatch, tmp_path):
    script = stand_in(monkeypatch, tmp_path, "compute-sanitizer", COMPUTE_SANITIZER)
    monkeypatch.setenv("QUACK_VALIDATE_RAW", str(tmp_path / "kept"))
    assert sanitizer.sanitized(str(script), "memcheck", "missing_barrier") == ""
    said = sanitizer.sanitized(str(script), "initcheck", "missing_barrier")  # also where it knows only global memory
    assert said == "Uninitialized __global__ memory read of size 4 bytes"
    kept = (tmp_path / "kept" / "sanitizer.log").read_text()
    assert "#### memcheck missing_barrier" in kept and "Uninitialized" in kept


def test_without_compute_sanitizer_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(sanitizer.shutil, "which", lambda _: None)
    suite = sanitizer.run(False, quiet)
    assert suite.mismatches == ("compute-sanitizer was not asked: it is not on the PATH",)
    assert {row[2] for row in suite.rows} == {"not asked"}


def test_both_sides_stand_in_one_table(monkeypatch):
    says = {
        name: dict.fromkeys(sanitizer.TOOLS, "")
        for name in (sanitizer.ALL_CORRECT, *(c.name for c in seeded_bugs.CASES))
    }
    says["missing_barrier"]["racecheck"] = "Race reported"
    monkeypatch.setattr(sanitizer, "asked", lambda progress: (says, ""))
    suite = sanitizer.run(False, quiet)
    assert suite.ok
    assert suite.rows[0][2] == "racecheck: Race reported" and {row[2] for row in suite.rows[1:]} == {"nothing"}
    assert "tools 1." in suite.notes[0]


@pytest.fixture
def no_gpu_needed(monkeypatch):
    """torch with its CUDA parts doing nothing."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, device=None, **options: empty(*size, **options))
    return torch


def test_the_sanitizers_worker_runs_one_bug_or_all_kernels_without(no_gpu_needed, monkeypatch):
    from quack_tutorial import compiler
    from quack_tutorial.validate import sanitizer_worker

    launched = []
    monkeypatch.setattr(compiler, "launch", lambda host, x, out, bug: launched.append((host.__name__, bug)))
    assert sanitizer_worker.main("missing_barrier") == 0
    assert launched == [("missing_barrier", True)]
    launched.clear()
    assert sanitizer_worker.main(sanitizer.ALL_CORRECT) == 0
    assert launched == [(case.name, False) for case in seeded_bugs.CASES]


def test_the_counters_worker_profiles_each_launch_alone(no_gpu_needed, monkeypatch, tmp_path):
    from quack_tutorial import compiler
    from quack_tutorial.validate import counters_worker

    done = []

    class Profiler:
        """Notes when the profiler is switched."""

        cudaProfilerStart = staticmethod(lambda: done.append("start"))
        cudaProfilerStop = staticmethod(lambda: done.append("stop"))

    def compile_for(host, *arguments):
        if len(done) == 3:
            raise ValueError("refused")
        return lambda *arguments: done.append(len(arguments))

    monkeypatch.setattr(no_gpu_needed.cuda, "cudart", lambda: Profiler)
    monkeypatch.setattr(compiler, "compile_for", compile_for)
    cases = counters.cases()[:2]
    names = [case.name for case in cases]
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(names))
    assert counters_worker.main(file) == 0
    assert done == ["start", len(cases[0].arguments()), "stop"]
    assert json.loads((tmp_path / "refused.json").read_text()) == {names[1]: "ValueError: refused"}
