"""Counting in machine code: by hand, against what ptxas says, and of the kernels of chapter 1."""

import pytest

from quack_tutorial import machine_code
from quack_tutorial.records import listings

BY_HAND = """
LDG.E.64 R2, desc[UR4][R8.64] ;
@P1 LDG.E.128 R4, desc[UR4][R8.64+0x10] ;
IADD3 R8, P0, R8, 0x20, RZ ;
LDG.E.U16 R12, desc[UR4][R8.64] ;
FADD R3, R3, R12 ;
.L_x_1:
LDG.E.LTC128B R13, desc[UR4][R10.64] ;
STG.E.128 desc[UR4][R10.64], R4 ;
@P0 BRA `(.L_x_1) ;
LDG.E R14, desc[UR4][R10.64] ;
EXIT ;
.L_x_2:
LDG.E R15, desc[UR4][R13.64] ;
@!PT LDS RZ, [RZ] ;
LDS.128 R16, [R15] ;
STL.64 [R1], R16 ;
""".strip().splitlines()


def test_loads_wait_until_what_they_bring_is_read():
    """Three; then one beside the vector, which still waits, until it is stored; one beside that; one that nothing waits for."""
    assert machine_code.in_flight(BY_HAND) == (3, 2, 2, 1)
    counts = {"loads in flight": 3, "loads of 16 bytes": 1}
    counts |= {"loads of 8 bytes": 1, "loads of 4 bytes": 3}
    counts |= {"loads of 2 bytes": 1, "stores of 16 bytes": 1}
    counts |= {"loads from shared memory": 1, "spills": 1}
    assert machine_code.counts(BY_HAND) == counts
    table = machine_code.show({"one": machine_code.Code(18, sass=tuple(BY_HAND)), "none": machine_code.Code(2)})
    assert [line.split()[-2:] for line in table.splitlines()[:2]] == [["one", "none"], ["18", "2"]]


def test_a_conversion_that_the_compiler_gives_no_line_is_at_the_line_of_its_load(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("@cute.kernel\ndef kernel():\n    x = y\n    z = 1\n")
    code = (
        ("LDG.E.64 R4, desc[UR4][R2.64] ;", 3),  # writes R4 and R5
        ("IMAD.U32 R6, R5, 0x10000, RZ ;", 1),  # converts
        ("IADD3 R7, R4, R4, RZ ;", 1),  # comes second
        ("LDS R8, [R7] ;", 4),
        ("FADD R9, R8, R8 ;", 3),  # has a line
        ("EXIT ;", 1),
    )
    places = machine_code.placed([text for text, _ in code], [(str(file), line) for _, line in code])
    assert [line for _, line in places] == [3, 3, 1, 4, 3, 1]


def test_the_fifth_load_of_chapter_1_s_lowest_mark_takes_the_registers_of_the_first():
    at_once = {name: max(machine_code.in_flight(code.sass)) for name, code in listings.counted().items()}
    assert at_once == {"a plain loop": 1, "unroll=4": 1, "four a turn": 4, "stream 16 x 8": 4}
    every = listings.counted()["stream 16 x 8"].sass
    lines = [line for line in every if line.startswith(("LDG", "FADD"))]
    wide = [place for place, line in enumerate(lines) if line.startswith("LDG.E.128")]
    loads = {place: lines[place].split(",")[0] for place in wide}
    assert len(loads) == 8 and list(loads)[:5] == [0, 1, 2, 3, 9]
    assert loads[0] == loads[9] == "LDG.E.128 R8"


def test_chapters_3_and_5_name_what_their_listings_have():
    copied, reduced = (listings.load(name) for name in ("copy-vectors", "softmax-registers"))
    wanted = {"loads in flight": 4, "loads of 16 bytes": 4, "stores of 16 bytes": 4}
    assert machine_code.counts(copied.sass) == wanted
    counts = machine_code.counts(reduced.sass)
    assert (counts["barriers of a block"], counts["shuffles"]) == (1, 14)


def test_what_is_counted_is_what_is_compiled():
    pytest.importorskip("cutlass")
    from bench import ours
    from bench.memory import compiled_cases
    from quack_tutorial import compiler

    record = listings.read(listings.COUNTED)
    steered = record["steered_kernel"]
    kept = {one["name"]: one["ptx_sha256"] for one in (*record["kernels"], steered)}
    cases = [case for case in compiled_cases() if case[0] in kept]
    made = {name: compiler.ptx(kernel, *specs) for name, kernel, specs in cases}
    operation, version, dtype, N = steered["name"].split()
    made[steered["name"]] = ours.ptx(operation, version, dtype, int(N))[0]
    found = {name: compiler.ptx_hash(text) for name, text in made.items()}
    assert found == kept, "run scripts/record_listing.py again"


@pytest.fixture
def of():
    """`machine_code.of`, where the compilers are."""
    pytest.importorskip("cutlass")
    if problem := machine_code.missing():
        pytest.skip(problem)
    return machine_code.of


def test_chapter_1_s_other_marks_load_first_and_its_barriers_fence_where_they_release(of):
    from bench.memory import compiled_cases

    for name, kernel, specs in compiled_cases():
        if name.startswith("stream"):
            counts = machine_code.counts(of(kernel, *specs).sass)
            nbytes, loads = map(int, name.removeprefix("stream ").split(" x "))
            assert counts[f"loads of {nbytes} bytes"] == loads
            assert counts["loads in flight"] == (4 if (nbytes, loads) == (16, 8) else loads)
        elif name in ("cluster (True, 4, 256)", "cluster (False, 4, 256)", "barrier 256"):
            counts = machine_code.counts(of(kernel, *specs).sass)
            arrivals = counts.get("arrivals at a cluster's barrier", 0)
            assert (arrivals > 0) == name.startswith("cluster")
            found = counts.get("waits at a cluster's barrier", 0)
            assert found == counts.get("L1 emptied", 0) == arrivals
            assert counts.get("fences of the whole GPU", 0) == ("True" in name) * arrivals


def test_spills_are_the_stores_and_loads_of_local_memory(of):
    import cutlass

    from quack_tutorial import compiler
    from quack_tutorial.kernels.softmax import LADDER

    spec = compiler.TensorSpec("float32", ("M", 131072), ("stride", 1))
    code = of(LADDER["registers"](cutlass.Float32, 131072), spec, spec)
    names = [found[2] for line in code.sass if (found := machine_code.INSTRUCTION.match(line))]
    spilled = sum(machine_code.moved_bytes(name) for name in names if name.startswith("STL"))
    loaded = sum(machine_code.moved_bytes(name) for name in names if name.startswith("LDL"))
    assert (spilled, loaded) == (code.spill_store_bytes, code.spill_load_bytes) and spilled > 0
