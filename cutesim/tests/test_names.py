"""Names that no other test uses, each with an answer worked out by hand; and slips that the edge values found."""

import sys

import numpy as np
import pytest
from dsl import names as k
from real_compiler import compiled, compiler, refused

from cutesim import NotSimulated, SimulationError
from cutesim.dialect import names as namespaces
from cutesim.simulation import simulate
from cutesim.trace import Op

X = np.arange(128, dtype=np.int32) * 70001 - 3
LANE = np.arange(32)
SUMS = LANE * (LANE - 1) // 2
UNTOUCHED = np.full(128, -7, np.int32)


def overwritten(*values):
    """What is left of `UNTOUCHED` after its first elements were written."""
    out, values = UNTOUCHED.copy(), np.concatenate(values)
    out[: len(values)] = values
    return out


def low_bits(numbers, width=32):
    """Python integers as int32, by their low bits."""
    return np.array([int(n) & (1 << width) - 1 for n in numbers], np.uint32).view(np.int32)


# name: what out (128,) holds afterwards
WANTED = {
    "unsigned_types": np.concatenate(
        [
            low_bits(X[:32], 8),
            low_bits(X[:32], 16),
            low_bits([(int(x) % (1 << 64)) // 3 for x in X[:32]]),  # -3 is 2^64 - 3 as Uint64
            2 * X[:32] + 1,
        ]
    ),
    "loops_and_conditions": overwritten(SUMS + 100 * (LANE < 8)),
    "old_range": overwritten(SUMS),
    "built_ins": overwritten(
        abs(X[:32] - LANE) + 5003 + 1000 * ((LANE < 3) | (LANE > 30)) + 2000 * ((LANE > 3) & (LANE < 8))
    ),
    "annotations": overwritten(2 * LANE + 21),
    "vectors": overwritten(X[:4] + 1, [0] * 4, [8] * 4, [32]),
    "predicated": overwritten(X[:5]),
    "recast": overwritten(X[:32].view(np.int16)[::2]),
    "recast_registers": overwritten(
        np.where(LANE % 2 == 0, low_bits([int(x) << 16 | (int(x) >> 16 & 0xFFFF) for x in X[:32]]), X[32:64]),
        LANE.astype(np.float32).view(np.int32),
        np.where(LANE < 16, LANE, 2),
    ),
    "copy_operations": overwritten(X[31::-1]),
    "tiled_by_layout": overwritten(X[:64]),
    "without_effect": overwritten(X[:32]),
    "expected_apart": X,
    "polled": overwritten(X[31::-1]),
}


@pytest.mark.parametrize("name", WANTED)
def test_a_name_does_what_it_says(name):
    for options in ({"check": False}, {}, {"schedule": "reverse"}, {"schedule": "seeded"}):
        out = UNTOUCHED.copy()
        run = simulate(getattr(k, name), X.copy(), out, **options)
        assert run.ok, run
        np.testing.assert_array_equal(out, WANTED[name])


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


def test_address_spaces_and_hints():
    out = UNTOUCHED.copy()
    assert simulate(k.Spaces(), X, out).ok
    np.testing.assert_array_equal(out, overwritten(X[:32] + 700))


@pytest.mark.parametrize("check", [False, True])
def test_where_a_block_is_in_its_cluster(check):
    """A grid of 4 x 4 blocks in clusters of 2 x 2."""
    out = np.full((10, 16), -7, np.int32)
    assert simulate(k.cluster_ids, out, check=check).ok
    bx, by = np.arange(16) % 4, np.arange(16) // 4
    two, four = np.full(16, 2), np.full(16, 4)
    wanted = [bx % 2, by % 2, two, two, bx // 2, by // 2, two, two, four, by % 2 * 2 + bx % 2]
    np.testing.assert_array_equal(out, wanted)


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


def test_what_the_compiler_refuses_is_refused():
    floats = X.astype(np.float32)
    (finding,) = simulate(k.atomic_max_of_floats, floats, floats.copy()).findings
    assert "atomic_max takes integers, not Float32" in finding.message
    (finding,) = simulate(k.largest_of_integers, X, UNTOUCHED.copy()).findings
    assert "the DSL refuses reduce(MAX) of Int32" in finding.message


@pytest.mark.parametrize("width", [2, 4])
def test_an_atomic_of_a_vector_adds_its_elements(width):
    x, out = np.arange(32, dtype=np.float32), np.ones(32, np.float32)
    run = simulate(k.atomic_vectors(width), x, out)
    assert run.ok
    wanted = np.where(np.arange(32) < 8 * width, 4 * x + 1, 1)  # four lanes each
    np.testing.assert_array_equal(out, wanted)
    (row,) = run.trace.select(Op.ATOMIC)
    assert row["bytes"] == 4 * width


@pytest.mark.parametrize(
    ("width", "first", "words"),
    [(4, 1, "misaligned"), (4, 36, "out of bounds"), (3, 0, "atomic_add of 2 or 4 float32")],
)
def test_an_atomic_of_a_vector_is_as_strict_as_the_hardware(width, first, words):
    (finding,) = simulate(k.atomic_vectors(width, first), np.ones(32, np.float32), np.zeros(64, np.float32)).findings
    assert words in finding.message or finding.kind == words


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # range_dynamic, cutlass.utils.SmemAllocator
def test_the_compiler_takes_them():
    ptx, torch = compiler()
    x, out = torch.from_numpy(X.copy()), torch.from_numpy(UNTOUCHED.copy())
    for name in [*WANTED, "polls_for_ever"]:
        assert ".entry" in ptx(getattr(k, name), x, out), name
    assert ".entry" in ptx(k.Spaces(), x, out)
    assert ".entry" in ptx(k.cluster_ids, torch.zeros(10, 16, dtype=torch.int32))
    for width in (2, 4):
        text = ptx(k.atomic_vectors(width), torch.zeros(32), torch.zeros(32))
        assert f"atom.global.add.v{width}.f32" in text


@pytest.mark.parametrize(("name", "dtype"), [("atomic_max_of_floats", "float32"), ("largest_of_integers", "int32")])
def test_the_compiler_refuses_them(name, dtype):
    with refused():
        compiled(getattr(k, name), *np.zeros((2, 128), dtype))


def test_an_enum_made_outside_a_kernel_is_known_by_where_it_is_defined():
    kind = type(pytest.importorskip("cutlass.cute").ReductionOp.ADD)
    found = namespaces.by_name(kind.__module__, kind.__name__)
    assert [str(getattr(found, name)) for name in ("ADD", "MUL", "MAX", "MIN")] == ["ADD", "MUL", "MAX", "MIN"]
