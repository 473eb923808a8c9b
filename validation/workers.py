"""Jobs on a GPU in processes of their own: a kernel that fails, hangs or takes the process with it costs its own result only.

A worker process takes numbered jobs one after another and says of each one line of JSON. When it dies, or a job does not
come back, that is the job's result, and a fresh worker goes on with the next.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading

START_S = 120  # a worker's first sign of life
LAUNCHED = "now launching"  # said when all that is slow about starting is behind it
ALL_DONE = "all calls returned"
ALL_CORRECT = "all-correct"  # in place of a fault's name: the twins of all


class NoWorker(Exception):
    """No worker could start."""


# ---- in the worker --------------------------------------------------------------------------------------------------


def work(numbers, do, device: str = "cuda") -> None:
    """Say what `do(number)`, a dict, gives for each number; one that raises has failed. Ends when the GPU is lost."""
    import torch

    torch.set_num_threads(1)
    torch.zeros(1, device=device)
    say({"ready": True})
    for number in numbers:
        try:
            said = do(number)
        except Exception as error:  # the compiler's or the GPU's: it is this job's result
            said = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        say({"number": number, **said})
        if "failed" in said and not alive(device):
            return  # the CUDA context is lost; a fresh worker goes on


def alive(device: str) -> bool:
    """Whether the device still computes."""
    import torch

    try:
        torch.zeros(1, device=device).cpu()
    except Exception:
        return False
    return True


def say(line: dict) -> None:
    """Write one line for the process that waits."""
    print(json.dumps(line), flush=True)


def numbers(text: str) -> range:
    """The jobs that a worker is told to do: "first:end:step"."""
    return range(*map(int, text.split(":")))


# ---- in the process that waits --------------------------------------------------------------------------------------


class Worker:
    """A worker process and the lines it has said."""

    def __init__(self, command: list, jobs: range):
        command = [*command, f"{jobs.start}:{jobs.stop}:{jobs.step}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # the rest is the compiler's or the kernel's talk
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, seconds: int):
        """Its next line; None when it ended, "late" when it took too long."""
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return "late"

    def end(self):
        self.process.kill()
        self.process.wait()


def results(command: list, jobs: range, each_s: int):
    """(number, line) of every job, through as many workers as it takes; `command` plus the numbers starts one.

    A job has `each_s` seconds. Raises NoWorker.
    """
    while jobs:
        running = Worker(command, jobs)
        if not isinstance(running.next(START_S), dict):
            running.end()
            raise NoWorker("no worker could start; see the lines above")
        while jobs:
            line = running.next(each_s)
            number = jobs[0]
            if isinstance(line, dict):
                yield number, line
            elif line == "late":
                yield number, {"failed": f"did not come back within {each_s} s"}
            elif running.process.wait() != 0:
                yield number, {"failed": f"its process ended with status {running.process.returncode}"}
            else:
                break  # the worker gave up after a failure that it has said
            jobs = jobs[1:]
            if not isinstance(line, dict):
                break
        running.end()
