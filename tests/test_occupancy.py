"""How many blocks stay on a GPU, and how many parts of a weight's gradient there are therefore."""

import pytest

torch = pytest.importorskip("torch")

from quack_tutorial.kernels.config import Config
from quack_tutorial.kernels.tuned.norm_backward import RMSNormBackward, cutlass
from quack_tutorial.occupancy import clusters_at_once


def test_the_simulator_runs_one_cluster_after_the_other():
    found = clusters_at_once(torch.device("cpu"), 1)
    assert found == clusters_at_once(torch.device("cpu"), 16) == 1


@pytest.mark.parametrize(
    "N, rows, config, clusters, parts",
    (
        (262144, "aligned", Config(512, 512, 16, 3), 7, 7),  # 192 KB a block: one on an SM
        (65536, "aligned", Config(256, 256, 8, 3), 15, 30),  # 96 KB: two
        (256, "aligned", Config(32, 512), 132, 264),  # none; half of an SM's 2048 threads
        (4096, "aligned", Config(256, 256, 1, 3), 132, 528),  # 48 KB: four
        (257, "congruent", Config(16, 128), 132, 1056),  # none: eight
        (50257, "congruent", Config(128, 128, 16), 7, 56),
        # Rows of an odd length that start alike are a multiple of 8 apart.
        (50257, "congruent", Config(256, 256, 16), 7, 24),
        (257, "congruent", Config(32, 512), 1, 8),
    ),
)
def test_there_are_as_many_parts_as_run_at_once(N, rows, config, clusters, parts):
    kernel = RMSNormBackward(cutlass.BFloat16, N, rows, config=config)
    assert kernel.most_parts(clusters) == parts


@pytest.mark.parametrize(
    "N, rows, config, M, parts",
    (
        (262144, "aligned", Config(512, 512, 16, 3), 1, 1),
        (262144, "aligned", Config(512, 512, 16, 3), 100, 7),
        (256, "aligned", Config(32, 512), 33, 3),  # 16 rows in a block
        (257, "congruent", Config(16, 128), 1, 8),  # the rows of a block start alike
        (257, "congruent", Config(16, 128), 65, 16),
        (50257, "congruent", Config(128, 128, 16), 3, 3),  # one row each
        (50257, "congruent", Config(128, 128, 16), 8192, 56),
    ),
)
def test_a_few_rows_have_no_more_parts_than_blocks_with_a_row(N, rows, config, M, parts):
    kernel = RMSNormBackward(cutlass.BFloat16, N, rows, config=config)
    assert kernel.parts_of(M, kernel.most_parts(7 if config.cluster else 132)) == parts
