"""Races by brute force: the order as an explicit graph of single threads and copies, and reachability between all pairs.

Shares nothing with the package's detector but the trace. For tiny traces only.
"""

from dataclasses import dataclass

from cutesim.trace import FenceKind, Op, Space

# block, cluster, any two threads
REACH = {FenceKind.CTA: 0, FenceKind.CLUSTER: 1, FenceKind.GPU: 2, FenceKind.SYS: 2}
ACQUIRE, RELEASE = 1, 2
MBARRIER = (Op.MBARRIER_INIT, Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT)
MBARRIER += (Op.MBARRIER_WAIT, Op.MBARRIER_RESUME)


class Graph:
    """Nodes by name; `edge` adds an edge, and edges make no circle."""

    def __init__(self):
        self.index, self.edges = {}, []

    def node(self, name):
        return self.index.setdefault(name, len(self.index))

    def edge(self, a, b):
        self.edges.append((self.node(a), self.node(b)))

    def reach(self):
        """For each node, the nodes that a path leads to, as the bits of an integer."""
        after = [set() for _ in self.index]
        for a, b in self.edges:
            after[a].add(b)
        found = [None] * len(after)
        stack = list(range(len(after)))
        while stack:
            node = stack[-1]
            missing = [b for b in after[node] if found[b] is None]
            if found[node] is None and not missing:
                found[node] = 1 << node
                for b in after[node]:
                    found[node] |= found[b]
            stack = stack + missing if missing else stack[:-1]
        return found


def racing_lines(trace) -> set:
    """The pairs of line numbers, as frozensets, with conflicting accesses that no path orders."""
    graph, accesses = _graph(trace)
    reach = graph.reach()
    racing = set()
    for i, a in enumerate(accesses):
        for b in accesses[i + 1 :]:
            if a["launch"] != b["launch"] or a["thing"] == b["thing"] or a["bytes"].isdisjoint(b["bytes"]):
                continue
            if {a["kind"], b["kind"]} in ({"r"}, {"a"}):
                continue
            if not _before(graph, reach, a, b) and not _before(graph, reach, b, a):
                racing.add(frozenset((a["line"], b["line"])))
    return racing


def unfenced_lines(trace) -> set:
    """(write's line, bulk copy's line) where a path leads from a thread's write to the copy, but none through a proxy fence."""
    graph, accesses = _graph(trace)
    reach = graph.reach()
    leads = lambda a, b: bool(reach[graph.node(a)] >> graph.node(b) & 1)  # noqa: E731
    fences = [
        (f, (*f[:2], "end"))
        for f in graph.index
        if len(f) == 3 and (*f[:2], "proxy") in graph.index and f[2] == "begin"
    ]
    found = set()
    for b in accesses:
        if not (b["bulk"] and b["kind"] == "r" and b["shared"]):
            continue
        for a in accesses:
            if not a["generic"] or a["kind"] == "r" or a["launch"] != b["launch"] or a["bytes"].isdisjoint(b["bytes"]):
                continue
            end = a["ends"][0]
            on_the_way = any(leads(end, begin) and leads(after, b["begin"]) for begin, after in fences)
            if _before(graph, reach, a, b) and not on_the_way:
                found.add((a["line"], b["line"]))
    return found


def _graph(trace):
    graph, accesses = Graph(), []
    for launch in range(len(trace.launches)):
        _launch(trace, launch, graph, accesses)
    return graph, accesses


def _before(graph, reach, a, b) -> bool:
    return any(reach[graph.node(end)] >> graph.node(b["begin"]) & 1 for end in a["ends"])


@dataclass
class _Atomic:
    """An atomic of one thread: the fences before it, and the atomics on its address that it reads from."""

    thread: tuple
    step: int
    lane: int
    bits: int
    fences: list
    before: list


def _observe(graph, row, cluster):
    """Edges that end at an atomic: from those it reads from, and if it acquires, from what they released."""
    end = (row.step, row.lane, "end")
    for other in row.before:
        if other.step < row.step:
            graph.edge((other.step, other.lane, "seen"), end)
    if row.bits & ACQUIRE:
        _synchronise(graph, row, 2, end, cluster)


def _synchronise(graph, row, reach, node, cluster):
    """Edges to `node`, at which the thread of the atomic `row` acquires, from the releases that it read."""
    for other in row.before:
        needed = _apart(other.thread, row.thread, cluster)
        if reach < needed:
            continue
        if other.bits & RELEASE:
            graph.edge((other.step, other.lane, "begin"), node)
        for wide, fence in other.fences:
            if wide >= needed:
                graph.edge(fence, node)


def of_copy(thing) -> dict:
    """What is known of the accesses of an asynchronous copy: which it is, and where it begins and ends."""
    return dict(thing=thing, ends=[(thing, "out")], begin=(thing, "in"))


def _apart(one, other, cluster) -> int:
    """0 for threads of a block, 1 for threads of a cluster, else 2."""
    a, b = one[1], other[1]
    return 0 if a == b else 1 if a // cluster == b // cluster else 2


def _launch(trace, launch, graph, accesses):
    last = {}  # thread -> its last node
    committed, copies = {}, {}  # (thread, bulk) -> groups; (thread, bulk) -> [(group, copy)]
    inits = {}  # thread -> inits so far, and those that a fence has covered
    incarnation, counts = {}, {}
    transfers = {}
    # thread -> [(reach, node)]; address -> [atomic], which those after it read from
    fences, atomics = {}, {}
    (cluster, _, _) = trace.launches[launch].cluster
    mine = trace.events[trace.events["launch"] == launch]
    meant = any(e["op"] == Op.FENCE and e["arg"] in REACH or e["op"] == Op.ATOMIC and e["arg"] for e in mine)
    for event in mine:
        op, step, block = Op(int(event["op"])), int(event["step"]), int(event["block"])
        warp = int(event["warp"])
        line, arg, arg2 = trace.line(event).number, int(event["arg"]), int(event["arg2"])
        places = trace.addresses[event["addresses"]] if event["addresses"] >= 0 else None
        sources = trace.addresses[event["sources"]] if event["sources"] >= 0 else None
        if op == Op.ASYNC_DONE:
            address = int(places[0])
            thing = next(t for t in transfers[(arg, address)] if t not in counts)
            counts[thing] = True
            graph.edge((thing, "out"), ("phase", launch, address, incarnation.get(address, 0), arg2))
            continue
        for lane in range(32):
            if not int(event["mask"]) >> lane & 1:
                continue
            thread = (launch, block, warp, lane)
            begin, end = (step, lane, "begin"), (step, lane, "end")
            graph.edge(begin, end)
            if thread in last:
                graph.edge(last[thread], begin)
            last[thread] = end

            facts = dict(launch=launch, line=line, begin=begin, ends=[end], thing=(step, lane))
            facts |= dict(bulk=op == Op.BULK_COPY, generic=op not in (Op.BULK_COPY, Op.STORE_ASYNC))

            def access(kind, address, size, more=None, facts=facts):
                row = facts | dict(kind=kind, shared=address < 1 << 32) | (more or {})
                accesses.append(row | {"bytes": frozenset(range(int(address), int(address) + size))})

            if op in (Op.LOAD, Op.STORE, Op.ATOMIC):
                seen = [(step, lane, "seen")] if op == Op.ATOMIC else []
                kind = {Op.LOAD: "r", Op.STORE: "w", Op.ATOMIC: "a"}[op]
                for node in seen:
                    graph.node(node)
                access(kind, places[lane], int(event["bytes"]), {"ends": [end, *seen]})
                if op == Op.ATOMIC and (meant or event["space"] == Space.GMEM):
                    before = atomics.setdefault(int(places[lane]), [])
                    row = _Atomic(thread, step, lane, arg, list(fences.get(thread, [])), list(before))
                    _observe(graph, row, cluster)
                    before.append(row)
            elif op == Op.FENCE and arg in REACH:
                fences.setdefault(thread, []).append((REACH[arg], end))
                for row in (row for rows in atomics.values() for row in rows if row.thread == thread):
                    _synchronise(graph, row, REACH[arg], end, cluster)
            elif op in (Op.ASYNC_COPY, Op.BULK_COPY):
                thing = ("copy", step, lane)
                bulk = op == Op.BULK_COPY
                size = arg if bulk else int(event["bytes"])
                graph.edge(begin, (thing, "in"))
                copies.setdefault((thread, bulk), []).append((committed.get((thread, bulk), 0), thing))
                for kind, row in (("w", places), ("r", sources)):
                    access(kind, row[lane], size, of_copy(thing))
                graph.edge((thing, "in"), (thing, "out"))
            elif op == Op.COMMIT_GROUP:
                committed[thread, arg == 1] = committed.get((thread, arg == 1), 0) + 1
            elif op == Op.WAIT_GROUP:
                for group, thing in copies.get((thread, arg2 == 1), []):
                    if group < committed.get((thread, arg2 == 1), 0) - arg:
                        graph.edge((thing, "out"), end)
            elif op == Op.FENCE and arg == FenceKind.PROXY_ASYNC:
                graph.node((step, lane, "proxy"))
            elif op == Op.STORE_ASYNC:
                thing = ("transfer", step, lane)
                transfers.setdefault((step, int(sources[lane])), []).append(thing)
                graph.edge(begin, (thing, "in"))
                graph.edge((thing, "in"), (thing, "out"))
                for kind, row, size in (("w", places, int(event["bytes"])), ("r", sources, 8)):
                    access(kind, row[lane], size, of_copy(thing))
            elif op in MBARRIER:
                address = int(places[lane])
                if op == Op.MBARRIER_INIT:
                    incarnation[address] = incarnation.get(address, 0) + 1
                    graph.node((step, lane, "init"))
                    access("w", address, 8, {"ends": [end, (step, lane, "init")]})
                    inits.setdefault(thread, ([], []))[0].append((step, lane, "init"))
                else:
                    access("r", address, 8)
                key = (launch, address, incarnation.get(address, 0))
                if op == Op.MBARRIER_ARRIVE:
                    graph.edge(end, ("phase", *key, arg2))
                elif op == Op.MBARRIER_RESUME:
                    for phase in range(arg2 + 1):
                        graph.edge(("phase", *key, phase), end)
            elif op in (Op.BARRIER, Op.BARRIER_ARRIVE):
                graph.edge(begin, ("barrier", launch, block, arg, arg2))
            elif op == Op.BARRIER_RESUME:
                graph.edge(("barrier", launch, block, arg, arg2), end)
            elif op == Op.SYNC_WARP:
                graph.edge(begin, ("warp", step))
                graph.edge(("warp", step), end)
            elif op == Op.FENCE and arg == FenceKind.MBARRIER_INIT and thread in inits:
                inits[thread][1].extend(inits[thread][0])
            elif op == Op.CLUSTER_ARRIVE:
                gate = ("cluster", launch, block // cluster, arg2)
                if not arg:
                    graph.edge(begin, gate)
                for init in inits.get(thread, ([], []))[1 if arg else 0]:
                    graph.edge(init, gate)
            elif op == Op.CLUSTER_RESUME:
                graph.edge(("cluster", launch, block // cluster, arg2), end)
