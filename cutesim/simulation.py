"""`simulate`: what a user calls; it checks the arguments, and makes one run or tries every order of the warps."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass

from cutesim.machine import host
from cutesim.orders import try_orders
from cutesim.orders.order import Order
from cutesim.run import LOOKED_FOR, Run, named_tensors, run_once

__all__ = ["LOOKED_FOR", "Run", "simulate", "watched"]
SCHEDULES = ("forward", "reverse", "seeded")


@dataclass(frozen=True)
class _Watch:
    runs: list
    options: dict
    launches: list  # those that may still run as the next one starts, None among them = others, too


WATCHES: list = []  # innermost last


def simulate(
    function,
    *args,
    check=True,
    schedule="forward",
    orders=None,
    right=None,
    seed=0,
    values=False,
    blocks=None,
    max_steps=2_000_000,
    fill=0,
    dynamic=(),
    exact=False,
    on_device=False,
    follows=False,
    **kwargs,
) -> Run:
    """Run a @cute.jit host function, or an object with a @cute.jit __call__, on the simulator; returns a `Run`.

    `args` are numpy arrays, CPU torch tensors, `Array`s and numbers. A tensor's memory is the kernel's, so outputs are written in
    place; an array that cannot be written may be an input.

    | option             | what it does                                                                                     |
    |--------------------|--------------------------------------------------------------------------------------------------|
    | `check=True`       | runs warp by warp, records a trace and looks for races; findings are in the result                |
    | `check=False`      | runs whole blocks in lockstep and raises SimulationError at the first wrong access                |
    | `schedule`, `seed` | the order of the warps: "forward", "reverse", or "seeded", which `seed` shuffles                  |
    | `values=True`      | records the numbers as well, which `figures.butterfly` and others draw                           |
    | `blocks=k`         | simulates only the first k blocks of each launch, with range(a, b) blocks a to b - 1             |
    | `fill`             | chooses the values that uninitialised memory holds                                               |
    | `max_steps`        | how many steps of loops a warp may take before they are taken for an endless loop; by default also 30 s |
    | `exact=True`       | runs the kernel once more in float64 as well (`Run.exact`), which tells a wrong formula from rounding; |
    |                    | with a `values.field.Field` in place of True in its elements, see `same_formula`                |
    | `on_device=True`   | takes the tensors for a GPU's, whose numbers the host's code cannot touch                         |
    | `follows=True`     | marks each load of global memory whose address, or whether it is made, comes of what one has brought |
    | `dynamic`          | which extents and strides are known only when the kernel runs; see below                          |
    | `orders`, `right`  | runs the kernel in several orders of its warps; see below                                         |

    Extents and strides are known while compiling, as when `launch` compiles. The exceptions are those that a tensor from CuTe DSL's
    from_dlpack was marked with (mark_layout_dynamic, mark_compact_shape_dynamic), and the modes of dynamic={"x": (0,)}.
    dynamic=True takes every tensor as CuTe DSL takes one that is passed to it directly: it knows only strides of 1 and of 0.

    orders="all" tries every order of the warps' visible steps, orders=Bounds(...) as many as the bounds allow. Both return an
    `Orders`: a Run with a verdict and, where one fails, that order (`cutesim.orders`). `right`, a function without
    arguments, is called after each order and says whether the results are right. orders=Order(...) is one run in that order.

    Raises NotSimulated for what is outside the subset, TypeError for arguments that it cannot take, ValueError for an option that
    makes no sense. Threads take turns.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule={schedule!r}: choose one of {', '.join(SCHEDULES)}")
    options = {"check": check, "schedule": schedule, "seed": seed, "values": values}
    options |= {"blocks": blocks, "fill": fill, "max_steps": max_steps}
    options |= {"dynamic": dynamic, "exact": exact, "on_device": on_device, "follows": follows}
    watch = WATCHES[-1] if WATCHES else None
    if watch is not None:
        asked = {"check": True} | watch.options
        orders, right = asked.pop("orders", orders), asked.pop("right", right)
        options |= asked | {"history": watch.launches}
    once = functools.partial(run_once, function, args, kwargs, **options)
    if orders is None or isinstance(orders, Order):
        run = once(order=orders)
    else:
        tensors = named_tensors(function, args, kwargs)
        checked = functools.partial(once, check=True, schedule="forward", exact=False)
        run = try_orders(checked, tensors, orders, right)
    if watch is not None:
        watch.runs.append(run)
    return run


@contextlib.contextmanager
def watched(alone=True, **options):
    """A list that gets all runs which the code inside makes, each checked, with these options of `simulate` before its own.

    Where it is not `alone`, kernels that nobody knows may still run as the first launch starts.
    Whatever runs a kernel counts: simulate, launch (on CPU tensors), and in a file that was loaded for simulation a @cute.jit
    function called by itself or through cute.compile. A finding does not raise: the code goes on, as it would on a GPU.
    """
    watch = _Watch([], options, [] if alone else [None])
    WATCHES.append(watch)
    host.DIRECT.append(simulate)
    try:
        yield watch.runs
    finally:
        host.DIRECT.pop()
        WATCHES.remove(watch)
