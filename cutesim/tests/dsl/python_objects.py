"""Python's own objects round the DSL's: containers, enums, decorators, classes."""

import abc
import collections
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import types
import typing

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from .written import write


@cute.jit
def host(kernel: cutlass.Constexpr, out: cute.Tensor):
    kernel(out).launch(grid=[1, 1, 1], block=[32, 1, 1])


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


class Kind(enum.Enum):
    INT = cutlass.Int32
    FLOAT = cutlass.Float32

    def size(self):
        return self.value.width // 8


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
DEFAULTS = collections.defaultdict(int, {cutlass.Int32: 6})
ORDERED = collections.OrderedDict(x=cutlass.Int32)
PROXY = types.MappingProxyType({cutlass.Int32: 8})
TYPES = frozenset([cutlass.Int32, cutlass.Float32])
RECENT = collections.deque([cutlass.Float32, cutlass.Int32], maxlen=2)
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


@functools.singledispatch
def kind(x):
    return 1


@kind.register
def _(x: str):
    return 2


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


write(
    globals(),
    """
containers:
    mine = out.element_type
    out[0] = Int32(WIDTHS.get(mine, 1))
    out[1] = Int32(WIDTHS[mine])
    out[2] = Int32(STARTS.get(cute.arch.fmax, 1) + 10 * STARTS.get(operator.add, 1) + 100 * STARTS.get(cutlass.max, 1))
    out[3] = Int32(FOLDS.get(cute.ReductionOp.MAX, 1))
    out[4] = Int32(TABLES.table.get(mine, 1))
    out[5] = Int32(DEFAULTS[mine])
    out[6] = Int32(ORDERED["x"](3.7))
    out[7] = Int32(PROXY.get(mine, 1))
    out[8] = Int32(TYPES.isdisjoint({mine}))
    out[9] = Int32(RECENT[1] is mine)
    out[10] = Int32(NAMES.dtype is mine)
    out[11] = Int32(1 if CONFIG.dtype is mine else 2) + CONFIG.n
    out[12] = Int32(OLD_CONFIG.dtype(OLD_CONFIG.n))
    out[13] = Int32(1 if mine is Kind.INT.value else 2) + 10 * Kind.FLOAT.size()
    out[14] = Int32(Colour.GREEN + Colour.RED.squared())
    out[15] = CONFIG.tenfold()
    out[16] = Int32([cutlass.Float32, cutlass.Int32].index(mine))
    out[17] = Int32(len(TYPES & {mine}))
    out[18] = Int32(GETTER(CONFIG))
classes:
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
    out[10] = Int32(kind("a") + 10 * kind(3))
    out[11] = Int32(remembered(3) + remembered(3))
    out[12] = Int32(sum(map(Base.scale, [Base(1), Base(2)])) + sorted([3, 1], key=lambda z: -z)[0])
    out[13] = Int32(operator.attrgetter("k")(MINE) + operator.methodcaller("scale")(MINE))
    changed = Tables(1)
    changed.table = 2
    out[14] = Int32(changed == Tables(2)) + 10 * Int32(changed == Tables(1))
    out[15] = Int32(isinstance(remembered, types.FunctionType)) + 10 * Int32(isinstance(fresh, types.FunctionType))
    out[16] = Int32(MINE.remembered(3) + len(fresh.__name__) + len(f"{Colour.RED!r}"))
    out[17] = Int32(Generic[int](4).v)
    out[18] = Int32(len(f"{FROZEN}") + scaled()(3))
decorators:
    t, _, _ = cute.arch.thread_idx()
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
decorator_between:
    out[0] = Int32(between(3))
counts:
    out[0] = Int32(fresh() * 100 + fresh())
of_dict:
    out[0] = Int32(OF_DICT.get(out.element_type, 1))
iterator:
    out[0] = Int32(next(ITERATOR) is out.element_type)
holder:
    out[0] = Int32(HOLDER({out.element_type: 3}))
own_setattr:
    WATCHING.x = 3
    out[0] = Int32(WATCHING.x)
descriptor:
    out[0] = Int32(Described().d)
metaclass:
    out[0] = Int32(Made())
own_new:
    out[0] = Int32(New(3).w)
dictionary:
    out[0] = Int32(MINE.__dict__["k"])
variables:
    out[0] = Int32(vars(MINE)["k"])
as_a_dict:
    out[0] = Int32(dataclasses.asdict(FROZEN)["k"])
unknown_name:
    out[0] = Int32(hasattr(cutlass, "Float99"))
unknown_default:
    out[0] = Int32(getattr(cutlass, "Float99", None) is None)
operator_of_a_class:
    out[0] = Int32(Base.__eq__(MINE, MINE))
deep:
    out[0] = Int32(copy.deepcopy([MINE])[0].k)
local_names:
    out[0] = Int32(len(locals()))
""",
    parameters="out",
    host="",
)
