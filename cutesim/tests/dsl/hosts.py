"""Host functions round kernels: the small copy of what a test launches again and again."""

import functools
import inspect
import linecache

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr

KINDS = {Constexpr: "cutlass.Constexpr", cutlass.Int32: "cutlass.Int32"}
HOST = """\
@cute.jit
def host({parameters}):
    kernel({names}*rest).launch(grid=[{blocks}, 1, 1], **options)
"""


def launched(threads, blocks=1, cluster=None, passing=False, **options):
    """Decorates a kernel of tensors with a host function that runs it, and whose parameters have the same names.

    Of a kernel that takes Constexprs behind them it makes a function that takes their values and gives the host function;
    `passing`, and the host function takes them itself, and numbers. `blocks` may be a text: x.shape[0].
    """
    options |= dict(block=[threads, 1, 1]) | ({"cluster": [cluster, 1, 1]} if cluster else {})

    def decorate(kernel):
        parameters = inspect.signature(inspect.unwrap(kernel)).parameters.values()
        chosen = inspect.Signature([] if passing else [one for one in parameters if one.annotation is Constexpr])
        own = [one for one in parameters if one.name not in chosen.parameters and (passing or one.default is one.empty)]
        typed = [f"{one.name}: {KINDS.get(one.annotation, 'cute.Tensor')}" for one in own]
        typed = [
            said + f" = {one.default!r}" * (one.default is not one.empty) for said, one in zip(typed, own, strict=True)
        ]
        text = HOST.format(parameters=", ".join(typed), names="".join(f"{one.name}, " for one in own), blocks=blocks)
        file = f"<host of {kernel.__module__}.{kernel.__name__}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)

        @functools.wraps(inspect.unwrap(kernel))
        def configured(*args, **named):
            bound = chosen.bind(*args, **named)
            bound.apply_defaults()
            scope = {"__name__": __name__, "cute": cute, "cutlass": cutlass}
            scope |= {"kernel": kernel, "rest": bound.args, "options": options}
            exec(compile(text, file, "exec"), scope)
            scope["host"].__name__ = kernel.__name__
            return scope["host"]

        return configured if chosen.parameters else configured()

    return decorate


one_warp = launched(32)


@cute.jit
def initialise(mbar, count: Constexpr):
    """An mbarrier of so many arrivals, which the whole block may use after this."""
    tid, _, _ = cute.arch.thread_idx()
    if tid == 0:
        cute.arch.mbarrier_init(mbar, count)
        cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
