"""What a kernel uses that the simulator does not have: all of it at once, with its lines, found by reading the source.

`lacking(function)` follows a function to what it calls, as `proxies` would, without running anything. It sees names of the DSL
and statements; not methods of values, which are known only when the kernel runs.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import types

from cutesim.trace import Line

from ..context import line_of
from ..dialect import names
from .proxies import _is_dsl, _is_foreign, undecorated
from .rewrite import STATEMENTS, _kind, find, functions_in, place_of


def lacking(target, mapper) -> list[tuple[str, Line]]:
    """(name, line) of everything that is not simulated in what `target` runs, in the order of the files."""
    waiting, seen, found = list(_functions(target)), set(), {}
    while waiting:
        function, owner = waiting.pop(0)
        if (function.__code__, id(owner)) in seen:
            continue
        seen.add((function.__code__, id(owner)))
        node = _source(function)
        if node is None:
            continue
        for name, line, referenced, holder in _read(node, function, owner, mapper):
            if name:
                found.setdefault((name, line.where), (name, line))
            waiting += _functions(referenced, holder)
    return sorted(found.values(), key=lambda one: (one[1].file, one[1].number))


def _functions(x, owner=None):
    """(function, the object or class that is its `self`) of what may run: a function, a method, an object that is called, a
    partial. `owner`: what x is an attribute of."""
    if isinstance(x, functools.partial):
        yield from _functions(x.func)
        return
    if isinstance(x, (staticmethod, classmethod, property, functools.cached_property)):
        x = x.fget if isinstance(x, property) else getattr(x, "func", None) or x.__func__
    module = getattr(inspect.unwrap(x), "__module__", None) if callable(x) else None
    if not isinstance(module, str) or _is_dsl(module) or _is_foreign(module):
        return
    if isinstance(x, (types.FunctionType, types.MethodType)):
        original = undecorated(getattr(x, "__func__", x))
        yield original, x.__self__ if isinstance(x, types.MethodType) else owner
    elif not isinstance(x, type) and isinstance(
        found := inspect.getattr_static(type(x), "__call__"), types.FunctionType
    ):
        yield undecorated(found), x


def _source(function):
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        return find(functions_in(text, code.co_filename), code.co_name, place_of(code)) if text else None
    except Exception:  # what cannot be read is said when it runs
        return None


def _read(node, function, owner, mapper):
    """(name or None, line, what it refers to, the object that this is an attribute of) of each thing in a function's body that
    matters."""
    file, name = function.__code__.co_filename, function.__code__.co_name
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    outside = dict(function.__globals__) | {n: c.cell_contents for n, c in cells.items() if _is_full(c)}
    bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
    body = node.body if isinstance(node.body, list) else [node.body]
    inner, decorated = set(), _kind(node)  # parts of a longer chain
    for part in (n for statement in body for n in ast.walk(statement)):
        line = line_of(file, getattr(part, "lineno", 0), name)
        if type(part) in STATEMENTS and (decorated or not isinstance(part, ast.Try)):
            yield STATEMENTS[type(part)], line, None, None
        if not isinstance(part, (ast.Attribute, ast.Name)) or id(part) in inner:
            continue
        root, *path = _chain(part, inner)
        if root is None:
            continue
        if root == "self" and owner is not None and path:
            holder, value = None, owner
            for step in path:
                holder, value = value, inspect.getattr_static(value, step, None)
            missing, referenced = _resolve(value, [], mapper)
            yield missing, line, referenced, holder
        elif root in outside and root not in bound:
            missing, referenced = _resolve(outside[root], path, mapper)
            yield missing, line, referenced, None


def _is_full(cell) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _chain(node, inner: set) -> list:
    """["cute", "arch", "barrier"] of cute.arch.barrier, its parts put into `inner`; [None] where it does not start with a name."""
    path = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
        inner.add(id(node))
    return [node.id, *path] if isinstance(node, ast.Name) else [None]


def _resolve(value, path, mapper):
    """(the name that is missing, or None; what the chain ends in, where that is the reader's)."""
    is_module = isinstance(value, types.ModuleType)
    origin = (
        value.__name__ if is_module else getattr(inspect.unwrap(value), "__module__", None) if callable(value) else None
    )
    if isinstance(value, (names.Namespace, names.Missing)) or (isinstance(origin, str) and _is_dsl(origin)):
        found = value if isinstance(value, (names.Namespace, names.Missing)) else mapper.map(value)
        for name in path:
            if not isinstance(found, (names.Namespace, names.Missing)):
                break
            found = getattr(found, name)
        return (repr(found) if isinstance(found, names.Missing) else None), None
    for name in path:
        if not isinstance(value, types.ModuleType):
            break
        value = getattr(value, name, None)
    return None, value
