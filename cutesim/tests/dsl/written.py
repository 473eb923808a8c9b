"""Kernels written short: a name and its lines, without the words that all of them would begin with.

    any_of_vector:
        if cute.any_(v > 0.0):
            out[tidx] = x[tidx]
    vector_at_lane = lane % 4: out[tidx] = v[tidx % 4]
    scaled(x, out, *, by=2.0) @launched(32, blocks=2):
        …
    counted(out, n: cutlass.Int32) @launched(32, passing=True):
        …

is a kernel of (x, out) with a host function of one warp, or of the tensors and other parameters that are named and, behind the *,
of Constexprs, with the host function that is. Where a kernel uses a name of `KNOWN` and does not say what it is, it begins with its
line. Behind = stands what `out` holds afterwards, for test_written.
"""

import ast
import linecache
import re
from functools import partial
from textwrap import dedent

KNOWN = {
    **{name: f"{name}, _, _ = cute.arch.thread_idx()" for name in ("tidx", "tid", "t")},
    **{name: f"{name}, _, _ = cute.arch.block_idx()" for name in ("bidx", "block")},
    "lane": "lane = cute.arch.lane_idx()",
    "warp": "warp = cute.arch.warp_idx()",
    "rank": "rank = cute.arch.block_idx_in_cluster()",
    "smem": "smem = cutlass.memory.SmemAllocator()",
    "v": "v = cute.make_tensor(x.iterator, cute.make_layout(4)).load()",
}
KERNEL = re.compile(
    r"^(\w+)(\([^@\n]*?\))?(?: @(.+?))?(?: = (.+?))?:(?: (\S.*))?\n((?:(?: .*)?\n)*)",
    re.MULTILINE,
)


def signature(parameters: str) -> str:
    tensors, _, constants = parameters.partition(", *, ")
    constants = re.split(r", (?=[a-z_]\w*(?:=|,|$))", constants) if constants else []
    typed = [re.sub(r"^(\w+)", r"\1: cutlass.Constexpr", constant) for constant in constants]
    every = tensors.split(", ")
    names = [name if ": " in name else f"{name}: cute.Tensor" for name in every if name]
    return ", ".join(names + typed)


def write(module: dict, parameters="x, out", host="one_warp", known=None):
    """What puts the kernels of a text into a module, whose other names they use, and returns their names.

    A report gives the lines of what is made of them. What they should write, where the text says it, is in the module's `WANTED`.
    All of them begin with the lines of `known`, where it is given.
    """
    return partial(_put, module, parameters, host, known)


def _put(module, parameters, host, known, text) -> list:
    first = len(module.setdefault("WRITTEN", []))
    file = f"<written {first}>/" + module["__file__"].replace("\\", "/").rpartition("/")[2]
    lines = [""] * 1000  # no line has the number of one of the module's own
    for name, own, by, wanted, line, body in KERNEL.findall(text):
        module["WRITTEN"].append(name)
        if wanted:
            module.setdefault("WANTED", {})[name] = wanted
        lines += [f"@{by or host}"] if by or host else []
        lines += ["@cute.kernel", f"def {name}({signature(own[1:-1] if own else parameters)}):"]
        body = f"    {line}" if line else body
        nodes = list(ast.walk(ast.parse(dedent(body))))
        found = [node for node in nodes if isinstance(node, ast.Name)]
        bound = {node.id for node in found if isinstance(node.ctx, ast.Store)}
        bound |= {*module, *re.findall(r"\w+", own or parameters)} | {
            node.arg for node in nodes if isinstance(node, ast.arg)
        }
        used = {node.id for node in found} - bound
        lines += ["    " + said for word, said in (known or KNOWN).items() if known or word in used]
        lines += [*body.splitlines(), "", ""]
    source = "\n".join(lines)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module)
    return module["WRITTEN"][first:]
