"""Writes notebooks/*.ipynb, which Colab, Binder and JupyterLab open, from their sources notebooks/*.md.

    python scripts/sync_notebooks.py [--check | --code TARGET] [FOLDER]

The .md is the source and always wins; edit it and run this again. `workbench/myst.py` says what becomes of what is
written there; the same source gives the same bytes. `--check` writes nothing and fails if a notebook differs from its source,
is missing, or has no source. A solution is text in a notebook; `--code` writes notebooks into another folder in which it is
still code, for ruff.

Where _config.yml names the repository, each notebook starts with one cell more than its source: it installs the package
on Colab and does nothing elsewhere.
"""

import argparse
import sys
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workbench import myst  # noqa: E402

COLAB_CELL = """\
# On Colab only: install the book's package.
import sys

if "google.colab" in sys.modules:
    %pip install --quiet "quack-tutorial @ git+{url}@{branch}"
"""


# An import that fails reaches none of the package's own sentences.
ELSEWHERE = (
    "\n\n*If the first cell finds no `quack_tutorial`, this kernel is not the book's: start JupyterLab with `make lab`, "
    "or choose the Python into which you installed the book (Kernel > Change Kernel).*"
)


def notebook_of(source, chapter, repository, folder=ROOT / "notebooks"):
    """The .ipynb text for a MyST source text in `folder`; `repository` is the mapping of that name in _config.yml."""
    notebook = myst.reader(source, chapter, folder)
    first = next((place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code"), 0)
    if first:
        notebook.cells[first - 1].source += ELSEWHERE
    if repository.get("url"):
        text = COLAB_CELL.format(url=repository["url"].rstrip("/"), branch=repository.get("branch", "main"))
        cell = nbformat.v4.new_code_cell(text.rstrip("\n"), metadata={"tags": ["remove-cell"]})
        cell["id"] = myst.cell_id(chapter, "colab")
        notebook.cells.insert(0, cell)
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def sources(folder):
    """(path, text) of every MyST notebook (a .md with a kernelspec) in `folder`."""
    for path in sorted(folder.glob("*.md")):
        source = path.read_text(encoding="utf-8")
        if "\nkernelspec:" in source.partition("\n---\n")[0]:
            yield path, source


def differences(folder, wanted):
    """One sentence for each notebook in `folder` that is not as `wanted`."""
    for path, text in wanted.items():
        if not path.exists():
            yield f"{path.name} is missing"
        elif path.read_text(encoding="utf-8") != text:
            yield f"{path.name} differs from {path.with_suffix('.md').name}"
    for path in sorted(set(folder.glob("*.ipynb")) - set(wanted)):
        yield f"{path.name} has no source {path.with_suffix('.md').name}"


def main(argv=None):
    """Write the notebooks, or with --check say which are not up to date; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "notebooks")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a notebook is not up to date")
    parser.add_argument("--code", type=Path, metavar="TARGET", help="write notebooks there in which solutions are code")
    args = parser.parse_args(argv)
    if args.code:
        args.code.mkdir(parents=True, exist_ok=True)
        for path, text in sources(args.folder):
            target = args.code / path.with_suffix(".ipynb").name
            target.write_text(myst.dumps(myst.cells(text, path.stem)), encoding="utf-8")
        return 0
    repository = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8")).get("repository", {})
    found = {path.with_suffix(".ipynb"): text for path, text in sources(args.folder)}
    wanted = {path: notebook_of(text, path.stem, repository, args.folder) for path, text in found.items()}
    wrong = list(differences(args.folder, wanted))
    if args.check:
        for sentence in wrong:
            print(f"{sentence}: run `make notebooks`", file=sys.stderr)
        return 1 if wrong else 0
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
    for path in set(args.folder.glob("*.ipynb")) - set(wanted):
        print(f"{path.name} has no source {path.with_suffix('.md').name}: remove it", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
