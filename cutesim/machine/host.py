"""What a file that was loaded for simulation calls outside its kernels: its @cute.jit functions, cute.compile, from_dlpack.

| the file says                                   | what happens                                                      |
|-------------------------------------------------|-------------------------------------------------------------------|
| `host(x, out)`, `Softmax()(x, out)`             | a simulated run, where runs are watched (`simulation.watched`)    |
| `run = cute.compile(host, x, out)`; `run(x, out)` | nothing; the same run                                           |
| `from_dlpack(x).mark_layout_dynamic()`          | the tensor, and what is known of it while compiling               |

As in CuTe DSL a tensor without from_dlpack has a layout that is known only when the kernel runs, and what was compiled keeps what
it knew of its tensors when it is called with others. Without a watch a call of a @cute.jit function is refused, with what to
write instead: see `names`.
"""

from __future__ import annotations

import inspect
import types

from ..context import ADVICE, Told
from ..memory.arguments import HostTensor, is_tensor

DIRECT: list = []  # what runs a kernel where it is called by itself: `simulate`, put here by simulation.watched


class NoDsl(Told, RuntimeError):
    """A DSL function was called directly where the DSL is not installed."""


def call(function, args, kwargs):
    """Run a decorated function, or the method of an object, that was called outside of a kernel."""
    if not _is_method(function):
        _run(function, *args, **kwargs)
        return
    instance, *args = args
    whole = instance if function.__name__ == "__call__" else types.MethodType(function, instance)
    _run(whole, *args, **kwargs)


def _run(function, *args, **kwargs):
    if not DIRECT:
        name = getattr(function, "__name__", type(function).__name__)
        kind = getattr(function, "decorated_as", "jit")
        raise NoDsl(f"{name} is a @cute.{kind} function and the CuTe DSL is not installed here; {ADVICE['call']}")
    DIRECT[-1](function, *args, dynamic=True, **kwargs)


def _is_method(function) -> bool:
    """Whether a decorated function was defined in a class: it is called with the object first."""
    outer = function.__qualname__.rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


class Compiled:
    """What cute.compile gives: a call runs the function, with the Constexpr arguments that it was compiled with."""

    def __init__(self, function, args, kwargs):
        self.function, self.args, self.kwargs = function, args, kwargs

    def __call__(self, *args, **kwargs):
        signature = inspect.signature(self.function if _is_plain(self.function) else type(self.function).__call__)
        parameters = list(signature.parameters.values())[0 if _is_plain(self.function) else 1 :]
        fixed = [p.name for p in parameters if "Constexpr" in str(p.annotation)]
        compiled = dict(zip([p.name for p in parameters], self.args)) | self.kwargs
        # A call may name what the compiler knew once more.
        left_out = fixed if len(args) + len(kwargs) < len(compiled) else ()
        given = dict(zip([p.name for p in parameters if p.name not in left_out], args)) | kwargs
        whole = {name: compiled[name] for name in fixed if name in compiled} | given
        whole = {name: _as_compiled(x, compiled.get(name)) for name, x in whole.items()}
        by_place = [p.name for p in parameters if p.name in whole and p.kind is not p.KEYWORD_ONLY]
        positional = [whole.pop(name) for name in by_place]
        _run(self.function, *positional, **whole)


def _as_compiled(x, compiled):
    """An argument with what the compiler knew of the one in its place."""
    if not isinstance(compiled, HostTensor) or not is_tensor(x):
        return x.tensor if isinstance(x, HostTensor) and is_tensor(compiled) else x
    result = HostTensor(x.tensor if isinstance(x, HostTensor) else x)
    result.known = compiled.known
    return result


def _is_plain(function) -> bool:
    return inspect.isfunction(function) or inspect.ismethod(function)


class _Compile:
    """cute.compile, also as cute.compile[options]; it refuses where nothing watches, since nothing would run."""

    def __call__(self, function, *args, options=None, **kwargs):
        return Compiled(function, args, kwargs)

    __iter__ = None  # Python would count up for ever

    def __getitem__(self, options):
        return self


compile_ = _Compile()


def from_dlpack(tensor, assumed_align=None, **_) -> HostTensor:
    """The tensor (numpy's, or torch's on the CPU) with all its extents known, until it is marked."""
    return HostTensor(tensor, assumed_align)
