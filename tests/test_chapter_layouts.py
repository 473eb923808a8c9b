"""Chapter 2 says what the compiler says: its kernels and layouts through the real DSL, without a GPU."""

import importlib.util
import json

import pytest
from running import python

from workbench import myst

QUOTED = {  # what the chapter quotes, and the kernel that the compiler says it of
    "named_in_if": ("name 'value' is not defined", "must be defined before"),
    "changes_type": ("TYPE_UNSTABLE_JOIN", "`total` has type `Int32` on one path and `Float32` on"),
    "returns_early": ("UNSUP_EARLY_EXIT",),
}
ASK = """
import contextlib, io, json
from quack_tutorial import compiler

said = {}
for kernel in (named_in_if, changes_type, returns_early):
    vector = compiler.TensorSpec("float32", (32,), (1,))
    try:
        compiler.ptx(on_warp(kernel), vector, vector)
        said[kernel.__name__] = "compiled"
    except Exception as error:
        said[kernel.__name__] = str(error)

def printed(run):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run()
    return text.getvalue()

both = [[printed(f), printed(lambda: qt.simulate(f))] for f in (layouts, compose, divide, make_tv)]
column = torch.zeros(4, 16, dtype=torch.int32).T  # as in the exercise
both.append([printed(lambda: compiler.ptx(sign, column, column, columns)),
             printed(lambda: qt.simulate(sign, column, column.clone(), columns))])
tile = torch.zeros(4, 8, dtype=torch.int32)
x, tall = torch.zeros(8, 128), torch.zeros(128, 8)
ptx = [compiler.ptx(*args) for args in (
    (sign, tile, tile, patches), (TileCopy(), x, x), (Transpose(), x, tall), (Wider(), x, x), (Padded(), *six_rows()),
    (power, torch.zeros(32), torch.zeros(32), 3))]
broken = [(o.edit, o.found, o.said) for o in mutants.outcomes(Padded(), six_rows, kinds=kinds).outcomes]
print("answer", json.dumps({"said": said, "both": both, "ptx": ptx, "broken": broken}))
"""


@pytest.fixture(scope="module")
def answer(root, tmp_path_factory):
    if importlib.util.find_spec("cutlass") is None or importlib.util.find_spec("torch") is None:
        pytest.skip("CuTe DSL or torch is not installed")
    chapter = myst.cells((root / "notebooks/02-layouts.md").read_text("utf-8"), "02-layouts")
    cells = [cell.source for cell in chapter.cells if cell.cell_type == "code"]
    file = tmp_path_factory.mktemp("chapter") / "chapter.py"
    file.write_text("\n\n".join([*cells, ASK]), "utf-8")
    done = python(str(file), timeout=300, cwd=root)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("answer ")[2])


@pytest.mark.parametrize("kernel", QUOTED)
def test_the_compiler_complains_as_the_chapter_says(answer, kernel):
    # without the colours of a terminal, and its lines joined
    words = " ".join(answer["said"][kernel].split())
    for part in QUOTED[kernel]:
        assert part in words


def test_layouts_print_the_same_through_both(answer):
    for ours, theirs in answer["both"]:
        assert ours == theirs and ours.strip()


def test_the_kernels_compile_to_what_the_chapter_says(answer):
    sign, copy, transpose, wider, padded, power = answer["ptx"]
    stores = [line for line in sign.splitlines() if "st.global" in line]
    places = [line.split("[")[1].split("]")[0].partition("+")[2] for line in stores]
    assert sorted({int(place or 0) for place in places}) == [0, 4, 32, 36]
    assert copy.count("ld.global.v4.b32") == 2 and copy.count("st.global.v4.b32") == 2
    assert transpose.count("ld.global.v4.b32") == 2 and transpose.count("st.global.b32") == 8
    assert wider.count("ld.global.v4.b32") == 2
    assert padded.count("ld.global.b32") == padded.count("st.global.b32") == 2
    assert power.count("mul.rn.f32") + power.count("mul.f32") == 2


def test_every_mistake_that_the_chapter_offers_is_found_but_the_one_it_names(answer):
    found = {edit: said for edit, found, said in answer["broken"] if found}
    got = [edit for edit, found, _ in answer["broken"] if not found]
    assert got == ["`tC[tidx, v]` made `tC[v, tidx]`"]
    assert len(answer["broken"]) == 15
    assert {said.partition(": ")[2].partition(":")[0] for said in found.values()} == {
        "Out of bounds",
        "value is bound first inside a dynamic `if` or loop, so it is gone after it; give it a value before",
        "value changes type in a dynamic `if` or loop",
    }
