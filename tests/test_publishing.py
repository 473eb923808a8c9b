"""What workflows, containers and pages run exists: targets, scripts, tests, extras. Whether they run is seen where they run."""

import json
import re
import tomllib

import pytest
import yaml

WORKFLOWS = ("newest-dsl", "pages", "release", "tests")


def commands_of(root, name):
    """The shell commands of a workflow."""
    workflow = yaml.safe_load((root / ".github/workflows" / f"{name}.yml").read_text("utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    return "\n".join(step["run"] for step in steps if "run" in step)


def assert_exists(root, commands):
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text("utf-8"), re.MULTILINE))
    made = set(re.findall(r"\bmake ([a-z-]+)", commands))
    assert made <= targets
    paths = re.findall(r"(?<![\w/.])(?:tests|scripts|quack_tutorial|\.ci)/[\w./-]*", commands)
    assert [path for path in paths if not (root / path).exists()] == []
    extras = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {one for group in re.findall(r"(?:\.\[|EXTRAS=)([a-z0-9,]+)", commands) for one in group.split(",")}
    assert named <= set(extras)
    return made | named


def test_every_workflow_is_looked_at(root):
    assert sorted(path.stem for path in (root / ".github/workflows").iterdir()) == list(WORKFLOWS)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_a_workflow_runs_exists(root, name):
    assert_exists(root, commands_of(root, name))


@pytest.mark.parametrize(
    "name, least", [("README.md", {"book", "test"}), ("book/setup.md", {"lab", "book", "install", "jupyter", "dsl"})]
)
def test_what_a_page_says_to_type_exists(root, name, least):
    text = (root / name).read_text("utf-8")
    assert least <= assert_exists(root, "\n".join(re.findall(r"^ {4}.*|`[^`\n]+`", text, re.MULTILINE)))


def test_what_the_containers_run_exists(root):
    container = json.loads((root / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert (root / ".devcontainer" / container["build"]["dockerfile"]).exists()
    assert_exists(root, container["postCreateCommand"])


def test_the_newest_dsl_takes_the_place_of_the_pinned_one(root):
    """The line that the weekly workflow edits is in each file that it edits, once."""
    edited = re.search(r'sed -i "s/(\^DSL_VERSION = )\.\*/.*?" (.*)', commands_of(root, "newest-dsl"))
    for name in edited[2].split():
        text = (root / name).read_text("utf-8")
        assert len(re.findall(edited[1], text, re.MULTILINE)) == 1
    every = (root / "quack_tutorial").rglob("*.py")
    others = [file for file in every if "DSL_VERSION = " in file.read_text("utf-8")]
    assert len(others) == len(edited[2].split())
