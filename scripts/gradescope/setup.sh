#!/usr/bin/env bash
# Gradescope runs this once, when it makes the image of an assignment. The zip that it was given lies in /autograder/source.
set -euo pipefail
apt-get update -qq
apt-get install -y -qq python3-venv bubblewrap
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install --quiet --editable /autograder/source
