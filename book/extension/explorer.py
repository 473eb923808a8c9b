"""A link below each listing of a ladder's version, and each comparison of two, that opens it in Compiler Explorer, which compiles
CuTe DSL without a GPU. The program stands in the link and is made here, so nothing is asked of another server.

`compiler_explorer` in _config.yml has the address, the name of a compiler there, and words that this release of CuTe DSL does not
know: a program with one of them has no link. While it is empty there are no links.
"""

import ast
import base64
import inspect
import json
import re
import zlib
from functools import cache
from pathlib import Path

from quack_tutorial import compiler
from quack_tutorial.hardware import ITEM_BYTES
from quack_tutorial.operations import OPERATIONS
from quack_tutorial.operations.our_launches import contiguous_rows

SHOWN = re.compile(
    r"^:pyobject: (\w+)(?:\.kernel)?\n(?:`{3,}|:{3,})\n|^figures\.code_diff\(.*\.(\w+)\)\n```\n", re.MULTILINE
)
DTYPE, N = "float32", 4096
LONGEST = 8000  # characters of an address, which servers between refuse beyond 8 KiB
ROOT = Path(compiler.__file__).parents[1]
PROGRAM = """{imports}
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

cutlass.memory = getattr(cutlass, "memory", cutlass.utils)  # its name before CuTe DSL 4.8


{parts}


{arguments}
cute.compile({kernel}, {call})
"""


def add_links(app, docname, source):
    """Put a link below each of `SHOWN` in a chapter's source."""
    place = app.config.compiler_explorer
    if place and docname.startswith("notebooks/"):
        source[0] = SHOWN.sub(lambda found: found[0] + link(place, found[1] or found[2]), source[0])


def link(place: dict, name: str) -> str:
    """The line with the link that opens the class of that name; "" where it cannot be opened there."""
    try:
        source = program(name)
    except LookupError:
        return ""
    if any(word in source for word in place.get("lacks", ())):
        return ""
    compilers = [{"id": place["compiler"], "options": ""}]
    session = {"id": 1, "language": "cutedsl", "source": source, "compilers": compilers}
    packed = zlib.compress(json.dumps({"sessions": [session]}).encode(), 9)
    address = f"{place['address'].rstrip('/')}/clientstate/{base64.urlsafe_b64encode(packed).decode()}"
    return f"\n[`{name}` in Compiler Explorer]({address})\n" if len(address) <= LONGEST else ""


@cache
def versions() -> dict:
    """{name of a class: its object for rows of N, and what it is compiled for}, of what the ladders' versions launch first."""
    found = {}
    for operation in OPERATIONS.values():
        for ours in list(operation.ladder.values())[:-1]:
            kernel, args = ours.kernels(contiguous_rows(DTYPE, N), None)[0]
            found[type(kernel).__name__] = kernel, args
    return found


def program(name: str) -> str:
    """A class of the ladders with all that it needs and a call that compiles it, as one file.

    LookupError where the class is no version of a ladder, or needs more of the package than the kernels.
    """
    kernel, given = versions()[name]
    imports, parts = set(), {}
    _take(Path(inspect.getfile(type(kernel))), name, imports, parts)
    lines, call, given = {}, [], iter(given)
    for parameter in compiler.parameters_of(kernel):
        if parameter.name == "stream":
            call.append("make_fake_stream()")
        elif isinstance(arg := next(given), compiler.TensorSpec):
            lines |= _tensor(parameter.name, arg)
            call.append(parameter.name)
        else:
            call.append(repr(arg))
    made = f"(cutlass.Float32, {N})" if "dtype" in inspect.signature(type(kernel)).parameters else "()"
    return PROGRAM.format(
        imports="\n".join(sorted(imports)),
        parts="\n\n\n".join(parts.values()),
        arguments="\n".join(f"{name} = {value}" for name, value in lines.items()),
        kernel=name + made,
        call=", ".join(call),
    )


def _tensor(name: str, spec) -> dict[str, str]:
    """{variable: expression} of a tensor without memory, and of its sizes that are known only when it runs."""
    step = f"cute.sym_int64({spec.align // ITEM_BYTES.get(spec.dtype, 8)})"
    found = {size: "cute.sym_int()" for size in spec.shape if isinstance(size, str)}
    found |= {stride: step for stride in spec.stride if isinstance(stride, str)}
    dtype = compiler.DTYPES[spec.dtype]
    layout = f"{spec.shape}, {spec.stride}".replace("'", "")
    return found | {name: f"make_fake_tensor(cutlass.{dtype}, {layout}, assumed_align={spec.align})"}


@cache
def statements(file: Path) -> list:
    return ast.parse(file.read_text(encoding="utf-8")).body


def names(*nodes) -> set[str]:
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}


def _take(file: Path, name: str, imports: set, parts: dict) -> None:
    """Add the text that defines a name in a file of the kernels, behind all that it refers to, and what that imports."""
    for node in statements(file) if name not in parts else ():
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            for alias in (one for one in node.names if name == (one.asname or one.name)):
                if module.startswith("quack_tutorial.kernels."):
                    _take(ROOT / f"{module.replace('.', '/')}.py", name, imports, parts)
                elif module.startswith("quack_tutorial"):
                    raise LookupError(f"{file} needs {module}")
                else:
                    of = f"from {module} " if module else ""
                    imports.add(f"{of}import {ast.unparse(alias)}")
        elif name == getattr(node, "name", "") or name in names(*getattr(node, "targets", ())):
            parts[name] = ""  # so that what refers to itself ends here
            for used in sorted(names(node)):
                _take(file, used, imports, parts)
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            del parts[name]
            parts[name] = "\n".join(file.read_text(encoding="utf-8").splitlines()[first - 1 : node.end_lineno])


def setup(app):
    app.add_config_value("compiler_explorer", {}, "env")
    app.connect("source-read", add_links, priority=400)  # before the listings have their folds
    return {"parallel_read_safe": True}
