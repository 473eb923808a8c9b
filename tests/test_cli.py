"""`quack-tutorial` where something is in its way: one sentence, an exit status that is not 0, and no traceback."""

import io
import os
import shlex
import subprocess
import sys

import pytest

from quack_tutorial import cli, machine


@pytest.mark.parametrize(
    "words, said",
    [
        ("record --pack folder", "record: folder: Is a directory: name another file"),
        ("memory --out file/x.json", "memory: file: "),  # before anything is measured
        ("record --take nowhere", "record: nowhere: No such file or directory: name"),
        ("record --take file", "record: file is no file that --pack wrote"),
        ("results --records nowhere", "results: there is no folder nowhere"),
        ("simulate FILE.py --seed -1", "'-1' is not a whole number of at least 0"),
        ("labs check block-reduce nosuch", "labs: block-reduce has no answer nosuch"),
        ("labs course file", "labs: file is there and not empty; name a new folder"),
        ("grade floor nowhere", "grade: cannot read nowhere: No such file or directory"),
        ("lab --copies --work file/x", "cannot be written to file/x (Not a directory)"),
    ],
)
def test_what_is_in_the_way_is_said_in_one_sentence(words, said, tmp_path, monkeypatch, capsys):
    words = shlex.split(words)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    try:
        status = cli.main(words)
    except SystemExit as stop:
        status = stop.code
    out, err = capsys.readouterr()
    assert status in (1, 2) and said in err and "[Errno" not in err and err.count("\n") == 1
    assert out == ""


def test_a_card_that_nobody_knows_is_said_to_be(monkeypatch, capsys):
    monkeypatch.setenv("QUACK_TUTORIAL_CARD", "rtx9090")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["record"])
    said = capsys.readouterr().err
    assert "QUACK_TUTORIAL_CARD: hardware has no GPU 'rtx9090': it has h100," in said


def test_the_folder_of_an_output_is_made(tmp_path, capsys):
    assert cli.main(["lines", "nowhere.py:f", "--html", str(tmp_path / "new" / "page.html")]) == 2
    assert (tmp_path / "new").is_dir() and "there is no file nowhere.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error, status, said",
    [
        (KeyboardInterrupt(), 130, "doctor: stopped by Ctrl-C."),
        (MemoryError("2 TiB"), 2, "memory is too small (2 TiB): take smaller sizes."),
    ],
)
def test_what_ends_a_command_in_the_middle_is_said(error, status, said, monkeypatch, capsys):
    monkeypatch.setattr(machine, "detect", lambda: (_ for _ in ()).throw(error))
    assert cli.main(["doctor"]) == status
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("place, status, said", [("/dev/full", 2, "No space left on device"), ("&-", 0, "")])
def test_an_output_that_cannot_be_written(place, status, said):
    line = f'"{sys.executable}" -m quack_tutorial.cli doctor >{place}'
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True)
    assert done.returncode == status and said in done.stderr
    assert done.stderr.count("\n") == bool(said)


def test_the_output_of_who_calls_main_is_left_as_it_was(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert cli.main(["record", "--take", "nowhere"]) == 2
    print("still there")
    assert sys.stdout.getvalue() == "still there\n"


def test_a_checkout_that_is_not_installed_has_every_command_too(monkeypatch):
    from quack_tutorial import above

    whole = cli.commands_of()
    monkeypatch.setattr(above, "entry_points", lambda group: ())
    assert cli.commands_of() == whole and {"bench", "grade"} <= {name for name, *_ in whole}
