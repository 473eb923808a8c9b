"""llvm.inline_asm and cute.arch.inline_ptx: a few PTX instructions at a time, for what CuTe DSL has no name for.

| instruction                                                        | here                                                 |
|--------------------------------------------------------------------|------------------------------------------------------|
| mov, add, sub, mul, fma, min, max, neg, abs, and, or, xor, shl, shr | of one 32- or 64-bit type                             |
| add, sub, mul, min, max, neg, abs .f16x2 and .bf16x2                | of two numbers in a register                          |
| cvt, setp, selp, @p                                                | conversions, of two numbers in a register too; predicates |
| ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh .approx{.ftz}.f32        | within the documented error                           |
| mapa, st.async, mbarrier.init, mbarrier.arrive{.expect_tx}         | as cute.arch has them, on addresses                   |
| ld, st of .global and .shared{::cta}{.v2, .v4}                     | one access, as of cute.copy, with its coordinates     |
| cp.async.bulk.shared::cluster.global                               | cute.copy with CopyBulkG2SOp, by each active thread   |
| createpolicy.fractional; a cache hint                              | a number, which each hint must be; no effect          |
| atom, red; ld.acquire, st.release, and relaxed ones                | as cute.arch has atomics                             |
| fence, membar, bar.warp.sync, griddepcontrol, cp.async groups, popc | as cute.arch has them; nanosleep does nothing         |

An address is a pointer, or a number (`ptr.toint()`), as mapa gives one. Sources: PTX ISA 9.0. Anything else is refused by its
opcode. Not covered: `predicate` and `read_write_args` of inline_ptx, another block's shared memory as a target of a bulk copy.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np

from cutesim.trace import Space

from ..context import any_of, fail, group, not_simulated, refused
from ..layouts.layout import make_layout, size
from ..machine import asynchronous, barriers, cluster, mbarriers, warps
from ..machine.atomics import run_atomic
from ..memory import pointers as m
from ..memory.bounds import Place
from ..memory.tensor import Tensor, contiguous_run, coordinate_spans, make_tensor
from ..values import arithmetic, mathops, numeric
from ..values.exact import contiguous
from ..values.numeric import (
    BFloat16,
    Boolean,
    Float32,
    Int32,
    Int64,
    Uint8,
    Uint32,
    Uint64,
    Value,
    binary,
    convert,
    scalar,
)
from . import packed

# as PTX writes them: f32, s8, b16, ...
TYPES = {"bf16": BFloat16, "pred": Boolean} | {f"f{bits}": numeric.TYPES[f"Float{bits}"] for bits in (16, 32, 64)}
for _letter, _kind in {"s": "Int", "u": "Uint", "b": "Uint"}.items():
    TYPES |= {f"{_letter}{bits}": numeric.TYPES[f"{_kind}{bits}"] for bits in (8, 16, 32, 64)}
OPERATORS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARISONS |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # of unsigned numbers
APPROXIMATE = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "rcp": lambda a: 1 / a,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}
# The words between an instruction and its type that change nothing here, or what is read of them below.
WORDS = {
    **dict.fromkeys(("and", "or", "xor", "shl", "shr", "mov", "selp", "popc"), set()),
    **dict.fromkeys(("add", "sub", "fma"), {"rn", "ftz"}),
    **dict.fromkeys(("mul", "mad"), {"rn", "ftz", "lo"}),
    **dict.fromkeys(("min", "max"), {"NaN", "ftz"}),
    **dict.fromkeys(("neg", "abs"), {"ftz"}),
    **dict.fromkeys(APPROXIMATE, {"approx", "ftz", "rn"}),
}
TO_WHOLE = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}
ATOMICS = frozenset("add max min and or xor exch cas".split())
ORDERED = frozenset("acquire release acq_rel relaxed volatile".split())
SCOPES = frozenset("cta cluster gpu sys".split())
POLICY = 0x0CAC4E  # what createpolicy gives: opaque, the same for every policy
CREATEPOLICY = "createpolicy.fractional.L2::evict_"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
STATEMENT = re.compile(r"(?:@(?P<not>!?)(?P<guard>[%$\w]+)\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL)


class Struct(tuple):
    """Several results of one asm, which llvm.extractvalue takes apart."""


def inline_asm(result, operands, text, constraints, **_):
    """Run the instructions of `text` on `operands`; what they write to `$0`, `$1`, ... is the result."""
    results = () if result is None else tuple(result) if isinstance(result, Struct) else (result,)
    constraints_of = [c for c in constraints.replace(" ", "").split(",") if c]
    outputs = [c for c in constraints_of if c.startswith("=")]
    if len(outputs) != len(results):
        raise refused(f"inline_asm has {len(results)} result types and {len(outputs)} outputs ({constraints})")
    registers = {}
    given = list(operands or ())
    for i, x in enumerate(given):
        registers[f"${len(results) + i}"] = _operand(x)
    for i, c in enumerate(c for c in constraints_of if c[0].isdigit()):
        registers[f"${c}"] = registers[f"${len(results) + i}"]  # an operand that is also an output
    return _run(registers, results, text)


def inline_ptx(ptx_code, *, write_only_types=None, read_only_args=None, **_):
    """The same of a text in which `{$w0}`, `{$w1}`, ... are the results and `{$r0}`, `{$r1}`, ... the arguments."""
    if not isinstance(ptx_code, str):
        raise refused(f"inline_ptx takes the PTX as a string, got {type(ptx_code).__name__}")
    types, args = tuple(write_only_types or ()), tuple(read_only_args or ())
    if not ptx_code.strip():
        raise not_simulated("inline_ptx of nothing")
    text, named = _numbered(ptx_code, len(types))
    if named != (set(range(len(types))), set(range(len(args)))):
        raise refused(
            f"inline_ptx of {len(types)} results and {len(args)} arguments, which are not those of {ptx_code.strip()}"
        )
    found = _run({f"${len(types) + i}": x for i, x in enumerate(map(_operand, args))}, types, text)
    return tuple(found) if isinstance(found, Struct) else found


@lru_cache(maxsize=256)
def _numbered(text: str, results: int) -> tuple:
    """The text with `$0`, `$1`, ... for results, then arguments; and the numbers of those that it names."""
    named = [{int(number) for number in re.findall(rf"{{\${letter}(\d+)}}", text)} for letter in "wr"]
    text = re.sub(r"{\$w(\d+)}", r"$\1", text)
    return re.sub(r"{\$r(\d+)}", lambda found: f"${results + int(found[1])}", text), tuple(named)


def _operand(x):
    return x if isinstance(x, m.Pointer) else scalar(x)


def _run(registers: dict, results: tuple, text: str):
    """The results of the instructions of `text`."""
    machine = _Machine(registers)
    for statement in _statements(text):
        machine.run(*statement)
    found = [machine.result(f"${i}", t, text) for i, t in enumerate(results)]
    return None if not found else found[0] if len(found) == 1 else Struct(found)


def extractvalue(result, struct, position, **_):
    (at,) = position
    return struct[at]


@lru_cache(maxsize=512)
def _statements(text: str) -> list[tuple]:
    """(the guard or None, whether it is negated, the opcode, the operands) of each instruction."""
    text = re.sub(r"/\*.*?\*/", " ", re.sub(r"//[^\n]*", " ", text), flags=re.DOTALL).replace("$$", "")
    text = re.sub(r"\{([^{};]*)\}", r"<\1>", text)  # a vector of registers, which is no block
    made = []
    for part in re.split(r"[;{}]", text.replace("\t", " ")):
        statement = part.strip()
        if not statement or statement.startswith(".reg"):
            continue
        found = STATEMENT.fullmatch(statement)
        if not found:
            raise not_simulated(f"inline_asm of {statement}")
        operands = (part.strip() for part in re.split(r",(?![^<\[]*[>\]])", found["operands"]))
        made.append((found["guard"], bool(found["not"]), found["opcode"], tuple(filter(None, operands))))
    return made


def _as(x, dtype) -> Value:
    """A register's bits as a type of the same width, or its low bits."""
    if isinstance(x, m.Pointer):
        x = x.toint()
    if x.dtype is dtype:
        return x
    if x.dtype.width == dtype.width:
        return x.bitcast(dtype)
    if dtype.is_float or x.dtype.is_float:
        raise refused(f"inline_asm: a {x.dtype} register where the instruction has {dtype}")
    return convert(x, dtype)


class _Machine:
    """The registers of one asm, and what each instruction does to them."""

    def __init__(self, registers: dict):
        self.registers = registers

    def result(self, name: str, dtype, text: str) -> Value:
        if name not in self.registers:
            raise not_simulated(f"inline_asm that does not write {name}: {' '.join(text.split())}")
        return _as(self.registers[name], dtype)

    def run(self, guard: str | None, negated: bool, opcode: str, operands: tuple) -> None:
        if guard is None:
            self.execute(opcode, operands)
            return
        holds = self.value(guard, Boolean).a != 0
        holds = ~holds if negated else holds
        g, before = group(), dict(self.registers)
        g.push(holds)
        if any_of(g.active()):
            self.execute(opcode, operands)
        g.pop()
        for name, new in self.registers.items():
            if new is not before.get(name):
                old = before.get(name, Value(new.dtype, np.zeros((1, 1), new.dtype.carrier)))
                self.registers[name] = Value(new.dtype, np.where(holds, new.a, _as(old, new.dtype).a))

    # -- operands

    def value(self, text: str, dtype) -> Value:
        if text in self.registers:
            return _as(self.registers[text], dtype)
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
            return Value(Uint32, np.array([[int(text[2:], 16)]], np.uint32)).bitcast(dtype)
        if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
            return Value(Uint64, np.array([[int(text[2:], 16)]], np.uint64)).bitcast(dtype)
        try:
            return convert(float(text) if dtype.is_float else int(text.rstrip("uU"), 0), dtype)
        except ValueError:
            raise not_simulated(f"inline_asm with the operand {text}") from None

    def pointer(self, text: str, dtype, space) -> m.Pointer:
        name, _, offset = text.strip("[] ").partition("+")
        x, more = self.registers.get(name.strip()), int(offset or 0)
        if x is None:
            raise not_simulated(f"inline_asm with the address {text}")
        if isinstance(x, m.Pointer):
            if not more and (space is None or x.memspace is space):
                return x if x.dtype.itemsize == dtype.itemsize else x.recast(dtype)
            x = x.toint()
        address = _as(x, Int64) if x.dtype.width == 64 else convert(x, Int64)
        return m.pointer_at(dtype, address + more if more else address, space)

    def set(self, name: str, value: Value) -> None:
        self.registers[name] = value

    # -- instructions

    def execute(self, opcode: str, operands: tuple) -> None:
        base, *parts = opcode.split(".")
        dtype = TYPES.get(parts[-1]) if parts else None
        if base in WORDS and not set(parts[:-1]) <= WORDS[base]:
            raise not_simulated(f"inline_asm of {opcode}")
        if base in ("ld", "st") and ORDERED & set(parts) and dtype is not None:
            self.ordered(base, parts, dtype, operands)
        elif base in ("ld", "st") and "async" not in parts and None not in (dtype, _space(parts)):
            self.access(base, parts, dtype, operands)
        elif base in PAIRED and parts and parts[-1] in ("f16x2", "bf16x2"):
            self.paired(base, parts, operands)
        elif base in APPROXIMATE and dtype is Float32 and ("approx" in parts or base == "sqrt"):
            a = self.value(operands[1], Float32).a
            ftz = "ftz" in parts
            exact = APPROXIMATE[base]((arithmetic.flush(a) if ftz else a).astype(np.float64)).astype(np.float32)
            self.set(operands[0], Value(Float32, arithmetic.flush(exact) if ftz else exact))
        elif base == "mov" and dtype is not None:
            self.move(operands, dtype)
        elif base in OPERATORS and dtype is not None:
            # a shift by the type's bits or more gives 0
            second = Int32 if base in ("shl", "shr") else dtype
            a, b = self.value(operands[1], dtype), convert(self.value(operands[2], second), dtype)
            self.set(operands[0], binary(OPERATORS[base], a, b))
        elif base in ("mul", "mad") and dtype is not None and {"lo", "rn", "f32"} & set(parts):
            product = self.value(operands[1], dtype) * self.value(operands[2], dtype)
            self.set(operands[0], product if base == "mul" else product + self.value(operands[3], dtype))
        elif base == "fma" and dtype is not None and "rn" in parts:
            self.set(operands[0], mathops.fma(*(self.value(x, dtype) for x in operands[1:4])))
        elif base in ("min", "max") and dtype is not None:
            self.set(operands[0], _extreme(base, parts, *(self.value(x, dtype) for x in operands[1:3])))
        elif base in ("neg", "abs") and dtype is not None:
            self.set(operands[0], PAIRED[base](parts, self.value(operands[1], dtype)))
        elif base == "cvt" and packed.PAIRS.keys() & set(parts):
            self.set(operands[0], packed.convert(parts, operands[1:], self.value))
        elif base == "cvt" and len(parts) >= 2 and {*parts[-2:]} <= TYPES.keys():
            self.set(operands[0], self.converted(parts, self.value(operands[1], dtype)))
        elif base == "setp" and parts[0] in COMPARISONS and len(operands) == 3 and set(parts[1:-1]) <= {"ftz"}:
            a, b = (self.value(x, dtype) for x in operands[1:])
            self.set(operands[0], binary(COMPARISONS[parts[0]], a, b))
        elif base == "selp" and dtype is not None:
            yes, no = (self.value(x, dtype) for x in operands[1:3])
            self.set(operands[0], Value(dtype, np.where(self.value(operands[3], Boolean).a, yes.a, no.a)))
        elif base == "popc":
            self.set(operands[0], convert(arithmetic.popc(self.value(operands[1], dtype)), Uint32))
        elif base in ("atom", "red") and dtype is not None:
            self.atomic(base, parts, dtype, operands)
        elif opcode.startswith(CREATEPOLICY) and 0 < float([*operands, 1][1]) <= 1:
            self.set(operands[0], Value(Int64, np.array([[POLICY]], np.int64)))
        elif opcode.removesuffix(".L2::cache_hint") == BULK:
            for name in operands[4:]:
                self.hint(name)
            bulk(opcode, *(self.registers.get(name.strip("[] ")) for name in operands[:4]))
        elif opcode.startswith("mapa"):
            address, rank = self.registers[operands[1]], self.value(operands[2], Int32)
            offset = m.pointer_at(Uint8, _address(address), Space.SMEM)
            self.set(operands[0], convert(cluster.map_dsmem_ptr(offset, rank).toint(), Int32))
        elif opcode.startswith("st.async") and "mbarrier::complete_tx::bytes" in parts:
            self.store_async(dtype, operands)
        else:
            self.order(opcode, parts, operands)

    def move(self, operands, dtype) -> None:
        target, source = operands
        if source.startswith("<"):
            self.set(target, packed.joined(_names(source), dtype, self.value))
        elif target.startswith("<"):
            names = _names(target)
            for name, part in zip(names, packed.parted(self.value(source, dtype), len(names))):
                if name != "_":
                    self.set(name, part)
        else:
            self.set(target, self.value(source, dtype))

    def converted(self, parts, x: Value) -> Value:
        """cvt of one number: to a whole one as its word says, otherwise to the nearest."""
        *how, target, _ = parts
        whole = [TO_WHOLE[word] for word in how if word in TO_WHOLE]
        to_whole = x.dtype.is_float and (whole or TYPES[target].is_integer)
        known = set(how) <= {"rn", *TO_WHOLE} and not (to_whole and len(how) > 1)
        if len(whole) != bool(to_whole) or not known:
            raise not_simulated(f"inline_asm of cvt.{'.'.join(parts)}")
        return convert(Value(x.dtype, whole[0](x.a)) if whole else x, TYPES[target])

    def paired(self, base, parts, operands) -> None:
        """An instruction on each of the two numbers of 16 bits in a register."""
        sides = [packed.parted(self.value(text, Uint32), 2) for text in operands[1:]]
        numbers = [[x.bitcast(packed.PAIRS[parts[-1]]) for x in halves] for halves in sides]
        self.set(operands[0], packed.join([PAIRED[base](parts, *pair) for pair in zip(*numbers)]))

    def access(self, base, parts, dtype, operands) -> None:
        """One load or store, of a vector of registers where it says .v2 or .v4."""
        if "L2::cache_hint" in parts:
            *operands, policy = operands
            self.hint(policy)
        count = next((int(part[1]) for part in parts if part in ("v2", "v4")), 1)
        where, what = operands if base == "st" else operands[::-1]
        names = _names(what)
        space, nbytes = _space(parts), count * dtype.itemsize
        pointer = self.registers.get(where.strip("[] "))
        kept = isinstance(pointer, m.Pointer) and pointer.memspace is space
        if not kept or nbytes % pointer.dtype.itemsize:
            pointer = self.pointer(where, dtype, space)
        if pointer.rows is not None and "shared::cluster" not in parts:
            raise refused(f"{base}.shared takes this block's own shared memory; another's is .shared::cluster")
        width = nbytes // pointer.dtype.itemsize
        offsets, place = np.arange(width, dtype=np.int64), _place(pointer, width)
        if base == "ld":
            words = contiguous(m.read_raw(pointer, offsets, width, None, m.Op.LOAD, place)).view(dtype.storage)
            for i, name in enumerate(names):
                self.set(name, Value(dtype, dtype.decode(words[..., i])))
        else:
            shape = group().shape
            words = [np.broadcast_to(_as(self.value(name, dtype), dtype).a, shape) for name in names]
            raw = dtype.encode(np.stack(words, axis=-1)).view(pointer.dtype.storage)
            m.write_raw(pointer, offsets, raw, width, None, place)

    def hint(self, name: str) -> None:
        """A cache hint changes nothing, but must be what createpolicy gave."""
        policy = self.value(name, Int64)
        if any_of((policy.a != POLICY) & group().active()):
            raise refused("a cache hint must be what createpolicy gave")

    def ordered(self, base, parts, dtype, operands) -> None:
        """A load or store that other threads' atomics may meet: ld.acquire, st.release, relaxed ones."""
        where, what = operands if base == "st" else operands[::-1]
        pointer, order, scope = self.pointer(where, dtype, _space(parts)), *_how(parts)
        if base == "ld":
            word = _word(dtype)
            self.set(what, run_atomic("or", pointer.recast(word), convert(0, word), order, scope=scope))
        else:
            run_atomic("exch", pointer, self.value(what, dtype), order, scope=scope)

    def atomic(self, base, parts, dtype, operands) -> None:
        target, where, *given = operands if base == "atom" else ["_", *operands]
        name = next((part for part in parts if part in ATOMICS), None)
        if name is None:
            raise not_simulated(f"inline_asm of {base}.{'.'.join(parts)}")
        pointer, order, scope = self.pointer(where, dtype, _space(parts)), *_how(parts)
        values = [self.value(text, dtype) for text in given]
        if name == "cas":
            old = run_atomic("cas", pointer, values[1], order, values[0].a, scope)
        else:
            old = run_atomic(name, pointer, values[0], order, scope=scope)
        if target != "_":
            self.set(target, old)

    def store_async(self, dtype, operands) -> None:
        where, what, barrier = operands
        words = tuple(_as(self.value(name, dtype), dtype) for name in _names(what))
        if dtype.width == 64:
            wide = (_as(word, Int64) for word in words)
            words = tuple(convert(half, Int32) for word in wide for half in (word, word >> 32))
        target = self.pointer(where, dtype, Space.SMEM)
        mbar = self.pointer(barrier, Int64, Space.SMEM)
        if target.rows is None or mbar.rows is None:
            raise refused("st.async takes addresses of the cluster: give them to mapa first")
        size = group().launch.cluster_size
        rank = Value(Int32, (target.rows % size).astype(np.int32))
        own = [m.Pointer(p.memory, p.dtype, p.offset, p.alignment) for p in (target, mbar)]
        asynchronous.send_words(own[0], words, own[1], rank)

    def order(self, opcode, parts, operands) -> None:
        """Barriers, fences and groups: cute.arch's own."""
        how = {"relaxed": "relaxed" in parts, "scope": _how(parts)[1]}
        arrives = opcode.startswith("mbarrier.arrive") and operands[0] == "_"
        if opcode in WITHOUT_OPERANDS:
            WITHOUT_OPERANDS[opcode]()
        elif opcode.startswith("fence.proxy.async"):
            barriers.fence_proxy(opcode)
        elif opcode in ("cp.async.wait_group", "cp.async.wait_all"):
            asynchronous.cp_async_wait_group(int(operands[0]) if operands else 0)
        elif opcode.startswith("vote.sync.") and parts[1] in ("ballot", "any", "all", "uni"):
            vote = getattr(warps, f"vote_{parts[1]}_sync")
            self.set(operands[0], vote(self.value(operands[1], Boolean), self.value(operands[2], Int64)))
        elif opcode == "bar.warp.sync":
            barriers.sync_warp(self.value(operands[0], Int64))
        elif opcode == "nanosleep.u32":
            pass  # time does not pass here
        elif arrives and "expect_tx" not in opcode:
            mbarriers.mbarrier_arrive(self.pointer(operands[1], Int64, Space.SMEM), **how)
        elif arrives and parts[1] == "expect_tx":
            pointer = self.pointer(operands[1], Int64, Space.SMEM)
            mbarriers.mbarrier_arrive_and_expect_tx(pointer, self.value(operands[2], Int32), **how)
        elif opcode.startswith("mbarrier.init"):
            mbarriers.mbarrier_init(self.pointer(operands[0], Int64, Space.SMEM), self.value(operands[1], Int32))
        else:
            raise not_simulated(f"inline_asm of {opcode}")


WITHOUT_OPERANDS = {
    **dict.fromkeys(("membar.gl", "fence.acq_rel.gpu", "fence.sc.gpu"), barriers.fence_acq_rel_gpu),
    **dict.fromkeys(("membar.cta", "fence.acq_rel.cta", "fence.sc.cta"), barriers.fence_acq_rel_cta),
    **dict.fromkeys(("fence.acq_rel.cluster", "fence.sc.cluster"), barriers.fence_acq_rel_cluster),
    "fence.mbarrier_init.release.cluster": mbarriers.mbarrier_init_fence,
    "cp.async.commit_group": asynchronous.cp_async_commit_group,
    "griddepcontrol.wait": barriers.griddepcontrol_wait,
    "griddepcontrol.launch_dependents": barriers.griddepcontrol_launch_dependents,
}


def _extreme(base: str, parts, a: Value, b: Value) -> Value:
    """min or max: of two floats the one that is no NaN, without .NaN, and +0 above -0."""
    if a.dtype is Float32:
        pick = arithmetic.fmax if base == "max" else arithmetic.fmin
        return pick(a, b, nan="NaN" in parts, ftz="ftz" in parts)
    if not a.dtype.is_float:
        return Value(a.dtype, (np.maximum if base == "max" else np.minimum)(a.a, b.a))
    name = ("maximum" if base == "max" else "minimum") if "NaN" in parts else f"f{base}"
    return Value(a.dtype, arithmetic.signed_zero(getattr(np, name)(a.a, b.a), a.a, b.a, base == "max"))


PAIRED = {
    **{base: lambda parts, a, b, base=base: _extreme(base, parts, a, b) for base in ("min", "max")},
    **{base: lambda _, a, b, op=op: binary(op, a, b) for base, op in (("add", "+"), ("sub", "-"), ("mul", "*"))},
    "neg": lambda _, a: -a,
    "abs": lambda _, a: abs(a),
}


def _address(x) -> Value:
    return x.toint() if isinstance(x, m.Pointer) else convert(x, Int64)


def _word(dtype):
    """The unsigned integer as wide as a type."""
    return TYPES[f"u{dtype.width}"]


def _names(vector: str) -> list:
    """The registers of `<a, b>`, or the one that stands alone."""
    return [name.strip() for name in vector.strip("<>").split(",")]


def _how(parts) -> tuple:
    """(the memory order, the scope) that an instruction says, each None where it does not."""
    said = [[part for part in parts if part in words] for words in (ORDERED, SCOPES)]
    return tuple(next(iter(words), None) for words in said)


def _space(parts) -> Space | None:
    if "global" in parts:
        return Space.GMEM
    return Space.SMEM if any(part.startswith("shared") for part in parts) else None


# ---- of pointers that remember their tensors -------------------------------------------------------------------------


def _pointer(name: str, pointer, space: Space, what: str) -> m.Pointer:
    if isinstance(pointer, m.Pointer) and isinstance(pointer.memory, m.Either):
        raise not_simulated(f"inline_ptx of {name} with a tensor that a dynamic `if` rebinds")
    if not isinstance(pointer, m.Pointer) or pointer.memspace is not space:
        got = type(pointer).__name__
        if isinstance(pointer, m.Pointer):
            got = f"one to {m.SPACE_NAMES[pointer.memspace]}"
        raise refused(f"{name}: {what} must be a pointer to {m.SPACE_NAMES[space]}, got {got}")
    return pointer


def _place(pointer: m.Pointer, width: int) -> Place | None:
    """The coordinates of the first `width` elements from a pointer that remembers its view."""
    if pointer.view is None or pointer.memspace is not Space.GMEM:
        return None
    layout, coords = pointer.view
    if size(layout) % width or contiguous_run(layout) % width:
        return None
    spans = coordinate_spans(coords.layout, len(coords.base), width)
    low, high = (tuple(s if isinstance(s, int) else int(s[0]) for s in side) for side in spans)
    return Place(coords.base, low, high)


def bulk(name: str, target, source, nbytes, mbar) -> None:
    """A bulk copy by each active thread, of as many bytes as it says."""
    target = _pointer(name, target, Space.SMEM, "the target")
    mbar = _pointer(name, mbar, Space.SMEM, "the mbarrier")
    source = _pointer(name, source, Space.GMEM, "the source")
    if target.rows is not None or mbar.rows is not None:
        raise not_simulated(f"{name} to another block of the cluster")
    g, amount = group(), scalar(nbytes)
    if amount.dtype is not Int32:
        raise refused(f"{name}: the number of bytes must be Int32, got {amount.dtype}")
    for count in np.unique(np.broadcast_to(amount.a, g.shape)[g.active()]).tolist():
        if count <= 0 or count % 16:
            raise refused(f"a bulk copy moves a multiple of 16 bytes, got {count}")
        g.push(amount.a == count)
        asynchronous.bulk_copy(_span(source, count, source), _span(target, count, source), mbar)
        g.pop()


def _span(pointer: m.Pointer, nbytes: int, like: m.Pointer) -> Tensor:
    """The `nbytes` from a pointer as a tensor of elements like another's: the pointer's view, where it is just that."""
    if pointer.dtype is not like.dtype:
        offset, left = np.divmod(np.asarray(pointer.offset) * pointer.dtype.itemsize, like.dtype.itemsize)
        if left.any():
            raise fail("misaligned", "the target of a bulk copy must be at a multiple of 16 bytes")
        pointer = replace(pointer, dtype=like.dtype, offset=offset if offset.ndim else int(offset), view=None)
    count = nbytes // pointer.dtype.itemsize
    layout = make_layout(1) if pointer.view is None else pointer.view[0]
    if pointer.view is not None and size(layout) == contiguous_run(layout) == count:
        return make_tensor(pointer, layout)
    return Tensor(replace(pointer, view=None), make_layout(count))
