"""The built book in Firefox and in WebKit, the engine of Safari: no errors, figures play, a cell runs and finds a race.

`tests/site/others.mjs` does it with Debian's packages firefox-esr, webkit2gtk-driver and xvfb, this file judges. With
BROWSERS=whole, as in the workflow, every page is opened and no browser may be missing; else two pages stand for all.
"""

import json
import os
import shutil
import subprocess

import pytest

from tests.test_site import built_site

NEEDS = {"firefox": ["firefox-esr"], "webkit": ["WebKitWebDriver", "xvfb-run"]}
TWO = "notebooks/05-block-reduce.html", "notebooks/sandbox.html"


@pytest.mark.timed
@pytest.mark.parametrize("browser", NEEDS)
def test_pages_work_in_another_browser(root, browser):
    whole = os.environ.get("BROWSERS") == "whole"
    site = built_site(root, "runtime/manifest.json")
    if lacks := [name for name in ("node", *NEEDS[browser]) if not shutil.which(name)]:
        (pytest.fail if whole else pytest.skip)(f"{browser} is not tested: {', '.join(lacks)} is not installed")
    command = ["node", "--experimental-websocket", root / "tests/site/others.mjs"]
    command += [site, browser, *(() if whole else TWO)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    assert not answer["findings"]
    least = (30, 45) if whole else (7, 2)
    assert answer["players"] >= least[0] and answer["popovers"] >= least[1]
    assert len(answer["pages"]) >= (50 if whole else 2)
