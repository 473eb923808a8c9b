"""`quack-tutorial profile`: Nsight Compute's counters of our kernels and of others', kept as a record.

Each case runs in a process of its own under `ncu`: set up and warmed first, then one call with the profiler on, whose launches
are all counted. ncu runs a launch again for each group of counters, with the clocks left as they are and the caches flushed
before each, so its times are those of single cold launches: they explain, the benchmark ranks.

| quantity        | what it counts                                                                            |
|-----------------|-------------------------------------------------------------------------------------------|
| `time_us`       | the launch, by the GPU's clock                                                            |
| `dram_read_bytes`, `dram_write_bytes` | what crossed between L2 and HBM                                     |
| `l2_...`        | sectors that L2 was asked for, and those that it had                                      |
| `l1_...`        | requests, sectors and wavefronts of global and of shared memory                           |
| `local_bytes`   | registers that were spilled: traffic of local memory                                      |
| `registers`, `smem_bytes`, `warps` | of a thread, of a block; resident warps an SM on average               |
| `stall_...`     | of each warp's time between two instructions, the cycles that it waited for what          |
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import asked
from bench.asked import on_a_gpu
from quack_tutorial import records

TIMEOUT_S = 150
STALLS = ("long_scoreboard short_scoreboard barrier membar math_pipe_throttle mio_throttle lg_throttle wait").split()
METRICS = {
    "time_us": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_sectors_read": "lts__t_sectors_op_read.sum",
    "l2_sectors_written": "lts__t_sectors_op_write.sum",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "l1_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "instructions": "smsp__inst_executed.sum",
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps": "sm__warps_active.avg.per_cycle_active",
    "registers": "launch__registers_per_thread",
    "smem_bytes": "launch__shared_mem_per_block",
    "threads": "launch__block_size",
    "blocks": "launch__grid_size",
    **{f"stall_{stall}": f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio" for stall in STALLS},
}
SCALE = {"time_us": 1e-3}  # ncu's base unit is the nanosecond


WORDS = 1 << 29  # of the array that is read from: 2 GiB
# What a warp reads of float32 words: lanes in a run, words from run to run, the first word, what a lane's number is xored with, and
# how many bytes L2 is asked to fetch at least.
READS = {
    "whole lines": (32, 32),
    "whole lines, lanes swapped": (32, 32, 0, 21),
    "whole lines, 4 bytes on": (32, 32, 1),
    "half of each line": (16, 32),
    "a sector of each half line": (8, 16),
    "a sector of each line": (8, 32),
    "a word of each sector": (1, 8),
    "a word of each half line": (1, 16),
    "a word of each line": (1, 32),
    "a word of every second line": (1, 64),
    **{f"a sector of each line, fetch {nbytes}": (8, 32, 0, 0, nbytes) for nbytes in (32, 64, 128)},
}


@dataclass(frozen=True)
class Case:
    """One implementation ("ours", a peer, a version of the ladder, or of `READS`) at one size."""

    operation: str
    provider: str
    dtype: str
    M: int
    N: int

    def __str__(self):
        return f"{self.operation} {self.dtype} {self.M} x {self.N}: {self.provider}"


def _cases():
    for provider in ("eager", "compile", "compile tuned", "quack", "ours", "cluster"):
        yield Case("softmax", provider, "float32", 16384, 131072)
    for provider in ("liger", "compile", "ours"):
        yield Case("softmax", provider, "float32", 16384, 65536)
    for provider in ("liger", "ours"):
        yield Case("softmax", provider, "float32", 32768, 32768)
    for provider in ("three-pass", "online", "vectors", "registers", "ours"):
        yield Case("softmax", provider, "float32", 32768, 4096)
    for provider in ("cudnn", "compile tuned", "liger", "quack", "ours"):
        yield Case("rmsnorm", provider, "bfloat16", 32768, 16384)
    for provider in ("two-pass", "online", "vectors", "in flight", "rows", "fast exp", "ours"):
        yield Case("cross-entropy", provider, "bfloat16", 32768, 16384)
    for provider in ("block", "vectors", "registers", "rows", "async", "cluster"):
        yield Case("rmsnorm", provider, "float32", 32768, 4096)
    for provider in ("atomics", "parts", "pipelined"):
        yield Case("rmsnorm backward", provider, "bfloat16", 32768, 4096)
    for pattern in READS:
        yield Case("reads", pattern, "float32", 1, WORDS)


CASES = tuple(_cases())


class NotProfiled(RuntimeError):
    """Why there are no counters, in a sentence."""


def command_line(table, case_file) -> list[str]:
    """ncu's command for one case."""
    return [
        shutil.which("ncu") or "ncu",
        *("--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"),
        *("--metrics", ",".join(METRICS.values())),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(table)),
        *(sys.executable, "-m", "bench.profile", str(case_file)),
    ]


def under_ncu(command, timeout, **environment) -> str:
    """What a command of ncu's said; NotProfiled says why there are no counters."""
    if shutil.which("ncu") is None:
        raise NotProfiled("Nsight Compute's ncu is not on the PATH")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=os.environ | environment)
    except subprocess.TimeoutExpired as error:
        raise NotProfiled(f"it did not end in {timeout} seconds") from error
    return done.stdout + done.stderr


def ncu_version() -> str | None:
    """The last line of what ncu says of its version."""
    said = subprocess.run([shutil.which("ncu") or "ncu", "--version"], capture_output=True, text=True).stdout
    return said.strip().splitlines()[-1] if said else None


def profile(case: Case) -> dict:
    """{"case": its fields, "launches": one dictionary a launch, "source": generated code or None}; NotProfiled says why not."""
    with tempfile.TemporaryDirectory() as folder:
        table, listed = Path(folder, "ncu.csv"), Path(folder, "case.json")
        listed.write_text(json.dumps(case.__dict__))
        environment = {"TORCHINDUCTOR_MULTI_KERNEL": "1"} if case.provider == "compile tuned" else {}
        said = under_ncu(command_line(table, listed), TIMEOUT_S, **environment)
        text = table.read_text(encoding="utf-8", errors="replace") if table.exists() else ""
        source = Path(folder, "source.py")
        generated = source.read_text(encoding="utf-8") if source.exists() else None
        return {"case": case.__dict__, "launches": parse(text, said), "source": generated}


def parse(text: str, said: str = "") -> list[dict]:
    """The launches in what `ncu --csv --page raw` wrote: the name of the kernel and `METRICS`; NotProfiled says what it said."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if not lines or not lines[0].startswith('"ID"'):
        if "ERR_NVGPUCTRPERM" in text + said:
            raise NotProfiled("this user may not read the GPU's counters (ERR_NVGPUCTRPERM)")
        last = (said.strip().splitlines() or ["nothing"])[-1]
        raise NotProfiled(f"ncu gave no table; the last line said: {last}")
    header, _units, *rows = csv.reader(lines)
    launches = []
    for row in rows:
        cells = dict(zip(header, row))
        launch = {"kernel": cells["Kernel Name"]}
        for name, metric in METRICS.items():
            try:
                launch[name] = float(cells[metric].replace(",", "")) * SCALE.get(name, 1)
            except (KeyError, ValueError):
                launch[name] = None
        launches.append(launch)
    return launches


def add_arguments(parser):
    """Declare what `quack-tutorial profile` takes."""
    parser.add_argument("--out", help="keep the record in this file")
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no case after so many seconds")
    parser.add_argument("--resume", action="store_true", help="go on with the record in --out: skip the cases it holds")


@on_a_gpu
def run(args, found) -> int:
    """Profile and print; 1 where there is no record to go on with, 2 without a GPU."""
    import time

    from bench.worker import describe

    here, kept, dates = {**describe(), "driver": found.driver}, [], []
    try:
        if args.resume and Path(args.out or "").exists():
            kept, dates, here["versions"] = held(args.out, here)
    except (NotProfiled, records.RecordError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    head = {
        **here,
        "ncu": ncu_version(),
        "date": ", ".join([*dates, records.minute()]),
        "command": asked.command_line(args, ["profile"], ["out"]),
    }
    started, done = time.monotonic(), [entry["case"] for entry in kept]
    for case in CASES:
        if case.__dict__ in done:
            continue
        if time.monotonic() - started > args.limit_s:
            print(f"{case}: left, the time is up")
            continue
        try:
            kept.append(profile(case))
        except NotProfiled as error:
            print(f"{case}: {error}")
            continue
        for launch in kept[-1]["launches"]:
            read, written = launch["dram_read_bytes"] or 0, launch["dram_write_bytes"] or 0
            print(
                f"{case}: {launch['time_us']:.0f} us, {read / 1e9:.2f} GB read, {written / 1e9:.2f} GB written",
                flush=True,
            )
        if args.out:  # after each case, in case this process is ended from outside
            records.save(args.out, {**head, "cases": kept})
    return 0


def left(args) -> int:
    """How many cases the record lacks."""
    done = [row["case"] for row in records.read(args.out, "cases")["cases"]] if Path(args.out).exists() else []
    return sum(case.__dict__ not in done for case in CASES)


def held(path, here: dict) -> tuple[list[dict], list[str], dict[str, str]]:
    """The cases of the record at `path`, when they were counted, and its versions with those `here`; NotProfiled where it is of
    another machine or other versions than `here`."""
    record = records.read(path, "cases")
    other = next((name for name, value in here.items() if name != "versions" and record.get(name) != value), None)
    if other := other or records.other_version(record["versions"], here["versions"]):
        raise NotProfiled(f"{path} is of another machine or version ({other}): profile into another file")
    return record["cases"], [record["date"]], record["versions"] | here["versions"]


def implementation(case: Case):
    """What is called, and with what."""
    from bench.peers import PROVIDERS
    from quack_tutorial.operations import OPERATIONS

    operation = OPERATIONS[case.operation]
    inputs = operation.inputs(case.M, case.N, case.dtype)
    return {**PROVIDERS[case.operation], **operation.ladder}[case.provider](*inputs), inputs


def reader(pattern: str):
    """A kernel that reads by one of the patterns, once all that it touches of the array."""
    import torch
    from cuda.bindings import runtime

    from bench.memory import vector
    from quack_tutorial.compiler import TensorSpec, compile_for
    from quack_tutorial.kernels.memory import Strided

    run, stride, offset, swap, fetch = (*READS[pattern], 0, 0, 0)[:5]
    if fetch:
        (status,) = runtime.cudaDeviceSetLimit(runtime.cudaLimit.cudaLimitMaxL2FetchGranularity, fetch)
        if status:
            raise RuntimeError(f"the limit of L2's fetch cannot be set: {status}")
    x = torch.randn(WORDS, device="cuda")
    sums = torch.empty(8 * torch.cuda.get_device_properties().multi_processor_count, 256, device="cuda")
    requests = (WORDS - offset) * run // stride // sums.numel() // 8 * 8
    kernel = Strided(stride, offset, run=run, swap=swap)
    spec = TensorSpec("float32", ("B", "T"), ("T", 1), 4)
    return compile_for(kernel, vector("N"), spec, requests), (x, sums, requests)


def work(file) -> None:
    """The process under ncu: set the case up, call it twice, then once with the profiler on."""
    case = Case(**json.loads(Path(file).read_text()))
    call, inputs = reader(case.provider) if case.operation == "reads" else implementation(case)
    if case.provider.startswith("compile"):
        from torch._inductor.utils import run_and_get_code

        _, code = run_and_get_code(call, *inputs)
        Path(file).with_name("source.py").write_text("\n".join(code), encoding="utf-8")
    call(*inputs)
    in_sight(call, *inputs)


def in_sight(call, *inputs, mark=lambda: None) -> None:
    """The call twice, the second time with the profiler on, and behind a mark."""
    import torch

    call(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    mark()
    call(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    work(sys.argv[1])
