"""The directive `chapters`: every chapter of _toc.yml with its question, its minutes and a picture that it draws itself.

All of it is read from the chapter: its title, its first paragraph, "takes about 40 minutes", "an hour", "two hours", and its first
figure, or that of the cell tagged `opening`. So a chapter needs nothing but its line in _toc.yml.

The directive `climb`: the versions of softmax as bars of their measured shares, each with the page that comes to it.

The templates climb.html and page.html are given every page by part, and how long the open one takes.
"""

import re
from html import escape

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from quack_tutorial import card as cards
from quack_tutorial import hardware, records
from quack_tutorial.notebook import recorded

MINUTES = re.compile(r"takes about (an hour and a half|an hour|two hours|\d+)")
HOURS = {"an hour": 60, "an hour and a half": 90, "two hours": 120}
PICTURE = re.compile(r'<svg [^>]*viewBox="[^"]*"[^>]*>.*?</svg>', re.DOTALL)
HEAT = re.compile(r'<table class="qt-heat">.*?</table>', re.DOTALL)
PLACE = re.compile(r'<td[^>]*?(?: style="background: ([^"]+)")?>')
THUMB = '<span class="qt-figure qt-thumb" aria-hidden="true">{}</span>'
CARD = """<li><a href="{link}">{picture}
<strong>{title}</strong> <small>{minutes}</small><span>{question}</span></a></li>
"""

LENGTHS = 4096, 131072
# (version of softmax, what it is, the page that comes to it)
CLIMB = (
    ("thread", "One thread a row", "notebooks/00-ten-minute-win"),
    ("warp", "32 threads a row", "notebooks/04-warp-reduce"),
    ("three-pass", "A block a row, which it reads three times", "notebooks/05-block-reduce"),
    ("online", "Maximum and sum in one pass", "notebooks/08-softmax"),
    ("vectors", "16 bytes at a time", "notebooks/08-softmax"),
    ("registers", "Read once, and kept in registers", "notebooks/05-block-reduce"),
    ("cluster", "A long row over several blocks", "notebooks/06-cluster-reduce"),
    ("what ships", "The best sizes of all these", "book/what-ships"),
)


class listing(nodes.General, nodes.Element):
    """Where a list goes; `of` is its directive."""


class Listing(SphinxDirective):
    def run(self):
        return [listing(of=self.name)]


class FillListings(SphinxPostTransform):
    """Writes each list where its directive stands; a method a directive."""

    default_priority = 5
    formats = ("html",)

    def run(self, **kwargs):
        for node in list(self.document.findall(listing)):
            node.replace_self(nodes.raw("", getattr(self, node["of"])(), format="html"))

    def chapters(self):
        names = [n for n in self.env.toctree_includes[self.env.docname] if n.startswith("notebooks/")]
        cards = "".join(CARD.format(**card(self.app, self.env.docname, name)) for name in names)
        return f'<ol class="qt-chapters">\n{cards}</ol>'

    def climb(self):
        """Softmax's versions in the order in which the book comes to them, with the share of a copy's speed that was measured."""
        own, *others = sorted(records.cards(), key=lambda name: (name != records.folder().name, name))
        html = f'<div class="qt-card qt-of-{own}">{self.climb_on(own)}</div>'
        for other in others:
            label = f"<summary>On {hardware.called(other)}</summary>"
            html += f'<details class="qt-fold qt-card qt-of-{other}">{label}{self.climb_on(other)}</details>'
        return html

    def climb_on(self, name):
        with cards.taken_for(name):
            found = [recorded("softmax", "float32", N=N, ladder=True) for N in LENGTHS]
            if not all(found):  # of a card that is recorded in part
                return f"<p>{escape(str(min(found, key=bool)))}</p>"
        rows = "".join(self.row(version, words, page, found) for version, words, page in CLIMB)
        return f'<ol class="qt-climb">\n{rows}</ol>\n<p class="qt-told-of">Measured: {escape(found[0].provenance)}</p>'

    def row(self, version, words, page, found):
        link = self.app.builder.get_relative_uri(self.env.docname, page)
        name = page.rpartition("/")[2]
        chapter = f"Chapter {int(name[:2])}" if name[:2].isdigit() else "What ships"
        bars = "".join(
            f'<span style="--qt-share:{100 * one[version].of_copy:.0f}"><i></i>{100 * one[version].of_copy:.0f}&nbsp;%</span>'
            for one in found
        )
        return f'<li><span>{words}</span><span class="qt-bars">{bars}</span><a href="{link}">{chapter}</a></li>\n'


def card(app, here, name):
    """What CARD wants to know of a chapter."""
    page = app.env.get_doctree(name)
    return {
        "link": app.builder.get_relative_uri(here, name),
        "title": escape(next(page.findall(nodes.title)).astext()),
        "question": escape(next(page.findall(nodes.paragraph)).astext().replace("\n", " ")),
        "minutes": minutes(page),
        "picture": THUMB.format(drawing) if (drawing := picture(page)) else "",
    }


def minutes(page):
    found = MINUTES.search(" ".join(p.astext().replace("\n", " ") for p in list(page.findall(nodes.paragraph))[:12]))
    return f"{HOURS.get(found[1], found[1])} minutes" if found else ""


def offer_climb(app, pagename, templatename, context, doctree):
    context |= {
        "site_map": app.env.external_site_map,
        "titles": app.env.titles,
        "minutes": doctree and minutes(doctree),
    }


def drawing(page):
    """The drawing of a page's first figure, or of its cell tagged `opening`; nothing where it draws none yet."""
    tagged = [cell for cell in page.findall(nodes.container) if "tag_opening" in cell["classes"]]
    texts = [raw.astext() for part in (tagged or [page]) for raw in part.findall(nodes.raw)]
    if table := next((table for text in texts if (table := HEAT.search(text))), None):
        return heat_map([PLACE.findall(row) for row in table[0].split("<tr>")[2:]])
    found = [PICTURE.search(text, text.index("qt-picture")) for text in texts if "qt-picture" in text]
    return next((svg[0] for svg in found if svg), "")  # a figure may be a table


def picture(page):
    """The same without its words, for a card."""
    svg = re.sub(r"<text.*?</text>|<style.*?</style>|<title.*?</title>", "", drawing(page), flags=re.DOTALL)
    svg = re.sub(r"</?a\b[^>]*>", "", svg)  # the card is a link itself
    return re.sub(r' (?:role|aria-label)="[^"]*"', "", svg)


def heat_map(rows):
    """The shades of a heat map's table as rectangles, row by row."""
    places = "".join(
        f'<rect x="{16 * x}" y="{9 * y}" width="15" height="8" rx="1" style="fill:{shade}"/>'
        for y, row in enumerate(rows)
        for x, shade in enumerate(row)
        if shade
    )
    return f'<svg viewBox="0 0 {16 * max(map(len, rows))} {9 * len(rows)}">{places}</svg>'


def setup(app):
    app.add_node(listing)
    for name in ("chapters", "climb"):
        app.add_directive(name, Listing)
    app.add_post_transform(FillListings)
    app.connect("html-page-context", offer_climb)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
