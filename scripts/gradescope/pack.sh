#!/usr/bin/env bash
# bash scripts/gradescope/pack.sh LAB: writes LAB.zip, to be uploaded as the autograder of an assignment.
# The zip holds a secret of its own, from which each submission's numbers are drawn; KEEP=FILE keeps it in a file, for the next zip.
set -euo pipefail
lab=${1:?which lab? $(ls "$(dirname "$0")/../../labs" | xargs)}
keep=$(realpath "${KEEP:-/dev/null}")
cd "$(dirname "$0")/../.."
[ -e "labs/$lab/lab.py" ] || { echo "there is no lab $lab; there are: $(ls labs | xargs)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive HEAD pyproject.toml README.md LICENSE cutesim quack_tutorial bench grading workbench labs | tar x -C "$work"
cp scripts/gradescope/setup.sh scripts/gradescope/run_autograder "$work"
echo "$lab" > "$work/LAB"
if [ -s "$keep" ]; then cp "$keep" "$work/SECRET"; else head -c 24 /dev/urandom | base64 > "$work/SECRET"; fi
[ "$keep" = /dev/null ] || cp "$work/SECRET" "$keep"
rm -f "$lab.zip"
(cd "$work" && python3 -m zipfile -c "$OLDPWD/$lab.zip" ./*)
echo "$lab.zip"
