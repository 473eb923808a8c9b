"""Every recorded card on every page: what `workbench.other_cards` published stands beside a cell's output; one is shown.

What a cell gave on the book's own card is in `div.qt-card.qt-of-h100`, and what it gave on another in `details.qt-card.qt-of-h200`:
without scripts a reader has both, one folded. `static/cards.js` keeps the choice of a reader as `data-card` of the page's root, and
`cards.css`, written here, shows what belongs to it. Outputs that are alike on both stand once. A cell that has boxes of its own for
the cards gets no output of a run on a GPU (`on_gpu.py`), which read one card's records and would be a second box of its name.

Not covered: builders other than HTML, which show the book's own card.
"""

import json
import os
import re
from pathlib import Path

from docutils import nodes
from folds import Fold, html, part
from on_gpu import drawn
from sphinx.transforms.post_transforms import SphinxPostTransform

from quack_tutorial import card, hardware, records

EXTENSION = "workbench.other_cards"
MARK = re.compile(r'^<script type="application/json" class="qt-other-card">(.*)</script>$', re.DOTALL)
NOTE = """<p class="qt-note-of qt-of-{card}">The figures on this page are now those of {other}. The text explains those of {own},
unless it names another card or says that it holds for both; <a href="{differ}">this table</a> sets the two side by side.</p>"""
FIGURE = re.compile(r"\b(qt-[0-9a-f]{8})-\d+")
MISSING, REST = "Not measured on {other} yet.", "The rest was not measured on {other} yet."
SHOWN = """html[data-card="{card}"] .qt-card:not(.qt-of-{card}) {{ display: none; }}
html:not([data-card="{card}"]) .qt-note-of.qt-of-{card} {{ display: none; }}
"""


class ShowOtherCards(SphinxPostTransform):
    default_priority = 188  # before on_gpu.py adds to outputs, and folds.py moves them
    formats = ("html",)

    def run(self, **kwargs):
        here = {}  # the other cards that have something on this page -> the page's own
        for cell in [c for c in self.document.findall(nodes.container) if part(c, "output") is not None]:
            here |= show(part(cell, "output"))
            if not part(cell, "output").children:
                cell.remove(part(cell, "output"))
        title = self.document.next_node(nodes.title)
        if here and title is not None:
            differ = self.app.builder.get_relative_uri(self.env.docname, "book/what-ships") + "#two-cards"
            lead = title.parent.first_child_matching_class(nodes.paragraph) or 0
            for card, own in sorted(here.items()):
                other, own = hardware.called(card), hardware.called(own)
                title.parent.insert(lead + 1, html(NOTE.format(card=card, other=other, own=own, differ=differ)))


def show(output) -> dict:
    """Set what a cell gave for other cards beside its own output: {other card: the page's own} of those that differ."""
    found = []
    for node in [n for n in output.findall(nodes.raw) if MARK.match(n.astext())]:
        found.append(json.loads(MARK.match(node.astext())[1].replace("<\\/", "</")))
        holder = node
        while holder.parent is not output and len(holder.parent.children) == 1:
            holder = holder.parent
        holder.parent.remove(holder)
    own, here, alike = output.children[:], {}, []
    for other in found:
        fold = Fold(label=f"On {hardware.called(other['card'])}", classes=["qt-card", f"qt-of-{other['card']}"])
        fold += [drawn(*one) for piece in other.get("outputs", ()) for one in piece.items()]
        if "missing" in other:
            said_there = REST if other.get("outputs") else MISSING
            fold += nodes.paragraph("", said_there.format(other=hardware.called(other["card"])))
        elif shown(own) == shown([fold]):
            alike.append(other["card"])
            continue
        output += fold
        here[other["card"]] = other["here"]
    if here and own:
        for node in own:
            output.remove(node)
        output.insert(
            0, nodes.container("", *own, classes=["qt-card", *(f"qt-of-{card}" for card in (found[0]["here"], *alike))])
        )
    return here


def shown(places):
    """What is drawn in these nodes, and what is printed there, to be compared: a figure's number on its page is none of it."""
    pieces = [
        piece for place in places for piece in place.findall(lambda n: isinstance(n, (nodes.raw, nodes.literal_block)))
    ]
    drawings = [FIGURE.sub(r"\1", piece.astext()).strip() for piece in pieces if isinstance(piece, nodes.raw)]
    return drawings, "".join("".join(piece.astext().split()) for piece in pieces if not isinstance(piece, nodes.raw))


def write_style(app):
    """cards.css: what each choice of a card hides."""
    if app.builder.format == "html":
        file = Path(app.outdir, "_static/cards.css")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(SHOWN.format(card=card) for card in records.cards()), encoding="utf-8")


def run_for_others(app, config):
    """Have the kernels that run the chapters load `workbench.other_cards`, and none warn that it talks over TCP."""
    profile = Path(app.doctreedir, "ipython/profile_default")
    profile.mkdir(parents=True, exist_ok=True)
    settings = f'c.IPKernelApp.extensions = ["{EXTENSION}"]\nc.IPKernelApp.log_level = "ERROR"\n'
    (profile / "ipython_kernel_config.py").write_text(settings, encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(profile.parent)


def setup(app):
    app.connect("config-inited", run_for_others)
    app.connect("builder-inited", write_style)
    app.add_css_file("cards.css")
    names = sorted(records.cards(), key=lambda name: (name != card.BOOK, name))
    cards = json.dumps([[name, hardware.called(name).partition(" ")[2]] for name in names])
    app.add_js_file("cards.js", priority=100, **{"data-cards": cards})
    app.add_post_transform(ShowOtherCards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
