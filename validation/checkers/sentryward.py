"""SentryWard, a static verifier of PTX: what it says of a kernel that CuTe DSL compiled here, without a GPU."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

SECONDS = 120
PASSED, FOUND = {"race_free", "verified"}, {"potential_race", "not_wellsynced", "invalid_lifecycle"}
PARAMETER = re.compile(r"\.param .*?(\w+_param_\d+)\[")


def asked(python: str, path: Path, launch) -> dict:
    """What the SentryWard of the interpreter `python` answers about a file of PTX; each pointer is to a tensor of its own."""
    pointers = PARAMETER.findall(path.read_text(encoding="utf-8"))
    config = path.with_suffix(".json")
    config.write_text(json.dumps(configuration(pointers, launch)), encoding="utf-8")
    command = [python, "-m", "sentryward", str(path), "--input", str(config), "--timeout", str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        return {"result": "tool_failure", "diagnostics": [{"message": last}]}


def configuration(pointers, launch) -> dict:
    """How a kernel is launched and what its parameters are, in SentryWard's form."""
    return {
        "schema": "spverify.kernel-input/v1",
        "launch": {
            "grid_dim": list(launch.grid),
            "block_dim": list(launch.block),
            "cluster_dim": list(launch.cluster),
        },
        "declarations": [
            {"parameter": name, "type": "pointer", "space": "global", "object": f"tensor {k}"}
            for k, name in enumerate(pointers)
        ],
    }


def judged(answer: dict) -> tuple[str, bool, str]:
    """("found", "silent" or "refused"; whether a witness names a source line marked `# here`; its words)."""
    words = "; ".join(one.get("message", "") for one in answer.get("diagnostics", ()))
    result = answer.get("result", "tool_failure")
    if result in PASSED:
        return "silent", False, words
    if result not in FOUND:
        return "refused", False, f"{result}: {words}"
    at = any("# here" in line for line in witnesses(answer.get("races", ())))
    return "found", at, f"{result}: {words}"


def witnesses(value):
    """The source lines that the accesses of a race come from, where the PTX says so."""
    if isinstance(value, dict):
        place = value.get("location") or {}
        path = Path(place.get("file", ""))
        if path.suffix == ".py" and path.is_file():
            yield from path.read_text(encoding="utf-8").splitlines()[place["line"] - 1 : place["line"]]
        for inner in value.values():
            yield from witnesses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from witnesses(inner)
