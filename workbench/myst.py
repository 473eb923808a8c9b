"""From a notebook's MyST source to its cells, and to the notebook that a reader opens.

`cells` gives the source's own, one for one: what the published page runs, by their numbers. `reader` writes them in forms that
JupyterLab, Notebook 7, VS Code and Colab all render:

| in the source                              | in the reader's notebook                                               |
|--------------------------------------------|------------------------------------------------------------------------|
| `literalinclude`                           | the file, the lines, and the code itself; folded, what it is built from |
| admonition of class `dropdown`             | `<details>`                                                            |
| another admonition                         | a quotation with a bold title                                          |
| link to a notebook's `.md`                 | link to its `.ipynb`                                                   |
| `(label)=` above a heading, and links to it | links to the heading, by its words                                    |
| link without text                          | the title of the page that it leads to                                 |
| `only not ...`; another `only`             | its text; nothing                                                      |
| cell tagged `hide-cell`                    | text, `<details>`: *Run All* leaves the reader's own code in its place |
| cell tagged `hide-input` or `remove-input` | a cell whose code is collapsed                                         |
| cell tagged `hide-output`                  | a cell whose output scrolls in a box                                   |

Each cell has an id that depends only on the notebook's name and the cell's place in the source, so that the same source gives the
same bytes, and a cell is found again in whatever is made of it. jupytext reads the source; without it there is an ImportError.

`page` does the same with a page that has no cells. `with_helpers` adds the fold below a listing, here and on the published page.

Not covered: other directives, roles, HTML that a script of the site fills, and options of `literalinclude` beside `pyobject`,
`start-at`, `end-before` and `caption`. They are a ValueError, because they would stand in the notebook as they are written.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
from pathlib import Path

FENCE = r"^(?P<fence>`{3,}|:{3,})"
REST = r"\} *(?P<argument>.*)\n(?P<options>(?:^:.*\n)*)(?P<body>(?s:.*?))^(?P=fence)$"
DIRECTIVE = re.compile(FENCE + r"\{(?P<name>[\w-]+)" + REST, re.MULTILINE)
# Also one inside another directive.
LISTING = re.compile(FENCE + r"\{literalinclude" + REST, re.MULTILINE)
ROLE = re.compile(r"\{[a-z][\w:-]*\}`")
FOR_A_SCRIPT = re.compile(r"<div [^>]*id=")
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<address>[\w./-]*)(?:#(?P<label>[\w-]+))?\)")
LABEL = re.compile(r"^\((?P<label>[\w.-]+)\)=\n+(?=#+ +(?P<heading>.+)$)", re.MULTILINE)
FRONT = re.compile(r"\A---\n.*?\n---\n\s*", re.DOTALL)
ON_THE_SITE = re.compile(r'<a href="\.\./[^"]*">(.*?)</a>')
FOLD = "<details>\n<summary>{label}</summary>\n\n{body}\n\n</details>"
SOLUTION = "To run it, paste it into a cell.\n\n```python\n{code}\n```"


def cell_id(name: str, place: int | str) -> str:
    """An id for a cell: 12 hexadecimal digits from the notebook's name and the cell's place in it."""
    return hashlib.sha256(f"{name}/{place}".encode()).hexdigest()[:12]


def cells(text: str, name: str):
    """The notebook `name` as its source has it, without outputs and without jupytext's metadata."""
    import jupytext

    notebook = jupytext.reads(text, fmt="md:myst")
    notebook.metadata.pop("jupytext", None)
    for place, cell in enumerate(notebook.cells):
        cell["id"] = cell_id(name, place)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def reader(text: str, name: str, folder: Path):
    """The notebook `name` as a reader opens it; what the source includes is found from `folder`. A ValueError for other MyST."""
    notebook = cells(with_helpers(text, folder, name), name)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, folder)
        else:
            _fold(cell)
    return notebook


def dumps(notebook) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def page(text: str, folder: Path) -> str:
    """A page without cells as Markdown that any viewer shows."""
    return ON_THE_SITE.sub(r"\1", plain(FRONT.sub("", text), folder))


def is_notebook(text: str) -> bool:
    """Whether a source has cells: its front matter names a kernel."""
    front = FRONT.match(text)
    return bool(front) and "\nkernelspec:" in front[0]


def with_helpers(text: str, folder: Path, name: str = "") -> str:
    """The source of page `name` with a fold below each listing from `kernels/`: the functions and methods of that folder that it
    calls.

    What the page lists itself, or has folded already, is left out; so is what a helper calls in its turn. Of what a chapter before
    it had, the fold says in which.
    """
    listings = list(LISTING.finditer(text))
    places = {id(one): _object_of(one, folder) for one in listings}
    seen, before = {place for place in places.values() if place}, _shown_before(folder, name)

    def below(listing):
        file, name = places.get(id(listing)) or (None, "")
        wanted = [place for place in _helpers(file, name) if place not in seen] if file else []
        seen.update(wanted)
        if not wanted:
            return listing[0]
        called = ", ".join(f"`{name.rpartition('.')[2]}`" for _, name in wanted)
        lines = [f"{listing[0]}\n\n:::{{admonition}} What it is built from: {called}", ":class: dropdown qt-small", ""]
        known = {}  # file of a chapter -> the names that it has shown
        for place in wanted:
            if place in before:
                known.setdefault(before[place], []).append(f"`{place[1]}`")
        if known:
            told = (f"{', '.join(names)} in [Chapter {int(page[:2])}]({page})" for page, names in known.items())
            lines += [f"Shown before: {'; '.join(told)}.", ""]
        for file_of, name_of in (place for place in wanted if place not in before):
            address = Path(listing["argument"].strip()).parent / os.path.relpath(file_of, file.parent)
            lines += [f"```{{literalinclude}} {os.path.normpath(address)}", f":pyobject: {name_of}", "```", ""]
        return "\n".join([*lines[:-1], ":::"])

    pieces, at = [], 0
    for listing in listings:
        pieces += [text[at : listing.start()], below(listing)]
        at = listing.end()
    return "".join([*pieces, text[at:]])


@functools.cache
def _shown_before(folder: Path, name: str) -> dict[tuple[Path, str], str]:
    """{what chapters before page `name` list, or fold below a listing: the file of the first that does}"""
    found = {}
    for page in sorted(folder.glob("[0-9][0-9]-*.md")):
        if page.stem >= name:
            break
        for listing in LISTING.finditer(page.read_text(encoding="utf-8")):
            if place := _object_of(listing, folder):
                for shown in (place, *_helpers(*place)):
                    found.setdefault(shown, page.name)
    return found


def _object_of(listing, folder: Path) -> tuple[Path, str] | None:
    """The file and the name of what a listing from the kernels' folder shows; None for any other listing."""
    file = (folder / listing["argument"].strip()).resolve()
    options = dict(re.findall(r"^:([\w-]+): *(.*)$", listing["options"], re.MULTILINE))
    return (file, options["pyobject"]) if "pyobject" in options and "kernels" in file.parts else None


def _helpers(file: Path, name: str) -> list[tuple[Path, str]]:
    """Where the functions and methods stand that an object of a file calls: (file, name), a class's `__init__` first."""
    owner, _, method = name.rpartition(".")
    found = _found(file, owner or name)
    called = _found(file, name)
    if called is None:  # inherited, or not there
        return []
    nodes = [node for node in ast.walk(called) if isinstance(node, ast.Call)]
    wanted = []
    if isinstance(found, ast.ClassDef) and owner:
        methods = (node.func for node in nodes if isinstance(node.func, ast.Attribute))
        of_self = [method.attr for method in methods if ast.unparse(method.value) == "self"]
        wanted = [_method(file, owner, name) for name in ("__init__", "__call__", *of_self) if name != method]
    plain_calls = [node.func.id for node in nodes if isinstance(node.func, ast.Name)]
    wanted += [_function(file, name) for name in plain_calls]
    return list(dict.fromkeys(place for place in wanted if place and place != (file, name)))


@functools.cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _found(file: Path, name: str):
    """The class, function or method of that name that a file defines; None where it does not."""
    return _named(_tree(file), name)


def _named(node, name: str):
    """The class, function or method of that name, "Softmax.kernel", in a module's tree; None where there is none."""
    for part in name.split("."):
        node = next((one for one in getattr(node, "body", ()) if getattr(one, "name", None) == part), None)
    return node


def _imported(file: Path, name: str) -> Path | None:
    """The file of the kernels' folder from which a file imports a name."""
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == name for one in node.names):
            start = (
                file.parents[node.level - 1] if node.level else file.parents[file.parts[::-1].index("quack_tutorial")]
            )
            source = start.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            return source if "kernels" in source.parts and source.is_file() else None
    return None


def _function(file: Path, name: str) -> tuple[Path, str] | None:
    """Where a function of the kernels' folder stands that a file defines or imports."""
    home = file if _found(file, name) else _imported(file, name)
    return (home, name) if home and isinstance(_found(home, name), ast.FunctionDef) else None


def _method(file: Path, owner: str, name: str) -> tuple[Path, str] | None:
    """Where a class has a method, or the first of its bases that does."""
    if _found(file, f"{owner}.{name}"):
        return file, f"{owner}.{name}"
    found = _found(file, owner)
    if found is None:
        home = _imported(file, owner)
        return _method(home, owner, name) if home else None
    bases = (base.id for base in found.bases if isinstance(base, ast.Name))
    return next(filter(None, (_method(file, base, name) for base in bases)), None)


def plain(text: str, folder: Path) -> str:
    """A text without MyST's directives and labels, and with links that open notebooks."""
    text = DIRECTIVE.sub(lambda found: _written_out(found, folder), text)
    left = re.search(FENCE + r"\{.*", text, re.MULTILINE) or ROLE.search(text) or FOR_A_SCRIPT.search(text)
    if left:
        raise ValueError(f"a notebook has no plain form for {left[0]!r}")
    # JupyterLab finds a heading by its words, with hyphens for blanks.
    anchors = {found["label"]: found["heading"].strip().replace(" ", "-") for found in LABEL.finditer(text)}
    return LINK.sub(lambda link: _linked(link, anchors, folder), LABEL.sub("", text))


def _linked(link, anchors: dict[str, str], folder: Path) -> str:
    """A link in a form that opens a notebook, or finds a heading; any other as it is."""
    words, address, label = link.group("text", "address", "label")
    if address in anchors or (not address and label in anchors):
        return f"[{words}](#{anchors[address or label]})"
    if not address.endswith(".md") or not (file := folder / address).is_file():
        return link[0]
    source = file.read_text(encoding="utf-8")
    words = words or next(line[2:].strip() for line in source.splitlines() if line.startswith("# "))
    # A page of book/ has cells too, and is a notebook only in a reader's copies.
    if is_notebook(source) and ("/" not in address or file.parent.name == "notebooks"):
        address = f"{address.removesuffix('.md')}.ipynb"
    return f"[{words}]({address})"


def _written_out(directive, folder: Path) -> str:
    name, title = directive["name"], directive["argument"].strip()
    options = dict(re.findall(r"^:([\w-]+): *(.*)$", directive["options"], re.MULTILINE))
    options.pop("caption", None)
    if name == "literalinclude":
        return _included(title, options, folder)
    if name == "only":  # what is said of the site alone, or of a page that is not on it
        return plain(directive["body"].strip(), folder) if title.startswith("not ") else ""
    if name == "citation":
        return f"```yaml\n{(folder.parent / 'CITATION.cff').read_text(encoding='utf-8')}```"
    if name != "admonition":
        return directive[0]
    body = plain(directive["body"].strip(), folder)
    if "dropdown" in options.get("class", "").split():
        return FOLD.format(label=title.replace("`", ""), body=body)
    return "\n".join(f"> {line}".rstrip() for line in f"**{title}**\n\n{body}".splitlines())


def _included(address: str, options: dict, folder: Path) -> str:
    """The lines that a `literalinclude` chooses, under their file and numbers."""
    path = (folder / address).resolve()
    source = path.read_text(encoding="utf-8")
    first, last = _chosen(source, options, address)
    shown = path.relative_to(folder.resolve().parent).as_posix()
    code = "\n".join(source.splitlines()[first - 1 : last]).rstrip()
    last = first + code.count("\n")
    return f"`{shown}`, lines {first} to {last}:\n\n```python\n{code}\n```"


def _chosen(source: str, options: dict, address: str) -> tuple[int, int]:
    """The first and the last line, counted from 1."""
    lines = source.splitlines()
    if set(options) == {"pyobject"}:
        node = _named(ast.parse(source), options["pyobject"])
        return min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.end_lineno
    if not set(options) <= {"start-at", "end-before"}:
        raise ValueError(f"a notebook has no plain form for the options {sorted(options)} of {address}")
    words = {name: _unquoted(text) for name, text in options.items()}
    for option, words_of in words.items():
        if not any(words_of in line for line in lines):
            raise ValueError(f"{address} has no line with {words_of!r}, which {option} names")
    first = next(i for i, line in enumerate(lines) if words.get("start-at", "") in line)
    ends = (i for i, line in enumerate(lines) if i > first and words["end-before"] in line)
    return first + 1, next(ends) if "end-before" in words else len(lines)


def _unquoted(text: str) -> str:
    """An option's value: YAML, so that quotation marks around it are not its own."""
    return json.loads(text) if text.startswith('"') else text


def _fold(cell) -> None:
    """Fold what the cell's tags hide. A whole cell becomes text: JupyterLab opens a collapsed output once it is run."""
    tags = cell.metadata.get("tags", ())
    label = cell.metadata.get("mystnb", {}).get("code_prompt_show", "Solution")
    if "hide-cell" in tags:
        cell.source = FOLD.format(label=label, body=SOLUTION.format(code=cell.source))
        cell.cell_type = "markdown"
        del cell["outputs"], cell["execution_count"]
    if {"hide-input", "remove-input"} & set(tags):
        cell.metadata["jupyter"] = {"source_hidden": True}
    if "hide-output" in tags:
        cell.metadata["scrolled"] = True
