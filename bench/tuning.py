"""The process that tries the configurations of one kernel at one size: reads a request a line, answers as `worker` does.

| request                                                                    | answers                                  |
|----------------------------------------------------------------------------|------------------------------------------|
| (start)                                                                    | {"machine": {...}}                       |
| {"size": {...}, "configs": [[...], ...], "crashed": {...}, "rounds": ...}  | {"doing": config} ..., {"cell": {...}}   |

Each configuration is compiled, checked against float64 on a few rows, and timed roughly; the best of them are then timed in
turn with each other and with the plain kernels of the ceiling. One that raises, or is wrong, is recorded with the reason.
"""

from __future__ import annotations

import sys

import torch

from bench import ceilings, correctness, ours
from bench.measure import first_line
from bench.worker import serve
from quack_tutorial import timing
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import rows_of
from quack_tutorial.records import rounded
from quack_tutorial.records.cells import CellKey, bytes_moved
from quack_tutorial.records.statistics import median

FINALISTS, CLOSE = (6, 12), 1.02  # the best few, and up to so many that are nearly as good, are timed in turn
CHECKED_ELEMENTS = 1 << 16
HOPELESS = 1.5  # times the best so far: no second look at such a configuration


def main() -> int:
    """Serve requests until stdin ends."""
    return serve(lambda request, announce: measure_size(**request, announce=announce))


def measure_size(size: dict, configs, crashed=None, rounds=7, announce=lambda what: None) -> dict:
    """Try `configs` (tuples of numbers, see `config.fields`) at one size: {"operation", "dtype", "M", "N", "rows"}."""
    from quack_tutorial.kernels.tuned.config import label, of_fields

    key = CellKey(size["operation"], size["dtype"], size["M"], size["N"])
    operation, moved, crashed = OPERATIONS[key.operation], bytes_moved(key), crashed or {}
    device = torch.cuda.get_device_properties()
    pool = torch.cuda.graph_pool_handle()

    announce("inputs")
    first = inputs_with(operation, key, size["rows"])
    slots = timing.slots_for(sum(t.numel() * t.element_size() for t in first), device.L2_cache_size)
    inputs = [first, *(inputs_with(operation, key, size["rows"]) for _ in range(slots - 1))]
    launches = timing.launches_for(moved, slots)
    short = max(slots, launches // 4)
    announce("ceiling")
    plain = ceilings.ceiling_candidates(operation.pattern, moved, slots, pool)

    tried, calls, best_us = [], {}, float("inf")
    for fields in configs:
        name = label(fields)
        entry = {"config": list(fields)}
        tried.append(entry)
        if name in crashed:
            entry |= {"status": "crashed", "message": crashed[name]}
            continue
        announce(name)
        try:
            call = ours.callable_for(key.operation, "ours", rows_of(first[0]), of_fields(key.operation, fields))
            replay = timing.capture(call, inputs, short, pool)
            timing.poison_and_replay(replay)
            last = inputs[(short - 1) % slots]
            error = correctness.error_of(
                operation, last, replay.outputs[-1], seed=len(tried), elements=CHECKED_ELEMENTS
            )
            us = timing.rough_us(replay.released(), 1)
            if us < HOPELESS * best_us:
                us = min(us, timing.rough_us(replay.released(), 2))
        except Exception as exception:  # a configuration may be too large for the GPU; what matters is that it answers
            torch.cuda.synchronize()
            entry |= {"status": "refused", "message": first_line(exception)}
            continue
        problem = correctness.judgement(error, is_ours=True)
        if problem:
            entry |= {"status": "wrong", "message": problem}
            continue
        entry |= {"status": "ok", "rough_us": rounded(us), "error": rounded(error, 3)}
        calls[name], best_us = call, min(best_us, us)

    announce("timing")
    right = sorted((entry for entry in tried if entry["status"] == "ok"), key=lambda entry: entry["rough_us"])
    least, most = FINALISTS
    near = [entry for entry in right[:most] if entry["rough_us"] <= CLOSE * best_us]
    finalists = {label(entry["config"]): entry for entry in max(near, right[:least], key=len)}
    replays = {name: timing.capture(calls[name], inputs, launches, pool).released() for name in finalists}
    replays |= {("ceiling", name): replay for name, replay in plain.items()}
    samples = timing.interleaved_us(replays, rounds)
    for name, entry in finalists.items():
        entry["us"] = rounded(median(samples[name]))
    ceiling = min(plain, key=lambda name: median(samples["ceiling", name]))
    found = {
        **size,
        "bytes_moved": moved,
        "launches": launches,
        "slots": slots,
        "rounds": rounds,
        "ceiling": ceiling,
        "ceiling_us": rounded(median(samples["ceiling", ceiling])),
        "candidates": tried,
    }
    inputs = first = plain = replays = calls = call = replay = None  # or empty_cache could give nothing back
    torch.cuda.empty_cache()
    return found


def inputs_with(operation, key: CellKey, rows: str) -> tuple:
    """Inputs of a cell whose matrices start their rows at multiples of 16 bytes ("aligned") or anywhere ("congruent")."""
    inputs = operation.inputs(key.M, key.N, key.dtype)
    if rows == "congruent" and rows_of(inputs[0]).promise == "aligned":
        inputs = tuple(apart(tensor) if tensor.dim() == 2 else tensor for tensor in inputs)
    found = rows_of(inputs[0]).promise
    if found != rows:
        raise ValueError(f"rows of {key.N} {key.dtype} elements one after another are {found}, not {rows}")
    return inputs


def apart(tensor):
    """The same matrix with a gap of one element between its rows."""
    wider = torch.empty(tensor.shape[0], tensor.shape[1] + 1, dtype=tensor.dtype, device=tensor.device)
    wider[:, :-1] = tensor
    return wider[:, :-1]


if __name__ == "__main__":
    sys.exit(main())
