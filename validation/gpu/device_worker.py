"""A worker of the suite `device`: `python -m validation.gpu.device_worker all|sample first:end:step`."""

from __future__ import annotations

import dataclasses
import sys

from validation import workers
from validation.gpu import device


def main() -> None:
    """Compare the kernels with these numbers on both sides; one line of JSON each."""
    wanted = device.jobs(sys.argv[1] == "sample")

    def compare(number):
        _, _, run, given = wanted[number]
        return dataclasses.asdict(run(given))

    workers.work(workers.numbers(sys.argv[2]), compare)


if __name__ == "__main__":
    main()
