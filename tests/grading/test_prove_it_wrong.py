"""The lab prove-it-wrong: its proofs are tried on the kernel that its notebook shows, and that kernel passes its own test."""

from grading import corpus, folders, lab, submission


def test_the_given_kernel_is_the_notebooks_and_passes_its_test(capsys):
    text = (folders()["prove-it-wrong"] / "prove-it-wrong.md").read_text(encoding="utf-8")
    cells = [source.strip() for _, source, _ in submission.parts("prove-it-wrong.md", text)]
    assert lab("prove-it-wrong").SOURCE.strip() in cells
    known = {"RowEntropy": lab("prove-it-wrong").given()}
    exec(corpus.IMPORTS + "import numpy as np\nimport quack_tutorial as qt\n", known)
    exec(next(source for source in cells if "def test(" in source), known)
    assert capsys.readouterr().out.count("right") == 3
