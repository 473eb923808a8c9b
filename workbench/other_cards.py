"""While a page is built, runs the cells whose output depends on the card for the other recorded cards, too.

An extension of IPython, which the book's build loads in each kernel (`book/extension/cards.py`). A cell depends on the card where
it asks `card` for the one that is selected, or reads a name that such a cell has bound. Once such a cell has run, it runs again for
each other card, on names of that card's own, and publishes what it gave there as JSON in a script element, for the page to show:

    {"here": "h100", "card": "h200", "outputs": [{"text": "..."}, {"text/html": "..."}]}

A cell that fails there also has {"missing": true}: what it needs was not measured on that card.

Not covered: what a cell changes in place, without binding a name, is changed once for each card.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import types
from contextlib import contextmanager, suppress
from functools import partial

from quack_tutorial import card, records
from quack_tutorial.compiler import global_names

MARK = '<script type="application/json" class="qt-other-card">{}</script>'
# The first that an output has is shown.
KINDS = ("text/html", "image/svg+xml", "image/png", "text/plain")


def load_ipython_extension(shell):
    """Have `shell` run each dependent cell for the other cards."""
    here = records.folder().name
    others = [_Names(name) for name in records.cards() if name != here]
    asked, drawn, names_before = 0, (), {}

    def before(info):
        nonlocal asked, drawn, names_before
        asked, drawn = card.times_asked(), _drawn_so_far(shell.user_ns)
        names_before = dict(shell.user_ns)

    def after(result):
        source = result.info.raw_cell
        if not result.success or not source.strip():
            return
        tree = ast.parse(source)
        for names in others:
            if card.times_asked() == asked and not names.concern(tree, shell.user_ns):
                continue
            found = names.run(shell, source, tree, drawn, names_before)
            text = json.dumps({"here": here, "card": names.name, **found}).replace("</", "<\\/")
            sys.stdout.flush()
            shell.display_pub.publish({"text/html": MARK.format(text), "text/plain": ""})

    shell.events.register("pre_run_cell", before)
    shell.events.register("post_run_cell", after)


class _Names:
    """The names that a chapter's cells have bound for another card, where they differ from the notebook's own."""

    def __init__(self, name):
        self.name, self.space, self.own = name, {}, set()

    def concern(self, tree, notebook) -> bool:
        """Whether a cell reads one of them, itself or through a function that does. One that it binds anew is no longer theirs."""
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        if read & (self.own | self.functions(notebook).keys()):
            return True
        self.own -= _bound(tree.body)
        return False

    def functions(self, notebook) -> dict:
        """The notebook's functions that read one of these names, as they read them here."""
        own, found = set(self.own), {}
        plain = {k: f for k, f in notebook.items() if isinstance(f, types.FunctionType) and f.__globals__ is notebook}
        while more := {k: f for k, f in plain.items() if k not in own and own.intersection(global_names(f.__code__))}:
            own |= more.keys()
            for k, f in more.items():
                found[k] = types.FunctionType(f.__code__, self.space, f.__name__, f.__defaults__, f.__closure__)
        return found

    def run(self, shell, source, tree, drawn, names_before) -> dict:
        """Run a cell for this card, on these names and those that the notebook had before it, with the random numbers that the
        notebook drew: {"outputs": [...]}, with "missing": True where it failed."""
        notebook, space, done = shell.user_ns, self.space, []
        space.update({k: value for k, value in names_before.items() if k not in self.own})
        space.update(self.functions(notebook))
        before = dict(space)
        after, found = _drawn_so_far(notebook), {"outputs": [], "missing": True}
        _draw_from(drawn)
        with suppress(Exception):  # whatever a cell says where a record is missing
            with card.taken_for(self.name), _caught(shell) as found["outputs"]:
                _execute(shell, source, tree, space, done)
            del found["missing"]
        _draw_from(after)  # what the notebook draws later does not depend on what was drawn here
        missing = _bound(tree.body) - _bound(done)
        for name in missing:
            space.pop(name, None)
        touched = _bound(done) | {k for k, value in space.items() if k not in before or before[k] is not value}
        self.own -= touched
        self.own |= missing | {k for k in touched if not _same(space.get(k), notebook.get(k))}
        return found


def _bound(statements) -> set:
    """The names that these statements bind by assignments and loops."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _same(a, b) -> bool:
    """Whether two names hold one thing, or equal numbers or words, also in tuples."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or (type(a) is type(b) and isinstance(a, (bool, int, float, str)) and a == b)


def _execute(shell, source, tree, space, done):
    """Run a cell's statements in `space`, noting those that are done, and show the value of the last as a notebook does."""
    name = shell.compile.cache(source, shell.execution_count, raw_code=source)
    for statement in tree.body:
        if statement is tree.body[-1] and isinstance(statement, ast.Expr) and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(statement.value), name, "eval"), space)
            if value is not None:
                shell.display_pub.publish(shell.display_formatter.format(value)[0])
        else:
            exec(compile(ast.Module([statement], []), name, "exec"), space)
        done.append(statement)


class _Pieces(io.TextIOBase):
    """What is printed and published, in its order."""

    def __init__(self):
        self.outputs = []

    def write(self, text):
        if self.outputs and "text" in self.outputs[-1]:
            self.outputs[-1]["text"] += text
        elif text:
            self.outputs.append({"text": text})
        return len(text)

    def publish(self, data, *args, **more):
        kind = next((kind for kind in KINDS if kind in data), None)
        if kind:
            self.outputs.append({kind: data[kind]})

    def clear_output(self, wait=False):
        self.outputs.clear()


@contextmanager
def _caught(shell):
    """The outputs that are given in here."""
    pieces, publisher, printed = _Pieces(), shell.display_pub, sys.stdout
    shell.display_pub, sys.stdout = pieces, pieces
    try:
        yield pieces.outputs
    finally:
        shell.display_pub, sys.stdout = publisher, printed


def _drawn_so_far(notebook) -> list:
    """Where each source of random numbers is: (what sets it, its state)."""
    import numpy as np

    generators = [value.bit_generator for value in notebook.values() if isinstance(value, np.random.Generator)]
    states = [(partial(setattr, bits, "state"), bits.state) for bits in generators]
    states.append((np.random.set_state, np.random.get_state()))
    torch = sys.modules.get("torch")
    if hasattr(torch, "get_rng_state"):
        states.append((torch.set_rng_state, torch.get_rng_state()))
    return states


def _draw_from(states):
    """Go back to where they were."""
    for set_state, state in states:
        set_state(state)
