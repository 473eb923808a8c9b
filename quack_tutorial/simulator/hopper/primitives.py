"""cutlass.experimental.primitives and views of tensors as arrays, as far as they stand for what cute.arch and tensors have.

| names                                                       | here                                      |
|-------------------------------------------------------------|-------------------------------------------|
| `barrier_cta_sync`, `barrier_cta_arrive`, `bar_warp_sync`    | barriers of the block and of a warp       |
| `shfl_sync`, `vote_sync`, `elect_sync`, `griddepcontrol`     | as cute.arch has them                     |
| `make_array_view(tensor)`                                   | the tensor, element by element            |

Not covered: `cutlass.Array`, copies and products of the primitives; any other use of a view is refused by its name.
"""

from __future__ import annotations

from .. import barriers, warps
from ..context import not_simulated, wrong_kind
from ..control import elect
from ..numeric import Int32, Value, convert
from ..tensor import Tensor


def barrier_cta_sync(barrier_id=0, *, thread_count=None, **_):
    return barriers.barrier(barrier_id=barrier_id, number_of_threads=thread_count)


def barrier_cta_arrive(barrier_id, thread_count, **_):
    return barriers.barrier_arrive(barrier_id=barrier_id, number_of_threads=thread_count)


def bar_warp_sync(mask, **_) -> None:
    barriers.sync_warp(mask)


def elect_sync(*, membermask=warps.FULL_MASK, **_) -> Value:
    """The lowest lane that is here; which one the hardware picks is not said."""
    if membermask != warps.FULL_MASK:
        raise not_simulated("elect_sync with membermask")
    return elect()


def shfl_sync(thread_mask, val, offset, mask_and_clamp, kind, *, return_value_and_is_valid=None, **_):
    if return_value_and_is_valid:
        raise not_simulated("shfl_sync with return_value_and_is_valid")
    shuffle = {
        "BFLY": warps.shuffle_sync_bfly,
        "UP": warps.shuffle_sync_up,
        "DOWN": warps.shuffle_sync_down,
        "IDX": warps.shuffle_sync,
    }[str(kind).rpartition(".")[2]]
    return shuffle(val, offset, thread_mask, mask_and_clamp)


def vote_sync(mask, pred, kind, **_) -> Value:
    vote = getattr(warps, f"vote_{str(kind).rpartition('.')[2].lower()}_sync")
    return vote(convert(pred, Int32) != 0, mask)


def griddepcontrol(kind, **_) -> None:
    wait = str(kind).rpartition(".")[2] == "WAIT"
    (barriers.griddepcontrol_wait if wait else barriers.griddepcontrol_launch_dependents)()


class ArrayView(Tensor):
    """A tensor's elements by their coordinates."""

    __slots__ = ()

    def __getattr__(self, name: str):
        raise not_simulated(f"cutlass.make_array_view(...).{name}")


def make_array_view(tensor, **_) -> ArrayView:
    if not isinstance(tensor, Tensor):
        raise wrong_kind(f"make_array_view takes a tensor, got {type(tensor).__name__}", tensor)
    return ArrayView(tensor.pointer, tensor.layout, tensor.coords)
