"""A dozen ways to fool a benchmark: the naive one believes each, and each is caught."""

import time

import pytest

torch = pytest.importorskip("torch")

from bench import cheats

# What must object to each, at least; none of these depends on how busy the machine is.
OBJECTS = {
    "writes nothing": {"poison", "float64"},
    "remembers its answer": {"fresh numbers"},
    "does the first rows": {"poison"},
    "writes a constant": {"float64"},
    "computes in 16 bits": {"float64"},
    "leaves the maximum out": {"hard numbers"},
    "knows the size": {"other sizes"},
    "works later": {"poison"},
    "eats its input": {"inputs kept"},
    "slows the clock": {"own clock"},
    "replaces the reference": {"float64"},
    "borrows the original": {"own work"},
}


def test_there_are_a_dozen():
    assert len(cheats.CHEATS) == 12 and OBJECTS.keys() == cheats.CHEATS.keys()


def test_no_check_objects_to_an_honest_softmax():
    assert cheats.naive(cheats.honest).right
    assert cheats.caught(lambda: cheats.honest) == {}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_naive_benchmark_believes_it_and_a_check_does_not(name):
    make = cheats.CHEATS[name]
    clock, softmax = time.perf_counter, torch.softmax
    assert cheats.naive(make()).right
    found = cheats.caught(make)
    assert OBJECTS[name] <= found.keys(), found
    assert (time.perf_counter, torch.softmax) == (clock, softmax)  # put back


def test_what_does_nothing_is_faster_than_a_copy():
    said = cheats.caught(lambda: cheats.nothing, {"floor": cheats.floor})["floor"]
    assert "times as fast as a copy" in said


def test_every_check_catches_something():
    assert set(cheats.CHECKS) - {"floor"} == set().union(*OBJECTS.values())
