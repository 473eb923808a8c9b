"""The machine code (SASS) that ptxas makes of a kernel's PTX, and what can be counted in it. No GPU is needed.

`of` compiles a kernel with CuTe DSL, ptxas and nvdisasm; `in_flight`, `counts` and `show` count in any listing. So
`print(show({"mine": of(kernel, x, out)}))` says what became of a reader's kernel. What stands in the code is counted once, however
often it runs. Where a kernel waits at a cluster's barrier, ptxas also writes a block's, for a launch without clusters.
"""

from __future__ import annotations

import ast
import importlib.util
import linecache
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from quack_tutorial import compiler

# Where Python packages keep the tools: `nvidia-cuda-nvcc` and `nvidia-cuda-nvdisasm`, and triton, which comes with torch for CUDA.
PACKAGED = {"nvidia": "*/bin", "triton": "backends/nvidia/bin"}
LOCATION = re.compile(r'\s*//## File "([^"]+)", line (\d+)')
PTX_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
ASM = {"// begin inline asm": True, "// end inline asm": False}
LIVE = re.compile(r";.*// \|\s*(\d*)\s*\|")
LABEL = re.compile(r"\.L_x_\d+:")
INSTRUCTION = re.compile(r"(@\S+ )?([A-Z][\w.]*)\s*(.*?) ?;")
REGISTER = re.compile(r"\bR(\d+)(\.64)?")
WIDTH = re.compile(r"\.[US]?(8|16|64|128)(?=\.|$)")
ENDS = ("BRA", "EXIT", "RET", "BRX", "JMP")  # what ends a stretch of code
STORES = ("ST", "RED", "ATOM")  # instructions that read all their operands
COUNTED = {  # how the table calls an instruction: what its name begins with
    "copies to shared memory, of a thread": "LDGSTS",
    "bulk copies to shared memory": "UBLKCP.S",
    "bulk copies to global memory": "UBLKCP.G",
    "atomics": ("RED", "ATOM"),
    "loads from shared memory": "LDS",
    "stores to shared memory": "STS",
    "shuffles": "SHFL",
    "barriers of a block": "BAR",
    "arrivals at a cluster's barrier": "UCGABAR_ARV",
    "waits at a cluster's barrier": "UCGABAR_WAIT",
    "fences of the whole GPU": "MEMBAR.ALL.GPU",
    "L1 emptied": "CCTL.IVALL",
    "spills": "STL",
    "spilled values loaded": "LDL",
}


@dataclass(frozen=True)
class Code:
    """What ptxas makes of a kernel. Registers, bytes spilled and local bytes (of arrays and spills, in memory of its own) are of a
    thread, shared memory is a block's static one."""

    registers: int
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    smem_bytes: int = 0
    local_bytes: int = 0
    sass: tuple[str, ...] = ()  # instructions and labels; none where nvdisasm is missing
    places: tuple[tuple[str, int] | None, ...] = ()  # (file, line) of the source of each
    live: tuple[int, ...] = ()  # registers of a thread that hold a value at each; 0 at labels


SAID = (r"Used (\d+) registers", r"(\d+) bytes spill stores")
SAID += (r"(\d+) bytes spill loads", r"(\d+) bytes smem", r"(\d+) bytes stack frame")


def tool(name: str) -> str | None:
    """Where `ptxas` or `nvdisasm` is: on the PATH or in a Python package; None if nowhere."""
    if found := shutil.which(name):
        return found
    for package, folder in PACKAGED.items():
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations if spec else ():
            # Triton brings a newer one for Blackwell, `ptxas-blackwell`, which takes the PTX that its `ptxas` is too old for.
            for file in sorted(Path(place).glob(f"{folder}/{name}*"), reverse=True):
                return str(file)
    return None


def tools() -> dict[str, str]:
    """{tool: its release} of those that are here."""
    said = {
        name: subprocess.run([found, "--version"], capture_output=True, text=True).stdout
        for name in ("ptxas", "nvdisasm")
        if (found := tool(name))
    }
    return {name: re.search(r"release ([\d.]+)", text)[1] for name, text in said.items()}


def missing() -> str | None:
    """One sentence on what a listing needs and is not here, or None."""
    packages = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}
    lacks = [name for name in packages if tool(name) is None]
    if not lacks:
        return None
    return f"{' and '.join(lacks)} cannot be found: pip install {' '.join(packages[name] for name in lacks)}."


def assembled(ptx: str, listed=True) -> Code | None:
    """The machine code of the one kernel in PTX, `listed` or only counted; None on a machine without ptxas."""
    ptxas, nvdisasm = tool("ptxas"), listed and tool("nvdisasm")
    if ptxas is None:
        return None
    arch = re.search(r"\.target\s+(\w+)", ptx).group(1)
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        command = [ptxas, "-v", "-lineinfo", f"-arch={arch}", str(source), "-o", str(binary)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ptxas refused the PTX: {done.stderr.strip()}")
        text, ranges = (
            subprocess.run([nvdisasm, "-c", *option, str(binary)], check=True, capture_output=True, text=True).stdout
            if nvdisasm
            else ""
            for option in (["-g"], ["-lrm", "count"])
        )
    said = [int(found[1]) if (found := re.search(each, done.stderr)) else 0 for each in SAID]
    sass, places, place = [], [], None
    for line in text.splitlines():
        if location := LOCATION.match(line):
            place = location[1], int(location[2])
        line = re.sub(r"/\*.*?\*/", "", line).strip()
        if line.endswith(";") or LABEL.match(line):
            sass.append(line)
            places.append(place if line.endswith(";") else None)
    counts = iter([int(found[1] or 0) for line in ranges.splitlines() if (found := LIVE.search(line))])
    live = tuple(next(counts, 0) if line.endswith(";") else 0 for line in sass)
    return Code(*said, tuple(sass), tuple(placed(sass, places)), live)


def of(host_fn, *args) -> Code:
    """The machine code of a kernel: `args` are torch tensors, or specs of them, and scalars, as for `compiler.ptx`."""
    if problem := missing():
        raise RuntimeError(problem)
    return assembled(compiler.ptx(host_fn, *args))


def entry(ptx: str) -> str:
    """The generated name of the one kernel in PTX."""
    return re.search(r"\.entry\s+([\w$]+)", ptx).group(1)


def located(ptx: str, elsewhere: dict | None = None) -> list[tuple[str, tuple[str, int] | None]]:
    """The lines of PTX without comments and blank ones, with the kernel's name shortened; and where in the source each is from.

    Of a text in PTX's own language the compiler counts the lines on from the one where it stands; all are from that one.
    `elsewhere` gets {(file, line) that is counted so: (file, line) where the text stands}.
    """
    files = dict(re.findall(r'\.file\s+(\d+)\s+"([^"]+)"', ptx))
    body = ptx.replace(entry(ptx), "kernel").split(".section", 1)[0]
    found, place, in_asm = [], None, False
    for line in body.splitlines():
        in_asm = ASM.get(line.strip(), in_asm)
        if location := PTX_LOCATION.match(line):
            said = files[location[1]], int(location[2])
            if not in_asm:
                place = said
            elif elsewhere is not None:
                elsewhere[said] = place
            continue
        line = line.split("//")[0].rstrip()
        if line and not line.startswith("\t.file"):
            found.append((line, place if line.startswith("\t") and line.endswith(";") else None))
    return found


@cache
def _functions(file: str) -> tuple[list[str], list[tuple[int, int, str]]]:
    """The lines of a file, and (first line, last line, name) of its functions, outer ones first."""
    text = "".join(linecache.getlines(file))  # which has a notebook's cells, too
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    found = [(min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.end_lineno, n.name) for n in nodes]
    return text.splitlines(), sorted(found)


def source_line(file: str, number: int) -> tuple[str, str, int]:
    """(function, text, which of its lines with this text) of a line; of a `def` or its decorator, the text is what stands there."""
    lines, functions = _functions(file)
    inside = [function for function in functions if function[0] <= number <= function[1]]
    first, _, name = inside[-1] if inside else (1, 0, "")
    text = lines[number - 1].strip()
    return name, text, sum(line.strip() == text for line in lines[first - 1 : number - 1])


def moved_bytes(name: str) -> int:
    """How many bytes a thread moves by an instruction of that name."""
    width = WIDTH.search(name)
    return int(width[1]) // 8 if width else 4


def _parts(line: str) -> tuple[str | None, str, set[int], set[int]] | None:
    """(guard, name, numbers of the registers written, and read) of an instruction; None of a label. Of what is not a load only the
    first register that it writes."""
    if (instruction := INSTRUCTION.match(line)) is None:
        return None
    guard, name, operands = instruction.groups()
    operands = [one for one in operands.split(", ") if not re.fullmatch(r"!?U?P[\dT]", one)]
    target = None if name.startswith(STORES) or not operands else REGISTER.match(operands[0])
    reads = operands[1:] if target else operands
    read = {int(r[1]) + k for r in REGISTER.finditer(", ".join(reads)) for k in range(2 if r[2] else 1)}
    width = max(1, moved_bytes(name) // 4) if name.startswith("LD") else 1
    return guard, name, set(range(int(target[1]), int(target[1]) + width)) if target else set(), read


def placed(sass, places) -> list:
    """The places of instructions, where one that the compiler gives no line, but the decorator's, is at the line of the load whose
    value it is the first to read: that is where a conversion of what was loaded is lost."""
    places, loaded = list(places), {}  # register -> the load that its value is from
    for n, line in enumerate(sass):
        if (parts := _parts(line)) is None:
            continue
        _, name, written, read = parts
        of = {loaded[register] for register in read & loaded.keys()}
        if of and (places[n] is None or source_line(*places[n])[1].startswith("@cute.")):
            places[n] = places[max(of)] or places[n]
        loaded = {register: load for register, load in loaded.items() if load not in of and register not in written}
        if name.startswith(("LDG", "LDS")):
            loaded |= dict.fromkeys(written, n)
    return places


def in_flight(sass) -> tuple[int, ...]:
    """The most loads from global memory that wait at once, in each stretch of code that has loads.

    A load waits until an instruction reads what it brings. A stretch ends at a label or a branch; what still waits there waits on,
    unless every thread takes the branch.
    """
    waiting, most = [], [0]
    for line in sass:
        if (parts := _parts(line)) is None:  # a label
            most.append(0)
            continue
        guard, name, written, read = parts
        waiting = [target for target in waiting if not target & read]
        if name.startswith("LDG."):
            waiting.append(written)
            most[-1] = max(most[-1], len(waiting))
        elif name.startswith(ENDS):
            most.append(0)
            waiting = waiting if guard else []
    return tuple(filter(None, most))


def counts(sass) -> dict[str, int]:
    """What stands in the listing, by the names of the table; what it has nothing of is left out."""
    found = [INSTRUCTION.match(line) for line in sass]
    names = [one[2] for one in found if one and one[1] != "@!PT "]  # which never runs
    found = {"loads in flight": max(in_flight(sass), default=0)}
    for kind, start in (("loads", "LDG."), ("stores", "STG.")):
        for nbytes in (16, 8, 4, 2, 1):
            found[f"{kind} of {nbytes} bytes"] = sum(
                name.startswith(start) and moved_bytes(name) == nbytes for name in names
            )
    found |= {label: sum(name.startswith(start) for name in names) for label, start in COUNTED.items()}
    return {label: count for label, count in found.items() if count}


def show(codes: dict[str, Code]) -> str:
    """A table of `counts` and registers, with a column for each named code."""
    columns = {name: {"registers": code.registers} | counts(code.sass) for name, code in codes.items()}
    labels = list(dict.fromkeys(label for column in columns.values() for label in column))
    rows = [["", *columns], *([label, *(str(one.get(label, 0)) for one in columns.values())] for label in labels)]
    first, *widths = (max(map(len, column)) for column in zip(*rows))
    return "\n".join(
        f"{label:{first}}" + "".join(f"{text:>{width + 3}}" for text, width in zip(texts, widths))
        for label, *texts in rows
    )
