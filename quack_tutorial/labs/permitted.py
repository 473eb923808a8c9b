"""What a submission's source may name.

It may import cutlass, math and operator, and of a few more modules what IMPORTED lists; of Python's builtins it gets those that
compute. `import cutlass` is answered with the simulator's names whether or not the DSL is installed, so that a grade is the same
everywhere. No way may lead from there to a file, the interpreter, another module or the arrays behind a tensor: a test walks
all attributes of all objects that a kernel sees. The process has limits of its own, whatever its source says.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import math
import random
from types import SimpleNamespace

from quack_tutorial.simulator import names

IMPORTS = ("cutlass", "cuda", "math", "operator", "__future__")
# Of these modules a submission gets so much.
IMPORTED = {
    "numpy": SimpleNamespace(inf=math.inf, nan=math.nan, pi=math.pi, e=math.e),
    "dataclasses": SimpleNamespace(dataclass=dataclasses.dataclass, field=dataclasses.field),
    "functools": SimpleNamespace(partial=functools.partial, reduce=functools.reduce),
    "random": SimpleNamespace(Random=random.Random),
}
REFUSED_NAMES = frozenset(
    "open exec eval compile getattr setattr delattr globals locals vars dir type breakpoint input exit quit help memoryview".split()
)
# Ways from an object to the interpreter's frames, or to an attribute that only a string names; and what modules could give.
REFUSED_ATTRIBUTES = frozenset(
    "attrgetter methodcaller format format_map gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await ag_frame ag_code ag_await "
    "tb_frame tb_next f_back f_globals f_locals f_builtins f_code open exec eval compile".split()
)
# What the simulator's objects have and the DSL's have not: arrays, types of arrays, and how a function is run; what arrays have.
HIDDEN = frozenset(
    "a memory carrier storage encode decode mapper original rewritten generator globals_of globals_used start_call instance_of "
    "ctypes tofile dump dumps _like _check _path _hint _key _element _reachable _require_32_bits _place _place_struct _poison "
    "_class _dsl_instance _function _map _module _ready _cls _construct _mapper _refuse _plain".split()
)
METHODS = frozenset(
    "__init__ __call__ __post_init__ __repr__ __str__ __len__ __getitem__ __iter__ __eq__ __hash__ __lt__".split()
)


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    top = name.partition(".")[0]
    if top == "cutlass":
        return names.by_path(name) if fromlist else names.CUTLASS
    if top == "cuda":
        return names.Missing(name if fromlist else "cuda")
    if name in IMPORTED:
        return IMPORTED[name]
    return builtins.__import__(name, globals, locals, fromlist, level)


BUILTINS = {
    name: value
    for name, value in vars(builtins).items()
    if name not in REFUSED_NAMES and (name == "__build_class__" or not name.startswith("_"))
} | {"__import__": _import}


def refusal(node) -> str | None:
    """Why a submission may not hold this node of its source, or None."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or "."]
        for module in modules:
            if module.partition(".")[0] == "quack_tutorial":
                return (
                    f"imports {module}. The lab asks for your own kernel, and none of the package's solves it; "
                    "write the helpers you need in this file"
                )
            if module.partition(".")[0] not in IMPORTS and module not in IMPORTED:
                return (
                    f"imports {module}. A submission needs cutlass, math and operator only; "
                    'put tests of your own below `if __name__ == "__main__":`'
                )
        if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
            return "imports *; name what you use"
    if isinstance(node, ast.MatchClass) and node.patterns:  # they read attributes that nothing here names
        return "matches a class by position; name the attributes, or use isinstance"
    if isinstance(node, ast.ClassDef) and node.keywords:
        return "gives a class keywords; a kernel has no need of a metaclass"
    if (
        isinstance(node, ast.Attribute) and ast.unparse(node) == "cutlass.memory"
    ):  # a module; of a pointer it is an array
        return None
    for name in _names(node):
        if name == "cutlass" and not _is_use(node):
            return "calls something of its own cutlass; choose another name"
        if name in REFUSED_ATTRIBUTES or (isinstance(node, ast.Name) and name in REFUSED_NAMES):
            return f"uses {name}, which a submission may not; a kernel has no need of it"
        if name in HIDDEN and isinstance(node, (ast.Attribute, ast.MatchClass)):
            return f"uses an attribute {name}. The DSL has none; for one of your own choose another name"
        if name.startswith("__") and not _may_be_special(node, name):
            return f"uses {name}, which a submission may not; a kernel has no need of it"
    return None


def surface() -> dict:
    """What the names of cutlass mean now; it is the same later, unless somebody gave them another meaning."""
    found, waiting = {}, [names.CUTLASS]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            members = {name: value for name, value in vars(one).items() if not name.startswith("__")}
            found[id(one)] = {name: id(value) for name, value in members.items()}
            waiting += [value for value in members.values() if isinstance(value, (type, names.Namespace))]
    return found


def _names(node) -> list:
    """The identifiers that a node itself holds: what it reads, binds, deletes or imports."""
    if isinstance(node, ast.Constant):
        return []
    if isinstance(node, ast.Import):  # of modules; `refusal` knows those
        return []
    found = []
    for field, value in ast.iter_fields(node):
        if field != "module":
            found += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
    return found


def _is_use(node) -> bool:
    """Whether a node's names are used, imported or an attribute's, and not bound to something new."""
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load)
    return isinstance(node, (ast.alias, ast.Attribute))


def _may_be_special(node, name: str) -> bool:
    """Whether a name with two underscores may stand where it does."""
    if isinstance(node, ast.FunctionDef):
        return name in METHODS
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        return name in METHODS or name == "__name__"
    return False
