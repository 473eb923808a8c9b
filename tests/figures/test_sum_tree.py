"""The figure of a sum: a box for each term and addition, each below what it adds, and a step a level."""

import numpy as np
import pytest

from cutesim.sums import Tree
from cutesim.values.trees import Trees
from quack_tutorial.figures import sum_tree


def tree_of(terms: int, chain: bool) -> Tree:
    """A sum of so many numbers, in a chain or by halves."""
    table = Trees()
    left = table.encode(np.arange(1.0, terms + 1), constants=False)
    numbers = np.arange(1.0, terms + 1)
    if chain:
        total = table.apply(np.add, "reduce", numbers.sum(), (numbers,), (left,), {})
    else:
        while len(left) > 1:
            half = len(left) // 2
            parts = (numbers[:half], numbers[half:])
            left = table.apply(np.add, "__call__", sum(parts), parts, (left[:half], left[half:]), {})
            numbers = sum(parts)
        total = left[0]
    return Tree(table, int(total.real))


@pytest.mark.parametrize(("chain", "steps"), [(True, 15), (False, 4)])
def test_it_has_a_step_a_level_and_ends_with_one_sum(chain, steps):
    player = sum_tree(tree_of(16, chain), np.arange(1, 17))
    assert len(player.frames) == steps and len(player.scene.boxes) == 31
    last = player.frames[-1]
    assert last.roles.count("r") == 16 and last.roles.count("w") == 1 and "h" not in last.roles
    links = [tuple(map(int, pair.split(">"))) for pair in last.inks["thin"].split()]
    assert len(links) == 30 and all(player.scene.boxes[a].y < player.scene.boxes[b].y for a, b in links)


def test_a_sum_that_has_no_picture_is_refused_with_how_many_terms_it_has():
    with pytest.raises(ValueError, match="100 terms: take one of 2 to 64"):
        sum_tree(tree_of(100, True))
