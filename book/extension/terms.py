"""Links the first use of each glossary word on a page to its place in book/glossary.md.

A word is a heading of the third level there; the italic line "Also: ..." below it holds what else people call it. Both are
found in paragraphs, not in headings, code or links. The first sentence of the definition is the link's tooltip.
"""

import re
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

GLOSSARY = "book/glossary"
TOO_COMMON = set(
    "word, tile, line of a cache, grid, host, phase, hang, guard, padding, identity, wave, request".split(", ")
)
ENTRY = re.compile(
    r"^### (?P<name>[^\n]+)\n(?:\*Also: (?P<also>.+?)\.\*\s)?(?P<text>.+?[.:])(?:\s|$)", re.MULTILINE | re.DOTALL
)


@cache
def entries(path):
    """{what a reader may meet: (name of the entry, first sentence)} of a glossary, in lower case."""
    found = {}
    for entry in ENTRY.finditer(Path(path).read_text(encoding="utf-8")):
        for word in (entry["name"], *(entry["also"] or "").replace("\n", " ").split(", ")):
            if word and word.lower() not in TOO_COMMON:
                found[word.lower()] = entry["name"], " ".join(entry["text"].split())
    return found


class LinkTerms(SphinxPostTransform):
    default_priority = 300
    formats = ("html",)

    def run(self, **kwargs):
        if self.env.docname in (GLOSSARY, self.env.config.root_doc):
            return
        known = entries(self.env.doc2path(GLOSSARY))
        pattern, seen = pattern_of(known), set()
        target = self.app.builder.get_relative_uri(self.env.docname, GLOSSARY)
        for text in [t for p in self.document.findall(nodes.paragraph) for t in p.findall(nodes.Text)]:
            if isinstance(text.parent, (nodes.paragraph, nodes.strong, nodes.emphasis)):
                pieces = list(linked(str(text), pattern, known, seen, target))
                if len(pieces) > 1:
                    text.parent.replace(text, pieces)


def pattern_of(known):
    """Finds any of the words, also in the plural, but not inside a longer one."""
    words = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    return re.compile(rf"(?<![\w.-])({words})(?:e?s)?(?![\w-])", re.IGNORECASE)


def linked(text, pattern, known, seen, target):
    """The text in pieces, a reference for each word that is new on the page."""
    at = 0
    for match in pattern.finditer(text):
        name, sentence = known[match[1].lower()]
        if name in seen:
            continue
        seen.add(name)
        yield nodes.Text(text[at : match.start()])
        uri = f"{target}#{nodes.make_id(name)}"
        yield nodes.reference("", match[0], refuri=uri, internal=True, reftitle=sentence, classes=["qt-term"])
        at = match.end()
    yield nodes.Text(text[at:])


def setup(app):
    app.add_post_transform(LinkTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
