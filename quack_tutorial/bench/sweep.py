"""Many cells through one worker process, which is started again when a provider takes it down.

All providers of a cell run in one process. When that process dies or stops answering, the provider it was busy with is
left out and the cell measured again; the record then says "crashed" for it.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from quack_tutorial.bench.operations import CellKey
from quack_tutorial.bench.peers import MULTI_KERNEL
from quack_tutorial.bench.records import Cell, Result

SILENCE_S = 180  # no step takes this long; a worker silent for longer hangs
STEPS = ("ceiling", "timing")  # what a worker announces that is not a provider


class WorkerDied(RuntimeError):
    """The worker ended or stopped answering; `doing` is the last thing it announced."""

    def __init__(self, reason, doing):
        super().__init__(reason)
        self.doing = doing


class Worker:
    """A worker process. `machine` is what it says about the device."""

    def __init__(self, command=None):
        command = command or [sys.executable, "-m", "quack_tutorial.bench.worker"]
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, MULTI_KERNEL: "1"},
        )
        self.lines = queue.Queue()
        self.doing = None
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.machine = self._next()["machine"]
        except WorkerDied:
            self.close()
            raise

    def measure(self, request: dict, on_step=lambda what: None) -> dict:
        """Send a request and return the cell that comes back, as a dictionary; WorkerDied if none does."""
        self.doing = None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise WorkerDied(self._reason(), None) from None
        while True:
            message = self._next()
            if "cell" in message:
                return message["cell"]
            self.doing = message["doing"]
            on_step(self.doing)

    def close(self):
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            try:
                pipe.close()
            except OSError:  # what could not be written to a dead process is lost, as is right
                continue

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _next(self):
        try:
            line = self.lines.get(timeout=SILENCE_S)
        except queue.Empty:
            self.process.kill()
            raise WorkerDied(f"no answer in {SILENCE_S} s", self.doing) from None
        if line is None:
            raise WorkerDied(self._reason(), self.doing)
        return json.loads(line)

    def _reason(self):
        """What the process said last, or how it ended."""
        code = self.process.wait()
        self.errors.seek(0)
        said = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        errors = [line for line in said if re.match(r"[\w.]*(Error|Exception)\b", line)]
        return (errors or said or [f"the process ended with status {code}"])[-1][:160]


@dataclass(frozen=True)
class Measured:
    """What came of one cell: the cell, or a message on why there is none; and how long it took."""

    key: CellKey
    cell: Cell | None
    message: str
    seconds: float


def measure_cells(
    keys, providers, rounds=11, do_bench=True, limit_s=None, on_step=lambda key, what: None, start=Worker
) -> Iterator[Measured]:
    """Measure `keys` one after another; stops between two when the next would probably end after `limit_s`.

    `start` makes a worker. RuntimeError when a worker does not even start.
    """
    started, longest = time.monotonic(), 0.0
    worker = _start(start)
    try:
        for key in keys:
            before = time.monotonic()
            if limit_s is not None and before - started + longest > limit_s:
                return
            cell, message, crashed = None, "", {}
            while cell is None and not message:
                request = {"cell": asdict(key), "providers": list(providers), "rounds": rounds}
                request |= {"do_bench": do_bench, "crashed": crashed}
                try:
                    cell = cell_from(worker.measure(request, functools.partial(on_step, key)))
                except WorkerDied as died:
                    worker.close()
                    worker = _start(start)
                    if died.doing in (None, *STEPS) or died.doing in crashed:
                        message = f"{died} (while busy with {died.doing or 'starting'})"
                    else:
                        crashed = {**crashed, died.doing: str(died)}
            seconds = time.monotonic() - before
            longest = max(longest * 0.5, seconds)
            yield Measured(key, cell, message, seconds)
    finally:
        worker.close()


def _start(start):
    try:
        return start()
    except WorkerDied as died:
        raise RuntimeError(f"the measuring process does not start: {died}") from died


def cell_from(data: dict) -> Cell:
    """A cell from what a worker sends."""
    results = tuple(Result(**{**r, "samples_us": tuple(r["samples_us"])}) for r in data["results"])
    return Cell(**{**data, "ceiling_samples_us": tuple(data["ceiling_samples_us"]), "results": results})
