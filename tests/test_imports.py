"""Who may import whom, read from the source: floors of rooms, each importing only what lies below it; and what an import loads.

Imports inside functions count. Two files that import each other are refused wherever they are.
"""

import ast
from pathlib import Path

import pytest
from running import python

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
HEAVY = {"cutlass", "cuda", "torch", "matplotlib"}

# From the ground up: a name imports what stands on the lines before its own.
HOUSE = ("cutesim", "quack_tutorial", "bench workbench", "grading", "validation labs", "scripts")
ROOMS = {
    "cutesim": (
        "trace",
        "context",
        "layouts",
        "values",
        "memory",
        "machine",
        "dialect",
        "hopper torch_answer",
        "language analysis",
        "run",
        "orders",
        "simulation",
        "sums delays",
        "formulas mutants files",
        "command pytest_plugin",
        "__main__",
    ),
    "quack_tutorial": (
        "above hardware kernel_cache reference",
        "kernels compiler",
        "machine",
        "card",
        "machine_code occupancy shipped",
        "operations",
        "records",
        "ops timing cost plain_kernels",
        "model parallel figures",
        "notebook openings line_by_line replace cli",
        "live",
    ),
}
# Who may import the heavy ones when it is loaded; torch may be imported in a function that is handed a tensor of it.
MAY_LOAD = {
    "quack_tutorial.kernels": {"cutlass", "cuda"},
    "quack_tutorial.compiler": {"cutlass", "cuda", "torch"},
    "quack_tutorial.occupancy": {"cutlass", "cuda", "torch"},
    "quack_tutorial.figures": {"matplotlib"},
    **{
        f"quack_tutorial.{room}": {"torch"} for room in ("live", "model", "ops", "parallel", "plain_kernels", "replace")
    },
    "quack_tutorial.timing": {"cuda", "torch"},
    "bench": {"cuda", "torch"},
}


def modules_of(root) -> dict[str, Path]:
    """{dotted name: file} of every module of the rooms, tests aside."""
    found = {}
    for top in " ".join(HOUSE).split():
        for file in sorted((root / top).rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            if not {"tests", "build"} & set(parts):
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def statements(node, at_load=True):
    """(statement, whether it is executed when the module is loaded) of all below a node."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child, at_load
            yield from statements(child, at_load and not isinstance(child, FUNCTIONS))


def imports(source: str, module: str, is_package: bool):
    """(dotted name, whether it happens when the module is loaded) for each import; relative ones made absolute."""
    package = module if is_package else module.rpartition(".")[0]
    for node, at_load in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            yield from ((f"{base}.{alias.name}", at_load) for alias in node.names)


def floor_of(module: str) -> tuple:
    """(floor in the house, floor in its room, by names) of a module: what it imports is on a lower one, or in its own room."""
    top, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    house = next(i for i, names in enumerate(HOUSE) if top in names.split())
    floors = ROOMS.get(top, ())
    return house, next((i for i, names in enumerate(floors) if part in names.split()), len(floors) if part else -1)


def broken_rules(source: str, module: str, is_package=False):
    """One sentence for each import in a module's source that the floors do not allow."""
    top, room = module.partition(".")[0], ".".join(module.split(".")[:2])
    own_floor = floor_of(module)
    if own_floor[1] == len(ROOMS.get(top, (0,))) and "." in module:
        yield f"{module}: no room of that name; give it a floor in ROOMS"
    for name, at_load in imports(source, module, is_package):
        first = name.partition(".")[0]
        heavy = MAY_LOAD.get(room, MAY_LOAD.get(top, set()))
        if (
            first in HEAVY - heavy
            and not (first == "torch" and not at_load)
            and top in ("cutesim", "quack_tutorial", "bench", "workbench")
        ):
            yield f"{module} imports {name}"
        if (
            first not in " ".join(HOUSE).split()
            or ".".join(name.split(".")[:2]) == room
            or name == f"{top}.__version__"
        ):
            continue
        if first == top and top not in ROOMS:
            continue
        if floor_of(name) >= own_floor:
            yield f"{module} imports {name}"


def circles(root) -> list:
    """Groups of modules that import one another."""
    files = modules_of(root)
    below = {}
    for module, file in files.items():
        every = imports(file.read_text("utf-8"), module, file.name == "__init__.py")
        named = (name for name, _ in every)
        found = {name if name in files else name.rpartition(".")[0] for name in named}
        below[module] = {name for name in found if name in files and name != module}
    left = dict(below)
    while left:  # take away what imports nothing that is left, until only circles are
        done = {module for module, names in left.items() if not names & left.keys()}
        if not done:
            return sorted(left)
        left = {module: names for module, names in left.items() if module not in done}
    return []


def test_every_import_goes_down(root):
    broken = [
        sentence
        for module, file in modules_of(root).items()
        for sentence in broken_rules(file.read_text("utf-8"), module, file.name == "__init__.py")
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_no_two_files_import_each_other(root):
    assert circles(root) == []


LIGHT = ["quack_tutorial, quack_tutorial.cli, quack_tutorial.machine"]
LIGHT += ["cutesim.simulation", "quack_tutorial.figures"]


@pytest.mark.parametrize("names", LIGHT)
def test_importing_it_loads_nothing_heavy(names):
    script = f"import sys, {names}; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = python("-c", script, check=True)
    assert done.stdout.strip() == "[]"


def test_a_call_on_a_gpu_loads_neither_the_simulator_nor_the_bench():
    pytest.importorskip("torch")
    pytest.importorskip("cutlass")
    script = "import sys, quack_tutorial.ops; from quack_tutorial.shipped import SOFTMAX, Rows; "
    script += "SOFTMAX.made_for(Rows('float32', 4096, 'aligned')); print(*sys.modules)"
    loaded = [
        name
        for name in python("-c", script, check=True).stdout.split()
        if name.split(".")[0] in " ".join(HOUSE).split()
    ]
    assert len(loaded) <= 25 and {name.split(".")[0] for name in loaded} == {"quack_tutorial"}


@pytest.mark.parametrize("package", ["quack_tutorial", "cutesim"])
def test_every_lazy_name_is_where_it_is_said_to_be(package):
    import importlib

    module = importlib.import_module(package)
    for name, home in module._HOMES.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match="no attribute 'simulat'; it has"):
        _ = module.simulat


def test_a_first_check_loads_no_more_of_numpy_than_it_needs():
    """numpy.ma, which the first call of np.unique loads, takes longer than a small kernel; in a browser several times as long."""
    code = (
        "import sys, numpy as np; from cutesim.simulation import simulate\n"
        "from quack_tutorial.kernels.reduce import ClusterReduce\n"
        "x, out = np.ones((1, 256), np.float32), np.zeros((1, 2), np.float32)\n"
        "assert simulate(ClusterReduce(blocks=2, threads_per_block=64), x, out).ok and (out == 256).all()\n"
        "print('numpy.ma' in sys.modules)"
    )
    assert python("-c", code, check=True).stdout == "False\n"
