"""`block_reduce`: the warps of a block, the words of shared memory in their banks, and the barriers between."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cutesim.trace import Op, Space

from .player import Frame, Player
from .scene import PITCH, Label, Scene, lane_row, link, numbered, row_height, wide_texts
from .shuffles import read_series, series
from .wording import (
    LANES,
    active,
    counted,
    element,
    full,
    lane_words,
    line_of,
    offset_in,
    origin,
    picked,
    ranges,
    row,
    short,
    touched,
)

LANE_HEIGHT, LANE_GAP = 18, 14
WORD_HEIGHT, WORD_GAP = 20, 6
LEFT, TOP = 64, 28
MOST_WARPS, MOST_WORDS, BANKS, WORD_BYTES = 8, 256, 32, 4
ORDER = (
    " Between barriers the simulator ran one warp after the other; a GPU interleaves them."
    " Banks are a model: word number modulo 32."
)


def block_reduce(trace, block=0, tensor=None, launch=0) -> Player:
    """How the values of a block's warps meet in shared memory: shuffles, stores, barriers, loads, in the order of the run.

    Up to 8 warps are drawn; the others run unseen. `tensor` names one shared allocation; by default all are drawn, up to 256 words.
    What shuffles combine, +, max or min, is found from the numbers. ValueError where the block uses no shared memory, or the trace
    has no values.
    """
    events = picked(trace, launch, block)
    if not len(trace.values):
        raise ValueError("the trace has no values: record it with simulate(..., values=True)")
    run = _Run(trace, events, _tensors(trace, events, tensor))
    run.play()
    key = [
        ("r", "reads now"),
        ("w", "writes now"),
        ("p", "waits at the barrier"),
        ("a", "holds the answer"),
        ("i", "takes no part"),
    ]
    if any("f" in frame.roles for frame in run.frames):
        key.append(("f", "not written by anyone yet"))
    hidden = run.warps - len(run.shown)
    more = "" if not hidden else f"; {counted(hidden, 'warp')} more not drawn"
    return Player(
        title=f"{run.name}: {counted(run.warps, 'warp')} meet in shared memory",
        scene=run.scene(),
        frames=tuple(run.frames),
        origin=origin(trace, launch, f"block {block}{more}") + ORDER,
        key=tuple(key),
    )


def _tensors(trace, events, name) -> list[int]:
    shared = events[(events["space"] == Space.SMEM) & np.isin(events["op"], [Op.LOAD, Op.STORE, Op.ATOMIC])]
    lacks = f"the block has no shared tensor {name!r}; it uses"
    found = touched(trace, shared, name, lacks, "the block reads and writes no shared memory")
    words = sum(-(-trace.tensors[t].nbytes // WORD_BYTES) for t in found)
    if words > MOST_WORDS:
        names = ", ".join(trace.tensors[t].name for t in found)
        raise ValueError(
            f"{names} are {words} words, more than the {MOST_WORDS} that are readable: choose one by tensor="
        )
    return found


@dataclass
class _Run:
    """Walks through a block's events and notes a frame for each that can be seen."""

    trace: object
    events: np.ndarray
    tensors: list
    frames: list = field(default_factory=list)

    def __post_init__(self):
        self.warps = int(self.events["warp"].max()) + 1
        self.shown = list(range(min(self.warps, MOST_WARPS)))
        numbers = []
        for t in self.tensors:
            info = self.trace.tensors[t]
            start = info.base_address // WORD_BYTES
            numbers += range(start, start - (-info.nbytes // WORD_BYTES))
        self.words = sorted(set(numbers))
        self.name = self._name()
        self.lane_texts = {w: [""] * LANES for w in self.shown}
        self.lane_roles = {w: "v" * LANES for w in self.shown}
        self.word_texts = dict.fromkeys(self.words, "")
        self.written, self.waiting = set(), {}
        self.loaded = {}  # warp: what its lanes last read from shared memory
        self.unsure = set()  # warps that read words which nobody had written

    def _name(self) -> str:
        """The function that first touches shared memory."""
        touches = np.isin(self.events["op"], [Op.LOAD, Op.STORE, Op.ATOMIC]) & np.isin(
            self.events["tensor"], self.tensors
        )
        return self.trace.line(self.events[touches][0]).function

    # What is where ---------------------------------------------------------------------------------------------------

    def scene(self) -> Scene:
        many = len(self.shown) * LANES
        lane_bricks = wide_texts(text for frame in self.frames for text in frame.texts[:many])
        word_bricks = wide_texts(text for frame in self.frames for text in frame.texts[many:])
        labels = numbered(LEFT, TOP - 9, "lane")
        boxes, y = [], TOP
        for warp in self.shown:
            boxes += lane_row(LEFT, y, LANE_HEIGHT, lane_bricks)
            labels.append(Label(LEFT - 14, y + LANE_HEIGHT / 2, f"warp {warp}", "end", "strong"))
            y += row_height(LANE_HEIGHT, lane_bricks) + LANE_GAP
        y += 40
        labels.append(Label(LEFT - 14, y + WORD_HEIGHT / 2, "shared", "end", "strong"))
        for r in self.rows():
            banks = lane_row(LEFT, y, WORD_HEIGHT, word_bricks)
            boxes += [banks[w % BANKS] for w in self.words if w // BANKS == r]
            y += row_height(WORD_HEIGHT, word_bricks) + WORD_GAP
        below = y - WORD_GAP + 9
        labels += numbered(LEFT, below, "bank")
        names = []
        for t in self.tensors:
            info = self.trace.tensors[t]
            shape = " × ".join(map(str, info.shape))
            names.append(f"{info.name}: {shape} {info.dtype}, from word {info.base_address // WORD_BYTES}")
        labels.append(Label(LEFT + 1, below + 17, "; ".join(names)))
        return Scene(LEFT + BANKS * PITCH + 10, below + 28, tuple(boxes), tuple(labels))

    def rows(self) -> range:
        """The rows of 32 words that are drawn."""
        return range(self.words[0] // BANKS, self.words[-1] // BANKS + 1)

    # Frames ----------------------------------------------------------------------------------------------------------

    def frame(self, caption, event, lanes=None, words=None, inks=None):
        """Notes a frame: `lanes` are (warp, roles) to show now, `words` are roles of words."""
        roles = dict(self.lane_roles)
        for warp, letters in (lanes or {}).items():
            if warp in roles:
                roles[warp] = letters
        words = words or {}
        filled = {w: "v" if w in self.written else "-" for w in self.words}
        letters = "".join(roles[w] for w in self.shown) + "".join(words.get(w, filled[w]) for w in self.words)
        texts = tuple(t for w in self.shown for t in self.lane_texts[w]) + tuple(self.word_texts[w] for w in self.words)
        self.frames.append(Frame(caption, letters, texts, inks=inks or {}, **line_of(self.trace, event)))

    def play(self):
        self._at_first()
        self.frame(
            f"{counted(self.warps, 'warp')} of 32 lanes, each lane with a value in registers; shared memory is empty.",
            None,
        )
        events, i = self.events, 0
        while i < len(events):
            event = events[i]
            op, warp = Op(int(event["op"])), int(event["warp"])
            if op == Op.SHUFFLE:
                j = i
                while j < len(events) and events[j]["op"] == Op.SHUFFLE and events[j]["warp"] == warp:
                    j += 1
                for group in series(events[i:j]):
                    self._shuffles(warp, group)
                i = j
                continue
            if op in (Op.LOAD, Op.STORE, Op.ATOMIC) and int(event["tensor"]) in self.tensors:
                self._access(warp, event, op)
            elif op in (Op.BARRIER, Op.BARRIER_ARRIVE):
                following = events[i + 1] if i + 1 < len(events) else None
                opens = (
                    following is not None and following["op"] == Op.BARRIER_RESUME and _same_barrier(event, following)
                )
                self._barrier(warp, event, opens)
            elif op == Op.BARRIER_RESUME and self._release(event):
                self.frame("The barrier opens: every warp that waited goes on.", event)
            i += 1

    def _at_first(self):
        for warp in self.shown:
            groups = series(self.events[self.events["warp"] == warp])
            if groups:
                first = read_series(self.trace, groups[0]).shuffles[0]
                self._show(warp, first.before, first.before_known & first.lanes)

    def _show(self, warp, values, known):
        if warp in self.lane_texts:
            old = self.lane_texts[warp]
            self.lane_texts[warp] = [short(v) if k else o for v, k, o in zip(values, known, old)]

    def _operation(self, group):
        """The operation that explains the series; where it says too little, what others of its line agree on."""
        if len(group) > 1:
            return read_series(self.trace, group).operation
        others = set()
        for warp in range(self.warps):
            for other in series(self.events[self.events["warp"] == warp]):
                if other[0]["line"] == group[0]["line"] and len(other) > 1:
                    others.add(read_series(self.trace, other).operation)
        return others.pop() if len(others) == 1 else None

    def _shuffles(self, warp, group):
        operation = self._operation(group)
        whole = read_series(self.trace, group, self.loaded.get(warp), operation)
        last = whole.shuffles[-1]
        if warp not in self.lane_roles:
            return
        done = warp in self.loaded and warp not in self.unsure
        holders = whole.holders() if done else np.zeros(LANES, bool)
        self._show(warp, last.after, last.after_known & last.lanes)
        letters = "".join("a" if h else "r" if on else "i" for h, on in zip(holders, last.lanes))
        name = {"+": "sum", "max": "maximum", "min": "minimum"}.get(operation, "result")
        text = f"Warp {warp}: {counted(len(group), 'shuffle')} among {lane_words(last.lanes)}."
        if last.after_known.any():
            lane = int(np.nonzero(last.lanes & last.after_known)[0][0])
            of = (
                "the warp"
                if warp not in self.loaded
                else "what the warps stored"
                if done
                else "what it read, whoever wrote it"
            )
            text += f" Lane {lane} now holds the {name} of {of}: {full(last.after[lane])}."
        if done:
            self.lane_roles[warp] = "".join("a" if h else "v" for h in holders)
        self.frame(text, group[-1], {warp: letters})

    def _access(self, warp, event, op):
        info = self.trace.tensors[int(event["tensor"])]
        lanes, addresses = active(event), row(self.trace.addresses, event["addresses"])
        values = row(self.trace.values, event["values"])
        start = [offset_in(info, a) + info.base_address for a in addresses]
        span = max(1, int(event["bytes"]) // WORD_BYTES)
        touched = {i: range(start[i] // WORD_BYTES, start[i] // WORD_BYTES + span) for i in np.nonzero(lanes)[0]}
        words = {w for run in touched.values() for w in run}
        store = op != Op.LOAD
        unwritten = words - self.written
        for i, run in touched.items():
            if store:
                self.written |= set(run)
            if store or run[0] in self.written:
                self.word_texts[run[0]] = short(values[i])
            for w in run[1:]:
                self.word_texts[w] = "…"
        self._show(warp, values, lanes)
        if not store:
            if unwritten:
                self.unsure.add(warp)
            self.loaded[warp] = np.where(lanes, values, np.nan)
        role = "w" if store else "r"
        letters = "".join(role if on else "i" for on in lanes)
        marks = {w: role if store or w not in unwritten else "f" for w in words}
        inks = {"write" if store else "read": self._arrows(warp, touched, store)} if warp in self.lane_texts else {}
        if warp in self.lane_texts:
            self.frame(
                _access_words(warp, event, info, lanes, addresses, words, store, unwritten),
                event,
                {warp: letters},
                marks,
                inks,
            )

    def _arrows(self, warp, touched, store) -> str:
        links, drawn = [], set()
        for lane, run in touched.items():
            if run[0] in drawn:
                continue  # lanes that read the same word get it by one broadcast: one arrow
            drawn.add(run[0])
            ends = self.shown.index(warp) * LANES + int(lane), len(self.shown) * LANES + self.words.index(run[0])
            links.append(link(*ends) if store else link(*reversed(ends)))
        return "".join(links)

    def _barrier(self, warp, event, opens):
        place = (int(event["arg"]), int(event["arg2"]))
        here = self.waiting.setdefault(place, [])
        here.append(warp)
        name = "the barrier" if not place[0] else f"barrier {place[0]}"
        if event["op"] == Op.BARRIER_ARRIVE:
            self.frame(f"Warp {warp} arrives at {name} and goes on without waiting.", event)
            return
        if opens:
            there = counted(len(here), "warp")
            self._release(event)
            self.frame(
                f"Warp {warp} arrives last: {name} opens, and what was written before it can now be read. {there} go on.",
                event,
            )
            return
        if warp not in self.lane_roles:
            return
        self.lane_roles[warp] = "p" * LANES
        self.frame(
            f"Warp {warp} arrives at {name} and waits; {counted(len(here), 'warp')} {'is' if len(here) == 1 else 'are'} there.",
            event,
        )

    def _release(self, event) -> bool:
        here = self.waiting.pop((int(event["arg"]), int(event["arg2"])), [])
        for warp in here:
            if warp in self.lane_roles:
                self.lane_roles[warp] = "v" * LANES
        return bool(here)


def _same_barrier(a, b) -> bool:
    return a["arg"] == b["arg"] and a["arg2"] == b["arg2"] and a["warp"] == b["warp"]


def _access_words(warp, event, info, lanes, addresses, words, store, unwritten) -> str:
    banks = {}
    for word in words:
        banks[word % BANKS] = banks.get(word % BANKS, 0) + 1
    first = int(np.nonzero(lanes)[0][0])
    if lanes.sum() == 1:
        does = "writes" if store else "reads"
        text = f"Warp {warp}: lane {first} {does} {element(info, addresses[first])}, in bank {min(words) % BANKS}."
    else:
        wavefronts, fewest = max(banks.values()), -(-len(words) // BANKS)
        conflict = "no conflict" if wavefronts == 1 else f"{wavefronts} wavefronts, as many as {len(words)} words need"
        if wavefronts > fewest:
            conflict = f"up to {wavefronts} words in one bank, so {wavefronts} wavefronts where {fewest} would do"
        text = (
            f"Warp {warp}: {lane_words(lanes)} {'write' if store else 'read'} {counted(len(words), 'word')} of {info.name} "
            f"in {counted(len(banks), 'bank')} ({ranges(banks)}); {conflict}."
        )
        if not store and len(words) < lanes.sum():
            text += " Lanes that read the same word get it by broadcast."
    if not store and unwritten:
        are = "it is" if len(words) == 1 else f"{len(unwritten)} of them are"
        text += f" But {are} not written by anyone yet: the value is whatever was there."
    return text
