"""What is found in the small kernels, and how it is said: reports.txt has kind, threads, guilty lines and words of each finding.

Of a kernel that is refused, by the language or as one that is not simulated, it has the words, which a fast run says too; of the
rules of order, which test_races judges, the words alone. `REPORTS=write pytest cutesim/tests/test_reports.py`
writes the file anew; read what has changed before it is committed.
"""

import copy
import re
from pathlib import Path

import numpy as np
import pytest
from dsl import eight_bits, found, hand_over, names, orders, others, published, python
from dsl.cluster import Exchange, pair
from rules import RULES
from test_bounds import REFUSED as OVERRUN
from test_faults import CASES as FAULTY
from test_inline_ptx import REFUSED as INLINE
from test_written import CORPORA

from cutesim import NotSimulated, SimulationError
from cutesim.simulation import simulate

FILE = Path(__file__).parent / "reports.txt"
X = np.arange(128, dtype=np.float32)


def floats(*shape):
    return np.zeros(shape, np.float32)


def ints(*shape):
    return np.zeros(shape, np.int32)


def filled(value):
    return np.full(32, value, np.float32)


FAULTS = "too many bytes|own rank missing|too few bytes|phase reused|no wait|no barrier between|no opening barrier|block gone"
ONE_WARP = """unwritten_register unwritten_slot init_twice past_the_buffer misses_a_phase register_out_of_bounds
    vector_to_boolean counts_from_the_end tile_past_the_end layout_past_the_end sums_a_tensor python_int_in_if
    float_in_loop len_of_a_tensor""".split()
STAGES = [
    *(
        (kind, fault)
        for kind in ("async", "cp.async", "bulk")
        for fault in (dict(releases=False), dict(early="release"))
    ),
    *((kind, dict(early="commit")) for kind in ("async", "cp.async")),
    *(("bulk", dict(handles=handles, meets=False)) for handles in (False, True)),
]
FENCES = ("before the barrier", "before the write", "after the flag", "")
CASES = [
    *FAULTY,
    *((Exchange(fault), X[1:5], floats(4, 2)) for fault in FAULTS.split("|")),
    (pair("not aligned"), X[:2], floats(2, 2)),
    *((getattr(found, name), X[:32], floats(32)) for name in ONE_WARP),
    (found.unwritten_and_written, floats(32), floats(32)),
    (found.two_counts(96), X[:64], floats(64)),
    (found.stored_and_read(True), X[:32], floats(32), floats(1)),
    (found.overwritten(False), X[:32], floats(32)),
    (found.ragged_sum, X[:40], floats(40)),
    *((kernel, X[:64], floats(64)) for kernel in (found.in_helpers, found.called_twice, found.barriers_apart)),
    (found.handover(forgets=True), ints(4), ints(4)),
    (found.greedy, floats(384), 40),
    *((hand_over.raised(word=word, release="cta"), ints(1), ints(32), ints(32)) for word in ("store", "exchange")),
    (hand_over.raised(acquire="cluster"), ints(1), ints(32), ints(32)),
    (hand_over.raised(sync=False), ints(1), ints(32), ints(32)),
    (hand_over.raised(order="relaxed"), ints(1), ints(32), ints(32)),
    (hand_over.count_each("cta"), ints(2)),
    (hand_over.count_each("cta", too_fast=True), ints(2)),
    (hand_over.told(scope=hand_over.primitives.MemScope.CTA), X[:32], floats(32)),
    *((hand_over.locked(**{side: False}), ints(1), ints(1)) for side in ("before", "after")),
    (hand_over.locked(stored=True), ints(1), ints(1)),
    *((hand_over.asked("noted", test), ints(32)) for test in (False, True)),
    (hand_over.counted_then_read(False), ints(1), ints(1)),
    *(
        (hand_over.row_each(**fault), floats(4, 32), floats(4, 32))
        for fault in (dict(arrivals=3), dict(nbytes=112), dict(one_row=True))
    ),
    *(
        (hand_over.placed(*place), ints(1))
        for place in (((1, 1, 1), (1, 1, 65)), ((1, 65536, 1), (1, 1, 1)), ((1, 1, 65536), (1, 1, 1)))
    ),
    *(
        (hand_over.peer(*fault), floats(2, 32), floats(2, 32))
        for fault in (("cluster_arrive_relaxed",), ("nothing",), ("cluster_arrive", 2))
    ),
    (others.half_arrive, floats(64)),
    *((others.stages(kind, **fault), floats(4, 32).T, floats(4, 32).T) for kind, fault in STAGES),
    (others.given_in_one_arm, ints(32)),
    (others.reads_the_peer(early=False), X[:32], floats(32)),
    *((others.flagged((fence, "after seeing it")), floats(64), ints(1), floats(64)) for fence in FENCES),
    (others.flagged(("before the flag", "after the other barrier")), floats(64), ints(1), floats(64)),
    (others.flagged(), floats(64), ints(1), floats(64)),
    (names.launched_early, ints(128), ints(128), ""),
    (names.polls_for_ever, ints(128), ints(128)),
    *((names.atomic_vectors(*places), X[:32], floats(64)) for places in ((4, 1), (4, 36), (3, 0))),
    (found.of_one_warp, floats(256), floats(256)),
    (found.acquired_by_one, X[:64], floats(64), ints(8), floats(64)),
    *((kernel, X[:32], floats(32)) for kernel in (found.arrives_early, found.unwritten_index)),
    *((kernel, X[:64], floats(64)) for kernel in (found.copies_unwritten, found.comes_twice)),
    (found.next_tile, ints(8), ints(8)),
    *(
        (orders.launched(kernel, 3), ints(128))
        for kernel in (orders.named_once, orders.waits_with_either, orders.counts_two_ways)
    ),
]
REFUSED = [
    *(
        (name, getattr(names, name), ints(128), ints(128))
        for name in ("arrives_unaligned", "arrives_unaligned_at_the_cluster")
    ),
    ("with_a_word_of_its_own", found.with_a_word_of_its_own, floats(32), floats(32)),
    ("flag_of_a_lane", found.flag_of_a_lane, floats(32)),
    ("told, relaxed", hand_over.told(relaxed=True), floats(32), floats(32)),
    ("hides_a_gap", published.hides_a_gap, ints(32)),
    *(("narrow", found.narrow, filled(value), ints(32)) for value in (128.0, -129.0, np.nan)),
    *(("narrow_vector", found.narrow_vector, filled(value), ints(32)) for value in (np.inf, 255.5, -1.0)),
    *(("warp_number", found.warp_number_of_lane_0, floats(128), floats(128), uniform) for uniform in (False, True)),
    *(
        (name, getattr(module, name), x, x)
        for module, x in CORPORA.items()
        for kind in ("REFUSED", "ONLY_WHEN_RUN", "MISTAKES", "LACKING")
        for name in getattr(module, kind, ())
    ),
    *INLINE,
    *OVERRUN,
    *((name, getattr(python, name), ints(1)) for name in python.LACKING),
    *((name, getattr(eight_bits, name), *np.zeros((2, 256), np.uint8)) for name in eight_bits.REFUSED),
    *(
        (name, getattr(python, name), np.resize(ints(4) + [0, 5, 12, 0], 32), ints(32), floats(32), ints(32))
        for name in (*python.REFUSED, *python.LACKING_OF_NUMBERS)
    ),
]


def placed(words, lines):
    """The words with each place in a file as the text that stands there."""
    texts = {line.where: line.text.strip() for line in lines}
    return re.sub(r"\w+[.]py:[0-9]+", lambda place: f"[{texts.get(place[0], 'a line')}]", words)


def told(run, finding):
    return placed(finding.message, (*(run.recorded.lines if run.recorded else ()), *finding.lines))


def briefly(finding, words):
    several = finding.threads or finding.count > 1
    threads = f", threads {finding.threads}, count {finding.count}" if several else ""
    return f"{finding.kind}{threads}, {words}"


def refusal(host, *arguments, check):
    """What is said of a kernel that is refused: the kind of the finding, or that it is not simulated, its line and the words."""
    try:
        run = simulate(host, *map(copy.copy, arguments), max_steps=2000, check=check)
        return [briefly(finding, told(run, finding)) for finding in run.findings]
    except SimulationError as error:
        return [briefly(error.finding, placed(str(error), error.finding.lines))]
    except NotSimulated as error:
        return [placed(str(error), [error.line] if error.line else [])]


def reports():
    for host, *arguments in CASES:
        yield getattr(host, "__name__", type(host).__name__)
        run = simulate(host, *arguments, max_steps=2000)
        for finding in run.findings:
            yield f"  {finding.kind}, threads {finding.threads}, count {finding.count}"
            yield from ("    " + line.text.strip() for line in finding.lines)
            yield "  " + told(run, finding)
    for name, host, *arguments in REFUSED:
        said, fast = (refusal(host, *arguments, check=check) for check in (True, False))
        yield from (f"{name}: {text}" for text in said)
        yield from (f"  in a fast run: {text}" for text in fast if fast != said)
    for name, (findings, _, found_in) in RULES.items():
        yield name
        yield from (f"  {findings(way)[0]}" for way in found_in)


def test_the_small_kernels_have_these_findings(snapshot):
    snapshot(reports(), FILE)


def test_who_reads_a_finding_of_a_kernel_that_was_mended_is_told_that_there_is_none():
    run = simulate(Exchange(), np.arange(4, dtype=np.float32), np.zeros((4, 2), np.float32))
    with pytest.raises(IndexError, match="this run has no findings"):
        run.findings[0]
    assert run.findings[:1] == ()
