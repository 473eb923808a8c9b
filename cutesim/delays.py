"""An order made real: a kernel's own file, with a wait where a failing order lets others go first.

A race that the simulator finds may never be seen on a GPU, whose warps hardly ever come in that order. `candidates` lists who could
be kept waiting before which line of a run's findings; `delayed` writes the file with one such wait, for a GPU to run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

MILLISECONDS = 4
# What another order of warps or transfers brings out.
KINDS = {"race", "deadlock", "read before arrival", "async copy never waited for"}
KINDS |= {"early access", "exit with traffic in flight", "missing proxy fence"}
KINDS |= {"mbarrier not published", "mbarrier not initialised"}
WAIT = """
from cutlass._mlir.dialects import llvm as _llvm
from cutlass.cutlass_dsl import dsl_user_op as _dsl_user_op
import cutlass as _cutlass
import cutlass.cute as _cute


@_dsl_user_op
def _sleep(*, loc=None, ip=None):
    options = dict(has_side_effects=True, is_align_stack=False, asm_dialect=_llvm.AsmDialect.AD_ATT, loc=loc, ip=ip)
    _llvm.inline_asm(None, [], "nanosleep.u32 1000000;", "~{{memory}}", **options)


def _warp():  # warp_idx() is a shuffle, which would hang in a branch that one lane takes
    (x, y, z), (width, height, _) = _cute.arch.thread_idx(), _cute.arch.block_dim()
    return (x + width * (y + height * z)) // 32


def _block():
    (x, y, z), (width, height, _) = _cute.arch.block_idx(), _cute.arch.grid_dim()
    return x + width * (y + height * z)


@_cute.jit
def _late(which: _cutlass.Boolean):
    if which:
        for _ in _cutlass.range({milliseconds}):
            _sleep()

"""


@dataclass(frozen=True)
class Delay:
    """Who waits before a line of a file: `which` is the condition as CuTe DSL has it, `who` the same in words."""

    file: str
    line: int
    which: str
    who: str

    def __str__(self) -> str:
        return (
            f"{self.who} {'wait' if self.who.startswith('all') else 'waits'} {MILLISECONDS} ms before line {self.line}"
        )


def candidates(run) -> list[Delay]:
    """The waits that could bring out what a run has found, the likeliest first; none for a fault that every order shows.

    The others than a warp wait where a block has several, blocks where a grid has; blocks may also come late to the first line.
    """
    found, late = [], []
    several_warps = any(launch.threads > 32 for launch in run.trace.launches)
    several_blocks = any(launch.blocks > 1 for launch in run.trace.launches)
    for finding in run.findings:
        if finding.kind not in KINDS:
            continue
        threads = [int(thread) for thread in finding.threads]
        block = max(finding.block, 0)
        blocks = [(f"_block() == {block}", f"block {block}"), (f"_block() != {block}", f"all blocks but {block}")]
        for k, line in enumerate(finding.lines):
            warp = threads[k] // 32 if k < len(threads) and threads[k] >= 0 else 0
            ways = [(f"_warp() == {warp}", f"warp {warp}")]
            ways += several_warps * [(f"_warp() != {warp}", f"all but warp {warp}")]
            ways += several_blocks * blocks
            if len({thread // 32 for thread in threads}) == 1 and len(threads) > 1:
                lane = threads[k] % 32
                ways.insert(0, (f"_cute.arch.lane_idx() == {lane}", f"lane {lane} of each warp"))
            found += [Delay(line.file, line.number, *way) for way in ways]
        first = run.trace.lines[0]
        late += [Delay(first.file, first.number, *way) for way in several_blocks * blocks]
    return list(dict.fromkeys(found + late))


def delayed(source: str, delay: Delay) -> str:
    """The text of a Python file with that wait before the statement of its line. ValueError where there is none in a function."""
    tree = ast.parse(source)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    nodes = (node for function in functions for part in function.body for node in ast.walk(part))
    statements = (node for node in nodes if isinstance(node, ast.stmt))
    inside = [node for node in statements if node.lineno <= delay.line <= node.end_lineno]
    if not inside:
        raise ValueError(f"line {delay.line} is in no function")
    statement = max(inside, key=lambda node: (node.lineno, node.col_offset))
    lines = source.splitlines(keepends=True)
    lines.insert(statement.lineno - 1, " " * statement.col_offset + f"_late({delay.which})\n")
    imports = [node.end_lineno for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    lines.insert(max(imports, default=0), WAIT.format(milliseconds=MILLISECONDS))
    return "".join(lines)


def write(runs, folder) -> list[str]:
    """Write each candidate of some runs to a file of its own in `folder`, and say which and what waits in it."""
    folder, said = Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    for number, delay in enumerate((delay for run in runs for delay in candidates(run)), 1):
        source = Path(delay.file)
        path = folder / f"{source.stem}_{number}.py"
        path.write_text(delayed(source.read_text(encoding="utf-8"), delay), encoding="utf-8")
        said.append(f"{path}: {delay}")
    return said or ["no finding is of a kind that another order brings out; nothing was written"]
