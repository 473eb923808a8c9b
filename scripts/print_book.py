"""Puts the built site's pages on paper: one HTML file with its answers unfolded, and with Chromium a PDF of it in the site.

    python scripts/print_book.py [_build/html]    # after `make book`; writes _build/print/book.html and _build/html/book.pdf

Pages come in the order of _toc.yml, without those that only work on a screen and without the labs. A player is printed as it
stands without scripts, on its finished picture. Links between pages become links inside the file. When the PDF is there, the
download menu of each page gets it. Not covered: EPUB.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parent.parent
ON_SCREEN_ONLY = (
    "book/intro book/motion notebooks/layout-playground notebooks/sandbox book/your-path book/labs book/reference"
).split()
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
TYPESET_MS = 120_000  # virtual time for MathJax, which Chromium does not wait for otherwise
OF_THE_SCREEN = (
    "script, form, .headerlink, .qt-verdicts p, .qt-number, .qt-controls, .toctree-wrapper, .qt-panes, "
    "details:is(.qt-small, .qt-on-gpu, .qt-ran, .qt-card), .qt-card ~ .qt-card, .qt-note-of, "  # code, imports, what is there twice
    ".qt-diff details"
)
FOLDS = "details.qt-fold"  # long lists in other folds stay on the screen
SCREEN_FOLDS = ("Code", "Output")  # what draws a picture, and long listings
MENU = '<button data-click="window.print()"'  # in each page's download menu
ENTRY = """<a href="{}" class="btn btn-sm dropdown-item">
<span class="btn__icon-container"><i class="fas fa-file-pdf"></i></span>
<span class="btn__text-container">.pdf of the whole book</span></a>
</li>
<li>
"""
PAGE = """<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light">
<head>
<meta charset="utf-8">
<title>{title}</title>
{styles}
<script>window.MathJax = {{options: {{processHtmlClass: "tex2jax_process|mathjax_process|math|output_area"}}}}</script>
<script defer src="{site}/_static/mathjax/tex-chtml.js"></script>
</head>
<body class="qt-book"><main class="bd-main"><div class="bd-content"><div class="bd-article-container">
<header><h1>{title}</h1><p>{author}</p><ul>{contents}</ul></header>
{articles}
</div></div></main></body></html>
"""


def printed_pages(toc: dict) -> list[str]:
    """The pages of a _toc.yml that go on paper, in its order."""
    files = [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]
    return [file for file in files if file not in ON_SCREEN_ONLY]


def article(site: Path, name: str, pages: list[str]) -> tuple[str, str]:
    """The title of a page, and its text for paper: unfolded, with ids of its own and links that stay in the file."""
    page = BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
    body = page.select_one("article.bd-article")
    for node in body.select(OF_THE_SCREEN):
        node.decompose()
    for fold in body.select(FOLDS):
        if fold.summary.get_text(strip=True) in SCREEN_FOLDS:
            fold.decompose()
        else:
            fold["open"] = ""
    solutions = [fold for fold in body.select("details.qt-fold") if fold.summary.get_text(strip=True) == "Solution"]
    if solutions:
        end = BeautifulSoup('<div class="qt-solutions"><h2>Solutions</h2></div>', "html.parser").div
        for number, fold in enumerate(solutions, 1):
            fold.summary.string = f"Solution {number}"
            place = BeautifulSoup(f"<p>Solution {number} is at the end of the chapter.</p>", "html.parser").p
            fold.replace_with(place)
            end.append(fold)
        body.append(end)
    for link in body.select("a[href]"):
        target = inside(link["href"], name, pages)
        if target is None:
            link.unwrap()
        else:
            link["href"] = target
    for picture in body.select("img[src]:not([src^='data:'])"):
        picture["src"] = relpath(site / dirname(name) / picture["src"], site.parent / "print")
    title = body.select_one("h1").get_text()
    own = f"{key(name)}--"
    text = re.sub(r'(\sid=")(?=[^"])', rf"\1{own}", str(body))
    text = re.sub(r'((?:xlink:)?href="#|url\(#|aria-labelledby="|aria-describedby=")(?!page--)', rf"\1{own}", text)
    text = text.replace('"#page--', '"#')
    return title, f'<section id="{key(name)}">{text}</section>'


def inside(href: str, name: str, pages: list[str]) -> str | None:
    """Where a link of page `name` leads on paper: out of the book, into the file, or (None) to a page that is not in it."""
    if re.match(r"[a-z]+:", href) or href.startswith("#"):
        return href
    path, _, anchor = href.partition("#")
    target = normpath(join(dirname(name), path)).removesuffix(".html")
    if target not in pages:
        return None
    return f"#page--{key(target)}--{anchor}" if anchor else f"#page--{key(target)}"


def key(name: str) -> str:
    return name.replace("/", "-")


def write_html(site: Path, toc: dict, config: dict) -> Path:
    """One HTML file of the site's pages, beside it in `print/`; returns its path."""
    pages, seen = printed_pages(toc), set()
    titles, articles = zip(*(article(site, name, pages) for name in pages))
    contents = "".join(f'<li><a href="#{key(name)}">{title}</a></li>' for name, title in zip(pages, titles))

    def once(match):
        new = match[0] not in seen
        seen.add(match[0])
        return match[0] if new else ""

    head = BeautifulSoup((site / f"{pages[0]}.html").read_text(encoding="utf-8"), "html.parser").head
    styles = [link for link in head.select("link[rel=stylesheet]")]
    for link in styles:
        link["href"] = relpath(site / dirname(pages[0]) / link["href"], site.parent / "print")
    text = PAGE.format(
        title=config["title"],
        author=config["author"],
        styles="\n".join(map(str, styles)),
        site=relpath(site, site.parent / "print"),
        contents=contents,
        articles=re.sub(
            r"<style>.*?</style>", once, "\n".join(articles), flags=re.DOTALL
        ),  # each figure brings the same
    )
    target = site.parent / "print" / "book.html"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def write_pdf(html: Path, pdf: Path) -> str | None:
    """Print an HTML file; returns why it could not be, or None."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        return "Chromium is not installed"
    command = [chromium, "--headless", "--disable-gpu", "--no-pdf-header-footer", "--generate-pdf-document-outline"]
    command += [f"--virtual-time-budget={TYPESET_MS}", f"--print-to-pdf={pdf}", html.resolve().as_uri()]
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return "Chromium did not end within 15 minutes"
    return None if pdf.exists() and not done.returncode else f"Chromium failed: {done.stderr.strip()[-300:]}"


def offer(site: Path, pdf: Path) -> int:
    """Put the PDF into the download menu of the site's pages; returns of how many."""
    changed = 0
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if MENU in text and f'{pdf.name}"' not in text:
            page.write_text(text.replace(MENU, ENTRY.format(relpath(pdf, page.parent)) + MENU, 1), encoding="utf-8")
            changed += 1
    return changed


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "_build/html")
    site = parser.parse_args(argv).site
    if not (site / "book").is_dir():
        parser.error(f"{site} holds no built book: type make book first, or name its folder")
    toc, config = (yaml.safe_load((ROOT / name).read_text(encoding="utf-8")) for name in ("_toc.yml", "_config.yml"))
    html, pdf = write_html(site, toc, config), site / "book.pdf"
    pdf.unlink(missing_ok=True)
    print(f"{html}: {html.stat().st_size / 1e6:.1f} MB")
    problem = write_pdf(html, pdf)
    if problem:
        print(f"No PDF: {problem}.", file=sys.stderr)
        return 1
    print(f"{pdf}: {pdf.stat().st_size / 1e6:.1f} MB, in the download menu of {offer(site, pdf)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
