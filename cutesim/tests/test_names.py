"""Names that no other test uses, each with an answer worked out by hand; and slips that the edge values found."""

import ast
import sys
from pathlib import Path

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


# Parameters that change nothing here: function and parameter -> why.
HINTS = "how fast, which is not modelled"
UNREAD = {
    "mbarrier_try_wait_parity.time_limit": HINTS,
    "cp_async_bulk_tensor_shared_cta_global.l2_cache_hint": HINTS,
    "create_tensor_map_tiled.l2_promotion": HINTS,
    "div.fastmath": HINTS,
    "div.approx": HINTS,
    "div.full": HINTS,
    "FastDivmodDivisor.is_power_of_2": HINTS,
    "DynamicRange.unroll": HINTS,
    "DynamicRange.unroll_full": HINTS,
    "DynamicRange.prefetch_stages": HINTS,
    "atomic_max_float32.positive_only": "a promise: of negative numbers it is the maximum here",
    "MmaF16BF16Op.a_major_mode": "the operand's own layout has it",
    "MmaF16BF16Op.b_major_mode": "the operand's own layout has it",
    "sm90_get_smem_store_op.elem_ty_acc": "the other type says it",
    "producer_acquire.try_acquire_token": "waiting once more gives the same",
    "consumer_wait.try_wait_token": "waiting once more gives the same",
    "acquire.try_acquire_token": "waiting once more gives the same",
    "wait.try_wait_token": "waiting once more gives the same",
    "acquire_and_advance.try_acquire_token": "waiting once more gives the same",
    "wait_and_advance.try_wait_token": "waiting once more gives the same",
    "producer_commit.state": "the bytes arrive by themselves",
    "PipelineAsync.name": HINTS,
    "PipelineAsync.tidx": "the warp's own number says it",
    "PipelineTmaStore.producer_group": "a bulk group belongs to its thread",
    "pipeline_init_arrive.cluster_shape_mn": "the launch has it",
    "pipeline_init_wait.cluster_shape_mn": "the launch has it",
    "launch.stream": "launches come one after another",
    "fmin.results": "the operands have the type",
    "fmax.results": "the operands have the type",
    "extractvalue.result": "the struct has the type",
    **dict.fromkeys(
        "carries.names carries.values enter.names leave.names counters.before".split(), "all loops take the same"
    ),
}


def unread_parameters(source: str):
    """function.parameter of what a module's public functions and methods name and never read."""
    for scope in [tree := ast.parse(source), *(node for node in ast.walk(tree) if not isinstance(node, ast.Lambda))]:
        for node in ast.iter_child_nodes(scope):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") and node.name != "__init__":
                continue
            if isinstance(scope, ast.ClassDef) and node.name in ("__init__", "create"):
                owner = scope.name
            else:
                owner = node.name
            nodes = [name for part in node.body for name in ast.walk(part)]
            read = {name.id for name in nodes if isinstance(name, ast.Name)}
            named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            left = [one.arg for one in named if one.arg not in read | {"self", "cls", "loc", "ip"}]
            yield from (f"{owner}.{name}" for name in left)


def test_what_a_function_of_the_dialect_names_it_reads_or_refuses():
    """A parameter that is taken and ignored would make a kernel that relies on it clean."""
    here = Path(namespaces.__file__).parents[1]
    found = set()
    for file in [*here.glob("machine/*.py"), *here.glob("hopper/*.py"), *here.glob("dialect/*.py")]:
        found |= set(unread_parameters(file.read_text("utf-8")))
    assert found == set(UNREAD)


def test_a_kernel_that_may_start_early_waits_before_it_touches_global_memory():
    for options in ({"check": False}, {}, {"schedule": "reverse"}):
        for wait, use_pdl in (("all", True), ("", False)):
            out = UNTOUCHED.copy()
            assert simulate(k.launched_early, X, out, wait, use_pdl, **options).ok
            np.testing.assert_array_equal(out, overwritten(X[:32]))
        out = UNTOUCHED.copy()
        # A predicate keeps those off that have not waited.
        assert simulate(k.launched_early, X, out, "reads", **options).ok
        np.testing.assert_array_equal(out[:32], np.where(np.arange(32) < 16, X[:32], 0))
    for wait, thread, count in (("", 0, 32), ("half", 16, 16)):
        (finding,) = simulate(k.launched_early, X, UNTOUCHED.copy(), wait).findings
        assert (finding.kind, finding.threads, finding.count) == ("early access", (thread,), count)
        said = f"thread {thread} of block 0 reads x before griddepcontrol_wait"
        with pytest.raises(SimulationError, match=said):
            simulate(k.launched_early, X, UNTOUCHED.copy(), wait, check=False)


def test_one_may_wait_for_the_kernel_before_and_tell_the_others_at_a_barrier():
    for options in ({"check": False}, {}, {"schedule": "reverse"}, {"schedule": "seeded"}):
        out = UNTOUCHED.copy()
        assert simulate(k.one_launched_early, X, out, "block", **options).ok
        np.testing.assert_array_equal(out, overwritten(X[:64]))
    cases = (("warp", "forward", 32, 32), ("half", "forward", 16, 16))
    cases += (("before", "reverse", 1, 31), ("twice", "reverse", 32, 32))
    for how, schedule, thread, count in cases:
        (finding,) = simulate(k.one_launched_early, X, UNTOUCHED.copy(), how, schedule=schedule).findings
        found = (finding.kind, finding.threads, finding.count)
        assert found == ("early access", (thread,), count), how
    (finding,) = simulate(k.one_launched_early, X, UNTOUCHED.copy(), "named").findings
    assert (finding.kind, finding.threads, finding.count) == ("divergent shuffle", (16,), 16)
    for how in ("warp", "half", "before"):
        said = "before griddepcontrol_wait.*a thread that has waited at a block barrier"
        with pytest.raises(SimulationError, match=said):
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
    got = [str(getattr(found, name)) for name in ("ADD", "MUL", "MAX", "MIN")]
    assert got == ["ADD", "MUL", "MAX", "MIN"]
