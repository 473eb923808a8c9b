"""Who may import whom: the layout's arrows, read from the source, and what importing the package loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = "quack_tutorial"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
HEAVY = {"cutlass", "cuda", "torch", "matplotlib"}

# For each room: what it may import of ours, and which heavy dependencies. `trace` is the seam between running a kernel,
# analysing what it did and drawing it.
ROOMS = {
    "__init__": (set(), set()),
    "analysis": ({"trace", "hardware"}, set()),
    "bench": (
        {
            "card",
            "hardware",
            "kernels",
            "kernel_cache",
            "compiler",
            "ops",
            "model",
            "machine",
            "occupancy",
            "operations",
        }
        | {"parallel", "records", "reference"},
        {"cuda", "torch"},  # the driver, since torch has no call that releases what L2 keeps
    ),
    "browser": ({"figures", "notebook", "simulation", "simulator", "trace"}, {"torch"}),
    "card": ({"hardware", "machine"}, set()),
    "cli": ({"card", "machine"}, set()),
    "compiler": ({"kernel_cache", "kernels", "simulation"}, {"cutlass", "cuda", "torch"}),
    "cost": ({"card", "hardware", "records"}, set()),
    "figures": (
        {"analysis", "trace", "bench", "cost", "hardware", "mutants", "operations", "records", "simulator.coverage"},
        {"matplotlib"},
    ),
    "hardware": (set(), set()),
    "kernel_cache": (set(), set()),
    "kernel_file": ({"analysis", "simulation", "simulator"}, set()),
    "kernels": ({"card", "simulator.loading"}, {"cutlass", "cuda"}),  # so that they load where the DSL is not installed
    "labs": (
        {
            "analysis",
            "compiler",
            "figures",
            "hardware",
            "myst",
            "notebook",
            "reference",
            "simulation",
            "simulator",
            "trace",
            "machine",
        },
        set(),
    ),
    "live": ({"analysis", "compiler", "cost", "hardware", "kernels", "notebook", "records", "simulation"}, {"torch"}),
    "machine": ({"simulator.loading"}, set()),
    "model": ({"ops"}, {"torch"}),
    "mutants": ({"simulation", "simulator"}, set()),
    "myst": (set(), set()),
    "notebook": ({"bench", "compiler", "hardware", "operations", "records"}, set()),
    "occupancy": ({"compiler"}, {"torch", "cutlass", "cuda"}),
    "operations": ({"compiler", "kernels", "occupancy", "records", "reference"}, set()),
    "ops": ({"kernels", "compiler", "operations", "simulation", "occupancy"}, {"torch"}),
    "openings": ({"bench", "figures", "kernels", "records", "simulation", "trace"}, set()),
    "orders": ({"simulation", "simulator", "trace"}, set()),
    "other_cards": ({"card", "records"}, {"torch"}),
    "parallel": ({"ops"}, {"torch"}),
    "pytest_plugin": ({"kernel_file", "simulation", "simulator"}, set()),
    "records": ({"card", "hardware", "machine"}, set()),
    "reference": (set(), set()),
    "simulate_command": (
        {"analysis", "figures", "kernels", "kernel_file", "orders", "reference", "simulation", "simulator"},
        set(),
    ),
    "simulation": ({"analysis", "orders", "simulator", "trace"}, set()),
    "simulator": ({"trace"}, set()),
    "trace": (set(), set()),
    "workbench": ({"labs", "machine", "myst"}, set()),
}


def package_files(root):
    return sorted((root / PACKAGE).rglob("*.py"))


def module_of(root, file):
    """quack_tutorial/kernels/copy.py -> kernels.copy; a package's __init__ -> the package; the top one -> __init__."""
    parts = file.relative_to(root / PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports(tree, package):
    """(dotted name, whether it happens when the module is loaded) for each import; relative ones made absolute."""
    inside = {id(node) for function in ast.walk(tree) if isinstance(function, FUNCTIONS) for node in ast.walk(function)}
    for node in ast.walk(tree):
        at_load = id(node) not in inside
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            yield from ((f"{base}.{alias.name}", at_load) for alias in node.names)


def broken_rules(source, module, is_package=False):
    """One sentence for each import in a module's source that the layout does not allow."""
    room = module.split(".")[0]
    if room not in ROOMS:
        yield f"{module}: no room of that name in the layout; give it a line in ROOMS"
        return
    ours, heavy = ROOMS[room]
    package = f"{PACKAGE}.{module}" if is_package else f"{PACKAGE}.{module}".rpartition(".")[0]
    for name, at_load in imports(ast.parse(source), package):
        top, _, rest = name.partition(".")
        # A function that is handed a torch tensor may import torch, which its caller has loaded already.
        if top in HEAVY - heavy and not (top == "torch" and not at_load):
            yield f"{module} imports {name}"
        if top == PACKAGE and rest != "__version__" and rest.split(".")[0] != room:
            permitted = [one for one in ours if f"{rest}.".startswith(f"{one}.")]
            if not permitted:
                yield f"{module} imports {name}"


def test_every_import_follows_the_layout(root):
    broken = [
        sentence
        for file in package_files(root)
        for sentence in broken_rules(
            file.read_text(encoding="utf-8"), module_of(root, file), is_package=file.name == "__init__.py"
        )
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("kernels", "from quack_tutorial.simulator.loading import answer_package", None),
        ("kernels.copy", "import torch", "kernels.copy imports torch"),
        ("kernels.copy", "from quack_tutorial.simulation import simulate", "quack_tutorial.simulation.simulate"),
        ("kernels.copy", "from quack_tutorial.kernels.layout import x\nimport cutlass.cute as cute", None),
        ("kernels.copy", "from .layout import x\nfrom . import reduce", None),
        ("kernels.copy", "from ..ops import softmax", "kernels.copy imports quack_tutorial.ops.softmax"),
        ("simulator.memory", "import cutlass", "simulator.memory imports cutlass"),
        ("simulator.memory", "def f():\n    import cutlass", "simulator.memory imports cutlass"),
        ("simulator.memory", "def f():\n    import torch", None),
        ("simulator", "def f():\n    from quack_tutorial.analysis import races", "quack_tutorial.analysis.races"),
        ("analysis.races", "from quack_tutorial.figures import draw", "quack_tutorial.figures.draw"),
        ("analysis.races", "from quack_tutorial.trace import Trace", None),
        ("analysis.races", "from quack_tutorial.simulator.tensor import Tensor", "simulator.tensor.Tensor"),
        ("figures", "import matplotlib.pyplot as plt", None),
    ],
)
def test_the_rules_can_be_broken(module, source, broken):
    found = list(broken_rules(source, module, is_package="." not in module))
    assert (len(found), broken in found[0]) == (1, True) if broken else found == []


def test_importing_the_package_loads_nothing_heavy():
    script = (
        "import sys, quack_tutorial, quack_tutorial.cli, quack_tutorial.machine; quack_tutorial.machine.detect();"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_simulator_loads_without_the_dsl_torch_or_matplotlib():
    script = f"import sys, quack_tutorial.simulator; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_lazy_name_of_the_package_is_where_it_is_said_to_be(root):
    import quack_tutorial

    for name, home in quack_tutorial._HOMES.items():
        file = root.joinpath(*home.split("."))
        path = file / "__init__.py" if file.is_dir() else Path(f"{file}.py")
        assert path.exists(), f"quack_tutorial.{name} should come from {path.relative_to(root)}, which is not there"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, (*FUNCTIONS[:2], ast.ClassDef))}
        brought = {alias.asname or alias.name for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names}
        assert name in defined | brought, f"quack_tutorial.{name} should come from {path.relative_to(root)}"


def test_an_unknown_name_of_the_package_is_refused_with_the_names_that_exist():
    import quack_tutorial

    with pytest.raises(AttributeError, match="no attribute 'simulat'; it has start, launch, simulate"):
        _ = quack_tutorial.simulat
