"""What a page shows only when its reader asks: answers to predictions, solutions, hints, long code.

Everything folded is a native `details`, which works without scripts. A paragraph with a bold **Predict.** stands before a cell

    guess = {"shuffles a warp": None, "words come from: L1 | L2": None}

which says what is asked. On the page a form takes its place, with a field for each key; one with ` | ` offers a choice. What
answers it, from the next output to the end of the section or the next prediction, is folded. In there a cell
`qt.answer(guess, 5, "L1")` has the values, computed from that output: the page takes it out and keeps what it says for the form
(static/predict.js), with the first sentence after the output as the reason. A bold **Predict for later.** is answered by the next
cell tagged `answers-later`, and has a name of its own: `first_guess`.

Not covered: builders other than HTML, which show everything.
"""

import ast
import json
import re
from html import escape, unescape
from itertools import count

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from quack_tutorial import hardware

logger = logging.getLogger(__name__)

# Of what hide-cell, hide-input, hide-output fold.
LABELS = {"all": "Solution", "input": "Code", "output": "Output"}
FORM = """<form class="qt-predict" data-predict="{n}" id="predict-{n}{later}" aria-label="{title}, {n}" hidden>
<b>{title}</b> {fields}<button type="submit">{button}</button></form>"""
FIELD = "<label>{asked} {entry}</label> "
OF_CARD = '<div class="qt-card qt-of-{card}"><p>On {name}:</p>{values}</div>'
NOT_MEASURED = '<p class="qt-note-of qt-of-{card}">Not measured on {name} yet: these are the values of {other}.</p>'
ANSWER = re.compile(r'class="qt-answer" data-answer="([^"]*)"')
# What an exercise prints before it is solved, and a lab's check before its cell is filled in.
UNSOLVED = re.compile(r"^(\S+ )?not yet\b|this cell is not filled in yet", re.MULTILINE)
SENTENCE = re.compile(r"(?<!\.)[.!?]\)?(?=\s|$)")


class Fold(nodes.Element):
    """A `details` element: `label` is its summary, `prediction` the number of the prediction that `answer` (JSON) answers;
    `of_cards` has the answers where they differ from card to card (see cards.py)."""


def visit_fold(self, node):
    answers = ""
    if "prediction" in node:
        answers = f' data-predict="{node["prediction"]}" data-answer="{escape(node["answer"])}"'
        for card, answer in node.get("of_cards", {}).items():
            answers += f' data-answer-{card}="{escape(answer)}"'
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
    """Gives each prediction its form, and folds what answers it."""

    default_priority = 190
    formats = ("html",)

    def run(self, **kwargs):
        numbers, later = count(1), []
        for paragraph in [p for p in self.document.findall(nodes.paragraph) if predicts(p)]:
            n, place = next(numbers), paragraph.parent
            at = place.index(paragraph) + 1
            name, asked = self.take_guess(place, at)
            if not asked:
                logger.warning("no cell `guess = {...}` follows this prediction", location=paragraph)
            if "later" in predicts(paragraph):
                later.append((n, name, asked))
                place.insert(at, html(form(n, asked, button="Keep it for later")))
                continue
            place.insert(at, html(form(n, asked)))
            if not self.fold(place, at + 1, n, name, paragraph):
                logger.warning("no output in its section answers this prediction", location=paragraph)
        cells = [c for c in self.document.findall(nodes.container) if "tag_answers-later" in c["classes"]]
        if len(cells) != len(later):
            logger.warning(
                f"{len(later)} predictions for later, {len(cells)} cells that answer them", location=self.document
            )
        for (n, name, asked), cell in zip(later, cells):
            place = cell.parent
            place.insert(place.index(cell), html(form(n, asked, title="You predicted at the start", later="-again")))
            self.fold(place, place.index(cell), n, name, cell)

    def take_guess(self, place, at):
        """Remove the cell that says what is asked at this place: its name, and the keys of its dict."""
        source = part(place[at], "source") if at < len(place) else None
        name, asked = guess_of(source.astext()) if source is not None else ("", ())
        if asked:
            place.pop(at)
        return name, asked

    def fold(self, place, at, n, name, asker):
        """Fold from the first output from here on to the section's end or the next prediction; False without output."""
        while at < len(place) and not predicts(place[at]) and part(place[at], "output") is None:
            at += 1
        if at == len(place) or predicts(place[at]):
            return False
        output, cell = part(place[at], "output"), nodes.container(classes=["cell"])
        place[at].remove(output)
        cell += output
        at, rest, answers = at + 1, [], {}
        while at < len(place) and not isinstance(place[at], nodes.section) and not predicts(place[at]):
            node = place.pop(at)
            source = part(node, "source")
            if source is not None and re.search(rf"^qt\.answer\(\s*{name}\b", source.astext(), re.MULTILINE):
                answers = answers_in(part(node, "output"))
            else:
                rest.append(node)
        if not answers:
            logger.warning(f"no cell `qt.answer({name}, ...)` judges this prediction", location=asker)
        answer = next(iter(answers.values()), "")
        of_cards = {card: of for card, of in answers.items() if of} if len(answers) > 1 else {}
        fold = Fold(label="Answer", prediction=n, answer=answer, of_cards=of_cards, classes=["qt-answered"])
        lists = "".join(of_card(card, of, answers) for card, of in answers.items()) if of_cards else values(answer)
        told = nodes.container("", html(lists), classes=["qt-verdicts"])
        told += reason(rest)
        fold += [told, cell, *rest]
        place.insert(at, fold)
        return True


def answers_in(output):
    """{card: answer as JSON} of what `qt.answer` says in an output (see cards.py), by "" the one that all cards have; the
    page's own card comes first, and one without the measurement has ""."""
    found = {}
    for place in output.children if output is not None else ():
        cards = [name.removeprefix("qt-of-") for name in place.get("classes", ()) if name.startswith("qt-of-")]
        texts = (ANSWER.search(raw.astext()) for raw in place.findall(nodes.raw))
        found |= dict.fromkeys(cards or [""], next((unescape(answer[1]) for answer in texts if answer), ""))
    return found if any(found.values()) else {}


def of_card(card, answer, answers):
    """The values of one card, where another has others."""
    if answer:
        return OF_CARD.format(card=card, name=hardware.called(card), values=values(answer))
    other = hardware.called(next(iter(answers)))
    return NOT_MEASURED.format(card=card, name=hardware.called(card), other=other)


def guess_of(source):
    """The name and the keys of `guess = {"sectors": None}`; two nothings of any other cell."""
    try:
        (line,) = ast.parse(source).body
        name, asked = line.targets[0].id, ast.literal_eval(line.value)
    except (SyntaxError, ValueError, AttributeError):
        return "", ()
    fits = name.endswith("guess") and isinstance(asked, dict) and all(value is None for value in asked.values())
    return (name, tuple(asked)) if fits else ("", ())


def values(answer):
    """The list of what was asked, with its values: all that a page without a guess says."""
    fields = json.loads(answer)["fields"] if answer else ()
    lines = (": ".join(filter(None, (field["asked"], field["shown"]))) for field in fields)
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def reason(rest):
    """The first sentence of the first paragraph among these nodes: what explains the answer, to be shown beside the verdict."""
    paragraph = next((node for node in rest if isinstance(node, nodes.paragraph)), None)
    if paragraph is None:
        return []
    said = nodes.paragraph()
    for node in paragraph:
        end = SENTENCE.search(node) if isinstance(node, nodes.Text) else None
        said += nodes.Text(node[: end.end()]) if end else node.deepcopy()
        if end:
            break
    for node in said.findall(nodes.Element):
        node["ids"] = []
    return [said]


class OpenWithPicture(SphinxPostTransform):
    """Shows the picture of the cell tagged opening before its code, and folds the chapter's other first cells in one line."""

    default_priority = 192  # after the cells have their numbers
    formats = ("html",)

    def run(self, **kwargs):
        for cell in [c for c in self.document.findall(nodes.container) if "tag_opening" in c["classes"]]:
            place, output = cell.parent, part(cell, "output")
            code = Fold(label="Code of the picture", classes=["qt-small"])
            source = part(cell, "source")
            cell.replace(source, [])
            code += source
            cell += code
            if output is not None and place.index(cell) + 1 < len(place):
                told = place[place.index(cell) + 1]
                if isinstance(told, nodes.paragraph):
                    told["classes"].append("qt-told-of")
            first = [child for child in place.children if part(child, "source") is not None and child is not cell]
            if not first:
                continue
            setup = Fold(label="Setup: the imports, and where kernels run", classes=["qt-small", "qt-setup"])
            place.replace(first[-1], setup)
            for child in first[:-1]:
                place.remove(child)
            setup += first
            # Where it ran is told beside the setup, not above the question.
            for told in [child for child in place.children if "qt-ran" in child.astext()[:40]]:
                place.remove(told)
                place.insert(place.index(setup) + 1, told)


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
            part(cell, "source").append(
                html('<span class="qt-number" data-cell="{0}">cell {0}</span>'.format(cell["exec_count"]))
            )
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
            fold = Fold(label=note[0].astext(), classes=[name for name in note["classes"] if name.startswith("qt-")])
            fold += note[1:]
            note.replace_self(fold)


def form(n, asked, button="Reveal", title="Your prediction", later=""):
    fields = "".join(FIELD.format(asked=escape(words), entry=entry) for words, entry in map(field, asked))
    return FORM.format(n=n, later=later, title=title, fields=fields, button=button)


def field(words):
    """What one key asks, and the element to answer it in: a choice where it has ` | `, else a line."""
    if " | " not in words:
        return words, '<input type="text" autocomplete="off">'
    asked, _, choices = words.rpartition(": ")
    options = "".join(f"<option>{escape(choice.strip())}</option>" for choice in choices.split(" | "))
    return asked, f'<select><option value="">choose</option>{options}</select>'


def offer_answering(app, pagename, templatename, context, doctree):
    """Give a page with predictions, and the one that lists them, what makes their forms work."""
    for marked, script in (('class="qt-predict"', "predict.js"), ('id="qt-path"', "path.js")):
        if marked in context.get("body", ""):
            app.add_js_file(script)


def setup(app):
    app.add_node(Fold, html=(visit_fold, depart_fold))
    app.add_post_transform(FoldPredictions)
    app.add_post_transform(FoldCells)
    app.add_post_transform(OpenWithPicture)
    app.connect("html-page-context", offer_answering)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
