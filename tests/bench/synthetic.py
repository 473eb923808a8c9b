"""Made-up records for the tests of reading and reporting. No number here was measured."""

from dataclasses import replace

from quack_tutorial.records.bench import Cell, Record, Result, ok_result
from quack_tutorial.records.cells import BEFORE, CellKey, bytes_moved

ROUNDS = 11
# the same for all: a drift that pairing removes
WOBBLE = [1 + 0.001 * ((7 * i) % 11 - 5) for i in range(ROUNDS)]


def samples(us):
    """Samples around `us` microseconds that drift together."""
    return [us * wobble for wobble in WOBBLE]


def cell(
    dtype="bfloat16",
    M=8192,
    N=4096,
    ours_us=40.0,
    peers_us=None,
    ceiling_us=38.0,
    refused=(),
    operation="softmax",
    **more,
):
    """A cell in which ours takes `ours_us` and peers what `peers_us` says; None for ours: unsupported."""
    moved = bytes_moved(CellKey(operation, dtype, M, N))
    ceiling_samples = tuple(float(f"{s:.5g}") for s in samples(ceiling_us))
    ceiling_gb_s = float(f"{moved / sorted(ceiling_samples)[ROUNDS // 2] / 1e3:.5g}")
    times = {"ours": ours_us, **({"eager": 60.0, "quack": 41.0} if peers_us is None else peers_us)}
    results = [
        ok_result(name, samples(us), moved, ceiling_gb_s, 4800, error=0.5)
        if us is not None
        else Result(name, "unsupported", "ValueError: N must be at most 16384")
        for name, us in times.items()
    ]
    made = Cell(
        dtype=dtype,
        M=M,
        N=N,
        bytes_moved=moved,
        measured="2020-01-01T00:00:00+00:00",
        launches=75,
        slots=3,
        before=BEFORE,
        ceiling="copy, 2048 words, 4 warps",
        ceiling_gb_s=ceiling_gb_s,
        ceiling_samples_us=ceiling_samples,
        results=(*results, *refused),
    )
    return replace(made, **more)


def record(*cells, **more):
    """A record of a GPU that does not exist, with the H200's datasheet."""
    made = Record(
        operation="softmax",
        series="peers",
        device="Synthetic GPU",
        driver="0.0",
        datasheet_gb_s=4800,
        l2_bytes=62914560,
        sms=132,
        versions={"torch": "0.0", "quack-kernels": "0.0"},
        date="2020-01-01",
        command="quack-tutorial bench softmax",
        timer="none: made up",
        cells=cells,
    )
    return replace(made, **more)
