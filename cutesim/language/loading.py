"""Where the DSL is not installed: lets one module, one notebook or one script say `import cutlass`.

The import statement of that module alone is answered with the simulator's names. sys.modules and the import system stay as they
are: no package or finder named cutlass exists, and nothing but simulated source can use what is answered. A file that is
loaded only to be simulated (`cutesim check FILE.py`) is answered also where the DSL is installed: always=True.
"""

from __future__ import annotations

import builtins
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

INSTALL_TORCH = "pip install 'torch>=2.11'"


def dsl_installed() -> bool:
    return importlib.util.find_spec("cutlass") is not None


def answering(always: bool):
    """__import__ that answers cutlass (and cuda, for stream annotations) where they are missing, or `always`."""

    def importing(name, globals=None, locals=None, fromlist=(), level=0):
        top = name.partition(".")[0]
        answers = level == 0 and top in ("cutlass", "cuda")
        if answers and (always or importlib.util.find_spec(top) is None):
            from ..dialect import names

            return names.by_path(name if fromlist else top)
        return _import(name, globals, locals, fromlist, level)

    return importing


def _import(name, globals, locals, fromlist, level):
    """Python's own __import__; what is not installed is said without the frames from here on."""
    try:
        return builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            error.msg = f"torch is not installed in this environment ({sys.prefix}): {INSTALL_TORCH}"
        elif level or error.name != name.partition(".")[0]:
            # It is missing to somebody else: their lines are of use.
            raise
        from ..context import without_frames

        raise without_frames(error) from None


def torch_or_its_answer(answered):
    """An import that answers torch too, where it is not installed: with the part of it that `torch_answer` has."""

    def importing(name, globals=None, locals=None, fromlist=(), level=0):
        asked = level == 0 and name.partition(".")[0] == "torch"
        if asked and "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
            found = _torch()
            if not fromlist:
                return found
            for part in name.split(".")[1:]:
                found = getattr(found, part)
            return found
        return answered(name, globals, locals, fromlist, level)

    return importing


@functools.lru_cache(maxsize=1)
def _torch():
    from .. import torch_answer

    torch_answer.types.SAYS.append(torch_answer.types.IN_SCRIPT)
    return torch_answer.module()


def answer_imports(namespace: dict, always=False, torch=False) -> None:
    """Let code that runs in `namespace` (a notebook's user namespace) import cutlass. Where it is installed, only if always.
    torch=True: and torch, where that is missing."""
    if dsl_installed() and not always:
        return
    table, answered = dict(vars(builtins)), answering(always)
    table["__import__"] = torch_or_its_answer(answered) if torch else answered
    namespace["__builtins__"] = table


class _Loader(importlib.machinery.SourceFileLoader):
    always = torch = False

    def exec_module(self, module):
        answer_imports(module.__dict__, self.always, self.torch)
        super().exec_module(module)


class KernelFinder(importlib.abc.MetaPathFinder):
    """Loads the modules of one package of ours, or those in one folder, so that their `import cutlass` is answered."""

    def __init__(self, package: str = "", folder: str = "", always=False):
        self.package, self.folder, self.always = package, folder, always

    def find_spec(self, fullname, path=None, target=None):
        if self.package and not fullname.startswith(self.package + "."):
            return None
        if self.folder and path is None:
            path = [self.folder]
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        theirs = Path(spec.origin).is_relative_to(self.folder) and "site-packages" not in spec.origin
        if self.folder and not theirs:
            return None
        spec.loader = _Loader(fullname, spec.origin)
        # torch in a reader's own files
        spec.loader.always, spec.loader.torch = self.always, bool(self.folder)
        return spec


def answer_package(package: str) -> None:
    """Answer `import cutlass` in the modules of `package`, where the DSL is not installed."""
    _answer(KernelFinder(package=package))


def answer_folder(folder: str, always=False) -> None:
    """Answer `import cutlass` in the modules of a folder (of a script, and beside it), where the DSL is not installed."""
    _answer(KernelFinder(folder=folder, always=always))


def _answer(finder: KernelFinder) -> None:
    known = any(isinstance(f, KernelFinder) and vars(f) == vars(finder) for f in sys.meta_path)
    if (finder.always or not dsl_installed()) and not known:
        # Our own modules before everybody: pytest, for which this distribution is a plugin, would load them itself to rewrite their
        # asserts. Those of a folder before Python's own finder, but after pytest, which wants to see test files first.
        default = importlib.machinery.PathFinder
        last = not finder.package and default in sys.meta_path
        sys.meta_path.insert(sys.meta_path.index(default) if last else 0, finder)
