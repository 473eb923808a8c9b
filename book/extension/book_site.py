"""What the site needs beyond Jupyter Book's settings: launch buttons only where they work, notebooks to download, a page for
each lab, what runs cells in the page, where `scripts/browser_runtime.py fetch` has brought it, MathJax only where there are
formulas, and the front page as index.html."""

import hashlib
import importlib.util
import json
import posixpath
import re
import shutil
from pathlib import Path

from grading import folders, release, student
from quack_tutorial.figures import theme
from workbench import myst


def hide_launch_buttons_without_repository(app, config):
    """Drop the launch buttons while `repository: url` in _config.yml is empty: the theme would fail on them."""
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {}


GRADED = re.compile(r"(?<=\{code-cell\} ipython3\n)---\n(nbgrader:(?: \{|\n  )grade: true\b)")


def write_labs(app, config):
    """Write the page of each lab into book/labs: the student's copy, and beside it the notebook that is handed in.

    The master stays outside of what the site is built from. A check fails there, since nothing is filled in, and may.
    """
    for name, home in folders().items():
        copy = student.student_version((home / f"{name}.md").read_text(encoding="utf-8"))
        page = Path(app.srcdir, "book/labs", f"{name}.md")
        page.parent.mkdir(exist_ok=True)
        page.write_text(GRADED.sub(r"---\ntags: [raises-exception]\n\1", copy), encoding="utf-8")
        page.with_suffix(".ipynb").write_text(release.notebook(name, copy), encoding="utf-8")


def add_helpers(app, docname, source):
    """Give each listing of a chapter the fold with what it is built from, as its notebook has it."""
    if docname.startswith("notebooks/"):
        page = Path(app.srcdir, docname)
        source[0] = myst.with_helpers(source[0], page.parent, page.name)


def offer_notebook(app, pagename, templatename, context, doctree):
    """Put a chapter's .ipynb beside its text in the page's download menu, and the source's cells there for what runs them."""
    notebook = Path(app.srcdir, pagename).with_suffix(".ipynb")
    if doctree is None or not notebook.exists():
        return
    target = Path(app.outdir, "_sources", pagename).with_suffix(".ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(notebook, target)
    source = myst.cells(notebook.with_suffix(".md").read_text(encoding="utf-8"), notebook.stem)
    target.with_suffix(".cells.json").write_text(myst.dumps(source), encoding="utf-8")
    context["ipynb_source"] = f"{pagename}.ipynb"


# They measure and train with torch itself, which no page can hold.
NEED_TORCH = ("notebooks/10-measuring", "notebooks/13-into-a-model")


def browser_runtime(app):
    spec = importlib.util.spec_from_file_location("browser_runtime", Path(app.srcdir, "scripts/browser_runtime.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pack_runtime(app):
    """Put Python, numpy and the package beside the pages, before they are written: they name its size."""
    runtime = browser_runtime(app)
    if runtime.available() and app.builder.format == "html":
        runtime.pack(Path(app.outdir, "runtime"))
        shutil.copyfile(runtime.purify(), Path(app.outdir, "_static/purify.js"))


def offer_running(app, pagename, templatename, context, doctree):
    manifest = Path(app.outdir, "runtime/manifest.json")
    has_cells = pagename.startswith(("notebooks/", "book/labs/")) and pagename not in NEED_TORCH
    if doctree is None or not has_cells or not manifest.exists():
        return
    size = json.loads(manifest.read_text(encoding="utf-8"))["bytes"]
    cells = Path(app.outdir, "_sources", pagename).with_suffix(".cells.json").read_bytes()
    tag = f'<meta name="qt-runtime-bytes" content="{size}" data-cells="{hashlib.sha256(cells).hexdigest()[:12]}">'
    context["metatags"] = f"{context.get('metatags', '')}\n{tag}"
    app.add_css_file("run.css")
    app.add_js_file("run.js")


def write_palette(app):
    """The figures' colours as properties of every page: palette.css, before book.css, which uses them."""
    if app.builder.format == "html":
        file = Path(app.outdir, "_static/palette.css")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(theme.palette(), encoding="utf-8")


def add_fonts(app):
    """The fonts that scripts/browser_runtime.py fetched, beside what names them, and their licences."""
    if app.builder.format == "html":
        for folder in browser_runtime(app).fonts():
            there = Path(app.outdir, "_static/fonts", folder.name)
            shutil.copytree(folder, there, dirs_exist_ok=True)  # where a first look left them
            app.add_css_file("fonts.css", priority=400)


def drop_mathjax(app, pagename, templatename, context, doctree):
    """MathJax is 263 KB: a page without formulas does without."""
    if 'class="math' not in context.get("body", ""):
        kept = [f for f in context["script_files"] if "mathjax" not in f"{f} {f.attributes.get('body', '')}".lower()]
        context["script_files"] = kept


LINK = re.compile(r'\b(href|src|action)="(?![a-z]+:|[#/"])([^"]*)"')


def write_front_page(app, error):
    """index.html is the first page, not a redirect to it; the first page remains where it is, as the canonical one."""
    if error or app.builder.format != "html":
        return
    first = app.builder.get_target_uri(app.config.root_doc)
    text = Path(app.outdir, first).read_text(encoding="utf-8")
    moved = lambda m: f'{m[1]}="{posixpath.normpath(posixpath.join(posixpath.dirname(first), m[2]))}"'  # noqa: E731
    text = LINK.sub(moved, text).replace(f'data-content_root="{"../" * first.count("/")}"', 'data-content_root="./"')
    if 'rel="canonical"' not in text:
        text = text.replace("</head>", f'<link rel="canonical" href="{first}"/>\n</head>', 1)
    Path(app.outdir, "index.html").write_text(text, encoding="utf-8")


def setup(app):
    app.connect("config-inited", hide_launch_buttons_without_repository)
    # Before the table of contents is read, which names them.
    app.connect("config-inited", write_labs, priority=100)
    app.connect("source-read", add_helpers)
    # Before the theme draws its buttons (priority 501), or it would not know of the notebook.
    app.connect("html-page-context", offer_notebook, priority=400)
    app.connect("builder-inited", write_palette)
    app.add_css_file("palette.css", priority=400)
    app.connect("builder-inited", add_fonts)
    app.connect("builder-inited", pack_runtime)
    app.connect("html-page-context", offer_running, priority=400)
    app.connect("html-page-context", drop_mathjax, priority=900)  # after Sphinx has added it
    # Before the redirect, which stays away where the file is.
    app.connect("build-finished", write_front_page, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
