"""How the book is found, cited and answered: what a page tells search engines and previews, the line below each page, and the
page of an address that is not there.

| file           | for                                        | without the site's address |
|----------------|--------------------------------------------|----------------------------|
| tags of a page | search engines, previews of a link         | no canonical address       |
| `sitemap.xml`  | search engines                             | not written                |
| `404.html`     | whoever follows a link to a page that moved | finds the site's root by its folders |

Two settings of _config.yml hold addresses: `html: baseurl` the site's, `repository: url` the repository's. Without the second
nothing links there.
"""

import datetime
import functools
import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from quack_tutorial import __version__

CHANGELOG, HELP, CITING = "book/changelog", "book/help", "book/help.html#citing"
MOST = 200  # characters of a description

# The root of the site, also from a folder that does not exist, and also where the site's address is not known.
ROOT = """<script>{
  const at = location.pathname, known = "%s", folder = /^(.*?\\/)(?:book|notebooks|_sources|_static)\\//;
  const base = document.createElement("base");
  base.href = at.endsWith("/404.html") ? at.slice(0, -8) : known && at.startsWith(known) ? known
    : folder.exec(at)?.[1] ?? at.replace(/[^/]*$/, "");
  document.head.append(base);
}</script>"""
MISSING = """<section id="page-not-found"><h1>There is no page here</h1>
<p>The address may be misspelled, or the page has moved. Search the book with <kbd>Ctrl</kbd>+<kbd>K</kbd>, choose a page from the
contents at the side, or begin at <a class="reference internal" href="index.html">the front page</a>.</p>
<p>If a link in the book led you here, <a class="reference internal" href="book/help.html">please report it</a>.</p></section>"""


def address(app, path=""):
    """The address of a file of the site, or "" where the site's own is not known."""
    base = app.config.html_baseurl
    return f"{base.rstrip('/')}/{quote(path)}" if base else ""


def page_address(app, name):
    return address(app, app.builder.get_target_uri(name))


def description(page):
    """The first paragraph of a page, cut between words."""
    first = next((p for p in page.findall(nodes.paragraph) if p.astext().strip()), None)
    words = " ".join(first.astext().split()) if first else ""
    if len(words) <= MOST:
        return words
    whole = words[: MOST + 1].rsplit(". ", 1)
    return f"{whole[0]}." if len(whole) > 1 and len(whole[0]) > MOST / 3 else words[:MOST].rsplit(" ", 1)[0] + " …"


def title(page):
    return next((found.astext() for found in page.findall(nodes.title)), "")


@functools.cache
def built_on(folder):
    """The day of the commit that the site is built from, or today."""
    command, day = ["git", "log", "-1", "--format=%cs"], ""
    if shutil.which("git"):
        day = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip()
    return datetime.date.fromisoformat(day) if day else datetime.date.today()


def tell_pages_of_repository(app, config):
    """Pages may say {only} repository; the theme shows its button, which it cannot without an address."""
    if config.html_theme_options.get("repository_url"):
        app.tags.add("repository")
        config.html_theme_options["use_repository_button"] = True


def tell(app, pagename, templatename, context, doctree):
    """A page's tags, and the line at its foot."""
    tags = []
    if pagename == "404":
        context["pageurl"] = None
        tags = [ROOT % urlsplit(address(app)).path, '<meta name="robots" content="noindex">']
    if doctree is not None:
        page = app.env.get_doctree(pagename)
        words, is_first = description(page), pagename == app.config.root_doc
        named = {"og:type": "website" if is_first else "article", "og:site_name": app.config.html_title}
        named |= {
            "og:title": title(page),
            "og:description": words,
            "og:url": address(app) and page_address(app, pagename),
        }
        tags.append(f'<meta name="description" content="{escape(words)}">')
        tags += [f'<meta property="{key}" content="{escape(text)}">' for key, text in named.items() if text]
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])
    context["theme_extra_footer"] = (
        foot(app, pagename, context, doctree) + f"<p>{context.get('theme_extra_footer', '')}</p>"
    )


def foot(app, pagename, context, doctree):
    """Which version this is, and where to answer."""
    url = app.config.html_theme_options.get("repository_url", "").rstrip("/")
    up, day = "../" * pagename.count("/"), built_on(app.srcdir)
    parts = [f"Version {__version__}, {day.day} {day:%B %Y}", (f"{up}{CHANGELOG}.html", "What changed")]
    if url and doctree is not None:
        version = f"{__version__} of {day.isoformat()}"
        said = f"Page: {page_address(app, pagename) or pagename}\nVersion: {version}\n\n"
        said += "What stands there, and what you saw instead:\n"
        report = urlencode({"title": f"{title(app.env.get_doctree(pagename))}: ", "body": said}, quote_via=quote)
        parts.append((f"{url}/issues/new?{report}", "Report an error on this page"))
        branch = app.config.html_theme_options.get("repository_branch") or "main"
        parts.append((f"{url}/edit/{branch}/{source_of(pagename)}", "Edit this page"))
    parts += [
        (f"{up}{HELP}.html", "Get help or report an error"),
        (f"{up}{CITING}", "Cite this book"),
    ]
    links = [p if isinstance(p, str) else f'<a href="{escape(p[0])}">{p[1]}</a>' for p in parts]
    return f'<p class="qt-foot">{" · ".join(links)}</p>'


def source_of(pagename):
    """The file of the repository that a page is made from: a lab's page comes from its notebook."""
    lab = re.fullmatch(r"book/labs/([\w-]+)", pagename)
    return f"labs/{lab[1]}/{lab[1]}.md" if lab else f"{pagename}.md"


def missing_page(app):
    yield "404", {"title": "No such page", "body": MISSING}, "page.html"


def write_files(app, error):
    if error or app.builder.format != "html" or not address(app):
        return
    out, names = Path(app.outdir), list(app.env.toctree_includes.get(app.config.root_doc, []))
    names = [n for top in names for n in (top, *app.env.toctree_includes.get(top, []))]
    names = [app.config.root_doc, *names]
    places = "".join(f"<url><loc>{escape(page_address(app, name))}</loc></url>\n" for name in names)
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{places}</urlset>\n'
    (out / "sitemap.xml").write_text(text, encoding="utf-8")


class Citation(SphinxDirective):
    """CITATION.cff as BibTeX."""

    def run(self):
        cited = yaml.safe_load(Path(self.env.srcdir, "CITATION.cff").read_text(encoding="utf-8"))
        authors = " and ".join(f"{{{author['name']}}}" for author in cited["authors"])
        fields = {"title": f"{{{cited['title']}}}", "author": authors, "version": cited["version"]}
        fields |= {"year": cited["date-released"].year, "url": address(self.env.app)}
        lines = "".join(f"  {key} = {{{text}}},\n" for key, text in fields.items() if text)
        text = f"@software{{quack_tutorial,\n{lines}}}"
        return [nodes.literal_block(text, text, language="bibtex")]


def setup(app):
    app.add_directive("citation", Citation)
    app.connect("config-inited", tell_pages_of_repository)
    app.connect("html-page-context", tell, priority=450)
    app.connect("html-collect-pages", missing_page)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
