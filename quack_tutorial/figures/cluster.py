"""`cluster_exchange`: the blocks of a cluster, what they send each other, and the mbarriers that count it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cutesim.trace import SMEM_BLOCK_BITS, Op, Space

from .player import Frame, Player
from .scene import Box, Label, Scene, link
from .wording import active, counted, element, full, line_of, origin, picked, ranges, row, short, touched

TOP, HEIGHT, ARROWS, FONT = 30, 24, 74, 12
# A block's column, to the right of the names of its rows; slots are side by side in it.
LEFT, WIDTH, GAP, SLOTS = 114, 132, 8, 4
MOST_BLOCKS, MOST_WORDS, WORD_BYTES = 8, 32, 4
SEEN = (
    "MBARRIER_INIT MBARRIER_ARRIVE MBARRIER_EXPECT MBARRIER_WAIT MBARRIER_RESUME CLUSTER_ARRIVE CLUSTER_WAIT CLUSTER_RESUME "
    "STORE_ASYNC BULK_COPY ASYNC_DONE LOAD STORE EXIT"
)


def cluster_exchange(trace, first_block=0, tensor=None, launch=0) -> Player:
    """The blocks of one cluster side by side: messages under way and landed, mbarriers with phase, arrivals and bytes.

    The cluster is that of `first_block`, its block of rank 0; up to 8 blocks. `tensor` names the shared allocation whose words
    are drawn; left out, all that other blocks reach, up to 32 words a block. ValueError where the launch has no clusters,
    no block reaches another's memory, or the trace has no values.
    """
    events = picked(trace, launch, first_block)
    if not len(trace.values):
        raise ValueError("the trace has no values: record it with simulate(..., values=True)")
    blocks = _blocks(trace, launch, first_block)
    events = picked(trace, launch)
    run = _Run(trace, events[np.isin(events["block"], blocks)], blocks, tensor)
    run.play()
    key = [
        ("w", "changes now"),
        ("r", "is read now"),
        ("p", "waits"),
        ("a", "complete, or the answer"),
        ("order", "a message under way"),
        ("write", "lands now"),
        ("thin", "has landed"),
    ]
    return Player(
        title=f"A cluster of {counted(len(blocks), 'block')} through distributed shared memory",
        scene=run.scene(),
        frames=tuple(run.frames),
        origin=origin(trace, launch, "messages land as late as they may: the simulator's choice"),
        key=tuple(key),
    )


def _blocks(trace, launch: int, first: int) -> list[int]:
    """The linear indices of a cluster's blocks, by rank."""
    (gx, gy, _), (cx, cy, cz) = trace.launches[launch].grid, trace.launches[launch].cluster
    if cx * cy * cz == 1:
        raise ValueError("the launch has no clusters: launch(..., cluster=[blocks, 1, 1]) makes them")
    if cx * cy * cz > MOST_BLOCKS:
        raise ValueError(f"a cluster of {cx * cy * cz} blocks is more than the {MOST_BLOCKS} that are readable")
    x, y, z = first % gx, first // gx % gy, first // (gx * gy)
    if x % cx or y % cy or z % cz:
        raise ValueError(f"block {first} is not the first of a cluster")
    return [((z + k) * gy + y + j) * gx + x + i for k in range(cz) for j in range(cy) for i in range(cx)]


@dataclass
class _MBarrier:
    """What the figure knows of an mbarrier; `arrivals` and `bytes` are what its phase still waits for."""

    count: int
    arrivals: int
    phase: int = 0
    bytes: int = 0

    def completes(self) -> bool:
        if self.arrivals or self.bytes:
            return False
        self.phase, self.arrivals = self.phase + 1, self.count
        return True


@dataclass
class _Run:
    """Walks through a cluster's events and notes a frame for each that can be seen."""

    trace: object
    events: np.ndarray
    blocks: list
    tensor: str | None
    frames: list = field(default_factory=list)

    def __post_init__(self):
        self.warps = int(self.events["warp"].max()) + 1
        self.tensors = self._tensors()
        self.words = []
        for info in (self.trace.tensors[t] for t in self.tensors):
            end = info.base_address + info.nbytes
            self.words += range(info.base_address // WORD_BYTES, end // WORD_BYTES)
        if len(self.words) > MOST_WORDS:
            raise ValueError(
                f"{len(self.words)} words a block are more than the {MOST_WORDS} that are readable: choose by tensor="
            )
        made = self.events[np.isin(self.events["op"], [int(op) for op in (Op.MBARRIER_INIT, Op.MBARRIER_WAIT)])]
        places = {int(a) & _OFFSET for e in made for a in row(self.trace.addresses, e["addresses"]) if a >= 0}
        self.places = sorted(places)  # of mbarriers, in every block
        self.mbarriers = {}  # address -> _MBarrier
        self.sends = dict.fromkeys(self.blocks, "")
        self.results = dict.fromkeys(self.blocks, "")
        self.slots = {}  # (block, word) -> text
        self.under_way, self.landed = [], []  # (event row, lane, from block, (to block, word))
        self.status = {(b, w): "runs" for b in self.blocks for w in range(self.warps)}
        self.arrived, self.generations = 0, 0
        self.complete = ""  # what the last cluster barrier says
        self.issued = {}  # step -> event
        self.numbers = {name: i for i, (name, _) in enumerate(self.boxes())}

    def _tensors(self) -> list[int]:
        far = self.events[(self.events["space"] == Space.DSMEM) & (self.events["tensor"] >= 0)]
        lacks = f"no block reaches a tensor {self.tensor!r} of another; it reaches"
        none = "no block of the cluster reaches another's shared memory"
        return touched(self.trace, far, self.tensor, lacks, none)

    # What is where ---------------------------------------------------------------------------------------------------

    def _rows(self) -> dict:
        """The top of each row."""
        rows, y = {}, TOP
        for name in ("warps", "sends"):
            rows[name] = y
            y += HEIGHT + 6
        y += ARROWS
        rows["slots"] = y
        y += -(-len(self.words) // SLOTS) * (HEIGHT + 4) + 14
        for k in range(len(self.places)):
            for name in ("phase", "arrivals", "bytes"):
                rows[name, k] = y
                y += HEIGHT + 2
            y += 12
        rows["barrier"] = y
        rows["result"] = y + HEIGHT + 14
        rows["end"] = rows["result"] + HEIGHT + 4
        return rows

    def boxes(self) -> list[tuple]:
        """(name, Box) of everything, in the order of a frame's texts."""
        rows, found, slot = self._rows(), [], WIDTH / SLOTS
        for rank, b in enumerate(self.blocks):
            x = LEFT + rank * (WIDTH + GAP)
            plain = [("warps", b), ("sends", b)]
            plain += [(name, b, k) for k in range(len(self.places)) for name in ("phase", "arrivals", "bytes")]
            for name in (*plain, ("result", b)):
                top = rows[name[0]] if len(name) == 2 else rows[name[0], name[2]]
                found.append((name, Box(x, top, WIDTH, HEIGHT)))
            for at, word in enumerate(self.words):
                down, across = divmod(at, SLOTS)
                box = Box(x + across * slot, rows["slots"] + down * (HEIGHT + 4), slot - 2, HEIGHT)
                found.append((("slot", b, word), box))
        width = len(self.blocks) * (WIDTH + GAP) - GAP
        found.append((("barrier",), Box(LEFT, rows["barrier"], width, HEIGHT)))
        return found

    def scene(self) -> Scene:
        rows, labels = self._rows(), []
        for rank, b in enumerate(self.blocks):
            name = f"block {rank}" if b == rank else f"block {b}, rank {rank}"
            x = LEFT + rank * (WIDTH + GAP) + WIDTH / 2
            labels.append(Label(x, TOP - 14, name, "middle", "head"))
        names = {"warps": "warps", "sends": "sends", "result": "writes", "barrier": "cluster barrier"}
        names["slots"] = ", ".join(self.trace.tensors[t].name for t in self.tensors)
        several = len(self.places) > 1
        for k in range(len(self.places)):
            number = f" [{k}]" if several else ""
            names |= {
                ("phase", k): f"phase{number}",
                ("arrivals", k): "arrivals pending",
                ("bytes", k): "bytes to come",
            }
        for name, text in names.items():
            labels.append(Label(LEFT - 10, rows[name] + HEIGHT / 2, text, "end"))
        width = LEFT + len(self.blocks) * (WIDTH + GAP) - GAP + 2
        boxes = tuple(b for _, b in self.boxes())
        return Scene(width, rows["end"], boxes, tuple(labels), font=FONT)

    # Frames ----------------------------------------------------------------------------------------------------------

    def frame(self, caption: str, event=None, marks=None, now=()):
        """Notes a frame; `marks` maps names of boxes to roles for this step, `now` are messages that land."""
        marks, texts, roles = marks or {}, [], []
        for name in self.numbers:
            text, role = self._shown(name)
            texts.append(text)
            roles.append(marks.get(name, role))
        inks = {
            "order": "".join(map(self._arrow, self.under_way)),
            "write": "".join(map(self._arrow, now)),
            "thin": "".join(self._arrow(m) for m in self.landed if m not in now),
        }
        self.frames.append(Frame(caption, "".join(roles), tuple(texts), inks=inks, **line_of(self.trace, event)))

    def _shown(self, name: tuple) -> tuple[str, str]:
        kind, b = name[0], name[1] if len(name) > 1 else None
        if kind == "warps":
            return self._warps(b)
        if kind == "sends":
            return self.sends[b], "v" if self.sends[b] else "-"
        if kind == "result":
            return self.results[b], "a" if self.results[b] else "-"
        if kind == "slot":
            text = self.slots.get((b, name[2]), "")
            return text, "v" if text else "-"
        if kind == "barrier":
            every = self.warps * len(self.blocks)
            if self.arrived:
                return f"{self.arrived} of {counted(every, 'warp')} arrived", "p"
            return self.complete, "a" if self.complete else "-"
        mbarrier = self.mbarriers.get(b << SMEM_BLOCK_BITS | self.places[name[2]])
        if mbarrier is None:
            return "", "-"
        return str(getattr(mbarrier, kind)).replace("-", "−"), "v"

    def _warps(self, block: int) -> tuple[str, str]:
        states = [self.status[block, w] for w in range(self.warps)]
        for state, role in (("ended", "i"), ("runs", "v")):
            if set(states) == {state}:
                return state, role
        waiting = [s for s in states if s not in ("runs", "ended")]
        if self.warps == 1:
            return waiting[0], "p"
        if not waiting:
            return f"{states.count('ended')} of {self.warps} ended", "v"
        return f"{len(waiting)} of {self.warps} wait", "p" if "runs" not in states else "v"

    def _arrow(self, message) -> str:
        _, _, sender, (block, word) = message
        return link(self.numbers["sends", sender], self.numbers["slot", block, word])

    def play(self):
        self.frame(f"{counted(len(self.blocks), 'block')} of {counted(self.warps, 'warp')} have started.")
        groups = self._groups()
        for at, group in enumerate(groups):
            event, op = group[0], Op(int(group[0]["op"]))
            if op == Op.ASYNC_DONE:
                self._land(group)
            elif op in (Op.LOAD, Op.STORE):
                self._access(event, op)
            elif op in (Op.STORE_ASYNC, Op.BULK_COPY):
                self._send(event, op)
            elif op == Op.EXIT:
                for e in group:
                    self.status[int(e["block"]), int(e["warp"])] = "ended"
            elif op in (Op.MBARRIER_INIT, Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT):
                self._mbarrier(event, op)
            else:
                goes_on = at + 1 < len(groups) and int(groups[at + 1][0]["op"]) == Op.MBARRIER_RESUME
                self._wait(group, op, goes_on and groups[at + 1][0]["block"] == event["block"])

        ended = set(self.status.values()) == {"ended"}
        self.frame("All blocks have ended." if ended else "The run stops here: the report says why.")

    def _groups(self) -> list:
        """The events to show, those together that make one step: of one block and kind, or of one message."""
        groups = []
        for event in self.events[np.isin(self.events["op"], [int(Op[name]) for name in SEEN.split()])]:
            op = Op(int(event["op"]))
            if op in (Op.LOAD, Op.STORE) and not self._drawn(event, op):
                continue
            last = groups[-1][-1] if groups else None
            together = last is not None and last["op"] == event["op"] and last["block"] == event["block"]
            if together and (op == Op.ASYNC_DONE and last["arg"] == event["arg"] or op in _WAITS or op == Op.EXIT):
                groups[-1].append(event)
            else:
                groups.append([event])
        return groups

    def _drawn(self, event, op) -> bool:
        if event["space"] == Space.GMEM:
            return op == Op.STORE
        return int(event["tensor"]) in self.tensors

    # Steps -----------------------------------------------------------------------------------------------------------

    def _who(self, event) -> str:
        warp = f", warp {int(event['warp'])}" if self.warps > 1 else ""
        return f"Block {int(event['block'])}{warp}"

    def _at(self, event) -> dict:
        """address -> lanes, of an event at mbarriers."""
        addresses = row(self.trace.addresses, event["addresses"])
        return {int(a): int((addresses == a).sum()) for a in np.unique(addresses[addresses >= 0])}

    def _names(self, address: int) -> list:
        block, place = address >> SMEM_BLOCK_BITS, address & _OFFSET
        if place not in self.places or block not in self.blocks:
            return []
        return [(kind, block, self.places.index(place)) for kind in ("phase", "arrivals", "bytes")]

    def _mbarrier(self, event, op):
        said, marks = [], {}
        for address, lanes in self._at(event).items():
            owner = address >> SMEM_BLOCK_BITS
            names = self._names(address)
            of = "its" if owner == event["block"] else f"block {owner}'s"
            if op == Op.MBARRIER_INIT:
                count = int(event["arg"])
                self.mbarriers[address] = _MBarrier(count, count)
                marks |= dict.fromkeys(names, "w")
                said.append(
                    f"initialises {of} mbarrier: phase 0 waits for {counted(count, 'arrival')}, and no bytes yet."
                )
                continue
            mbarrier = self.mbarriers.setdefault(address, _MBarrier(1, 1))
            nbytes = int(event["arg"]) * lanes
            mbarrier.bytes += nbytes
            marks |= dict.fromkeys(names[2:], "w")
            does = f"tells {of} mbarrier to expect {counted(nbytes, 'byte')}"
            if op == Op.MBARRIER_ARRIVE:
                mbarrier.arrivals -= lanes
                marks |= dict.fromkeys(names[1:], "w")
                does = f"arrives at {of} mbarrier" + (f" and has it expect {counted(nbytes, 'byte')}" if nbytes else "")
            left = f"{counted(mbarrier.arrivals, 'arrival')} pending, {counted(mbarrier.bytes, 'byte')} to come"
            text = f"{does}: {left}."
            if mbarrier.completes():
                marks |= dict.fromkeys(names, "a")
                text += f" Phase {mbarrier.phase - 1} is complete."
            said.append(text)
        self.frame(f"{self._who(event)} {' It '.join(said)}", event, marks)

    def _wait(self, group, op, goes_on):
        event, warps = group[0], [(int(e["block"]), int(e["warp"])) for e in group]
        who = f"Block {int(event['block'])}" if self.warps == 1 or len(group) > 1 else self._who(event)
        if op == Op.CLUSTER_ARRIVE:
            every = self.warps * len(self.blocks)
            self.arrived += len(group)
            relaxed = " (relaxed: it orders no memory but a fenced mbarrier_init)" if event["arg"] else ""
            text = f"{who} arrives at the cluster barrier{relaxed}: {self.arrived} of {counted(every, 'warp')}."
            if self.arrived == every:
                self.arrived, self.generations = 0, self.generations + 1
                times = "" if self.generations == 1 else f", for the {self.generations}th time"
                self.complete = f"complete{times.replace('2th', '2nd').replace('3th', '3rd')}"
                text += " All blocks have arrived: who waits here may go on."
            self.frame(text, event, {("barrier",): "a" if not self.arrived else "w"})
        elif op == Op.CLUSTER_WAIT:
            for warp in warps:
                self.status[warp] = "waits"
        elif op == Op.MBARRIER_WAIT:
            address = next(iter(self._at(event)))
            mbarrier = self.mbarriers.get(address, _MBarrier(1, 1))
            if goes_on:
                return
            for warp in warps:
                self.status[warp] = f"parity {int(event['arg'])}"
            self.frame(
                f"{who} waits for the phase of parity {int(event['arg'])}: phase {mbarrier.phase} still needs "
                f"{counted(mbarrier.arrivals, 'arrival')} and {counted(mbarrier.bytes, 'byte')}.",
                event,
                dict.fromkeys(self._names(address)[:1], "p"),
            )
        else:
            for warp in warps:
                self.status[warp] = "runs"
            if op == Op.MBARRIER_RESUME and int(event["arg2"]) >= 0:
                address = next(iter(self._at(event)))
                self.frame(
                    f"{who} goes on: phase {int(event['arg2'])} of its mbarrier is complete, and it may read what that counted.",
                    event,
                    dict.fromkeys(self._names(address)[:1], "a"),
                )

    def _send(self, event, op):
        block, lanes = int(event["block"]), np.nonzero(active(event))[0]
        self.issued[int(event["step"])] = event
        if op == Op.BULK_COPY:
            self.frame(f"{self._who(event)} starts a bulk copy of {counted(int(event['arg']), 'byte')}.", event)
            return
        addresses = row(self.trace.addresses, event["addresses"])
        values = row(self.trace.values, event["values"])
        targets = sorted({int(a) >> SMEM_BLOCK_BITS for a in addresses[lanes]})
        for lane in lanes:
            self.under_way.append((int(event["step"]), int(lane), block, self._place(addresses[lane])))
        sent = sorted(set(values[lanes].tolist()))
        self.sends[block] = short(sent[0]) if len(sent) == 1 else f"{len(sent)} values"
        info = self.trace.tensors[int(event["tensor"])]
        what = full(sent[0]) if len(sent) == 1 else counted(len(lanes), "value")
        self.frame(
            f"{self._who(event)} sends {what} to {element(info, int(addresses[lanes[0]]))} of block"
            f"{'s' * (len(targets) > 1)} {ranges(targets)}: {counted(len(lanes), 'message')} of {int(event['bytes'])} bytes. "
            "None of them has arrived yet.",
            event,
            {("sends", block): "w"},
        )

    def _place(self, address) -> tuple[int, int]:
        return int(address) >> SMEM_BLOCK_BITS, (int(address) & _OFFSET) // WORD_BYTES

    def _land(self, group):
        """The messages of one instruction, or some of them, arrive."""
        source = self.issued[int(group[0]["arg"])]
        marks, now, ends, left = {}, [], [], []
        for event in group:
            address = next(iter(self._at(event)))
            mbarrier = self.mbarriers.setdefault(address, _MBarrier(1, 1))
            owner = address >> SMEM_BLOCK_BITS
            nbytes = int(source["bytes"])
            if int(source["op"]) == Op.BULK_COPY:
                nbytes = int(source["arg"])
            else:
                message = next(m for m in self.under_way if m[0] == source["step"] and m[3][0] == owner)
                self.under_way.remove(message)
                self.landed.append(message)
                now.append(message)
                marks |= self._fill(source, message)
            mbarrier.bytes -= nbytes
            marks |= dict.fromkeys(self._names(address)[2:], "w")
            if mbarrier.completes():
                ends.append((owner, mbarrier.phase - 1))
                marks |= dict.fromkeys(self._names(address), "a")
            else:
                left.append((owner, mbarrier.bytes))
        to = sorted({m[3][0] for m in now})
        text = f"The bytes that block {int(source['block'])} sent"
        text += f" to block{'s' * (len(to) > 1)} {ranges(to)} arrive." if to else " arrive."
        for nbytes in dict.fromkeys(n for _, n in left):
            which = ranges(b for b, n in left if n == nbytes)
            text += f" Block{'s' * (len(left) > 1)} {which}: {counted(nbytes, 'byte')} to come."
        for owner, phase in ends:
            text += f" Phase {phase} of block {owner} is complete: no arrival is pending, and no byte to come."
        self.frame(text, source, marks, now)

    def _fill(self, source, message) -> dict:
        _, lane, _, (block, word) = message
        values = row(self.trace.values, source["values"])
        span = max(1, int(source["bytes"]) // WORD_BYTES)
        for k in range(span):
            self.slots[block, word + k] = short(values[lane]) if k == 0 else "…"
        return {("slot", block, word + k): "w" for k in range(span)}

    def _access(self, event, op):
        lanes = np.nonzero(active(event))[0]
        addresses = row(self.trace.addresses, event["addresses"])
        values, block = row(self.trace.values, event["values"]), int(event["block"])
        info = self.trace.tensors[int(event["tensor"])]
        if event["space"] == Space.GMEM:
            if len(lanes) == 1:
                self.results[block] = short(values[lanes[0]])
                place = element(info, int(addresses[lanes[0]]))
                self.frame(f"{self._who(event)} writes {full(values[lanes[0]])} to {place}.", event)
            return
        places = {self._place(addresses[lane]): lane for lane in lanes}
        if op == Op.STORE:
            for place, lane in places.items():
                self.slots[place] = short(values[lane])
        unwritten = [place for place in places if place not in self.slots]
        owners = ranges({b for b, _ in places})
        does = "writes" if op == Op.STORE else "reads"
        whose = "its own" if {b for b, _ in places} == {block} else f"block {owners}'s"
        text = f"{self._who(event)} {does} {counted(len(places), 'word')} of {whose} {info.name}."
        if unwritten and op == Op.LOAD:
            text += f" Nothing has arrived in {len(unwritten)} of them: it gets what was there before."
        role = "w" if op == Op.STORE else "r"
        marks = {("slot", b, w): "f" if (b, w) in unwritten and op == Op.LOAD else role for b, w in places}
        self.frame(text, event, marks)


_OFFSET = (1 << SMEM_BLOCK_BITS) - 1
_WAITS = (Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT, Op.CLUSTER_RESUME)
_WAITS += (Op.MBARRIER_WAIT, Op.MBARRIER_RESUME)
