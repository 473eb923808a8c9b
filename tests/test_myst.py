"""What becomes of a chapter's MyST in the notebook that a reader opens."""

import ast
import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from workbench import myst

pytest.importorskip("jupytext", reason="jupytext is not installed, which reads the chapters")

HEAD = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n\n"


def cells(text, folder=Path("nowhere")):
    return myst.reader(HEAD + text, "x", folder).cells


def made(file):
    """The parts of a file, each a title and MyST behind "In:", with the cells that a notebook has of them."""
    for title, source in re.findall(r"^# (.*)\nIn:\n((?:    .*\n|\n)+)", file.read_text("utf-8"), re.M):
        yield from (f"# {title}", "In:", *source.rstrip("\n").split("\n"))
        for cell in cells(dedent(source), file.parent.parent / "notebooks"):
            yield f"Out: {cell.cell_type} {cell.metadata or ''}".rstrip()
            yield from (f"> {line}".rstrip() for line in cell.source.split("\n"))


def test_a_notebook_s_cells_of_small_pages(snapshot):
    file = Path(__file__).with_name("pages.txt")
    snapshot(made(file), file)


def test_links_lead_to_notebooks_and_pages(tmp_path):
    book, chapters = tmp_path / "book", tmp_path / "notebooks"
    for file, text in {
        chapters / "03.md": HEAD,
        book / "trust.md": HEAD + "# Trust\n",
        book / "words.md": "# Words\n",
    }.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    (cell,) = cells(
        "[a](03.md#vectors) [b](../book/trust.md) [](../book/words.md) [c](https://example.org/x.md)", chapters
    )
    wanted = "[a](03.ipynb) [b](../book/trust.md) [Words](../book/words.md) [c](https://example.org/x.md)"
    assert cell.source == wanted
    text = "# Page\n\n[](trust.md), [a](../notebooks/03.md), [b](words.md), [c](#on), [d](on).\n\n(on)=\n## And on\n"
    links = "[Trust](trust.ipynb), [a](../notebooks/03.ipynb), [b](words.md), [c](#And-on), [d](#And-on)"
    assert myst.page("---\nx: 1\n---\n" + text, book) == f"# Page\n\n{links}.\n\n## And on\n"


def test_a_solution_is_text_and_keeps_its_id():
    source = "```{code-cell} ipython3\n:tags: [hide-cell]\n\nx = 1\n```"
    (cell,), (code,) = cells(source), myst.cells(HEAD + source, "x").cells
    assert (cell.cell_type, code.cell_type) == ("markdown", "code") and cell["id"] == code["id"]
    assert cell.source.startswith("<details>\n<summary>Solution</summary>\n\n")
    assert "\n\n```python\nx = 1\n```\n\n</details>" in cell.source
    assert "outputs" not in cell


TEXTS = ["```{figure} a.png\n```", "See {doc}`x`."]
TEXTS += ['<div id="list"></div>', "```{literalinclude} a.py\n:lines: 1\n```"]


@pytest.mark.parametrize("text", TEXTS)
def test_what_has_no_plain_form_is_refused(tmp_path, text):
    (tmp_path / "a.py").write_text("x = 1\n", "utf-8")
    with pytest.raises(ValueError, match="no plain form"):
        cells(text, tmp_path)


def test_every_listing_is_the_pages(root):
    """Each `literalinclude` of the chapters, as Sphinx reads it, under the lines that it has in its file."""
    code = pytest.importorskip("sphinx.directives.code", reason="Sphinx is not installed")
    config, folder, found = SimpleNamespace(source_encoding="utf-8"), root / "notebooks", 0
    for path in sorted(folder.glob("[0-9]*.md")):
        for listing in myst.DIRECTIVE.finditer(path.read_text("utf-8")):
            if listing["name"] != "literalinclude":
                continue
            found += 1
            options = dict(line[1:].split(": ", 1) for line in listing["options"].splitlines())
            options = {name: words.strip('"').replace("\\", "") for name, words in options.items()}
            file = folder / listing["argument"]
            wanted, _ = code.LiteralIncludeReader(str(file), options, config).read()
            given = myst.plain(listing[0], folder)
            name, first, last, body = re.fullmatch(
                r"`(.*)`, lines (\d+) to (\d+):\n\n```python\n(.*)\n```", given, re.DOTALL
            ).groups()
            assert body == wanted.rstrip()
            assert file.resolve() == (root / name).resolve()
            lines = file.read_text("utf-8").splitlines()
            assert lines[int(first) - 1 : int(last)] == body.splitlines()
    assert found >= 30


def test_no_sentence_is_hidden_by_a_percent_sign_that_begins_its_line(root):
    # MyST takes such a line for a comment; a cell may begin with one.
    texts = {
        file: file.read_text("utf-8")
        for folder in ("book", "notebooks", "labs")
        for file in (root / folder).rglob("*.md")
    }
    prose = {file: re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL) for file, text in texts.items()}
    assert len(prose) > 30 and not [file for file, text in prose.items() if re.search(r"^%", text, re.MULTILINE)]


def test_a_listing_of_a_kernel_has_a_fold_with_what_it_calls(tmp_path):
    kernels, chapters = tmp_path / "quack_tutorial/kernels", tmp_path / "notebooks"
    kernels.mkdir(parents=True)
    chapters.mkdir()
    (kernels / "reduce.py").write_text("def total(x):\n    return x\n\n\nLIMIT = 3\n", "utf-8")
    (kernels / "sums.py").write_text(
        "from quack_tutorial.kernels.reduce import LIMIT, total\n\n\n"
        "class Base:\n    def __init__(self, n):\n        self.n = n\n\n    def load(self, x):\n        return x\n\n\n"
        "class Sum(Base):\n    def kernel(self, x):\n        return total(self.load(x)) + min(LIMIT, self.n)\n",
        encoding="utf-8",
    )
    listing = "```{literalinclude} ../quack_tutorial/kernels/sums.py\n:pyobject: Sum.kernel\n```"
    text = myst.with_helpers(listing, chapters)
    assert text.startswith(f"{listing}\n\n:::{{admonition}} What it is built from: `__init__`, `load`, `total`\n")
    shown = [(one["argument"], one["options"].strip()) for one in myst.DIRECTIVE.finditer(text[len(listing) + 20 :])]
    assert shown == [
        ("../quack_tutorial/kernels/sums.py", ":pyobject: Base.__init__"),
        ("../quack_tutorial/kernels/sums.py", ":pyobject: Base.load"),
        ("../quack_tutorial/kernels/reduce.py", ":pyobject: total"),
    ]
    (cell,) = cells(listing, chapters)
    assert "<summary>What it is built from: __init__, load, total</summary>" in cell.source
    assert "LIMIT = 3" not in cell.source
    # What the page lists itself is not folded again.
    twice = myst.with_helpers(
        listing + "\n\n" + listing.replace("sums", "reduce").replace("Sum.kernel", "total"), chapters
    )
    assert "`__init__`, `load`\n" in twice and "`total`" not in twice
    # What an earlier chapter had is named with the chapter.
    (chapters / "04-sums.md").write_text(listing.replace("sums", "reduce").replace("Sum.kernel", "total"), "utf-8")
    later = myst.with_helpers(listing, chapters, "05-more")
    assert "Shown before: `total` in [Chapter 4](04-sums.md)." in later
    assert ":pyobject: total" not in later
    # A listing in a fold has its own inside it.
    (cell,) = cells(f"````{{admonition}} More\n:class: dropdown\n\n{listing}\n````", chapters)
    found = cell.source.index("<summary>More")
    assert found < cell.source.index("<summary>What it is built from: __init__, load, total")
    assert cell.source.count("</details>") == 2 and cell.source.endswith("</details>\n\n</details>")


def bound(source, everywhere):
    """The names that a cell's code binds, in its functions too or only outside of them."""
    found, inner = set(), (ast.FunctionDef, ast.ClassDef)
    nodes = list(ast.walk(ast.parse(source))) if everywhere else list(ast.parse(source).body)
    for node in nodes:
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, inner):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif not everywhere:
            nodes += ast.iter_child_nodes(node)
    return found


def test_no_cell_needs_what_only_a_solution_makes(root):
    for path in sorted((root / "notebooks").glob("[0-9]*.md")):
        text, made = path.read_text("utf-8"), set()
        every = myst.reader(text, path.stem, path.parent).cells
        ids = {cell["id"] for cell in every if cell.cell_type == "code"}
        code = [cell for cell in myst.cells(text, path.stem).cells if cell.cell_type == "code"]
        of_solutions = set().union(*(bound(cell.source, False) for cell in code if cell["id"] not in ids))
        for cell in code:
            if cell["id"] in ids:
                made |= bound(cell.source, True)
                every = ast.walk(ast.parse(cell.source))
                loaded = {node.id for node in every if isinstance(node, ast.Name)}
                assert not loaded & of_solutions - made, (path.name, cell.source)
