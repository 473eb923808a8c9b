"""A kernel's source with where its warps wait."""

import re

import cutlass
import numpy as np
import pytest

from cutesim.simulation import simulate
from quack_tutorial import figures
from quack_tutorial.kernels import softmax
from quack_tutorial.records import lines


def shares(text):
    return {line[7:].strip(): float(line[:6].strip(" %")) for line in text.splitlines() if re.match(r" *[\d.]+%", line)}


def test_each_line_of_the_kernel_has_its_part_of_the_samples():
    shown = figures.lines("softmax", "registers")
    main = lines.load("softmax")("registers").main
    found = shares(repr(shown))
    slowest = main.slowest()
    assert found[f"{slowest.function}: {slowest.text}"] == pytest.approx(100 * main.share(slowest), abs=0.06)
    assert 97 < sum(found.values()) <= 100.5
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", shown.html)]
    assert max(widths) > 80 and slowest.sass[0][1] in shown.html and slowest.ptx[0] in shown.html


def test_two_versions_have_a_bar_each_and_say_which_lines_are_new():
    shown = figures.lines("softmax", "vectors", "registers")
    assert shown.html.count('<details class="qt-line" data-d="+">') == 4
    rows = [line for line in repr(shown).splitlines() if "thread_reduce: return" in line]
    assert len(rows) == 1 and rows[0].count("%") == 2


def test_a_trace_adds_what_lanes_touch():
    x = np.zeros((1, 4096), np.float32)
    run = simulate(softmax.SoftmaxRegisters(cutlass.Float32, 4096), x, x.copy())
    html = figures.lines("softmax", "registers", trace=run.trace).html
    assert "32 lanes ask for 512 bytes of mX, in 16 sectors" in html


def test_what_nobody_sampled_is_said():
    with pytest.raises(ValueError, match="no samples of 'softmax backward'"):
        figures.lines("softmax backward", "ours")
    with pytest.raises(KeyError, match="recorded 0 times"):
        figures.lines("softmax", "registers", N=1024)
