"""The rules of `kernels.config` about what is launched together, and what the recorded sweeps say of them."""

import json
from dataclasses import replace
from statistics import median

from quack_tutorial.kernels.tuned.config import (
    LEAST_CLUSTER_BYTES,
    TENSORS,
    candidates,
    cluster_bytes,
    default_config,
    of_fields,
    of_table,
    starts_in_time,
)
from quack_tutorial.records import ITEM_BYTES, folder


def pairs():
    """(KB that a cluster moves, clusters started in a microsecond, time over that without clusters) of the recorded sweeps."""
    for path in (folder("h200") / "tune").glob("*-aligned.json"):
        sweep = json.loads(path.read_text())
        for size in sweep["sizes"] if sweep["operation"] in TENSORS else ():
            row_bytes = size["N"] * ITEM_BYTES[size["dtype"]]
            timed = {
                of_fields(sweep["operation"], c["config"]): c.get("us", c["rough_us"])
                for c in size["candidates"]
                if c["status"] == "ok"
            }
            for config, us in timed.items():
                alone = timed.get(replace(config, blocks_together=0))
                if config.blocks_together and alone:
                    moved = cluster_bytes(sweep["operation"], config, row_bytes)
                    started = size["M"] * row_bytes * TENSORS[sweep["operation"]] / moved / us
                    yield moved / 1024, started, us / alone


def test_the_sweeps_say_how_fast_clusters_start():
    found = list(pairs())
    assert 380 < max(started for _, started, _ in found) < 410
    little = [slower for moved, _, slower in found if moved < 13]
    assert len(little) > 200
    assert sum(slower > 1 for slower in little) / len(little) > 0.98
    assert median(slower for moved, _, slower in found if moved < 5) > 2
    enough = [slower for moved, _, slower in found if moved * 1024 >= LEAST_CLUSTER_BYTES]
    assert 0.99 < median(enough) < 1.01


def test_what_ships_starts_in_time():
    for operation in TENSORS:
        for width in (16, 32):
            for N in range(8, 8193, 8):
                config = default_config(operation, width, N)
                assert starts_in_time(operation, config, N * width // 8), (operation, width, N, config)
                of_line = of_table(operation, width, N, "aligned")
                assert replace(config, blocks_together=of_line.blocks_together) == of_line


def test_rows_that_start_anywhere_take_the_nearest_swept_length():
    """Odd rows of 257, 12289 and 50257 columns were swept."""
    for N, like in ((12345, 12289), (20001, 12289), (49999, 50257), (60001, 50257), (300, 257), (140, 257)):
        assert of_table("softmax", 32, N, "congruent") == of_table("softmax", 32, like, "congruent"), N
    # Not where that would hold more than registers have, nor far from any.
    held = of_table("softmax backward", 16, 12289, "congruent")
    assert held not in candidates("softmax backward", 16, 20001, "congruent")
    assert of_table("softmax backward", 16, 20001, "congruent") != held
    assert of_table("softmax", 16, 3001, "congruent") != of_table("softmax", 16, 257, "congruent")


def test_blocks_of_short_rows_are_launched_on_their_own():
    assert of_table("softmax", 16, 40, "aligned").blocks_together
    assert default_config("softmax", 16, 40).blocks_together == 0
    for N in (64, 1024):
        found = candidates("softmax", 16, N)
        assert all(starts_in_time("softmax", config, 2 * N) for config in found)
        assert {config.blocks_together for config in found} == {0, 1, 2}
