"""Which card is selected where records, sizes and datasheets differ from card to card.

| function                | gives                                                                                        |
|-------------------------|----------------------------------------------------------------------------------------------|
| `here()`                | this machine's GPU as a row of `hardware`, also one that the table lacks; None where there is none |
| `selected()`            | the one that QUACK_TUTORIAL_CARD names, or that one; without either, the book's                |
| `nearest_recorded(...)` | which of some cards stands for it: itself, or else the nearest by SMs and bandwidth             |
| `taken_for`             | a context in which another card is selected                                                   |
| `times_asked()`         | how often this process has asked which card is selected: what tells that a result depends on it |
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache

from quack_tutorial import hardware, machine

VARIABLE = "QUACK_TUTORIAL_CARD"
BOOK = "h100"  # whose records the book prints


@cache
def here() -> hardware.GPU | None:
    """This machine's GPU; of one that `hardware` lacks, what the driver says."""
    found = machine.find_gpu()
    if found["gpu"] is None:
        return None
    name, capability = found["gpu"], found["compute_capability"]
    numbers = hardware.find(name) is None and machine.gpu_numbers(name)
    if not numbers:
        return hardware.find(name)
    sm = hardware.sm_of(capability)
    return hardware.GPU(hardware.card_of(name), name, (name,), capability, l2_bytes=None, **numbers, **sm)


_asked = 0


def times_asked() -> int:
    """How often this process has asked which card is selected."""
    return _asked


def named() -> str | None:
    """The card that the environment names, if it names one."""
    global _asked
    _asked += 1
    return os.environ.get(VARIABLE)


def selected() -> hardware.GPU:
    """The card that the environment names, this machine's, or the book's; KeyError where the environment names an unknown one."""
    name = named()
    return hardware.gpu(name) if name else here() or hardware.gpu(BOOK)


@contextmanager
def taken_for(name: str):
    """In here the card of that name is selected."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = name
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def nearest_recorded(cards) -> str:
    """That of `cards` which stands for the one that is selected: itself, or the nearest to it (see `hardware.nearest`)."""
    row = selected()
    return row.card if row.card in cards else hardware.nearest(row, cards)
