"""The picture that a link to a page shows elsewhere: the page's title above what it draws first, 1200 x 630.

Chromium draws them, many to a screenshot, because the pictures are SVG with style sheets. Where it is not installed there are none.
"""

import re
import shutil
import subprocess
import tempfile
from html import escape
from os import geteuid
from pathlib import Path

from quack_tutorial.figures import theme

SIZE = 1200, 630
AT_ONCE = 20  # Chromium draws no more than 16384 pixels in height
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PAGE = """<!DOCTYPE html><html data-theme="light"><meta charset="utf-8"><style>{styles}
body{{margin:0;background:#fff}}
.card{{box-sizing:border-box;width:1200px;height:630px;padding:44px 56px 40px;overflow:hidden;display:flex;flex-direction:column;
 font-family:system-ui,"DejaVu Sans",sans-serif;color:#1b1f24;border-top:14px solid #1f5fa8}}
.card p{{margin:0 0 6px;font-size:25px;color:#57606a}}
.card h1{{margin:0 0 24px;font-size:54px;line-height:1.12;font-weight:700}}
.card .qt-figure{{flex:1;min-height:0;max-width:none;border:0;margin:0;padding:0;display:flex;background:none}}
.card .qt-picture{{flex:1;min-height:0;padding:0;display:flex}}
.card svg{{width:100%;height:100%}}
</style><body>{cards}"""
CARD = '<div class="card"><p>{book}</p><h1>{title}</h1><div class="qt-figure"><div class="qt-picture">{picture}</div></div></div>'


def file_of(pagename):
    """Where a page's picture lies in the site."""
    return f"previews/{pagename.replace('/', '-')}.png"


def draw(cards, book, site):
    """Write the pictures of (page's name, title, svg) below the site's folder; returns why they could not be, or None."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        return "Chromium, which draws them, is not installed"
    try:
        from PIL import Image
    except ImportError:
        return "Pillow, which cuts them, is not installed"
    (site / "previews").mkdir(parents=True, exist_ok=True)
    width, height = SIZE
    for start in range(0, len(cards), AT_ONCE):
        some = cards[start : start + AT_ONCE]
        with tempfile.TemporaryDirectory() as folder:
            html, shot = Path(folder, "cards.html"), Path(folder, "shot.png")
            drawn = "\n".join(
                CARD.format(book=escape(book), title=escape(t), picture=fitted(svg)) for _, t, svg in some
            )
            html.write_text(PAGE.format(styles=theme.style_sheet(), cards=drawn), encoding="utf-8")
            plain = "--headless --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking"
            command = [chromium, *plain.split(), "--force-device-scale-factor=1", f"--user-data-dir={folder}/p"]
            command += [f"--window-size={width},{height * len(some)}", f"--screenshot={shot}"]
            command += ["--no-sandbox"] * (geteuid() == 0)
            try:
                done = subprocess.run([*command, html.as_uri()], capture_output=True, text=True, timeout=120)
            except subprocess.TimeoutExpired:
                return "Chromium did not end within 2 minutes"
            if not shot.exists():
                return f"Chromium failed: {done.stderr.strip()[-200:]}"
            with Image.open(shot) as whole:
                for place, (name, _, _) in enumerate(some):
                    card = whole.crop((0, place * height, width, (place + 1) * height)).convert("RGB")
                    card.quantize(64).save(site / file_of(name), optimize=True)
    return None


def fitted(svg):
    """An SVG that fills its box: without a size of its own."""
    head, end, rest = svg.partition(">")
    return re.sub(r'\s(?:width|height|style)="[^"]*"', "", head) + end + rest
