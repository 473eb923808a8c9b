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
from dataclasses import replace
from types import FunctionType, ModuleType, SimpleNamespace

from cutesim.context import display_name

from .judgement import Refused
from .permitted import BUILTINS, MODULES, bound, is_hidden, is_other, modules_of, refusal, refused_builtin
from .student import UNFILLED

MAX_BYTES = 2**20
MAX_NOTEBOOK = 2**25  # with plots, which are not looked at


def without_outputs(text: bytes) -> bytes:
    """A notebook's text without outputs and pasted pictures; the text itself if it is no notebook."""
    try:
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            cell.pop("attachments", None)
            cell |= {"outputs": []} if "outputs" in cell else {}
        return json.dumps(notebook).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text


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
    # A part is prose, then "options" (:key: lines), "yaml" (between two ---), "code".
    cells, kept, part = [], [], "prose"
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
    shared = set().union(*(own_attributes(tree) for _, _, tree, _ in read))
    read = [(name, *straight(source, tree, shared), notebook) for name, source, tree, notebook in read]
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
        imports = [] if notebook else [one for one in tree.body if _imports_something_else(one)]
        for one in imports:
            dropped |= dict.fromkeys(bound(one), f"{name}:{one.lineno} is left out here ({refusal(one)})")
        kept = [one for one in tree.body if one not in imports]
        for body in [[statement] for statement in kept] if notebook else [kept]:
            try:
                left_out = notebook and _left_out(body[0], own)
                if left_out:
                    raise Refused("left out", left_out)
                exec(compile(ast.Module(body, []), name, "exec"), namespace)
            except MemoryError:
                raise
            except BaseException as error:  # SystemExit and KeyboardInterrupt are the student's, too
                refused = error if isinstance(error, Refused) else error_at(error, list(shown))
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
    if type(error) is AttributeError and isinstance(error.obj, SimpleNamespace):
        what = f"{error.name} is not there: what you hand in may use {MODULES} only"
    if where is None:
        return Refused("error", f"the submission stopped with {what}")
    name, text = display_name(where[0]), linecache.getline(*where).strip()
    kind = "not filled in" if str(error) == UNFILLED else "error"
    return Refused(kind, f"{name}:{where[1]}: {what}", ((name, where[1], text),))


def because(finding, answer):
    """A finding, with the statement that was left out where a name is missing for that."""
    seen = (one.__globals__ for one in (answer, *vars(answer).values()) if isinstance(one, FunctionType))
    missing = re.search(r"name '(\w+)' is not defined", finding.message)
    why = next(seen, {}).get("__dropped__", {}).get(missing[1]) if missing else None
    return replace(finding, message=f"{finding.message}; {why}") if why else finding


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
    source = re.sub("\r\n?", "\n", source)
    source = re.sub("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", " ", source)
    if notebook:
        source = without_magics(source)
    try:
        tree = ast.parse(source, name)
    except SyntaxError as error:
        line = (name, error.lineno or 0, (error.text or "").strip())
        raise Refused("syntax", f"{name}:{line[1]}: Python cannot read this: {error.msg}", (line,)) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise Refused("syntax", f"{name}: Python cannot read this: {str(error) or 'it is nested too deeply'}") from None
    return source, tree


def _checked(name: str, source: str, tree, notebook: bool, own: set):
    """The tree; Refused if what must be there holds something that a submission may not say."""
    for statement in tree.body:
        may_be_left_out = notebook and not isinstance(statement, DEFINITIONS) or _imports_something_else(statement)
        ours = isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("quack_tutorial.kernels")
        # An import of the package's kernels is told in a notebook, too.
        if may_be_left_out and not ours:
            continue
        for node in ast.walk(statement):
            reason = refusal(node) or refused_builtin(node, own)
            if reason:
                line = getattr(node, "lineno", statement.lineno)
                text = source.splitlines()[line - 1].strip()
                raise Refused("refused", f"{name}:{line}: {reason}", ((name, line, text),))
    return tree


def own_attributes(tree) -> set:
    """The names that a program gives to attributes of its own and that objects of the simulator have, too."""
    nodes = list(ast.walk(tree))
    found = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    found |= set().union(*(_bound(statement) for node in classes for statement in node.body))
    return {name for name in found if is_hidden(name)}


def straight(source: str, tree, own: set) -> tuple:
    """(source, tree) of the same program on the same lines, with other names for `own`, so that none is the simulator's.

    No line of a method begins left of its first: the DSL dedents a function's text, which one such line of a comment, a docstring
    or within brackets keeps it from.
    """
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    imports = {node.lineno for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))}
    for i in range(len(tokens) - 1, -1, -1):
        said, (row, start), (last, end) = tokens[i].string, tokens[i].start, tokens[i].end
        if said in own and row not in imports and [t.string for t in tokens[i - 2 : i]] != ["cutlass", "."]:
            said = f"own_{said}"
        elif tokens[i].type == tokenize.STRING and row < last and "f" not in said[:2].lower():
            said = repr(ast.literal_eval(said)) + "\\\n" * (last - row)
        if said != tokens[i].string:
            changed = lines[row - 1][:start] + said + lines[last - 1][end:]
            lines[row - 1 : last] = changed.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            margin = lines[node.lineno - 1][: node.col_offset]
            for row in range(node.lineno - 1, node.end_lineno):
                if lines[row].strip() and not lines[row].startswith(margin):
                    lines[row] = margin + lines[row].lstrip()
    source = "".join(lines)
    tree = ast.parse(source)
    tree.body = [statement for statement in tree.body if not _is_main_guard(statement)]
    return source, tree


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


def _imports_something_else(node) -> bool:
    """Whether a statement imports a module that a submission may not, by name: it is left out, and only its use a mistake."""
    imports = isinstance(node, (ast.Import, ast.ImportFrom)) and node.names[0].name != "*"
    return imports and any(is_other(module) for module in modules_of(node))


def _left_out(statement, own: set) -> str | None:
    """Why a statement of a notebook is not executed, or None."""
    if isinstance(statement, DEFINITIONS):
        return None
    reasons = (refusal(node) or refused_builtin(node, own) for node in ast.walk(statement))
    return next(filter(None, reasons), None)


def _bound(statement) -> set:
    """The names that a statement would bind."""
    return {statement.name} if isinstance(statement, DEFINITIONS) else bound(statement)
