"""Runs the kernels of one published package, unchanged, on the simulator, and compares what they give with float64.

    python -m validation.published_worker FOLDER PACKAGE

FOLDER holds the package's unpacked files, `published_kernels` the cases. Only the modules with kernels are loaded: no `__init__` of
the package runs, and what they import besides CuTe DSL, torch and themselves (Triton's autotuner, say) is answered with an empty
stand-in. Prints a JSON list of {"name", "verdict", "why"}: right, wrong, finding, not simulated, or failed, where the case itself
could not be made.

A kernel is right where no finding is made and its largest error, as a share of the largest number of the result, is under 1e-5 in
float32 and 1e-2 in bfloat16.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from contextlib import redirect_stdout, suppress
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

from cutesim.language import loading
from validation import published_kernels as kernels

STRANGERS = ("triton", "tvm_ffi", "einops", "cuda", "jax", "filelock", "apache_tvm_ffi")
MOST = {"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}


class _Bare(importlib.abc.MetaPathFinder):
    """Finds the package's folders without running their `__init__`, and answers for packages that are none of its business."""

    def __init__(self, folder: Path):
        self.folder, self.own = folder, {path.name for path in folder.iterdir() if path.is_dir()}

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in STRANGERS and importlib.machinery.PathFinder.find_spec(top) is None:
            return importlib.machinery.ModuleSpec(name, _StandIn(), is_package=True)
        place = self.folder.joinpath(*name.split("."))
        if top in self.own and place.is_dir():
            start = place / "__init__.py"
            loader = _AsFarAsItGoes(name, str(start)) if name != top and start.exists() else _Empty()
            spec = importlib.machinery.ModuleSpec(name, loader, is_package=True)
            spec.submodule_search_locations = [str(place)]
            return spec
        return None


class _Empty(importlib.abc.Loader):
    def exec_module(self, module):
        module.__version__ = "0"


class _AsFarAsItGoes(loading._Loader):
    """Runs a folder's `__init__` up to the first line that fails here, where much of what it is for is missing."""

    always = True

    def exec_module(self, module):
        with suppress(Exception):
            super().exec_module(module)


class _StandIn(importlib.abc.Loader):
    def create_module(self, spec):
        found = MagicMock(name=spec.name)
        found.__path__, found.__spec__ = [], spec
        return found

    def exec_module(self, module):
        pass


class Kernels:
    """A package's kernels: what a case needs to make one, its inputs, and what it must give."""

    def __init__(self, folder: Path):
        import torch

        from cutesim.dialect import names

        self.folder = folder
        sys.meta_path.insert(0, _Bare(folder))
        sys.path.insert(0, str(folder))
        loading.answer_folder(str(folder), always=True)
        torch.cuda.is_available, torch.cuda.current_device = lambda: True, lambda: 0  # a Hopper, for those who ask
        torch.cuda.get_device_capability = lambda *_: (9, 0)
        torch.cuda.get_device_properties = lambda *_: SimpleNamespace(
            major=9, minor=0, multi_processor_count=132, shared_memory_per_block_optin=232448, name="NVIDIA H100"
        )
        self.torch, self.cutlass = torch, names.by_path("cutlass")
        self.random = torch.Generator().manual_seed(0)

    def module(self, name):
        return importlib.import_module(name)

    def beside(self, *parts):
        """Modules of a folder of the package are found by their own names too, as its programs import them."""
        place = self.folder.joinpath(*parts)
        sys.meta_path.insert(0, _Bare(place))
        sys.path.insert(0, str(place))

    @cached_property
    def hosts(self):
        """`published_hosts`, with the simulator's answer to `import cutlass`."""
        name = "published_hosts"
        loader = loading._Loader(name, str(Path(__file__).with_name(f"{name}.py")))
        loader.always = True
        spec = importlib.machinery.ModuleSpec(name, loader, origin=loader.path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        loader.exec_module(sys.modules[name])
        return sys.modules[name]

    def type(self, dtype):
        return {"float32": self.cutlass.Float32, "bfloat16": self.cutlass.BFloat16, "float16": self.cutlass.Float16}[
            dtype
        ]

    def normal(self, *shape, dtype="float32"):
        return self.torch.randn(*shape, generator=self.random).to(getattr(self.torch, dtype))

    def whole(self, *shape, dtype="float32"):
        """Small whole numbers, whose products and sums no type rounds."""
        return self.torch.randint(-2, 3, shape, generator=self.random).to(getattr(self.torch, dtype))

    def words(self, M, N):
        return self.torch.randint(0, N, (M,), generator=self.random)

    def empty(self, *shape, dtype="float32"):
        made = getattr(self.torch, dtype)
        return self.torch.full(shape, float("nan") if made.is_floating_point else -1, dtype=made)


PACKAGES = {
    "quack-kernels": (kernels.quack,),
    "liger-kernel": (kernels.liger,),
    "flashinfer-python": (kernels.flashinfer, kernels.nvidia),
    "nvidia-cudnn-frontend": (kernels.cudnn,),
}


def judged(case) -> dict:
    """The verdict on one case, and why."""
    from cutesim.context import NotSimulated
    from cutesim.simulation import simulate

    try:
        kernel, args, results = case()
        run = simulate(kernel, *args)
    except NotSimulated as error:
        return {"verdict": "not simulated", "why": str(error).splitlines()[0]}
    except Exception as error:
        return {"verdict": "failed", "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    if run.findings:
        return {"verdict": "finding", "why": str(run.findings[0]).splitlines()[0]}
    for got, wanted, *most in results:
        got = got() if callable(got) else got
        most = most[0] if most else MOST.get(str(got.dtype).removeprefix("torch."), 1e-5)
        share = ((got.double() - wanted.double()).abs().max() / wanted.double().abs().max()).item()
        if not share <= most:
            return {"verdict": "wrong", "why": f"off by {share:.2g} of the largest number"}
    return {"verdict": "right", "why": ""}


def main(folder, package):
    package_files, told = Kernels(Path(folder)), []
    with redirect_stdout(sys.stderr):  # the kernels' own words
        for source in PACKAGES[package]:
            for name, case in source(package_files).items():
                told.append({"source": source.__name__, "name": name, **judged(case)})
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
