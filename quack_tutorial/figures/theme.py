"""Colours of all figures, for light and dark pages: one accent for each role, and text of at least 4.5 : 1 on each.

| role | is                        | role | is                            |
|------|---------------------------|------|-------------------------------|
| `-`  | an empty place            | `a`  | the answer                    |
| `v`  | holds a value             | `p`  | waits                         |
| `r`  | read now                  | `f`  | at fault                      |
| `w`  | written now               | `i`  | idle: takes no part           |
| `h`  | not drawn                 | `0` to `7` | tints that tell threads apart |
"""

from __future__ import annotations

import re
from importlib.resources import files

# role: (light fill, light line, dark fill, dark line)
ROLES = {
    "-": ("#ffffff", "#c9ced6", "#171b21", "#414954"),
    "v": ("#eef0f3", "#b4bbc6", "#272d36", "#566070"),
    "r": ("#d3e4fd", "#2f6fd0", "#1a3a66", "#6ea6f5"),
    "w": ("#fde3c8", "#b3590b", "#553311", "#ec9d51"),
    "a": ("#d0ecd7", "#2b7a45", "#17452b", "#5fc487"),
    "p": ("#e8e0f7", "#7556b8", "#372b54", "#b49bee"),
    "f": ("#fdd9d9", "#bf303a", "#5a1e24", "#fa8189"),
    "i": ("#ffffff", "#d9dde3", "#171b21", "#333b45"),
    "0": ("#d3e4fd", "#8fb0e0", "#1d3d68", "#4d79b3"),
    "1": ("#fde3c8", "#dcae7b", "#553613", "#a97333"),
    "2": ("#d0ecd7", "#8bc29c", "#1a452c", "#4a9468"),
    "3": ("#f6dcee", "#d2a0c2", "#512a46", "#a76494"),
    "4": ("#fbf0b9", "#cdbb60", "#4a420f", "#97892f"),
    "5": ("#d5eef0", "#86bfc4", "#17444a", "#458f98"),
    "6": ("#e5dff8", "#b0a1dd", "#382e5a", "#8474bd"),
    "7": ("#e9e5df", "#bcb2a3", "#3d3832", "#80776b"),
}
LIGHT = {
    "ink": "#1f2430",
    "soft": "#59616d",
    "line": "#c9ced6",
    "paper": "#ffffff",
    "focus": "#1a56b8",
    "even": "#9fc1f3",
    "odd": "#7ba9ee",
    "code": "#f7f8fa",
    "string": "#0b6b74",
    "number": "#a03c8c",
}
DARK = {
    "ink": "#e8eaee",
    "soft": "#a9b1bc",
    "line": "#414954",
    "paper": "#171b21",
    "focus": "#8cb9fb",
    "even": "#2c5590",
    "odd": "#3a689f",
    "code": "#1b2028",
    "string": "#4fc3cd",
    "number": "#e48fd1",
}
# Lines of charts, by turns; each at least 3 : 1 on the paper. (light, dark)
SERIES = (
    ("#2f6fd0", "#6ea6f5"),
    ("#b3590b", "#ec9d51"),
    ("#2b7a45", "#5fc487"),
    ("#a03c8c", "#e48fd1"),
    ("#7556b8", "#b49bee"),
    ("#0f7c86", "#4fc3cd"),
    ("#8a6d00", "#d3b53b"),
    ("#bf303a", "#fa8189"),
)

DARK_PAGES = (
    'html[data-theme="dark"]',  # sphinx-book-theme
    'html[theme="dark"]',  # Colab
    'body[data-jp-theme-light="false"]',  # JupyterLab, Notebook 7
    'body[data-vscode-theme-kind$="dark"]',
    'body[data-vscode-theme-kind="vscode-high-contrast"]',
)
# Where the page names no theme of its own, the reader's system decides.
UNNAMED = "html:not([data-theme],[theme]) body:not([data-jp-theme-light],[data-vscode-theme-kind])"


def _properties(dark: bool) -> str:
    pairs = dict(DARK if dark else LIGHT)
    for role, colours in ROLES.items():
        name = "empty" if role == "-" else role
        pairs[name], pairs[f"{name}-line"] = colours[2:] if dark else colours[:2]
    for i, pair in enumerate(SERIES):
        pairs[f"s{i}"] = pair[dark]
    return "".join(f"--qt-{name}:{colour};" for name, colour in pairs.items())


def variable(name: str) -> str:
    """The CSS value of a colour, with the light one for where style sheets are stripped."""
    if name.startswith("s") and name[1:].isdigit():
        return f"var(--qt-{name},{SERIES[int(name[1:])][0]})"
    return f"var(--qt-{name},{LIGHT[name]})"


def asset(name: str) -> str:
    """A file that lies beside this module; of CSS what a browser needs, because each figure of a notebook has it."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _squeezed(text) if name.endswith(".css") else text


def palette() -> str:
    """The same colours for a whole page of the book's site, whose text and code then say the same by the same colour."""
    return f':root{{{_properties(False)}}}html[data-theme="dark"]{{{_properties(True)}}}'


def style_sheet() -> str:
    """The CSS of every figure."""
    dark = _properties(True)
    roles = "".join(
        f'.qt-figure [data-r="{role}"]{{fill:var(--qt-{name});stroke:var(--qt-{name}-line)}}'
        for role, name in ((role, "empty" if role == "-" else role) for role in ROLES)
    )
    return (
        f".qt-figure{{{_properties(False)}}}"
        f"@media (prefers-color-scheme:dark){{{UNNAMED} .qt-figure{{{dark}}}}}"
        f"{','.join(page + ' .qt-figure' for page in DARK_PAGES)}{{{dark}}}"
        f"{roles}{asset('player.css')}"
    )


def _squeezed(css: str) -> str:
    lines = (line.strip() for line in css.splitlines())
    one = " ".join(line for line in lines if line and not line.startswith("/*"))
    return re.sub(r"\s*([{};,])\s*|(:)\s+", r"\1\2", one).replace(";}", "}")
