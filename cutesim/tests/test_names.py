"""Names that no other test uses, each with an answer worked out by hand; and slips that the edge values found."""

import sys

import numpy as np
import pytest
from dsl import names as k
from real_compiler import compiler
from running import gives

from cutesim import NotSimulated, SimulationError
from cutesim.dialect import names as namespaces
from cutesim.simulation import simulate
from cutesim.trace import Op

X = np.arange(128, dtype=np.int32) * 70001 - 3
LANE = np.arange(32)
UNTOUCHED = np.full(128, -7, np.int32)


def overwritten(*values):
    """What is left of `UNTOUCHED` after its first elements were written."""
    out, values = UNTOUCHED.copy(), np.concatenate(values)
    out[: len(values)] = values
    return out


def test_a_kernel_that_may_start_early_waits_before_it_touches_global_memory():
    for options in ({"check": False}, {}, {"schedule": "reverse"}):
        for wait, use_pdl in (("all", True), ("", False)):
            out = UNTOUCHED.copy()
            assert simulate(k.launched_early, X, out, wait, use_pdl, **options).ok
            np.testing.assert_array_equal(out, overwritten(X[:32]))
        out = UNTOUCHED.copy()
        assert simulate(
            k.launched_early, X, out, "reads", **options
        ).ok  # a predicate keeps those off that have not waited
        np.testing.assert_array_equal(out[:32], np.where(np.arange(32) < 16, X[:32], 0))
    for wait, thread, count in (("", 0, 32), ("half", 16, 16)):
        (finding,) = simulate(k.launched_early, X, UNTOUCHED.copy(), wait).findings
        assert (finding.kind, finding.threads, finding.count) == ("early access", (thread,), count)
        with pytest.raises(SimulationError, match=f"thread {thread} of block 0 reads x before griddepcontrol_wait"):
            simulate(k.launched_early, X, UNTOUCHED.copy(), wait, check=False)


def test_one_may_wait_for_the_kernel_before_and_tell_the_others_at_a_barrier():
    for options in ({"check": False}, {}, {"schedule": "reverse"}, {"schedule": "seeded"}):
        out = UNTOUCHED.copy()
        assert simulate(k.one_launched_early, X, out, "block", **options).ok
        np.testing.assert_array_equal(out, overwritten(X[:64]))
    for how, schedule, thread, count in (
        ("warp", "forward", 32, 32),
        ("half", "forward", 16, 16),
        ("before", "reverse", 1, 31),
        ("twice", "reverse", 32, 32),
    ):
        (finding,) = simulate(k.one_launched_early, X, UNTOUCHED.copy(), how, schedule=schedule).findings
        assert (finding.kind, finding.threads, finding.count) == ("early access", (thread,), count), how
    (finding,) = simulate(k.one_launched_early, X, UNTOUCHED.copy(), "named").findings
    assert (finding.kind, finding.threads, finding.count) == ("divergent shuffle", (16,), 16)
    for how in ("warp", "half", "before"):
        with pytest.raises(
            SimulationError, match="before griddepcontrol_wait.*a thread that has waited at a block barrier"
        ):
            simulate(k.one_launched_early, X, UNTOUCHED.copy(), how, check=False)


def test_print_shows_once_however_many_threads_run(capsys):
    simulate(k.built_ins, X, UNTOUCHED.copy())
    assert capsys.readouterr().out == "traced\n"


def test_print_in_a_host_function_shows_every_time(capsys):
    simulate(k.counts_to_three)
    assert capsys.readouterr().out == "0\n1\n2\n"


def test_print_writes_a_line_in_one_piece(monkeypatch):
    written = []
    monkeypatch.setattr(sys.stdout, "write", written.append)
    simulate(k.prints_apart)
    assert written == ["a-1", "!\n", "b 2", "\n"]


def test_where_a_block_is_in_its_cluster():
    """A grid of 4 x 4 blocks in clusters of 2 x 2."""
    bx, by = np.arange(16) % 4, np.arange(16) // 4
    two, four = np.full(16, 2), np.full(16, 4)
    wanted = [bx % 2, by % 2, two, two, bx // 2, by // 2, two, two, four, by % 2 * 2 + bx % 2]
    gives(k.cluster_ids, wanted=wanted, dtype=np.int32)


def test_polling_an_mbarrier_that_nobody_arrives_at_is_reported():
    (finding,) = simulate(k.polls_for_ever, X, UNTOUCHED.copy(), max_steps=500).findings
    assert finding.kind == "endless"


@pytest.mark.parametrize("module", k.NOT_MODELLED)
def test_modules_that_may_only_be_imported(module):
    with pytest.raises(NotSimulated, match=r"not simulated: cutlass\.cute\.(core|runtime)\.anything"):
        # The real module has a name; what stands for it where the DSL is missing shows it.
        path = getattr(module, "__name__", None) or repr(module).strip("<>").split()[-1]
        namespaces.by_path(path).anything()


@pytest.mark.parametrize("name", ["flush", "shuffle_source", "_larger", "elect"])
def test_the_simulator_s_own_functions_are_not_the_dsl_s(name):
    assert name not in vars(namespaces.ARCH)


@pytest.mark.parametrize("width", [2, 4])
def test_an_atomic_of_a_vector_adds_its_elements(width):
    x = np.arange(32, dtype=np.float32)
    wanted = np.where(x < 8 * width, 4 * x + UNTOUCHED[0], UNTOUCHED[0])  # four lanes each
    run = gives(k.atomic_vectors(width), x, wanted=wanted)
    (row,) = run.trace.select(Op.ATOMIC)
    assert row["bytes"] == 4 * width


@pytest.mark.parametrize(
    ("width", "first", "words"),
    [(4, 1, "misaligned"), (4, 36, "out of bounds"), (3, 0, "atomic_add of 2 or 4 float32")],
)
def test_an_atomic_of_a_vector_is_as_strict_as_the_hardware(width, first, words):
    (finding,) = simulate(k.atomic_vectors(width, first), np.ones(32, np.float32), np.zeros(64, np.float32)).findings
    assert words in finding.message or finding.kind == words


def test_the_compiler_takes_them():
    ptx, torch = compiler()
    x, out = torch.from_numpy(X.copy()), torch.from_numpy(UNTOUCHED.copy())
    for name in ["polls_for_ever"]:
        assert ".entry" in ptx(getattr(k, name), x, out), name
    assert ".entry" in ptx(k.cluster_ids, torch.zeros(10, 16, dtype=torch.int32))
    for width in (2, 4):
        text = ptx(k.atomic_vectors(width), torch.zeros(32), torch.zeros(32))
        assert f"atom.global.add.v{width}.f32" in text


def test_an_enum_made_outside_a_kernel_is_known_by_where_it_is_defined():
    kind = type(pytest.importorskip("cutlass.cute").ReductionOp.ADD)
    found = namespaces.by_name(kind.__module__, kind.__name__)
    assert [str(getattr(found, name)) for name in ("ADD", "MUL", "MAX", "MIN")] == ["ADD", "MUL", "MAX", "MIN"]
