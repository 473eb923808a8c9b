"""The real compiler, which is asked the same as the simulator: it needs no GPU, and is left out where it is not installed."""

import contextlib

import numpy as np
import pytest


def compiler():
    """(a function from a host function and its arguments, tensors of torch or numpy, to PTX; torch)."""
    pytest.importorskip("cutlass", reason="the CuTe DSL is not installed")
    torch = pytest.importorskip("torch", reason="compiling takes torch tensors")
    ptx = pytest.importorskip("quack_tutorial.compiler", reason="it compiles the kernels").ptx
    return lambda host, *given: ptx(
        host, *(torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in given)
    ), torch


def compiled(host, *arguments) -> str:
    return compiler()[0](host, *arguments)


@contextlib.contextmanager
def refused():
    """What is compiled here is refused: the DSL has several error classes, none of them documented."""
    with pytest.raises(Exception) as raised:
        yield
    assert not isinstance(raised.value, (AssertionError, ImportError))
