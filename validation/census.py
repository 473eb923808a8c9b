"""What the CuTe DSL kernels of a folder of Python files use of the DSL, read from their source without running any of it.

`kernels(folder)` gives each function decorated with @cute.kernel, with the names of the DSL that it and the functions that it
calls mention: across the folder's modules, through `self.method` and base classes. `lacking(kernel)` are those of them that the
simulator does not have. Names of values' methods are not seen; a function that is passed as an argument is.

A kernel counts as Hopper's unless it, or a function that it calls, names something of a newer architecture.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cutesim.dialect import names

# Instructions and memories that Hopper does not have, by a part of the name or of the file's path.
NEWER = re.compile(
    r"tcgen05|tmem|umma|blackwell|rubin|Umma|sm_?1[0-9]{2}|Sm1[0-9]{2}|SM1[0-9]{2}|clc_|Clc|blockscaled|block_scaled|BlockScaled|"
    r"_packed_f32x2|fence_view_async_tmem|cvt_(f32|i4|i8)\w*_intrinsic|mma_mxf|Float4|Float6|Float8E8M0",
)
SKIPPED = ("/cutlass/python/", "/test/", "/tests/")  # the DSL's own sources are never read


@dataclass(frozen=True)
class Used:
    """One name of the DSL where it is used."""

    name: str  # cutlass.cute.arch.barrier
    file: str
    line: int


@dataclass
class Kernel:
    """A @cute.kernel function and what it uses."""

    name: str
    file: str
    line: int
    used: list = field(default_factory=list)

    @property
    def is_newer(self) -> bool:
        return bool(NEWER.search(self.file)) or any(NEWER.search(one.name) for one in self.used)

    @cached_property
    def lacking(self) -> list:
        """(name, file:line where it is first used), in the order of the lines."""
        found = {}
        for one in self.used:
            if not known(one.name):
                found.setdefault(one.name, f"{Path(one.file).name}:{one.line}")
        return list(found.items())


@functools.cache
def known(name: str) -> bool:
    """Whether the simulator has that name of the DSL's."""
    found = names.CUDA if name.partition(".")[0] == "cuda" else names.CUTLASS
    for part in name.split(".")[1:]:
        if not isinstance(found, (names.Missing, names.Namespace)):
            break
        found = getattr(found, part)
    return not isinstance(found, names.Missing)


class Module:
    """One file: what its names mean, and its functions and classes."""

    def __init__(self, path: Path, tree: ast.Module, package: str):
        self.path, self.package = path, package
        self.names: dict = {}  # local name -> dotted name
        self.functions: dict = {}
        self.classes: dict = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                for alias in node.names:
                    self.names.setdefault(alias.asname or alias.name, f"{base}.{alias.name}")
        for node in tree.body:
            self._define(node)

    def _define(self, node) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, (ast.If, ast.Try)):
            for part in (*node.body, *getattr(node, "orelse", ())):
                self._define(part)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            dotted = _dotted(node.value)
            if dotted:
                self.names.setdefault(node.targets[0].id, self.resolve(dotted) or dotted)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        base = parts[: len(parts) - node.level + 1] if node.level > 1 else parts
        return ".".join([*base, *([node.module] if node.module else [])])

    def resolve(self, dotted: str) -> str | None:
        """The absolute dotted name, or None where its root is no import of this file."""
        root, dot, rest = dotted.partition(".")
        found = self.names.get(root)
        return None if found is None else f"{found}{dot}{rest}"


def _dotted(node) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([node.id, *parts]) if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class Place:
    lineno: int


def _mentioned(node):
    """(dotted name, its place) of each name in a function's body that is not one of its parameters, once."""
    bound = {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
    inner, seen = set(), set()
    for part in (n for statement in node.body for n in ast.walk(statement)):
        if not isinstance(part, (ast.Attribute, ast.Name)) or id(part) in inner:
            continue
        step = part
        while isinstance(step, ast.Attribute):
            step = step.value
            inner.add(id(step))
        dotted = _dotted(part)
        root = dotted.partition(".")[0]
        if dotted and dotted not in seen and (root not in bound or root == "self"):
            seen.add(dotted)
            yield dotted, Place(part.lineno)


class Corpus:
    """The modules of a folder, by their dotted names."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.modules: dict = {}
        self.found: dict = {}  # what `_module` has found
        self.read: dict = {}  # id of a function -> what it mentions
        for path in sorted(folder.rglob("*.py")):
            said = path.as_posix()
            if any(part in said for part in SKIPPED):
                continue
            try:
                text = path.read_text()
                tree = ast.parse(text) if "cutlass" in text else None
            except (SyntaxError, UnicodeDecodeError):
                continue
            if tree is not None:
                relative = path.relative_to(folder).with_suffix("")
                package = ".".join(relative.parts[:-1])
                name = package if relative.name == "__init__" else ".".join(relative.parts)
                self.modules[name] = Module(path, tree, package)

    def kernels(self) -> list[Kernel]:
        found = []
        for module in self.modules.values():
            for owner, function in self._functions(module):
                if any(_is_kernel(module, d) for d in function.decorator_list):
                    name = f"{owner.name}.{function.name}" if owner else function.name
                    kernel = Kernel(name, str(module.path), function.lineno)
                    self._follow(kernel, module, owner, function)
                    found.append(kernel)
        return found

    @staticmethod
    def _functions(module: Module):
        for function in module.functions.values():
            yield None, function
            for inner in ast.walk(function):
                if isinstance(inner, ast.FunctionDef) and inner is not function:
                    yield None, inner
        for owner in module.classes.values():
            for function in owner.body:
                if isinstance(function, ast.FunctionDef):
                    yield owner, function

    def _follow(self, kernel: Kernel, module: Module, owner, function) -> None:
        waiting, seen = [(module, owner, function)], set()
        while waiting:
            module, owner, node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if id(node) not in self.read:
                self.read[id(node)] = list(_mentioned(node))
            for dotted, part in self.read[id(node)]:
                root = dotted.partition(".")[0]
                if root in ("self", "cls") and owner is not None:
                    waiting += self._method(module, owner, dotted.split(".")[1] if "." in dotted else "")
                    continue
                absolute = module.resolve(dotted)
                if absolute is None:
                    if dotted in module.functions:
                        waiting.append((module, None, module.functions[dotted]))
                    elif root in module.classes:
                        waiting += self._whole_class(module, module.classes[root], dotted)
                elif absolute.partition(".")[0] in ("cutlass", "cuda"):
                    kernel.used.append(Used(absolute, str(module.path), part.lineno))
                else:
                    waiting += self._elsewhere(kernel, absolute, part, module)

    def _method(self, module: Module, owner, name: str) -> list:
        for function in owner.body:
            if isinstance(function, ast.FunctionDef) and function.name == name:
                return [(module, owner, function)]
        for base in owner.bases:
            found = self._class(module, _dotted(base))
            if found:
                result = self._method(*found, name)
                if result:
                    return result
        return []

    def _class(self, module: Module, dotted: str):
        if dotted in module.classes:
            return module, module.classes[dotted]
        absolute = module.resolve(dotted)
        if absolute:
            home, _, name = absolute.rpartition(".")
            other = self._module(home)
            if other and name in other.classes:
                return other, other.classes[name]
        return None

    def _whole_class(self, module: Module, owner, dotted: str) -> list:
        parts = dotted.split(".")
        if len(parts) > 1:
            return self._method(module, owner, parts[1])
        return [(module, owner, f) for f in owner.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]

    def _module(self, name: str) -> Module | None:
        found = self.found.get(name, self)
        if found is self:
            found = self.modules.get(name)
            if found is None:
                endings = [m for m in self.modules if m.endswith(f".{name}")]
                found = self.modules[endings[0]] if len(endings) == 1 else None
            self.found[name] = found
        return found

    def _elsewhere(self, kernel: Kernel, absolute: str, part, here: Module) -> list:
        """What a name of another module of the folder is: a function or a class to follow, or a name of the DSL's."""
        head, rest = absolute, []
        while head:
            module = self._module(head)
            if module is not None and rest:
                name, tail = rest[0], rest[1:]
                if name in module.functions:
                    return [(module, None, module.functions[name])]
                if name in module.classes:
                    return self._whole_class(module, module.classes[name], ".".join([name, *tail]))
                again = module.resolve(".".join(rest))
                if again is None or again == absolute:
                    return []
                if again.partition(".")[0] in ("cutlass", "cuda"):
                    kernel.used.append(Used(again, str(here.path), part.lineno))
                    return []
                return self._elsewhere(kernel, again, part, here)
            head, _, last = head.rpartition(".")
            rest.insert(0, last)
        return []


def _is_kernel(module: Module, decorator) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    dotted = _dotted(node)
    return (module.resolve(dotted) or dotted).endswith("cute.kernel")


def kernels(folder) -> list[Kernel]:
    """Every kernel of the Python files in a folder."""
    return Corpus(Path(folder)).kernels()
