"""The lab roof's race: bands of a copy's speed, and what a machine without a GPU is told."""

import pytest

from grading import corpus, folders, lab, submission, trial
from tests.grading.red_team import UNSEEN


@pytest.mark.parametrize(
    ("gb_s", "says"),
    [
        (1999, "50 % of the copy: below the first band; the next begins at 50 %."),
        (2000, "50 % of the copy: the band of 50 %; the next begins at 70 %."),
        (3200, "80 % of the copy: the band of 70 %; the next begins at 85 %."),
        (3400, "85 % of the copy: the band of 85 %; the next begins at 95 %."),
        (4100, "102 % of the copy: the band of 95 %, the highest there is."),
    ],
)
def test_a_speed_has_its_band(gb_s, says):
    assert lab("roof").band(gb_s, 4000, 4800) == says


def test_a_kernel_faster_than_its_bytes_allow_is_refused():
    band = lab("roof").band
    assert band(4801, 4000, 4800).startswith("Refused: 4,801 GB/s, and the memory has 4,800.")
    assert not band(4799, 4000, 4800).startswith("Refused")
    assert band(5001, 4000, None).startswith("Refused") and not band(4999, 4000, None).startswith("Refused")


def test_without_a_gpu_the_race_says_what_the_model_predicts(monkeypatch, root):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = corpus.answers(root / "labs/roof")
    told = lab("roof").race(loaded(found["solution"][0]))
    assert told.startswith("No race here: torch sees no CUDA GPU.")
    # 8 vectors of 16 bytes in each of 128 threads; 56 registers leave room for 9 blocks
    assert "bound by bandwidth: the sectors have 1.07 GB, and 147,456 bytes are under way on an SM" in told
    # a number of 4 bytes in each of 32 threads; each holds 128 of a row, and 152 registers leave room for 13 blocks
    few = lab("roof").race(loaded(found["summed_as_it_comes"][0]))
    assert "bound by latency: the sectors have 1.07 GB, and 1,664 bytes are under way on an SM" in few
    assert "nothing to say yet: AbsMeanScale needs a @cute.jit method" in lab("roof").race(type("AbsMeanScale", (), {}))


def loaded(text):
    module = lab("roof")
    return submission.load("answer.py", text, module.TARGET, module.FUNCTIONS)[module.TARGET]


@pytest.mark.parametrize("how", ["a load after the other", "a load if the other allows it"])
def test_loads_that_wait_for_others_are_not_under_way_with_them(how):
    case = next(case for case in lab("roof").cases() if case.name == "wide")
    text = corpus.answers(folders()["roof"])["solution"][0]
    # 8 vectors of 16 bytes in each of 128 threads, all at once and one after the other
    for waits, block_bytes in ((False, 16384), (True, 2048)):
        old, new = UNSEEN[how][2]
        run, *_ = trial.run_of(loaded(text.replace(old, new) if waits else text), case)
        assert lab("roof").flight(run.trace, 4 * 4096)["block"] == block_bytes
