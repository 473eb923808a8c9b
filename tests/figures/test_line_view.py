"""A kernel's source with where its warps wait."""

import re

import cutlass
import numpy as np
import pytest

from cutesim.simulation import simulate
from quack_tutorial import figures
from quack_tutorial.cli import main
from quack_tutorial.compiler import gpu_problem
from quack_tutorial.kernels import softmax
from quack_tutorial.records import lines


def shares(text):
    lines = [line for line in text.splitlines() if re.match(r" *[\d.]+%", line)]
    return {line[7:].strip(): float(line[:6].strip(" %")) for line in lines}


def test_each_line_of_the_kernel_has_its_part_of_the_samples():
    shown = figures.lines("softmax", "registers")
    main = lines.load("softmax")("registers").main
    found = shares(repr(shown))
    slowest = main.slowest()
    got = found[f"{slowest.function}: {slowest.text}"]
    assert got == pytest.approx(100 * main.share(slowest), abs=0.06)
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
    assert "32 lanes read 512 bytes of mX at once, in 16 sectors." in html


def test_what_nobody_sampled_is_said(monkeypatch):
    with pytest.raises(KeyError, match="recorded 0 times"):
        figures.lines("softmax", "registers", N=1024)
    monkeypatch.setattr(lines, "load", lambda operation: None)
    with pytest.raises(ValueError, match="no samples of 'softmax backward'"):
        figures.lines("softmax backward", "ours")


OWN = """
import cutlass.cute as cute

@cute.kernel
def scaled(mX: cute.Tensor, mO: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    mO[t] = {factor} * mX[{index}]

@cute.jit
def scale(mX: cute.Tensor, mO: cute.Tensor):
    scaled(mX, mO).launch(grid=[1, 1, 1], block=[64, 1, 1])
"""


def own(tmp_path, capsys, factor="2.0", index="t"):
    """What `quack-tutorial lines` prints of a file, and what it says of why it does not."""
    file = tmp_path / f"own{index}{factor}.py".replace(" ", "").replace("*", "x")
    file.write_text(OWN.format(factor=factor, index=index))
    page = str(tmp_path / "page.html")
    main(["lines", f"{file}:scale", "mX=f32:2048", "mO=f32:64:nan", "--html", page])
    return capsys.readouterr()


@pytest.mark.skipif(gpu_problem() is None, reason="what is said where there is no GPU")
def test_a_kernel_of_the_readers_shows_its_lanes_and_what_the_compiler_made(tmp_path, capsys):
    *shown, last = own(tmp_path, capsys).out.splitlines()
    (store,) = (line for line in shown if line.endswith("mO[t] = 2.0 * mX[t]"))
    assert int(store[:6]) >= 3 and "no NVIDIA GPU" in last
    page = (tmp_path / "page.html").read_text()
    assert "32 lanes read 128 bytes of mX at once, in 4 sectors. All 2 such requests: 256 bytes, 8 sectors." in page
    assert "32 lanes write 128 bytes of mO at once, in 4 sectors." in page
    assert "ld.global" in page
    own(tmp_path, capsys, index="32 * t")
    said = (tmp_path / "page.html").read_text()
    assert "32 lanes read 128 bytes of mX at once, in 32 sectors where 4 would do." in said


@pytest.mark.skipif(gpu_problem() is None, reason="what is said where there is no GPU")
def test_a_kernel_that_neither_compiler_nor_simulator_takes_is_told_with_its_line(tmp_path, capsys):
    said = own(tmp_path, capsys, factor="mX").err
    assert said.count(".py:7") == 2 and "CuTe DSL refuses the kernel" in said


@pytest.mark.parametrize(
    "words, said",
    [
        (["lines"], "name your kernel, as FILE.py:function"),
        (["lines", "nowhere.py:f"], "there is no file nowhere.py"),
        (["lines", __file__], "name the function and its arguments"),
    ],
)
def test_words_that_make_no_sense_are_one_sentence(words, said, capsys):
    assert main(words) == 2
    assert said in capsys.readouterr().err
