"""Where the DSL is not installed: lets one module, one notebook or one script say `import cutlass`.

The import statement of that module alone is answered with the simulator's names. sys.modules and the import system stay as they
are: no package or finder named cutlass exists, and nothing but simulated source can use what is answered.
"""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path


def dsl_installed() -> bool:
    return importlib.util.find_spec("cutlass") is not None


def answering_import(name, globals=None, locals=None, fromlist=(), level=0):
    """__import__ that answers cutlass (and cuda, for stream annotations) where they are missing."""
    top = name.partition(".")[0]
    if level == 0 and top == "cutlass" and not dsl_installed():
        from . import names

        return names.by_path(name) if fromlist else names.CUTLASS
    if level == 0 and top == "cuda" and importlib.util.find_spec("cuda") is None:
        from . import names

        return names.Missing(name if fromlist else "cuda")
    return builtins.__import__(name, globals, locals, fromlist, level)


def answer_imports(namespace: dict) -> None:
    """Let code that runs in `namespace` (a notebook's user namespace) import cutlass. Does nothing where it is installed."""
    if dsl_installed():
        return
    table = dict(vars(builtins))
    table["__import__"] = answering_import
    namespace["__builtins__"] = table


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        answer_imports(module.__dict__)
        super().exec_module(module)


class KernelFinder(importlib.abc.MetaPathFinder):
    """Loads the modules of one package of ours, or those in one folder, so that their `import cutlass` is answered."""

    def __init__(self, package: str = "", folder: str = ""):
        self.package, self.folder = package, folder

    def find_spec(self, fullname, path=None, target=None):
        if self.package and not fullname.startswith(self.package + "."):
            return None
        if self.folder and path is None:
            path = [self.folder]
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        if self.folder and not Path(spec.origin).is_relative_to(self.folder):
            return None
        spec.loader = _Loader(fullname, spec.origin)
        return spec


def answer_package(package: str) -> None:
    """Answer `import cutlass` in the modules of `package`, where the DSL is not installed."""
    _answer(KernelFinder(package=package))


def answer_folder(folder: str) -> None:
    """Answer `import cutlass` in the modules of a folder (of a script, and beside it), where the DSL is not installed."""
    _answer(KernelFinder(folder=folder))


def _answer(finder: KernelFinder) -> None:
    known = any(isinstance(f, KernelFinder) and vars(f) == vars(finder) for f in sys.meta_path)
    if not dsl_installed() and not known:
        sys.meta_path.insert(0, finder)
