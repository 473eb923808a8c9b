"""Submissions to lab butterfly that reach for what a submission must not name; none may get full marks.

They are right answers with one line more, so that what refuses them is what the line reaches for.
"""

import collections
import types

from grading import corpus, folders

RIGHT = corpus.answers(folders()["butterfly"])["solution"][0]
TOP = "import cutlass\nimport cutlass.cute as cute\n"


def walked(start, hidden, harmful):
    """What should be out of reach and is not, as (path, object), and all that attributes and contents lead to from `start`.

    `hidden` are the names that no submission may write; the interpreter's own objects are out of reach, and what is `harmful`.
    """
    seen, found, waiting = {}, [], collections.deque(start)
    interpreter = (types.FrameType, types.CodeType, types.TracebackType)
    while waiting:
        one, path = waiting.popleft()
        if id(one) in seen or isinstance(one, (int, float, str)):
            continue
        seen[id(one)] = one
        if harmful(one) or isinstance(one, interpreter) or (isinstance(one, dict) and "__builtins__" in one):
            found.append((path, one))
            continue
        if isinstance(one, (dict, list, tuple, set, frozenset)):
            inside = one.values() if isinstance(one, dict) else one
            waiting.extend((part, f"{path}[...]") for part in inside)
        for name in dir(one):
            if not name.startswith("__") and name not in hidden and path.count(".") < 8:
                try:
                    waiting.append((getattr(one, name), f"{path}.{name}"))
                except Exception:  # what is not there, or speaks of an object that is not
                    continue
    return found, seen


def in_kernel(line):
    """The right answer with one line more in its kernel."""
    return RIGHT.replace("        width = self.width\n", f"        width = self.width\n        {line}\n", 1)


def at_top(lines):
    """The right answer with lines before it."""
    return f"{TOP}{lines}\n{RIGHT}"


SOURCES = {
    "native code through an array": at_top("cutlass.Float32.inf.a.ctypes._ctypes._os.getpid()"),
    "the array of a tensor": in_kernel("mX.pointer.memory.array[0] = 0"),
    "the array behind an alias": in_kernel("cutlass = mX.iterator; x = cutlass.memory"),
    "the array of a value": in_kernel("x = tidx.a"),
    "how a helper is run": in_kernel("x = merge.mapper.globals_of(merge)"),
    "attributes of its own name": at_top("class Mine:\n    a = memory = mapper = 1\nx = cutlass.Float32.inf.a"),
    "a match by position": at_top("match cutlass.Float32.inf:\n    case cute.Pointer(x):\n        pass"),
    "a match by keyword": at_top("match 1:\n    case int(__class__=c):\n        pass"),
    "match_args": at_top("class C:\n    __match_args__ = ('_ctypes',)"),
    "a metaclass": at_top("class C(metaclass=int):\n    pass"),
    "a class from strings": at_top("C = type('C', (), {'__annotations__': {'x': 1}})"),
    "annotations": at_top("class C:\n    __annotations__ = {'x=__import__': int}"),
    "another module's name": at_top("__name__ = 'math'"),
    "the same by import": at_top("import math as __name__"),
    "the same by def": at_top("def __name__():\n    pass"),
    "a frame of a generator": at_top("g = (x for x in ())\ng.gi_frame"),
    "a frame of an error": at_top("try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame"),
    "a string that names": at_top("'{0.__globals__}'.format(print)"),
    "attrgetter": at_top("import operator\noperator.attrgetter('__globals__')"),
    "builtins": at_top("__builtins__['open']('/etc/passwd')"),
    "open": at_top("open('labs/butterfly/butterfly.md').read()"),
    "import of the system": at_top("import os\nos.kill(os.getppid(), 15)"),
    "import of the solution": at_top("import importlib\nimportlib.import_module('labs')"),
    "import of the package": at_top("from quack_tutorial.kernels import softmax"),
    "eval": at_top("eval('1')"),
    "a path that goes past a module": at_top("from cutlass.cute.printf.__globals__ import get"),
    "the same without from": at_top("import cutlass.cute.printf.__globals__ as g"),
    "a string that names, printed": at_top(
        "try:\n    cute.printf('{0.__globals__.nope}', cute.printf)\nexcept AttributeError as e:\n    e.obj"
    ),
    "an error's object": at_top("try:\n    cute.nope\nexcept AttributeError as e:\n    x = e.obj"),
    "the rewriter's own name": in_kernel("x = _rt"),
    "whether a name is there": in_kernel("if hasattr(cute, 'no_such_name'):\n            x = 1"),
    "an identity": in_kernel("x = id(tidx)"),
    "an object's method for with": at_top("with cutlass.Float32:\n    pass"),
    "a number read from its text": in_kernel("x = int(str(mX[0, 0]).strip('Float32()').partition('.')[0])"),
    "work that the host does": RIGHT.replace(
        "        blocks = cute.ceil_div(", "        mY[0, 0] = mX[0, 0]\n        blocks = cute.ceil_div(", 1
    ),
    "a name that is another's in wide letters": at_top("\uff4f\uff50\uff45\uff4e('/etc/passwd')"),
    "a number read by an f-string": in_kernel("x = int(f'{tidx}')"),
    "a property's own function": at_top("x = cutlass.Float32.width.fget"),
    "an annotation that is run": at_top("from dataclasses import dataclass\n@dataclass\nclass C:\n    x: __import__('os') = 0"),
    "a number of 30 GB": at_top("x = 1 << (10**11 * 2)"),
    "a patched name": at_top("cute.arch.barrier = cute.arch.sync_warp"),
    "a patched class": at_top("S = cutlass.memory.SmemAllocator\nS.allocate_tensor = 1"),
    "a patched type": at_top("F = cutlass.Float32\nF.bytes = 0"),
    "a patched class of the simulator's": at_top("T = cute.Tensor\nT.place = lambda *a: 0"),
    "a patched module": at_top("import math\nmath.prod = lambda x: 1"),
    "a patched module, by a loop": at_top("import operator\nfor operator.add in [operator.mul]:\n    pass"),
    "a patched module, by an addition": at_top("import math\nmath.pi += 1"),
    "a patched generator": at_top("import random\nrandom.Random.shuffle = lambda *a: 0"),
    "another module's part as cutlass": at_top("import functools\nfrom functools import partial as cutlass"),
    "a store that is fetched again": at_top(
        "import functools\nfunctools.stash = cute.Tensor\nfrom functools import stash as cutlass\nx = cutlass.memory.array"
    ),
    "an exit": at_top("raise SystemExit(0)"),
    "an interrupt": at_top("raise KeyboardInterrupt"),
    "no end": TOP + "while True:\n    pass",
    "no memory": at_top("x = [0] * 10**10"),
    "recursion": at_top("def f():\n    return f()\nf()"),
    "a message of 90 MB": at_top("raise ValueError('x' * 90_000_000)"),
    "a message that forges a report": at_top("raise ValueError('\\n\\nanswer.py: 9 of 9 points\\x1b[2J\\x1b]0;full\\x07\\u202e')"),
    "a line that acts on a terminal": at_top("raise ValueError  # \x1b[2J\x07"),
    "a name that acts on a terminal": RIGHT.replace("ClipToSecond", "Clip\x1b[2J"),
    "a file deeper than Python reads": "(" * 100_000,
}  # fmt: skip
