"""Several numbers in one register: how inline assembly joins, parts and converts them.

| instruction                                              | here                                               |
|----------------------------------------------------------|----------------------------------------------------|
| mov.b32 d, {a, b}; mov.b64 {a, b}, d                     | the first has the lowest bits                      |
| cvt.rn{.satfinite}{.relu}.e4m3x2.f32 d, a, b; bf16x2, f16x2, e5m2x2 too | of two numbers; b has the lower half |
| cvt.rn.satfinite.e4m3x2.f16x2 d, a; cvt.rn.f16x2.e4m3x2  | of a pair; e5m2x2 too                              |

Source: PTX ISA 9.0 (mov, cvt). Any other rounding or type of pairs is refused by its opcode.
"""

from __future__ import annotations

import numpy as np

from ..context import not_simulated
from ..values import numeric as nm
from ..values.numeric import BFloat16, Float8E4M3FN, Float8E5M2, Float16, Float32, Value

PAIRS = {"f16x2": Float16, "bf16x2": BFloat16, "e4m3x2": Float8E4M3FN, "e5m2x2": Float8E5M2}
WIDENED = ("e4m3x2", "f16x2"), ("e5m2x2", "f16x2")
UNSIGNED = {8: nm.Uint8, 16: nm.Uint16, 32: nm.Uint32, 64: nm.Uint64}


def joined(names: list, dtype, value) -> Value:
    """One register of several, each an equal part of it."""
    width = dtype.width // len(names)
    return join([value(name, UNSIGNED[width]) for name in names])


def join(parts: list) -> Value:
    """One unsigned number of the parts' bits, the first one's lowest."""
    width = parts[0].dtype.width
    bits = np.uint64(0)
    for i, part in enumerate(parts):
        raw = part.dtype.encode(part.a)
        bits = bits | raw.view(f"u{raw.itemsize}").astype(np.uint64) << np.uint64(i * width)
    whole = UNSIGNED[width * len(parts)]
    return Value(whole, bits.astype(whole.carrier))


def parted(register: Value, count: int) -> list[Value]:
    """A register's bits as `count` numbers of equal widths, the lowest first."""
    raw = register.dtype.encode(register.a)
    bits = raw.view(f"u{raw.itemsize}").astype(np.uint64)
    part = UNSIGNED[register.dtype.width // count]
    return [Value(part, (bits >> np.uint64(i * part.width)).astype(part.carrier)) for i in range(count)]


def convert(parts: list, operands: list, value) -> Value:
    """The register that cvt gives of its operands."""
    *how, target, source = parts
    eight = PAIRS.get(target) in (Float8E4M3FN, Float8E5M2)
    known = {"rn", "relu"} | ({"satfinite"} if eight else set())
    rounds = "rn" in how and set(how) <= known and eight == ("satfinite" in how)
    if target not in PAIRS or not rounds:
        raise not_simulated(f"inline_asm of cvt.{'.'.join(parts)}")
    if source == "f32" and len(operands) == 2:
        numbers = [value(text, Float32) for text in operands[::-1]]
    elif len(operands) == 1 and (source == "f16x2" and eight or (source, target) in WIDENED):
        width = 2 * PAIRS[source].width
        numbers = [x.bitcast(PAIRS[source]) for x in parted(value(operands[0], UNSIGNED[width]), 2)]
    else:
        raise not_simulated(f"inline_asm of cvt.{'.'.join(parts)}")
    made = [nm.convert(x, PAIRS[target]) for x in numbers]
    if "relu" in how:  # a negative number is 0, NaN stays
        made = [Value(x.dtype, np.where(x.a < 0, x.dtype.carrier.type(0), x.a)) for x in made]
    return join(made)
