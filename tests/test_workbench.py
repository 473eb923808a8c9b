"""The reader's copies: renewed with the book while untouched, never lost once changed; and how JupyterLab is started."""

import importlib.util
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from quack_tutorial import cli
from workbench import command, copies, first_page

CHAPTER = "notebooks/04-warp-reduce.ipynb"
BESIDE = "notebooks/04-warp-reduce.book.ipynb"


def notebook(*sources, outputs=(), **metadata):
    """A notebook with one cell of text, the rest of code, as bytes."""
    cells = [{"cell_type": "markdown", "metadata": {}, "source": sources[0]}]
    for source in sources[1:]:
        lines = source.splitlines(True)  # as JupyterLab writes it
        cells.append({"cell_type": "code", "metadata": {}, "source": lines, "outputs": list(outputs)})
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


FIRST = notebook("# 4. Warp reduce", "a = 1\nb = 2")
SECOND = notebook("# 4. Warp reduce", "a = 1\nb = 3")
MINE = notebook("# 4. Warp reduce", "a = 1\nb = 2  # mine")


def files(home):
    found = [file for file in home.rglob("*") if file.is_file() and copies.KEPT not in file.parts]
    return {file.relative_to(home).as_posix(): file.read_bytes() for file in found}


def test_a_copy_that_was_only_run_is_renewed(tmp_path):
    copies.renew(tmp_path, {CHAPTER: FIRST})
    printed = {"output_type": "stream", "name": "stdout", "text": "3"}
    # And an empty cell.
    ran = json.loads(notebook("# 4. Warp reduce", "a = 1\nb = 2", "", outputs=[printed]))
    (tmp_path / CHAPTER).write_text(json.dumps(ran))
    copies.renew(tmp_path, {CHAPTER: FIRST})
    # The same text again takes no outputs away.
    assert json.loads((tmp_path / CHAPTER).read_text()) == ran
    copies.renew(tmp_path, {CHAPTER: SECOND})
    assert files(tmp_path) == {CHAPTER: SECOND}


def test_a_changed_copy_stays_and_the_books_text_stands_beside_it(tmp_path):
    copies.renew(tmp_path, {CHAPTER: FIRST})
    (tmp_path / CHAPTER).write_bytes(MINE)
    copies.renew(tmp_path, {CHAPTER: FIRST})
    assert files(tmp_path) == {CHAPTER: MINE, BESIDE: FIRST}
    copies.renew(tmp_path, {CHAPTER: SECOND})
    assert files(tmp_path) == {CHAPTER: MINE, BESIDE: SECOND}


def test_what_a_reader_writes_into_the_books_text_stays_too(tmp_path):
    copies.renew(tmp_path, {CHAPTER: FIRST})
    (tmp_path / CHAPTER).write_bytes(MINE)
    copies.renew(tmp_path, {CHAPTER: FIRST})
    scribbled = notebook("# 4. Warp reduce", "also mine")
    (tmp_path / BESIDE).write_bytes(scribbled)
    copies.renew(tmp_path, {CHAPTER: SECOND})
    second = "notebooks/04-warp-reduce.book-2.ipynb"
    assert files(tmp_path) == {CHAPTER: MINE, BESIDE: scribbled, second: SECOND}


def test_a_copy_set_back_to_the_books_text_is_the_books_again(tmp_path):
    copies.renew(tmp_path, {CHAPTER: FIRST})
    (tmp_path / CHAPTER).write_bytes(MINE)
    copies.renew(tmp_path, {CHAPTER: FIRST})
    (tmp_path / CHAPTER).unlink()  # as the first page says
    copies.renew(tmp_path, {CHAPTER: FIRST})
    assert files(tmp_path) == {CHAPTER: FIRST}
    (tmp_path / CHAPTER).write_bytes(SECOND)  # taken from the next release by hand
    copies.renew(tmp_path, {CHAPTER: SECOND})
    assert files(tmp_path) == {CHAPTER: SECOND}


def test_a_chapter_that_the_book_drops_goes_only_where_the_reader_left_it_alone(tmp_path):
    other = "notebooks/05-block-reduce.ipynb"
    copies.renew(tmp_path, {CHAPTER: FIRST, other: FIRST})
    (tmp_path / CHAPTER).write_bytes(MINE)
    own = tmp_path / "notebooks/own.ipynb"
    own.write_bytes(MINE)
    renamed = "notebooks/04-warps.ipynb"
    for _ in range(2):
        assert copies.renew(tmp_path, {renamed: SECOND}) == [CHAPTER]
        assert files(tmp_path) == {CHAPTER: MINE, renamed: SECOND, "notebooks/own.ipynb": MINE}


@pytest.mark.parametrize("content", [b"", b"{", b'{"cells": 3}', b"\xff\xfe"])
def test_a_copy_that_is_no_notebook_any_more_is_the_readers(tmp_path, content):
    copies.renew(tmp_path, {CHAPTER: FIRST})
    (tmp_path / CHAPTER).write_bytes(content)
    copies.renew(tmp_path, {CHAPTER: SECOND})
    assert files(tmp_path) == {CHAPTER: content, BESIDE: SECOND}


@pytest.mark.parametrize("record", [None, b"", b"[]", b'{"made": 1}'])
def test_nothing_is_lost_with_the_record(tmp_path, record):
    copies.renew(tmp_path, {CHAPTER: FIRST})
    (tmp_path / CHAPTER).write_bytes(MINE)
    file = tmp_path / copies.KEPT / copies.RECORD
    file.unlink() if record is None else file.write_bytes(record)
    copies.renew(tmp_path, {CHAPTER: SECOND})
    assert files(tmp_path) == {CHAPTER: MINE, BESIDE: SECOND}


def test_metadata_of_the_book_reaches_an_untouched_copy(tmp_path):
    copies.renew(tmp_path, {CHAPTER: FIRST})
    folded = notebook("# 4. Warp reduce", "a = 1\nb = 2", kernelspec={"name": "python3"})
    copies.renew(tmp_path, {CHAPTER: folded})
    assert files(tmp_path) == {CHAPTER: folded}


def test_the_first_page_lists_every_copy_with_a_link():
    lab = "labs/butterfly/butterfly.ipynb"
    book = {CHAPTER: FIRST, lab: notebook("# Lab: the second largest"), "book/glossary.md": b"# Glossary\n"}
    page = first_page.page(book, [], "It runs.")
    links = f"[4. Warp reduce]({CHAPTER})", f"[The second largest]({lab})", "[Glossary](book/glossary.md)"
    assert all(link in page for link in links) and "It runs." in page and "no longer has" not in page
    gone = "notebooks/gone.ipynb"
    assert f"you changed them, so they stay:\n\n- [{gone}]({gone})\n" in first_page.page(book, [gone], "")


def test_the_copies_are_the_whole_book_and_its_links_hold(tmp_path, monkeypatch, root):
    monkeypatch.delenv("QUACK_TUTORIAL_PROGRESS", raising=False)
    pytest.importorskip("jupytext", reason="jupytext is not installed, which the labs' notebooks are written with")
    assert cli.main(["lab", "--copies", "--work", str(tmp_path)]) == 0
    found = files(tmp_path)
    assert {f"notebooks/{file.name}" for file in (root / "notebooks").glob("*.ipynb")} < set(found)
    assert {f"labs/{file.parent.name}/{file.parent.name}.ipynb" for file in (root / "labs").glob("*/lab.py")} < set(
        found
    )
    assert not [name for name, content in found.items() if b"BEGIN SOLUTION" in content]
    assert "book/trust.ipynb" in found and b"Cells compute what this page shows" in found["book/trust.ipynb"]
    assert b"(../book/trust.ipynb)" in found["notebooks/04-warp-reduce.ipynb"]
    for name, words in {"setup": b"make lab EXTRAS=book,test", "help": b"cff-version"}.items():
        assert words in found[f"book/{name}.md"] and b"<a " not in found[f"book/{name}.md"]
    if importlib.util.find_spec("ipykernel"):
        # What its kernel says of itself, or a notebook would count as changed once opened.
        metadata = json.loads(found["notebooks/04-warp-reduce.ipynb"])["metadata"]
        assert metadata["language_info"]["version"] == platform.python_version()
        assert metadata["kernelspec"]["display_name"] == "Python 3 (ipykernel)"
    links = 0
    for path, content in found.items():
        if path.startswith(".book/"):
            continue
        text = content.decode()
        if path.endswith(".ipynb"):
            cells = json.loads(text)["cells"]
            text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] != "code")
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "code", text, flags=re.DOTALL | re.MULTILINE)
        assert not re.search(r"^---$|^\(.*\)=$|^(```|:::)\{|\]\(\)|\[\]\(", text, re.MULTILINE), path
        headings = {line.lstrip("#").strip().replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
        for address in re.findall(r"\]\(([^)\s]+)\)", text):
            if address.startswith("#"):
                assert address[1:] in headings, (path, address)
            elif not address.startswith("http"):
                assert os.path.normpath(os.path.join(os.path.dirname(path), address)) in found, (path, address)
                links += 1
    assert links > 150


# Starting JupyterLab --------------------------------------------------------------------------------------------------


def test_root_is_allowed_only_to_root(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    words = command.options(tmp_path, "127.0.0.1", 8888, browser=True)
    assert "--allow-root" not in words and "--ServerApp.ip=127.0.0.1" in words
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--allow-root" in command.options(tmp_path, "127.0.0.1", 8888, browser=True)


def test_kernels_and_terminals_find_this_environments_commands_first():
    found = command.environment({"PATH": "/usr/bin", "JUPYTER_CONFIG_PATH": "/theirs"})
    first, *others = found["PATH"].split(os.pathsep)
    assert first == os.path.dirname(command.sys.executable) and others == ["/usr/bin"]
    names = [os.path.basename(folder) for folder in found["JUPYTER_CONFIG_PATH"].split(os.pathsep)]
    assert names == ["config", "theirs"]


def test_jupyterlab_reads_the_settings(monkeypatch, tmp_path):
    """No news and no menus of nbgrader, as the server answers the browser."""
    settings = pytest.importorskip("jupyterlab_server.settings_utils", reason="JupyterLab is not installed")
    from jupyterlab_server.config import get_page_config

    monkeypatch.setenv("JUPYTER_CONFIG_PATH", command.environment({})["JUPYTER_CONFIG_PATH"])
    assert "@jupyter/nbgrader" in get_page_config([str(tmp_path)])["disabledExtensions"]
    overrides, error = settings._get_overrides(str(tmp_path))
    assert not error and overrides["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    # Else "model not found" when reopened.
    assert overrides["@jupyter-widgets/jupyterlab-manager:plugin"] == {"saveState": True}


def test_a_taken_port_is_named_and_the_next_one_found(capsys, monkeypatch, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert command.free_port("127.0.0.1", port) is None
        monkeypatch.setattr(command, "FIRST_PORT", port)
        assert command.free_port("127.0.0.1", None) > port
        monkeypatch.setattr(command, "find_spec", lambda name: True)
        monkeypatch.setattr(command, "prepare", lambda home: None)
        assert cli.main(["lab", "--port", str(port), "--work", str(tmp_path)]) == 2
    assert f"lab: port {port} is taken: name another one" in capsys.readouterr().err
    for words, at in {"--port 99999": "127.0.0.1, port 99999", "--ip 300.1.1.1": "300.1.1.1"}.items():
        assert cli.main(["lab", *words.split(), "--work", str(tmp_path)]) == 2
        assert f"lab: nothing can listen on {at} (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("known", "container", "opens"),
    [
        ({"DISPLAY": ":0"}, False, True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, False, False),
        ({"DISPLAY": ":0"}, True, False),
        ({}, False, False),
    ],
)
def test_a_browser_is_opened_only_where_there_is_a_screen(monkeypatch, known, container, opens):
    monkeypatch.setattr(command.sys, "platform", "linux")
    monkeypatch.setattr(command, "in_container", lambda: container)
    assert command.has_browser(known) is opens


def test_over_ssh_the_tunnels_line_is_printed_with_the_address(monkeypatch, tmp_path):
    monkeypatch.setattr(command.getpass, "getuser", lambda: "ada")
    known = {"SSH_CONNECTION": "10.0.0.2 50000 192.0.2.7 22"}
    lines = command.told(tmp_path, "127.0.0.1", 8891, "secret", False, known).splitlines()
    assert "JupyterLab: http://127.0.0.1:8891/lab/tree/start.md?token=secret" in lines
    assert "    ssh -N -L 8891:127.0.0.1:8891 ada@192.0.2.7" in lines
    assert "ssh -N" not in command.told(tmp_path, "127.0.0.1", 8891, "secret", True, known)
    assert "whoever reaches this machine" in command.told(tmp_path, "0.0.0.0", 8891, "secret", True, known)


def test_what_is_in_the_way_of_the_lab_is_said_in_one_sentence(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "jupyterlab" else True)
    for words, parts in (
        (["--work", str(tmp_path)], ("JupyterLab is not installed", "[jupyter]")),
        (["--copies", "--work", str(tmp_path / "file")], ("--work FOLDER", str(tmp_path / "file"))),
        ([], ("the notebooks are in the repository",)),
    ):
        if not words:
            monkeypatch.setattr(command, "ROOT", tmp_path)  # no clone
        assert cli.main(["lab", *words]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and all(part in said for part in parts)


def test_the_server_serves_the_first_page(tmp_path):
    """The real JupyterLab: our options are ones that it has, and it reads our settings."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    pytest.importorskip("jupytext", reason="jupytext is not installed")
    port = command.free_port("127.0.0.1", None)
    words = ["lab", "--work", str(tmp_path / "my work"), "--port", str(port), "--no-browser"]
    server = subprocess.Popen(
        [sys.executable, "-m", "quack_tutorial.cli", *words],
        env=os.environ | {"JUPYTER_TOKEN": "secret"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        address = f"http://127.0.0.1:{port}"

        def ask(path):
            request = urllib.request.Request(address + path, headers={"Authorization": "token secret"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read().decode()

        for _ in range(300):
            try:
                ask("/api/status")
                break
            except OSError:
                assert server.poll() is None, server.stdout.read()
                time.sleep(0.2)
        assert "/lab/tree/start.md" in urllib.request.urlopen(f"{address}/?token=secret", timeout=30).url
        page = json.loads(ask("/api/contents/start.md?type=file"))["content"]
        assert "](notebooks/00-ten-minute-win.ipynb)" in page
    finally:
        server.terminate()
        server.communicate(timeout=30)
