"""A student's file: which statements of it count, what they may use, and loading them.

A .py file counts as it is. Of a notebook (.ipynb, or MyST .md) every statement is executed in the order of the cells, without
magics and shell lines; one that fails outside of functions and classes, as tests and plots do here, is left out and named where a
later line misses what it would have made.
What a statement may name, `permitted` says. Which lab a file is of, its name says, or the checks that it calls.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import re
import sys
import tokenize
from types import FunctionType, ModuleType, SimpleNamespace

from cutesim.context import display_name

from .judgement import Refused
from .permitted import BUILTINS, bound, refusal, refused_builtin
from .student import UNFILLED

MAX_BYTES = 2**20


def parts(file: str, text: str) -> list:
    """(name, source, is a notebook's) of each piece of a submission; line numbers are the file's, or the cell's."""
    if file.endswith(".ipynb"):
        try:
            cells = json.loads(text)["cells"]
            code = [c["source"] for c in cells if c["cell_type"] == "code"]
            return [(f"cell {i}", "".join(source), True) for i, source in enumerate(code, 1)]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Refused("unreadable", f"{file} is not a notebook: it holds no list of cells") from None
    if file.endswith(".md"):
        return [(file, cell, True) for cell in _cells_of_myst(text)]
    return [(file, text, False)]


def _cells_of_myst(text: str) -> list:
    """The code cells of a MyST notebook, each after as many empty lines as the file has before it, so that line numbers stay."""
    cells, kept, part = [], [], "prose"  # then "options" (:key: lines), "yaml" (between two ---), "code"
    for number, line in enumerate(text.splitlines()):
        code = ""
        if part == "prose":
            if line.startswith("```{code-cell}"):
                part, kept = "options", [""] * number
        elif line.startswith("```"):
            part = "prose"
            cells.append("\n".join(kept) + "\n")
        elif line == "---" and part in ("options", "yaml"):
            part = "yaml" if part == "options" else "code"
        elif part == "code" or (part == "options" and line and not line.startswith(":")):
            part, code = "code", line
        kept.append(code)
    return cells


def load(file: str, text: str, target: str, functions=()) -> dict:
    """{name: what it is} of the class and the functions that a lab asks for; Refused says what stands against the file.

    A function that is not there is a Refused in the result: the rest counts all the same.
    """
    read = [(name, *_read(name, source, notebook), notebook) for name, source, notebook in parts(file, text)]
    if not any(tree.body for _, _, tree, _ in read):
        raise Refused("missing", f"{file} is empty: it holds no statement that counts")
    own = set().union(*(bound(tree) for _, _, tree, _ in read))
    pieces = [
        (name, source, _checked(name, source, tree, notebook, own), notebook) for name, source, tree, notebook in read
    ]
    namespace = {"__name__": "submission", "__builtins__": dict(BUILTINS)}
    sys.modules.setdefault("submission", ModuleType("submission"))  # where dataclass looks
    shown = {}
    dropped = {}  # name that a statement would have bound -> where it is and why it is left out
    for name, source, tree, notebook in pieces:
        lines = shown.setdefault(name, [])  # a MyST file's cells follow one another in it
        lines += source.splitlines(keepends=True)[len(lines) :]
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)  # where simulate reads it
        for body in [[statement] for statement in tree.body] if notebook else [tree.body]:
            try:
                left_out = notebook and _left_out(body[0], own)
                if left_out:
                    raise Refused("left out", left_out)
                exec(compile(ast.Module(body, []), name, "exec"), namespace)
            except MemoryError:
                raise
            except BaseException as error:  # SystemExit and KeyboardInterrupt are the student's, too
                refused = error if isinstance(error, Refused) else error_at(error, [one[0] for one in pieces])
                if not notebook or isinstance(body[0], DEFINITIONS):
                    later = _later(pieces, body[0]) if notebook else {}
                    raise _with_cause(refused, error, later | dropped) from None
                reason = left_out or f"{type(error).__name__}: {error}"
                dropped.update(dict.fromkeys(_bound(body[0]), f"{name}:{body[0].lineno} is left out here ({reason})"))
    namespace["__dropped__"] = dropped
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
    others = [name for name, one in namespace.items() if isinstance(one, kind) and one.__module__ == "submission"]
    hint = f"; it defines {', '.join(others[:6])}" if others else ""
    if near:
        hint = f"; it defines {near[0]}, and capitals count"
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
    if type(error) is AttributeError and isinstance(error.obj, SimpleNamespace):  # of permitted.IMPORTED
        what = f"{error.name} is not there: what you hand in may use cutlass, math and operator only"
    if where is None:
        return Refused("error", f"the submission stopped with {what}")
    name, text = display_name(where[0]), linecache.getline(*where).strip()
    kind = "not filled in" if str(error) == UNFILLED else "error"
    return Refused(kind, f"{name}:{where[1]}: {what}", ((name, where[1], text),))


def _later(pieces: list, stopped) -> dict:
    """{name: where it is bound} of what a notebook binds below the statement that stopped."""
    below, found = False, {}
    for name, _, tree, _ in pieces:
        for statement in tree.body:
            if below:
                where = f"cells run from top to bottom, and {name}:{statement.lineno} comes later"
                found |= {one: where for one in _bound(statement) if one not in found}
            below = below or statement is stopped
    return found


def _with_cause(refused: Refused, error, dropped: dict) -> Refused:
    """The refusal, with the statement that was left out, or comes later, where a name is missing for that."""
    why = dropped.get(getattr(error, "name", None)) if isinstance(error, NameError) else None
    told = refused.diagnosis
    return Refused(told.kind, f"{told.message}; {why}", told.lines) if why else refused


def _read(name: str, source: str, notebook: bool):
    """The source, and the tree of what counts of it.

    What only some readers of text take for the end of a line becomes a space: the DSL finds a function by its line's number.
    """
    source = re.sub("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", " ", source)
    if notebook:
        source = without_magics(source)
    try:
        tree = ast.parse(source, name)
    except SyntaxError as error:
        line = (name, error.lineno or 0, (error.text or "").strip())
        raise Refused("syntax", f"{name}:{line[1]}: Python cannot read this: {error.msg}", (line,)) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise Refused("syntax", f"{name}: Python cannot read this: {error or 'it is nested too deeply'}") from None
    tree.body = [s for s in tree.body if not _is_main_guard(s)]
    return source, tree


def _checked(name: str, source: str, tree, notebook: bool, own: set):
    """The tree; Refused if what must be there holds something that a submission may not say."""
    for statement in tree.body:
        if (
            notebook
            and not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
            and not _imports_the_package(statement)
        ):
            continue  # a refused one is left out
        for node in ast.walk(statement):
            reason = refusal(node) or refused_builtin(node, own)
            if reason:
                line = getattr(node, "lineno", statement.lineno)
                text = source.splitlines()[line - 1].strip()
                raise Refused("refused", f"{name}:{line}: {reason}", ((name, line, text),))
    return tree


MAGIC = re.compile(r"\s*(%|!|\?|[\w.]+\?{1,2}\s*$|[\w, ]+=\s*[%!])")
RUNS_ITS_CELL = ("%%time", "%%timeit", "%%capture", "%%prun")


def without_magics(source: str) -> str:
    """A cell's Python: IPython's magics, shell lines and questions become empty lines, where a statement could begin."""
    lines = source.splitlines()
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines and lines[first].startswith("%%") and not lines[first].startswith(RUNS_ITS_CELL):
        return "\n" * len(lines)
    kept = []
    for line in lines:
        magic = MAGIC.match(line) is not None and not _inside_a_statement(kept)
        kept.append("" if magic else line)
    return "\n".join(kept) + "\n"


def _inside_a_statement(lines: list) -> bool:
    """Whether the lines end within brackets, a string or after a backslash."""
    if lines and lines[-1].endswith("\\"):
        return True
    try:
        list(tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline))
    except tokenize.TokenError:
        return True
    except SyntaxError:  # of indentation
        return False
    return False


def _is_main_guard(node) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).replace("'", '"') == '__name__ == "__main__"'


DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def _imports_the_package(node) -> bool:
    """Whether a statement imports one of the package's kernels, which is told in a notebook, too."""
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quack_tutorial.kernels")


def _left_out(statement, own: set) -> str | None:
    """Why a statement of a notebook is not executed, or None."""
    if isinstance(statement, DEFINITIONS):
        return None
    reasons = (refusal(node) or refused_builtin(node, own) for node in ast.walk(statement))
    return next(filter(None, reasons), None)


def _bound(statement) -> set:
    """The names that a statement would bind."""
    return {statement.name} if isinstance(statement, DEFINITIONS) else bound(statement)
