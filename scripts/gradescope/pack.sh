#!/usr/bin/env bash
# bash scripts/gradescope/pack.sh LAB: writes LAB.zip, to be uploaded as the autograder of an assignment.
set -euo pipefail
lab=${1:?which lab? $(ls "$(dirname "$0")/../../labs" | xargs)}
cd "$(dirname "$0")/../.."
[ -e "labs/$lab/lab.py" ] || { echo "there is no lab $lab; there are: $(ls labs | xargs)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive HEAD pyproject.toml README.md LICENSE quack_tutorial labs | tar x -C "$work"
cp scripts/gradescope/setup.sh scripts/gradescope/run_autograder "$work"
echo "$lab" > "$work/LAB"
rm -f "$lab.zip"
(cd "$work" && python3 -m zipfile -c "$OLDPWD/$lab.zip" ./*)
echo "$lab.zip"
