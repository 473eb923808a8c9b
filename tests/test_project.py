"""The project's own files agree with each other: versions, environments, notebooks, what the README promises."""

import json
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from quack_tutorial import cli, machine

REGISTRIES = re.compile("|".join(["pypi" + r"\.org", "python" + "hosted", r"registry\." + "npmjs"]))


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def sync(load):
    """scripts/sync_notebooks.py as a module."""
    pytest.importorskip("jupytext", reason="jupytext is not installed")
    return load("scripts/sync_notebooks.py")


def pins(lines):
    """{name: version} of the lines `name==version`."""
    return dict(line.split(";")[0].strip().split("==") for line in lines if "==" in line)


def test_the_simulator_needs_numpy_alone(project):
    assert [re.split("[<>=]", need)[0] for need in project["dependencies"]] == ["numpy"]


def test_exact_versions_agree_between_extras_and_constraints(root, project):
    constraints = pins((root / "constraints.txt").read_text("utf-8").splitlines())
    assert constraints["torch"] == "2.13.0"
    extras = project["optional-dependencies"]
    for name in ("book", "test", "labs"):
        assert pins(extras[name]).items() <= constraints.items()


def test_one_version_of_the_dsl_everywhere(project):
    every = project["optional-dependencies"].values()
    needs = [need for extra in every for need in extra if "cutlass-dsl" in need]
    assert len(needs) == 3
    wanted = rf"nvidia-cutlass-dsl(\[cu13\])?=={re.escape(machine.DSL_VERSION)}; sys_platform == 'linux'"
    assert all(re.fullmatch(wanted, need) for need in needs)


def test_conda_environment_agrees_with_pyproject(root, project):
    """Compares texts only: the environment itself is solved where there is conda-forge."""
    environment = yaml.safe_load((root / "environment.yml").read_text("utf-8"))
    *conda, by_pip = environment["dependencies"]
    assert environment["name"] == project["name"]
    wanted = dict(re.match(r"([a-z]+)(.*)", need).groups() for need in conda)
    python = tuple(map(int, wanted["python"].lstrip("=").split(".")))
    assert python >= tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    pinned, install = by_pip["pip"]
    assert pinned == "--constraint constraints.txt"
    extras = re.fullmatch(r"-e \.\[([a-z0-9,]+)\]", install).group(1).split(",")
    assert {"dsl", "book", "jupyter"} <= set(extras) <= set(project["optional-dependencies"])


def tracked_files(root):
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True
    ).stdout.split("\n")
    return [root / name for name in names if name and (root / name).is_file()]


def test_no_file_names_a_registrys_host(root):
    files = tracked_files(root)
    if not files:
        pytest.skip("this is not a git checkout, so there is no list of the project's files")
    named = [file.name for file in files if REGISTRIES.search(file.read_bytes().decode("utf-8", "replace"))]
    assert named == []


# README ---------------------------------------------------------------------------------------------------------------


def test_the_readmes_links_lead_to_files(root):
    text = (root / "README.md").read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (root / link).exists()] == []


def test_the_readme_has_a_line_for_each_chapter_and_module(root):
    text = (root / "README.md").read_text("utf-8")
    contents = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    files = [chapter["file"] for part in contents["parts"] for chapter in part["chapters"]]
    chapters = [file for file in files if file.startswith("notebooks/")]
    assert chapters
    assert [chapter for chapter in chapters if f"({chapter}.md)" not in text] == []
    house = {"scripts/", "validation/", "labs/", "bench/"}
    house |= {"grading/", "workbench/", "quack_tutorial/", "cutesim/"}
    rooms = house | {
        path.stem + ("/" if path.is_dir() else ".py")
        for path in (root / "quack_tutorial").iterdir()
        if not path.name.startswith("_") and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    lines = set(re.findall(r"^\| `([a-z_]+(?:\.py|/))` \|", text, re.MULTILINE))
    assert rooms == lines


# The command line -----------------------------------------------------------------------------------------------------


def test_help_lists_every_command_and_each_explains_itself(capsys):
    done = subprocess.run([sys.executable, "-m", "quack_tutorial.cli", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for name, _, _ in cli.commands_of():
        assert re.search(rf"^ +{name} ", done.stdout, re.MULTILINE)
        with pytest.raises(SystemExit, match="^0$"):
            cli.main([name, "--help"])
        assert f"usage: quack-tutorial {name}" in capsys.readouterr().out


# Notebooks ------------------------------------------------------------------------------------------------------------

CHAPTER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# Title

Text.

```{code-cell} ipython3
:tags: [hide-input]

1 + 1
```
"""


def test_notebooks_are_up_to_date(sync, capsys):
    assert sync.main(["--check"]) == 0, capsys.readouterr().err


def test_a_notebook_is_its_source_without_outputs_or_jupytext_metadata(sync):
    import nbformat

    text = sync.notebook_of(CHAPTER, "00-title", {"url": ""})
    assert text == sync.notebook_of(CHAPTER, "00-title", {"url": ""})
    notebook = nbformat.reads(text, as_version=4)
    assert [(cell.cell_type, cell.source) for cell in notebook.cells] == [
        ("markdown", "# Title\n\nText." + sync.ELSEWHERE),
        ("code", "1 + 1"),
    ]
    wanted = {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    assert notebook.cells[1].metadata == wanted
    assert notebook.cells[1].outputs == []
    expected = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    assert notebook.metadata == expected


def test_a_notebook_installs_on_colab_once_the_repository_is_known(sync):
    import nbformat

    repository = {"url": "https://example.org/someone/book/", "branch": "main"}
    cells = nbformat.reads(sync.notebook_of(CHAPTER, "00-title", repository), as_version=4).cells
    assert len(cells) == 3
    assert cells[0].source.count("git+https://example.org/someone/book@main") == 1
    found = cells[0].source.index('if "google.colab" in sys.modules:')
    assert found < cells[0].source.index("%pip install")


def test_a_solution_is_still_code_for_the_linter(sync, tmp_path):
    (tmp_path / "00-title.md").write_text(CHAPTER.replace("hide-input", "hide-cell"), "utf-8")
    assert sync.main([str(tmp_path), "--code", str(tmp_path / "code")]) == 0
    kinds = {}
    for name, folder in (("reader's", tmp_path), ("code", tmp_path / "code")):
        sync.main([str(tmp_path)])
        cells = json.loads((folder / "00-title.ipynb").read_text("utf-8"))["cells"]
        kinds[name] = [cell["cell_type"] for cell in cells]
    assert kinds == {"reader's": ["markdown", "markdown"], "code": ["markdown", "code"]}


def test_drift_is_found_and_mended(sync, tmp_path, capsys):
    source, notebook = tmp_path / "00-title.md", tmp_path / "00-title.ipynb"
    source.write_text(CHAPTER, "utf-8")
    (tmp_path / "readme.md").write_text("No notebook.", "utf-8")
    folder = str(tmp_path)
    assert sync.main([folder, "--check"]) == 1
    assert "00-title.ipynb is missing: run `make notebooks`" in capsys.readouterr().err
    assert not notebook.exists()
    assert sync.main([folder]) == 0
    assert sync.main([folder, "--check"]) == 0
    notebook.write_text(notebook.read_text("utf-8").replace("1 + 1", "1 + 2"), "utf-8")
    assert sync.main([folder, "--check"]) == 1
    assert "00-title.ipynb differs from 00-title.md" in capsys.readouterr().err
    assert sync.main([folder]) == 0
    assert "1 + 1" in notebook.read_text("utf-8")
    source.unlink()
    assert sync.main([folder, "--check"]) == 1
    assert "00-title.ipynb has no source 00-title.md" in capsys.readouterr().err
