"""Every operation of the table on the CPU: its inputs, torch's providers and formulas, and what counts as wrong."""

import functools
import inspect
import re

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from bench import correctness, ours, peers
from bench.peers import PROVIDERS
from quack_tutorial import card, compiler, operations
from quack_tutorial.operations import OPERATIONS, cross_entropy, our_launches
from quack_tutorial.records import cells

M, N = 24, 96


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr("quack_tutorial.operations.operation.DEVICE", "cpu")
    torch.manual_seed(0)


def error(name, inputs, outputs):
    return correctness.error_of(OPERATIONS[name], inputs, outputs, seed=1)


def test_the_bytes_of_inputs_are_known(monkeypatch):
    """Within what a weight has: a cell that goes round as many inputs as `timing` asks for is not taken for one of too few."""
    monkeypatch.setattr("quack_tutorial.operations.operation.DEVICE", "meta")
    for name, operation in OPERATIONS.items():
        for key in cells.expected_cells(name):
            nbytes = sum(t.numel() * t.element_size() for t in operation.inputs(key.M, key.N, key.dtype))
            assert 0.999 * nbytes < cells.bytes_read(key) <= nbytes, key


@pytest.mark.parametrize("dtype", cells.DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_formula_and_torch_s_own_are_right(name, dtype):
    inputs = OPERATIONS[name].inputs(M, N, dtype)
    assert inputs[0].shape == (M, N) and inputs[0].dtype == getattr(torch, dtype)
    outputs = OPERATIONS[name].formula(*inputs)
    assert error(name, inputs, outputs) <= 1
    with torch.no_grad():  # as in the worker
        call = PROVIDERS[name]["eager"](*inputs)
        if hasattr(call, "prepare"):
            call.prepare(*inputs)
        # On a CPU torch adds up the gradients of LayerNorm's weight and bias in their own type.
        slack = (
            100
            if (name, dtype != "float32") == ("layernorm backward", True)
            else correctness.PEER_SLACK_OF.get(name, correctness.PEER_SLACK)
        )
        for _ in range(2):  # a backward pass must be able to run again
            assert error(name, inputs, call(*inputs)) <= slack


@pytest.mark.parametrize("name", OPERATIONS)
def test_one_wrong_element_of_any_output_is_found(name):
    inputs = OPERATIONS[name].inputs(M, N, "float32")
    outputs = correctness.as_tuple(OPERATIONS[name].formula(*inputs))
    for output in outputs:
        kept = output.clone()
        first = kept.flatten()[0]
        # Bits of float8.
        for wrong in (1.01 * first, float("nan")) if kept.is_floating_point() else (first ^ 8, 127):
            output.view(-1)[0] = wrong
            assert error(name, inputs, outputs) > correctness.PEER_SLACK
            output.copy_(kept)
    assert error(name, inputs, outputs) <= 1


@pytest.mark.parametrize("name", OPERATIONS)
def test_bytes_are_those_of_the_matrices_and_of_nothing_else_that_grows_with_both_dimensions(name):
    N = 192  # more than any k of top-k
    operation, inputs = OPERATIONS[name], OPERATIONS[name].inputs(M, N, "float32")
    tensors = *inputs, *correctness.as_tuple(operation.formula(*inputs))
    of_matrices, of_rows = (
        sum(t.numel() * t.element_size() for t in tensors if t.shape[:1] == (M,) and (t.shape == (M, N)) == whole)
        for whole in (True, False)
    )
    assert operation.bytes(M, N, 4) - of_matrices in (0, of_rows)
    of_pattern = sum(map(int, re.findall(r"\d", operation.pattern))) * M * N * 4
    assert of_pattern + sum(t.numel() for t in tensors if t.dtype.itemsize == 1) == of_matrices


def test_words_of_the_command_line_name_operations():
    found = operations.named("rmsnorm-backward")
    assert found == operations.named("rmsnorm backward") == "rmsnorm backward"
    assert operations.slug("cross-entropy fused") == "cross-entropy-fused"
    said = "operation 'groupnorm' is not one of copy, softmax, softmax-backward, rmsnorm"
    with pytest.raises(ValueError, match=said):
        operations.named("groupnorm")


def test_liger_s_fused_kernel_runs_on_copies(monkeypatch):
    def over_the_logits(x, target, gradients):
        loss, dx = cross_entropy.formula_fused(x, target)
        x.copy_(dx)
        return loss

    monkeypatch.setattr(peers.cross_entropy, "_launch_liger", over_the_logits)
    inputs = OPERATIONS["cross-entropy fused"].inputs(M, N, "float32")
    kept = inputs[0].clone()
    call = PROVIDERS["cross-entropy fused"]["liger"](*inputs)
    call.prepare(*inputs)
    call(*inputs), call(*inputs)
    assert torch.equal(inputs[0], kept)
    assert error("cross-entropy fused", inputs, call.fresh(*inputs)) <= 1


def test_the_quickest_plan_is_taken_and_those_that_refuse_are_passed_over(monkeypatch):
    times = {"a": 3.0, "b": 1.0, "c": 2.0}
    monkeypatch.setattr(peers.setups, "_rough_ms", lambda call, inputs: times[call])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def refuse():
        raise RuntimeError("not supported")

    makers = [refuse, *((lambda name=name: name) for name in times)]
    assert peers.setups.quickest(makers, ()) == "b"
    with pytest.raises(RuntimeError, match="not supported"):
        peers.setups.quickest([refuse], ())


# Ours ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def dsl():
    if compiler.dsl_problem():
        pytest.skip(f"our kernels cannot be set up to see what they are compiled for: {compiler.dsl_problem()}")


def all_ours():
    return [(name, provider) for name in OPERATIONS for provider in ("ours", *OPERATIONS[name].ladder)]


@pytest.mark.parametrize("rows", ["aligned", "congruent"])
@pytest.mark.parametrize("name, provider", all_ours())
def test_tensors_are_what_the_kernels_are_compiled_for(dsl, monkeypatch, name, provider, rows):
    monkeypatch.setattr(our_launches, "clusters_at_once", lambda device, blocks: 4)
    inputs = OPERATIONS[name].inputs(M, N, "bfloat16")
    if rows == "congruent":
        inputs = tuple(apart(tensor) if tensor.dim() == 2 else tensor for tensor in inputs)
    r = our_launches.rows_of(inputs[0])
    assert r == our_launches.Rows("bfloat16", N, rows, card.selected())
    launches = ours.kernels(name, provider, r)
    seen = []
    launch = [functools.partial(FakeLaunch, seen, kernel, specs) for kernel, specs in launches]
    for fake, (kernel, _) in zip(launch, launches, strict=True):
        fake.kernel = kernel
    ours.row_of(name, provider).run(launch, *inputs)
    assert seen == [kernel for kernel, _ in launches]


def apart(tensor):
    """The same numbers in rows one element further apart, so that they start at odd addresses."""
    wider = torch.empty(tensor.shape[0], tensor.shape[1] + 1, dtype=tensor.dtype)
    wider[:, :-1] = tensor
    return wider[:, :-1]


def FakeLaunch(seen, kernel, specs, *args):
    """Compares what is launched with what it was compiled for."""
    every = inspect.signature(type(kernel).__call__).parameters
    parameters = [name for name in every if name not in ("self", "stream")]
    assert len(specs) == len(args) == len(parameters), type(kernel).__name__
    sizes = {}
    for spec, arg, name in zip(specs, args, parameters, strict=True):
        if not isinstance(spec, compiler.TensorSpec):
            assert spec == arg and not hasattr(arg, "data_ptr"), name
            continue
        assert str(arg.dtype) == f"torch.{spec.dtype}", name
        for said, is_so in zip((*spec.shape, *spec.stride), (*arg.shape, *arg.stride()), strict=True):
            known = sizes.setdefault(said, is_so) if isinstance(said, str) else said
            assert known == is_so, (name, said)
        every = zip(spec.stride, arg.stride(), strict=True)
        steps = [s for said, s in every if isinstance(said, str)]
        assert all(step * arg.element_size() % spec.align == 0 for step in steps)
        assert arg.data_ptr() % spec.align == 0
    seen.append(kernel)


def test_a_hash_of_several_kernels_changes_with_any(monkeypatch):
    one = ours.ptx_sha256([".entry a"])
    assert one == compiler.ptx_hash(".entry a")
    both = ours.ptx_sha256([".entry a\nadd;", ".entry b\nmul;"])
    assert len(both) == 64 and both != ours.ptx_sha256([".entry a\nadd;", ".entry b\nsub;"])
    assert both != ours.ptx_sha256([".entry a\nadd;"])
