"""What a submission's process sends back, read as what it is: a stranger's bytes.

Sizes are checked before anything is unpacked, each array against its own header, and of names, types and shapes only those are
taken that the cases have. Traces are bounded as a whole, in rows and in the bytes that a row may move, because what reads them
takes time for each. Whatever else comes is refused, in one sentence.
"""

from __future__ import annotations

import io
import json
import math
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cutesim.trace import Finding, Line, Op, Trace

from .judgement import Case, Outcome, Refused
from .trial import plain

MOST_BYTES = 2**25  # as it comes; a right answer has a few megabytes
MOST_UNPACKED = 2**26  # of all cases together
MOST_ROWS = 2**17  # of all traces together: a right answer's instructions are a few thousand
MOST_LANE_BYTES, MOST_BULK_BYTES = 16, 2**18  # that an instruction moves for a lane, or a bulk copy
MOST_FINDINGS = 1000
TOO_LONG = (
    "The traces of its runs have more than {:,} instructions of warps, and a right answer leaves a few thousand. "
    "Does a thread walk a row alone, or a loop go over what others do?"
)
MOST_BLOCKS = 2**20
TOO_MANY = "It launches {:,} blocks in one direction, and no case has a use for {:,} or more. What is the grid made of?"
FORGED = "What came back from its process is not what a run leaves, so nothing of it counts."


def outcomes(data: bytes, cases: list[Case], memory: int) -> list[Outcome]:
    """The outcomes of the cases; Refused with the worker's reason if there are none, or if the data are not a worker's."""
    try:
        files = members(data, MOST_UNPACKED)
        result = json.loads(files["result.json"])
        refused = result.get("refused")
        if not refused:
            words, room = result["outcomes"], Room()
            return [_outcome(i, *pair, files, room) for i, pair in enumerate(zip(cases, words, strict=True))]
        told = _finding(refused | {"lines": [(*line, "") for line in refused["lines"]]})
    except Refused:
        raise
    except Exception:  # whatever can be wrong with bytes
        raise Refused("forged", FORGED) from None
    message = told.message or f"the submission asked for more than {memory >> 20} MiB of memory"
    raise Refused(told.kind, message, tuple((line.file, line.number, line.text) for line in told.lines))


@dataclass
class Room:
    """What may still come back: bytes as they are unpacked, rows of traces."""

    unpacked: int = MOST_UNPACKED
    rows: int = MOST_ROWS


def members(data: bytes, most: int) -> dict:
    """{name: content} of a zip file; ValueError if a name is there twice, it is larger than `most`, or no plain zip."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        names = [one.filename for one in file.infolist()]
        if len(set(names)) < len(names) or sum(one.file_size for one in file.infolist()) > most:
            raise ValueError("a name twice, or too large")
        # The others unpack a block at once, however large it is and whatever the entry says of its size.
        if any(one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for one in file.infolist()):
            raise ValueError("neither stored nor deflated")
        return {name: file.read(name) for name in names}


def arrays(data: bytes, room: Room) -> dict:
    """{name: array} of a .npz file; a ValueError if it is too large, or a header names another size than there is."""
    found = {}
    for name, content in members(data, room.unpacked).items():
        room.unpacked -= len(content)
        start = io.BytesIO(content)
        if np.lib.format.read_magic(start) != (1, 0):
            raise ValueError("another version")
        shape, _, dtype = np.lib.format.read_array_header_1_0(start)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - start.tell():
            raise ValueError("another size than its header says")
        start.seek(0)
        found[name.removesuffix(".npy")] = np.lib.format.read_array(start, allow_pickle=False)
    return found


def _outcome(i: int, case: Case, words: dict, files: dict, room: Room) -> Outcome:
    findings, parameters = words["findings"], words["parameters"]
    if len(findings) > MOST_FINDINGS or not all(isinstance(p, str) and p.isidentifier() for p in parameters):
        raise ValueError("too many findings, or a name that is none")
    findings = tuple(map(_finding, findings))
    if case.target:
        answer = None if words["answer"] is None else plain(words["answer"])
        return Outcome(case, {"answer": answer}, findings, None, ())
    if findings and not parameters:  # it could not be run
        return Outcome(case, {}, findings, None, ())
    outputs = arrays(files[f"{i}.out.npz"], room)
    kinds = [{name: (a.shape, a.dtype) for name, a in some.items()} for some in (outputs, case.outputs)]
    if kinds[0] != kinds[1] or len(parameters) < len(case.inputs) + len(case.outputs):
        raise ValueError("outputs of another name, shape or type")
    exact = arrays(files[f"{i}.exact.npz"], room) if f"{i}.exact.npz" in files else {}
    if any(x.dtype != np.float64 or name not in outputs or x.shape != outputs[name].shape for name, x in exact.items()):
        raise ValueError("exact numbers of another output, shape or type")
    trace = None if findings and f"{i}.trace.npz" not in files else _trace(files[f"{i}.trace.npz"], room)
    asked = tuple(map(tuple, words.get("asked", ())))
    if not all(len(one) == 2 and all(type(n) is int and 0 < n < MOST_BLOCKS for n in one) for one in asked):
        raise ValueError("sizes that cannot be")
    return Outcome(case, outputs, findings, trace, tuple(parameters), exact, asked)


def _trace(data: bytes, room: Room) -> Trace:
    found = arrays(data, room)  # its sizes are what they seem
    room.rows -= max(len(found[name]) for name in ("events", "addresses", "values"))
    if room.rows < 0:
        raise Refused("too much", TOO_LONG.format(MOST_ROWS))
    with tempfile.TemporaryDirectory() as home:
        Path(home, "trace").write_bytes(data)
        trace = Trace.load(Path(home, "trace"))
    for one in trace.launches:
        if all(type(n) is int for n in one.grid) and max(one.grid) >= MOST_BLOCKS:
            raise Refused("too much", TOO_MANY.format(max(one.grid), MOST_BLOCKS))
        if not all(type(n) is int and 0 < n < MOST_BLOCKS for n in (*one.grid, *one.block, *one.cluster)):
            raise ValueError("a launch that cannot be")
    for one in trace.tensors:
        if not all(type(n) is int and 0 <= n < 2**48 for n in (one.base_address, one.nbytes)):
            raise ValueError("a tensor that cannot be")
    if not np.isin(trace.events["op"], [*Op]).all() or not _within(trace.events["line"], max(len(trace.lines) - 1, 0)):
        raise ValueError("an instruction, or a line, that there is not")
    copied = trace.select(Op.BULK_COPY)["arg"]
    if not _within(trace.events["bytes"], MOST_LANE_BYTES) or not _within(copied, MOST_BULK_BYTES):
        raise ValueError("an instruction that moves more than one can")
    if len(trace.tensors) > 1000 or copied.sum() > MOST_UNPACKED:
        raise ValueError("more tensors, or bytes, than there can be")
    return trace


def _within(numbers: np.ndarray, most: int) -> bool:
    return bool(((numbers >= 0) & (numbers <= most)).all())


def _finding(words: dict) -> Finding:
    kind, message, lines = (words[key] for key in ("kind", "message", "lines"))
    if not isinstance(kind, str) or not isinstance(message, str):
        raise ValueError("a finding without words")
    if not all([type(x) for x in line] == [str, int, str, str] for line in lines):
        raise ValueError("a line without words")
    return Finding(kind, message, tuple(Line(*line) for line in lines))
