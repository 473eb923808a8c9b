"""Suite `compiled`: what CuTe DSL's compiler puts into its PTX, against what the simulator's trace shows. No GPU is needed.

The kernels are those of `mutation.inputs`, and what ships and the first ladders in float16. Compared for each:

| of PTX and trace                                        | what must hold                                                   |
|---------------------------------------------------------|------------------------------------------------------------------|
| space, direction and bytes a lane of loads and stores    | the same set, but for the rules below                            |
| instructions of one such kind                            | in PTX without loops as many as a thread executes, with loops at |
|                                                          | least one a source line; but for the rules below                 |
| shuffles of one kind (bfly, idx, up, down), of 4 bytes   | the same; but for the rules below                                 |

What a thread executes is counted for the warp that executes most, line by line: others leave out what their predicates say.

Rules, each of which looks for its reason in the trace or the PTX; what they explain is counted and shown:

- `merged`: accesses of one warp to neighbouring addresses may be one instruction, two or four times as wide. Global ones only
  where the source moves single elements (4 bytes or fewer): vectors must have just the widths that the simulator shows.
- `not taken`: PTX without loops has more of an access than a thread executes, since this input's predicates keep every thread
  from some; at least so many of its instructions stand behind a branch or a predicate.
- `repeated`: in PTX without loops, a load of what the same lanes have loaded before, with no store of their warp since.
- `unused`: loads of shared memory that nothing is made of but stores which this input's predicates keep every thread from.
- `narrowed`: of an integer of 8 bytes that becomes one of 4 only the lower half is loaded.
- `no change`: a line that only ever stores what it has just loaded from there may be left out.
- `uniform`: shuffles from lane 0, of a number made from thread indices and addresses alone, tell the compiler that a warp's
  lanes agree (`warp_idx`); they move no data, and the simulator needs none.

Asynchronous copies and atomics are compared like loads and stores; a bulk copy's bytes are known only when it runs.
Registers and spills are the compiler's, from ptxas where it is installed. Shared memory is what the simulator counts: the
kernels ask for theirs when they are launched, so that the PTX does not say how much.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from cutesim.simulation import simulate
from cutesim.trace import Op, ShuffleKind, Space
from quack_tutorial import compiler, machine_code
from quack_tutorial.records import suite as report

SAMPLE_EVERY = 14
MAX_STEPS = 500_000
ELEMENT_BYTES = 4  # the largest element of these kernels
COLUMNS = (
    "kernel, inputs, agreed, counted, global load, global store, shared load, shared store, others, shuffles, explained, "
    "registers (ptxas), spilled bytes (ptxas), shared bytes (simulated)"
)

DIRECTIONS = {
    Op.LOAD: "load",
    Op.STORE: "store",
    Op.ATOMIC: "atomic",
    Op.ASYNC_COPY: "cp.async",
    Op.BULK_COPY: "bulk load",  # a bulk store is the one that no mbarrier waits for
    Op.STORE_ASYNC: "st.async",
}
SPACES = {Space.GMEM: "global", Space.SMEM: "shared", Space.DSMEM: "cluster"}
INSTRUCTION = re.compile(r"^\s*(@!?%?p\d*\s+)?([a-z][\w.:]*)\s*(.*?);", re.M)
# Several instructions on one line, with registers of their own.
BLOCK = re.compile(r"^\s*{ (\.reg .*;) }$", re.M)
LABEL, BRANCH = re.compile(r"^\s*(\$\w+):", re.M), re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)")


@dataclass
class Seen:
    """What a trace shows: access -> source lines, how many of each a thread executes, the trace for the rules to look into,
    shuffles of each kind, shared memory of a block."""

    lines: dict
    counts: Counter
    trace: object
    shuffles: Counter
    smem_bytes: int


@dataclass
class Emitted:
    """What a PTX text has: access -> number of instructions, of those that stand behind a branch or predicate, shuffles of each
    kind, and those that are `uniform`."""

    accesses: Counter
    guarded: Counter
    shuffles: Counter
    uniform: Counter
    loops: bool


@dataclass
class Row:
    """A family's line of the table as it is counted."""

    inputs: int = 0
    agreed: int = 0
    counted: int = 0  # without loops, so that instructions were counted and not just looked for
    accesses: Counter = field(default_factory=Counter)  # widths that both show
    shuffles: set = field(default_factory=set)
    explained: Counter = field(default_factory=Counter)
    resources: list = field(default_factory=list)
    smem_bytes: list = field(default_factory=list)


def run(sample: bool, progress) -> report.Suite:
    """Compile and simulate every subject, then compare; what only one of the two takes is a mismatch."""
    chosen = subjects(sample)
    pairs, mismatches = [], []
    for number, subject in enumerate(chosen):
        progress(f"{number + 1} of {len(chosen)}: {subject.name}")
        try:
            shown, text = seen(simulated(subject)), ptx_of(subject)
            pairs.append((subject, shown, emitted(text), machine_code.assembled(text, listed=False)))
        except Exception as error:  # whatever it is, it is this subject's
            last = traceback.extract_tb(error.__traceback__)[-1]
            said = (str(error).strip().splitlines() or [""])[0]
            mismatches.append(f"{subject.name}: {type(error).__name__} at {last.name}: {said}")
    return _suite(pairs, mismatches, len(chosen))


# ---- what is compared -----------------------------------------------------------------------------------------------


def subjects(sample: bool) -> list:
    """The package's kernels; every fourteenth as a sample."""
    from validation.mutation import inputs as mutation_cases

    halves = *mutation_cases.rungs("float16", ("copy", "softmax", "cross-entropy")), *mutation_cases.ships("float16")
    kernels = [*mutation_cases.cases(), *halves]
    return kernels[::SAMPLE_EVERY] if sample else kernels


def simulated(subject):
    """The trace of a checked run; a finding is an error, since all these kernels are right."""
    run = simulate(subject.host, *subject.arguments(), max_steps=MAX_STEPS, values=True)
    if run.findings:
        raise ValueError(f"the simulator reports {run.findings[0]}")
    return run.trace


def ptx_of(subject) -> str:
    """The PTX, compiled for just these shapes and strides."""
    return compiler.ptx(subject.host, *map(_spec, subject.arguments()))


def _spec(argument):
    if isinstance(argument, np.ndarray):
        steps = tuple(step // argument.itemsize for step in argument.strides)
        return compiler.TensorSpec(argument.dtype.name, argument.shape, steps)
    return argument


def seen(trace) -> Seen:
    """The accesses and shuffles of a trace."""
    lines, of_warp, shuffles = defaultdict(set), defaultdict(Counter), defaultdict(Counter)
    for event in trace.select(*DIRECTIONS):
        lines[_key(event)].add(trace.line(event).where)
        of_warp[_key(event), int(event["line"])][_warp(event)] += 1
    for event in trace.select(Op.SHUFFLE):
        words = max(1, int(event["bytes"]) // 4)  # of 8 bytes the two halves are shuffled
        shuffles[ShuffleKind(int(event["arg"])).name.lower(), int(event["line"])][_warp(event)] += words
    smem_bytes = max((launch.smem_bytes for launch in trace.launches), default=0)
    return Seen(dict(lines), _most(of_warp), trace, _most(shuffles), smem_bytes)


def _warp(event):
    return int(event["launch"]), int(event["block"]), int(event["warp"])


def _most(of_warp) -> Counter:
    """{(what, line): {warp: times}} -> {what: times}, of each line the most that a warp executes it."""
    counts = Counter()
    for (what, _), times in of_warp.items():
        counts[what] += max(times.values())
    return counts


def _key(event):
    op = Op(int(event["op"]))
    if op == Op.BULK_COPY:
        return "shared", "bulk load" if event["arg2"] >= 0 else "bulk store", 0
    # What goes from global to shared memory is one instruction of both.
    space = "shared" if op == Op.ASYNC_COPY else SPACES[Space(int(event["space"]))]
    return space, DIRECTIONS[op], int(event["bytes"])


def emitted(text: str) -> Emitted:
    """The accesses and shuffles of a PTX text."""
    text = BLOCK.sub(lambda block: block[1].replace("; ", ";\n"), re.sub(r"//.*", "", text))
    instructions = INSTRUCTION.findall(text)
    accesses = Counter(key for _, name, operands in instructions if (key := access(name, operands)))
    sources, shuffles, uniform = _definitions(instructions), Counter(), Counter()
    for _, name, operands in instructions:
        if name.startswith("shfl.sync."):
            kind = name.split(".")[2]
            (uniform if kind == "idx" and _is_uniform(operands, sources) else shuffles)[kind] += 1
    guarded, loops = _branches(text)
    return Emitted(accesses, guarded, shuffles, uniform, loops)


def _branches(text):
    """How many of each access stand behind a branch or a predicate, and whether any branch goes back."""
    labels = {match[1]: match.start() for match in LABEL.finditer(text)}
    branches = [(match.start(), labels[match[1]]) for match in BRANCH.finditer(text)]
    guarded = Counter()
    for match in INSTRUCTION.finditer(text):
        predicate, name, operands = match.groups()
        key = access(name, operands)
        if key and (predicate or any(branch < match.start() < label for branch, label in branches)):
            guarded[key] += 1
    return guarded, any(label < branch for branch, label in branches)


def access(name: str, operands: str):
    """(space, direction, bytes a lane) of a PTX instruction, None where it is no access to memory that is compared."""
    parts = name.split(".")
    if name.startswith("cp.async.bulk.") and "global" in parts:
        return "shared", "bulk store" if "bulk_group" in parts else "bulk load", 0
    if name.startswith(("cp.async.ca.", "cp.async.cg.")):
        return "shared", "cp.async", int(operands.split(",")[2])
    if parts[0] not in ("ld", "st", "atom", "red") or {"param", "const"} & set(parts):
        return None
    space = "generic"
    for part in parts:
        space = {"shared::cluster": "cluster", "shared::cta": "shared"}.get(part, part if part in PTX_SPACES else space)
    width = int(re.search(r"\d+", parts[-1]).group()) // 8
    width *= next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
    if parts[0] == "st" and "async" in parts:
        return space, "st.async", width
    return space, {"ld": "load", "st": "store"}.get(parts[0], "atomic"), width


PTX_SPACES = ("global", "shared", "local")


def _definitions(instructions):
    """Register -> the instructions that set it, as (name, registers it reads)."""
    sources = defaultdict(list)
    for _, name, operands in instructions:
        first, _, rest = operands.partition(",")
        if first.startswith("{"):
            first, _, rest = operands.partition("}")
        for register in re.findall(r"%r[d]?\d+", first):
            sources[register].append((name, re.findall(r"%r[d]?\d+|%f\d+", rest)))
    return sources


def _is_uniform(operands, sources) -> bool:
    """Whether lane 0 of a whole warp is read, and what it gives comes from no memory but the parameters, and no shuffle."""
    _, value, lane, clamp, mask = (part.strip() for part in operands.split(","))
    if (lane, clamp, mask) != ("0", "31", "-1"):
        return False
    todo, done = [value], set()
    while todo:
        register = todo.pop()
        if register in done:
            continue
        done.add(register)
        for name, read in sources[register]:
            if name.startswith(("ld.", "atom.", "shfl.")) and not name.startswith("ld.param"):
                return False
            todo += read
    return True


# ---- the comparison -------------------------------------------------------------------------------------------------


def compare(shown: Seen, has: Emitted) -> list:
    """(sentence, rule or None) for each difference."""
    found = [*(_looked_for if has.loops else _counted)(shown, has), *_shuffles(shown, has)]
    for key in has.accesses.keys() - shown.lines.keys():
        narrower = [k for k in shown.lines if any(_times(k, w) == key for w in (2, 4))]
        rule = "merged" if any(neighbours(shown.trace, k) for k in narrower) else None
        found.append((f"the PTX has a {_said(key)}, the simulator shows none", rule))
    return found


def _looked_for(shown, has):
    """Accesses with fewer instructions in the PTX than source lines in the trace."""
    for key, lines in shown.lines.items():
        if has.accesses[key] < len(lines):
            yield _fewer(shown, has, key)


def _counted(shown, has):
    """Accesses of which the PTX has more or less than a thread executes."""
    for key, executed in shown.counts.items():
        count = has.accesses[key]
        if count < executed:
            yield _fewer(shown, has, key)
        elif count > executed:
            wide = (*key[:2], 8)
            narrowed = shown.counts[wide] - has.accesses[wide] == count - executed and _narrowed(shown, has, wide)
            rule = "not taken" if has.guarded[key] >= count - executed else "narrowed" if narrowed else None
            yield f"the PTX has {count} times a {_said(key)}, a thread executes {executed}", rule


def _fewer(shown, has, key):
    """The sentence and the rule for an access of which the PTX has too few."""
    count, lines = has.accesses[key], shown.lines[key]
    if _merged(shown, has, key):
        rule = "merged"
    elif not has.loops and 0 < shown.counts[key] - count <= _repeated(shown.trace, key):
        rule = "repeated"
    elif not has.loops and key[:2] == ("shared", "load") and _stored(shown.trace, key) == count > 0:
        rule = "unused"
    elif _narrowed(shown, has, key):
        rule = "narrowed"
    else:
        rule = "no change" if writes_back(shown.trace, lines) else None
    times = "" if has.loops else f", {shown.counts[key]} a thread"
    return (
        f"the simulator shows a {_said(key)} at {', '.join(sorted(lines))}{times}, the PTX has {count or 'none'}",
        rule,
    )


def _merged(shown, has, key) -> bool:
    """Whether wider accesses make up for the missing ones: in PTX without loops, byte for byte."""
    wider = [_times(key, w) for w in (2, 4) if has.accesses[_times(key, w)]]
    if not wider or not neighbours(shown.trace, key):
        return False
    both = [key, *wider]
    bytes_of = lambda counts: sum(counts[k] * k[2] for k in both)  # noqa: E731
    return has.loops or bytes_of(has.accesses) == bytes_of(shown.counts)


def _narrowed(shown, has, key) -> bool:
    """Whether the PTX has as many loads of 4 bytes more, from the same space, as it has loads of 8 bytes too few."""
    half = (*key[:2], 4)
    executed = {k: len(shown.lines.get(k, ())) for k in (key, half)} if has.loops else shown.counts
    fewer, more = executed[key] - has.accesses[key], has.accesses[half] - executed[half]
    return key == ("global", "load", 8) and fewer <= more


def _shuffles(shown, has):
    """Kinds that only one side has; in PTX without loops, others than it has instructions, too."""
    for kind in sorted(shown.shuffles.keys() | has.shuffles.keys()):
        executed, count = shown.shuffles[kind], has.shuffles[kind]
        if executed == count or has.loops and executed and count:
            continue
        rule = "uniform" if count < executed <= count + has.uniform[kind] else None
        alone = "trace" if not count else "PTX"
        if executed and count:
            yield f"the PTX has {count} shuffles of kind {kind}, a thread executes {executed}", rule
        else:
            yield f"shuffles of kind {kind} are in the {alone} alone", rule
    if has.uniform.keys() - shown.shuffles.keys():
        yield "shuffles of kind idx are in the PTX alone, from lane 0 and of no data", "uniform"


def _times(key, factor):
    """The access that merges `factor` of this one, None where that may not be."""
    space, direction, width = key
    may = space == "shared" or (space == "global" and width <= ELEMENT_BYTES)
    return (space, direction, width * factor) if may else None


def _said(key) -> str:
    space, direction, width = key
    return f"{space} {direction} of {width} bytes" if width else f"{space} {direction}"


def _rows(trace, key):
    """The events of one access with their addresses, by (block, warp)."""
    by_warp = defaultdict(list)
    for event in trace.select(*DIRECTIONS):
        if _key(event) == key:
            by_warp[int(event["block"]), int(event["warp"])].append((event, trace.addresses[event["addresses"]]))
    return by_warp


def neighbours(trace, key) -> bool:
    """Whether in some warp two such accesses that follow each other touch neighbouring bytes, lane by lane."""
    for rows in _rows(trace, key).values():
        for (one, addresses), (other, next_addresses) in zip(rows, rows[1:]):
            lanes = (addresses >= 0) & (next_addresses >= 0)
            same = one["mask"] == other["mask"] and lanes.any()
            if same and (np.abs(next_addresses - addresses)[lanes] == key[2]).all():
                return True
    return False


def _repeated(trace, key) -> int:
    """How often a thread executes such a load of addresses that its warp has loaded since it last stored."""
    times, known = defaultdict(Counter), defaultdict(set)
    for event in trace.select(*DIRECTIONS):
        if Op(int(event["op"])) != Op.LOAD:
            known[_warp(event)].clear()
        elif _key(event) == key:
            addresses = trace.addresses[event["addresses"]].tobytes()
            times[key, int(event["line"])][_warp(event)] += addresses in known[_warp(event)]
            known[_warp(event)].add(addresses)
    return _most(times)[key]


def _stored(trace, key) -> int:
    """How often a thread executes such a load of numbers that its warp stores afterwards, in some lanes at least."""
    times, stores = defaultdict(Counter), defaultdict(list)
    for event in reversed(trace.select(Op.LOAD, Op.STORE)):
        values = trace.values[event["values"]]
        if event["op"] == Op.STORE:
            stores[_warp(event)].append(values)
        elif _key(event) == key and any(_same_numbers(values, later) for later in stores[_warp(event)]):
            times[key, int(event["line"])][_warp(event)] += 1
    return _most(times)[key]


def _same_numbers(loaded, stored) -> bool:
    lanes = ~np.isnan(stored)
    return lanes.any() and (loaded[lanes] == stored[lanes]).all()


def writes_back(trace, lines) -> bool:
    """Whether each store of these lines follows a load of its own line from the same bytes, and stores the same numbers."""
    loaded, stores = {}, 0
    for event in trace.select(Op.LOAD, Op.STORE):
        if trace.line(event).where not in lines:
            continue
        place = int(event["block"]), int(event["warp"]), int(event["line"])
        moved = trace.addresses[event["addresses"]], trace.values[event["values"]]
        if event["op"] == Op.LOAD:
            loaded[place] = moved
        else:
            stores += 1
            before = loaded.get(place)
            if before is None or not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, moved)):
                return False
    return stores > 0


# ---- the table ------------------------------------------------------------------------------------------------------


def _suite(pairs, mismatches, count) -> report.Suite:
    rows, mismatches, examples = {}, list(mismatches), {}
    for subject, shown, has, resources in pairs:
        row = rows.setdefault(type(subject.host).__name__, Row())
        differences = compare(shown, has)
        wrong = [sentence for sentence, rule in differences if rule is None]
        mismatches += [f"{subject.name}: {sentence}" for sentence in wrong]
        row.inputs += 1
        row.agreed += not wrong
        row.counted += not has.loops
        row.accesses.update({key: 1 for key in shown.lines if has.accesses[key]})
        row.shuffles |= shown.shuffles.keys()
        for sentence, rule in differences:
            if rule:
                row.explained[rule] += 1
                examples.setdefault(rule, f"explained as {rule}, for instance: {subject.name}: {sentence}")
        row.resources.append(resources)
        row.smem_bytes.append(shown.smem_bytes)
    table = tuple(_line(family, row) for family, row in rows.items())
    return report.Suite(
        "compiled",
        "CuTe DSL's compiler: loads, stores and shuffles of its PTX against the simulator's trace",
        tuple(COLUMNS.split(", ")),
        table,
        tuple(mismatches),
        (
            "counted: the PTX has no loop, and as many of each instruction as a thread executes; else each kind was looked for",
            "loads and stores: bytes a lane that PTX and trace both have, over all inputs",
            *examples.values(),
        ),
        checked=count,
        where={**report.here(), "nvidia-cutlass-dsl": compiler.DSL_VERSION},
    )


def _line(family, row):
    def widths(space, direction):
        return ", ".join(str(key[2]) for key in sorted(row.accesses) if key[:2] == (space, direction)) or "-"

    plain = [(space, way) for space in ("global", "shared") for way in ("load", "store")]
    others = [_said(key) for key in sorted(row.accesses) if key[:2] not in plain]
    explained = ", ".join(f"{rule} {count}" for rule, count in sorted(row.explained.items()))
    return (
        family,
        row.inputs,
        row.agreed,
        row.counted,
        *(widths(*one) for one in plain),
        "; ".join(others) or "-",
        ", ".join(sorted(row.shuffles)) or "-",
        explained or "-",
        *_resources([one for one in row.resources if one]),
        _range(row.smem_bytes),
    )


def _resources(known):
    """Registers and spilled bytes; a dash where there is no ptxas."""
    registers = [one.registers for one in known]
    return _range(registers), _range([one.spill_store_bytes + one.spill_load_bytes for one in known])


def _range(numbers) -> str:
    """`least to most`."""
    if not numbers:
        return "-"
    return str(numbers[0]) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"
