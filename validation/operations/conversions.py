"""Cases of the suite `operations`: conversions between types, operations on two types, powers, bit casts."""

from __future__ import annotations

import numpy as np

from validation.operations import vectors as v
from validation.operations.operation import case, integer_pairs

# ---- conversions ----------------------------------------------------------------------------------------------------


def to(*names):
    """The expression that converts to one type after another."""
    return "a" + "".join(f".to({name})" for name in names)


def _to_integer(width, signed=True, wide_source=False):
    return lambda a: v.float_to_integer(a, width, signed, wide_source)


def _float32_inside(lowest: int, highest: int) -> list:
    """Bits of float32 numbers that an integer type holds once they are cut off; NaN and what is outside is left out."""
    below, above = (np.nextafter(np.float32(end), np.float32(0)) for end in (lowest - 1, highest + 1))
    steps = [n + part for n in range(lowest, highest) for part in (0.0, 0.5)]
    near = [float(x) for x in (below, above, highest, 2.0**-24, -(2.0**-24), 1 - 2.0**-24)]
    some = list(v.edges(v.F32)) + list(v.rounding_ties()) + [v.F32.encode(x) for x in steps + near]
    return [bits for bits in some if lowest - 1 < v.F32.decode(bits) < highest + 1]


def converted(source, columns, answers: dict, vector=False, label=""):
    """A case of conversions: {a type, or several one after another: the answer}; what comes out is of the last type."""
    paths = {(path,) if isinstance(path, str) else path: answer for path, answer in answers.items()}
    rows = [(f"{source} to {path[0]}", to(*path), answer) for path, answer in paths.items()]
    target = next(iter(paths))[-1]
    return case(label or rows[0][0], (source, target), columns, rows, vector)


def conversion_cases():
    """cvt: one rounding to nearest even between floats, toward zero and clamped to integers, low bits between integers."""
    single = [list(v.edges(v.F32)) + list(v.rounding_ties()) + v.random_bits(32, 200, 12)]
    whole = list(v.integer_edges(32)) + [(1 << 24) + 1, (1 << 24) + 3, 257, 2049, 65519] + v.random_bits(32, 100, 13)
    integers = {"Int32": _to_integer(32), ("Uint32", "Int32"): _to_integer(32, False)}
    integers |= {("Int16", "Int32"): _to_integer(16), ("Uint16", "Int32"): _to_integer(16, False)}
    wide = {"Int64": _to_integer(64), ("Uint64", "Int64"): _to_integer(64, False)}
    for vector in (False, True):
        for name in ("BFloat16", "Float16", "Float64"):
            yield converted("Float32", single, {name: float}, vector)
        yield converted("Float32", single, integers, vector, "Float32 to integers")
        # To 8 bits there is no instruction, and the compiler leaves open what a number outside gives: none of those here.
        for name, lowest, highest in (("Int8", -128, 127), ("Uint8", 0, 255)):
            answer = {(name, "Int32"): _to_integer(8, lowest < 0)}
            yield converted("Float32", [_float32_inside(lowest, highest)], answer, vector)
        yield converted("Float32", single, wide, vector, "Float32 to 64 bits")
        for name in ("Float32", "BFloat16", "Float16", "Float64"):
            yield converted("Int32", [whole], {name: float}, vector)
        for name, other in (("Float16", "BFloat16"), ("BFloat16", "Float16")):
            half = [list(v.edges(v.FLOATS[name])) + v.random_bits(16, 200, 14)]
            for target, answer in (("Float32", float), ("Int32", _to_integer(32)), (other, float)):
                yield converted(name, half, {target: answer}, vector)
    yield converted("Float32", single, {("Boolean", "Int32"): lambda a: int(a != 0)})
    yield from wide_conversions()
    yield from bitcasts()


def wide_conversions():
    """From and to 64 bits."""
    ties = (1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-52, 1 + 3 * 2.0**-24, 2.0**-150, 2.0**-150 * 1.1)
    # Just above a tie of bfloat16 and float16 by less than float32 holds: rounding twice would go wrong.
    ties += (1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 3.4028235677973366e38, 65520 - 2.0**-20)
    narrow = [v.F64.encode(v.F32.decode(bits)) for bits in v.rounding_ties()]
    doubles = [list(v.edges(v.F64)) + [v.F64.encode(x) for x in ties] + narrow + v.random_bits(64, 60, 15)]
    for name in ("Float32", "BFloat16", "Float16"):
        yield converted("Float64", doubles, {name: float})
    for name, width in (("Int32", 32), ("Int64", 64)):
        yield converted("Float64", doubles, {name: _to_integer(width, wide_source=True)})
    more = [(1 << 53) + 1, (1 << 53) + 3, (1 << 24) + 1, (1 << 40) + (1 << 16)]
    wide = [list(v.integer_edges(64)) + more + v.random_bits(64, 60, 16)]
    exactly = v.Fraction  # float(a) would round once before
    rows = [
        ("Int64 to Float32", to("Float32"), exactly),
        ("Uint64 to Float32", to("Uint64", "Float32"), lambda a: exactly(a & (1 << 64) - 1)),
    ]
    yield case("Int64 to Float32", ("Int64", "Float32"), wide, rows)
    yield converted("Int64", wide, {"Float64": exactly})
    fewer = {"Int32": int, ("Int16", "Int32"): lambda a: v.wrapped(a, 16)}
    fewer |= {("Int8", "Int32"): lambda a: v.wrapped(a, 8), ("Uint8", "Int32"): lambda a: v.wrapped(a, 8, False)}
    yield converted("Int64", wide, fewer, label="Int64 to fewer bits")
    rows = [
        ("Int32 to Int64", to("Int64"), int),
        ("Uint32 to Int64", to("Uint32", "Int64"), lambda a: a & 0xFFFFFFFF),
    ]
    yield case("Int32 to Int64", ("Int32", "Int64"), [v.integer_edges(32)], rows)
    row = [("Uint32 to Float32", to("Uint32", "Float32"), lambda a: float(a & 0xFFFFFFFF))]
    yield case("Uint32 to Float32", ("Int32", "Float32"), integer_pairs(32)[:1], row)


def mixed_cases():
    """Numbers of two types: which one the result has, and where it is rounded, is as the DSL's compiler writes it."""

    def to32(x):
        return v.F32.decode(v.F32.encode(x))

    def to16(x, format=v.F16):
        return format.decode(format.encode(x))

    row = "numbers of two types"
    for name in ("Int32", "BFloat16", "Float16"):  # a Python float is a Float32
        values = list(v.integer_edges(32)) if name == "Int32" else list(v.edges(v.FLOATS[name]))
        halves = [
            (row, "a * 0.5", lambda a: v.multiply(to32(float(a)), 0.5)),
            (row, "1.0 / a", lambda a: v.divide(1.0, to32(float(a)))),
        ]
        yield case(f"{name} and Python floats", (name, "Float32"), [values], halves)
    single = [list(v.edges(v.F32)) + list(v.rounding_ties())]
    mixed = [
        (row, "a.to(BFloat16) + a", lambda a: v.add(a, to16(a, v.BF16))),
        (row, "a + a.to(Int32)", lambda a: v.add(a, to32(float(v.float_to_integer(a, 32, True))))),
        (row, "(a.to(BFloat16) + a.to(Float16)).to(Float32)", lambda a: to16(v.add(to16(a), to16(to16(a, v.BF16))))),
    ]
    yield case("Float32 and others", ("Float32", "Float32"), single, mixed)
    integers = [
        (row, "3 - a", lambda a: 3 - a),
        (row, "(a.to(Int8) + a.to(Int16)).to(Int32)", lambda a: v.wrapped(v.wrapped(a, 8) + v.wrapped(a, 16), 16)),
        (row, "(a.to(Int64) * a).to(Int32)", lambda a: a * a),
    ]
    yield case("Int32 and others", ("Int32", "Int32"), [v.integer_edges(32)], integers)
    divisors = [a for a in v.integer_edges(32) if a]
    yield case("Python integers over Int32", ("Int32", "Int32"), [divisors], [(row, "7 // a", lambda a: 7 // a)])
    yield from powers(single[0])


def powers(bits):
    """By squaring: a³ is a a², a⁷ is a (a² a⁴), rounded at every step; a⁰ is 1 whatever a is."""

    def product(a, b):
        return v.F32.decode(v.F32.encode(v.multiply(a, b)))

    def power(n):
        def value(a):
            square = product(a, a)
            factors = {4: product(square, square), 2: square, 1: a}
            result = None
            for bit in (4, 2, 1):
                if n & bit:
                    result = factors[bit] if result is None else product(factors[bit], result)
            return 1.0 if result is None else result

        return value

    rows = [("a ** n, n from 0 to 7", f"a**{n}", power(n)) for n in range(8)]
    yield case("Float32 powers", ("Float32", "Float32"), [bits[::2]], rows)
    yield case("Float32 powers", ("Float32", "Float32"), [bits[1::4]], rows[:6], vector=True)


def bitcasts():
    """The same bits as another type, a NaN's payload among them."""
    for source, target in (("Float32", "Int32"), ("Int32", "Float32"), ("Float64", "Int64"), ("Int64", "Float64")):
        bits = [list(v.edges(v.FLOATS[source if source in v.FLOATS else target])) + [0x7F800001, 0xFFC12345]]
        row = [("bitcast", f"a.bitcast({target})", lambda a: a, "bits")]
        yield case(f"{source} as {target}", (source, target), bits, row)
    for source, target in (("Float16", "Int16"), ("Int16", "BFloat16")):
        bits = [list(v.edges(v.F16)) + list(v.edges(v.BF16))]
        row = [("bitcast", f"a.bitcast({target})", lambda a: a, "bits")]
        yield case(f"{source} as {target}", (source, target), bits, row)
