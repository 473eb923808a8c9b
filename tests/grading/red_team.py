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

    `hidden` are names that no submission may write, as none that begins with an underscore; the interpreter's own objects are out
    of reach, and what is `harmful`.
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
            if not name.startswith("_") and name not in hidden and path.count(".") < 8:
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
    "a private name of the simulator's": at_top("x = cute.tensor._Tensor._kinds[0]"),
    "the same of a tensor": in_kernel("x = mX._kinds"),
    "the same by a self": at_top("def peek(self):\n    return self._kinds\npeek(cute.Tensor)"),
    "a patched name, by a self": at_top("def put(self):\n    self.place = 1\nput(cute.Tensor)"),
    "a patched function, by a self": at_top("def put(self):\n    self.calls = 1\nput(cute.copy)"),
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

AGAIN = """
        if cutlass.const_expr({where}):
            for k in cutlass.range_constexpr(cute.ceil_div(N, {lanes})):
                if {lane} + {lanes} * k < N{guard}:
                    largest = cute.arch.fmax(largest, mX[row, {lane} + {lanes} * k])
"""


def again(before, where, lane="tidx", lanes="threads", guard=""):
    """An edit that reads x once more, before a line, where rows are so long."""
    return before, AGAIN.format(where=where, lane=lane, lanes=lanes, guard=guard).strip() + f"\n        {before}"


LOAD = "            if vector < N // 4:\n                cute.autovec_copy(cute.local_tile(mX"
FEW = "self.threads = 128", "self.threads = 32 if self.N <= 4096 else 128"


def chained(how):
    """An edit of roof's loads, of which each needs one before to know where, or whether, to read."""
    return LOAD, LOAD.replace("            if vector < N // 4", how.replace("before", "rX[0, max(i - 1, 0)]"))


# What no fixed case of a lab sees: {what is wrong or wasted: (lab, *edits of its solution)}.
UNSEEN = {
    "columns past 256, butterfly": ("butterfly", ("rX[i] = mX[row, first + width * i]",
     "rX[i] = mX[row, first + width * i]\n                if first + width * i > 255:\n                    rX[i] = rX[i] - 1")),
    "blocks past 2": ("butterfly", ("fmin(rX[i], second)\n", "fmin(rX[i], second) * (bidx <= 2).to(cutlass.Float32)\n")),
    "scattered but at 256": ("butterfly", ("first + width * i", "(first + width * i if N == 256 else each * first + i)")),
    "columns past 512, softmax": ("softmax", ("mX[row, column], cutlass",
     "mX[row, column] * (column < 600).to(cutlass.Float32), cutlass")),
    "a sum above 500": ("softmax", ("cute.math.log(total)", "cute.math.log(cute.arch.fmin(total, 500.0))")),
    "read twice below 500": ("softmax", again("largest, total = merge_lanes(largest, total)", "N < 500")),
    "1.75 reads": ("softmax", again("largest, total = merge_lanes(largest, total)", "N != 512", guard=" and lane < 24")),
    "one warp but at 1024": ("block-reduce", ("column = tidx + threads * i",
     "column = tidx + threads * i if N == 1024 else lane + 32 * i"), ("cute.ceil_div(N, threads)",
     "cute.ceil_div(N, threads if N == 1024 else 32)"), ("if column < N:", "if column < N and (N == 1024 or warp == 0):")),
    "a barrier of the cluster": ("block-reduce", ("cute.arch.barrier()\n",
     "cute.arch.barrier()\n        cute.arch.cluster_arrive()\n        cute.arch.cluster_wait()\n")),
    "-0 below 0": ("block-reduce", ("(other == value and", "(other.bitcast(cutlass.Int32) == value.bitcast(cutlass.Int32) and")),
    "-0 below 0, of a cluster": ("cluster-reduce", ("(other == value and",
     "(other.bitcast(cutlass.Int32) == value.bitcast(cutlass.Int32) and")),
    "40 columns a lane": ("butterfly", ("range_constexpr(each)", "range_constexpr(min(each, 40))")),
    "16 blocks": ("butterfly", ("grid=[blocks,", "grid=[min(blocks, 16),")),
    "one row": ("butterfly", ("fmin(rX[i], second)\n", "fmin(rX[i], second) + (1.0 if M == 1 else 0.0)\n")),
    "a start of -1e4": ("butterfly", ("-cutlass.Float32.inf", "-1.0e4")),
    "a second of -3e38": ("butterfly", ("-cutlass.Float32.inf", "-3.0e38")),
    "equal but for 1e-5": ("butterfly", ("    best = cute.arch.fmax(best, other_best)\n",
     "    best = cute.arch.fmax(best, other_best)\n    if best - second < 1e-5:\n        second = best\n")),
    "no rescaling by 30": ("softmax", ("math.exp(difference)", "math.exp(difference) if difference > -30 else 0.0")),
    "one column": ("softmax", ("cute.math.log(total)", "cute.math.log(total) + (1.0 if N == 1 else 0.0)")),
    "one column, of a cluster": ("cluster-reduce", ("mMax[row] = value", "mMax[row] = value + (1.0 if N == 1 else 0.0)")),
    "-0 below 0, in a thread": ("block-reduce", ("if other > value or",
     "if (other > value or (other == value and other.bitcast(cutlass.Int32) > value.bitcast(cutlass.Int32))) or")),
    "a lane's squares above 1e8": ("rmsnorm", ("rX[i] * rX[i]\n",
     "rX[i] * rX[i]\n                    squares = cutlass.min(squares, cutlass.Float32(1e8))\n")),
    "weights above 0": ("rmsnorm", ("mW[d]", "cute.arch.fmax(mW[d], -mW[d])")),
    "a first logit for the maximum": ("cross-entropy",
     ("cute.arch.warp_reduction_max(largest)", "cute.arch.shuffle_sync(rX[0], 0)")),
    "an index in 11 bits": ("cluster-reduce", ("slot, index,", "slot, index.to(cutlass.Float16).to(cutlass.Int32),")),
    "six rows a cluster": ("cluster-reduce", ("mIndex[row] = index", "mIndex[row] = index if step < 6 else 0")),
    "targets of 256 and more": ("cross-entropy", ("if column == target:\n                logit",
     "if column == target and column < 256:\n                logit")),
    "two reads below 64": ("cross-entropy", again("largest = cute.arch.warp_reduction_max(largest)", "N < 64", "lane", "32")),
    "columns past 512, loss": ("cross-entropy", ("rX[i] = mX[row, column]",
     "rX[i] = mX[row, column] * (column < 512).to(cutlass.Float32)")),
    "three rows a block": ("rmsnorm", ("rDy[i] * xhat\n", "rDy[i] * xhat * (row < 3 * self.blocks).to(cutlass.Float32)\n")),
    "dy read again but at 64": ("rmsnorm", ("product = product + mW[d] * rDy[i] * rX[i]",
     "product = product + mW[d] * rDy[i] * rX[i]\n                    "
     "if cutlass.const_expr(D != 64 and D != 128):\n                        rDy[i] = mDy[row, start + d].to(cutlass.Float32)")),
    "columns past 512, copy": ("guarded-copy", ("mY[row, column] = x\n",
     "mY[row, column] = x * (column < 512).to(cutlass.Float32)\n")),
    "a sum above 400,000": ("guarded-copy", ("mSum[row] = total", "mSum[row] = cute.arch.fmin(total, 4e5)")),
    "written twice but at 512": ("guarded-copy", ("mY[row, column] = x\n",
     "mY[row, column] = x\n                if cutlass.const_expr(N != 512):\n                    mY[row, column] = x\n")),
    "31 rounds": ("butterfly", ("    best = cute.arch.fmax(best, other_best)\n",
     "    for k in cutlass.range_constexpr(6):\n        best = cute.arch.fmax(best, cute.arch.shuffle_sync(best, k))\n"
     "    best = cute.arch.fmax(best, other_best)\n")),
    "one block of a cluster": ("cluster-reduce", ("32 * (rank + blocks * i)", "32 * i + N * rank"),
     ("32 * blocks", "32")),
    "a load in turns": ("softmax", ("                largest, total = merge(largest, total, mX[row, column], cutlass.Float32(1))\n",
     "                for k in cutlass.range_constexpr(32):\n                    if lane == k:\n"
     "                        largest, total = merge(largest, total, mX[row, column], cutlass.Float32(1))\n")),
    "rows past 1000": ("softmax", ("        if tidx == 0:\n", "        if tidx == 0 and row < 1000:\n")),
    "columns past 5500": ("guarded-copy", ("if row < M and column < N:", "if row < M and column < N and column < 5500:")),
    "rows past 60 times 60": ("butterfly", ("row < M and first + width * i < N:\n                mY",
     "row < min(M, 60 * 60) and first + width * i < N:\n                mY")),
    "columns past 12000": ("guarded-copy", ("if row < M and column < N:", "if row < M and column < N and column < 12_000:")),
    "tiny numbers": ("guarded-copy", ("total = total + x", "total = total + (x if x * x > 1e-6 else 0.0)")),
    "an input stored": ("guarded-copy", ("mY[row, column] = x\n",
     "mY[row, column] = x\n                mX[row, column] = mX[row, column]\n")),
    "ties far out": ("block-reduce", ("other_index < index)", "other_index < index and index < 256)")),
    "a load after the other": ("roof", FEW, chained("            vector += (before * 0.0).to(cutlass.Int32) if i else 0\n"
     "            if vector < N // 4")),
    "a load if the other allows it": ("roof", FEW, chained("            if vector < N // 4 and (before < 3e38 or before > 1e37)")),
    "a mean of 1e-30": ("roof", ("N / total", "N / cute.arch.fmax(total, N * 1.5e-30)")),
    "a mean of 1e30": ("roof", ("N / total", "N / cute.arch.fmin(total, N * 0.9e30)")),
    "numbers 1e6 apart": ("roof", ("total + cute.arch.fmax(rX[i], -rX[i])",
     "total + cute.arch.fmin(cute.arch.fmax(rX[i], -rX[i]), 1e5 * total + (1e38 if i == 0 else 0.0))")),
    "N for a row's stride": ("butterfly", ("mX[row, first + width * i]", "(mX.iterator + row * N + first + width * i).load()")),
    "columns past 65,700": ("block-reduce", ("= index\n", "= index if N < 65_700 else 0\n")),
    "the least steps": ("block-reduce", ("other == value and", "other - value > -2e-45 and other - value < 2e-45 and")),
    "some remainders": ("block-reduce", ("mIndex[row] = index", "mIndex[row] = index if N % 121 not in (3, 58, 104) else 0")),
    "a table of remainders": ("softmax", ("cute.math.log(total)", "cute.math.log(total) + (0.0, 1.0, 0.0, 0.0, 1.0)[N % 83 % 5]")),
    "powers of two past 700": ("softmax", ("cute.math.log(total)",
     "cute.math.log(total) + (1.0 if not N & (N - 1) and N > 700 else 0.0)")),
    "a size that a text hides": ("softmax", ("cute.math.log(total)",
     "cute.math.log(total) + (1.0 if len('ninety') * 1000 < N < len('ninety') * 1020 else 0.0)")),
    "a third read of long rows": ("softmax", again("largest, total = merge_lanes(largest, total)", "N > 16384")),
    "targets past a product": ("cross-entropy", ("if column == target:\n                logit",
     "if column == target and column < self.lanes * 192:\n                logit")),
    "a gradient as scratch": ("cross-entropy", ("rX[i] = mX[row, column]\n", "rX[i] = mX[row, column]\n"
     "                if cutlass.const_expr(N > 7000):\n                    mDx[row, column] = rX[i]\n"
     "                    rX[i] = mDx[row, column]\n")),
    "an ignored row that is multiplied": ("cross-entropy", ("                if target == IGNORED:  # whatever it holds\n"
     "                    rX[i] = cutlass.Float32(0)\n", "")),
    "thirteen rows": ("runner-up", ("mSecond[row] = second", "mSecond[row] = second if mX.shape[0] != 13 else first")),
    "rows past 3000": ("guarded-copy", ("mSum[row] = total", "mSum[row] = total if row < self.rows * 1500 else total + 1.0")),
    "ignored rows of infinities alone": ("cross-entropy", ("if target == IGNORED:  #",
     "if target == IGNORED and rX[i] == -cutlass.Float32.inf:  #")),
    "columns that round alike": ("runner-up", ("(other == first and other_index < index)",
     "(other == first and cutlass.Float16(other_index) < cutlass.Float16(index))")),
    "equal halves": ("block-reduce", ("if other > value or (other == value and",
     "if other * 0.5 > value * 0.5 or (other * 0.5 == value * 0.5 and")),
    "high numbers read again": ("block-reduce", ("                value, index = better(value, index, mX[row, column], column)",
     "                x = mX[row, column]\n                if x > 1000.0:\n                    x = mX[row, column]\n"
     "                value, index = better(value, index, x, column)")),
    "64 steps": ("cluster-reduce", ("            cute.arch.sync_warp()  #",
     "            if step < 64:\n                cute.arch.sync_warp()  #")),
    "numbers of the host": ("guarded-copy", ("        blocks = cute", "        mMax[0] = 1.0\n        blocks = cute")),
    "the numbers behind a pointer": ("guarded-copy", ("        blocks = cute",
     "        mMax[0] = float(('%s' % mX.iterator).partition('[')[2][1:9])\n        blocks = cute")),
}  # fmt: skip

# What is nearly right: (lab, an edit of its solution, the diagnosis). A tolerance hides most of them.
NEARLY = (
    ("softmax", "cute.math.log(total)", "(cute.math.log(total) + 2e-5)", "wrong formula"),
    ("softmax", "cute.math.log(total)", "cute.math.log(total + 1e-3)", "wrong formula"),
    ("cross-entropy", "SMOOTHING / N", "SMOOTHING / (N + 1e-5)", "wrong formula"),
    ("cross-entropy", "cute.math.log(total)", "(cute.math.log(total) + 2e-5)", "wrong formula"),
    ("rmsnorm", "mean = product * factor / D", "mean = product * factor / D * 1.0005", "wrong formula"),
    ("rmsnorm", "= total\n", "= total * 1.00001\n", "wrong formula"),
    ("guarded-copy", "mSum[row] = total", "mSum[row] = total + 1e-3", "wrong formula"),
    ("roof", "factor = N / total", "factor = N / total * 1.000005", "wrong formula"),
    (
        "block-reduce",
        "index = cutlass.Int32(N)\n",
        "index = cutlass.Int32(N)\n        mX[row, 0] = mX[row, 0]\n",
        "race on input",
    ),
)
