"""The book on paper: what print_book.py makes of built pages."""

import re
import shutil

import pytest

pytest.importorskip("bs4", reason="BeautifulSoup is not installed")

PARTS = {
    "Start": [{"file": "notebooks/00-win"}, {"file": "notebooks/sandbox"}],
    "Labs": [{"file": "book/labs", "sections": [{"file": "book/labs/floor"}]}],
    "Reference": [{"file": "book/glossary"}],
}
LISTED = [{"caption": name, "chapters": files} for name, files in PARTS.items()]
TOC = {"root": "book/intro", "parts": LISTED}
CONFIG = {"title": "The book", "author": "Its authors"}
PAGE = """<!DOCTYPE html><html lang="en"><head><link rel="stylesheet" href="../_static/book.css"></head>
<body><ul><li>
<button data-click="window.print()" class="x">.pdf</button></li></ul><article class="bd-article">{}</article></body></html>"""
WIN = """<section id="win"><h1>0. Win<a class="headerlink" href="#win">#</a></h1>
<p><a href="../book/glossary.html#lane">lane</a> <a href="../book/glossary.html">words</a> <a href="#win">up</a>
<a href="sandbox.html">sandbox</a> <a href="https://example.org/">out</a></p>
<form class="qt-predict">guess</form><details class="qt-fold"><summary>Answer</summary>42</details>
<details class="qt-fold"><summary>Solution</summary>17</details>
<details class="qt-fold"><summary>Code</summary>draw()</details><details class="qt-fold"><summary>Output</summary>SASS</details>
<details class="qt-fold qt-small"><summary>Setup</summary>import</details>
<details><summary>188 rows</summary></details>
<style>.a{color:red}</style><svg viewBox="0 0 1 1" width="9"><clipPath id="c"></clipPath><g clip-path="url(#c)"></g></svg>
<script>play()</script></section>"""
GLOSSARY = '<section id="glossary"><h1>Glossary</h1><h3 id="lane">Lane</h3><style>.a{color:red}</style></section>'


@pytest.fixture(scope="module")
def printing(load):
    return load("scripts/print_book.py")


@pytest.fixture
def site(tmp_path):
    for name, text in (("notebooks/00-win", WIN), ("book/glossary", GLOSSARY)):
        page = tmp_path / "html" / f"{name}.html"
        page.parent.mkdir(parents=True)
        page.write_text(PAGE.format(text), "utf-8")
    return tmp_path / "html"


@pytest.fixture
def text(printing, site):
    return printing.write_html(site, TOC, CONFIG).read_text("utf-8")


def test_pages_in_order_without_those_of_the_screen(text):
    assert re.findall(r"<h1>([^<]*)</h1>", text) == ["The book", "0. Win", "Glossary"]
    assert 'href="../html/_static/book.css"' in text


def test_links_lead_into_the_file_or_out_of_the_book(text):
    links = re.findall(r'<a [^>]*href="([^"]*)"', text[text.index("</header>") :])
    wanted = "#book-glossary--lane #book-glossary".split()
    wanted += "#notebooks-00-win--win https://example.org/".split()
    assert links == wanted
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert "sandbox" in text and 'url(#notebooks-00-win--c)"' in text
    assert 'id="notebooks-00-win--c"' in text


def test_answers_are_open_and_nothing_is_left_of_the_screen(text):
    article = text[text.index("</header>") :]
    assert re.search(r'<details class="qt-fold" open="">', article)
    assert "<details><summary>188" in article
    assert "<form" not in article and "<script" not in article and "headerlink" not in article
    assert article.count("<style>") == 1


def test_the_pdf_gets_a_place_in_each_page_once(printing, site):
    assert printing.offer(site, site / "book.pdf") == 2
    assert printing.offer(site, site / "book.pdf") == 0
    assert (site / "book/glossary.html").read_text("utf-8").count('href="../book.pdf"') == 1


def test_the_menu_is_found_in_a_built_page(root, printing):
    page = root / "_build/html/book/glossary.html"
    if not page.exists():
        pytest.skip("the site is not built")
    assert printing.MENU in page.read_text("utf-8")


def test_chromium_prints_it(printing, site, tmp_path):
    if not any(map(shutil.which, printing.CHROMIUM)):
        pytest.skip("Chromium is not installed")
    (site / "_static").mkdir()
    (site / "_static/book.css").write_text("section { break-before: page }", "utf-8")
    pdf = tmp_path / "book.pdf"
    assert printing.write_pdf(printing.write_html(site, TOC, CONFIG), pdf) is None
    assert len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())) == 3


def test_solutions_come_last_in_their_chapter_and_setup_drawing_and_machine_code_are_left_out(text):
    chapter = text[text.index("0. Win") :]
    assert not any(words in text for words in ("Setup", "draw()", "SASS"))
    found = chapter.index("Solution 1 is at the end")
    assert found < chapter.index("188 rows") < chapter.index("<h2>Solutions</h2>")
    solution = '<details class="qt-fold" open=""><summary>Solution 1</summary>17</details>'
    found = chapter.index("<h2>Solutions</h2>")
    assert found < chapter.index(solution) < chapter.index("Glossary</h1>")
