"""What tirx-harness's checkers say of the twins; run by an interpreter that has it: `python twins_worker.py FOLDER CHECKER...`.

FOLDER holds NAME.npz a kernel with its arguments. A line of JSON an answer: the kernel, whether it was the broken one, the checker,
what it says (its verdict, or the error that stopped it) and the source lines that its findings name.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tirx_harness
import twins

SOURCE = Path(twins.__file__).read_text(encoding="utf-8").splitlines()


def places(value):
    """The lines of this folder's twins that a finding's details name, however deep."""
    if isinstance(value, dict):
        line = value.get("line") or value.get("source_line")
        if isinstance(line, int) and 0 < line <= len(SOURCE):
            yield SOURCE[line - 1]
        for inner in value.values():
            yield from places(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from places(inner)


def answer(name, bug, checker, arrays):
    kernel = getattr(twins, name)
    wanted = {param.name for param in kernel.params}
    given = {key: np.ascontiguousarray(x).reshape(-1) for key, x in arrays.items()}
    inputs = {key: x for key, x in given.items() if key in wanted} | {"bug": np.int32(bug)}
    said = {"name": name, "bug": bug, "checker": checker, "verdict": "", "words": "", "at": False}
    try:
        report = getattr(tirx_harness, checker)(kernel, inputs)
    except Exception as error:  # the tool's own: it is the answer
        return said | {"verdict": "refused", "words": f"{type(error).__name__}: {error}"}
    findings = report.to_dict()["findings"]
    return said | {
        "verdict": report.verdict,
        "words": "; ".join(f"{found['kind']}: {found['message']}" for found in findings),
        "at": any("# here" in line for line in places(findings)),
    }


def main(folder, *checkers):
    for path in sorted(Path(folder).glob("*.npz")):
        arrays = dict(np.load(path))
        for checker in checkers:
            for bug in (0, 1):
                print(json.dumps(answer(path.stem, bug, checker, arrays)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
