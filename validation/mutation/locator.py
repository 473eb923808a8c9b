"""Does a finding name the place that was mutated? By the rules that `mutation` states: the line, between, object, use."""

from __future__ import annotations

import ast
from itertools import combinations
from pathlib import Path

import numpy as np

from cutesim.mutants import Mutant, call_name, functions_in, source_of
from cutesim.trace import Op

# ---- what an unaltered kernel does -----------------------------------------------------------------------------------


class Log:
    """Where each event of a trace was: by (launch, block, warp), the places in order; and what each place works on."""

    def __init__(self, trace):
        places = [(line.file, line.number) for line in trace.lines]
        self.paths, self.objects = {}, {}
        for event in trace.events:
            place = places[int(event["line"])]
            path = self.paths.setdefault((int(event["launch"]), int(event["block"]), int(event["warp"])), {})
            span = path.setdefault(place, [])
            span.append(int(event["step"]))
            self.objects.setdefault(place, set()).update(_objects(trace, event))

    def encloses(self, a, b, at) -> bool:
        """Whether `at` (a function of a place) holds of something a warp executes between the places a and b.

        None stands for the start (a) or the end (b) of the warp.
        """
        if not all(place is None or place in self.objects for place in (a, b)):
            return False
        together, apart = False, False
        for path in self.paths.values():
            steps = [step for place, found in path.items() if at(place) for step in found]
            first = 0 if a is None else min(path[a]) if a in path else None
            last = np.inf if b is None else max(path[b]) if b in path else None
            if first is not None and last is not None:
                together = True
                if any(first < step < last for step in steps):
                    return True
            elif first is not None or last is not None:
                low, high = (first, np.inf) if first is not None else (-1, last)
                apart = apart or any(low < step < high for step in steps)
        return apart and not together

    def works_on(self, at) -> set:
        return set().union(*(found for place, found in self.objects.items() if at(place)))


def _objects(trace, event) -> list:
    op = Op(int(event["op"]))
    if op.name.startswith("MBARRIER"):
        return [("mbarrier", int(a)) for a in trace.addresses[event["addresses"]] if a >= 0]
    if op == Op.STORE_ASYNC:
        return [("mbarrier", int(a)) for a in trace.addresses[event["sources"]] if a >= 0]
    if op == Op.BULK_COPY:
        return [("mbarrier", int(event["arg2"]))] if event["arg2"] >= 0 else [("group", "bulk")]
    if op.name.startswith("BARRIER"):
        return [("barrier", int(event["arg"]))]
    if op.name.startswith("CLUSTER"):
        return [("cluster barrier",)]
    return [("group",)] if op in (Op.ASYNC_COPY, Op.COMMIT_GROUP, Op.WAIT_GROUP) else []


# ---- does a finding name the place ----------------------------------------------------------------------------------

STUCK = {"deadlock", "divergent barrier", "cluster"}
STUCK |= {f"mbarrier {what}" for what in ("byte mismatch", "arrivals", "not initialised")}
UNORDERED = {"race", "read before arrival", "mbarrier not published", "missing proxy fence"}
UNDER_WAY = {"exit with traffic in flight", "read before arrival"}


class Locator:
    """Decides whether a finding locates a mutant, by the rules of `mutation`."""

    def __init__(self, files):
        self.flow = Flow(files)
        self.uses = {}

    def located(self, finding, mutant: Mutant, log: Log) -> str:
        """ "line", "between", "object" or "use", or "" where the finding names another place."""
        places = [(mutant.file if _same_file(line.file, mutant) else line.file, line.number) for line in finding.lines]
        here = lambda place: place[0] == mutant.file and mutant.first <= place[1] <= mutant.last  # noqa: E731
        if any(map(here, places)):
            return "line"
        for a, b in self.ends(finding, places):
            if log.encloses(a, b, here):
                return "between"
        if finding.kind in STUCK or (finding.kind in UNDER_WAY and mutant.kind in ("count", "mbarrier")):
            at_place = log.works_on(here)
            if at_place & log.works_on(lambda place: place in places):
                return "object"
        if mutant.kind in ("predicate", "index") and finding.kind != "uninitialised":
            if mutant.id not in self.uses:
                self.uses[mutant.id] = self.flow.used_by(mutant)
            if any(place in self.uses[mutant.id] for place in places):
                return "use"
        return ""

    @staticmethod
    def ends(finding, places):
        """The pairs of places that a finding says nothing orders; None is a block's start or exit."""
        if finding.kind == "exit with traffic in flight":
            return [(place, None) for place in places]
        if finding.kind in ("peer not started", "mbarrier not initialised", "early access"):
            return [(None, place) for place in places]
        # Of its lines two are the events'; calls that led to them have no events.
        if finding.kind in UNORDERED:
            return list(combinations(places, 2))
        return []


def _same_file(file: str, mutant: Mutant) -> bool:
    return Path(file).name == Path(mutant.file).name


class Flow:
    """Which statements use what a statement computes, by name: through assignments, arguments and results."""

    def __init__(self, files):
        self.functions = {}  # simple name -> [(file, function)]
        for file in files:
            for function, name in functions_in(ast.parse(source_of(file))):
                self.functions.setdefault(name.rpartition(".")[2], []).append((file, function))

    def used_by(self, mutant: Mutant) -> set:
        """(file, line) of all that the mutated statement leads to; of a condition, all that it guards."""
        self.lines, self.done, self.queue = set(), set(), []
        place = (mutant.line, mutant.column)
        edited = lambda node: _begins(node) == place  # noqa: E731
        for file, function in (item for items in self.functions.values() for item in items):
            if file == mutant.file and function.lineno <= mutant.first <= function.end_lineno:
                for node in ast.walk(function):
                    if isinstance(node, ast.stmt) and node.lineno == mutant.first:
                        self.reach(file, function, node, edited, "edit")
        while self.queue:
            file, function, name = self.queue.pop()
            named = lambda node, name=name: isinstance(node, ast.Name) and node.id == name  # noqa: E731
            self.reach_all(file, function, named, name)
        return self.lines

    def reach_all(self, file, function, holds, key):
        """Every statement of a function that itself (of a compound one, in its header) has a node which holds the value."""
        for node in ast.walk(function):
            if isinstance(node, ast.stmt) and node is not function and any(_has(part, holds) for part in _own(node)):
                self.reach(file, function, node, holds, key)

    def taint(self, file, function, name):
        if (id(function), name) not in self.done:
            self.done.add((id(function), name))
            self.queue.append((file, function, name))

    def reach(self, file, function, statement, holds, key):
        """The statement uses the value: so do what it guards, what it binds, what it calls with it, and who asked for it."""
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) or (id(statement), key) in self.done:
            return
        self.done.add((id(statement), key))
        self.lines |= {(file, number) for number in range(statement.lineno, _header_end(statement) + 1)}
        if isinstance(statement, (ast.If, ast.For, ast.While)):
            self.guard(file, statement.body)
        for target in _targets(statement):
            self.taint(file, function, target)
        for part in _own(statement):
            for call in (node for node in ast.walk(part) if isinstance(node, ast.Call)):
                self.pass_on(call, holds)
        if isinstance(statement, ast.Return):
            self.results(function.name)

    def guard(self, file, body):
        """All of a body, and all of the functions that it calls."""
        nodes = [node for statement in body for node in ast.walk(statement)]
        self.lines |= {(file, node.lineno) for node in nodes if isinstance(node, ast.stmt)}
        for name in {call_name(node) for node in nodes} - {""}:
            for other, function in self.functions.get(name, ()):
                if ("guarded", id(function)) not in self.done:
                    self.done.add(("guarded", id(function)))
                    self.guard(other, function.body)

    def pass_on(self, call, holds):
        """Into the parameters of the functions of this name, for the arguments that hold the value."""
        for file, function in self.functions.get(call_name(call), ()):
            parameters = [a.arg for a in function.args.args]
            parameters = parameters[1:] if parameters[:1] == ["self"] else parameters
            for parameter, value in [*zip(parameters, call.args), *((k.arg, k.value) for k in call.keywords)]:
                if parameter and _has(value, holds):
                    self.taint(file, function, parameter)

    def results(self, called):
        """The statements that call a function whose result holds the value."""
        if ("result", called) in self.done:
            return
        self.done.add(("result", called))
        for file, function in (item for items in self.functions.values() for item in items):
            self.reach_all(file, function, lambda node: call_name(node) == called, ("result", called))


def _has(node, holds) -> bool:
    return any(holds(part) for part in ast.walk(node))


def _begins(node) -> tuple:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _own(statement) -> list:
    """The expressions of a statement, without those of the statements in it."""
    return [child for child in ast.iter_child_nodes(statement) if not isinstance(child, (ast.stmt, ast.excepthandler))]


def _header_end(statement) -> int:
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if isinstance(body, list) else statement.end_lineno


def _targets(statement) -> set:
    """The names that a statement binds or writes into."""
    found = {name for target in getattr(statement, "targets", ()) for name in _bases(target)}
    found |= _bases(getattr(statement, "target", None))
    if isinstance(statement, ast.Expr) and call_name(statement.value) in ("copy", "autovec_copy", "store", "fill"):
        found |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - {"cute", "self"}
    return found


def _bases(target) -> set:
    if isinstance(target, (ast.Tuple, ast.List)):
        return set().union(*map(_bases, target.elts))
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()
