"""An exercise calls the book's own solution right, and none of three answers that are wrong.

A wrong answer is the solution with one thing changed. Of the cells before the exercise only those statements run on which it rests.
"""

import ast
import re

import pytest

from quack_tutorial import notebook
from tests.test_judged_again import Reader, chapter_cells
from tests.test_run_in_page import source_of

# (chapter, what is written): what is changed in the solution, and into what
WRONG = {
    ("00", "axpy_kernel"): {
        "+ mY[i]": "+ 77 - mX[i]",
        "i < mX.shape[0]": "i < mX.shape[0] // 2 * 2",
        "2 * mX[i]": "2 * (mX[i] // 1)",
        "mO[i] = 2 * mX[i] + mY[i]": "mX[i] = 0.0\n        mY[i] = 0.0\n        mO[i] = 0.0",
        "2 * mX[i] + mY[i]": "2 * mX[i] + mY[i]\n        mX[i] = 0.0",
    },
    ("00", "reverse_kernel"): {"N - 1 - i": "99 - i", "mX[i]": "mX[N - 1 - i]", "i < N": "i < N // 64 * 64"},
    ("00", "pair_kernel"): {
        "mO[tidx + THREADS]": "mO[tidx]",
        "mX[tidx + THREADS]": "mX[tidx] + THREADS",
        "mO[tidx] = mX[tidx]\n    mO[tidx + THREADS] = mX[tidx + THREADS]": "for k in range(2):\n"
        "        mO[2 * tidx + k] = mX[2 * tidx + k]",
    },
    ("00", "stride_kernel"): {
        "range(i, N, 2 * THREADS)": "range(i, min(i + 1, N))",
        "N, 2 * THREADS": "N // 2 * 2, 2 * THREADS",
        "N, 2 * THREADS)": "1000, 2 * THREADS)",
        "i, N, 2 * THREADS": "i, N, THREADS",
    },
    ("01", "row_sums_kernel"): {
        "mX.shape[1], 32)": "mX.shape[1] // 32 * 32, 32)",
        "mX.shape[1], 32": "64, 32",
        "mX[warp, col]": "mX[lane, col]",
    },
    ("02", "Transpose"): {
        "(block_row, block_column))\n        gT": "(0, block_column))\n        gT",
        "num_bits_per_copy=32": "num_bits_per_copy=128",
        "cute.copy(store, tXrX, tXgT)": "pass",
    },
    ("03", "Widen"): {
        "row), tile": "0), tile",
        "(1, mX.shape[1])": "(1, 512)",
        "        cute.copy(narrow": "        tXrX.fill(0.0)  #",
    },
    ("03", "fetched"): {
        "64 * len": "32 * len",
        "64 * len({address // 64": "128 * len({address // 128",
        "len({address // 64 for address in addresses})": "len(addresses) // 8",
    },
    ("04", "sign_of_product"): {
        "range_constexpr(5)": "range_constexpr(4)",
        "value < 0.0": "value < -1.0",
        "return sign": "return -cutlass.Float32(1.0)",
    },
    ("04", "tree_for_all"): {
        "shuffle_sync(value, 0)": "shuffle_sync(value, 1)",
        "    value = cute.arch.shuffle_sync(value, 0)\n": "",
        "return value": "return cutlass.Float32(528.0)",
    },
    ("04", "running_sum"): {
        ">= 1 << i": "> 1 << i",
        "value = op(value, below)": "value = op(value, value)",
        "return value": "return 0.5 * (cute.arch.lane_idx() + 1) * (cute.arch.lane_idx() + 2)",
    },
    ("04", "two_rows_kernel"): {
        "range_constexpr(4)": "range_constexpr(5)",
        "if row < M and first == 0": "if first == 0",
        "fold(tXrX.load(), ADD, 0.0)": "tXrX[0]",
    },
    ("05", "one_warp_finishes"): {
        "cute.arch.barrier()\n    value = buffer[0]": "value = buffer[0]",
        "op, warps": "op, 4",
        "return value": "return cutlass.Float32(8256.0)",
    },
    ("05", "two_rows"): {
        "warp // 2 * 2 + lane % 2": "warp // 2 * 2 + 1",
        "op, 2)": "op, 1)",
        "return value": "return cutlass.Float32(64.0 * (warp // 2 + 1))",
    },
    ("05", "running_sum"): {
        "earlier < warp": "earlier <= warp",
        "    cute.arch.barrier()\n": "",
        "cute.size(buffer)": "3",
    },
    ("05", "row_sums_kernel"): {
        "half = row % 2": "half = 0",
        "half = row % 2\n": "half = row % 2\n        cute.arch.barrier()\n",
        "mO[row]": "mO[row // 2 * 2]",
    },
    ("06", "log_sum_exp"): {
        "sum_slot * exp(max_slot - max_row)": "sum_slot",
        "finite_or_zero(max_block)": "max_block",
        "return max_row": "return max_block",
    },
    ("06", "max_then_sum"): {
        "    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n": "",
        "return cluster_reduce(total, operator.add, slots, mbar, 1)": "return 4 * total",
        "exp(x - largest)": "exp(x - 128)",
    },
    ("06", "only_block_0"): {
        "        cute.arch.mbarrier_wait(mbar, 0)\n": "",
        "operator.add, 4)": "operator.add, 2)",
        "send(value, slots, mbar, 0)": "send(value, slots, mbar, 1)",
    },
    ("07", "WithResidual"): {
        "mS[row, 128 * k + tidx] = s[k]": "mS[row, 128 * k + tidx] = mX[row, 128 * k + tidx]",
        "squares / mX.shape[1] + 1e-6": "squares / mX.shape[1] + 1e-5",
        "s[k] = mX[row, 128 * k + tidx] + mR[row, 128 * k + tidx]": "x = mX[row, 128 * k + tidx]\n"
        "            s[k] = x + cute.arch.atomic_add(cute.domain_offset((row, 128 * k + tidx), mR).iterator, x)",
        "s[k] * rstd": "(mX[row, 128 * k + tidx] + mR[row, 128 * k + tidx]) * rstd",
    },
    ("07", "Mended"): {
        "x.to(cutlass.Float32) * x": "x",
        "x.to(cutlass.Float32) * x.to(cutlass.Float32)": "(x * x).to(cutlass.Float32)",
        "* x.to(cutlass.Float32)": "* 300.0",
        "return x.to(cutlass.Float32) * x.to(cutlass.Float32)": "x = x * cutlass.Float16(1 / 256)\n"
        "        return 65536.0 * (x * x).to(cutlass.Float32)",
    },
    ("07", "together"): {
        "0.5 * n": "n",
        "return 0.5 * (mean + other), q": "return mean, q",
        "q + q_other + 0.5": "q + q + 0.5",
    },
    ("08", "mended"): {
        "finite_or_zero(max_new)": "max_new",
        "max_new, sum_old * exp(max_old - reference)": "max_new, sum_old",
        "finite_or_zero(max_new)\n": "cutlass.Float32(0.0)\n",
        "max_new, sum_old * exp(max_old - reference) + exp(x - reference)": "cutlass.Float32(0.0), sum_old + exp(x)",
        "exp(x - reference)": "exp(finite_or_zero(x) - reference)",
    },
    ("08", "LogSumExp"): {
        "mX.shape[1], 128)": "mX.shape[1] // 128 * 128, 128)",
        "mX.shape[1], 128": "512, 128",
        "mO[row] = max_row + cute": "mO[row] = cute",
        "log(sum_row)": "log(1.001 * sum_row)",
    },
    ("08", "Backward"): {
        "(dy[k] - dot)": "dy[k] - dot",
        "buffer)\n        # write": "buffer) * 512 / mY.shape[1]\n        # write",
        "mDX[row, 128 * k + tidx] = y[k]": "mDX[row, 128 * k + tidx] = mY[row, 128 * k + tidx]",
    },
    ("09", "LossAndEntropy"): {
        "lse - weighted / sum_row": "lse - weighted",
        "finite_or_zero(x)": "x",
        "        weighted *= exp(max_thread - max_row)\n": "",
    },
    ("09", "value"): {
        "128 * tile + tidx": "tidx",
        "exp(x - lse)": "exp(x) / exp(lse)",
        "p -= 1.0": "p = -1.0",
        "128 * tile": "128 * (tile % 4)",
    },
    ("09", "value_with_z"): {
        "2.0 * z": "z",
        "2.0 * z * lse": "0.02 * lse",
        "lse * exp": "exp",
        "gradient += 2.0": "gradient = 2.0",
    },
    ("11", "MendedNorm"): {
        "(x[k] - mean) * (x[k] - mean)": "(mX[row, 256 * k + tidx] - mean) * (x[k] - mean)",
        "buffer[1, None, None]": "buffer[0, None, None]",
        "(x[k] - mean) * rstd": "x[k] * rstd",
        "* mW[256 * k + tidx]": "* mW[tidx]",
    },
    ("14", "added"): {
        "added(numbers[:half]) + added(numbers[half:])": "numbers[0] + added(numbers[1:])",
        "+ added(numbers[half:])": "",
        "len(numbers) // 2": "min(len(numbers) // 2, 4)",
    },
    ("14", "in_order"): {
        "warp, mX.shape[0], 4": "warp, 4, 4",
        "total + mX": "mX",
        "    cute.arch.barrier()\n": "",
    },
    ("14", "mended"): {
        "        cute.arch.barrier()\n        mO[row, t] = s[63 - t]\n": "        mO[row, t] = s[63 - t]\n",
        "s[63 - t]": "s[t]",
    },
    ("15", "rotary"): {
        "- b * sin": "+ b * sin",
        "Float32(row)": "Float32(row + 1)",
        "/ half": "/ (2 * half)",
    },
    ("15", "swiglu_backward"): {
        "dy * g * s": "dy * g",
        "(1.0 - s)": "s",
        "range(t, mG.shape[1], 128)": "range(t, min(mG.shape[1], 512), 128)",
        "dy = mG[row, col], mU[row, col], mDY[row, col]": "dy = mG[row, col], mU[row, col], mDY[row, col] + 0.0 * mDY[row, col]",
    },
    ("15", "dropped_backward"): {
        "row * N + 32": "32",
        " - y[k] * along": "",
        "rstd * (": "(",
        "y, rstd = standardised": "standardised(loaded(mX, row, lane))\n    y, rstd = standardised",
    },
    ("16", "log_softmax_tile"): {
        "return shifted -": "return x -",
        "exp(shifted)": "exp(x)",
        "return shifted - cute.math.log(row_sum(exp(shifted)))": "return shifted",
        "shifted - cute.math.log(row_sum(exp(shifted)))": "cute.math.log(exp(shifted) / row_sum(exp(shifted)))",
    },
}


def bound(statement):
    """The names that a statement binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    every = ast.walk(statement)
    return {node.id for node in every if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def before(sources, exercise):
    """The statements of the cells before an exercise on which it rests."""
    kept = []
    names = {node.id for node in ast.walk(ast.parse(exercise)) if isinstance(node, ast.Name)}
    for source in reversed(sources):
        for statement in reversed(ast.parse(source).body):
            if bound(statement) & names:
                kept.insert(0, source_of(statement, source))
                names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return "\n\n\n".join(kept)


@pytest.mark.parametrize("chapter, name", WRONG)
def test_no_wrong_answer_is_called_right(root, chapter, name):
    (path,) = (root / "notebooks").glob(f"{chapter}-*.md")
    cells = chapter_cells(path)
    (at,) = [
        n
        for n, (_, source, folded) in enumerate(cells)
        if folded and re.search(rf"^(?:def|class) {name}\b", source, re.M)
    ]
    sources = [source for _, source, _ in cells[: at + 1]]
    *earlier, exercise, solution = sources
    reader = Reader()

    def verdicts(source):
        notebook.VERDICTS.clear()
        said = reader.run(1 if source == exercise else 2, source)
        return [verdict["right"] for verdict in notebook.VERDICTS if verdict["of"] == "judge"] or said

    reader.run(0, before(earlier, "\n".join([exercise, solution])))
    assert verdicts(exercise) == [False], reader.said
    assert verdicts(solution) == [True], reader.said
    for old, new in WRONG[chapter, name].items():
        assert old in solution, old
        assert verdicts(solution.replace(old, new)) == [False], (old, new)
