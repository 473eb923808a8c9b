"""A student's file: which statements of it count, what they may use, and loading them.

A .py file counts as it is. Of a notebook (.ipynb, or MyST .md) the imports of the DSL, functions, classes and constants
count, in the order of the cells; tests, plots and prints do not. A constant calls at most float, int, math or cutlass.
A submission may import cutlass, math and operator. That, and no way to a file, to the interpreter or to another module,
is what keeps it from the grader; its process has limits, too.

`import cutlass` is answered with the simulator's names whether or not the DSL is installed, so that a grade is the same
everywhere.
"""

from __future__ import annotations

import ast
import builtins
import json
import linecache
import re
from types import FunctionType

from quack_tutorial.simulator import names

from .judgement import Refused

IMPORTS = ("cutlass", "cuda", "math", "operator", "__future__")
REFUSED_NAMES = frozenset(
    "open exec eval compile getattr setattr delattr globals locals vars breakpoint input exit quit help memoryview".split()
)
# Ways from an object to the interpreter's frames, or to an attribute that only a string names; and what modules could give.
REFUSED_ATTRIBUTES = frozenset(
    "attrgetter methodcaller format format_map gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await ag_frame ag_code ag_await "
    "tb_frame tb_next f_back f_globals f_locals f_builtins f_code open exec eval compile".split()
)
DUNDERS = frozenset(["__init__", "__call__", "__post_init__", "__name__"])


def parts(file: str, text: str) -> list:
    """(name, source, is a notebook's) of each piece of a submission; line numbers are the file's, or the cell's."""
    if file.endswith(".ipynb"):
        try:
            cells = json.loads(text)["cells"]
            code = [c["source"] for c in cells if c["cell_type"] == "code"]
        except (ValueError, KeyError, TypeError):
            raise Refused("unreadable", f"{file} is not a notebook: it holds no list of cells") from None
        return [(f"cell {i}", "".join(source), True) for i, source in enumerate(code, 1)]
    if file.endswith(".md"):
        return [(file, _code_of_myst(text), True)]
    return [(file, text, False)]


def _code_of_myst(text: str) -> str:
    """The code cells of a MyST notebook, all other lines empty, so that line numbers stay."""
    kept, part = [], "prose"  # then "options" (:key: lines), "yaml" (between two ---), "code"
    for line in text.splitlines():
        code = ""
        if part == "prose":
            part = "options" if line.startswith("```{code-cell}") else part
        elif line.startswith("```"):
            part = "prose"
        elif line == "---" and part in ("options", "yaml"):
            part = "yaml" if part == "options" else "code"
        elif part == "code" or (part == "options" and line and not line.startswith(":")):
            part, code = "code", line
        kept.append(code)
    return "\n".join(kept) + "\n"


def load(file: str, text: str, target: str, functions=()) -> dict:
    """{name: what it is} of the class and the functions that a lab asks for; Refused says what stands against the file.

    A function that is not there is a Refused in the result: the rest counts all the same.
    """
    pieces = [(name, *_checked(name, source, notebook)) for name, source, notebook in parts(file, text)]
    namespace = {"__name__": "submission", "__builtins__": dict(vars(builtins), __import__=_import)}
    for name, source, tree in pieces:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # where simulate reads it
        try:
            exec(compile(tree, name, "exec"), namespace)
        except MemoryError:
            raise
        except BaseException as error:  # SystemExit and KeyboardInterrupt are the student's, too
            raise error_at(error, [one[0] for one in pieces]) from None
    found = {name: _asked_for(file, namespace, name, FunctionType) for name in functions}
    if target:
        found[target] = _asked_for(file, namespace, target, type)
        if isinstance(found[target], Refused):
            raise found[target]
    return found


def _asked_for(file: str, namespace: dict, target: str, kind):
    found, what = namespace.get(target), "class" if kind is type else "function"
    if isinstance(found, kind):
        return found
    near = [name for name in namespace if name.lower() == target.lower()]
    hint = f"; it defines {near[0]}, and capitals count" if near else ""
    if found is not None:
        hint = f"; {target} is a {type(found).__name__} there: make it a {what}"
    return Refused("missing", f"{file} must define the {what} {target}{hint or ', and there is none'}")


def error_at(error: BaseException, files: list) -> Refused:
    """What Python raised in a submission, with the submission's innermost line."""
    where, traceback = None, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        where = (code.co_filename, traceback.tb_lineno) if code.co_filename in files else where
        traceback = traceback.tb_next
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    if where is None:
        return Refused("error", f"the submission stopped with {what}")
    text = linecache.getline(*where).strip()
    return Refused("error", f"{where[0]}:{where[1]}: {what}", ((*where, text),))


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    top = name.partition(".")[0]
    if top == "cutlass":
        return names.by_path(name) if fromlist else names.CUTLASS
    if top == "cuda":
        return names.Missing(name if fromlist else "cuda")
    return builtins.__import__(name, globals, locals, fromlist, level)


def _checked(name: str, source: str, notebook: bool):
    """The source, and the tree of what counts of it."""
    if notebook:
        source = re.sub(r"(?m)^\s*[%!].*$", "", source)
    try:
        tree = ast.parse(source, name)
    except SyntaxError as error:
        line = (name, error.lineno or 0, (error.text or "").strip())
        raise Refused("syntax", f"{name}:{line[1]}: Python cannot read this: {error.msg}", (line,)) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise Refused("syntax", f"{name}: Python cannot read this: {error or 'it is nested too deeply'}") from None
    known = set()
    tree.body = [s for s in tree.body if not _is_main_guard(s) and (not notebook or _counts(s, known))]
    for node in ast.walk(tree):
        reason = _refusal(node)
        if reason:
            text = source.splitlines()[node.lineno - 1].strip()
            raise Refused("refused", f"{name}:{node.lineno}: {reason}", ((name, node.lineno, text),))
    return source, tree


def _is_main_guard(node) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).replace("'", '"') == '__name__ == "__main__"'


def _counts(node, known: set) -> bool:
    """Whether a notebook's statement is part of the submission; adds the names it binds to `known`."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        known.update((a.asname or a.name).partition(".")[0] for a in node.names)
        return any(m.partition(".")[0] in IMPORTS or m.startswith("quack_tutorial.kernels") for m in modules)
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        known.add(node.name)
        return True
    if isinstance(node, ast.Assign) and all(isinstance(t, (ast.Name, ast.Tuple)) for t in node.targets):
        return _is_constant(node.value)
    if isinstance(node, ast.AnnAssign) and node.value:
        return _is_constant(node.value)
    return False


def _is_constant(value) -> bool:
    """Whether nothing is called in an expression but what makes a number."""
    called = [ast.unparse(n.func).partition(".")[0] for n in ast.walk(value) if isinstance(n, ast.Call)]
    return all(name in ("float", "int", "bool", "math", "cutlass") for name in called)


def _refusal(node) -> str | None:
    """Why a submission may not hold this node, or None."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or "."]
        for module in modules:
            if module.partition(".")[0] == "quack_tutorial":
                return (
                    f"imports {module}. The lab asks for your own kernel, and none of the package's solves it; "
                    "write the helpers you need in this file"
                )
            if module.partition(".")[0] not in IMPORTS:
                return (
                    f"imports {module}. A submission needs cutlass, math and operator only; "
                    'put tests of your own below `if __name__ == "__main__":`'
                )
    used = [a.name for a in node.names] if isinstance(node, ast.ImportFrom) else []
    used += [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []
    used += node.kwd_attrs if isinstance(node, ast.MatchClass) else []
    for name in used:
        if name == "*":
            return "imports *; name what you use"
        if name in REFUSED_ATTRIBUTES or (isinstance(node, ast.Name) and name in REFUSED_NAMES):
            return f"uses {name}, which a submission may not; a kernel has no need of it"
        if name.startswith("__") and name not in DUNDERS and node.__class__ is not ast.ImportFrom:
            return f"uses {name}, which a submission may not; a kernel has no need of it"
    return None
