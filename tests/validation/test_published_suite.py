"""The verdicts of the suite that runs the kernels of published packages."""

import json
import subprocess
import sys

import pytest

PACKAGE = """
import cutlass
import cutlass.cute as cute
import triton


@cute.kernel
def kernel(x: cute.Tensor, out: cute.Tensor, what: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    if cutlass.const_expr(what == "lacks"):
        cute.arch.surely_not_there(tidx)
    s = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(64), 16)
    s[tidx] = x[tidx]
    if cutlass.const_expr(what != "races"):
        cute.arch.barrier()
    out[tidx] = s[63 - tidx] * (3.0 if what == "is wrong" else 2.0)


@cute.jit
def host(x: cute.Tensor, out: cute.Tensor, what: cutlass.Constexpr):
    kernel(x, out, what).launch(grid=[1, 1, 1], block=[64, 1, 1])
"""
CASES = """
import sys
from pathlib import Path
from validation import published_worker as w

def somebody(k):
    def case(what):
        def made():
            if what == "cannot be made":
                raise OSError("no such thing")
            x, out = k.normal(64), k.empty(64)
            return k.module("somebody.part.reverse").host, (x, out, what), [(out, 2 * x.double().flip(0))]
        return made
    return {what: case(what) for what in ("works", "is wrong", "races", "lacks", "cannot be made")}

w.PACKAGES["somebody"] = (somebody,)
w.main(Path(sys.argv[1]), "somebody")
"""


def test_a_published_package_is_judged_without_running_its_init(tmp_path):
    pytest.importorskip("torch", reason="a published kernel is compared with torch")
    from validation import published

    part = tmp_path / "somebody" / "part"
    part.mkdir(parents=True)
    (tmp_path / "somebody/__init__.py").write_text("raise SystemExit('the whole of it')")
    (part / "__init__.py").write_text("import missing_thing")
    (part / "reverse.py").write_text(PACKAGE)
    done = subprocess.run([sys.executable, "-c", CASES, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = {one["name"]: one for one in json.loads(done.stdout)}
    verdicts = {name: one["verdict"] for name, one in told.items()}
    assert verdicts == {
        "works": "right",
        "is wrong": "wrong",
        "races": "finding",
        "lacks": "not simulated",
        "cannot be made": "failed",
    }
    published.SOURCES["somebody"] = "Somebody"
    assert published.counted("somebody", "1.2", told.values()) == ("Somebody", "1.2", 5, 1, 1, 1)
    notes, mismatches = published.explained("somebody", told.values())
    assert notes == ["Somebody, lacks: refused for cute.arch.surely_not_there (reverse.py:11)"]
    assert [said.partition(":")[0] for said in mismatches] == [
        "Somebody, is wrong",
        "Somebody, races",
        "Somebody, cannot be made",
    ]
