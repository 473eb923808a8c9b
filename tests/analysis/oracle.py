"""Races by brute force: the order as an explicit graph of single threads and copies, and reachability between all pairs.

Shares nothing with the package's detector but the trace. For tiny traces only.
"""

from quack_tutorial.simulator.trace import FenceKind, Op

MBARRIER = (Op.MBARRIER_INIT, Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT, Op.MBARRIER_WAIT, Op.MBARRIER_RESUME)


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
    graph, accesses = Graph(), []
    for launch in range(len(trace.launches)):
        _launch(trace, launch, graph, accesses)
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


def _before(graph, reach, a, b) -> bool:
    return any(reach[graph.node(end)] >> graph.node(b["begin"]) & 1 for end in a["ends"])


def _launch(trace, launch, graph, accesses):
    last = {}  # thread -> its last node
    committed, copies = {}, {}  # thread -> groups; thread -> [(group, copy)]
    inits = {}  # thread -> inits so far, and those that a fence has covered
    incarnation, counts = {}, {}
    transfers = {}
    (cluster, _, _) = trace.launches[launch].cluster
    for event in trace.events[trace.events["launch"] == launch]:
        op, step, block, warp = Op(int(event["op"])), int(event["step"]), int(event["block"]), int(event["warp"])
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

            def access(
                kind, address, size, thing=None, ends=None, begin=begin, end=end, line=line, step=step, lane=lane
            ):
                row = dict(
                    launch=launch, kind=kind, line=line, begin=begin, ends=ends or [end], thing=thing or (step, lane)
                )
                accesses.append(row | dict(bytes=frozenset(range(int(address), int(address) + size))))

            if op in (Op.LOAD, Op.STORE, Op.ATOMIC):
                access({Op.LOAD: "r", Op.STORE: "w", Op.ATOMIC: "a"}[op], places[lane], int(event["bytes"]))
            elif op == Op.ASYNC_COPY:
                thing = ("copy", step, lane)
                graph.edge(begin, (thing, "in"))
                copies.setdefault(thread, []).append((committed.get(thread, 0), thing))
                for kind, row in (("w", places), ("r", sources)):
                    access(kind, row[lane], int(event["bytes"]), thing, [(thing, "out")], (thing, "in"))
                graph.edge((thing, "in"), (thing, "out"))
            elif op == Op.COMMIT_GROUP:
                committed[thread] = committed.get(thread, 0) + 1
            elif op == Op.WAIT_GROUP:
                for group, thing in copies.get(thread, []):
                    if group < committed.get(thread, 0) - arg:
                        graph.edge((thing, "out"), end)
            elif op == Op.STORE_ASYNC:
                thing = ("transfer", step, lane)
                transfers.setdefault((step, int(sources[lane])), []).append(thing)
                graph.edge(begin, (thing, "in"))
                graph.edge((thing, "in"), (thing, "out"))
                for kind, row, size in (("w", places, int(event["bytes"])), ("r", sources, 8)):
                    access(kind, row[lane], size, thing, [(thing, "out")], (thing, "in"))
            elif op in MBARRIER:
                address = int(places[lane])
                if op == Op.MBARRIER_INIT:
                    incarnation[address] = incarnation.get(address, 0) + 1
                    graph.node((step, lane, "init"))
                    access("w", address, 8, ends=[end, (step, lane, "init")])
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
