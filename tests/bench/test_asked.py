"""What the commands of this room have in common: a sentence where there is no GPU, and the line that repeats them."""

import argparse
import types

import pytest

pytest.importorskip("torch")

from bench import asked
from quack_tutorial import cli, machine


@pytest.fixture
def without_a_gpu(monkeypatch):
    found = types.SimpleNamespace(device="cpu", reason="this machine has no NVIDIA GPU.")
    monkeypatch.setattr(machine, "detect", lambda: found)


@pytest.mark.parametrize("command", ["memory", "model", "profile", "head", "states", "bench"])
def test_what_measures_needs_a_gpu(command, without_a_gpu, capsys):
    assert cli.main([command]) == 2
    assert capsys.readouterr().err == f"{command}: this machine has no NVIDIA GPU.\n"


def test_a_line_names_what_was_asked_and_no_folder():
    args = argparse.Namespace(out="deep/r.json", keep=True, tuned=False, dtype=None, rows="1,2", public_mean=True)
    options = ["rows", "dtype", "keep", "tuned", "public-mean", "out"]
    line = "quack-tutorial memory --rows 1,2 --keep --public-mean --out r.json"
    assert asked.command_line(args, ["memory"], options) == line
