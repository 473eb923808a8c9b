"""Methods of plain Python objects inside a dynamic `if` or loop: what the DSL refuses, the simulator refuses too."""

import cutlass.cute as cute
import numpy as np
import pytest

from quack_tutorial import compiler
from quack_tutorial.simulator import simulate


class Reader:
    """A plain Python object that a kernel has."""

    def first(self, mX):
        return mX[0, 0]


class Kernel:
    def __init__(self):
        self.reader = Reader()

    @cute.jit
    def __call__(self, mX):
        self.kernel(mX).launch(grid=[1, 1, 1], block=[32, 1, 1])


class OfALocal(Kernel):
    @cute.kernel
    def kernel(self, mX):
        reader, tidx = self.reader, cute.arch.thread_idx()[0]
        if tidx > 3:
            mX[0, tidx] = reader.first(mX)


class OfAParameter(Kernel):
    @cute.kernel
    def kernel(self, mX):
        write(self.reader, mX, cute.arch.thread_idx()[0])


@cute.jit
def write(reader, mX, tidx):
    for _ in range(tidx):
        mX[0, tidx] = reader.first(mX)


class OfSelf(Kernel):
    @cute.kernel
    def kernel(self, mX):
        tidx = cute.arch.thread_idx()[0]
        if tidx > 3:
            mX[0, tidx] = self.reader.first(mX)


class Before(Kernel):
    @cute.kernel
    def kernel(self, mX):
        reader, tidx = self.reader, cute.arch.thread_idx()[0]
        first = reader.first(mX)
        if tidx > 3:
            mX[0, tidx] = first


@pytest.mark.parametrize("made, refused", ((OfALocal, True), (OfAParameter, True), (OfSelf, False), (Before, False)))
def test_both_sides_agree(made, refused):
    run = simulate(made(), np.zeros((1, 64), np.float32))
    assert ["reader is a Python object" in str(finding) for finding in run.findings] == [True] * refused
    if compiler.dsl_problem():
        return
    spec = compiler.TensorSpec("float32", (1, 64), (64, 1), 16)
    if refused:
        with pytest.raises(Exception, match="plain Python value"):
            compiler.ptx(made(), spec)
    else:
        assert ".entry" in compiler.ptx(made(), spec)
