"""How torch prints the numbers of a tensor."""

import math

import numpy as np

WIDTH, EDGE, MANY = 80, 3, 1000


def numbers(values, is_floating_point, indent):
    """The numbers of a tensor as torch prints them, in brackets."""
    if values.size == 0:
        return "[]"
    shown = _edges(values) if values.size > MANY else values
    write = _writer(shown.astype(np.float64) if is_floating_point else shown, is_floating_point)
    return _nested(values, write, indent, values.size > MANY)


def _edges(values):
    """The numbers that are printed of a large tensor: three from each end of each dimension."""
    for axis, n in enumerate(values.shape):
        if n > 2 * EDGE:
            values = np.take(values, [*range(EDGE), *range(n - EDGE, n)], axis)
    return values


def _writer(values, is_floating_point):
    """A function from a number to its text, all of one width."""
    if not is_floating_point:
        width = max((len(str(v)) for v in values.reshape(-1).tolist()), default=1)
        return lambda v: str(v).rjust(width)
    counted = values[np.isfinite(values) & (values != 0)].reshape(-1)
    sizes = np.abs(counted)
    most, least = (sizes.max(), sizes.min()) if sizes.size else (1.0, 1.0)
    whole = (np.ceil(sizes) == sizes).all()
    powers = most / least > 1000 or most > 1e8 or (least < 1e-4 and not whole)
    style = "{:.4e}" if powers else "{:.0f}." if whole else "{:.4f}"

    def write(v):
        return style.format(v) if math.isfinite(v) else str(float(v))

    width = max((len(write(v)) for v in counted.tolist()), default=1)
    return lambda v: write(v).rjust(width)


def _nested(values, write, indent, cut):
    if values.ndim == 0:
        return write(values.item())
    n = len(values)
    rows = [*range(EDGE), None, *range(n - EDGE, n)] if cut and n > 2 * EDGE else range(n)
    if values.ndim > 1:
        between = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
        return f"[{between.join('...' if i is None else _nested(values[i], write, indent + 1, cut) for i in rows)}]"
    texts = [" ..." if i is None else write(values[i].item()) for i in rows]
    widest = max((len(text) for text in texts if text != " ..."), default=0)
    each = max(1, (WIDTH - indent) // (widest + 2))
    lines = [", ".join(texts[i : i + each]) for i in range(0, len(texts), each)]
    return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"
