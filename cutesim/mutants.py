"""Mutants: one edit each of the source of a function that runs on the device, and how to run with one.

| kind      | the edit                                                                                                  |
|-----------|-----------------------------------------------------------------------------------------------------------|
| barrier   | a block, warp or cluster barrier (or its arrive, or wait) removed                                         |
| fence     | a fence removed                                                                                           |
| mbarrier  | an init, arrive, expect or wait removed; the parity waited for flipped                                    |
| count     | bytes or arrivals expected: 4 more, 4 fewer                                                               |
| group     | a commit or a wait of an asynchronous copy removed, or one more group allowed to stay under way           |
| predicate | what keeps an access inside removed: a condition, one part of an `and`, `pred=`; `<` made `<=`; a loop one longer |
| index     | an index that keeps what is written to shared memory apart, or the stages of a buffer, replaced by 0      |
| slot      | an index of what is read from shared memory, that says which of several written values, replaced by 0     |
| shuffle   | the offset of a shuffle doubled, the width of a warp's reduction halved                                   |

and where they are asked for, mistakes with the language and its layouts (`LANGUAGE`):

| layout    | a layout's shape or strides turned round, a stride one more; threads and values of `make_layout_tv` too   |
| mode      | a coordinate of two modes turned round, as an index or for `local_tile`; `mode=[1]` made `mode=[0]`, and back |
| type      | a name's first value before a dynamic `if` or loop removed, or made an integer                            |

`outcomes` runs a kernel with each of its mutants and says what the simulator then finds.

Not covered: two edits at once; host functions and constructors; what is decided when the kernel is compiled, layouts apart.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import tempfile
import textwrap
import types
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cutesim.context import PER_THREAD, NotSimulated, SimulationError, display_name
from cutesim.simulation import simulate

KINDS = ("barrier", "fence", "mbarrier", "count", "group", "predicate", "index", "slot", "shuffle")
LANGUAGE = ("layout", "mode", "type")
# The calls that are removed, by kind.
CALLS = {
    "barrier": "barrier sync_threads sync_warp barrier_arrive cluster_arrive cluster_arrive_relaxed cluster_wait "
    "griddepcontrol_wait",
    "mbarrier": "mbarrier_init mbarrier_arrive mbarrier_arrive_and_expect_tx mbarrier_expect_tx mbarrier_wait",
    "group": "cp_async_commit_group cp_async_wait_group cp_async_bulk_commit_group cp_async_bulk_wait_group",
}
REMOVED = {name: kind for kind, calls in CALLS.items() for name in calls.split()}
# What is altered of a call: kind, edit, which argument, what it becomes.
_BYTES = [("count", f"{more} bytes", 1, f"({{}}) {more}") for more in ("+ 4", "- 4")]
_GROUPS = [("group", "one group more", 0, "({}) + 1")]
ALTERED = dict.fromkeys(("mbarrier_arrive_and_expect_tx", "mbarrier_expect_tx"), _BYTES)
ALTERED |= dict.fromkeys(("cp_async_wait_group", "cp_async_bulk_wait_group"), _GROUPS)
ALTERED["mbarrier_init"] = [("count", "+ 4 arrivals", 1, "({}) + 4")]
ALTERED["mbarrier_wait"] = [("mbarrier", "parity flipped", 1, "(1 - ({}))")]
SHUFFLES = ("shuffle_sync_bfly", "shuffle_sync_up", "shuffle_sync_down")
WIDTHS = {"warp_reduce": (2, "width"), "warp_reduction": (2, "threads_in_group")}
ACCESSES = "copy autovec_copy store_async_dsmem atomic_add load store mbarrier_init mbarrier_arrive".split()
ACCESSES += ["mbarrier_arrive_and_expect_tx", "mbarrier_wait"]
WEAKER = {ast.Lt: ("<", "<="), ast.Gt: (">", ">=")}


@dataclass(frozen=True)
class Mutant:
    """One edit: characters `start` to `end` of the text of `file` become `new`."""

    file: str
    function: str  # qualified name
    kind: str
    edit: str  # what is done, in words
    start: int
    end: int
    new: str
    first: int  # lines of the mutated statement; of a condition, with what it guards
    last: int
    line: int  # of the edit itself
    column: int
    ordinal: int = 0

    @property
    def id(self) -> str:
        """A name that survives changes elsewhere in the file."""
        again = f" #{self.ordinal + 1}" if self.ordinal else ""
        return f"{Path(self.file).stem}.{self.function}: {self.edit}{again}"

    where = property(lambda self: f"{Path(self.file).name}:{self.line}")

    def text(self, source: str) -> str:
        """The mutated source; every line keeps its number."""
        new = self.new + "\n" * (source[self.start : self.end].count("\n") - self.new.count("\n"))
        return source[: self.start] + new + source[self.end :]


@functools.cache
def source_of(file: str) -> str:
    """The text of a source file, or of a notebook's cell, as it was when it was first asked for."""
    path = Path(file)
    return path.read_text(encoding="utf-8") if path.exists() else "".join(linecache.getlines(file))


def mutants_of(file: str, kinds=KINDS) -> list[Mutant]:
    """Every mutant of these kinds of the functions of a file, in order of the source."""
    source = source_of(file)
    found = []
    for function, name in functions_in(ast.parse(source)):
        found += _Places(file, source, function, name).found
    seen = Counter()
    numbered = []
    for mutant in (mutant for mutant in found if mutant.kind in kinds):
        key = (mutant.function, mutant.edit)
        numbered.append(replace(mutant, ordinal=seen[key]))
        seen[key] += 1
    return numbered


def functions_in(tree):
    """(function, qualified name) of all that may run on the device: not constructors and other special methods."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node, node.name
        elif isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("__"):
                    yield item, f"{node.name}.{item.name}"


def call_name(node) -> str:
    """The last part of the name that is called, or ""."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


class _Places:
    """Walks one function and collects its mutants."""

    def __init__(self, file, source, function, name):
        self.file, self.source, self.name, self.found = file, source, name, []
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line.encode()))
        self.starts, self.bytes = starts, source.encode()
        # Only what is decorated has dynamic conditions; in plain helpers `if` and `range` are Python's.
        self.device = any("jit" in ast.unparse(d) or "kernel" in ast.unparse(d) for d in function.decorator_list)
        for statement in function.body:
            self.statement(statement)
            for node in ast.walk(statement):
                self.layouts(node, statement)
        self.types(function.body)

    def add(self, kind, edit, node, new, statement, guarded=False):
        last = statement.end_lineno
        if isinstance(statement, (ast.If, ast.For, ast.While, ast.With)) and not guarded:
            last = statement.body[0].lineno - 1
        ends = ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        span = (len(self.bytes[: self.starts[line - 1] + column].decode()) for line, column in ends)
        made = (self.file, self.name, kind, edit, *span, new, statement.lineno, last, *ends[0])
        self.found.append(Mutant(*made))

    def statement(self, node):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.call_statement(node)
        if isinstance(node, ast.If) and self.device and not _is_constexpr(node.test):
            if _touches_memory(node.body) and _is_dynamic(node.test):
                edit = f"`if {ast.unparse(node.test)}` always"
                self.add("predicate", edit, node.test, "True", node, guarded=True)
                self.expression(node.test, node, guarded=True)
        elif isinstance(node, ast.For) and self.device and call_name(node.iter) == "range":
            stop = node.iter.args[min(1, len(node.iter.args) - 1)]
            said = ast.unparse(stop)
            self.add("predicate", f"loop to {said} one longer", stop, f"({said}) + 1", node, True)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child)
            elif not isinstance(node, (ast.If, ast.For, ast.While)):
                self.expression(child, node)

    def call_statement(self, node):
        call, name = node.value, call_name(node.value)
        said = ast.unparse(call)
        kind = REMOVED.get(name, "fence" if "fence" in name else None)
        if kind is not None:
            self.add(kind, f"{said} removed", node, "pass", node)
        for kind, edit, position, new in ALTERED.get(name, ()):
            argument = call.args[position]
            self.add(kind, f"{said}: {edit}", argument, new.format(ast.unparse(argument)), node)
        for keyword in call.keywords:
            if keyword.arg == "pred":
                self.add("predicate", f"{said} without pred", keyword.value, "None", node)

    def expression(self, node, statement, guarded=False):
        """Predicates, indices and shuffles within an expression; what is decided at compile time is left alone."""
        if _is_constexpr(node) or isinstance(node, (ast.IfExp, ast.Lambda)):
            return
        said = ast.unparse(node)
        if isinstance(node, (ast.BoolOp, ast.Compare)) and not _is_dynamic(node):
            return
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            for part in node.values:
                edit = f"`{ast.unparse(part)}` dropped from `{said}`"
                self.add("predicate", edit, part, "True", statement, guarded)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd) and not _of_words(node):
            for part, other in ((node.left, node.right), (node.right, node.left)):
                edit = f"`{ast.unparse(part)}` dropped from `{said}`"
                self.add("predicate", edit, node, f"({ast.unparse(other)})", statement, guarded)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in WEAKER:
            strict, weak = WEAKER[type(node.ops[0])]
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            edit = f"`{left} {strict} {right}` made `{weak}`"
            self.add("predicate", edit, node, f"(({left}) {weak} ({right}))", statement, guarded)
        elif call_name(node) == "elem_less":
            self.add("predicate", f"`{said}` always", node, "True", statement, guarded)
        elif isinstance(node, ast.Subscript) and _is_shared(node.value):
            self.indices(node, statement)
        elif _is_sum(node) and _is_shared_pointer(node.left):
            self.add("index", f"`{said}` without its offset", node, ast.unparse(node.left), statement)
            for part in (node.right.left, node.right.right) if _is_sum(node.right) else ():
                self.add("index", f"`{ast.unparse(part)}` dropped from `{said}`", part, "0", statement)
        elif call_name(node) == "crd2idx" and isinstance(node.args[0], ast.Tuple):
            for part in node.args[0].elts:
                if not isinstance(part, ast.Constant):
                    self.add("index", f"`{ast.unparse(part)}` made 0 in `{said}`", part, "0", statement)
        self.shuffles(node, said, statement)
        for child in ast.iter_child_nodes(node):
            self.expression(child, statement, guarded)

    def indices(self, node, statement):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if not isinstance(part, (ast.Constant, ast.Slice)):
                said = ast.unparse(part)
                separates = isinstance(node.ctx, ast.Store) or "stage" in said
                edit = f"`{said}` made 0 in `{ast.unparse(node)}`"
                self.add("index" if separates else "slot", edit, part, "0", statement)

    def shuffles(self, node, said, statement):
        name = call_name(node)
        keywords = {k.arg: k.value for k in getattr(node, "keywords", ())}
        if name in SHUFFLES:
            offset = keywords.get("offset") or node.args[1]
            new = f"(2 * ({ast.unparse(offset)}))"
            self.add("shuffle", f"`{said}`: offset doubled", offset, new, statement)
        if name in WIDTHS:
            position, keyword = WIDTHS[name]
            width = keywords.get(keyword) or next(iter(node.args[position:]), None)
            if width is not None:
                new = f"max(1, ({ast.unparse(width)}) // 2)"
                self.add("shuffle", f"`{said}`: width halved", width, new, statement)

    def layouts(self, node, statement):
        """Mistakes with layouts. They are made while the kernel is traced, so constants count too."""
        name, arguments = call_name(node), getattr(node, "args", [])
        keywords = {k.arg: k.value for k in getattr(node, "keywords", ())}
        stride, mode = keywords.get("stride"), keywords.get("mode")
        if isinstance(node, ast.Subscript) and _is_pair(node.slice):
            self.made("mode", node, ast.Subscript(node.value, _turned(node.slice), node.ctx), statement)
        elif name == "local_tile" and _is_pair(arguments[2]):
            self.made("mode", arguments[2], _turned(arguments[2]), statement)
        elif name == "make_layout_tv":
            self.made("layout", node, ast.Call(node.func, arguments[::-1], node.keywords), statement)
        elif name == "make_layout":
            for pair in filter(_is_pair, (arguments[0], stride)):
                self.made("layout", pair, _turned(pair), statement)
            for step in getattr(stride, "elts", ()):
                if isinstance(step, ast.Constant) and step.value > 1:
                    new = str(step.value + 1)
                    self.add("layout", f"the stride {step.value} made {new}", step, new, statement)
        if isinstance(mode, ast.List) and ast.unparse(mode) in ("[0]", "[1]"):
            new = f"[{1 - mode.elts[0].value}]"
            self.add("mode", f"`mode={ast.unparse(mode)}` made `mode={new}`", mode, new, statement)

    def types(self, body):
        """First values of names that a dynamic `if` or loop of the same body assigns."""
        for i, statement in enumerate(body):
            for inner in (getattr(statement, part, ()) for part in ("body", "orelse")):
                self.types(inner)
            later = set().union(*map(_assigned, filter(self.branches, body[i + 1 :])))
            if isinstance(statement, ast.Assign) and _assigned(statement) & later:
                said = ast.unparse(statement)
                self.add("type", f"`{said}` removed", statement, "pass", statement)
                self.made("type", statement.value, ast.Constant(0), statement)

    def branches(self, node) -> bool:
        """Whether a statement is a dynamic `if` or loop."""
        if isinstance(node, ast.If):
            return self.device and not _is_constexpr(node.test)
        return self.device and isinstance(node, ast.For) and call_name(node.iter) == "range"

    def made(self, kind, old, new, statement):
        text = ast.unparse(new)
        self.add(kind, f"`{ast.unparse(old)}` made `{text}`", old, text, statement)


def _is_constexpr(node) -> bool:
    return call_name(node) in ("const_expr", "range_constexpr", "isinstance", "len")


def _is_dynamic(node) -> bool:
    """Whether an expression may differ from thread to thread: made of more than constants and attributes of objects."""
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in PER_THREAD:
            return True
        return not isinstance(node.value, (ast.Name, ast.Attribute)) and _is_dynamic(node.value)
    if isinstance(node, ast.Call):
        return call_name(node) not in ("len", "min", "max", "isinstance") or any(map(_is_dynamic, node.args))
    return isinstance(node, ast.Name) or any(map(_is_dynamic, ast.iter_child_nodes(node)))


def _touches_memory(body) -> bool:
    nodes = [node for statement in body for node in ast.walk(statement)]
    return any(isinstance(node, ast.Subscript) or call_name(node) in ACCESSES for node in nodes)


def _of_words(node) -> bool:
    """Whether `a & b` is arithmetic, not a predicate: with a number, or with what `^` gives."""
    sides = [side.operand if isinstance(side, ast.UnaryOp) else side for side in (node.left, node.right)]
    kinds = [type(getattr(side, "op", side)) for side in sides]
    return ast.Constant in kinds or ast.BitXor in kinds


def _is_shared(node) -> bool:
    """By this project's names: buffer, slots, shared, and sX for the shared part of X."""
    name = getattr(node, "id", "")
    return name in ("buffer", "slots", "shared") or (len(name) > 1 and name[0] == "s" and name[1].isupper())


def _is_sum(node) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def _is_shared_pointer(node) -> bool:
    return getattr(node, "id", "") == "mbar" or (
        isinstance(node, ast.Attribute) and node.attr == "iterator" and _is_shared(node.value)
    )


def _is_pair(node) -> bool:
    parts = [ast.unparse(part) for part in node.elts] if isinstance(node, ast.Tuple) else []
    return len(parts) == 2 and parts[0] != parts[1]


def _turned(pair) -> ast.Tuple:
    return ast.Tuple(pair.elts[::-1], pair.ctx)


def _assigned(statement) -> set:
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


@contextmanager
def applied(mutant: Mutant, modules=(), functions=None):
    """Run with the mutant: its source is a file of the same name elsewhere, and the functions of its module read from it.

    The functions are those of `modules` that the file has, or `functions`.

    The simulator reads a function's source from the file that its code names, so that is what changes, and only meanwhile.
    """
    source = source_of(mutant.file)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(mutant.file).name
        path.write_text(mutant.text(source), encoding="utf-8")
        # an edit that is no Python is a fault of this suite
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
        if functions is None:
            functions = [f for module in modules for f in functions_of(module, mutant.file)]
        codes = [function.__code__ for function in functions]
        try:
            for function, code in zip(functions, codes):
                function.__code__ = code.replace(co_filename=str(path))
            yield
        finally:
            for function, code in zip(functions, codes):
                function.__code__ = code
            linecache.checkcache(str(path))


def functions_of(module, file: str) -> list:
    """The functions and methods of a module whose source is `file`."""
    found = {}
    for item in list(vars(module).values()):
        members = vars(item).values() if isinstance(item, type) else (item,)
        for member in members:
            function = inspect.unwrap(member) if callable(member) else None
            if isinstance(function, types.FunctionType) and function.__code__.co_filename == file:
                found[id(function)] = function
    return list(found.values())


# ---- what becomes of a kernel ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What one edit makes of a kernel: the line it is on (from 1, in the function's source), the edit, and what then happens."""

    line: int
    edit: str
    found: bool  # whether the simulator has a finding
    wrong: bool  # whether the results differ
    said: str


@dataclass(frozen=True)
class Broken:
    """A function's source and the outcome of every edit of it."""

    name: str
    source: tuple[str, ...]
    outcomes: tuple[Outcome, ...]


def outcomes(kernel, arguments, function=None, kinds=KINDS) -> Broken:
    """Run `kernel` on `arguments()`, fresh each time, once for each edit of `function`; ValueError if unaltered it is not clean.

    `function` is a method of the kernel's class by name ("kernel", unless said otherwise), or a function that it calls; `kinds`
    are those of the edits.
    """
    function = function or "kernel"
    device = getattr(type(kernel), function) if isinstance(function, str) else function
    device = inspect.unwrap(device)
    file = device.__code__.co_filename
    first, last = _lines_of(device)
    args = arguments()
    run = simulate(kernel, *args)
    if not run.ok:
        raise ValueError(f"the kernel to be broken is not clean itself: {run}")
    wanted = [np.copy(array) for array in _arrays(args)]
    lines = textwrap.dedent("\n".join(source_of(file).splitlines()[first - 1 : last])).splitlines()
    mine = [m for m in mutants_of(file, kinds) if first <= m.line <= last]
    mine = {(m.start, m.end, m.new): m for m in mine}.values()  # two kinds may make the same text
    found = []
    for mutant in mine:
        with applied(mutant, functions=[device]):
            found.append(_outcome(mutant, first, kernel, arguments(), wanted))
    return Broken(device.__qualname__, tuple(lines), tuple(found))


def _lines_of(function) -> tuple[int, int]:
    """The first and the last line of a function in its file, decorators included; its code may begin at either of them."""
    code = function.__code__
    for node in ast.walk(ast.parse(source_of(code.co_filename))):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= code.co_firstlineno <= node.end_lineno:
                return first, node.end_lineno
    raise ValueError(f"{function.__name__} is not in {code.co_filename}")


def _outcome(mutant, first, kernel, args, wanted) -> Outcome:
    at = mutant.line - first + 1
    try:
        run = simulate(kernel, *args)
    except (NotSimulated, SimulationError, TypeError, ValueError) as error:
        return Outcome(at, mutant.edit, True, True, _shown(str(error), mutant))
    differ = [np.count_nonzero(~((a == b) | ((a != a) & (b != b)))) for a, b in zip(_arrays(args), wanted)]
    if run.findings:
        said = "\n".join(str(finding) for finding in run.findings)
        return Outcome(at, mutant.edit, True, any(differ), _shown(said, mutant))
    said = "Nothing shows: on these inputs the results are right, and no rule is broken."
    if any(differ):
        said = f"No rule is broken, but {sum(differ):,} results are wrong."
    return Outcome(at, mutant.edit, False, any(differ), said)


def _shown(text: str, mutant) -> str:
    """Files by their names alone, cells as the reader knows them."""
    text = re.sub(r"[^\s()]*/(\w+\.py)", r"\1", text)
    known = display_name(mutant.file)
    return text if known == mutant.file else text.replace(Path(mutant.file).name + ":", known + ":")


def _arrays(args) -> list:
    arrays = (arg for arg in args if hasattr(arg, "shape"))
    return [np.asarray(x.numpy() if hasattr(x, "numpy") else x) for x in arrays]
