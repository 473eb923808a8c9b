"""Python's own objects round the DSL's: containers, enums, decorators, classes; and its operators on the DSL's numbers."""

import abc
import collections
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import random
import types
import typing

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float16, Float32, Int8, Int32, Uint32

from .hosts import Constexpr, launched, one_warp
from .written import write


class Config(typing.NamedTuple):
    dtype: typing.Any
    n: int = 7

    def tenfold(self):
        return Int32(self.n * 10)


@dataclasses.dataclass
class Tables:
    table: typing.Any = dataclasses.field(default_factory=lambda: {cutlass.Int32: 5})


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: int = 3


class Colour(enum.IntEnum):
    RED = 1
    GREEN = 2

    def squared(self):
        return self.value**2


CONFIG = Config(cutlass.Int32)
OLD_CONFIG = collections.namedtuple("OLD_CONFIG", "dtype n")(cutlass.Int32, 3)
TABLES, FROZEN = Tables(), Frozen()
WIDTHS = {cutlass.Float32: 4, cutlass.Int32: 44}
STARTS = {cute.arch.fmax: 3, cutlass.max: 5, operator.add: 7}
FOLDS = {cute.ReductionOp.MAX: 3}
TYPES = frozenset([cutlass.Int32, cutlass.Float32])
NAMES = types.SimpleNamespace(dtype=cutlass.Int32)
COUNT = itertools.count(5)
ITERATOR = iter([cutlass.Int32])
GETTER = operator.attrgetter("n")


def fresh():
    return next(COUNT)


class Base:
    def __init__(self, k):
        self.k = k

    def scale(self):
        return self.k * 2


class Mine(Base):
    tag = "Tag"

    def __init__(self, k):
        super().__init__(k + 1)
        self._n = 0

    def scale(self):
        return super().scale() + 1

    @classmethod
    def made(cls):
        return cls(9)

    @functools.lru_cache  # noqa: B019
    def remembered(self, n):
        return n * 2

    @property
    def n(self):
        return self._n

    @n.setter
    def n(self, value):
        self._n = value + 100

    def __repr__(self):
        return self.tag

    def __getattr__(self, name):
        if name == "missing":
            return 42
        raise AttributeError(name)


class Slots:
    __slots__ = ("q",)

    def __init__(self, q):
        self.q = q


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self): ...

    def g(self):
        return self.f() + 1


class Concrete(Abstract):
    def f(self):
        return 4


class Generic(typing.Generic[typing.TypeVar("T")]):
    def __init__(self, v):
        self.v = v


MINE, SLOTS = Mine(3), Slots(4)


def scaled(k=None):
    def by(x):
        return x * (k or 2)

    return by


@functools.lru_cache
def remembered(n):
    return n + 1


def plus_one(f):
    @functools.wraps(f)
    def g(*a):
        return f(*a) + 1

    return g


def plus_hundred(f):
    def g(*a):
        return f(*a) + 100

    return g


def doubling(f):
    @functools.wraps(f)
    @cute.jit
    def g(x):
        if x > 2:
            x = x * 2
        return f(x) + 1

    return g


@doubling
def doubled(t):
    return t


@plus_one
def index(t):
    return t


@plus_one
@cute.jit
def half(t):
    if t > 3:
        t = t // 2
    return t


@plus_hundred
@plus_one
def twice(t):
    return t * 2


@cute.jit
@plus_one
def between(x):
    return x


# ---- what is refused by name ---------------------------------------------------------------------------------------


class OfDict(dict):
    pass


class Watching:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1)


class Descriptor:
    def __get__(self, instance, owner):
        return 31


class Described:
    d = Descriptor()


class Meta(type):
    def __call__(cls, *args):
        return 55


class Made(metaclass=Meta):
    pass


class New:
    def __new__(cls, v):
        made = object.__new__(cls)
        made.w = v + 1
        return made


OF_DICT = OfDict({cutlass.Int32: 3})
WATCHING = Watching()
HOLDER = operator.itemgetter(cutlass.Int32)


write(globals(), parameters="out")("""
containers = [44, 44, 573, 3, 5, 0, 1, 8, 3, 3, 70, 1, 1, 7]:
    mine = out.element_type
    out[0] = Int32(WIDTHS.get(mine, 1))
    out[1] = Int32(WIDTHS[mine])
    out[2] = Int32(STARTS.get(cute.arch.fmax, 1) + 10 * STARTS.get(operator.add, 1) + 100 * STARTS.get(cutlass.max, 1))
    out[3] = Int32(FOLDS.get(cute.ReductionOp.MAX, 1))
    out[4] = Int32(TABLES.table.get(mine, 1))
    out[5] = Int32(TYPES.isdisjoint({mine}))
    out[6] = Int32(NAMES.dtype is mine)
    out[7] = Int32(1 if CONFIG.dtype is mine else 2) + CONFIG.n
    out[8] = Int32(OLD_CONFIG.dtype(OLD_CONFIG.n))
    out[9] = Int32(Colour.GREEN + Colour.RED.squared())
    out[10] = CONFIG.tenfold()
    out[11] = Int32([cutlass.Float32, cutlass.Int32].index(mine))
    out[12] = Int32(len(TYPES & {mine}))
    out[13] = Int32(GETTER(CONFIG))
classes = [9, 21, 411, 33, 4, 4, 105, 51, 111, 101, 8, 9, 13, 1, 10, 26, 4, 17]:
    out[0] = Int32(MINE.scale())
    out[1] = Int32(Mine.made().scale())
    out[2] = Int32(type(MINE) is Mine) + 10 * Int32(MINE.__class__ is Mine) + 100 * len(type(MINE).__name__)
    out[3] = Int32(len(repr(MINE)) + 10 * len(f"{MINE}"))
    out[4] = Int32(dataclasses.replace(FROZEN, k=4).k)
    out[5] = Int32(copy.copy(MINE).k)
    set_anew = Mine(1)
    set_anew.n = 5
    out[6] = Int32(set_anew.n)
    out[7] = Int32(MINE.missing + SLOTS.q + Concrete().g())
    out[8] = (
        Int32(issubclass(Mine, Base))
        + 10 * Int32(isinstance(MINE, Base))
        + 100 * Int32(dataclasses.is_dataclass(FROZEN))
    )
    out[9] = Int32(callable(remembered)) + 10 * Int32(callable(MINE)) + 100 * Int32(callable(Mine))
    out[10] = Int32(remembered(3) + remembered(3))
    out[11] = Int32(sum(map(Base.scale, [Base(1), Base(2)])) + sorted([3, 1], key=lambda z: -z)[0])
    out[12] = Int32(operator.attrgetter("k")(MINE) + operator.methodcaller("scale")(MINE))
    changed = Tables(1)
    changed.table = 2
    out[13] = Int32(changed == Tables(2)) + 10 * Int32(changed == Tables(1))
    out[14] = Int32(isinstance(remembered, types.FunctionType)) + 10 * Int32(isinstance(fresh, types.FunctionType))
    out[15] = Int32(MINE.remembered(3) + len(fresh.__name__) + len(f"{Colour.RED!r}"))
    out[16] = Int32(Generic[int](4).v)
    out[17] = Int32(len(f"{FROZEN}") + scaled()(3))
decorators:
    @plus_hundred
    def inner(x):
        return x
    @plus_one
    @plus_hundred
    def wrapped(x):
        return x
    @cute.jit
    def staged(x):
        if x > 3:
            x = x * 10
        return x
    out[0, t] = index(t)
    out[1, t] = half(t)
    out[2, t] = twice(t)
    out[3, t] = inner(t)
    out[4, t] = wrapped(t)
    out[5, t] = staged(t)
    out[6, t] = doubled(t)
counts: out[0] = Int32(fresh() * 100 + fresh())
holder: out[0] = Int32(HOLDER({out.element_type: 3}))
""")


LACKING = write(globals(), parameters="out")("""
decorator_between: out[0] = Int32(between(3))
of_dict: out[0] = Int32(OF_DICT.get(out.element_type, 1))
iterator: out[0] = Int32(next(ITERATOR) is out.element_type)
own_setattr:
    WATCHING.x = 3
    out[0] = Int32(WATCHING.x)
descriptor: out[0] = Int32(Described().d)
metaclass: out[0] = Int32(Made())
own_new: out[0] = Int32(New(3).w)
dictionary: out[0] = Int32(MINE.__dict__["k"])
variables: out[0] = Int32(vars(MINE)["k"])
as_a_dict: out[0] = Int32(dataclasses.asdict(FROZEN)["k"])
unknown_name: out[0] = Int32(hasattr(cutlass, "Float99"))
unknown_default: out[0] = Int32(getattr(cutlass, "Float99", None) is None)
operator_of_a_class: out[0] = Int32(Base.__eq__(MINE, MINE))
deep: out[0] = Int32(copy.deepcopy([MINE])[0].k)
local_names: out[0] = Int32(len(locals()))
""")


# ---- what Python's own operators make of numbers, known and unknown ones ----

write(globals(), parameters="out")("""
rounded:
    a, b, c, d, e, f = (Float32(-1.25) * 0.3 for _ in range(6))
    if t < 40:
        a = a * 0.3
        a = a + 0.1
    if t > 40:
        b = b * 0.3
        b = b + 0.1
    b = b * 0.3
    if t < 40:
        other = c * 0.3
    c = c * 0.3
    d = d * 0.3
    for _ in range(1):
        d = d + 0.1
    e = cute.arch.fmin(e, 0.1) * 0.3
    f = cute.arch.shuffle_sync(f * 0.3, 0)
    out[0], out[1], out[2], out[3], out[4], out[5] = a, b + 0.1, c + 0.1, d, e + 0.1, f + 0.1
""")
write(globals(), parameters="a, b, f, out")('''
chosen:
    i, j, x = a[t], b[t], f[t]
    out[0, t] = Float32(i or j)
    out[1, t] = Float32(i and j)
    out[2, t] = Float32(i or 7)
    out[3, t] = Float32(i and j and 9)
    out[4, t] = Float32(i and j or 9)
    out[5, t] = i or x
    out[6, t] = x or 2.5
    out[7, t] = Float32((i > 0) and j)
    out[8, t] = Float32(7 or i)
    out[9, t] = 1.5 and i
    out[10, t] = 1.0 if i and j else 0.0
    out[11, t] = Float32(not (i or j))
    out[12, t] = Float32(i in (5, 12))
    out[13, t] = Float32((lambda z: z or 9)(i))
    i &= j or 4
    out[14, t] = Float32(i)
    out[15, t] = Float32(7 in [i, 7, j])
constants = [2, -2, 2, 5, 0, 65519, 1, *[2**31 - 1] * 3, 0, 1, 1073741822, 1, 6, 6, 3, 10, 6, 10892, 1, 2, 3]:
    stage, big = Int32(0), Float32(1e30)
    out[0] = (stage - 1) % 3
    out[1] = Int32(7) % Int32(-3)
    out[2] = Int32(Int8(-7) % Int8(3))
    out[3] = Int32(Float32(-7.5) % Float32(2) * 10)
    out[4] = Int32(big * big / big > 1e31)
    out[5] = Int32(Float16(65519.0))
    out[6] = Int32((Float32(16777216) + Float32(1)) - Float32(16777216))
    out[7] = Int32(Int32(-1) // Uint32(2))
    out[8] = Int32(-1 // Uint32(2))
    out[9] = Int32(Int32(-1) >> Uint32(1))
    out[10] = Int32(Uint32(7) > -1)
    out[11] = Int32(Int32(-1) == Uint32(4294967295))
    out[12] = Int32(-7 / Uint32(4))
    out[13] = Int32(max(Int32(-1), Uint32(3)) > Uint32(3))
    out[14] = Int32(0) or Int32(6)
    out[15] = Int32(5) and Int32(6)
    out[16] = Int32(Int8(3) or 300)
    out[17] = int(Int32(4)) + [5, 6, 7][Int32(1)]
    out[18] = [5, 6, 7][not Int32(0)]
    out[19] = len(f"{Int32(30)}{a[0]}") + 10 * len(repr(Int32(30))) + 100 * len(repr(a[0])) + 10000 * len(str(a[0] > 3))
    out[20] = Int32(3 in (Int32(3), 5))
    out[21] = random.Random(7).sample(range(9), 3)[1]
    out[22] = len(range(7)[1::2])
carried:
    """Numbers of the source, in the arms of an `if` that changes their variables and before it."""
    x, unchanged, n, pair = Float32(-1.25) * 0.3, Float32(-1.25) * 0.3, 1, (1, 2)
    if f[t] < 8:
        out[0] = x * 0.3 + 0.1
        out[1] = unchanged * 0.3 + 0.1
        out[2] = Float32((n - 8) % 3)
        out[3] = Float32((pair[0] - 8) % 3)
        pair = (3, 4)
    else:
        x = x + 7
        n = n + 1
    out[4] = x * 0.3 + 0.1
    out[5] = (Float32(-1.25) * 0.3) * 0.3 + 0.1
    out[6] = Float32((n - 8) % 3 + pair[0])
''')


REFUSED = write(globals(), parameters="a, b, f, out")("""
counted:
    n = 2
    if a[t] > 3:
        for i in cutlass.range_constexpr(n):
            out[i] = i
        n = 3
    out[3] = n
negated: out[0] = Int32(-(a[0] > 3))
or_none:
    start = None
    out[0] = start or a[0]
negated_constant: out[0] = Int32(-Boolean(True))
any_of_a_text: out[0] = Int32(any([a[0] > 3, "a"]))
to_a_power: out[0] = Int32(10000.0 ** f[t])
plus_itself: out[0] = +a[t]
""")


LACKING_OF_NUMBERS = write(globals(), parameters="a, b, f, out")('''
tuples: out[0] = Int32((a[0], 1) < (b[0], 1))
power_of_integers: out[0] = a[t] ** b[t]
too_large: out[0] = Int32(3e9)
uneven:
    """(2,4):(3,5), says the DSL, which has 5 at 2, where the composition has 7."""
    out[0] = cute.size(cute.composition(cute.make_layout((4, 6), stride=(1, 5)), cute.make_layout(8, stride=3)))
inverted: out[0] = cute.size(cute.right_inverse(cute.make_layout(4, stride=-1)))
''')
