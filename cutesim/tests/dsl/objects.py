"""Kernels that call methods of plain Python objects, for test_objects_in_dynamic_code.py."""

from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute


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


class OfAString(Kernel):
    @cute.kernel
    def kernel(self, mX):
        reader, tidx = "abc", cute.arch.thread_idx()[0]
        if tidx > 3:
            mX[0, tidx] = cutlass.Float32(len(reader.upper()))


class Place(NamedTuple):
    row: Any
    column: Any


class OfATuple(Kernel):
    """A tuple with named fields, made anew in a loop and in a branch, keeps its names behind them."""

    @cute.kernel
    def kernel(self, mX):
        tidx, _, _ = cute.arch.thread_idx()
        place = Place(0, tidx)
        for turn in range(tidx):
            place = Place(0, turn)
        if tidx > 3:
            place = Place(0, tidx)
        mX[place.row, place.column] = mX.element_type(1.0)
