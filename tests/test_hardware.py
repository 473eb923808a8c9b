"""The table of GPUs: every number has a source of NVIDIA's, and the arithmetic that the book does with it holds."""

from dataclasses import fields
from urllib.parse import urlparse

import pytest

from quack_tutorial import hardware


@pytest.mark.parametrize("gpu", hardware.GPUS, ids=lambda gpu: gpu.name)
def test_every_number_has_one_source_at_nvidia(gpu):
    whole = [field.name for field in fields(gpu) if "int" in field.type]
    numbers = {name for name in whole if type(getattr(gpu, name)) is int}
    sourced = [name for source in gpu.sources for name in source.fields]
    assert sorted(sourced) == sorted(numbers)
    for source in gpu.sources:
        assert urlparse(source.url).scheme == "https"
        assert urlparse(source.url).hostname.endswith(".nvidia.com")
        assert source.where


def test_torch_s_names_find_their_rows():
    assert hardware.find("NVIDIA H200").bandwidth_gb_s == 4800
    assert hardware.find("NVIDIA H100 80GB HBM3").bandwidth_gb_s == 3350
    assert hardware.find("NVIDIA H100 PCIe").sms == 114
    assert hardware.find("NVIDIA A100-SXM4-80GB").card == "a100_80"
    assert hardware.find("NVIDIA T4") is None


def test_a_card_has_a_name_that_a_folder_and_a_package_can_have():
    cards = [gpu.card for gpu in hardware.GPUS]
    assert len(set(cards)) == len(cards) and all(card.isidentifier() for card in cards)
    assert hardware.card_of("NVIDIA H100 80GB HBM3") == "h100"
    assert hardware.card_of("NVIDIA RTX 6000 Ada Generation") == "rtx_6000_ada_generation"


CARDS = [("h100nvl", "h100"), ("gh200", "h100"), ("b200", "h200")]
CARDS += [("a100_80", "h100"), ("l4", "h100"), ("rtx5090", "h100")]


@pytest.mark.parametrize("card, like", CARDS)
def test_a_card_that_nobody_recorded_is_like_the_nearest_by_sms_and_bandwidth(card, like):
    assert hardware.nearest(hardware.gpu(card), ("h200", "h100")) == like


def test_an_unknown_row_names_those_there_are():
    with pytest.raises(KeyError, match="no GPU 'H300': it has h100, h100pcie, h100nvl, h200, "):
        hardware.gpu("H300")


def test_the_floor_of_the_first_chapter_s_example():
    # Softmax of 16384 x 131072 float32, read once and written once, at an H100's 3.35 TB/s.
    moved = 2 * 16384 * 131072 * 4
    assert moved / 1e9 == pytest.approx(17.18, abs=0.005)
    assert moved / hardware.gpu("H100 SXM5 80GB").bandwidth_gb_s / 1e6 == pytest.approx(5.13, abs=0.005)  # ms


def test_shared_memory_of_a_block_leaves_one_kilobyte_of_the_sm():
    for gpu in hardware.GPUS:
        assert gpu.smem_per_sm_bytes - gpu.smem_per_block_bytes == 1024
        assert gpu.registers_per_sm // gpu.registers_per_thread < gpu.threads_per_sm
