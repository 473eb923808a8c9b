"""Wrong answers made from a right one: one edit each, and which of them still get full marks.

| kind     | the edit                                                                                     |
|----------|----------------------------------------------------------------------------------------------|
| drop     | a statement removed; a condition always true; one part of an `and`                            |
| swap     | + and -, * and //, < and <=, == and !=, maximum and minimum, ADD and MAX                       |
| off      | a whole number one more or one less                                                          |
| type     | Float32 made Float16, a number that is 0, 1 or -inf made another                              |
| order    | two neighbouring statements, the two arguments of a call or the two parts of an index turned round |
| constant | a parameter, `self.x` or a shape replaced by its value in the lab's first case                 |

A survivor is a hole in the lab's cases, or an edit that changes nothing that the lab asks for; `answers.toml` lists the second
sort in `[harmless.NAME]`, with `why` and `edits`, as they are printed.

Not covered: two edits at once; the lines outside of functions.
"""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from . import compiled
from .grade import grade
from .judgement import Case

SECONDS = 10.0  # a right answer takes about one
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitXor: ast.BitOr,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
NAMES = {"fmax": "fmin", "max": "min", "min": "max", "ADD": "MAX", "MAX": "ADD", "Float32": "Float16", "range": "range_constexpr",
         "sqrt": "log", "exp": "exp2", "log": "log2", "rsqrt": "sqrt"}  # fmt: skip
COMMUTES = ("cute.arch.fmax(", "cute.arch.fmin(", "max(", "min(")
FLOATS = {0.0: (1.0,), 1.0: (0.0, 2.0)}


@dataclass(frozen=True)
class Edit:
    """One edit: what it does in words, and the program it makes."""

    kind: str
    words: str
    text: str


def edits(text: str, cases: list[Case]) -> Iterator[Edit]:
    """Every edit of a right answer, none twice; `cases` give the constants."""
    tree = ast.parse(text)
    seen = {ast.unparse(tree)}
    for kind, words, changed in _changes(tree, constants(tree, cases), text.splitlines()):
        made = ast.unparse(ast.fix_missing_locations(changed))
        if made not in seen:
            seen.add(made)
            yield Edit(kind, words, made + "\n")


def survivors(name: str, text: str, cases: list[Case], seed: int) -> tuple[list[Edit], int]:
    """(the edits of a lab's right answer that still get full marks, how many were tried)."""
    made = list(edits(text, cases))

    def full(edit):
        kept = grade(name, "answer.py", edit.text, seed, SECONDS, confirm=False).full
        return kept and (compiled.problem() or grade(name, "answer.py", edit.text, seed, SECONDS).full)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a submission has a process of its own
        return [edit for edit, kept in zip(made, pool.map(full, made)) if kept], len(made)


def constants(tree, cases: list[Case]) -> dict:
    """{function or class: {what stands for a value in its source: the value in the first case}}."""
    found = {}
    for node in tree.body:
        own = [case for case in cases if case.target == node.name] if isinstance(node, ast.FunctionDef) else []
        if own:
            names = [one.arg for one in node.args.args]
            found[node.name] = {n: v for n, v in zip(names, own[0].make) if isinstance(v, (int, float))}
        kernel = next((case for case in cases if not case.target), None)
        if isinstance(node, ast.ClassDef) and kernel:
            made = next((one for one in node.body if getattr(one, "name", "") == "__init__"), None)
            given = dict(zip([one.arg for one in made.args.args[1:]], kernel.make)) if made else {}
            told = {f"self.{name}": value for name, value in given.items() if isinstance(value, int)}
            for name, array in (kernel.inputs | kernel.outputs).items():
                told |= {f"{name}.shape[{i}]": size for i, size in enumerate(array.shape)}
                told[f"{name}.shape"] = array.shape
            found[node.name] = told
    return found


def _changes(tree, known: dict, lines: list[str]):
    """(kind, words, the changed tree) of each place."""
    for top in tree.body:
        if not isinstance(top, (ast.FunctionDef, ast.ClassDef)):
            continue
        values = known.get(top.name, {})
        for node in ast.walk(top):
            if isinstance(node, ast.FunctionDef):
                for part in [*node.args.args, *node.decorator_list]:
                    part.is_head = True
            if getattr(node, "is_head", False) or isinstance(node, (ast.arg, ast.arguments)):
                continue
            for kind, words, new in _instead(node, values):
                yield kind, f"{lines[node.lineno - 1].strip()}  # {words}", _replaced(tree, node, new)
            for name in ("body", "orelse"):
                body = getattr(node, name, None)
                if isinstance(body, list) and not isinstance(node, ast.ClassDef):
                    yield from _of_body(tree, node, name, body)


def _of_body(tree, node, name: str, body: list):
    for i, one in enumerate(body):
        said = ast.unparse(one).splitlines()[0]
        if not isinstance(one, (ast.Pass, ast.FunctionDef)) and not _is_docstring(one):
            yield "drop", f"{said}  # removed", _with(tree, node, name, i, [ast.Pass()])
        if i + 1 < len(body) and not isinstance(one, ast.FunctionDef) and _depend(one, body[i + 1]):
            after = ast.unparse(body[i + 1]).splitlines()[0]
            both = [copy.deepcopy(body[i + 1]), copy.deepcopy(one)]
            yield "order", f"{said}  # after `{after}`", _with(tree, node, name, i, both, 2)


def _depend(one, other) -> bool:
    """Whether the order of two statements can matter: one binds or stores what the other uses, or both are calls."""
    (read, written), (read_too, written_too) = _uses(one), _uses(other)
    calls = isinstance(one, ast.Expr) and isinstance(other, ast.Expr) and not _is_docstring(one)
    return calls or bool(written & (read_too | written_too) | written_too & read)


def _uses(statement) -> tuple[set, set]:
    """(the names that a statement reads, those that it binds or stores into); a call may store into what it is given."""
    read, written = set(), set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else written).add(node.id)
        elif isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            written |= {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
    return read, written | (read if isinstance(statement, ast.Expr) else set())


def _is_docstring(node) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _instead(node, values: dict):
    """(kind, words, new node) of what one expression, or the condition of a statement, may become."""
    said = ast.unparse(node) if isinstance(node, ast.expr) else ""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        new = copy.deepcopy(node)
        new.op = OPERATORS[type(node.op)]()
        yield "swap", f"`{ast.unparse(node)}` made `{ast.unparse(new)}`", new
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        new = copy.deepcopy(node)
        new.ops[0] = OPERATORS[type(node.ops[0])]()
        yield "swap", f"`{said}` made `{ast.unparse(new)}`", new
    if isinstance(node, ast.BoolOp):
        for i, part in enumerate(node.values):
            rest = [copy.deepcopy(one) for k, one in enumerate(node.values) if k != i]
            new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            yield "drop", f"`{ast.unparse(part)}` dropped from `{said}`", new
    if isinstance(node, (ast.If, ast.IfExp)):
        new = copy.deepcopy(node)
        new.test = ast.Constant(True)
        yield "drop", f"`if {ast.unparse(node.test)}` always", new
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        whole = type(node.value) is int
        for new in (node.value + 1, node.value - 1) if whole else FLOATS.get(node.value, ()):
            yield "off" if whole else "type", f"{said} made {new}", ast.Constant(new)
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        new = ast.Attribute(copy.deepcopy(node.value), NAMES[node.attr], node.ctx)
        yield "swap", f"{said} made {new.attr}", new
    if isinstance(node, ast.Name) and node.id in ("max", "min"):
        yield "swap", f"{said} made {NAMES[node.id]}", ast.Name(NAMES[node.id], node.ctx)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "swap", f"`{said}` without its sign", copy.deepcopy(node.operand)
    if isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords and not said.startswith(COMMUTES):
        new = ast.Call(copy.deepcopy(node.func), [copy.deepcopy(one) for one in node.args[::-1]], [])
        yield "order", f"`{said}`: arguments turned round", new
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:
        new = copy.deepcopy(node)
        new.slice.elts.reverse()
        yield "order", f"`{said}`: index turned round", new
    if said in values and isinstance(getattr(node, "ctx", None), ast.Load):
        yield "constant", f"`{said}` made {values[said]}", ast.parse(repr(values[said]), mode="eval").body


def _replaced(tree, node, new):
    """The tree with a node replaced."""
    whole, node_copy = copy.deepcopy((tree, node))
    return _Swap(node_copy, new).visit(whole)


class _Swap(ast.NodeTransformer):
    """Puts a node into the place of another."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)


def _with(tree, node, name: str, i: int, new: list, count: int = 1):
    """The tree with statements of a body replaced."""
    whole, place = copy.deepcopy((tree, node))
    getattr(place, name)[i : i + count] = new
    return whole
