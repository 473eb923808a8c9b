"""`race`: two accesses to the same memory that nothing orders, each in its own thread's time, and what would order them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import numpy as np

from quack_tutorial.trace import Op

from .player import Frame, Player
from .scene import Box, Label, Scene, arrow, line
from .wording import LANES, active, element, origin, picked, row

COLUMN, BETWEEN, LEFT, TOP, HEIGHT, ROW, FIX = 320, 96, 4, 34, 24, 31, 30
AROUND = 3  # rows shown before and after the two accesses
GLYPH = 6.65
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


def race(trace, finding, launch=0) -> Player:
    """The two source lines and threads of a race, time downwards in each column, the missing edge dashed.

    `finding` is one of a run's findings of kind "race". ValueError where the trace has no two such accesses.
    """
    first, second = _accesses(trace, finding, launch)
    columns = [_steps(trace, access, launch) for access in (first, second)]
    rows = _aligned(trace, columns)
    top = [
        next(r for r, pair in enumerate(rows) if pair[k] is not None and _holds(pair[k], a))
        for k, a in enumerate((first, second))
    ]
    low, high = max(0, min(top) - AROUND), min(len(rows), max(top) + AROUND + 1)
    rows, top = rows[low:high], [t - low for t in top]
    picture = _Picture(trace, rows, top, first, second)
    frames = tuple(picture.frames(finding))
    where = f"block {int(first.event['block'])}"
    key = [("w", "writes"), ("r", "reads"), ("missing", "no edge orders the two"), ("fix", "what would order them")]
    key.append(("order", "an order that can happen"))
    if any("p" in frame.roles for frame in frames):
        key.append(("p", "synchronises"))
    return Player(
        title=f"A race: {finding.lines[0].where} against {finding.lines[-1].where}",
        scene=picture.scene(),
        frames=frames,
        origin=origin(trace, launch, where)
        + " Time runs downwards within a column; nothing is said about time between the two.",
        key=tuple(key),
    )


def _accesses(trace, finding, launch):
    block = max(0, finding.block)
    events = picked(trace, launch, block)
    candidates = [list(_candidates(trace, events, finding, k)) for k in (0, 1)]
    if not all(candidates):
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


def _candidates(trace, events, finding, k):
    """Accesses on the finding's k-th line, by its k-th thread where it names one."""
    wanted = finding.lines[min(k, len(finding.lines) - 1)]
    thread = finding.threads[k] if k < len(finding.threads) else None
    for event in events:
        if trace.line(event) != wanted or event["addresses"] < 0 or not event["bytes"] or event["op"] == Op.SHUFFLE:
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
    """The events of an access's warp, one group for each run of the same line; resumes and branches left out."""
    events = picked(trace, launch, int(access.event["block"]), int(access.event["warp"]))
    groups = []
    for event in events[~np.isin(events["op"], [Op.BARRIER_RESUME, Op.BRANCH, Op.EXIT])]:
        same = groups and groups[-1][-1]["line"] == event["line"] and event["op"] == groups[-1][-1]["op"] == Op.SHUFFLE
        if same:
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


def _holds(group, access) -> bool:
    return any(event["step"] == access.event["step"] for event in group)


@dataclass(frozen=True)
class _Picture:
    """Where the boxes of a race are, and its frames. `top` are the rows of the two accesses."""

    trace: object
    rows: list
    top: list
    first: _Access
    second: _Access

    def y(self, r: int) -> float:
        return TOP + r * ROW + (FIX if r >= max(self.top) and self.top[0] != self.top[1] else 0)

    def cells(self):
        return [(r, k) for r, pair in enumerate(self.rows) for k in (0, 1) if pair[k] is not None]

    def box(self, r: int, k: int) -> Box:
        return Box(LEFT + k * (COLUMN + BETWEEN), self.y(r), COLUMN, HEIGHT, wide=True)

    def scene(self) -> Scene:
        labels = []
        for k, access in enumerate((self.first, self.second)):
            text = f"thread {access.thread}: lane {access.lane} of warp {int(access.event['warp'])}"
            labels.append(Label(LEFT + k * (COLUMN + BETWEEN) + COLUMN / 2, 13, text, "middle", "strong"))
        rules = "".join(
            line(
                LEFT + k * (COLUMN + BETWEEN) + 12, TOP - 10, LEFT + k * (COLUMN + BETWEEN) + 12, self.y(len(self.rows))
            )
            for k in (0, 1)
        )
        boxes = tuple(self.box(r, k) for r, k in self.cells())
        return Scene(LEFT * 2 + 2 * COLUMN + BETWEEN, self.y(len(self.rows)) + 4, boxes, tuple(labels), rules)

    def text(self, group) -> str:
        source = self.trace.line(group[0])
        times = f"  ({len(group)} times)" if len(group) > 1 else ""
        room = int((COLUMN - 14) / GLYPH) - len(times)
        whole = f"{source.number:>3}  {source.text}"
        return (whole if len(whole) <= room else whole[: room - 1] + "…") + times

    def roles(self) -> str:
        letters = []
        for r, k in self.cells():
            access = self.second if k else self.first
            op = Op(int(self.rows[r][k][0]["op"]))
            letters.append(("w" if access.writes else "r") if r == self.top[k] else "p" if op in SYNCS else "-")
        return "".join(letters)

    def between(self) -> dict[str, str]:
        """The arrow from the first access to the second."""
        y0, y1 = (self.y(t) + HEIGHT / 2 for t in self.top)
        return arrow(LEFT + COLUMN + 4, y0, LEFT + COLUMN + BETWEEN - 4, y1, 8)

    def back(self) -> str:
        y0, y1 = (self.y(t) + HEIGHT / 2 for t in self.top)
        return arrow(LEFT + COLUMN + BETWEEN - 4, y1, LEFT + COLUMN + 4, y0, 8)

    def fix(self):
        """The barrier that is missing, as a path and its note; nothing where both are in the same row."""
        if self.top[0] == self.top[1]:
            return "", ()
        y = self.y(max(self.top)) - (ROW - HEIGHT) - FIX / 2 + 4
        left, right = LEFT, LEFT + 2 * COLUMN + BETWEEN
        middle = LEFT + COLUMN / 2
        path = line(left, y, right, y)
        return path, (Label(middle, y - 8, f"missing here: {self.cure()}", "middle", "strong"),)

    def cure(self) -> str:
        same_warp = self.first.event["warp"] == self.second.event["warp"]
        return "cute.arch.sync_warp()" if same_warp else "cute.arch.barrier()"

    def frames(self, finding):
        texts = tuple(self.text(self.rows[r][k]) for r, k in self.cells())
        roles = self.roles()
        first, second = self.first, self.second
        fix, note = self.fix()
        tensor = self.trace.tensors[int(first.event["tensor"])]
        place = element(tensor, first.address)
        middle = Label(LEFT + COLUMN + BETWEEN / 2, min(map(self.y, self.top)) - 1, "no order", "middle", "strong")

        def frame(caption, access, inks, notes=()):
            source = self.trace.line(access.event)
            return Frame(caption, roles, texts, source.where, source.text, inks, notes)

        yield frame(str(finding), first, {"missing": self.between(), "fix": fix}, (middle, *note))
        yield frame(
            f"If thread {first.thread} comes first, {_outcome(first, second, place)}", first, {"order": self.between()}
        )
        yield frame(
            f"If thread {second.thread} comes first, {_outcome(second, first, place)}", second, {"order": self.back()}
        )
        if fix:
            text = f"With {self.cure()} between the two, all that is above it in either column comes before all that is below it."
            yield frame(text, second, {"fix": fix, "order": self.between()}, _without(note))


def _without(notes):
    """The notes of a barrier that is there, not missing."""
    return tuple(replace(note, text=note.text.removeprefix("missing here: ")) for note in notes)


def _outcome(early: _Access, late: _Access, place: str) -> str:
    if early.writes and late.writes:
        return f"{place} ends with what thread {late.thread} wrote."
    if early.writes:
        return f"thread {late.thread} reads from {place} what thread {early.thread} wrote."
    return f"it reads from {place} what was there before thread {late.thread} wrote."
