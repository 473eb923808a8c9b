"""What a page shows only when its reader asks: answers to predictions, solutions, hints, long code.

Everything folded is a native `details`, which works without scripts. A paragraph with a bold **Predict.** gets an input and
a button (book.js makes them work); what answers it, from the next output to the end of the section or the next prediction,
is folded. A cell `guess = None  # unit` between the two is for notebooks: on the page the input takes its place. A bold
**Predict for later.** is answered by the next cell tagged `answers-later`.

Not covered: builders other than HTML, which show everything.
"""

import re
from html import escape
from itertools import count

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)

LABELS = {"all": "Solution", "input": "Code", "output": "Output"}  # of what hide-cell, hide-input, hide-output fold
GUESS = re.compile(r"guess = [^#]*(?:# *(?P<unit>.*))?")
FORM = """<form class="qt-predict" data-predict="{n}" hidden>
<label>{label} <input type="text" autocomplete="off"></label> {unit}<button type="submit">{button}</button></form>"""
# What an exercise prints before it is solved, and a lab's check before its cell is filled in.
UNSOLVED = re.compile(r"^(\S+ )?not yet\b|this cell is not filled in yet", re.MULTILINE)
KEPT = '<p class="qt-predicted" data-predict="{n}" hidden></p>'


class Fold(nodes.Element):
    """A `details` element: `label` is its summary, `prediction` the number of the prediction that it answers."""


def visit_fold(self, node):
    answers = f' data-predict="{node["prediction"]}"' if "prediction" in node else ""
    classes = " ".join(["qt-fold", *node["classes"]])
    self.body.append(f'<details class="{classes}"{answers}><summary>{escape(node["label"])}</summary>\n')


def depart_fold(self, node):
    self.body.append("</details>\n")


def html(text):
    return nodes.raw("", text, format="html")


def part(node, name):
    """A code cell's source or output container, or None; also where a fold is around it."""
    if not isinstance(node, nodes.container) or node.get("nb_element") != "cell_code":
        return None
    return next((child for child in node.children if child.get("nb_element") == f"cell_code_{name}"), None)


def predicts(node):
    """The bold words of a paragraph that asks for a prediction, or None."""
    bold = node.findall(nodes.strong) if isinstance(node, nodes.paragraph) else ()
    return next((b.astext() for b in bold if b.astext().startswith("Predict")), None)


class FoldPredictions(SphinxPostTransform):
    """Gives each prediction its input, and folds what answers it."""

    default_priority = 190
    formats = ("html",)

    def run(self, **kwargs):
        numbers, later = count(1), []
        for paragraph in [p for p in self.document.findall(nodes.paragraph) if predicts(p)]:
            n, place = next(numbers), paragraph.parent
            at = place.index(paragraph) + 1
            unit = self.take_guess(place, at)
            if "later" in predicts(paragraph):
                later.append((n, unit, paragraph))
                place.insert(at, html(form(n, unit, "Keep it for later")))
                continue
            place.insert(at, html(form(n, unit)))
            if not self.fold(place, at + 1, n):
                logger.warning("no output in its section answers this prediction", location=paragraph)
        cells = [c for c in self.document.findall(nodes.container) if "tag_answers-later" in c["classes"]]
        if len(cells) != len(later):
            logger.warning(
                f"{len(later)} predictions for later, {len(cells)} cells that answer them", location=self.document
            )
        for (n, unit, _), cell in zip(later, cells):
            place = cell.parent
            place.insert(place.index(cell), html(form(n, unit, label="You predicted at the start")))
            self.fold(place, place.index(cell), n)

    def take_guess(self, place, at):
        """Remove the cell `guess = None  # unit` at this place, if there is one; its unit."""
        source = part(place[at], "source") if at < len(place) else None
        found = GUESS.fullmatch(source.astext().strip()) if source is not None else None
        if not found or part(place[at], "output"):
            return ""
        place.pop(at)
        return found["unit"] or ""

    def fold(self, place, at, n):
        """Fold from the first output from here on to the section's end or the next prediction; False without output."""
        while at < len(place) and not predicts(place[at]) and part(place[at], "output") is None:
            at += 1
        if at == len(place) or predicts(place[at]):
            return False
        output, cell = part(place[at], "output"), nodes.container(classes=["cell"])
        place[at].remove(output)
        cell += output
        answer = Fold(label="Answer", prediction=n, classes=["qt-answer"])
        answer += [html(KEPT.format(n=n)), cell]
        at += 1
        while at < len(place) and not isinstance(place[at], nodes.section) and not predicts(place[at]):
            answer += place.pop(at)
        place.insert(at, answer)
        return True


class FoldCells(SphinxPostTransform):
    """Folds what the tags hide-cell, hide-input and hide-output hide, and admonitions of the class dropdown.

    Beside that, each cell shows its number, by which a finding names it, and an exercise that is not solved yet shows no output.
    """

    default_priority = 191  # before MyST-NB's own at 199, which finds nothing left to do
    formats = ("html",)

    def run(self, **kwargs):
        for cell in [c for c in self.document.findall(nodes.container) if c.get("exec_count") and part(c, "source")]:
            output = part(cell, "output")
            if output is not None and (
                "# your line" in part(cell, "source").astext() or UNSOLVED.search(output.astext())
            ):
                cell.remove(output)
            part(cell, "source").append(html(f'<span class="qt-number">cell {cell["exec_count"]}</span>'))
        for cell in [c for c in self.document.findall(nodes.container) if c.get("hide_mode")]:
            mode = cell.attributes.pop("hide_mode")
            asked = cell["prompt_show"]
            fold = Fold(label=LABELS.get(mode, "Code") if "{type}" in asked else asked)
            hidden = cell.children[:] if mode == "all" else [part(cell, "output" if mode == "output" else "source")]
            if hidden and hidden[0] is not None:
                cell.replace(hidden[0], fold)
                fold += hidden
                cell.children = [child for child in cell.children if child is fold or child not in hidden]
        for note in [a for a in self.document.findall(nodes.admonition) if "dropdown" in a["classes"]]:
            fold = Fold(label=note[0].astext())
            fold += note[1:]
            note.replace_self(fold)


def form(n, unit, button="Reveal", label="Your prediction"):
    unit = f"<span>{escape(unit)}</span> " if unit else ""
    return FORM.format(n=n, label=label, unit=unit, button=button)


def setup(app):
    app.add_node(Fold, html=(visit_fold, depart_fold))
    app.add_post_transform(FoldPredictions)
    app.add_post_transform(FoldCells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
