"""Many cells through worker processes, which are started again when a provider takes them down.

All providers of a cell run in one process. When that process dies or stops answering, the provider it was busy with
is left out and the cell measured again; the record then says "crashed" for it. Several workers share the GPU's memory: a cell
for which there may not be enough beside those that are being measured waits. One that runs out of it all the same is measured
again, alone, once workers that are idle have been ended.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from bench.gpu_lock import LOCK
from bench.peers.setups import WORKER_ENVIRONMENT
from quack_tutorial import hardware
from quack_tutorial.compiler import DUMP_FOLDER
from quack_tutorial.records.bench import Cell, Result

# No step takes this long, QuACK's tuning included; a worker silent for longer hangs.
SILENCE_S = 300
STARTING, WAITING = "starting", "waiting"  # for a worker that has the GPU
# What a worker announces that is not a provider.
STEPS = (STARTING, WAITING, "inputs", "ceiling", "timing", "do_bench", "hashes")
COMPILE_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"
SWEEPS = "QUACK_TUTORIAL_BENCH_SWEEPS"  # the environment's name for the file in which workers tell each other, see `ceilings`
# GPU memory that a cell may take: so much, and so much for each element of its matrix, more for gradients. Torch's allocator held
# at most 49 bytes an element of large matrices (RMSNorm's backward, 16 bits, 8192 x 151936, an H200) and 5 to 15 GB for those of at
# most 2^28 elements. A cell that takes more is measured again, alone.
BYTES_A_CELL, BYTES_AN_ELEMENT, BYTES_OF_A_GRADIENT = 5e9, 30, 56


class WorkerDied(RuntimeError):
    """The worker ended or stopped answering; `doing` is the last thing it announced."""

    def __init__(self, reason, doing):
        super().__init__(reason)
        self.doing = doing


class Worker:
    """A worker process. `machine` is what it says about the device; `more` is added to its environment."""

    def __init__(self, command=None, more=None):
        command = command or [sys.executable, "-m", "bench.worker"]
        # A folder of its own for PTX: in a common one, workers that compile would wait for each other.
        self.dumped = tempfile.TemporaryDirectory(prefix="quack-tutorial-", ignore_cleanup_errors=True)
        # Nor do they find in each other's folders what inductor chose by timing.
        own = {DUMP_FOLDER: self.dumped.name, "TORCHINDUCTOR_CACHE_DIR": f"{self.dumped.name}/inductor"}
        environment = {**os.environ, **WORKER_ENVIRONMENT, **(more or {}), **own}
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
        )
        self.lines = queue.Queue()
        self.doing = None
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.machine = self._answer("machine")
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
        return self._answer("cell", on_step)

    def close(self):
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.dumped.cleanup()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            try:
                pipe.close()
            except OSError:  # what could not be written to a dead process is lost, as is right
                continue

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _answer(self, name, on_step=lambda what: None):
        """The message of this name, after others that say what is being done."""
        while True:
            message = self._next()
            if name in message:
                return message[name]
            self.doing = message["doing"]
            on_step(self.doing)

    def _next(self):
        try:
            # Who waits for the GPU is silent for as long as another has it, and that one is watched.
            line = self.lines.get(timeout=None if self.doing == WAITING else SILENCE_S)
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


def is_out_of_memory(message: str) -> bool:
    """Whether an error's text says that memory ran out: torch's, the driver's, Triton's and cuDNN's differ."""
    return re.search(r"out ?_?of ?_?memory|alloc_failed", message, re.IGNORECASE) is not None


@dataclass(frozen=True)
class Measured:
    """What came of one cell: the cell, or a message on why there is none; how long it took; and whether memory ran out, so that it
    is to be tried again."""

    key: object
    cell: object | None
    message: str
    seconds: float
    full: bool = False


def measure_cells(
    keys,
    providers,
    rounds=11,
    do_bench=True,
    limit_s=None,
    on_step=lambda key, what: None,
    start=Worker,
    workers=1,
    series="peers",
    made=None,
) -> Iterator[Measured]:
    """Measure `keys` with so many `workers`, which take turns on the GPU (see `gpu_lock`); results come as they are ready.

    Stops between two cells when the next would probably end after `limit_s`. `start` makes a worker. `providers` are
    names, or a function from a key to names. `made` gives what comes of a worker's dictionary, by default a `Cell`. RuntimeError
    when a worker does not even start.
    """
    names = providers if callable(providers) else lambda key: providers
    asked = {"rounds": rounds, "do_bench": do_bench, "series": series}
    with one_folder() as folder:
        sweep = _Sweep(deque(keys), names, asked, limit_s, on_step, start, workers, folder)
        sweep.made = made or sweep.cell_from
        threads = [threading.Thread(target=sweep.serve, args=(place,), daemon=True) for place in range(workers)]
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                while (found := sweep.found.get()) is not None:
                    if isinstance(found, Exception):
                        raise found
                    yield found
        finally:
            sweep.stop()


def memory_of(key) -> float:
    """The bytes of GPU memory that a cell may take."""
    each = BYTES_OF_A_GRADIENT if "backward" in key.operation else BYTES_AN_ELEMENT
    return BYTES_A_CELL + each * key.M * key.N


@contextmanager
def one_folder():
    """A folder for the workers that are started in here, with a file in which they tell each other what ceilings' sweeps found."""
    with tempfile.TemporaryDirectory(prefix="quack-tutorial-") as folder:
        os.environ[SWEEPS] = f"{folder}/sweeps"
        try:
            yield folder
        finally:
            del os.environ[SWEEPS]


class _Sweep:
    """What the threads, one a worker, share: the keys that are left, and a queue of what was found."""

    def __init__(self, keys, names, asked, limit_s, on_step, start, workers, folder):
        self.keys, self.names, self.asked, self.limit_s = keys, names, asked, limit_s
        self.on_step, self.start, self.share, self.folder = on_step, start, workers, folder
        self.began, self.longest = time.monotonic(), 0.0
        self.found = queue.Queue()
        self.lock, self.workers, self.running, self.stopped = threading.Condition(), {}, {}, False
        # Keys that ran out of memory beside others: they are tried once more, with a GPU for themselves.
        self.alone = set()
        self.machine = None  # what the first worker says

    def fits(self, key) -> bool:
        """Whether a key may be measured beside those that the GPU is busy with."""
        cells = [key, *self.running.values()]
        if len(cells) == 1 or self.alone.intersection(cells):
            return len(cells) == 1
        gpu = hardware.find(self.machine["device"])
        return gpu is None or sum(map(memory_of, cells)) <= gpu.memory_gb * 1e9

    def serve(self, place):
        """Measure keys at one place until none is left or the time is up; then None in the queue says so."""
        try:
            self.begin(place)
            while (key := self.next_key(place)) is not None:
                measured = self.measure(key, place)
                with self.lock:
                    self.longest = max(self.longest * 0.5, measured.seconds)
                    if measured.full:
                        self.alone.add(key)
                        self.keys.append(key)
                self.leave(place)
                if not measured.full:
                    self.found.put(measured)
        except Exception as error:  # whatever it is, the one who waits for results must hear of it
            self.found.put(error)
        finally:
            self.end(place)
            self.leave(place)
            self.found.put(None)

    def next_key(self, place):
        """The first key that fits, once there is one; None if none is left, or time."""
        with self.lock:
            while True:
                late = self.limit_s is not None and time.monotonic() - self.began + self.longest > self.limit_s
                if self.stopped or late or not self.keys:
                    return None
                key = next((key for key in self.keys if self.fits(key)), None)
                if key is not None:
                    self.keys.remove(key)
                    self.running[place] = key
                    return key
                self.lock.wait()

    def leave(self, place):
        """No key is running at the place any more: those who wait for it look again."""
        with self.lock:
            self.running.pop(place, None)
            self.lock.notify_all()

    def measure(self, key, place):
        before = time.monotonic()
        cell, message, crashed, full = None, "", {}, False
        alone = key in self.alone
        if alone:
            self.end_idle()

        while cell is None and not message:
            try:
                if place not in self.workers:  # it was ended while it had no key
                    self.begin(place)
                asked = {"cell": asdict(key), "providers": list(self.names(key)), "crashed": crashed, "alone": alone}
                answer = self.workers[place].measure(asked | self.asked, lambda what: self.on_step(key, what))
                cell = self.made(answer)
            except WorkerDied as died:
                self.end(place)
                self.begin(place)
                # It is not the provider's fault, see `measure`.
                full = is_out_of_memory(str(died)) and not alone
                if died.doing in (None, *STEPS) or died.doing in crashed or full:
                    message = f"{died} (while busy with {died.doing or 'starting'})"
                else:
                    crashed = {**crashed, died.doing: str(died)}
        return Measured(key, cell, message, time.monotonic() - before, full)

    def begin(self, place):
        with self.lock:
            if self.stopped:
                raise RuntimeError("stopped")
        try:
            worker = self.start(**self.own())
        except WorkerDied as died:
            raise RuntimeError(f"the measuring process does not start: {died}") from died
        with self.lock:
            self.workers[place] = worker
            self.machine = self.machine or worker.machine

    def own(self) -> dict:
        """What workers that share the GPU are told: its lock, and how many processors are theirs."""
        if self.share == 1:
            return {}
        return {"more": {LOCK: f"{self.folder}/gpu", COMPILE_THREADS: str(max(1, (os.cpu_count() or 1) // self.share))}}

    def end_idle(self):
        """End the workers without a key, whose processes hold memory all the same; each is started again with its next one."""
        with self.lock:
            idle = [self.workers.pop(place) for place in list(self.workers) if place not in self.running]
        for worker in idle:
            worker.close()

    def end(self, place):
        with self.lock:
            worker = self.workers.pop(place, None)
        if worker is not None:
            worker.close()

    def stop(self):
        """End all workers; the threads that wait for them end with them."""
        with self.lock:
            self.stopped = True
            self.lock.notify_all()
        for place in list(self.workers):
            self.end(place)

    def cell_from(self, data: dict) -> Cell:
        results = tuple(Result(**{**r, "samples_us": tuple(r["samples_us"])}) for r in data["results"])
        workers = self.share if self.share > 1 else None
        shared = {"results": results, "ceiling_samples_us": tuple(data["ceiling_samples_us"])}
        return Cell(**data | shared | {"workers": workers})
