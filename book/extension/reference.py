"""The reference: what Sphinx's autodoc needs beside its pages in book/reference, and the links from the chapters into it.

Docstrings are written as Markdown is: `code`, tables of pipes, indented code. autodoc takes reStructuredText, so they are
converted. The directive `commands` prints what each command of quack-tutorial says with --help, from its own parser. A chapter's
first `qt.launch`, in a sentence and in a cell's code, leads to its place in the reference, and so does every name there.
"""

import argparse
import re
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

import quack_tutorial
from quack_tutorial.cli import commands_of

HERE = Path(quack_tutorial.__file__).parent.parent  # on the machine where the book is built
COMMANDS_PAGE = "book/reference/commands"
CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"(?:qt\.)?(?P<name>(?:ops|figures|analysis)\.\w+|(?<=qt\.)\w+)\b")
COMMAND = re.compile(r"quack-tutorial (?P<name>[a-z]+)\b")
# `qt.simulate` as Pygments writes it; `figures.lanes` with or without `qt.` before it.
DOT = r'<span class="o">\.</span>'
THEN = rf'</span>{DOT}<span class="n">'
IN_CODE = re.compile(
    rf'(?<=<span class="n">)(?:qt{THEN})?(?P<room>ops|figures|analysis){THEN}(?P<name>\w+)(?=</span>)'
    rf'|(?<=<span class="n">)qt{THEN}(?P<own>\w+)(?=</span>)'
)
CELL = re.compile(r'<div class="cell_input.*?</pre>', re.DOTALL)


def convert(app, what, name, thing, options, lines):
    """A docstring's lines as reStructuredText, in place; a value's would be those of its type."""
    lines[:] = [] if what == "data" else as_rst(lines)


def as_rst(lines):
    made, code, table = [], False, []
    for line in [*lines, ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        if table:
            made += [*as_table(table), ""]
            table = []
        is_code = line.startswith("    ")
        if is_code and not code:
            made += ["", "::", ""]
        if line.strip():
            code = is_code
        made.append(line if is_code or not line.strip() else as_text(line))
        if line.strip() and not is_code and code:
            made.append("")
    return made


def as_table(rows):
    """A table of pipes as a list-table."""
    head, _, *body = cells_of(rows)
    width = max(map(len, [head, *body]))
    made = ["", ".. list-table::", f"   :header-rows: {int(any(head))}", ""]
    for row in [head, *body] if any(head) else body:
        made += [
            f"   {'* -' if place == 0 else '  -'} {as_text(text)}"
            for place, text in enumerate([*row, *[""] * (width - len(row))])
        ]
    return made


def cells_of(rows):
    """The texts of a table row by row: parted below the pipes of its second line, or else where a pipe is not inside code."""
    ends = [place for place, letter in enumerate(rows[1]) if letter == "|"]
    for row in rows:
        if all(row[end : end + 1] == "|" for end in ends[:-1]):
            cells = [row[a + 1 : b] for a, b in zip(ends, [*ends[1:-1], len(row)])]
        else:
            hidden = CODE.sub(lambda code: code[0].replace("|", "\0"), row)
            cells = [cell.replace("\0", "|") for cell in hidden.strip().strip("|").split("|")]
        yield [cell.strip().removesuffix("|").strip() for cell in cells]


def as_text(text):
    """Code in double backticks, or as a reference where it is a name; nothing else has a meaning."""
    parts = CODE.split(text)
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = f":py:obj:`{part}`" if re.fullmatch(r"[A-Za-z_][\w.]*", part) else f"``{part}``"
            if re.match(r"\w", "".join(parts[place + 1 : place + 2])):
                parts[place] += "\\ "
        else:
            parts[place] = re.sub(r"([\\*|])|(?<=\w)(_)(?!\w)|(?<!\w)(_)(?=\w)", lambda m: "\\" + m[0], part)
    return "".join(parts)


class Commands(SphinxDirective):
    """A section a command, with what it says of itself."""

    def run(self):
        made = []
        for name, does, module in commands_of():
            section = nodes.section(
                "", nodes.title("", "", nodes.literal("", f"quack-tutorial {name}")), ids=[f"command-{name}"]
            )
            section["names"] = [f"command-{name}"]
            parser = argparse.ArgumentParser(f"quack-tutorial {name}", formatter_class=Wide)
            import_module(module).add_arguments(parser)
            section += nodes.paragraph("", f"{does[0].upper()}{does[1:]}.")
            text = parser.format_help().strip().replace(f"{HERE}/", "")
            section += nodes.literal_block(text, text, language="text")
            made.append(section)
        return made


class Wide(argparse.HelpFormatter):
    """The same lines wherever the book is built."""

    def __init__(self, prog):
        super().__init__(prog, width=92)


def places(app):
    """{what the chapters write: its address below the site's root}, of every documented name and command."""
    found = {f"quack-tutorial {name}": f"{COMMANDS_PAGE}.html#command-{name}" for name, _, _ in commands_of()}
    for name, entry in app.env.domaindata["py"]["objects"].items():
        if entry.docname.startswith("book/reference") and name.startswith(("quack_tutorial.", "cutesim.")):
            found[name.partition(".")[2]] = f"{entry.docname}.html#{entry.node_id}"
    return found


def is_chapter(name):
    return name.startswith(("notebooks/", "book/labs/"))


class LinkNames(SphinxPostTransform):
    """The first mention of each name in a chapter's sentences."""

    default_priority = 310
    formats = ("html",)

    def run(self, **kwargs):
        if not is_chapter(self.env.docname):
            return
        known, seen = places(self.app), set()
        up = "../" * self.env.docname.count("/")
        for code in list(self.document.findall(nodes.literal)):
            text = code.astext()
            call, command = CALL.match(text), COMMAND.match(text)
            name = command[0] if command else call["name"] if call else ""
            if name in known and name not in seen and isinstance(code.parent, nodes.paragraph):
                seen.add(name)
                code.replace_self(nodes.reference("", "", code.deepcopy(), refuri=up + known[name], internal=True))


def link_code(app, pagename, templatename, context, doctree):
    """The first mention of each name in a chapter's cells."""
    if doctree is None or not is_chapter(pagename):
        return
    known, seen, up = places(app), set(), "../" * pagename.count("/")

    def linked(match):
        name = f"{match['room']}.{match['name']}" if match["room"] else match["own"]
        if name not in known or name in seen:
            return match[0]
        seen.add(name)
        last = match["name"] or match["own"]
        return f'{match[0][: -len(last)]}<a class="qt-name reference internal" href="{up}{known[name]}">{last}</a>'

    context["body"] = CELL.sub(lambda cell: IN_CODE.sub(linked, cell[0]), context["body"])


def setup(app):
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("commands", Commands)
    app.add_post_transform(LinkNames)
    app.connect("autodoc-process-docstring", convert)
    app.connect("html-page-context", link_code, priority=460)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
