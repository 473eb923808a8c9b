"""What only published Hopper kernels need can be left out: the rest runs, and says what it lacks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import cutesim

KERNELS = """
import numpy as np
import cutlass.cute as cute
from cutlass.cute.nvgpu import warpgroup


@cute.kernel
def sums(x: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    x[lane] = cute.arch.warp_reduction_sum(x[lane])


@cute.kernel
def fenced(x: cute.Tensor):
    warpgroup.fence()


@cute.jit
def host(x: cute.Tensor):
    sums(x).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.jit
def of_hopper(x: cute.Tensor):
    fenced(x).launch(grid=[1, 1, 1], block=[128, 1, 1])
"""


def test_a_kernel_runs_where_hopper_is_left_out(tmp_path):
    shutil.copytree(
        Path(cutesim.__file__).parent, tmp_path / "cutesim", ignore=shutil.ignore_patterns("tests", "hopper", "build")
    )
    (tmp_path / "kernels.py").write_text(KERNELS)

    home = os.pathsep.join([str(tmp_path), str(Path(np.__file__).parents[1])])

    def check(name):
        code = "import sys; from cutesim.command import main; sys.exit(main())"
        words = [
            sys.executable,
            "-S",
            "-c",
            code,
            "check",
            f"kernels.py:{name}",
            "x=f32:32",
        ]  # without site's own finders
        env = os.environ | {"PYTHONPATH": home}
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=env)
        return done.returncode, done.stdout.partition("\n")[0]

    assert check("host")[0] == 0
    status, said = check("of_hopper")
    assert status == 3 and "warpgroup" in said
