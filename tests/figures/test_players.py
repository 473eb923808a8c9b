"""The step players: their frames against the trace they are from, and their HTML against what pages can bear."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from itertools import groupby, product
from pathlib import Path

import numpy as np
import pytest

from cutesim.trace import Finding
from quack_tutorial import figures
from quack_tutorial.figures import Box, Frame, Player, Scene, sectors, theme
from quack_tutorial.figures.scene import drawn as drawn_ink
from quack_tutorial.figures.wording import short
from tests.figures import traces


def gallery():
    """One figure of each kind."""
    racy = traces.block_reduce(waits=False)
    tile = np.arange(64).reshape(4, 16)
    return {
        "lanes": figures.lanes(traces.shuffle_down()[0]),
        "butterfly": figures.butterfly(traces.butterfly()),
        "block_reduce": figures.block_reduce(traces.block_reduce().trace),
        "cluster_exchange": figures.cluster_exchange(traces.cluster()),
        "coalescing": figures.coalescing(traces.strided(2, repeats=3)),
        "race": figures.race(racy.trace, racy.findings[0]),
        "explorer": figures.explorer(
            "Grid",
            {"a": (1, 2), "b": ("x", "y", "z")},
            Scene(10, 10, (Box(0, 0, 5, 5),)),
            lambda a, b: Frame(f"{a}{b}", "v", ("",)),
            "Simulated.",
            start={"a": 2, "b": "y"},
        ),
        "tv_layout": figures.tv_layout(tile // 4, tile % 4),
    }


def script_data(html):
    """The data that a figure's script is called with, read back from the page."""
    call = html[html.rindex('})("qt-') :]
    return json.loads(call[call.index(",") + 1 : call.rindex(");</script>")])


class Checker(HTMLParser):
    """Collects what a page would meet: ids, tags that are never closed, texts of the SVG and what is shown of all texts."""

    VOID = {"input", "img", "br", "meta", "link", "hr"}

    def __init__(self, html):
        super().__init__()
        self.ids, self.open, self.words, self.wrong, self.hidden = [], [], [], [], []
        self.shown = ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)
            # JupyterLab drops it without a value
            self.hidden.append(dict(attributes).get("hidden"))

    def handle_endtag(self, tag):
        if not self.open or (self.hidden.pop(), self.open.pop())[1] != tag:
            self.wrong.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_data(self, data):
        if "text" in self.open:
            self.words.append(data)
        self.shown += "" if any(self.hidden) else data


# The page ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", gallery())
def test_a_figure_is_one_small_piece_of_sound_html_that_asks_for_nothing(name):
    html = gallery()[name]._repr_html_()
    assert len(html) < 120_000
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)|<link|<img|src=", html.replace("// ", ""))
    checked = Checker(html)
    assert (checked.wrong, checked.open) == ([], [])
    assert len(set(checked.ids)) == len(checked.ids)
    assert html.count("<script ") == html.count("</script>") == 1
    assert html.count('aria-live="polite"') == 1
    assert html.count("<output") == html.count('<output aria-live="off"')
    assert 'type="range"' in html and 'role="img"' in html
    assert re.search("Simulated|Computed from the layout", html[html.index("qt-origin") :])
    # What can have the focus keeps its keys from JupyterLab.
    page = html.partition("<script ")[0]
    tags = re.findall(r"<(?:a|button|input|select|summary|textarea)\b[^>]*>|<[a-z]+ [^>]*tabindex=[^>]*>", page)
    assert len(tags) >= 2 and all(tag.count("data-lm-suppress-shortcuts") == 1 for tag in tags)


def test_the_same_figure_twice_on_a_page_has_two_ids():
    figure = gallery()["butterfly"]
    ids = [i for _ in range(3) for i in Checker(figure._repr_html_()).ids]
    assert len(set(ids)) == 3


def test_texts_cannot_end_the_script_or_become_markup():
    nasty = "</script><b>&\"' <!-- \u2028 </style>"
    frame = Frame(nasty, "v", (nasty,), where="a.py:1", source=nasty)
    player = Player(nasty, Scene(100, 50, (Box(0, 0, 90, 20),)), (frame, frame), nasty, (("v", nasty),))
    html = player._repr_html_()
    assert html.count("</script>") == 1 and "<b>&" not in html and "<!--" not in html
    first = script_data(html)["frames"][0]
    assert (first["c"], first["w"], first["s"]) == (nasty, "a.py:1", nasty)
    assert nasty in Checker(html).words
    checked = Checker(html)
    assert (checked.wrong, checked.open) == ([], [])


FRAMED = sorted(gallery().keys() - {"tv_layout"})


@pytest.mark.parametrize("name", FRAMED)
def test_the_page_has_every_frame(name):
    figure = gallery()[name]
    data = script_data(figure._repr_html_())
    assert len(data["frames"]) == len(figure.frames)
    for frame, row in zip(figure.frames, data["frames"]):
        inks = {k: drawn_ink(v, figure.scene.boxes, k != "thin") for k, v in frame.inks.items() if v}
        assert (row["r"], tuple(row["t"]), row["i"]) == (frame.roles, frame.texts, inks)
        assert (row["c"], row["w"], row["s"]) == (frame.caption, frame.where, frame.source)


@pytest.mark.parametrize("name", FRAMED)
def test_without_scripts_the_still_frame_is_there_and_coloured(name):
    figure = gallery()[name]
    html = figure._repr_html_()
    page = html[: html.index("<script ")]
    frame = figure.frames[figure.start]
    assert unescape(frame.caption) in unescape(page)
    picture = page[page.index('<g data-part="boxes"') : page.index('<g data-part="words"')]
    assert "".join(re.findall(r'<rect data-r="(.)"', picture)) == frame.roles
    for role in set(frame.roles) - set("-h"):
        assert f'<rect data-r="{role}" fill="{theme.ROLES[role][0]}"' in picture
    words = re.findall(
        r"<text[^>]*>([^<]*)</text>", page[page.index('<g data-part="words"') : page.index('<g data-part="labels"')]
    )
    assert tuple(map(unescape, words)) == frame.texts


@pytest.mark.parametrize("name", gallery())
def test_where_styles_and_scripts_are_stripped_no_number_is_left_of_a_drawing(name):
    """As a notebook that is not trusted shows it: without the elements that hold styles, scripts and drawings."""
    stripped = r"<(style|script)\b.*?</\1>|</?(?:svg|g|rect|path|text|title)\b[^>]*>"
    seen = Checker(re.sub(stripped, "", gallery()[name]._repr_html_(), flags=re.S)).shown
    assert "choose Trust Notebook in the command palette (Ctrl-Shift-C)." in seen
    assert not re.search(r"\d{5}|(?:\b\d+ ?){4}", seen)


def test_a_frame_that_does_not_fit_is_refused():
    scene = Scene(10, 10, (Box(0, 0, 5, 5),))
    with pytest.raises(ValueError, match="frame 1 has 2 roles and 1 texts, the scene has 1 boxes"):
        Player("T", scene, (Frame("", "v", ("",)), Frame("", "vv", ("",))), "")
    with pytest.raises(ValueError, match=r"frame 0 uses \['z'\]"):
        Player("T", scene, (Frame("", "z", ("",)),), "")
    with pytest.raises(ValueError, match="1 frames do not fill the grid"):
        Player("T", scene, (Frame("", "v", ("",)),), "", axes={"a": ("1", "2")})


# Colours -------------------------------------------------------------------------------------------------------------


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(dark):
    base = theme.DARK if dark else theme.LIGHT
    fills = {role: colours[2 if dark else 0] for role, colours in theme.ROLES.items()}
    for role, fill in fills.items():
        assert contrast(base["ink"], fill) >= 4.5, role
    for name in ("paper", "even", "odd"):
        assert contrast(base["ink"], base[name]) >= 4.5, name
    assert contrast(base["soft"], base["paper"]) >= 4.5
    assert contrast(base["soft"], fills["i"]) >= 4.5
    for pair in theme.SERIES:
        assert contrast(pair[dark], base["paper"]) >= 3
    # the numbers inside the ladder's bars
    assert contrast(base["paper"], theme.SERIES[0][dark]) >= 4.5


# Numbers -------------------------------------------------------------------------------------------------------------


SHORT = """0 0 7 7 -3 −3 1520 1520 12345 12k 2.5e7 25M .126 .13 3.14159 3.14 99.96 100 1e-5 1e−5 6e-4 .0006 -.126 −.13
    -3.14159 −3.1 -10.7 −11 -.004 −.004 -6e-4 −6e−4 -6e-10 −0 inf inf -inf −inf nan nan""".split()


def test_short_numbers():
    assert [short(float(number)) for number in SHORT[::2]] == SHORT[1::2]


# What is looked at ---------------------------------------------------------------------------------------------------


def drawn():
    """Players by their names: each kind, and what each says of a kernel that is unlike the first."""
    pairs, row = traces.butterfly(width=2), traces.strided(1)
    loop, twice, race = (traces.traced(k) for k in (traces.k.with_a_loop, traces.k.twice, traces.k.of_block(4, False)))
    within = Finding("race", "Race.", race.findings[0].lines, 0, (0, 4), (0,), 1)
    return {
        **{name: figure for name, figure in gallery().items() if name in FRAMED},
        "butterfly of groups": figures.butterfly(traces.butterfly(width=8)),
        "butterfly of maxima": figures.butterfly(TRACES["maxima"]),
        "butterfly of pairs, which says nothing of the operation": figures.butterfly(pairs),
        "butterfly, shuffled down": figures.butterfly(traces.shuffle_down()[0]),
        "butterfly of one lane": figures.butterfly(traces.broadcast()),
        "block_reduce without its barrier": figures.block_reduce(race.trace),
        "block_reduce in one bank": figures.block_reduce(traces.traced(traces.k.one_bank).trace),
        "cluster_exchange that lacks its own rank": figures.cluster_exchange(traces.cluster("own rank missing")),
        "cluster_exchange without a wait": figures.cluster_exchange(traces.cluster("no wait")),
        "coalescing of a line": figures.coalescing(row, line=row.lines[0].number),
        "race after a loop": figures.race(loop.trace, *loop.findings),
        "race of a line that is called twice": figures.race(twice.trace, twice.findings[0]),
        "race within a warp": figures.race(race.trace, within),
    }


def steps(player):
    """Title and origin; of each step what it says, the roles of its boxes and its few inks; the texts of the last one."""
    yield f"  {player.title}. {player.origin}"
    for k, frame in enumerate(player.frames):
        inks = {name: ink for name, ink in frame.inks.items() if 0 < len(ink) < 40}
        yield f"  {k}{' opens' * (k == player.start)}. {frame.caption} {frame.where} {frame.source}".rstrip()
        runs = ((role, len([*same])) for role, same in groupby(frame.roles))
        roles = "".join(f"{'#' * role.isdigit()}{role}{n if n > 1 else ''}" for role, n in runs)
        yield f"    {roles} {inks or ''}".rstrip()
    texts = ((text, len([*same])) for text, same in groupby(player.frames[-1].texts))
    yield "  " + " | ".join(f"{n} x {text}" if n > 1 else text for text, n in texts)


def test_the_players_say_and_draw_these_steps(snapshot):
    said = (line for name, player in drawn().items() for line in (name, *steps(player)))
    snapshot(said, Path(__file__).with_name("steps.txt"))


TRACES = {
    "butterfly": traces.butterfly(),
    "block": traces.block_reduce().trace,
    "cluster": traces.cluster(),
    "row": traces.strided(1),
    "maxima": traces.butterfly((np.random.default_rng(0).permutation(32) - 16).astype(np.float32)),
}


@pytest.mark.parametrize(
    "figure, trace, given, said",
    [
        ("butterfly", "butterfly", dict(which=1), "1 series of shuffles, not which=1"),
        ("butterfly", "butterfly", dict(warp=3), "no event of launch 0, block 0, warp 3"),
        ("block_reduce", "butterfly", {}, "reads and writes no shared memory"),
        ("block_reduce", "block", dict(tensor="buf"), "no shared tensor 'buf'; it uses buffer"),
        ("cluster_exchange", "block", {}, "no clusters"),
        ("cluster_exchange", "cluster", dict(tensor="slot"), "no block reaches a tensor 'slot'"),
        ("cluster_exchange", "cluster", dict(first_block=1), "block 1 is not the first of a cluster"),
        ("coalescing", "row", dict(line=99), "line 99; its events are on lines "),
    ],
)
def test_what_a_trace_does_not_have_is_named(figure, trace, given, said):
    with pytest.raises(ValueError, match=said):
        getattr(figures, figure)(TRACES[trace], **given)


# Coalescing ----------------------------------------------------------------------------------------------------------


def test_the_explorer_counts_the_sectors_of_a_trace():
    player = figures.strides()
    for frame, (nbytes, stride, offset) in zip(player.frames, product((4, 8, 16), sectors.STRIDES, sectors.OFFSETS)):
        if (stride, offset) in ((1, 0), (1, 1), (3, 2), (8, 4)):
            words = nbytes // 4
            (traced,) = figures.coalescing(traces.strided(stride * words, nbytes, offset=offset * words)).frames
            assert f"{32 * nbytes} bytes asked for, {traced.roles.count('r')} sectors" in frame.caption
    assert player.frames[player.start].caption == "128 bytes asked for, 12 sectors, 384 bytes moved: 33.3 % used."


# Lanes, races, tiles -------------------------------------------------------------------------------------------------


def test_elements_have_their_number_in_the_tensor():
    x = np.zeros((1, 40_000), np.float32)
    for start, shown in ((64, ["64", "65"]), (20_000, ["0", "1"])):
        frame = figures.lanes(traces.traced(traces.k.row(1, 1, start, 1), x).trace).frames[0]
        assert list(frame.texts[1:3]) == shown
        assert ("counted from x[0, 20000]" in frame.caption) == (start == 20_000)


def test_a_missing_barrier_stands_in_its_column_before_the_later_access():
    player = gallery()["race"]
    first = player.frames[0]
    store, load = (first.roles.index(role) for role in "wr")
    for k, row in ((0, store), (1, load)):
        barrier, access = player.scene.boxes[k - 2], player.scene.boxes[row]
        assert barrier.x == access.x and (barrier.y < access.y) == (row == load)


def test_a_run_without_a_race_says_so(capsys):
    trace = traces.block_reduce().trace
    beyond = Finding("out of bounds", "Out of bounds.", (), 0, (0,), (0,), 1)
    for findings in ((), (beyond,)):
        assert figures.race(trace, *findings) is None
        assert capsys.readouterr().out == "No race was found.\n"


def test_a_race_of_another_run_is_refused():
    run = traces.block_reduce(waits=False)
    with pytest.raises(ValueError, match="is it this run's"):
        figures.race(traces.butterfly(), *run.findings)
    for wrong in (None, [*run.findings]):
        said = "race: expected one of a run's findings of two accesses, got "
        with pytest.raises(ValueError, match=said):
            figures.race(run.trace, wrong)


def test_a_tile_answers_both_ways():
    rows, columns = np.indices((4, 16))
    thread_of, value_of = rows // 2 * 8 + columns // 2, rows % 2 * 2 + columns % 2
    figure = figures.tv_layout(thread_of, value_of)
    data = script_data(figure._repr_html_())
    assert (data["threads"], data["values"], data["columns"]) == (16, 4, 16)
    assert np.array_equal(np.reshape(data["thread"], (4, 16)), thread_of)
    assert np.array_equal(np.reshape(data["value"], (4, 16)), value_of)
    assert figure.holder[9, 2] == (3, 2) and (thread_of[3, 2], value_of[3, 2]) == (9, 2)
    assert figure.frame().caption == "(thread 0, value 0) → (row 0, column 0)"
    # neighbouring threads differ in tint, along a row and down a column
    tint = np.array(list(figure.frame().roles)).reshape(4, 16)
    assert (tint[0, 1::2][:-1] != tint[0, 2::2]).all() and (tint[1] != tint[2]).all()


def test_a_small_tile_has_a_table_of_the_other_direction():
    rows, columns = np.indices((4, 8))
    figure = figures.tv_layout(rows // 2 * 4 + columns // 2, rows % 2 * 2 + columns % 2)
    scene, frame = figure.table()
    assert len(scene.boxes) == 8 * 4 == len(frame.roles)
    entries = [label.text for label in scene.labels if label.kind == "cell"]
    assert entries[6 * 4 + 1] == "2, 5"  # thread 6, value 1
    assert frame.roles[6 * 4] == figure.frame().roles[2 * 8 + 5]
    html = figure._repr_html_()
    assert html.count('<g data-part="boxes"') == 2 and 'data-side="table"' in html
    assert 'data-side="table"' not in figures.tv_layout(*np.indices((20, 16)))._repr_html_()


def test_a_tile_may_have_elements_that_nobody_holds():
    figure = figures.tv_layout([[0, -1], [1, -1]], [[0, 0], [0, 0]])
    assert figure.frame().roles[1] == "i"
    with pytest.raises(ValueError, match="one shape"):
        figures.tv_layout([[0, 1]], [[0], [1]])
    with pytest.raises(ValueError, match="no element of the tile belongs to a thread"):
        figures.tv_layout([[-1]], [[0]])
