"""The explorer of strides counts what the analysis of a trace counts."""

import json
import re
from itertools import product

import pytest

from cutesim import analysis
from quack_tutorial import figures
from quack_tutorial.figures import stride_explorer as strides
from quack_tutorial.figures.theme import asset
from tests.figures import traces
from tests.javascript import evaluated

BY_HAND = [  # element, vector, stride, offset; bytes of an access, requests, sectors, share of bytes used
    ((4, 1, 1, 0), 4, 1, 4, 1.0),  # 128 bytes in a row
    ((4, 1, 1, 1), 4, 1, 5, 128 / 160),
    ((4, 1, 8, 0), 4, 1, 32, 1 / 8),
    ((4, 4, 1, 0), 16, 1, 16, 1.0),
    ((4, 4, 4, 0), 16, 1, 32, 1 / 2),
    ((4, 1, 3, 0), 4, 1, 12, 1 / 3),  # one colour of three
    ((2, 8, 1, 4), 8, 2, 16 + 17, 512 / (17 * 32)),  # halves that begin 8 bytes late
]
TRACED = (
    (1, 4, 0),
    (1, 4, 1),
    (3, 4, 0),
    (8, 4, 2),
    (4, 16, 0),
    (16, 16, 4),
)  # words apart, bytes of a lane, words at first


def counted(settings):
    """What the page's rule says of them."""
    function = re.search(r"  function count\(.*?\n  }\n", asset("stride_explorer.js"), flags=re.S).group()
    return evaluated(f"{function}\nconsole.log(JSON.stringify({json.dumps(settings)}.map((g) => count(...g))));")


def test_counts_by_hand():
    for found, (setting, width, requests, sectors, used) in zip(counted([case[0] for case in BY_HAND]), BY_HAND):
        assert (found["width"], found["requests"], found["sectors"]) == (width, requests, sectors), setting
        assert found["asked"] / (32 * found["distinct"]) == pytest.approx(used), setting


def test_a_request_counts_as_in_a_trace():
    found = counted([(4, nbytes // 4, 4 * stride // nbytes, offset) for stride, nbytes, offset in TRACED])
    for one, (stride, nbytes, offset) in zip(found, TRACED):
        (row,) = analysis.requests(traces.strided(stride, nbytes, offset=offset))
        assert one["sectors"] == row["sectors"]


def test_the_distinct_sectors_are_those_of_the_bytes_that_are_asked_for():
    grid = [
        g for g in product(strides.ELEMENTS, strides.VECTORS, (1, 2, 3, 8, 32), (0, 1, 3, 8, 31)) if g[0] * g[1] <= 16
    ]
    for one, (element, vector, stride, offset) in zip(counted(grid), grid):
        starts = [(offset + lane * stride * vector) * element for lane in range(32)]
        touched = {(at + byte) // 32 for at in starts for byte in range(element * vector)}
        assert one["distinct"] == len(touched)


def test_without_scripts_the_first_setting_stands_there():
    html = figures.strides()._repr_html_()
    assert html.count("<svg") >= 1 and html.count('type="range"') == 4 and html.count('data-r="r" x=') == 12
    assert "http" not in html
