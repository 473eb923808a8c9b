"""`butterfly`: the shuffles of a warp, lane by lane, and how the answer comes to each of them."""

from __future__ import annotations

import numpy as np

from cutesim.trace import Op, ShuffleKind

from .player import Frame, Player
from .scene import PITCH, Label, Scene, lane_row, link, numbered, row_height, wide_texts
from .shuffles import Series, read_series, series
from .wording import LANES, NOTHING, active, counted, full, lane_words, line_of, origin, picked, row, short

HEIGHT = 19
LEFT, TOP, GAP = 66, 30, 44
FOLLOWED = 0  # the lane whose way is drawn

DOES = {
    "+": "adds what it read to what it had",
    "max": "keeps the larger of the two",
    "min": "keeps the smaller of the two",
}
ANSWER = {"+": "sum", "max": "maximum", "min": "minimum", None: "answer"}


def butterfly(trace, block=0, warp=0, which=0, launch=0) -> Player:
    """The 32 lanes' values before and after each shuffle of a warp, with an arrow from each lane that is read.

    A warp's shuffles are taken in series (until another event comes between or an offset comes again) and `which` picks one of
    them. What combines two values, +, max or min, is found from the numbers. Lane 0's way is drawn strongly. ValueError where the
    trace has no such shuffle or no values.
    """
    events = picked(trace, launch, block, warp)
    found = series(events)
    if not -len(found) <= which < len(found):
        raise ValueError(
            f"warp {warp} of block {block} has {counted(len(found), 'series', 'series')} of shuffles, not which={which}"
        )
    chosen = found[which]
    whole = read_series(trace, chosen, _loaded_before(trace, launch, block, warp, chosen[0]))
    kind = ShuffleKind(int(chosen[0]["arg"]))
    frames = tuple(_frames(trace, whole, kind))
    key = [
        ("r", "the lane that is followed, and the one it reads"),
        ("read", "what it reads"),
        ("thin", "the other lanes"),
    ]
    if kind != ShuffleKind.IDX:
        key.append(("p", "first values that it holds a share of"))
    if whole.holders().any():
        key.append(("a", "holds the answer"))
    return Player(
        title=f"{trace.line(chosen[0]).function}: who reads whom in {counted(len(chosen), 'shuffle')}",
        scene=_scene(whole, frames),
        frames=frames,
        origin=origin(trace, launch, f"block {block}", f"warp {warp}"),
        key=tuple(key),
    )


def _loaded_before(trace, launch, block, warp, shuffle):
    """The values of the last 32-lane load before the series: perhaps what it starts with."""
    events = picked(trace, launch, block, warp)
    loads = events[(events["step"] < shuffle["step"]) & (events["op"] == Op.LOAD) & (events["mask"] == shuffle["mask"])]
    return row(trace.values, loads[-1]["values"]) if len(loads) else None


def _rows(whole: Series) -> list[str]:
    """The names of the rows of 32 boxes: before, then received and after for each shuffle."""
    after = [["received", "holds"] if _shows_after(whole, k) else ["received"] for k in range(len(whole.shuffles))]
    return ["at first", *(name for names in after for name in names)]


def _shows_after(whole: Series, k: int) -> bool:
    return bool(whole.shuffles[k].after_known.any()) and int(whole.shuffles[k].event["arg"]) != ShuffleKind.IDX


def _scene(whole: Series, frames) -> Scene:
    names, boxes, y = _rows(whole), [], TOP
    labels = numbered(LEFT, TOP - 9, "lane")
    bricks = [wide_texts(t for f in frames for t in f.texts[r * LANES : (r + 1) * LANES]) for r in range(len(names))]
    for name, wide in zip(names, bricks):
        y += {"at first": 0, "received": GAP, "holds": 3}[name]
        boxes += lane_row(LEFT, y, HEIGHT, wide)
        labels.append(Label(LEFT - 14, y + HEIGHT / 2, name, "end", "strong" if name == "holds" else ""))
        y += row_height(HEIGHT, wide)
    return Scene(LEFT + LANES * PITCH + 10, y + 4, tuple(boxes), tuple(labels))


def _texts(values, known, lanes) -> list[str]:
    return [NOTHING if not on else short(v) if k else "?" for v, k, on in zip(values, known, lanes)]


def _frames(trace, whole: Series, kind: ShuffleKind):
    blank = [""] * LANES
    lanes = whole.shuffles[0].lanes
    rows = [(_texts(whole.shuffles[0].before, whole.shuffles[0].before_known, lanes), _plain(lanes))]
    total = len(_rows(whole))

    def frame(caption, event, inks=None, roles=None):
        shown = [r[1] for r in rows] if roles is None else roles
        texts = [text for r in rows for text in r[0]] + blank * (total - len(rows))
        letters = "".join(shown) + "-" * LANES * (total - len(rows))
        return Frame(caption, letters, tuple(texts), inks=inks or {}, **line_of(trace, event))

    first = whole.shuffles[0]
    share = "" if kind == ShuffleKind.IDX else f" Follow lane {FOLLOWED}."
    unknown = "" if first.before_known[first.lanes].all() else " Where nobody reads it, the trace does not say (?)."
    yield frame(
        f"What {lane_words(first.lanes)} of the warp hold, one value each, in registers.{share}{unknown}", first.event
    )
    done = {"thin": "", "read": ""}  # lines of the shuffles so far
    for k, shuffle in enumerate(whole.shuffles):
        held_row = len(rows) - 1
        rows.append((_texts(shuffle.got, shuffle.lanes, shuffle.lanes), _plain(shuffle.lanes)))
        source = int(shuffle.source[FOLLOWED])
        thin, strong = _lines(held_row, shuffle)
        done = {"thin": done["thin"] + thin, "read": done["read"] + strong}
        marked = [r[1] for r in rows]
        marked[held_row] = _marked(marked[held_row], [source], "r")
        marked[-1] = _marked(marked[-1], [FOLLOWED], "r")
        got = f" Lane {FOLLOWED} receives {full(shuffle.got[FOLLOWED])} from lane {source}."
        got *= bool(shuffle.lanes[FOLLOWED])
        yield frame(_rule(shuffle, kind) + got, shuffle.event, done, marked)
        if not _shows_after(whole, k):
            continue
        last = k == len(whole.shuffles) - 1
        holders = whole.holders() if last else np.zeros(LANES, bool)
        rows.append(
            (
                _texts(shuffle.after, shuffle.after_known, shuffle.lanes),
                _marked(_plain(shuffle.lanes), np.nonzero(holders)[0], "a"),
            )
        )
        rows[0] = (rows[0][0], _marked(_plain(lanes), np.nonzero(shuffle.covers[FOLLOWED])[0], "p"))
        yield frame(_holds(whole, shuffle, last, holders), shuffle.event, done)


def _plain(lanes) -> str:
    return "".join("v" if on else "i" for on in lanes)


def _marked(roles: str, places, role: str) -> str:
    letters = list(roles)
    for i in places:
        if letters[i] != "i":
            letters[i] = role
    return "".join(letters)


def _lines(held_row: int, shuffle) -> tuple[str, str]:
    """Links from the lanes that are read to those that read, and that of the lane that is followed."""
    pairs = [
        link(held_row * LANES + int(shuffle.source[i]), (held_row + 1) * LANES + int(i))
        for i in np.nonzero(shuffle.lanes)[0]
    ]
    strong = [p for p, i in zip(pairs, np.nonzero(shuffle.lanes)[0]) if i == FOLLOWED]
    return "".join(pairs), "".join(strong)


def _rule(shuffle, kind: ShuffleKind) -> str:
    n = int(shuffle.event["arg2"])
    lanes = np.nonzero(shuffle.lanes)[0]
    own = [i for i in lanes if shuffle.source[i] == i]
    rule = {
        ShuffleKind.BFLY: f"Lane i reads lane i xor {n}: pairs of lanes that differ in one bit swap.",
        ShuffleKind.UP: f"Lane i reads lane i − {n}.",
        ShuffleKind.DOWN: f"Lane i reads lane i + {n}.",
        ShuffleKind.IDX: "Each lane reads the lane it names"
        + (f": lane {shuffle.source[lanes[0]]}." if len(set(shuffle.source[lanes])) == 1 else "."),
    }[kind]
    if kind == ShuffleKind.BFLY and n & (n - 1):
        rule = f"Lane i reads lane i xor {n}."
    if own and kind in (ShuffleKind.UP, ShuffleKind.DOWN):
        outside = np.isin(np.arange(LANES), own)
        rule += f" For {lane_words(outside)} there is none: own value."
    return rule


def _holds(whole: Series, shuffle, last: bool, holders) -> str:
    does = DOES.get(whole.operation, "combines the two")
    covered = int((shuffle.covers[FOLLOWED] > 0).sum())
    text = f"Each lane {does}."
    if not last:
        return f"{text} Lane {FOLLOWED} now holds {full(shuffle.after[FOLLOWED])}, from the values of {counted(covered, 'lane')}."
    name = ANSWER[whole.operation]
    if not holders.any():
        return f"{text} No lane has each value exactly once, so none holds the {name}."
    answers = {float(v) for v in shuffle.after[holders]}
    groups = len({tuple(np.nonzero(row)[0]) for row in shuffle.covers[holders]})
    if groups > 1:
        size = int((shuffle.covers[np.nonzero(holders)[0][0]] > 0).sum())
        return (
            f"{text} {_capital(lane_words(holders))} hold the {name} of their group: {groups} groups of {size} lanes."
        )
    value = full(answers.pop()) if len(answers) == 1 else "equal up to rounding"
    if holders.sum() == active(shuffle.event).sum():
        return f"{text} {_capital(lane_words(holders))} hold the {name}, {value}: nobody has to send it round."
    which = ", ".join(map(str, np.nonzero(holders)[0]))
    only = f"Only lane {which} holds" if holders.sum() == 1 else f"Only lanes {which} hold"
    return f"{text} {only} the {name}, {value}; the others lack some values or hold them twice."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
