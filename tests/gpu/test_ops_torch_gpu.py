"""What torch does around an operation, on a GPU; and what only goes wrong in a process that has done nothing else."""

import os

import pytest
from running import python

torch = pytest.importorskip("torch")

from quack_tutorial import compiler
from tests.test_ops_torch import *  # noqa: F403

_problem = compiler.dsl_problem() or compiler.gpu_problem(least=compiler.CLUSTERS)
if _problem:
    pytest.skip(f"needs a Hopper GPU and CuTe DSL: {_problem}", allow_module_level=True)

pytestmark = [pytest.mark.gpu]


@pytest.fixture
def device():
    return "cuda"


BEGIN = """
import threading, torch
from quack_tutorial import ops
x, w = (torch.randn(*shape, device="cuda", requires_grad=True) for shape in ((8, {N}), ({N},)))
dy = torch.randn(8, {N}, device="cuda")
"""
FIRST_BACKWARD = {
    "rmsnorm": "ops.rmsnorm(x, w, eps=1e-6).backward(dy)",
    "rmsnorm of a sum": "ops.rmsnorm(x, w, residual=torch.randn_like(x))[0].backward(dy)",
    "layernorm": "ops.layernorm(x, w, w).backward(dy)",
    "autograd.grad": "torch.autograd.grad(ops.rmsnorm(x, w), (x, w), dy)",
}
RIGHT = """
wanted = torch.autograd.grad(torch.nn.functional.rms_norm(x, w.shape, w, 1e-6), x, dy)[0]
torch.testing.assert_close(x.grad, wanted, atol=1e-4, rtol=1e-3)
"""


def run_alone(program):
    """A process of its own, in which every kernel is compiled."""
    every = os.environ.items()
    environment = {name: value for name, value in every if name != "QUACK_TUTORIAL_CACHE"}
    done = python("-c", program, env=environment)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"


@pytest.mark.parametrize("N", (8192, 32768))
@pytest.mark.parametrize("call", FIRST_BACKWARD)
def test_a_backward_with_clusters_may_be_the_first_work_of_autograd_s_thread(call, N):
    run_alone(BEGIN.format(N=N) + FIRST_BACKWARD[call] + (RIGHT if call == "rmsnorm" else ""))


TOGETHER = """
def work():
    try:
        loss = ops.cross_entropy(ops.rmsnorm(ops.softmax(x), w, eps=1e-6), torch.arange(8, device="cuda"))
        found.append(torch.autograd.grad(loss, (x, w)))
    except BaseException as error:
        found.append(error)
found, threads = [], [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
torch.cuda.synchronize()
wrong = [error for error in found if isinstance(error, BaseException)]
assert not wrong and len(found) == 4, wrong
for one in found: assert torch.equal(one[0], found[0][0]) and torch.equal(one[1], found[0][1])
"""


@pytest.mark.parametrize("N", (1000, 1024, 8192))
def test_the_first_calls_of_a_size_may_be_several_threads(N):
    run_alone(BEGIN.format(N=N) + TOGETHER)
