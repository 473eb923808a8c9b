"""What a submission's source may say: a language of its own, checked on the syntax tree before anything runs.

| part       | what                                                                                           |
|------------|------------------------------------------------------------------------------------------------|
| statements | those in NODES: no `try`, no `with`, nothing asynchronous; `del` of names alone                  |
| imports    | cutlass, math and operator, and of a few more modules what IMPORTED lists; every part of a path counts |
| builtins   | those in COMPUTING                                                                              |
| attributes | none that leads to the interpreter (REFUSED_ATTRIBUTES) or that the DSL's objects have not (HIDDEN); of those that |
|            | begin with an underscore the submission's own                                                  |

`import cutlass` is answered with the simulator's names whether or not the DSL is installed, so that a grade is the same
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
import re
import sys
from types import FunctionType, SimpleNamespace

from cutesim.context import MARK
from cutesim.dialect import names

# The nodes of a syntax tree that a submission may hold; of what Python will have some day, none.
NODES = frozenset(
    "Module FunctionDef ClassDef Return Assign AugAssign AnnAssign For While If Raise Assert Import ImportFrom Expr Pass Break "
    "Continue Global Nonlocal BoolOp NamedExpr BinOp UnaryOp Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp Compare "
    "Call FormattedValue JoinedStr Constant Attribute Subscript Starred Name List Tuple Slice Load Store And Or Add Sub Mult "
    "MatMult Div Mod Pow LShift RShift BitOr BitXor BitAnd FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn "
    "comprehension arguments arg keyword alias Match match_case MatchValue MatchSingleton MatchSequence MatchMapping MatchClass "
    "MatchStar MatchAs MatchOr Yield YieldFrom Delete Del".split()
)
STATEMENTS = {"Try": "try", "TryStar": "try", "With": "with"}
STATEMENTS |= dict.fromkeys(("AsyncFunctionDef", "AsyncFor", "AsyncWith", "Await"), "async")
# The builtins that compute, and the errors that a check of one's own may raise.
COMPUTING = frozenset(
    "__build_class__ abs all any bin bool callable chr classmethod complex dict divmod enumerate filter float frozenset hex "
    "int isinstance issubclass iter len list map max min next object oct ord pow print property range repr reversed round set "
    "slice sorted staticmethod str sum super tuple zip NotImplemented Ellipsis Exception ArithmeticError AssertionError "
    "IndexError KeyError LookupError NotImplementedError RuntimeError TypeError ValueError ZeroDivisionError "
    "KeyboardInterrupt SystemExit".split()
)

HINTS = "Any Callable Dict Final Iterable Iterator List Literal Optional Sequence Tuple Union".split()
IMPORTS = ("cutlass", "cuda", "math", "operator", "__future__")
OURS = ("quack_tutorial", "cutesim", "bench", "grading", "workbench")
MODULES = "cutlass, math and operator"
# Of these modules a submission gets so much.
IMPORTED = {
    "numpy": SimpleNamespace(inf=math.inf, nan=math.nan, pi=math.pi, e=math.e),
    "dataclasses": SimpleNamespace(dataclass=dataclasses.dataclass, field=dataclasses.field),
    "functools": SimpleNamespace(partial=functools.partial, reduce=functools.reduce),
    "random": SimpleNamespace(Random=random.Random),
    "typing": SimpleNamespace(**dict.fromkeys(HINTS, list)),  # hints are read by people
}
REFUSED_NAMES = frozenset(
    "open exec eval compile getattr setattr delattr globals locals type breakpoint exit quit help memoryview".split()
)
# Python's other functions: a submission may have a variable of such a name, `input` for one.
NOT_COMPUTING = (
    frozenset(
        name for name, one in vars(builtins).items() if name[0].islower() and one.__class__.__module__ == "builtins"
    )
    - COMPUTING
)
# Ways from an object to the interpreter's frames, or to an attribute that only a string names; and what modules could give.
REFUSED_ATTRIBUTES = frozenset(
    "attrgetter methodcaller format format_map gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await ag_frame ag_code ag_await "
    "tb_frame tb_next f_back f_globals f_locals f_builtins f_code open exec eval compile".split()
)
FRAMES = re.compile("(gi|cr|ag|tb|f)_")
# What the simulator's objects have and the DSL's have not: arrays, types of arrays, and how a function is run; what arrays have.
HIDDEN = frozenset(
    "a memory carrier storage encode decode mapper original rewritten generator globals_of globals_used start_call instance_of "
    "ctypes tofile dump dumps".split()
)
OF_CUDA = {"__syncthreads": "cute.arch.sync_threads()", "__syncwarp": "cute.arch.sync_warp()",
           "__shfl_xor_sync": "cute.arch.shuffle_sync_bfly()", "__shfl_down_sync": "cute.arch.shuffle_sync_down()",
           "__shfl_up_sync": "cute.arch.shuffle_sync_up()", "__shfl_sync": "cute.arch.shuffle_sync()",
           "__expf": "cute.math.exp()", "__logf": "cute.math.log()"}  # fmt: skip
METHODS = frozenset(
    "__init__ __call__ __post_init__ __repr__ __str__ __len__ __getitem__ __iter__ __eq__ __hash__ __lt__".split()
)


def _seed(self, a=None, version=2):
    if a is None:
        raise ValueError("Random needs a seed: without one each run has other numbers")
    random.Random.seed(self, a, version)


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    top = name.partition(".")[0]
    if top == "cutlass":
        return names.by_path(name) if fromlist else names.CUTLASS
    if top == "cuda":
        return names.Missing(name if fromlist else "cuda")
    if name in IMPORTED or name in ("math", "operator"):  # a copy, for this submission alone
        found = vars(IMPORTED.get(name) or builtins.__import__(name))
        kept = {one: value for one, value in found.items() if not one.startswith("_")}
        seeded = {"seed": _seed, "__module__": "random"}  # in a kernel, too
        kept |= {one: type(one, (value,), seeded) for one, value in kept.items() if value is random.Random}
        return SimpleNamespace(**kept)
    return builtins.__import__(name, globals, locals, fromlist, level)


BUILTINS = {name: getattr(builtins, name) for name in COMPUTING} | {"__import__": _import}


def refusal(node) -> str | None:
    """Why a submission may not hold this node of its source, or None."""
    return next(filter(None, (reason(node) for reason in FORBIDDEN.values())), None)


def _no_need(what: str) -> str:
    return f"uses {what}, which a submission may not; a kernel has no need of it"


def _statement(node) -> str | None:
    kind = type(node).__name__
    if kind not in NODES:
        return _no_need(STATEMENTS.get(kind, kind))
    if isinstance(node, ast.Delete) and not all(isinstance(one, ast.Name) for one in node.targets):
        return "deletes a part of an object; a name alone may be deleted"
    return None


def _import_of(node) -> str | None:
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return None
    for module in modules_of(node):
        top = module.partition(".")[0]
        away = REFUSED_ATTRIBUTES | HIDDEN
        part = next((part for part in module.split(".") if part.startswith("_") or part in away), None)
        if part and top in IMPORTS and module != "__future__":
            return f"imports {part} of {module}, which a submission may not; a kernel has no need of it"
        if top in OURS:
            return (
                f"imports {module}. The lab asks for your own kernel, and none of the package's solves it; "
                "write the helpers you need in this file"
            )
        if is_other(module):
            return (
                f"imports {module}. A submission needs {MODULES} only; "
                'put tests of your own below `if __name__ == "__main__":`'
            )
    if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
        return "imports *; name what you use"
    return None


def modules_of(node) -> list[str]:
    """The modules that an import names."""
    return [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or "."]


def is_other(module: str) -> bool:
    """Whether a module is neither ours nor one that a submission may import."""
    return module.partition(".")[0] not in (*IMPORTS, *OURS) and module not in IMPORTED


def _class(node) -> str | None:
    # They read attributes that nothing here names.
    if isinstance(node, ast.MatchClass) and node.patterns:
        return "matches a class by position; name the attributes, or use isinstance"
    if isinstance(node, ast.ClassDef) and node.keywords:
        return "gives a class keywords; a kernel has no need of a metaclass"
    return None


def _set(node) -> str | None:
    # As far as it shows; in a grade the others have one order, too (`sandbox.VARIABLES`).
    kind = isinstance(node, (ast.Set, ast.Call))
    text = kind and re.match(r"(\{|(frozen)?set\([\[({]?)b?['\"]", ast.unparse(node))
    return "makes a set of text, which has another order in each process; a tuple keeps its order" if text else None


def _function(node) -> str | None:
    return _no_need(node.id) if isinstance(node, ast.Name) and node.id in REFUSED_NAMES else None


def _attribute(node) -> str | None:
    for name in _names(node):
        if name == MARK or name in REFUSED_ATTRIBUTES:
            return _no_need(name)
        if is_hidden(name) and isinstance(node, (ast.Attribute, ast.MatchClass)):
            return f"uses an attribute {name}. The DSL has none; for one of your own choose another name"
    return None


def _stored(node) -> str | None:
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
        return None
    if isinstance(node.value, ast.Name) and node.value.id == "self":
        return None
    return f"sets {node.attr} of something other than self; objects of yours set their own attributes, in their methods"


def _name(node) -> str | None:
    for name in _names(node):
        other = isinstance(node, ast.alias) and node.asname == "cutlass" != node.name
        if name == "cutlass" and (other or not _is_use(node)):
            return "calls something of its own cutlass; choose another name"
        if name in OF_CUDA and isinstance(node, ast.Name):
            return f"uses {name}, which is CUDA C++'s name; here it is {OF_CUDA[name]}"
        if name.startswith("__") and not _may_be_special(node, name):
            return _no_need(name)
    return None


def _listed(names) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names)))


# How a lab's rules say what is refused, and what finds it.
FORBIDDEN = {
    f"{_listed(STATEMENTS.values())}, and `del` of more than a name": _statement,
    "within a function an import of anything else; `import *`; kernels of the package": _import_of,
    "a metaclass, and `match` by a class's positions": _class,
    "a set of text": _set,
    f"the functions {_listed(REFUSED_NAMES | NOT_COMPUTING)}": _function,
    f"the attributes {_listed(name for name in REFUSED_ATTRIBUTES if not FRAMES.match(name))}, those of frames, and those of the "
    "simulator's objects that the DSL's do not have": _attribute,
    "setting an attribute, except of `self`": _stored,
    f"names that begin with two underscores, except {_listed(METHODS)}; anything of your own called `cutlass`": _name,
}


def is_hidden(name: str) -> bool:
    """Whether an attribute may be one of the simulator's objects that the DSL's have not; one of a submission's own is renamed."""
    return name in HIDDEN or name.startswith("_") and not name.startswith("__")


def bound(tree) -> set:
    """The names that a syntax tree binds anywhere: variables, parameters, functions, classes, imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def refused_builtin(node, own: set) -> str | None:
    """Why a node may not name this builtin, or None; `own` are the names that the submission binds itself."""
    if not isinstance(node, ast.Name) or node.id in own or node.id in COMPUTING or not hasattr(builtins, node.id):
        return None
    return f"uses {node.id}, which a submission may not; a kernel has no need of it"


def surface() -> dict:
    """What the names of cutlass, and the simulator's classes, mean now; it is the same later, unless somebody changed them."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "cutesim"]
    classes = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    kinds = (type, names.Namespace, names.Annotation, FunctionType, functools.partial)
    found, waiting = {}, [names.CUTLASS, dataclasses.dataclass, dataclasses.field, *classes]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            members = {name: value for name, value in vars(one).items() if not name.startswith("__")}
            found[id(one)] = {name: id(value) for name, value in members.items()}
            waiting += [value for value in members.values() if isinstance(value, kinds)]
    return found


def _names(node) -> list:
    """The identifiers that a node itself holds: what it reads, binds, deletes or imports."""
    if isinstance(node, ast.Constant):
        return []
    # Modules, which `_import_of` knows; and one whose name is that of a pointer's array.
    if isinstance(node, ast.Import) or isinstance(node, ast.Attribute) and ast.unparse(node) == "cutlass.memory":
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
