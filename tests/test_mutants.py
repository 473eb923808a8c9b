"""What becomes of a kernel when one of its steps is removed or altered, and the picture of it."""

import operator
import re

import numpy as np
import pytest
from dsl import broken_block

from cutesim import mutants
from quack_tutorial import figures
from quack_tutorial.kernels import reduce

X = np.random.default_rng(0).integers(-9, 9, (2, 512)).astype(np.float32)


def arguments():
    return X.copy(), np.full((2, 2), np.nan, np.float32)


@pytest.fixture(scope="module")
def cluster():
    return mutants.outcomes(reduce.ClusterReduce(operator.add, 0.0, 2, 64), arguments, reduce.cluster_reduce)


def test_a_helper_s_edits_are_tried_one_by_one(cluster):
    assert cluster.name == "cluster_reduce" and cluster.source[0] == "@cute.jit"
    said = {outcome.edit: outcome for outcome in cluster.outcomes}
    removed = "mbarrier_wait(mbar, phase) removed"
    wait = next(outcome for edit, outcome in said.items() if edit.endswith(removed))
    assert wait.found and "cute.arch.mbarrier_wait(mbar, phase)" in cluster.source[wait.line - 1]
    fewer = next(outcome for edit, outcome in said.items() if "- 4 bytes" in edit)
    assert fewer.found and "bytes" in fewer.said
    assert len(cluster.outcomes) >= 6 and sum(outcome.found for outcome in cluster.outcomes) >= 5


def test_without_its_barrier_the_block_races():
    broken = mutants.outcomes(
        broken_block.BlockSum(), lambda: (np.arange(128, dtype=np.float32), np.zeros(128, np.float32))
    )
    (barrier,) = [outcome for outcome in broken.outcomes if "barrier() removed" in outcome.edit]
    assert barrier.found and "Race" in barrier.said and "broken_block.py:" in barrier.said
    assert broken.source[barrier.line - 1].strip() == "cute.arch.barrier()"


TILED = """
class Tiled:
    @cute.kernel
    def kernel(self, mX, mO):
        tidx, _, _ = cute.arch.thread_idx()
        threads = cute.make_layout((2, 16), stride=(16, 1))
        values = cute.make_layout((2, 2))
        tiler, tv_layout = cute.make_layout_tv(threads, values)
        gX = cute.local_tile(mX, tiler, (row, 0))
        gO = cute.local_tile(mO, tiler, 0)
        tX = cute.composition(gX, tv_layout)
        count = 0
        for v in cutlass.range_constexpr(cute.size(tv_layout, mode=[1])):
            value = cutlass.Float32(0.0)
            if cutlass.const_expr(v > 0):
                count = 1
            if tX[tidx, v] > 0.0:
                value = tX[tidx, v]
            mO[tidx, 0, v] = value
"""


def test_mistakes_with_layouts_and_types_are_made_where_they_are_asked_for(tmp_path):
    path = tmp_path / "tiled.py"
    path.write_text(TILED)
    said = [(m.kind, m.edit) for m in mutants.mutants_of(str(path), mutants.LANGUAGE)]
    assert sorted(said) == [
        ("layout", "`(16, 1)` made `(1, 16)`"),
        ("layout", "`(2, 16)` made `(16, 2)`"),
        ("layout", "`cute.make_layout_tv(threads, values)` made `cute.make_layout_tv(values, threads)`"),
        ("layout", "the stride 16 made 17"),
        ("mode", "`(row, 0)` made `(0, row)`"),
        ("mode", "`mode=[1]` made `mode=[0]`"),
        ("mode", "`tX[tidx, v]` made `tX[v, tidx]`"),
        ("mode", "`tX[tidx, v]` made `tX[v, tidx]`"),
        ("type", "`cutlass.Float32(0.0)` made `0`"),
        ("type", "`value = cutlass.Float32(0.0)` removed"),
    ]
    assert {m.kind for m in mutants.mutants_of(str(path))} == {"predicate"}


def test_the_kernel_is_itself_again_afterwards(cluster):
    again = mutants.outcomes(reduce.ClusterReduce(operator.add, 0.0, 2, 64), arguments, reduce.cluster_reduce)
    assert again == cluster


def test_a_kernel_that_is_broken_already_is_refused():
    with pytest.raises(ValueError, match="the kernel to be broken is not clean itself"):
        mutants.outcomes(broken_block.BlockSum(), lambda: (np.zeros(64, np.float32), np.zeros(128, np.float32)))


def test_the_picture_has_every_line_and_opens_those_that_can_be_broken(cluster):
    html = figures.break_it(cluster)._repr_html_()
    lines = {outcome.line for outcome in cluster.outcomes}
    assert html.count("<summary") == len(lines) and html.count("<code>") == len(cluster.source)
    assert html.count("<dt>") == len(cluster.outcomes)
    assert "<script" not in html
    assert not re.search(r"<(?!/?(style|div|p|code|details|summary|dl|dt|dd)\b)", html)
    assert "cluster_reduce: what each edit of it leads to" in str(figures.break_it(cluster))
