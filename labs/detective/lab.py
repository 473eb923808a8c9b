"""The lab `detective`: from a profile's counters to what is wrong with a kernel, and the counter that proves it.

Functions of plain Python. Five profiles are on the page, those of softmax in `quack_tutorial.records.profile` under letters instead
of names; a grade asks of others as well, so that a verdict is a rule and no table. What a wrong number shows is in MISTAKES; what a
wrong verdict overlooks is said with the counters themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from grading import diagnoses
from grading.judgement import Case, Diagnosis, Outcome, telling
from quack_tutorial import cost
from quack_tutorial.records import profile

TITLE = "Detective: what is wrong with a kernel, and the counter that proves it"
FUNCTIONS = ("times_read", "bytes_bound", "stored_away", "warps_that_fit", "verdict")
CHECKS = {"times_read": 1, "bytes_bound": 1, "stored_away": 2, "warps_that_fit": 3, "verdict": 3}

PROFILED = {
    "A": ("compile", 131072),
    "B": ("liger", 65536),
    "C": ("quack", 131072),
    "D": ("eager", 131072),
    "E": ("ours", 131072),
}
# charge -> the counters that prove it
CHARGES = {
    "reads again": ("dram_read_bytes",),
    "writes again": ("l1_store_sectors",),
    "spills": ("local_store_sectors", "local_load_sectors"),
    "few warps": ("warps",),
    "nothing": ("dram_percent",),
}
FEW_WARPS = 16
SHOWN = ("time_us", "dram_read_bytes", "dram_write_bytes", "dram_percent", "l2_hit_percent", "l1_load_requests", "l1_load_sectors",
         "l1_store_sectors", "local_load_sectors", "local_store_sectors", "issue_percent", "warps", "blocks", "threads",
         "registers", "smem_bytes", "stall_long_scoreboard")  # fmt: skip


def guilt(p: dict) -> str:
    """The charge that holds of a profile {counter: number}."""
    matrix = 4 * p["M"] * p["N"]
    held = {
        "spills": p["local_store_sectors"] > 0,
        "reads again": p["dram_read_bytes"] > 1.1 * matrix,
        "writes again": 32 * p["l1_store_sectors"] > 1.1 * matrix,
        "few warps": p["warps"] < FEW_WARPS,
    }
    return next((charge for charge, holds in held.items() if holds), "nothing")


@functools.lru_cache
def suspects() -> dict:
    """{letter: what was counted}."""
    counted = profile.load()
    return {letter: counted("softmax", *which) for letter, which in PROFILED.items()}


def counted(letter: str) -> dict:
    """A suspect's counters, as `verdict` gets them."""
    case = suspects()[letter]
    return {"M": case.M, "N": case.N} | {name: case.of_main(name) for name in SHOWN}


def others(rng) -> list[dict]:
    """Profiles that no page shows: the best one at other sizes, with one fault or none."""
    found = []
    for least in (1.3, None):  # as little too much as a profile has here, and anything
        for charge in CHARGES:
            M, N = (int(n) for n in rng.integers(3000, 90000, 2))
            p, matrix = counted("E"), 4 * M * N
            scale = M * N / (p["M"] * p["N"])
            p |= {
                name: n * scale
                for name, n in p.items()
                if name.endswith(("bytes", "sectors", "requests", "time_us")) and "smem" not in name
            }
            p |= {"M": M, "N": N, "warps": float(rng.uniform(17, 60)), "dram_percent": float(rng.uniform(84, 91))}
            more = least or float(rng.uniform(1.3, 2.9))
            if charge == "reads again":
                p |= {"dram_read_bytes": more * matrix, "l1_load_sectors": more * matrix / 32}
            if charge == "writes again":
                p |= {"l1_store_sectors": more * matrix / 32, "dram_write_bytes": (more - 0.1) * matrix}
            if charge == "spills":
                stored = float(rng.integers(1, 30)) * matrix / 320
                p |= {"local_store_sectors": stored, "local_load_sectors": 1.1 * stored}
                p["dram_write_bytes"] += 16 * stored
            if charge == "few warps":
                p |= {"warps": float(rng.uniform(3, 15)), "dram_percent": float(rng.uniform(60, 83))}
            found.append(
                {name: round(n, 1) if name in ("warps", "dram_percent", "time_us") else int(n) for name, n in p.items()}
            )
    nothing, warps, spills, reads, writes = (
        found[list(CHARGES).index(one)] for one in ("nothing", "few warps", "spills", "reads again", "writes again")
    )
    back = spills["M"] * spills["N"] // 16  # sectors of half a matrix
    return [
        *found,
        nothing | {"warps": 16.0},
        warps | {"warps": 15.9},
        spills | {"local_store_sectors": 1},
        # What looks like another charge: stores that the L2 merges before HBM hears of them, spills that HBM has to bring back, a
        # second reading that the L2 serves, and few warps that keep HBM busy all the same.
        writes
        | {
            "l1_store_sectors": writes["M"] * writes["N"] // 4,
            "dram_write_bytes": nothing["dram_write_bytes"]
            * writes["M"]
            * writes["N"]
            // (nothing["M"] * nothing["N"]),
        },
        spills
        | {
            "local_store_sectors": back,
            "local_load_sectors": back,
            "dram_read_bytes": int(1.4 * spills["dram_read_bytes"]),
        },
        nothing | {"l1_load_sectors": 2 * nothing["l1_load_sectors"]},
        reads | {"warps": 12.0, "dram_percent": 89.0},
    ]


def profiles() -> None:
    """Print the five profiles, a counter a line: as wide as a page shows, and numbers as Python reads them."""
    cases = suspects()
    print(f"{'':22}" + "".join(f"{letter:>12}" for letter in cases))
    for size in ("M", "N"):
        print(f"{size:22}" + "".join(f"{getattr(case, size):12}" for case in cases.values()))
    for name in SHOWN:
        values = [case.of_main(name) for case in cases.values()]
        print(f"{name:22}" + "".join(f"{v:12.0f}" if v == int(v) else f"{v:12.1f}" for v in values))


SM_WARPS, SM_REGISTERS, SM_SMEM, SM_BLOCKS, AT_ONCE, RESERVED = 64, 65536, 228 * 1024, 32, 256, 1024


def fits(registers, smem_bytes, threads, *, without="") -> int:
    """The warps of whole blocks that an SM holds, as someone counts who leaves one rule out."""
    warps = threads // 32
    unit = 1 if without == "units" else AT_ONCE
    rounded = 32 * warps if without == "units of a warp" else 32  # threads of a unit
    of_block = -(-registers * rounded // unit) * unit * (32 * warps // rounded)
    limits = {
        "warps": SM_WARPS // warps,
        "registers": SM_REGISTERS // of_block,
        "smem": SM_SMEM // max(1, smem_bytes + (without != "reserve") * RESERVED),
        "blocks": SM_BLOCKS,
    }
    limits.pop(without, None)
    return min(limits.values()) * warps


RIGHT = {
    "times_read": lambda read, M, N: read / (4 * M * N),
    "bytes_bound": lambda read, written, M, N: 8 * M * N / (read + written),
    "stored_away": lambda sectors, blocks, threads: sectors * 8 / (blocks * threads),
    "warps_that_fit": lambda registers, smem, threads: cost.blocks_per_sm(threads, registers, smem) * threads // 32,
}

LIMIT = "Each limit gives a number of blocks, and the lowest counts."
# (function, kind, the formula, what it forgets)
MISTAKES = (
    ("times_read", "numbers, not bytes", lambda r, M, N: r / (M * N),
     "That is bytes for each number of the matrix. How many bytes does one reading of it take?"),
    ("times_read", "another type", lambda r, M, N: r / (2 * M * N), "The matrix is float32: a number has 4 bytes."),
    ("times_read", "upside down", lambda r, M, N: 4 * M * N / r, "A kernel that reads more should get a larger number."),
    ("times_read", "rounded", lambda r, M, N: r // (4 * M * N),
     "The fraction is evidence too: 1.02 and 1.98 are different stories. Do not round."),
    ("times_read", "rounded", lambda r, M, N: round(r / (4 * M * N)),
     "The fraction is evidence too: 1.02 and 1.98 are different stories. Do not round."),
    ("bytes_bound", "upside down", lambda r, w, M, N: (r + w) / (8 * M * N),
     "That is how many times the least bytes were moved. A kernel that moves twice as many can have half the speed."),
    ("bytes_bound", "writes forgotten", lambda r, w, M, N: 4 * M * N / r,
     "That looks at reads alone. HBM carries both, and what is written takes time as well."),
    ("bytes_bound", "capped", lambda r, w, M, N: min(1, 8 * M * N / (r + w)),
     "A kernel that the cache has spared some bytes gets more than 1: no share is cut off there."),
    ("bytes_bound", "half of the floor", lambda r, w, M, N: 4 * M * N / (r + w),
     "The least is the matrix twice: x is read once, y is written once."),
    ("bytes_bound", "numbers, not bytes", lambda r, w, M, N: 2 * M * N / (r + w),
     "That puts numbers over bytes. How many bytes has a float32?"),
    ("stored_away", "sectors for numbers", lambda s, b, t: s / (b * t),
     "That takes a sector for one register. A sector has 32 bytes, a register 4: how many registers fit?"),
    ("stored_away", "bytes for registers", lambda s, b, t: 32 * s / (b * t),
     "That is 32 for each sector. A sector has 32 bytes, and a register takes 4 of them."),
    ("stored_away", "sectors for bytes", lambda s, b, t: s / 4 / (b * t),
     "That takes a sector for a byte. It has 32."),
    ("stored_away", "of a block", lambda s, b, t: s * 8 / b, "That is what a block stored away. A thread is asked for."),
    ("stored_away", "of all blocks", lambda s, b, t: s * 8 / t,
     "That divides by the threads of one block, while the counter adds up all blocks."),
    ("stored_away", "of a warp", lambda s, b, t: s * 8 / (b * t / 32), "That is what a warp stored away. It has 32 threads."),
    ("warps_that_fit", "blocks, not warps", lambda r, s, t: fits(r, s, t) // (t // 32),
     "Those are blocks, and warps are asked for: how many has a block?"),
    ("warps_that_fit", "threads, not warps", lambda r, s, t: fits(r, s, t) * 32, "Those are threads. A warp has 32."),
    ("warps_that_fit", "shared memory forgotten", lambda r, s, t: fits(r, s, t, without="smem"),
     f"Shared memory runs out before. {LIMIT}"),
    ("warps_that_fit", "registers forgotten", lambda r, s, t: fits(r, s, t, without="registers"),
     f"Registers run out before. {LIMIT}"),
    ("warps_that_fit", "slots of warps forgotten", lambda r, s, t: fits(r, s, t, without="warps"),
     "An SM has room for 64 warps, whatever they leave of registers and shared memory."),
    ("warps_that_fit", "slots of blocks forgotten", lambda r, s, t: fits(r, s, t, without="blocks"),
     "An SM has room for 32 blocks, however small they are."),
    ("warps_that_fit", "units forgotten", lambda r, s, t: fits(r, s, t, without="units"),
     "A warp gets its registers in units of 256: 32 threads of 227 take 7,424 and not 7,264."),
    ("warps_that_fit", "units of a block", lambda r, s, t: fits(r, s, t, without="units of a warp"),
     "That rounds a block's registers up. Each warp's are rounded: 32 threads of 33 take 1,280."),
    ("warps_that_fit", "reserve forgotten", lambda r, s, t: fits(r, s, t, without="reserve"),
     "Each block takes 1 KiB of shared memory besides its own."),
    ("warps_that_fit", "parts of blocks",
     lambda r, s, t: min(64, 65536 // (-(-r * 32 // 256) * 256), 228 * 1024 // (s + 1024) * (t // 32), 32 * (t // 32)),
     "That counts warps of blocks that do not fit as a whole. A block starts when there is room for all of it."),
)  # fmt: skip

HINTS = {
    "times_read": "What has the kernel read, and how much is one reading of the float32 matrix?",
    "bytes_bound": "The copy moves the matrix once in and once out. If this kernel is as fast a byte, what "
    "share of the copy's speed does it get?",
    "stored_away": "From sectors to bytes, from bytes to registers, from all threads of all blocks to one.",
    "warps_that_fit": f"{LIMIT} A block fits as a whole or not at all.",
}


def cases(seed: int = 0) -> list[Case]:
    """The suspects' counters, and others at random."""
    rng = np.random.default_rng([seed, 10])
    read, bound, stored, fit = [], [], [], []
    for case in suspects().values():
        size = case.M, case.N
        read.append((int(case.total("dram_read_bytes")), *size))
        bound.append((int(case.total("dram_read_bytes")), int(case.total("dram_write_bytes")), *size))
        stored.append(tuple(int(case.of_main(name)) for name in ("local_store_sectors", "blocks", "threads")))
        fit.append(tuple(int(case.of_main(name)) for name in ("registers", "smem_bytes", "threads")))
    for times in (*rng.uniform(1.1, 3.9, 2), *10 ** rng.uniform(-2, 2, 4)):  # as it comes, and far from that
        M, N = (int(n) for n in rng.integers(1000, 9000, 2))
        moved = [int(4 * M * N * x) for x in (times, times * rng.uniform(0.5, 2))]
        read.append((moved[0], M, N))
        bound.append((*moved, M, N))
        stored.append((int(16 * times * M), M, 32 * int(rng.integers(1, 33))))
    # Registers in units, blocks of a warp, shared memory to the last byte and beyond, and what fits nowhere.
    fit += [(227, 0, 32), (33, 0, 128), (16, 0, 32), (16, 56 * 1024, 64), (16, 56 * 1024 + 1, 64), (255, 0, 1024)]
    formulas = [one[2] for one in MISTAKES if one[0] == "warps_that_fit"]
    fit += telling(rng, RIGHT["warps_that_fit"], formulas, (16, 256), (0, 99 * 1024), (1, 33, 32))
    inputs = {"times_read": read, "bytes_bound": bound, "stored_away": stored, "warps_that_fit": fit}
    asked = [Case(name, make, target=name) for name, makes in inputs.items() for make in makes]
    asked += [Case(letter, (counted(letter),), target="verdict") for letter in PROFILED]
    return asked + [Case("unseen", (one,), target="verdict") for one in others(rng)]


def predict(name: str, outcomes: list[Outcome]) -> Iterator[Diagnosis]:
    """What a function's wrong answers show."""
    if name == "verdict":
        for o in outcomes:
            yield from judged(o.case.name, o.case.make[0], o.outputs["answer"])
        return
    mistakes = [mistake for function, *mistake in MISTAKES if function == name]
    yield from diagnoses.wrong_prediction(name, outcomes, RIGHT[name], HINTS[name], mistakes, 1e-9)


# Verdicts -------------------------------------------------------------------------------------------------------------

# What a counter shows instead of the charge, where a student may take it for the proof.
NO_PROOF = {
    "time_us": "A long time is what has to be explained.",
    "dram_percent": "HBM is as busy with bytes that are needed as with others.",
    "l2_hit_percent": "Stores count as hits, too, so that a share of hits says little of reads.",
    "l1_load_requests": "That is what warps asked for: caches may answer it, and HBM never hear of it.",
    "l1_load_sectors": "That is what warps asked for: caches may answer it, and HBM never hear of it.",
    "registers": "Many registers may be a cause. Whether an SM ran out of them shows in what it held.",
    "smem_bytes": "Much shared memory may be a cause. Whether an SM ran out of it shows in what it held.",
    "stall_long_scoreboard": "Every memory-bound kernel waits for loads most of the time.",
    "dram_write_bytes": "HBM neither knows who wrote, nor hears of a second store that the L2 merges with the first. Which counter "
    "sees the stores themselves?",
}
DEFAULT = "Which counter would be another one in a kernel without this fault, and for no other reason?"


def judged(name: str, p: dict, answer) -> Iterator[Diagnosis]:
    """What is wrong with a verdict (charge, counter) on a profile."""
    whose = name if name in PROFILED else f"a profile that the page does not show ({p['M']:,} x {p['N']:,})"
    said = f"verdict of {whose} returns {answer!r}."
    if not (isinstance(answer, (tuple, list)) and len(answer) == 2 and all(isinstance(x, str) for x in answer)):
        yield Diagnosis(
            "wrong type", f"{said} A pair of strings is asked for: the charge, and the counter that proves it."
        )
        return
    charge, counter = answer
    if charge not in CHARGES:
        yield Diagnosis("unknown charge", f"{said} The charges are {', '.join(map(repr, CHARGES))}.")
    elif charge != guilt(p):
        yield from alibi(said, charge, p)
    elif counter not in SHOWN:
        yield Diagnosis("unknown counter", f"{said} There is no counter of that name among the profiles' lines.")
    elif counter not in CHARGES[charge]:
        value = p[counter]
        yield Diagnosis(
            "no proof",
            f"{said} The charge is right, but {counter}, {value:,.6g}, does not prove it. {NO_PROOF.get(counter, DEFAULT)}",
        )


def alibi(said: str, charge: str, p: dict) -> Iterator[Diagnosis]:
    """Why a charge does not hold, by the counter that would prove it."""
    matrix = 4 * p["M"] * p["N"]
    if charge == "reads again":
        times = p["dram_read_bytes"] / matrix
        text = f"HBM was read for {p['dram_read_bytes'] / 1e9:.2f} GB, and the matrix has {matrix / 1e9:.2f}: {times:.2f} times."
        yield Diagnosis("alibi: reads", f"{said} {text} What else is out of line?")
    writes = p["dram_write_bytes"] / matrix
    if charge == "writes again" and writes < 1.1:
        text = f"HBM was written {p['dram_write_bytes'] / 1e9:.2f} GB, and the output has {matrix / 1e9:.2f}."
        yield Diagnosis("alibi: writes", f"{said} {text} What else is out of line?")
    elif charge == "writes again":
        text = (
            f"HBM was indeed written {writes:.2f} times as much as the output has. But the kernel's own stores to its output are "
            f"{32 * p['l1_store_sectors'] / 1e9:.2f} GB, once. So that is a consequence: what else does it store?"
        )
        yield Diagnosis("symptom", f"{said} {text}")
    if charge == "spills":
        yield Diagnosis("alibi: spills", f"{said} Its local_store_sectors are 0: no register was ever stored away.")
    if charge == "few warps" and p["warps"] >= FEW_WARPS:
        text = f"An SM held {p['warps']:.1f} of 64 warps, and fewer than {FEW_WARPS} are few here."
        yield Diagnosis("alibi: warps", f"{said} {text} What stands out beside the other profiles?")
    elif charge == "few warps":
        text = (
            f"An SM held {p['warps']:.1f} warps, but HBM was busy for {p['dram_percent']:.1f} % of the time: a few were "
            f"enough for that."
        )
        yield Diagnosis("symptom", f"{said} {text} With what was it busy?")
    if charge == "nothing":
        text = (
            "One of its counters is out of line. Compare bytes with the size of the matrix, local sectors with 0, and warps with "
            f"{FEW_WARPS}."
        )
        if "does not show" in said and guilt(p) != "writes again":
            text = {
                "reads again": f"HBM delivered {p['dram_read_bytes'] / matrix:.2f} times the matrix (dram_read_bytes). A "
                "kernel that reads once is within a few hundredths of 1.",
                "spills": f"Its local_store_sectors are {p['local_store_sectors']:,}, and without spills there are none.",
                "few warps": f"An SM held {p['warps']:.1f} warps, fewer than {FEW_WARPS}, and HBM was busy for "
                f"{p['dram_percent']:.1f} % of the time.",
            }[guilt(p)]
        elif "does not show" in said:
            text = (
                f"Warps stored {32 * p['l1_store_sectors'] / matrix:.2f} times what the output has (l1_store_sectors). "
                f"HBM was written {p['dram_write_bytes'] / matrix:.2f} times that: the L2 may merge what is stored again. Which "
                "counter sees the stores themselves?"
            )
        yield Diagnosis("acquitted", f"{said} {text}")
