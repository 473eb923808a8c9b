"""The explorer of strides counts what the analysis of a trace counts, in Python and in the page."""

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

GRID = [
    (element, vector, stride, offset)
    for element, vector, stride, offset in product(
        strides.ELEMENTS, strides.VECTORS, (1, 2, 3, 8, 32), (0, 1, 2, 3, 4, 8, 31)
    )
    if element * vector <= strides.WIDEST
]


@pytest.mark.parametrize(
    "setting, width, requests, sectors, used",
    [
        ((4, 1, 1, 0), 4, 1, 4, 1.0),  # 128 bytes in a row
        ((4, 1, 1, 1), 4, 1, 5, 128 / 160),
        ((4, 1, 8, 0), 4, 1, 32, 1 / 8),
        ((4, 4, 1, 0), 16, 1, 16, 1.0),
        ((4, 4, 4, 0), 16, 1, 32, 1 / 2),
        ((4, 1, 3, 0), 4, 1, 12, 1 / 3),  # one colour of three
        ((2, 8, 1, 4), 8, 2, 2 * 17 - 1, 512 / (17 * 32)),  # halves that begin 8 bytes late
    ],
)
def test_counts_by_hand(setting, width, requests, sectors, used):
    found = strides.count(*setting)
    assert (found.width, found.requests) == (width, requests) and found.used == pytest.approx(used)
    if requests == 1:
        assert found.sectors == sectors


def test_a_request_counts_as_in_a_trace():
    cases = ((1, 4, 0), (1, 4, 1), (3, 4, 0), (8, 4, 2), (4, 16, 0), (16, 16, 4))
    for stride, nbytes, offset in cases:
        (row,) = analysis.requests(traces.strided(stride, nbytes, offset=offset))
        vector = nbytes // 4
        assert strides.count(4, vector, stride // vector, offset).sectors == row["sectors"]


def test_the_page_counts_as_python_does():
    function = re.search(r"  function count\(.*?\n  }\n", asset("stride_explorer.js"), flags=re.S).group()
    said = evaluated(f"{function}\nconsole.log(JSON.stringify({json.dumps(GRID)}.map((g) => count(...g))));")
    wanted = [
        {k: getattr(strides.count(*g), k) for k in ("width", "requests", "sectors", "distinct", "asked")} for g in GRID
    ]
    assert said == wanted


def test_a_vector_of_more_than_16_bytes_is_refused():
    with pytest.raises(ValueError, match="at most 16 bytes"):
        strides.count(8, 4, 1, 0)


def test_without_scripts_the_first_setting_stands_there():
    html = figures.strides()._repr_html_()
    assert strides.sentence(4, 1, 3, 0) in html and html.count("<svg") >= 1
    assert html.count('type="range"') == 4 and html.count('data-r="r" x=') == 12
    assert "http" not in html
