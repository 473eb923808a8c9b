"""`quack-tutorial record`: what is missing of a card is found, measured in order and in time, packed and taken over."""

import argparse
import functools
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import pytest

from bench import command, record, sweep
from quack_tutorial import records
from quack_tutorial.records import save

HERE = {"driver": "580.95.05", "versions": {"torch": "2.11.0", "quack-kernels": "0.0"}}


def parsed_by(module, words):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(words)


def parsed(*words):
    return parsed_by(record, words)


def items(*names):
    return [item for item in record.ITEMS if item.name in names]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "h100/bench").mkdir(parents=True)
    monkeypatch.setattr(record, "find_spec", lambda name: name)
    monkeypatch.setenv("QUACK_TUTORIAL_CACHE", "")
    monkeypatch.delenv("QUACK_TUTORIAL_CACHE")
    return tmp_path / "h100"


class FakeGPU:
    """Starts the items' commands as a machine whose GPU measures nothing would; `seen` are their names and limits."""

    def __init__(self, root):
        worker = root / "tests/bench/fake_worker.py"
        self.seen, self.worker = [], [sys.executable, str(worker), "good", "2.11.0"]

    def __call__(self, words, seconds):
        name, *words = words[3:] if words[1] == "-m" and words[2].endswith("cli") else [Path(words[1]).name, *words[2:]]
        self.seen.append((name, seconds))
        if name == "bench":
            args = parsed_by(command, words)
            asked = (command.requested_cells(args), command.requested_providers(args), command.opened(args))
            return command.measure(args, *asked, HERE["driver"], functools.partial(sweep.Worker, self.worker))
        if "--out" in words:
            Path(words[words.index("--out") + 1]).write_text("{}")
        return 0


def test_every_item_s_command_is_understood_and_counted(folder):
    for item in record.ITEMS:
        assert record.left(item, folder, 8) > 0, item.name
        assert f"{item.name} " in record.said(item, 3)
    card = records.FOLDER / "h200"
    (ladders,) = items("ladders")
    assert 0 < record.left(ladders, card, 8) < record.left(ladders, folder, 8)
    assert record.left(items("memory")[0], card, 8) == 0
    assert record.left(items("outputs")[0], records.FOLDER / "h100", 8) == 0


def test_what_is_missing_is_measured_once_and_packed(folder, root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(root))
    gpu, packed = FakeGPU(root), tmp_path / "out.tar.gz"
    chosen = items("memory", "model", "fewer rows")
    args = parsed("--missing", "--pack", str(packed), "--workers", "1")
    assert record.measure(chosen, folder, args, gpu, HERE) == 0
    assert [name for name, _ in gpu.seen] == ["memory", "model", "bench"]
    said = capsys.readouterr().out
    assert re.search("memory +1 missing, about 2.2 minutes", said)
    assert said.endswith("Missing now:\n")
    gpu.seen.clear()
    assert record.measure(chosen, folder, args, gpu, HERE) == 0 and not gpu.seen
    held = json.loads((folder / "bench/softmax.json").read_text())
    assert {cell["M"] for cell in held["cells"]} == {8192} and len(held["cells"]) == 22
    # A provider that was left out, or could not be imported, makes a cell wanting.
    for cell in held["cells"][:2]:
        cell["results"] = [result for result in cell["results"] if result["provider"] != "liger cute"]
    (folder / "bench/softmax.json").write_text(json.dumps(held))
    assert record.left(chosen[2], folder, 1) == 2
    monkeypatch.setattr(records, "FOLDER", tmp_path / "taken")
    assert record.take(packed) == 0
    assert (tmp_path / "taken/h100/bench/softmax.json").exists()


@pytest.mark.parametrize(
    "other, why", [({"driver": "570"}, "driver"), ({"versions": {"torch": "2.10.0"}}, "torch"), ({"versions": {}}, "")]
)
def test_an_item_s_records_of_another_machine_are_measured_anew(folder, capsys, other, why):
    """And no other item's. A package that only one of them names is no contradiction."""
    names = ("bench/softmax", "model", "profile")
    for name in names:
        save(
            folder / f"{name}.json",
            HERE | other | {"cells": [], "cases": [], "operation": "softmax", "series": "peers"},
        )
    assert record.measure(items("profile"), folder, parsed(), lambda command, seconds: 0, HERE) == 0
    paths = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.json"))]
    kept = [path.removesuffix(".json") for path in paths]
    assert kept == list(names[: 2 if why else 3])
    found = f"profile.json is of another {why}: it is measured anew" in capsys.readouterr().out
    assert found == bool(why)


def test_a_command_is_ended_when_its_time_is_over(capsys, monkeypatch):
    monkeypatch.setattr(record, "GRACE_S", 0)
    assert record.in_its_time([sys.executable, "-c", "raise SystemExit(3)"], 60) == 3
    assert record.in_its_time([sys.executable, "-c", "import time; time.sleep(60)"], 1) != 0
    assert "was ended" in capsys.readouterr().out


def packed(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, link, 2 * (kind == tarfile.REGTYPE)
            archive.addfile(member, io.BytesIO(b"{}"))
    return path


NAMES = (("../../climbed.json", tarfile.REGTYPE, ""), ("{there}/climbed.json", tarfile.REGTYPE, ""))
NAMES += (("loose.json", tarfile.REGTYPE, ""), ("h100/link", tarfile.SYMTYPE, "{there}"))


@pytest.mark.parametrize("name, kind, link", NAMES)
def test_a_pack_writes_into_cards_folders_alone(tmp_path, monkeypatch, capsys, name, kind, link):
    monkeypatch.setattr(records, "FOLDER", tmp_path / "a/records")
    other = name.format(there=tmp_path), kind, link.format(there=tmp_path)
    file = packed(tmp_path / "pack.tar.gz", ("h100/memory.json", tarfile.REGTYPE, ""), other)
    assert record.take(file) == 1
    assert "which is no record of a card" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_a_broken_record_is_named_and_left(folder, monkeypatch, capsys):
    monkeypatch.setenv("QUACK_TUTORIAL_CARD", "h100")
    monkeypatch.setattr(records, "FOLDER", folder.parent)
    for item, name in (("peers", "bench/softmax"), ("profile", "profile")):
        for content in ("", "[]", "{}"):
            (folder / f"{name}.json").write_text(content)
            assert record.run(parsed(item)) == 1 and str(folder / name) in capsys.readouterr().err
            assert (folder / f"{name}.json").read_text() == content
