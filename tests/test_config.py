"""The rules of `kernels.tuned` about what is launched together, and what the recorded sweeps say of them."""

import json
from dataclasses import replace
from statistics import median

import pytest

from quack_tutorial import card
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.kernels.tuned import tables
from quack_tutorial.kernels.tuned.candidates import (
    LEAST_CLUSTER_BYTES,
    TENSORS,
    candidates,
    cluster_bytes,
    starts_in_time,
)
from quack_tutorial.kernels.tuned.choice import default_config, first_guess, lines_of, of_table
from quack_tutorial.kernels.tuned.config import Config, of_fields
from quack_tutorial.records import folder


@pytest.fixture(scope="module")
def script(load):
    return load("scripts/make_tables.py")


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


def test_rows_that_bulk_copies_cannot_cut_take_another_near_length():
    """The line that rows of 202,048 bfloat16 numbers come under cuts a row in 16, which their 25,256 vectors do not divide by."""
    for operation, line in (("softmax", 151936), ("cross-entropy fused", 151936)):
        assert of_table(operation, 16, 202048, "aligned") is None
        assert default_config(operation, 16, 202048) == default_config(operation, 16, line)


@pytest.mark.parametrize("operation", ("rmsnorm backward", "layernorm backward"))
def test_the_guess_for_a_norm_s_gradient_has_registers_for_its_rows(operation):
    """With four vectors a thread it took up to 9 times as long as the best in these sweeps; it spilled hundreds of bytes."""
    sweep = json.loads((folder("h200") / f"tune/{operation.replace(' ', '-')}-aligned.json").read_text())
    shares = []
    for size in (size for size in sweep["sizes"] if size["N"] >= 8192):
        guess = first_guess(operation, size["N"], 16 // ITEM_BYTES[size["dtype"]])
        timed = {
            of_fields(operation, c["config"]): c.get("us", c["rough_us"])
            for c in size["candidates"]
            if c["status"] == "ok"
        }
        shares += [min(timed.values()) / timed[guess]] if guess in timed else []
    assert len(shares) >= 5 and min(shares) > 0.58, shares


def test_blocks_of_short_rows_are_launched_on_their_own():
    assert of_table("softmax", 16, 40, "aligned").blocks_together
    assert default_config("softmax", 16, 40).blocks_together == 0
    for N in (64, 1024):
        found = candidates("softmax", 16, N)
        assert all(starts_in_time("softmax", config, 2 * N) for config in found)
        assert {config.blocks_together for config in found} == {0, 1, 2}


def test_a_card_has_the_tables_that_it_swept_and_others_the_nearest_card_s(monkeypatch):
    own = {("softmax", 16, "aligned"): ((4096, dict(threads_per_row=32, threads_per_block=128)),)}
    monkeypatch.setitem(tables.OTHERS, "h100", own)
    first = tables.TABLES["softmax", 32, "aligned"]
    for name, has_own in (("h200", False), ("h100", True), ("a100_80", True), ("b200", False), ("l4", True)):
        with card.taken_for(name):
            assert (lines_of("softmax", 16, "aligned") is own["softmax", 16, "aligned"]) is has_own, name
            assert lines_of("softmax", 32, "aligned") is first
            assert default_config("softmax", 16, 2048) is not None


def test_what_another_card_swept_takes_the_place_of_the_first_one_s_lengths(script):
    sweeps = {
        name: [json.loads((folder("h200") / "tune/softmax-aligned.json").read_text())] for name in ("h200", "h100")
    }
    (sweep,) = sweeps["h100"] = [
        sweeps["h100"][0] | {"sizes": [s for s in sweeps["h100"][0]["sizes"] if s["N"] == 4096]}
    ]
    sweep["sizes"] = [dict(size, candidates=size["candidates"][:1]) for size in sweep["sizes"]]
    made = {}
    exec(script.text(sweeps), made)
    of_h100, first = made["OTHERS"]["h100"]["softmax", 16, "aligned"], made["TABLES"]["softmax", 16, "aligned"]
    alone = of_fields("softmax", sweep["sizes"][0]["candidates"][0]["config"])
    (line,) = [named for limit, named in of_h100 if limit == 8192]
    assert Config(**line) == alone and [limit for limit, _ in of_h100][-1] == [limit for limit, _ in first][-1]
