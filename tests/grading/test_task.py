"""Labs as tasks for others: references are the labs' own, files have the formats' fields, and no time is below the floor."""

import ast
import json
import re

import numpy as np
import pytest

from grading import corpus, folders, lab, task
from grading.grade import grade
from quack_tutorial import cli

NAMES = task.names()


def outputs_of(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_in_torch_is_the_labs(name, monkeypatch):
    torch = pytest.importorskip("torch")
    for case in (case for case in lab(name).cases(3) if not case.target and case.schedule == "forward"):
        space = {}
        monkeypatch.setattr(task, "PARTS", *case.make[1:] or (1,))
        exec(task.run_source(name), space)
        got = space["run"](*(torch.from_numpy(array.copy()) for array in case.inputs.values()))
        right = lab(name).right(case)
        for one, (output, wanted) in zip(got if isinstance(got, tuple) else (got,), right.items(), strict=True):
            assert str(one.dtype).removeprefix("torch.") == str(case.outputs[output].dtype)
            assert np.allclose(one.numpy().astype(float), wanted, 1e-3, 1e-5, equal_nan=True), (name, case.name, output)


@pytest.mark.parametrize("name", NAMES)
def test_kernelbots_problem_checks_numbers(name, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    yaml = pytest.importorskip("yaml")
    assert cli.main(["labs", "export-task", name, str(tmp_path)]) == 0
    home = tmp_path / "kernelbot" / name
    spec = yaml.safe_load((home / "task.yml").read_text(encoding="utf-8"))
    assert {one["source"] for one in spec["files"]} == {
        "@SUBMISSION@",
        "task.py",
        "../utils.py",
        "reference.py",
        "../eval.py",
    }
    assert spec["lang"] == "py" and spec["config"] == {"main": "eval.py"} and lab(name).TITLE in spec["description"]
    numbers = [pair for one in spec["tests"] + spec["benchmarks"] for pair in one.items()]
    assert all(re.fullmatch("[a-zA-Z]+", key) and type(n) is int for key, n in numbers)
    assert all((home / file).is_file() for file in ("task.py", "reference.py", spec["templates"]["Python"]))
    template = ast.parse((home / "template.py").read_text(encoding="utf-8"))
    # The problem set for NVIDIA's cards imports both.
    assert {"custom_kernel", "compile_kernel"} <= {
        node.name for node in template.body if isinstance(node, ast.FunctionDef)
    }
    assert (
        set(spec["gpus"]) <= {"A100", "H100", "B200"}
        and spec["gpus"]
        and spec["ranking_by"] in ("last", "mean", "geom")
    )
    space = {}
    exec((home / "reference.py").read_text(encoding="utf-8").replace("torch.cuda.is_available()", "False"), space)
    data = space["generate_input"](**spec["tests"][0])
    right = space["run"](*data)
    assert space["check_implementation"](data, right) == (True, "")
    away = [torch.nextafter(one, one + 1) if one.dtype.is_floating_point else one for one in outputs_of(right)]
    assert space["check_implementation"](data, tuple(away))[0], "a right number that is rounded the other way"
    first = (right[0] if isinstance(right, tuple) else right).clone()
    first[-1] += 1
    good, why = space["check_implementation"](data, (first, *right[1:]) if isinstance(right, tuple) else first)
    assert not good and "is right" in why
    assert space["check_implementation"](data, ())[0] is False
    assert torch.equal(space["generate_input"](**spec["tests"][0])[0], data[0])


@pytest.mark.parametrize("name", NAMES)
def test_flashinfers_data_set_has_what_its_loader_and_its_outputs_need(name, tmp_path):
    assert cli.main(["labs", "export-task", name, str(tmp_path)]) == 0
    root = tmp_path / "flashinfer"
    one = json.loads((root / f"definitions/reduction/{name}.json").read_text())
    assert {"name", "op_type", "axes", "inputs", "outputs", "reference"} <= set(one)
    assert one["op_type"] == "reduction" and not set(one["inputs"]) & set(one["outputs"])
    for tensor in (*one["inputs"].values(), *one["outputs"].values()):
        assert set(tensor["shape"]) <= set(one["axes"]) and tensor["dtype"] in ("float32", "float16", "int32")
    # It allocates outputs by the lengths that inputs have, so an axis of outputs alone needs a length of its own.
    variable = {axis for axis, said in one["axes"].items() if said["type"] == "var"}
    assert variable == {axis for tensor in one["inputs"].values() for axis in tensor["shape"]}
    assert all(said["value"] == task.PARTS for axis, said in one["axes"].items() if axis not in variable)
    assert re.search(rf"^def run\({', '.join(one['inputs'])}\):", one["reference"], re.MULTILINE)
    lines = (root / f"workloads/reduction/{name}.jsonl").read_text().splitlines()
    assert len(lines) == len(task.TIMED)
    for line in map(json.loads, lines):
        assert line["definition"] == one["name"] and line["solution"] is line["evaluation"] is None
        assert set(line["workload"]) == {"uuid", "axes", "inputs"} and set(line["workload"]["axes"]) == variable
        for key, given in line["workload"]["inputs"].items():
            tensor = one["inputs"][key]
            assert (given["type"] == "random") == tensor["dtype"].startswith("float")
            if given["type"] == "safetensors":  # its random whole numbers are below 1024 and negative, too
                data = (root / given["path"]).read_bytes()
                long = int.from_bytes(data[:8], "little")
                told = json.loads(data[8 : 8 + long])[given["tensor_key"]]
                assert told["shape"] == [line["workload"]["axes"][axis] for axis in tensor["shape"]]
                columns = np.frombuffer(data[8 + long :], tensor["dtype"])
                assert told["dtype"] == "I32" and told["data_offsets"] == [0, columns.nbytes] and long % 8 == 0
                assert columns.min() >= 0 and columns.max() < line["workload"]["axes"]["N"]


def test_a_lab_without_a_kernel_is_no_task(tmp_path, capsys):
    assert cli.main(["labs", "export-task", "floor", str(tmp_path)]) == 2
    assert "floor asks for no kernel" in capsys.readouterr().err


def test_a_time_below_the_floor_is_refused():
    # 2 x 32768 x 4096 x 4 bytes at 3350 GB/s are 320.5 us
    assert task.least_bytes("roof", 32768, 4096) == 2 * 32768 * 4096 * 4
    assert task.least_bytes("rmsnorm", 100, 64) == 3 * 100 * 64 * 2 + (1 + task.PARTS) * 16 * 4
    low, high = (task.measured("roof", 32768, 4096, us, "H100 SXM5 80GB") for us in (320, 400))
    assert (low["verdict"], low["floor_us"]) == ("refused", 320.52) and "it has not moved them" in low["why"]
    assert high["verdict"] == "right" and high["share"] == pytest.approx(0.8013, abs=1e-4)
    with pytest.raises(ValueError, match="the bandwidth of 'T4' is not known"):
        task.measured("roof", 1, 1, 1.0, "T4")


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("refused", "refused"), ("missing barrier", "race"), ("traffic: read again", "waste"), ("lost warps", "wrong")],
)
def test_a_report_has_one_word_and_the_lines(kind, verdict, block_reduce):
    kinds = {wanted.get("kind"): name for name, (_, wanted) in corpus.answers(folders()["block-reduce"]).items()}
    text = block_reduce[kinds[kind]] if kind in kinds else "import os\n" + block_reduce["solution"]
    said = grade("block-reduce", "answer.py", text).as_json()
    assert said["verdict"] == verdict and said["diagnoses"][0]["kind"] == kind
    if verdict in ("race", "refused"):
        assert all(line["line"] > 0 and line["text"] for line in said["diagnoses"][0]["lines"])


def test_both_stages_in_one_command(tmp_path, capsys):
    (tmp_path / "roof.py").write_text(corpus.answers(folders()["roof"])["solution"][0], encoding="utf-8")
    words = ["grade", "roof", str(tmp_path / "roof.py"), "--json", "--measured"]
    for time_us, status, verdict in ((320, 1, "refused"), (400, 0, "right")):
        measured = f"32768,4096,{time_us},NVIDIA H100 80GB HBM3"
        assert cli.main([*words, measured]) == status
        assert json.loads(capsys.readouterr().out)["verdict"] == verdict
