"""`race`: two accesses to the same memory that nothing orders, each in its own thread's time, and what would order them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from cutesim.trace import Op

from .player import Frame, Player
from .scene import Box, Label, Scene, line, link
from .wording import LANES, active, element, line_of, origin, picked, row

COLUMN, BETWEEN, LEFT, TOP, HEIGHT, ROW = 350, 48, 4, 34, 24, 31
AROUND = 3  # rows shown before and after the two accesses
MOST_BETWEEN = 6  # rows between the two; of more, as a loop has them, those in the middle are one
GLYPH = 6.95
WRITES = (Op.STORE, Op.ATOMIC)
SYNCS = (Op.BARRIER, Op.SYNC_WARP, Op.CLUSTER_WAIT)


@dataclass(frozen=True)
class _Access:
    """One of the two: an event, the lane that did it, and the bytes it touched."""

    event: np.void
    lane: int
    address: int

    @property
    def thread(self) -> int:
        return int(self.event["warp"]) * LANES + self.lane

    @property
    def writes(self) -> bool:
        return Op(int(self.event["op"])) in WRITES

    def overlaps(self, other) -> bool:
        return self.address < other.address + int(other.event["bytes"]) and other.address < self.address + int(
            self.event["bytes"]
        )


def race(trace, *findings, launch=0) -> Player | None:
    """The two source lines and threads of a race, time downwards in each column, the missing edge dashed.

    It is the first race of a run's `findings`; None, and a sentence, if there is none. ValueError where the trace has no two such
    accesses.
    """
    races = [finding for finding in findings if getattr(finding, "kind", "race") == "race"]
    if not races:
        print("No race was found.")
        return None
    finding = races[0]
    first, second = _accesses(trace, finding, launch)
    columns = [_steps(trace, access, launch) for access in (first, second)]
    rows = _aligned(trace, columns)
    top = [
        next(r for r, pair in enumerate(rows) if pair[k] is not None and _holds(pair[k], a))
        for k, a in enumerate((first, second))
    ]
    low, high = max(0, min(top) - AROUND), min(len(rows), max(top) + AROUND + 1)
    rows, top = _folded(rows[low:high], [t - low for t in top])
    picture = _Picture(trace, rows, top, first, second, _calls(columns))
    frames = tuple(picture.frames(finding))
    where = f"block {int(first.event['block'])}"
    key = [
        ("w", "writes"),
        ("r", "reads"),
        ("missing", "nothing orders the two"),
        ("order", "an order that can happen"),
    ]
    if top[0] != top[1]:
        key += [("f", "missing"), ("a", "orders them")]
    if any("p" in frame.roles for frame in frames):
        key.append(("p", "synchronises"))
    return Player(
        title=f"A race: {trace.line(first.event).where} against {trace.line(second.event).where}",
        scene=picture.scene(),
        frames=frames,
        origin=origin(trace, launch, where)
        + " Time runs downwards within a column; nothing is said about time between the two.",
        key=tuple(key),
        start=0,
    )


def _accesses(trace, finding, launch):
    if not getattr(finding, "addresses", ()):
        raise ValueError(f"race: expected one of a run's findings of two accesses, got {finding!r:.60}")
    block = max(0, finding.block)
    events = picked(trace, launch, block)
    at = finding.addresses[0]
    touching = {trace.line(event) for event in events if _touches(event) and _covers(trace, event, at)}
    lines = [row for row in finding.lines if row in touching]  # not those of calls
    threads = (*finding.threads, None, None)
    candidates = [list(_candidates(trace, events, wanted, thread)) for wanted, thread in zip(lines * 2, threads[:2])]
    if not lines or not all(candidates):
        raise ValueError(
            f"the trace has no accesses on {' and '.join(row.where for row in finding.lines)}: is it this run's?"
        )
    pairs = [
        (abs(_epoch(events, a) - _epoch(events, b)), abs(int(a.event["step"]) - int(b.event["step"])), i, j)
        for i, a in enumerate(candidates[0])
        for j, b in enumerate(candidates[1])
        if a.overlaps(b) and (a.writes or b.writes) and a.thread != b.thread
    ]
    if not pairs:
        raise ValueError(
            "the trace has no two threads that touch the same bytes on the finding's lines: is it this run's?"
        )
    _, _, i, j = min(pairs)
    return candidates[0][i], candidates[1][j]


def _touches(event) -> bool:
    """Whether the event touches memory."""
    return event["addresses"] >= 0 and event["bytes"] and event["op"] != Op.SHUFFLE


def _covers(trace, event, address: int) -> bool:
    first = row(trace.addresses, event["addresses"])
    return bool(((first >= 0) & (first <= address) & (address < first + event["bytes"])).any())


def _candidates(trace, events, wanted, thread):
    """Accesses on the wanted line, by one thread where it is given."""
    for event in events:
        if trace.line(event) != wanted or not _touches(event):
            continue
        addresses, lanes = row(trace.addresses, event["addresses"]), active(event)
        for lane in np.nonzero(lanes)[0]:
            if thread is None or int(event["warp"]) * LANES + lane == thread:
                yield _Access(event, int(lane), int(addresses[lane]))


def _epoch(events, access) -> int:
    """How many block barriers the access's warp had passed before it."""
    mine = events[(events["warp"] == access.event["warp"]) & (events["step"] < access.event["step"])]
    return int((mine["op"] == Op.BARRIER).sum())


def _steps(trace, access, launch):
    """The events of an access's warp; resumes and branches left out.

    The shuffles of one line are one group, until an offset comes again: two calls of a reduction stay two.
    """
    events = picked(trace, launch, int(access.event["block"]), int(access.event["warp"]))
    groups = []
    for event in events[~np.isin(events["op"], [Op.BARRIER_RESUME, Op.BRANCH, Op.EXIT])]:
        last = groups[-1] if groups else None
        same = last and last[-1]["line"] == event["line"] and event["op"] == last[-1]["op"] == Op.SHUFFLE
        if same and event["arg2"] not in [e["arg2"] for e in last]:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def _aligned(trace, columns):
    """Rows of (left group, right group), None where a warp does not do what the other does."""
    keys = [[(int(g[0]["line"]), int(g[0]["op"])) for g in column] for column in columns]
    rows = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += [(columns[0][a0 + i], columns[1][b0 + i]) for i in range(a1 - a0)]
        else:
            rows += [(columns[0][i], None) for i in range(a0, a1)] + [(None, columns[1][j]) for j in range(b0, b1)]
    return rows


@dataclass(frozen=True)
class _Folded:
    """Steps of a warp that are one row."""

    steps: int


def _folded(rows, top):
    """The rows with what is between the two accesses cut down, so that both can be seen together, and where they then are."""
    first, last = sorted(top)
    begin, end = first + 1 + MOST_BETWEEN // 2, last - MOST_BETWEEN // 2
    if end - begin < 2:
        return rows, top
    steps = [sum(len(pair[k]) for pair in rows[begin:end] if pair[k] is not None) for k in (0, 1)]
    middle = tuple(_Folded(count) if count else None for count in steps)
    return [*rows[:begin], middle, *rows[end:]], [t if t <= first else t - (end - begin) + 1 for t in top]


def _holds(group, access) -> bool:
    return any(event["step"] == access.event["step"] for event in group)


@dataclass(frozen=True)
class _Picture:
    """Where the boxes of a race are, and its frames.

    `top` are the rows of the two accesses, `calls` says of each event's step how often its line had come before and will in
    all. The barrier that is missing has a box in each column, before the later of the two rows.
    """

    trace: object
    rows: list
    top: list
    first: _Access
    second: _Access
    calls: dict

    @property
    def fixed(self) -> bool:
        return self.top[0] != self.top[1]

    def cells(self):
        return [(r, k) for r, pair in enumerate(self.rows) for k in (0, 1) if pair[k] is not None]

    def at(self, k: int) -> int:
        """The number of an access's box."""
        return self.cells().index((self.top[k], k))

    def below(self, r: int) -> int:
        return r + (self.fixed and r >= max(self.top))

    def scene(self) -> Scene:
        end = TOP + self.below(len(self.rows)) * ROW
        x = (LEFT, LEFT + COLUMN + BETWEEN)
        rows = [(self.below(r), k) for r, k in self.cells()] + [(max(self.top), k) for k in (0, 1) if self.fixed]
        boxes = tuple(Box(x[k], TOP + r * ROW, COLUMN, HEIGHT, wide=True) for r, k in rows)
        labels = tuple(Label(x[k] + COLUMN / 2, 13, self.head(k), "middle", "strong") for k in (0, 1))
        rules = "".join(line(x[k] + 12, TOP - 10, x[k] + 12, end) for k in (0, 1))
        return Scene(LEFT * 2 + 2 * COLUMN + BETWEEN, end + 4, boxes, labels, rules)

    def head(self, k: int) -> str:
        access = (self.first, self.second)[k]
        return f"thread {access.thread}: lane {access.lane} of warp {int(access.event['warp'])}"

    def text(self, group) -> str:
        if isinstance(group, _Folded):
            return f"…  {group.steps:,} more step{'s' * (group.steps != 1)}"
        source = self.trace.line(group[0])
        nth, total = self.calls[int(group[0]["step"])]
        shuffles = group[0]["op"] == Op.SHUFFLE
        said = {1: "1st", 2: "2nd", 3: "3rd"}.get(nth, f"{nth}th")
        note = f"  ×{len(group)}" if shuffles else f"  {said} time:" if total > 1 else ""
        whole = f"{source.where}{note}  {source.text}"
        room = int((COLUMN - 14) / GLYPH)
        return whole if len(whole) <= room else whole[: room - 1] + "…"

    def roles(self) -> str:
        letters = []
        for r, k in self.cells():
            access = self.second if k else self.first
            group = self.rows[r][k]
            synchronises = not isinstance(group, _Folded) and Op(int(group[0]["op"])) in SYNCS
            letters.append(("w" if access.writes else "r") if r == self.top[k] else "p" if synchronises else "-")
        return "".join(letters)

    def cure(self) -> str:
        same_warp = self.first.event["warp"] == self.second.event["warp"]
        return "cute.arch.sync_warp()" if same_warp else "cute.arch.barrier()"

    def frames(self, finding):
        texts = tuple(self.text(self.rows[r][k]) for r, k in self.cells())
        first, second = self.first, self.second
        there, back = link(self.at(0), self.at(1)), link(self.at(1), self.at(0))
        tensor = self.trace.tensors[int(first.event["tensor"])]
        place = element(tensor, first.address)

        def frame(caption, access, inks, cure="", role="h"):
            more = 2 if self.fixed else 0
            said, source = texts + (cure,) * more, line_of(self.trace, access.event)
            return Frame(caption, self.roles() + role * more, said, inks=inks, **source)

        yield frame(str(finding), first, {"missing": there}, f"missing: {self.cure()}", "f")
        yield frame(f"If thread {first.thread} comes first, {_outcome(first, second, place)}", first, {"order": there})
        yield frame(f"If thread {second.thread} comes first, {_outcome(second, first, place)}", second, {"order": back})
        if self.fixed:
            text = f"With {self.cure()} between the two, all that is above it in either column comes before all that is below it."
            late = self.top[0] > self.top[1]
            yield frame(text, second, {"order": back if late else there}, self.cure(), "a")


def _calls(columns) -> dict[int, tuple[int, int]]:
    """For the step of each group: the how-manieth of its line and operation it is in its warp, of how many."""
    found = {}
    for column in columns:
        keys = [(int(g[0]["line"]), int(g[0]["op"])) for g in column]
        for i, (group, key) in enumerate(zip(column, keys)):
            found[int(group[0]["step"])] = keys[: i + 1].count(key), Counter(keys)[key]
    return found


def _outcome(early: _Access, late: _Access, place: str) -> str:
    if early.writes and late.writes:
        return f"{place} ends with what thread {late.thread} wrote."
    if early.writes:
        return f"thread {late.thread} reads from {place} what thread {early.thread} wrote."
    return f"it reads from {place} what was there before thread {late.thread} wrote."
