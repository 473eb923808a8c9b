"""The census of published kernels: what it follows, what it counts, and that a missing name is found with its line."""

import zipfile

import pytest

from validation import census, others

SOURCE = """
import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import tcgen05
from .helpers import Base, shared


def helper(x):
    return cute.arch.surely_not_there(x)


class Clean(Base):
    @cute.kernel
    def kernel(self, x: cute.Tensor):
        self.step(x)
        cute.arch.barrier()


class Lacking(Base):
    @cute.kernel
    def kernel(self, x: cute.Tensor):
        helper(x)
        shared(x)
        self.inherited(x)


@cute.kernel
def newer(x: cute.Tensor):
    tcgen05.commit(x)
"""
HELPERS = """
import cutlass.cute as cute
from cutlass import nor_this


def shared(x):
    nor_this(x)


class Base:
    def step(self, x):
        cute.arch.sync_warp()

    def inherited(self, x):
        cute.also_missing(x)
"""


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "somebodys_kernels-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("somebodys/kernels.py", SOURCE)
        archive.writestr("somebodys/helpers.py", HELPERS)
        archive.writestr("somebodys/cutlass/python/CuTeDSL/own.py", "import cutlass.cute as cute\n")
    return path


def test_gaps_are_found_through_functions_modules_and_base_classes(wheel):
    folder = others.unpacked(wheel)
    assert not list(folder.rglob("own.py")), "the DSL's own sources are left in the wheel"
    found = {kernel.name: kernel for kernel in census.kernels(folder)}
    assert sorted(found) == ["Clean.kernel", "Lacking.kernel", "newer"]
    assert found["Clean.kernel"].lacking == [] and not found["Clean.kernel"].is_newer
    gaps = dict(found["Lacking.kernel"].lacking)
    assert set(gaps) == {"cutlass.cute.arch.surely_not_there", "cutlass.nor_this", "cutlass.cute.also_missing"}
    assert gaps["cutlass.cute.arch.surely_not_there"] == "kernels.py:9"
    assert found["newer"].is_newer


def test_a_package_s_row_counts_hopper_s_kernels(wheel, monkeypatch):
    monkeypatch.setattr(others, "PACKAGES", ("somebodys-kernels", "gone"))
    monkeypatch.setattr(others, "fetched", lambda package, folder: wheel if package != "gone" else None)
    suite = others.run(False, lambda what: None)
    first, total = suite.rows
    assert first[:5] == ("somebodys-kernels 1.2", 3, 2, 1, "50 %") and "nor_this (1)" in first[5]
    assert total[1:5] == (3, 2, 1, "50 %") and suite.notes == ("gone: the index has no wheel for this machine",)
