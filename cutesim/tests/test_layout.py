"""Layouts against two independent answers: brute force, and CuTe DSL itself.

CASES is one table for two systems: each expression is evaluated with our functions and, where CuTe DSL is installed,
with its functions of the same names; both must print the same text.
"""

import itertools
import types
from pathlib import Path

import numpy as np
import pytest

from cutesim.layouts import layout as la
from cutesim.layouts import layout_algebra as algebra

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
assume, given, settings = hypothesis.assume, hypothesis.given, hypothesis.settings
st = hypothesis.strategies

# An expression -> what it prints; `cute` is our functions or CuTe DSL's, L is make_layout, I is make_identity_layout.
CASES = """
# construction
L(4) -> 4:1
L((4,)) -> (4):(1)
L(()) -> ():()
L((1, 4, 1)) -> (1,4,1):(0,1,0)
L(((2, 3), 4), stride=((4, 8), 1)) -> ((2,3),4):((4,8),1)
L((L((4, 5)), L(3, stride=0))) -> ((4,5),3):((1,4),0)
L((2, 3), stride=(cute.E([0]), cute.E([1]) * 4)) -> (2,3):(1@0,4@1)
L((2, 3), stride=(cute.E([1, 0]), cute.E([1, 1]))) -> (2,3):(1@0@1,1@1@1)
I((4, (2, 3))) -> (4,(2,3)):(1@0,(1@0@1,1@1@1))
I(8) -> 8:1
I((8,)) -> (8):(1@0)
cute.make_ordered_layout(((2, 3), (4, 5)), order=((1, 0), (3, 2))) -> ((2,3),(4,5)):((3,1),(30,6))
cute.make_ordered_layout(((2, 3), 4), order=(1, 0)) -> ((2,3),4):((4,8),1)
cute.make_ordered_layout((1, 8, 4), order=(1, 0, 2)) -> (1,8,4):(0,1,8)
cute.make_ordered_layout((2, 3), order=(5, 2)) -> (2,3):(3,1)
# coordinates and parts
cute.crd2idx((1, 5), L((2, (3, 4)), stride=(1, (2, 10)))) -> 15
cute.crd2idx((1, 15), L((2, (3, 4)), stride=(1, (2, 10)))) -> 51
cute.crd2idx(7, L((2, (3, 4)), stride=(1, (2, 10)))) -> 11
cute.crd2idx((1, 5), (2, (3, 4))) -> 11
cute.idx2crd(5, (2, (3, 4))) -> (1, (2, 0))
cute.idx2crd(100, (2, (3, 4))) -> (0, (2, 16))
cute.idx2crd((1, 5), (2, (3, 4))) -> (1, (2, 1))
I((16, 64))((3, 5)) -> (3, 5)
L((8, 4), stride=(cute.E(1), cute.E(1) * 2))((1, 2)) -> (0, 5)
L((8, 4), stride=(cute.E([0, 1]), cute.E(1) * 2))((1, 2)) -> ((0, 1), 4)
L((16, 64), stride=(64, 1))[0] -> 16:64
cute.get(L((2, (3, 4))), mode=[1]) -> (3,4):(2,6)
cute.select(L((2, 3, 4, 5)), mode=[0, 2]) -> (2,4):(1,6)
cute.slice_(L(((2, 3), 4)), ((1, None), None)) -> (3,4):(2,6)
cute.slice_(L(((2, 3), 4)), ((1, None), 2)) -> (3):(2)
cute.slice_(L(((2, (3, 7)), 4)), ((0, (None, 1)), None)) -> (3,4):(2,42)
cute.slice_(L(((2, 3), 4)), (5, None)) -> (4):(6)
cute.slice_(L((4, 5)), (1, 2)) -> ():()
cute.slice_((2, 3, (4, 5)), (None, 0, (0, None))) -> (2, 5)
cute.dice(L((2, (3, 4))), (1, (None, 1))) -> (2,4):(1,6)
cute.dice((2, 3, (4, 5)), (None, 1, (1, None))) -> (3, 4)
cute.dice((None, 2), L((4, 8))) -> (None, 2)
cute.dice(1, 4) -> 1
L(((2, 3), 4))((None, 1)) -> ((2,3)):((1,2))
# arithmetic on shapes
cute.ceil_div((10, 20), (4, 8)) -> (3, 3)
cute.ceil_div((10, 20), (4,)) -> (3, 20)
cute.ceil_div((10, 5), 3) -> 17
cute.ceil_div(((10, 5), 20), ((4, 2), 8)) -> ((3, 3), 3)
cute.round_up(10, 4) -> 12
cute.round_up((10, 20), (4,)) -> (12, 20)
cute.round_up(((10, 5), 20), ((4, 2), 8)) -> ((12, 6), 24)
cute.shape_div((6, 4), 12) -> (1, 2)
cute.shape_div((6, 4), (3, 4)) -> (2, 1)
cute.shape_div(24, (2, 3)) -> 4
cute.shape_div(3, 6) -> 1
cute.product_each(((2, 3), 4)) -> (6, 4)
cute.size((2, (3, 4)), mode=[1]) -> 12
cute.cosize(L((4, 8), stride=(-1, 3))) -> 25
cute.rank((2, (3, 4)), mode=[1]) -> 2
cute.depth(I((4, (2, 3)))) -> 2
cute.is_congruent(L((16, 64)), (1, (2, 3))) -> False
# rearranged
cute.flatten(L(((2, 3), (4,)))) -> (2,3,4):(1,2,6)
cute.flatten(4) -> 4
cute.group_modes(L((2, 3, 4, 5)), 1) -> (2,(3,4,5)):(1,(2,6,24))
cute.group_modes(L((2, 3, 4, 5)), 1, -1) -> (2,(3,4),5):(1,(2,6),24)
cute.group_modes((2, 3, 4, 5), 0, 2) -> ((2, 3), 4, 5)
cute.append(L((2, 3)), L(5, stride=7)) -> (2,3,5):(1,2,7)
cute.append((2, 3), 5, up_to_rank=4) -> (2, 3, 5, 5)
cute.prepend(L((2, 3)), L(1, stride=0), up_to_rank=4) -> (1,1,2,3):(0,0,1,2)
cute.coalesce(L((2, (1, 6)), stride=(1, (6, 2)))) -> 12:1
cute.coalesce(L((1, 1), stride=(5, 7))) -> 1:0
cute.coalesce(L((2, (1, 6)), stride=(1, (6, 2))), target_profile=(1, 1)) -> (2,6):(1,2)
cute.coalesce(L((4, 8), stride=(0, 0))) -> 32:0
cute.coalesce(L((2, 3), stride=(cute.E([0]), cute.E([0]) * 2))) -> 6:1@0
# composition; the first two are worked examples of NVIDIA's layout algebra page
cute.composition(L((6, 2), stride=(8, 2)), L((4, 3), stride=(3, 1))) -> ((2,2),3):((24,2),8)
cute.composition(L((10, 2), stride=(16, 4)), L((5, 4), stride=(1, 5))) -> (5,(2,2)):(16,(80,4))
cute.composition(L((4, 2), stride=(1, 8)), L((4, 8), stride=(0, 1))) -> (4,(4,2)):(0,(1,8))
cute.composition(L((4, 8), stride=(8, 1)), L((1, 8), stride=(3, 4))) -> (1,8):(1,1)
cute.composition(L((12, (4, 8)), stride=(59, (13, 1))), (L(3, stride=4), L(8, stride=2))) -> (3,(2,4)):(236,(26,1))
cute.composition(L((12, (4, 8)), stride=(59, (13, 1))), (3, None)) -> (3,(4,8)):(59,(13,1))
cute.composition(L((12, (4, 8)), stride=(59, (13, 1))), (3,)) -> (3):(59)
cute.composition(L(((4, 4), 64)), ((2, None), 8)) -> ((2,4),8):((1,4),16)
cute.composition(L((12, (4, 8)), stride=(59, (13, 1))), 6) -> 6:59
cute.composition(I((16, 64)), L((32, 8), stride=(8, 1))) -> ((2,16),8):((8@0,1@1),1@0)
cute.composition(I((16, 64)), L((4, 8), stride=(0, 16))) -> (4,8):(0,1@1)
cute.composition(L((16, 64), stride=(64, 1)), L((4, 8), stride=(cute.E([1]) * 8, cute.E([0]) * 2))) -> (4,8):(8,128)
# past the end, the last mode goes on
cute.composition(L(4, stride=3), L(20)) -> 20:3
cute.composition(L(1, stride=5), L(4)) -> 4:5
cute.composition(L((4, 1), stride=(1, 100)), L(8)) -> (4,2):(1,100)
# complement and inverses
cute.complement(L(4), 24) -> 6:4
cute.complement(L((2, 2), stride=(1, 6)), 24) -> (3,2):(2,12)
cute.complement(L((4, 6)), 24) -> 1:0
cute.complement(L(4), 30) -> 8:4
cute.complement(L((4, 2), stride=(0, 1)), 8) -> 4:2
cute.complement(L(4), (4, 3)) -> 3:4
cute.right_inverse(L((4, 8), stride=(8, 1))) -> (8,4):(4,1)
cute.right_inverse(L((4, 8), stride=(16, 2))) -> 1:0
cute.right_inverse(L((5, 6, 6, 6), stride=(6, 4, 3, 1))) -> (6,5):(180,1)
cute.left_inverse(L((4, 8), stride=(16, 2))) -> (2,8,4):(0,4,1)
cute.left_inverse(L((2, 4), stride=(0, 1))) -> 4:2
# divides
cute.logical_divide(L((16, 64), stride=(64, 1)), (4, 8)) -> ((4,4),(8,8)):((64,256),(1,8))
cute.logical_divide(L((16, 64), stride=(64, 1)), L((4, 8))) -> ((4,(4,2)),32):((64,(256,1)),2)
cute.logical_divide(L((16, 64), stride=(64, 1)), (4, None)) -> ((4,4),64):((64,256),1)
cute.logical_divide(L((16, 64), stride=(64, 1)), 4) -> (4,(4,64)):(64,(256,1))
cute.logical_divide(L(12), L(4, stride=5)) -> (4,5):(5,1)
cute.zipped_divide(L((16, 64, 3)), (4, 8)) -> ((4,8),(4,8,3)):((1,16),(4,128,1024))
cute.zipped_divide(L((16, 64)), (L(4, stride=2), L((2, 4)))) -> ((4,(2,4)),((2,2),8)):((2,(16,32)),((1,8),128))
cute.zipped_divide(L(((4, 4), 64)), ((2, 2), 8)) -> (((2,2),8),((2,2),8)):(((1,4),16),((2,8),128))
cute.zipped_divide(L((1, 64), stride=(64, 1)), (1, 8)) -> ((1,8),(1,8)):((0,1),(0,8))
cute.tiled_divide(L((16, 64), stride=(64, 1)), (4, 8)) -> ((4,8),4,8):((64,1),256,8)
cute.flat_divide(I((16, 64)), (4, 8)) -> (4,8,4,8):(1@0,1@1,4@0,8@1)
# ragged
cute.zipped_divide(L((10, 30), stride=(30, 1)), (4, 8)) -> ((4,8),(3,4)):((30,1),(120,8))
cute.zipped_divide(I((10, 30)), (4, 8)) -> ((4,8),(3,4)):((1@0,1@1),(4@0,8@1))
cute.zipped_divide(I((1, 5)), (4, 8)) -> ((4,8),(1,1)):((1@0,1@1),(0,0))
cute.logical_divide(L(30), L((2, 2), stride=(1, 8))) -> ((2,2),(4,2)):((1,8),(2,16))
# products
cute.logical_product(L((2, 4), stride=(4, 1)), L((3, 5))) -> ((2,4),(3,5)):((4,1),(8,24))
cute.logical_product(L((2, 2), stride=(4, 1)), L(6)) -> ((2,2),(2,3)):((4,1),(2,8))
cute.logical_product(L(2, stride=4), L(2, stride=4)) -> (2,2):(4,8)
cute.logical_product(L((2, 2), stride=(4, 1)), (3, 4)) -> ((2,3),(2,4)):((4,1),(1,2))
cute.zipped_product(L((2, 4)), L(3)) -> ((2,4),3):((1,2),8)
cute.blocked_product(L((2, 5), stride=(5, 1)), L((3, 4))) -> ((2,3),(5,4)):((5,10),(1,30))
cute.raked_product(L((2, 5), stride=(5, 1)), L((3, 4))) -> ((3,2),(4,5)):((10,5),(30,1))
cute.blocked_product(L(4), L(3)) -> ((4,3)):((1,4))
cute.raked_product(L((1, 8)), L((4, 1))) -> (4,8):(8,1)
cute.blocked_product(L((8, 64), stride=(72, 1)), L((2, 3))) -> ((8,2),(64,3)):((72,576),(1,1152))
cute.tile_to_shape(L((8, 4)), (16, 16, 3), (1, 0, 2)) -> ((8,2),(4,4),(1,3)):((1,128),(8,32),(0,256))
cute.make_layout_tv(L((4, 8), stride=(8, 1)), L((2, 2), stride=(2, 1))) -> ((8, 16), ((8,4),(2,2)):((16,2),(8,1)))
cute.make_layout_tv(L(32), L(4)) -> ((128,), (32,4):(4,1))
# element widths and vectors
cute.recast_layout(16, 8, L((8, 4))) -> (4,4):(1,4)
cute.recast_layout(8, 16, L((8, 4), stride=(4, 1))) -> (8,8):(8,1)
cute.recast_layout(128, 16, L(((8, 2), 4), stride=((1, 32), 8))) -> ((1,2),4):((1,4),1)
cute.recast_layout(32, 16, L((8, 4), stride=(0, 1))) -> (8,2):(0,1)
cute.recast_layout(128, 16, L((4, 4))) -> (1,2):(1,1)
cute.max_common_layout(L((8, 4), stride=(4, 1)), L((8, 4), stride=(16, 1))) -> 4:8
cute.max_common_vector(L((3, 4), stride=(1, 4)), L((6, 2))) -> 3
cute.max_common_vector(L((8, 4), stride=(4, 1)), L((8, 4), stride=(1, 8))) -> 1
"""
CASES = [line.split(" -> ") for line in CASES.strip().split("\n") if not line.startswith("#")]


def evaluate(expression, cute):
    return str(eval(expression, {"cute": cute, "L": cute.make_layout, "I": cute.make_identity_layout}))


OURS = types.SimpleNamespace(**vars(la), **{k: v for k, v in vars(algebra).items() if k not in vars(la)})


@pytest.mark.parametrize("expression, expected", CASES, ids=[e for e, _ in CASES])
def test_table(expression, expected):
    assert evaluate(expression, OURS) == expected


def test_table_in_cute_dsl():
    cute = pytest.importorskip("cutlass.cute", reason="CuTe DSL is not installed")
    printed = []

    def collect():
        printed.extend(evaluate(expression, cute) for expression, _ in CASES)

    @cute.jit
    def host():
        collect()

    cute.compile(host)
    every = zip(CASES, printed, strict=True)
    differ = [(e, expected, p) for (e, expected), p in every if p != expected]
    assert not differ


# ---- brute force ----------------------------------------------------------------------------------------------------


def flat(x):
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, tuple) else [x]


def coordinates(shape):
    """Every coordinate of a nested shape, first mode fastest."""
    if not isinstance(shape, tuple):
        return list(range(shape))
    parts = [coordinates(p) for p in reversed(shape)]
    return [tuple(reversed(c)) for c in itertools.product(*parts)]


def by_hand(layout):
    """All offsets of a layout, from its definition: the sum of coordinate times stride, first mode fastest."""
    result = [0]
    for extent, stride in zip(flat(layout.shape), flat(layout.stride), strict=True):
        result = [c * stride + offset for c in range(extent) for offset in result]
    return result


# No deadline: a shared machine may be slow for one example. No database: nothing to keep between runs.
examples = settings(deadline=None, database=None, max_examples=100)


def nested(layout, how):
    """The layout with its first two modes grouped (1), the bare mode if it has just one (2), or as it is."""
    if how == 1 and la.rank(layout) > 1:
        return la.group_modes(layout, 0, 2)
    return layout[0] if how == 2 and la.rank(layout) == 1 else layout


@st.composite
def layouts(draw, extents=(1, 2, 3, 4, 6, 8), strides=None, max_rank=3):
    """Compact layouts in any mode order, or with arbitrary `strides`, some of them nested."""
    shape = tuple(draw(st.lists(st.sampled_from(extents), min_size=1, max_size=max_rank)))
    if strides is None:
        result = la.make_ordered_layout(shape, draw(st.permutations(range(len(shape)))))
    else:
        result = la.Layout(shape, tuple(draw(st.sampled_from(strides)) for _ in shape))
    return nested(result, draw(st.integers(0, 2)))


POWERS = (1, 2, 4, 8)
ANY = (0, 1, 2, 3, 4, 6, 8, 16)


@examples
@given(layouts(strides=ANY))
def test_every_way_to_evaluate_agrees(layout):
    n, expected = la.size(layout), by_hand(layout)
    points = coordinates(layout.shape)
    assert [layout(i) for i in range(n)] == expected
    assert [layout(c) for c in points] == expected
    assert [la.idx2crd(i, layout.shape) for i in range(n)] == points
    assert [la.crd2idx(c, layout.shape) for c in points] == list(range(n))
    assert la.offsets(layout).tolist() == expected
    found = np.broadcast_to(layout(np.arange(n).reshape(1, -1, 1)), (1, n, 1)).ravel().tolist()
    assert found == expected
    assert la.cosize(layout) == max(expected) + 1


@examples
@given(layouts(strides=ANY), st.data())
def test_a_slice_and_its_offset_add_up(layout, data):
    point = data.draw(st.sampled_from(coordinates(layout.shape)))
    chosen = []

    def drop(c):
        if isinstance(c, tuple):
            return tuple(map(drop, c))
        keep = data.draw(st.booleans())
        chosen.extend([c] if not keep else [])
        return c if keep else None

    coord = drop(point)
    sub, offset = la.slice_and_offset(coord, layout)
    found = offset + la.crd2idx(tuple(chosen) if coord is not None else chosen[0], sub)
    assert found == layout(point)


def test_dynamic_coordinates_broadcast():
    layout = la.make_layout(((2, 3), (4, 5)))
    block, thread = np.arange(3)[:, None], np.arange(4)[None, :]
    sub, offset = la.slice_and_offset(((None, block), (thread, 2)), layout)
    assert str(sub) == "(2):(1)"
    assert offset.tolist() == [[2 * b + 6 * t + 24 * 2 for t in range(4)] for b in range(3)]
    row, column = la.make_identity_layout((16, 64))((block, 5 * thread))
    assert row.tolist() == block.tolist() and column.tolist() == (5 * thread).tolist()
    # a stride of 0 leaves the coordinate as it is
    assert la.Layout((4, 2), (0, la.Basis(3, (1,))))((thread, 1)) == (0, 3)
    # one number for a nested mode: arrays are taken apart as ints are
    assert layout((np.arange(6), 7)).tolist() == [layout((i, 7)) for i in range(6)]


def test_offsets_of_coordinate_layouts_have_a_column_for_each_number():
    found = la.offsets(la.make_identity_layout((2, (1, 3)))).tolist()
    assert found == [[i, 0, j] for j in range(3) for i in range(2)]
    assert la.offsets(la.Layout(3, la.Basis(2, (1,)))).tolist() == [[0, 0], [0, 2], [0, 4]]
    with pytest.raises(ValueError, match="read-only"):
        la.offsets(la.make_layout(4))[0] = 1


@examples
@given(layouts(strides=ANY), layouts(strides=ANY, max_rank=3))
def test_composition_is_the_sum_of_its_modes_or_is_refused(lhs, rhs):
    try:
        result = algebra.composition(lhs, rhs)
    except ValueError:
        return
    # mode by mode: the sum over the modes of rhs, which is lhs(rhs(c)) wherever that sum does not carry
    strides = flat(rhs.stride)
    points = coordinates(rhs.shape)
    by_mode = [sum(lhs(c * d) for c, d in zip(flat(x), strides, strict=True)) for x in points]
    assert by_hand(result) == by_mode
    assert not isinstance(rhs.shape, tuple) or len(la.modes(result)) == len(la.modes(rhs))


@examples
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(1, 9))
def test_ragged_tiles_reach_every_element_at_its_coordinate(m, n, tile_m, tile_n):
    tiles = algebra.zipped_divide(la.make_identity_layout((m, n)), (tile_m, tile_n))
    rests = -(-m // tile_m), -(-n // tile_n)
    assert tiles.shape == ((tile_m, tile_n), rests)
    data = algebra.zipped_divide(la.make_layout((m, n), stride=(n, 1)), (tile_m, tile_n))
    for i, j, a, b in itertools.product(range(tile_m), range(tile_n), range(rests[0]), range(rests[1])):
        row, column = a * tile_m + i, b * tile_n + j
        at = la.add_coordinates((0, 0), tiles(((i, j), (a, b))))
        assert at == (row, column)
        if row < m and column < n:
            assert data(((i, j), (a, b))) == row * n + column


@examples
@given(layouts(extents=POWERS), layouts(extents=POWERS))
def test_a_divide_keeps_the_elements(layout, tiler):
    assume(la.cosize(tiler) <= la.size(layout))
    divided = algebra.logical_divide(layout, tiler)
    assert sorted(by_hand(divided)) == sorted(by_hand(layout))
    assert by_hand(divided[0]) == [layout(i) for i in by_hand(tiler)]


@examples
@given(layouts(extents=POWERS), st.sampled_from([1, 2, 4]))
def test_recast_covers_the_same_bytes(layout, factor):
    # the stride of a single element is 0: nothing says along which mode its bytes lie
    assume(la.size(layout) > 1)
    narrow = algebra.recast_layout(8, 8 * factor, layout)
    bytes_wide = {o * factor + k for o in by_hand(layout) for k in range(factor)}
    assert set(by_hand(narrow)) == bytes_wide
    assert by_hand(algebra.recast_layout(8 * factor, 8, narrow)) == by_hand(layout)


# ---- errors ---------------------------------------------------------------------------------------------------------

L = la.make_layout
WRONG = """
L(0)
L((2, 3.5))
L(((2, 3), 4), stride=(4, 1))
L(L(4))
L(4)[1]
L((4, 5))((1, 2, 3))
L((4, 5))(((1, 2), 3))
la.slice_and_offset((3,), L((4, 5)))
la.idx2crd(3, L((4, 5)))
la.make_ordered_layout((2, 3), (0, 1, 2))
la.add_coordinates((1, 2), 3)
la.cosize(la.make_identity_layout((2, 3)))
la.group_modes(L((2, 3)), 0, 0)
la.ceil_div(100, (3, 4))
la.shape_div(6, 4)
algebra.composition(L((6, 2), stride=(8, 2)), L(4, stride=4))
algebra.composition(L((4, 8), stride=(8, 1)), L(2, stride=6))
algebra.composition(L((4, 8), stride=(8, 1)), L(1, stride=5))
algebra.composition(L((2, 3)), (2, 3, 4))
algebra.composition(L((2, 3)), L(2, stride=-1))
algebra.logical_divide(L((6, 4), stride=(1, 100)), 4)
algebra.zipped_divide(L((16, 64)), (4, None))
algebra.zipped_divide(L((16, 64)), 4)
algebra.complement(L((4, 4), stride=(1, 2)), 32)
algebra.left_inverse(L((2, 3, 4), stride=(2, 5, 24)))
algebra.left_inverse(L((4, 2), stride=(1, 2)))
algebra.right_inverse(la.make_identity_layout((2, 3)))
algebra.recast_layout(12, 8, L((4, 4)))
algebra.recast_layout(32, 8, L((3, 4), stride=(1, 16)))
algebra.recast_layout(32, 8, L((4, 3), stride=(1, 6)))
"""


def refused(call):
    with pytest.raises((ValueError, IndexError)) as raised:
        eval(call)
    return f"{call}: {raised.value}"


def test_errors_say_what_does_not_fit(snapshot):
    snapshot(map(refused, WRONG.split("\n")[1:-1]), Path(__file__).with_name("layout_errors.txt"))


def test_layouts_are_values():
    assert L((4, 8)) == la.Layout((4, 8), (1, 4))
    assert hash(L((4, 8))) == hash(la.Layout((4, 8), (1, 4)))
    assert type(L((np.int64(11), 8)).shape[0]) is int
    with pytest.raises(AttributeError):
        L(4).shape = 5
