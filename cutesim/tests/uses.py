"""Objects that a kernel may hold, and what Python lets one write with any of them: most of it nobody supports."""

HEAD = """import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, pipeline


class Thing:
    def __init__(self):
        self.a = 1


def helper(a):
    return a
"""
ATOM = "cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), Float32, num_bits_per_copy=32)"
TILED = f"cute.make_tiled_copy_tv({ATOM}, cute.make_layout(8), cute.make_layout(4))"
OBJECTS = {
    "index": "t",
    "number": "x[t]",
    "condition": "t < 3",
    "vector": "cute.local_tile(x, (4,), (t,)).load()",
    "tensor": "x",
    "registers": "cute.make_rmem_tensor((4,), Float32)",
    "shared": "cutlass.memory.SmemAllocator().allocate_tensor(Float32, cute.make_layout(32), 16)",
    "coordinates": "cute.make_identity_tensor((4, 8))",
    "layout": "cute.make_layout((4, 8))",
    "swizzle": "cute.make_swizzle(2, 0, 3)",
    "composed": "cute.make_composed_layout(cute.make_swizzle(2, 0, 3), 0, cute.make_layout((8, 8)))",
    "atom": ATOM,
    "operation": "cute.nvgpu.CopyUniversalOp()",
    "tiled": TILED,
    "slice": f"{TILED}.get_slice(t)",
    "pointer": "x.iterator",
    "allocator": "cutlass.memory.SmemAllocator()",
    "type": "Float32",
    "token": "cute.ReductionOp.ADD",
    "module": "cute.arch",
    "function": "cute.arch.barrier",
    "missing": "cute.no_such_thing",
    "shape": "x.shape",
    "tuple": "(t, 1)",
    "range": "cutlass.range(3)",
    "state": "pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 2)",
    "group": "pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)",
    "barrier": "pipeline.NamedBarrier(1, 32)",
    "reader's": "Thing()",
    "coordinate": "cute.make_identity_tensor((4, 8))[1, 2]",
    "annotation": "cute.Tensor",
    "reader's function": "helper",
}
USES = (
    """\
o + 1|1 + o|o - o|o * 2.0|o / 2|o // 2|o % 2|o ** 2|o @ o|-o|~o|abs(o)|o << 1|o & 1|o | o|o ^ 1|o < 1|o == 1|o == o
o != None|o >= o|o in (1, 2)|1 in o|not o|o and 1|o or 1|1 if o else 2|o[0]|o[None]|o[0, 0]|o[t]|o['a']|o[-1]|len(o)
int(o)|float(o)|bool(o)|str(o)|f'{o}'|f'{o:.2f}'|hash(o)|iter(o)|list(o)|[v for v in o]|max(o, 1)|min(o, o)
sum([o, o])|sorted([o, o])|any([o])|range(o)|type(o)|isinstance(o, cutlass.Numeric)|isinstance(x, o)|round(o)
divmod(o, 2)|pow(o, 2)|o()|o(1)|o(t)|o.shape|o.stride|o.dtype|o.layout|o.iterator|o.value|o.nothing|o.load()
o.store(o)|o.fill(0)|o.to(Float32)|o.reduce(cute.ReductionOp.ADD, 0.0, 0)|o.size|o.width|o.type|o.memspace
o.ir_value()|o.numel|o.rank|o.align(16)|o.toint()|cute.size(o)|cute.rank(o)|cute.shape(o)|cute.make_layout(o)
cute.cosize(o)|cute.coalesce(o)|cute.local_tile(o, (4,), (0,))|cute.make_tensor(o, cute.make_layout(4))
cute.make_tensor(x.iterator, o)|cute.make_rmem_tensor(o, Float32)|cute.make_rmem_tensor((4,), o)
cute.make_fragment_like(o)|cute.autovec_copy(o, o)|cute.basic_copy(x, o)|cute.copy(o, x, x)|Float32(o)|Int32(o)
cutlass.Boolean(o)|cutlass.const_expr(o)|cutlass.max(o, o)|cute.arch.fmax(o, 1.0)|cute.math.exp(o)
cute.where(o, o, o)|cute.full_like(o, 0)|cute.printf('{}', o)|cute.arch.shuffle_sync_bfly(o, 1)
cute.arch.atomic_add(o, 1)|cute.elem_less(o, o)|cute.ceil_div(o, 2)|cute.slice_(o, (0, None))
cute.select(o, mode=[0])|cute.recast_tensor(o, Int32)|x[o]|x[o, 0]|cute.domain_offset((1,), o)
cute.arch.make_warp_uniform(o)|cute.zipped_divide(o, (2,))|cute.group_modes(o, 0, 1)|cute.flatten(o)
cute.crd2idx(o, x.layout)|cute.crd2idx(0, o)|cute.append(o, 1)|cute.arch.mbarrier_init(o, 1)|helper(o)|helper(o, o)
[0, 1][o]|{o: 1}|cutlass.range_constexpr(o)""".replace("o | o", "o ¦ o")
    .replace("\n", "|")
    .split("|")
)
USES = [use.replace("¦", "|") for use in USES]
STATEMENTS = ["a, b = o", "o.nothing = 1", "o[0] = 1", "o += 1", "del o[0]", "x[t] = o"]
STATEMENTS += ["for i in range(o): pass", "for i in o: pass", "while o: break", "if o: y = 1"]


def source(cases) -> str:
    """A file with a function c0, c1, … for each (object, use)."""
    kernels = [
        f"""
@cute.kernel
def kernel_{i}(x: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    o = {OBJECTS[held]}
    {use if use in STATEMENTS else f"r = {use}"}


@cute.jit
def c{i}(x: cute.Tensor):
    kernel_{i}(x).launch(grid=[1, 1, 1], block=[32, 1, 1])
"""
        for i, (held, use) in enumerate(cases)
    ]
    return "\n".join([HEAD, *kernels])
