"""The layout playground computes what the package computes: book/static/layout.js against the simulator's algebra and traces.

Needs Node.js, and is skipped where there is none. The page itself is tested with the others, in test_site.py.
"""

import contextlib
import importlib
import importlib.util
import io
import json
import random
import re
from collections import Counter
from itertools import product

import numpy as np
import pytest

from cutesim.analysis import requests
from cutesim.analysis.requests import READ, _in_pairs, _wavefronts
from cutesim.language.loading import answer_imports
from cutesim.layouts import layout as la
from cutesim.layouts import layout_algebra as algebra
from cutesim.layouts.layout import Layout, text
from quack_tutorial.figures.theme import ROLES
from tests.javascript import evaluated
from tests.test_predictions import driven, with_static

CASES = 2000
RUN = """
const L = require(%s), cases = %s;
const kernel = (spec) => { const c = L.tiledCopy(spec); return { code: L.codeOfCopy(spec, c), places: c.places }; };
const asked = (spec) => {
  const c = L.tiledCopy(spec), all = [];
  for (let warp = 0; warp < c.warps; warp++) for (let i = 0; i < c.instructions; i++) {
    const lanes = L.request(c, warp, i), cost = L.sectors(lanes, c.bytes);
    if (lanes.length) all.push([lanes.length, cost.bytes, cost.sectors, cost.least]);
  }
  return all;
};
const operate = (name, a, b) => { const r = L.operate(name, a, b); return [r.code, L.text(r.layout)]; };
const answers = cases.map((expression) => {
  try { return new Function("L", "t", "kernel", "asked", "operate", "return " + expression)(L, L.text, kernel, asked, operate); }
  catch (error) { if (error instanceof L.LayoutError) return "refused"; throw error; }
});
console.log(JSON.stringify(answers));
"""


@pytest.fixture(scope="module")
def ask(root):
    """A function from JavaScript expressions, which see `L` and `t`, to their values; "refused" where one says no."""
    file = json.dumps(str(root / "book/static/layout.js"))
    return lambda expressions: evaluated(RUN % (file, json.dumps(expressions)))


# Random layouts ------------------------------------------------------------------------------------------------------


def random_shape(rng, depth=2):
    if depth == 0 or rng.random() < 0.45:
        return rng.choice((1, 2, 2, 3, 4, 4, 5, 6, 8, 16))
    return tuple(random_shape(rng, depth - 1) for _ in range(rng.randint(1, 3)))


def random_layout(rng):
    """Compact in some order, compact with gaps, or with any strides."""
    shape = random_shape(rng)
    extents = la.flatten_to_tuple(shape)
    if rng.random() < 0.25:
        strides = [rng.choice((0, 1, 2, 3, 4, 8, 16, 12)) for _ in extents]
    else:
        order = list(range(len(extents)))
        if rng.random() < 0.6:
            rng.shuffle(order)
        strides, step = [0] * len(extents), rng.choice((1, 1, 1, 2))
        for i in order:
            strides[i] = step
            step *= extents[i] * rng.choice((1, 1, 1, 2))
    return Layout(shape, nested(shape, iter(strides)))


def nested(shape, numbers):
    """The numbers, nested like the shape."""
    return tuple(nested(part, numbers) for part in shape) if isinstance(shape, tuple) else next(numbers)


def random_tiler(rng, layout):
    if rng.random() < 0.5 and isinstance(layout.shape, tuple):
        parts = rng.randint(1, len(layout.shape))
        return tuple(rng.choice((1, 2, 3, 4, Layout(2, 1), Layout(2, 2), Layout((2, 2), (1, 4)))) for _ in range(parts))
    return random_layout(rng)


def written(x):
    """A layout or tiler as a reader types it."""
    return f"({','.join(map(written, x))})" if isinstance(x, tuple) else str(x)


def text_of(x):
    return text(x) if isinstance(x, tuple) else str(x)


def answer(function, *args, told=text_of):
    try:
        return told(function(*args))
    except ValueError:
        return "refused"


def assert_same(ask, cases):
    """The page's value of each (kind, expression, wanted)."""
    answers = ask([expression for _, expression, _ in cases])
    wrong = [(*case, found) for case, found in zip(cases, answers) if case[2] != found]
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:5]}"


def lay(x):
    return f"L.parseLayout('{written(x)}')"


def tile(x):
    return f"L.parseTiler('{written(x)}')"


NAMES = {"coalesce": "coalesce", "right_inverse": "rightInverse", "left_inverse": "leftInverse"}
PRODUCTS = {f"{kind}_product": f"{kind}Product" for kind in ("logical", "blocked", "raked")}


def divided(a, tiler):
    """How a layout and a tiler are composed and divided."""
    for name, js in (
        ("composition", "composition"),
        ("logical_divide", "logicalDivide"),
        ("zipped_divide", "zippedDivide"),
    ):
        yield name, f"t(L.{js}({lay(a)}, {tile(tiler)}))", answer(getattr(algebra, name), a, tiler)


def test_thousands_of_random_layouts(ask):
    rng, cases = random.Random(30), []
    for _ in range(CASES):
        a, b = random_layout(rng), random_layout(rng)
        tiler, n = random_tiler(rng, a), rng.choice((1, 8, 24, 64, 100))
        index = rng.randrange(2 * la.size(a))
        tv = answer(algebra.make_layout_tv, a, b, told=lambda both: [text_of(both[0]), str(both[1])])
        cases += [
            ("offset", f"L.offset({lay(a)}, {index})", a(index)),
            ("size", f"[L.size({lay(a)}), L.cosize({lay(a)})]", [la.size(a), la.cosize(a)]),
            *((name, f"t(L.{js}({lay(a)}))", answer(getattr(algebra, name), a)) for name, js in NAMES.items()),
            ("complement", f"t(L.complement({lay(a)}, {n}))", answer(algebra.complement, a, n)),
            *divided(a, tiler),
            *(
                (name, f"t(L.{js}({lay(a)}, {lay(b)}))", answer(getattr(algebra, name), a, b))
                for name, js in PRODUCTS.items()
            ),
            ("tv", f"L.makeLayoutTV({lay(a)}, {lay(b)}).map(t)", tv),
            ("vector", f"L.maxCommonVector({lay(a)}, {lay(b)})", answer(algebra.max_common_vector, a, b, told=int)),
        ]
    assert_same(ask, cases)
    # Each function gave a layout often enough for the comparison to say something.
    given = Counter(kind for kind, _, wanted in cases if wanted != "refused")
    assert min(given[kind] for kind, *_ in cases) > CASES / 20, given


def test_negative_strides_are_evaluated_composed_and_divided_as_in_the_package(ask):
    """And refused where CuTe has no answer: the complement of 4:-1 would be (-1,-2):(1,-4)."""
    rng, cases = random.Random(7), []
    for _ in range(300):
        plain = random_layout(rng)
        strides = [d if rng.random() < 0.5 else -d for d in la.flatten_to_tuple(plain.stride)]
        a = Layout(plain.shape, nested(plain.shape, iter(strides)))
        tiler, index = random_tiler(rng, a), rng.randrange(la.size(a))
        offsets = la.offsets(a)
        cases += [
            ("offset", f"L.offset({lay(a)}, {index})", a(index)),
            ("cosize", f"L.cosize({lay(a)})", la.cosize(a)),
            ("reach", f"L.reach({lay(a)})", [int(offsets.min()), int(offsets.max())]),
            ("coalesce", f"t(L.coalesce({lay(a)}))", answer(algebra.coalesce, a)),
            *divided(a, tiler),
            ("right_inverse", f"t(L.rightInverse({lay(a)}))", answer(algebra.right_inverse, a)),
            ("complement", f"t(L.complement({lay(a)}, 8))", answer(algebra.complement, a, 8)),
        ]
    assert_same(ask, cases)


def test_what_lies_outside_of_a_layout_that_does_not_divide(ask):
    """Against the coordinates: element (i, j) of (4,8), divided by (3,4), lies in tile (i // 3, j // 4)."""
    outside = "(r => Array.from({length: L.size(r.layout)}, (_, n) => Number(r.isOutside(n))))"
    (marked,) = ask([f"{outside}(L.operate('zipped_divide', '(4,8):(8,1)', '(3,4)'))"])
    tiles = product((0, 4), (0, 3))
    places = [(ti + i, tj + j) for tj, ti in tiles for j, i in product(range(4), range(3))]
    assert marked == [int(i >= 4 or j >= 8) for i, j in places] and sum(marked) == 16
    assert ask(["L.operate('zipped_divide', '(4,8):(8,1)', '(2,4)').isOutside"]) == [None]
    assert ask([f"{outside}(L.operate('logical_divide', '10:1', '4:1'))"]) == [[0] * 10 + [1, 1]]


def test_swizzles_flip_the_bits_that_they_should(ask):
    """Against a bit-by-bit definition: bit M + i of the result is bit M + i xor bit M + S + i, for the B lowest i."""
    rng = random.Random(3)
    cases = []
    for _ in range(500):
        bits = rng.randint(0, 4)
        base, shift = rng.randint(0, 5), rng.randint(bits, 6)
        cases.append((bits, base, shift, rng.randrange(1 << 16)))

    def by_bit(bits, base, shift, at):
        return at ^ sum((at >> (i + shift) & 1) << i for i in range(base, base + bits))

    answers = ask([f"L.swizzle([{b}, {m}, {s}], {at})" for b, m, s, at in cases])
    assert answers == [by_bit(*case) for case in cases]
    typed = [f"L.parseSwizzle('{text}')" for text in ("2,0,1", "3, 2", "<3,2,3>")]
    assert ask(typed) == ["refused", "refused", [3, 2, 3]]


def test_what_a_reader_types_is_read_or_refused(ask):
    shown = {"(4,8):(8,1)": "(4,8):(8,1)", " ( 4 , (2,4) ) ": "(4,(2,4)):(1,(4,8))", "7": "7:1", "1": "1:0"}
    shown |= dict.fromkeys(("(4,8", "4:", "(4,8):8", "(0,2)", "x", "4 5", "", "-4:1"), "refused")
    assert ask([f"t(L.parseLayout({json.dumps(typed)}))" for typed in shown]) == [*shown.values()]


# Copies --------------------------------------------------------------------------------------------------------------


def test_wavefronts_are_the_package_s(ask):
    rng = np.random.default_rng(2)
    addresses, width, loads = [], [], []
    for _ in range(600):
        nbytes = int(rng.choice((1, 2, 4, 8, 16)))
        stride = int(rng.choice((0, 1, 2, 3, 8, 32, 33)))
        row = np.arange(32) * stride * nbytes if rng.random() < 0.6 else rng.integers(0, 64, 32) * nbytes
        if rng.random() < 0.3:
            row = row[np.arange(32) & ~int(rng.choice((1, 2)))]
        row = np.where(rng.random(32) < rng.choice((0, 0, 0.3)), -1, row)
        addresses.append(row)
        width.append(nbytes)
        loads.append(bool(rng.random() < 0.5))
    addresses, width = np.array(addresses), np.array(width)
    by_pairs = np.array(loads) & _in_pairs(addresses)
    needed, least = _wavefronts(addresses, width, by_pairs)
    lanes = [[{"lane": i, "address": int(a)} for i, a in enumerate(row) if a >= 0] for row in addresses]
    calls = zip(lanes, width.tolist(), loads)
    answers = ask([f"L.wavefronts({json.dumps(row)}, {w}, {json.dumps(load)})" for row, w, load in calls])
    assert [(a["wavefronts"], a["least"]) for a in answers] == list(zip(needed.tolist(), least.tolist()))


COPIES = [  # tensor, thread layout, value layout, tile, bytes of an element
    ("(8,128):(128,1)", "(4,8):(8,1)", "(1,4)", (4, 64), 4),
    ("(8,128):(128,1)", "(4,8):(8,1)", "(1,8)", (4, 64), 4),
    ("(8,128):(128,1)", "(4,8)", "(1,4)", (4, 32), 4),
    ("(8,64):(64,1)", "(2,32):(32,1)", "(1,2)", (2, 64), 8),
    ("(16,64):(64,1)", "(4,8):(8,1)", "(1,8)", (4, 64), 2),
    ("(64,8):(1,64)", "(8,4)", "(4,1)", (32, 8), 4),
    ("(12,40):(40,1)", "(4,8):(8,1)", "(1,4)", (4, 32), 4),
    ("(5,130):(130,1)", "(2,32):(32,1)", "(1,2)", (2, 128), 4),
    ("(8,8):(16,2)", "(2,4):(4,1)", "(2,2):(2,1)", (4, 8), 4),
    ("1000:1", "64:1", "4:1", (512,), 4),
]
DTYPES = {2: "float16", 4: "float32", 8: "float64"}


def spec(tensor, thread, value, tile, item, block=(0, 0)):
    return (
        f"{{tensor: L.parseLayout('{tensor}'), thread: L.parseLayout('{thread}'), value: L.parseLayout('{value}'), "
        f"tile: {list(tile)}, item: {item}, bits: 0, block: {list(block)}}}"
    )


@pytest.mark.parametrize("case", COPIES, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
def test_a_copy_s_code_runs_and_asks_for_what_the_page_says(ask, case, tmp_path):
    """The kernel that the page shows is run on the simulator; every request's sectors are those that the page counts."""
    from cutesim.simulation import simulate

    tensor, thread, value, tile, item = case
    (page,) = ask([f"kernel({spec(*case)})"])
    layout = parsed(tensor)
    strides = la.as_tuple(layout.stride)
    # (8,8):(16,2) has gaps: a view of something larger
    memory = np.arange(la.cosize(layout), dtype=DTYPES[item])
    x = np.lib.stride_tricks.as_strided(memory, la.as_tuple(layout.shape), [d * item for d in strides])
    out = np.lib.stride_tricks.as_strided(np.zeros_like(memory), x.shape, x.strides)
    file = tmp_path / "shown.py"
    file.write_text(
        "\n".join(["import cutlass", "import cutlass.cute as cute", "", "", *page["code"], ""]), encoding="utf-8"
    )
    run = simulate(loaded(file).copy, x, out)
    assert run.ok, run
    np.testing.assert_array_equal(out, x)

    table = requests(run.trace)
    table = table[table["kind"] == READ]
    places = [(i, j) for i in range(page["places"][0]) for j in range((*page["places"], 1)[1])]
    counted = ask([f"asked({spec(*case, block=list(place))})" for place in places])
    pages = sorted(tuple(one) for block in counted for one in block)
    ours = sorted(zip(*(table[name].tolist() for name in ("lanes", "bytes", "sectors", "ideal_sectors"))))
    assert pages == ours


def parsed(layout):
    shape, _, stride = layout.partition(":")
    return la.make_layout(eval(shape), stride=eval(stride) if stride else None)


def loaded(file):
    """The module in a file, whose `import cutlass` the simulator answers where the DSL is not installed."""
    spec = importlib.util.spec_from_file_location("shown_by_the_playground", file)
    module = importlib.util.module_from_spec(spec)
    answer_imports(module.__dict__)
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), module.__dict__)
    return module


# What is ready to open -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ready(root):
    file = json.dumps(str(root / "book/static/playground.js"))
    return evaluated(f"globalThis.window = {{}}; console.log(JSON.stringify(require({file})))")


def operation(fields):
    given = {"op": "none", "a": "", "b": ""} | fields
    return f"operate({', '.join(json.dumps(given[key]) for key in ('op', 'a', 'b'))})"


def test_every_layout_that_is_ready_to_open_opens(ask, ready):
    results = ask([operation(fields) for _, fields in ready["LAYOUTS"]])
    assert "refused" not in results and results[4][1] == "((2,4),(2,2)):((8,1),(16,4))"
    for name, fields in ready["COPIES"]:
        (problem,) = ask([f"L.tiledCopy({spec_of_fields(fields)}).problem"])
        assert problem is None, (name, problem)


def spec_of_fields(fields):
    tile = [int(n) for n in fields["tile"].split(",")] if "tile" in fields else None
    block = [int(n) for n in fields.get("at", "0,0").split(",")]
    swizzle = f"L.parseSwizzle({json.dumps(fields['swz'])})" if "swz" in fields else "null"
    return (
        f"{{tensor: L.parseLayout({json.dumps(fields['x'])}), thread: L.parseLayout({json.dumps(fields['t'])}), "
        f"value: L.parseLayout({json.dumps(fields['v'])}), tile: {json.dumps(tile)}, block: {block}, "
        f"item: {fields.get('item', 4)}, bits: {fields.get('bits', 0)}, swizzle: {swizzle}}}"
    )


def test_the_book_s_copies_are_the_package_s(ready):
    """Thread and value layouts and tile that are ready to open, against those that the kernel's class works out."""
    pytest.importorskip("cutlass")
    widths = {"float32": 32, "bfloat16": 16}
    names = re.compile(r"kernels/(\w+)\.py: (\w+)(?:\(vector_bytes=(\d+)\))?, (\w+), rows of (\d+)")
    compared = 0
    for name, fields in ready["COPIES"]:
        if not (found := names.match(name)):
            continue
        module, cls, vector_bytes, dtype, columns = found.groups()
        options = {"vector_bytes": int(vector_bytes)} if vector_bytes else {}
        kind = type("Dtype", (), {"width": widths[dtype]})
        make = getattr(importlib.import_module(f"quack_tutorial.kernels.{module}"), cls)
        kernel = make(kind, int(columns), **options)
        rows = kernel.tiler[0]
        per_row = kernel.threads_per_block // rows
        ordered = la.make_ordered_layout((rows, per_row), order=(1, 0))
        assert parsed(fields["t"]).shape == ordered.shape, name
        assert la.offsets(parsed(fields["t"])).tolist() == la.offsets(ordered).tolist(), name
        assert parsed(fields["v"]) == la.make_layout((1, kernel.vector_size)), name
        assert tuple(int(n) for n in fields["tile"].split(",")) == kernel.tiler, name
        assert parsed(fields["x"]).shape[1] == int(columns) and int(fields.get("item", 4)) == widths[dtype] // 8, name
        compared += 1
    assert compared == 8


def test_the_code_of_an_operation_gives_its_layout(ask, ready, tmp_path):
    """What the page shows under a result, run on the simulator, prints that result."""
    from cutesim.simulation import simulate

    cases = [f for _, f in ready["LAYOUTS"] if f.get("op") != "swizzle"]
    cases += [{"a": "(4,(2,4)):(2,(1,8))", "op": op} for op in ("coalesce", "right_inverse", "left_inverse")]
    cases += [
        {"a": "(4,8):(8,1)", "op": "logical_divide", "b": "(2:1,4:2)"},
        {"a": "4", "op": "logical_product", "b": "3"},
    ]
    answers = ask([operation(fields) for fields in cases])
    for number, (code, expected) in enumerate(answers):
        lines = ["import cutlass.cute as cute", "", "", "@cute.jit", "def show():", *(f"    {line}" for line in code)]
        last = code[-1].partition(" =")[0]
        file = tmp_path / f"shown{number}.py"
        file.write_text("\n".join([*lines, f"    print({last})", ""]), encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert simulate(loaded(file).show).ok
        assert printed.getvalue().strip() == expected, code


def test_colours_are_the_figures_own(root):
    css = (root / "book/static/playground.css").read_text(encoding="utf-8")
    light, dark = css.split('html[data-theme="dark"]')[:2]
    for tint in "01234567":
        for part, (fill, line) in ((light, ROLES[tint][:2]), (dark, ROLES[tint][2:])):
            assert f"--pg-{tint}: {fill};" in part and f"--pg-{tint}-line: {line};" in part


# In a browser --------------------------------------------------------------------------------------------------------


def test_the_playground_by_mouse_and_keyboard(root, tmp_path):
    with_static(root, tmp_path)
    source = (root / "book/layout-playground.md").read_text(encoding="utf-8")
    raw = "\n".join(re.findall(r"```\{raw\} html\n(.*?)```", source, re.DOTALL)).replace("../_static", "_static")
    (tmp_path / "page.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Layouts</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"></head>'
        f"<body><main><h1>Layouts</h1>{raw}</main></body></html>",
        encoding="utf-8",
    )
    seen = driven(root, "playground", tmp_path)
    # A = (4,8):(8,1), B = (4,4):(1,8): box 5 is row 1, column 1, number 5; B(5) = 1 + 8, row 1 and column 2 of A.
    assert seen["beside"][0] == ["B5", "A10", "T5", "T10"]
    assert seen["beside"][1].endswith("→ offset 10. B leads it to number 9 of A.")
    assert "coordinate (0,1)" in seen["beside"][2]  # row 0, column 2 of A, its number 8 = B(4)
    assert "leads nowhere" in seen["beside"][3]
    assert seen["typed"].startswith("(2,2):(1,4) 4 elements, offsets 0 to 5")
    for name, number, offset in (("clicked", 2, 4), ("arrow", 3, 5)):
        assert seen[name].startswith(f"Number {number} ") and seen[name].endswith(f"→ offset {offset}.")
    assert "nobody" in seen["hole"] and "missing at the end" in seen["wrong"]
    # The picture of the last good text stays where it is, and says so; nothing on the page moves.
    assert seen["kept"][:3] == ["Below is still the picture of (2,2):(1,4).", 4, 1]
    assert seen["kept"][3].startswith("Below is still the picture of tensor (128,128):(128,1), threads (4,8):(8,1)")
    assert seen["shift"] == [0, 0]
    assert seen["negative"][0].startswith("4:-1 4 elements, offsets -3 to 0") and seen["negative"][1:3] == [4, 0]
    assert seen["negative"][3].endswith("→ offset -3.") and "before the address" in seen["negative"][4]
    assert "16 of the 48 elements are outside A." in seen["rounded"][0] and seen["rounded"][1] == 16
    # What is too large for a picture is refused; of the memory the part around what is chosen is drawn.
    assert "8192 elements are too many" in seen["large"][0] and seen["large"][1] == 4096
    assert seen["large"][2].startswith("Offsets 0 to 1023 of 0 to 4095") and "8192 elements" in seen["largeTile"]
    assert seen["divided"].startswith("((2,4),(2,2)):((8,1),(16,4)) 32 elements")
    assert seen["code"].splitlines()[-1] == "R = cute.zipped_divide(A, B)"
    for name, thread, value, place in (("tile", 6, 1, (2, 5)), ("next", 7, 1, (2, 7)), ("lane", 7, 0, (7, 0))):
        assert seen[name].startswith(f"(thread {thread}, value {value}) → (row {place[0]}, column {place[1]})")
    assert "in 32 sectors of 32 bytes. 16 would do: 50 % of the traffic is needed." in seen["fault"]
    assert "32 wavefronts, where 1 would do" in seen["banks"] and "1 wavefront: no bank" in seen["swizzled"]
    assert seen["back"] == seen["swizzled"] and "swz=5,0,5" in seen["address"]
    assert all("value 0 of thread 0 starts at byte 4, no multiple of" in said for said in seen["misaligned"])
    assert "262 vectors outside the tensor" in seen["ragged"]
    assert seen["hostile"][1] == 0 and seen["hostile"][0]
