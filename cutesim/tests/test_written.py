"""The kernels that are written short: each writes what stands behind its name, in every mode, and the real compiler takes it.

What it refuses the simulator refuses too: test_reports has how. Compiling needs no GPU; it is left out where the DSL, which exists
for Linux alone, is not installed.
"""

import numpy as np
import pytest
from dsl import acceptance, blamed, bounds, found, language, names, others
from real_compiler import compiled, refused
from running import MODES, gives

from cutesim.simulation import simulate

LANE = np.arange(32)
FLOATS, INTS = np.arange(128, dtype=np.float32), np.arange(128, dtype=np.int32) * 70001 - 3
CORPORA = {acceptance: FLOATS, language: FLOATS, blamed: FLOATS}
CORPORA |= {found: FLOATS, names: INTS, others: FLOATS}


def low_bits(numbers, width=32):
    """Python integers as int32, by their low bits."""
    return np.array([int(n) & (1 << width) - 1 for n in numbers], np.uint32).view(np.int32)


def turned(numbers):
    """Both halves of each swapped."""
    return low_bits([int(n) << 16 | (int(n) >> 16 & 0xFFFF) for n in numbers])


def each(*lists):
    """Of all corpora the (module, name) in these lists of theirs."""
    found = [(module, name) for module in CORPORA for kind in lists for name in getattr(module, kind, ())]
    return pytest.mark.parametrize("module, name", found, ids=[name for _, name in found])


@each("WANTED")
def test_it_writes_what_stands_behind_its_name(module, name):
    x = CORPORA[module]
    known = {"np": np, "lane": LANE, "half": LANE < 16, "x": x}
    known |= {"f32": np.float32, "low_bits": low_bits, "turned": turned}
    wanted = eval(module.WANTED[name], known)
    wanted = np.concatenate(
        wanted if isinstance(wanted, tuple) else [wanted + 0 * LANE if np.isscalar(wanted) else wanted]
    )
    gives(getattr(module, name), x, wanted=wanted, n=128, modes=(*MODES, {"schedule": "seeded"}))


# Of range_dynamic and cutlass.utils.SmemAllocator.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@each("TAKEN", "ONLY_WHEN_RUN")
def test_the_compiler_takes_it(module, name):
    said = compiled(getattr(module, name), CORPORA[module].copy(), CORPORA[module].copy())
    assert ".entry" in said


@each("REFUSED")
def test_the_compiler_refuses_it(module, name):
    with refused():
        compiled(getattr(module, name), CORPORA[module].copy(), CORPORA[module].copy())


FEW = np.array([-7, -1, 0, 1, 7, 8], np.int32)
WIDE = np.arange(32, dtype=np.int64) * 1000
OTHERS = [  # host function, x, further arguments, what it writes
    (acceptance.cluster16, FLOATS, {"iters": 5}, np.repeat(5.0 * (16 * np.arange(16) + 120), 32)),
    (acceptance.optional, FLOATS[:32], {"w": None}, LANE),
    (acceptance.optional, FLOATS[:32], {"w": np.full(32, 3, np.float32)}, 3 * LANE),
    (acceptance.optional, FLOATS[:32], {}, LANE),
    (acceptance.of_shape, FLOATS[:32], {"shape": (4, 2)}, LANE + 8),
    (acceptance.int64_index, WIDE, {}, WIDE[WIDE % 7]),
    (acceptance.grid_stride, FLOATS, {}, FLOATS + 2),
    (acceptance.grid_stride_two_blocks_per_sm, FLOATS, {}, FLOATS + 2),
    (language.floor_divide, np.resize(FEW, 32), {}, np.resize(FEW // 4, 32)),
    (language.remainder, np.resize(FEW, 32), {}, np.resize(np.fmod(FEW, 4), 32)),
    (language.applied, FLOATS[:32], {"helper": language.negated}, -FLOATS[:32]),
]


@pytest.mark.parametrize("host, x, more, wanted", OTHERS)
def test_it_writes_what_it_should_with_other_arguments(host, x, more, wanted):
    gives(host, x, wanted=wanted, **more)


@pytest.mark.parametrize(
    "host, x, more, wanted", [case for case in OTHERS if case[0] is not acceptance.grid_stride_two_blocks_per_sm]
)
def test_the_compiler_takes_it_with_other_arguments(host, x, more, wanted):
    assert ".entry" in compiled(host, x.copy(), x.copy(), *more.values())


@pytest.mark.parametrize("number", acceptance.STORED)
def test_a_tensor_takes_numbers_that_are_not_wider_and_of_its_kind(number):
    for dtype in acceptance.TYPES:
        run = simulate(acceptance.storing(number, dtype), FLOATS, np.zeros(128, np.float32))
        assert run.ok == (dtype in acceptance.STORED[number].split()), (number, dtype, run)
        assert run.ok or f"in a {dtype} tensor; convert it: cutlass.{dtype}(...)" in run.findings[0].message


@pytest.mark.parametrize("number", acceptance.STORED)
def test_the_compiler_stores_the_same_numbers(number):
    stored = []
    for dtype in acceptance.TYPES:
        try:
            compiled(acceptance.storing(number, dtype), FLOATS.copy(), FLOATS.copy())
        except ValueError as error:
            assert "mismatch" in str(error)
        else:
            stored.append(dtype)
    assert stored == acceptance.STORED[number].split()


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("name", [*bounds.OVERRUN, "tiled_from_column_1"])
def test_the_compiler_takes_overrun_rows(name, guarded):
    assert ".entry" in compiled(getattr(bounds, name), *np.zeros((2, 4, 60), np.float32), guarded)
