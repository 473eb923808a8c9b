"""Writes _static/section-index.js: every section of the book with its text, for the search and for what links show.

    bookSections({pages: [[address, title], ...], sections: [[page, ids, title, text], ...]})

`ids` are the section's names in the address, the first being its own; a page's first section has none. A function or class of the
reference is a section like others. A blank line separates paragraphs, backticks stand around code. It is a script because a page
that was opened as a file may load scripts, but no data.

Not covered: outputs of cells, and what a page folds as a solution.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from folds import part
from sphinx import addnodes

LEFT_OUT = (nodes.raw, nodes.comment, nodes.title, nodes.image, nodes.target, nodes.system_message)
BLOCKS = (nodes.paragraph, nodes.term, nodes.literal_block)
BLOCKS += (nodes.rubric, nodes.caption, nodes.entry, nodes.math_block)


def sections_of(doctree):
    """(ids, title, text) of each section of a page, from the top."""
    for section in doctree.findall(nodes.section):
        title = next(iter(section.findall(nodes.title)), None)
        if title is None:
            continue
        own = [child for child in section.children if not isinstance(child, nodes.section)]
        yield section["ids"], words(title), "\n\n".join(text for child in own for text in blocks(child))
        for entry in (desc for child in own for desc in child.findall(addnodes.desc)):
            signature, content = entry[0], entry[-1]
            # Beside the signature, because a link shows one paragraph.
            first, *more = [*blocks(content), ""]
            text = [f"`{signature.astext()}` {first}".strip(), *filter(None, more)]
            yield signature["ids"], signature.get("fullname", ""), "\n\n".join(text)


def blocks(node):
    """The paragraphs and the code below a node, as texts."""
    if (
        isinstance(node, (*LEFT_OUT, addnodes.desc))
        or node.get("nb_element") == "cell_code_output"
        or node.get("hide_mode") == "all"
    ):
        return
    if part(node, "source") is not None and node.get("hide_mode"):
        return
    if "qt-small" in node.get("classes", ()):  # helpers below a listing, which stand on many pages
        return
    if isinstance(node, BLOCKS):
        text = node.astext() if isinstance(node, nodes.literal_block) else words(node)
        if text.strip():
            yield text.strip()
        return
    for child in node.children:
        if isinstance(child, nodes.Element):
            yield from blocks(child)


def words(node):
    """A paragraph's text in one line, with code in backticks."""
    if isinstance(node, nodes.literal):
        return f"`{node.astext()}`"
    if isinstance(node, nodes.Text) or not node.children:
        return "" if isinstance(node, LEFT_OUT) else node.astext().replace("\n", " ")
    inside = (child for child in node.children if not isinstance(child, LEFT_OUT))
    return re.sub(r"\s+", " ", "".join(words(child) for child in inside))


def write_index(app, error):
    if error or app.builder.format != "html":
        return
    pages, sections = [], []
    order = [app.config.root_doc, *app.env.toctree_includes.get(app.config.root_doc, [])]
    for name in sorted(app.env.all_docs, key=lambda n: (n not in order, order.index(n) if n in order else 0, n)):
        for number, (ids, title, text) in enumerate(sections_of(app.env.get_doctree(name))):
            if number == 0:
                pages.append([app.builder.get_target_uri(name), title.replace("`", "")])
            sections.append([len(pages) - 1, "" if number == 0 else " ".join(ids), title.replace("`", ""), text])
    data = json.dumps({"pages": pages, "sections": sections}, ensure_ascii=False, separators=(",", ":"))
    Path(app.outdir, "_static/section-index.js").write_text(f"bookSections({data})\n", encoding="utf-8")


def setup(app):
    app.connect("build-finished", write_index)
    app.add_js_file("sections.js")
    app.add_js_file("search.js")
    app.add_js_file("popover.js")
    app.add_css_file("search.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
