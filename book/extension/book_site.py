"""What the site needs beyond Jupyter Book's settings: launch buttons only where they work, notebooks to download."""

import shutil
from pathlib import Path


def hide_launch_buttons_without_repository(app, config):
    """Drop the launch buttons while `repository: url` in _config.yml is empty: the theme would fail on them."""
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {}


def offer_notebook(app, pagename, templatename, context, doctree):
    """Put a chapter's .ipynb beside its text in the page's download menu."""
    notebook = Path(app.srcdir, pagename).with_suffix(".ipynb")
    if doctree is None or not notebook.exists():
        return
    target = Path(app.outdir, "_sources", pagename).with_suffix(".ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(notebook, target)
    context["ipynb_source"] = f"{pagename}.ipynb"


def setup(app):
    app.connect("config-inited", hide_launch_buttons_without_repository)
    # Before the theme draws its buttons (priority 501), or it would not know of the notebook.
    app.connect("html-page-context", offer_notebook, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
