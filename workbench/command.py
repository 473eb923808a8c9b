"""`quack-tutorial lab`: the book's notebooks in JupyterLab, as copies that are the reader's own.

It listens on 127.0.0.1 alone, as root too (what one is on a rented GPU); `--ip` asks for another address. Where no browser can be
opened, over ssh or in a container, it prints the line that brings the port to the reader's own machine.
"""

from __future__ import annotations

import errno
import getpass
import json
import os
import re
import secrets
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from quack_tutorial import machine
from quack_tutorial.above import brought

from . import copies, first_page, myst

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Path(__file__).with_name("config")
WORK = "work"
FIRST_PORT, PORTS = 8888, 50


def add_arguments(parser) -> None:
    parser.add_argument("--port", type=int, help=f"default: the first free one from {FIRST_PORT} on")
    parser.add_argument("--ip", default="127.0.0.1", help="the address to listen on; 0.0.0.0 is all of the machine's")
    parser.add_argument("--no-browser", action="store_true", help="open none, and print the tunnel's line")
    parser.add_argument(
        "--work", type=Path, default=ROOT / WORK, help="the folder of your copies (default: %(default)s)"
    )
    parser.add_argument("--copies", action="store_true", help="bring the copies up to date and start nothing")


class Refused(Exception):
    """Why JupyterLab is not started, and what to do about it."""


def run(args) -> int:
    """Start JupyterLab and stay until it ends; returns the exit status."""
    try:
        return start(args)
    except Refused as why:
        print(f"lab: {why}", file=sys.stderr)
        return 2


def start(args) -> int:
    """As `run`; a `Refused` where it cannot be."""
    if not (ROOT / "notebooks").is_dir():
        raise Refused("the notebooks are in the repository: clone it and type make lab there")
    if not args.copies and any(find_spec(module) is None for module in ("jupyterlab", "jupytext")):
        install = f"{machine.pip_command()} install --editable '{ROOT}[jupyter]'"
        raise Refused(f"JupyterLab is not installed in this environment: {install}.")
    try:
        prepare(args.work)
    except OSError as error:
        why = f"your copies of the notebooks cannot be written to {args.work} ({machine.reason(error)})"
        raise Refused(f"{why}: name a folder of yours: quack-tutorial lab --work FOLDER") from error
    if args.copies:
        print(f"your copies are in {args.work}; {first_page.NAME} lists them")
        return 0
    try:
        port = free_port(args.ip, args.port)
    except (OSError, OverflowError) as error:
        at = f"{args.ip}, port {args.port}" if args.port else args.ip
        why = f"nothing can listen on {at} ({machine.reason(error)})"
        raise Refused(f"{why}: name an address of this machine and a free port") from error
    if port is None:
        taken = f"port {args.port}" if args.port else f"every port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1}"
        raise Refused(f"{taken} is taken: name another one: make lab PORT=9000, or quack-tutorial lab --port 9000")
    token = os.environ.setdefault("JUPYTER_TOKEN", secrets.token_hex(24))
    browser = not args.no_browser and has_browser(os.environ)
    os.environ.update(environment(os.environ))
    # Of the make that started this; terminals type it too.
    for name in "MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES PORT".split():
        os.environ.pop(name, None)
    print(told(args.work, args.ip, port, token, browser, os.environ), flush=True)
    from jupyterlab.labapp import LabApp

    LabApp.launch_instance(options(args.work.resolve(), args.ip, port, browser))
    return 0


def prepare(home: Path) -> None:
    """Bring the copies in the folder up to date with the book, and write the first page."""
    book = texts()
    gone = copies.renew(home, book)
    (home / first_page.NAME).write_text(first_page.page(book, gone, this_machine()), encoding="utf-8")


RUN_IT = "*Cells compute what this page shows: Run, Run All Cells.*"
ON_THE_SITE = """\
# {title}

A script makes this page, in the book as web pages: type `make book`, then `make serve`, and open `book/{name}.html` there.
"""
# Pages that list what the first page lists.
IN_ITS_PLACE = {"intro": "start.md", "labs": "start.md"}


def texts() -> dict[str, bytes]:
    """{path in the workbench: content} of the book: chapters, the students' copies of the labs, pages to look things up in."""
    found = {f"notebooks/{file.name}": file.read_bytes() for file in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    if find_spec("jupytext") is None:  # which turns MyST into notebooks
        return found | {f"book/{file.name}": file.read_bytes() for file in sorted((ROOT / "book").glob("*.md"))}
    for more in brought("notebooks"):  # the labs
        found |= more()
    found |= _pages()
    kernel = _kernel()
    for path, content in found.items():
        text = _links_in_copies(content.decode(), found)
        if kernel and path.endswith(".ipynb"):
            notebook = json.loads(text)
            notebook["metadata"] |= kernel
            text = myst.dumps(notebook)
        found[path] = text.encode()
    return found


def _kernel() -> dict:
    """What JupyterLab writes into a notebook when this environment's kernel starts: a copy that has it opens as saved."""
    try:
        from ipykernel.ipkernel import IPythonKernel
        from ipykernel.kernelspec import get_kernel_dict
    except ImportError:
        return {}
    kernel = {"display_name": get_kernel_dict()["display_name"], "language": "python", "name": "python3"}
    return {"kernelspec": kernel, "language_info": IPythonKernel.language_info}


def _links_in_copies(text: str, found: dict[str, bytes]) -> str:
    """A copy's text with links to what stands among the copies for a page of the book: a notebook, or the first page."""

    def linked(link) -> str:
        folder, name, below = link.groups()
        if name in IN_ITS_PLACE:
            return f"](../{IN_ITS_PLACE[name]})"
        if below:  # a page that is made from docstrings
            return f"]({folder}{name}.md)"
        return f"]({folder}{name}.ipynb)" if f"book/{name}.ipynb" in found else link[0]

    return re.sub(r"\]\((\.\./book/|)([\w-]+)(/[\w-]+)?\.(?:md|ipynb)\)", linked, text)


def _pages() -> dict[str, bytes]:
    """The book's other pages: with cells a notebook, else Markdown."""
    found, folder = {}, ROOT / "book"
    for file in sorted(file for file in folder.glob("*.md") if file.stem not in IN_ITS_PLACE):
        text = file.read_text(encoding="utf-8")
        try:
            if file.with_suffix("").is_dir():
                raise ValueError(f"{file.name} leads to pages that are made from the package's docstrings")
            if myst.is_notebook(text):
                notebook = myst.reader(text, file.stem, folder)
                title, _, rest = notebook.cells[0].source.partition("\n")
                notebook.cells[0].source = f"{title}\n\n{RUN_IT}\n{rest}"
                found[f"book/{file.stem}.ipynb"] = myst.dumps(notebook).encode()
                continue
            plain = myst.page(text, folder)
        except ValueError:  # it has no form outside of the site
            plain = ON_THE_SITE.format(title=f"\n{text}".partition("\n# ")[2].partition("\n")[0], name=file.stem)
        found[f"book/{file.name}"] = plain.encode()
    return found


def this_machine() -> str:
    """What works on this machine, and the command that mends what does not, as Markdown."""
    found = machine.detect()
    mend = machine.mending_command(found)
    return machine.what_works(found) + (f" Type `{mend}`." if mend else "")


# JupyterLab ------------------------------------------------------------------------------------------------------------


def options(home: Path, ip: str, port: int, browser: bool) -> list[str]:
    words = [
        f"--ServerApp.root_dir={home}",
        f"--ServerApp.ip={ip}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.open_browser={browser}",
        f"--LabApp.default_url=/lab/tree/{first_page.NAME}",
        f"--LabApp.workspaces_dir={home / copies.KEPT / 'workspaces'}",  # of these copies, not of all that one has
        "--LabApp.extension_manager=readonly",
        "--KernelManager.transport_encryption=auto",  # without it each kernel warns in the terminal
        "--LabApp.log_level=ERROR",
        "--ServerApp.log_level=ERROR",
    ]
    # Without this, where its output is no terminal, a login shell, which sets PATH anew.
    if os.name == "posix":
        shell = os.environ.get("SHELL") or shutil.which("bash") or "sh"
        words.append(f"--ServerApp.terminado_settings=shell_command={shell}")
    return [*words, "--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else words


def environment(known) -> dict[str, str]:
    """What kernels and terminals find: this environment's commands, its kernel and the book's settings first."""
    return {
        "PATH": _first(Path(sys.executable).parent, known.get("PATH", "")),
        "JUPYTER_CONFIG_PATH": _first(CONFIG, known.get("JUPYTER_CONFIG_PATH", "")),
        "JUPYTER_PREFER_ENV_PATH": "1",
        machine.IN_LAB: first_page.NAME,
    }


def _first(*parts) -> str:
    return os.pathsep.join(str(part) for part in parts if str(part))


def free_port(ip: str, wanted: int | None) -> int | None:
    """The port that was asked for, or the first free one; None where it is taken, OSError where there is none such."""
    for port in [wanted] if wanted else range(FIRST_PORT, FIRST_PORT + PORTS):
        with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            try:
                probe.bind((ip, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port
    return None


def has_browser(known) -> bool:
    """Whether a browser can be opened here: not over ssh, in a container, or without a screen."""
    if known.get("SSH_CONNECTION") or in_container():
        return False
    return sys.platform in ("darwin", "win32") or bool(known.get("DISPLAY") or known.get("WAYLAND_DISPLAY"))


def in_container(root: Path = Path("/")) -> bool:
    return (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()


def told(home: Path, ip: str, port: int, token: str, browser: bool, known) -> str:
    """What is printed before the server starts."""
    first = f"http://127.0.0.1:{port}/lab/tree/{first_page.NAME}?token={token}"
    lines = [f"Your copies of the notebooks are in {home}.", f"JupyterLab: {first}"]
    if not browser:
        lines.append("From another machine, type this there and then open the address above in its browser:")
        lines.append(f"    ssh -N -L {port}:127.0.0.1:{port} {getpass.getuser()}@{host(known)}")
        lines.append("(with the -p and -i of the ssh that you logged in with, if it had them)")
    if in_container() and ip == "127.0.0.1":
        lines.append(
            "In a container without ssh: publish the port, start with IP=0.0.0.0, or let your editor forward it."
        )
    if ip != "127.0.0.1":
        lines.append(f"It listens on {ip}: whoever reaches this machine and has the token can run commands on it.")
    return "\n".join([*lines, "Ctrl-C, twice, stops it."])


def host(known) -> str:
    """How a reader's machine calls this one: the address that their ssh reached, else the name that this machine has."""
    server = known.get("SSH_CONNECTION", "").split()[2:3]
    return server[0] if server else socket.gethostname()
