"""`strides`: sliders for how a warp's lanes lie apart, and the requests, sectors and used bytes that follow, computed in the page.

Each lane reads `vector` elements of `element` bytes, `stride` vectors behind the lane before it; lane 0 begins `offset` elements
behind a boundary of 128 bytes. Where that is no multiple of the vector, the copy takes more requests, as wide as it allows.
The rule is `count` in `stride_explorer.js`; a test compares it with the simulator's count of a trace. What stands here is the first
setting's picture, for where scripts do not run.
"""

from __future__ import annotations

from .player import key_html, page, slider
from .sectors import LINE_BYTES, SECTOR_BYTES
from .suites import Shown
from .theme import LIGHT, ROLES, asset

LANES = 32
ELEMENTS = (1, 2, 4, 8)  # bytes
VECTORS = (1, 2, 4, 8, 16)  # elements; 16 bytes at most
STRIDES = tuple(range(1, 33))
OFFSETS = tuple(range(33))
HEIGHT, TOP = 280, 20  # pixels of the picture, and of what is above its first line
LEFT, WIDTH = 56, 720
START = (4, 1, 3, 0)  # element, vector, stride, offset: one colour of three
TITLE = "A warp's request: which sectors it touches"


def strides() -> Shown:
    """Sliders for how far apart a warp's lanes read, how wide and from which offset, and the requests, sectors and used bytes
    that follow.

    Each lane reads a vector of elements, a stride of vectors behind the lane before it; the offset is that of lane 0, in elements
    behind a boundary of 128 bytes.
    """
    element, vector, stride, offset = START
    controls = (
        slider("Element", len(ELEMENTS), ELEMENTS.index(element), f"{element} bytes")
        + slider("Vector", len(VECTORS), VECTORS.index(vector), "1 element")
        + slider("Stride", len(STRIDES), STRIDES.index(stride), f"{stride} vectors")
        + slider("Offset", len(OFFSETS), OFFSETS.index(offset), "0 elements")
    )
    html = page(
        title=TITLE,
        controls=controls,
        caption=f"<p>Each lane reads {element} bytes, {stride} vectors behind the lane before it.</p>",
        picture=f"<style>{asset('stride_explorer.css')}</style>{picture(*START)}",
        width=WIDTH,
        key=key_html((("r", "sector that moves"), ("-", "sector that stays"), ("even", "bytes that a lane asks for"))),
        origin="Computed in the page by the rule that the simulator counts by. A row is a line of 128 bytes, 4 sectors of 32; "
        "lines that no lane touches are left out.",
        script="stride_explorer.js",
        data={"elements": ELEMENTS, "vectors": VECTORS},
        attributes=' data-part="strides"',
    )
    return Shown(html, TITLE)


def picture(element: int, vector: int, stride: int, offset: int) -> str:
    """The SVG of one setting, for where scripts do not run; lanes in the order of their bytes."""
    nbytes = element * vector
    spans = [((offset + lane * stride * vector) * element, lane) for lane in range(LANES)]
    lines = sorted({at // LINE_BYTES for start, _ in spans for at in (start, start + nbytes - 1)})
    touched = {at // SECTOR_BYTES for start, _ in spans for at in range(start, start + nbytes)}
    pitch, byte = min(26, (HEIGHT - TOP) / len(lines)), (WIDTH - LEFT - 8) / LINE_BYTES
    parts = [f'<text x="{LEFT + k * 32 * byte + 2:g}" y="11">+{k * 32}</text>' for k in range(4)]
    for row, line in enumerate(lines):
        y = TOP + row * pitch
        for k in range(4):
            fill, stroke = ROLES["r" if line * 4 + k in touched else "-"][:2]
            role = "r" if line * 4 + k in touched else "-"
            parts.append(
                f'<rect data-r="{role}" x="{LEFT + k * 32 * byte + 1:g}" y="{y:g}" width="{32 * byte - 2:g}" '
                f'height="{pitch - 2:g}" fill="{fill}" stroke="{stroke}"/>'
            )
        for start, lane in spans:
            first, last = max(start, line * LINE_BYTES), min(start + nbytes, (line + 1) * LINE_BYTES)
            if first < last:
                ink = "odd" if lane % 2 else "even"
                x = LEFT + first % LINE_BYTES * byte
                parts.append(
                    f'<rect data-ink="{ink}" x="{x + 1:g}" y="{y + 3:g}" width="{(last - first) * byte - 2:g}" '
                    f'height="{pitch - 8:g}" fill="{LIGHT[ink]}"/>'
                )
        mine = [lane for start, lane in spans if start < (line + 1) * LINE_BYTES and start + nbytes > line * LINE_BYTES]
        parts.append(
            f'<text x="0" y="{y + pitch / 2 + 3:g}">{"–".join(dict.fromkeys(map(str, (mine[0], mine[-1]))))}</text>'
        )
    label = (
        "Lines of 128 bytes, the sectors that move and the bytes that lanes ask for. The text above has the numbers."
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" font-size="11" '
        f'aria-label="{label}"><text x="0" y="11">lanes</text>{"".join(parts)}</svg>'
    )
