"""What is read of Nsight Compute's pages, and the records of lines that are shown."""

from pathlib import Path

import pytest

from bench import lines
from bench.profile import NotProfiled
from quack_tutorial import card, machine_code, records
from quack_tutorial.records import compiled
from quack_tutorial.records import lines as kept

RAW = '"ID","Kernel Name",' + ",".join(f'"{metric}"' for metric in lines.LAUNCH.values())
HEAD = '"Address","Source","Instructions Executed","L2 Theoretical Sectors Global","stall_long_sb","stall_drain"'
HEAD += ',"stall_drain (Not Issued)"'
MARKED = '"0x1","  EXIT","4","0","0","0","0"\n'
KERNEL = (
    '"0x10","  LDG.E R2, [R2]","8","64","1","0","0"\n"0x20","  FADD R3, R2, R2","8","0","6","0","0"\n'
    '"0x30","  EXIT","8","0","0","0","0"\n"0x40","  BRA 0x40","0","0","0","3","3"\n'
)
JOINED = '"Line No","Source","Address"\n"{0}","x = y","-"\n"","","0x10"\n"","","0x20"\n"{1}","asm","-"\n"","","0x30"\n'


def pages(file, first=2, second=4):
    """The three pages of a report: a mark, which has no line information and is listed twice, and a kernel."""
    every = enumerate((lines.MARK, "k"))
    raw = RAW + '\n"",""\n' + "\n".join(f'"{n}","{name}","2000","40","64","9"' for n, name in every)
    every = (("m", MARKED), ("m", MARKED), ("k", KERNEL))
    sass = "".join(f'"Kernel Name","{name}",\n{HEAD}\n{code}' for name, code in every)
    return raw, sass, f'"File Path","{file}"\n"Function Name","k"\n' + JOINED.format(first, second)


def test_instructions_have_their_counters_and_lines():
    mark, launch = lines.parse(*pages("/a/kernel.py"))
    found = (mark.name, launch.facts)
    assert found == (lines.MARK, {"ns": 2000, "registers": 40, "threads": 64, "blocks": 9})
    wanted = [(("/a/kernel.py", 2), "LDG.E R2, [R2]"), (("/a/kernel.py", 2), "FADD R3, R2, R2")]
    wanted += [(("/a/kernel.py", 4), "EXIT"), (None, "BRA 0x40")]
    assert [(place, text) for _, place, text, _ in launch.code] == wanted
    load, add, end, behind = (counters for *_, counters in launch.code)
    assert (load["sectors"], add["samples"], add["stalls"]["long_sb"]) == (64, 6, 6)
    # the warp had ended
    assert end["stalls"]["drain"] == end["samples"] == 3 and behind["samples"] == 0


def test_a_row_adds_up_lines_and_puts_instructions_where_their_text_stands(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("def kernel():\n    x = y\n    inline(  # text in PTX\n        1)\n")
    _, launch = lines.parse(*pages(tmp_path / "launches.py"))
    places = {("launches.py", 4): (str(file), 3), ("", 2): (str(file), 2)}
    ptx = {(str(file), 2): ["ld.global.f32 %f1, [%rd1];"] * 20}
    sources = {}
    row = lines.row_of(launch, sources, lines.Compiled("0", places, ptx))
    places = [("x = y", 0), ("inline(  # text in PTX", 0)]
    assert list(sources) == [("kernel.py", "kernel", *place) for place in places]
    first, second, unknown = row["lines"]
    found = (first["executed"], first["samples"], first["sectors"], first["instructions"])
    assert found == (16, 7, 64, 2)
    assert [entry[0] for entry in first["sass"]] == [0, 1] and len(first["ptx"]) == lines.MOST
    assert second["stalls"] == {"drain": 3} and unknown["source"] == -1


def test_pages_that_do_not_fit_together_are_refused():
    raw, sass, joined = pages("/a/kernel.py")
    with pytest.raises(NotProfiled, match="of 2 of 1 launches"):
        lines.parse("\n".join(raw.splitlines()[:-1]), sass, joined)


def test_a_text_in_ptx_is_one_line_of_source():
    ptx = (
        '.file 1 "/a.py"\n.entry k\n\t.loc 1 5 0\n\tmov.b32 %r1, 0;\n\t.loc 1 7 0\n\t// begin inline asm\n'
        "\t.loc 1 9 0\n\tmbarrier.try_wait P1, [%r1], 0;\n\t// end inline asm\n\t.loc 1 8 0\n\tret;\n"
    )
    counted_on = {}
    found = {text.strip(): place for text, place in machine_code.located(ptx, counted_on) if place}
    assert found["mbarrier.try_wait P1, [%r1], 0;"] == ("/a.py", 7)
    assert found["ret;"] == ("/a.py", 8)
    assert counted_on == {("/a.py", 9): ("/a.py", 7)}


@pytest.mark.parametrize("name", [name for name in records.cards() if (records.FOLDER / name / "lines").is_dir()])
def test_recorded_lines_are_those_of_todays_kernels(name):
    made = compiled.load()
    root = Path(records.__file__).parents[2]
    with card.taken_for(name):
        for file in sorted((records.FOLDER / name / "lines").glob("*.json")):
            record = kept.Lines.read(file)
            for row in record.rows:
                entry = made.find(row.operation, row.version, row.dtype, row.N)
                if entry and len(row.launches) == 1:
                    found = entry.ptx_sha256
                    assert found == row.ptx_sha256, (file.name, row.version, row.dtype, row.N)
            lines = {(line.file, line.text) for row in record.rows for line in row.main.lines}
            for line in {line for line in lines if line[0]}:
                assert line[1] in (root / line[0]).read_text(), line
