"""Suite `compiled`: a sample holds, and doctored PTX is found out."""

import pytest

pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
pytest.importorskip("torch")

from validation import compiled


def test_a_sample_of_the_real_thing():
    found = compiled.run(True, lambda what: None)
    assert found.ok, found
    assert found.checked == sum(row[1] for row in found.rows) > 15


DOCTORED = """
CopyVectors(5 x 302) | ld.global.v2.b32 | ld.global.v4.b32 | PTX has a global load of 16 bytes
CopyVectors(5 x 302) | st.global.v2.b32 | st.global.v8.b32 | PTX has a global store of 32 bytes
CopyVectors(5 x 302) | st.global.v2.b32 | mov.b32 | global store of 8 bytes at copy.py
SoftmaxOnline(5 x 302) | st.shared.v2.b32 | mov.b32 | shared store of 4 bytes at reduce.py
SoftmaxOnline(5 x 302) | shfl.sync.bfly | shfl.sync.down | shuffles of kind down are in the PTX alone
LastBlock | atom. | mov. | global atomic of 4 bytes
CrossEntropyBackwardElements(5 x 41) | ld.global.b32 | mov.b32 | global load of 8 bytes at cross_entropy.py
BulkCopy(512) | cp.async.bulk.global.shared::cta.bulk_group | mov.b32 | shared bulk store
RowSums() | ld.shared.b32 | ld.shared.v2.b32 | PTX has a shared load of 8 bytes
RowSums() | ld.shared.b32 | mov.b32 | shared load of 4 bytes at reduce.py
SoftmaxThread(5 x 16) | ld.global.b32 | mov.b32 | 48 a thread, the PTX has none
RowSums() | shfl.sync.bfly | mov.b32 | shuffles of kind bfly are in the trace alone
CopyThread(5 x 302) | ld.global.b32 | ld.global.v2.b32 | global load of 4 bytes at copy.py
""".strip().split("\n")


@pytest.fixture(scope="module")
def subjects():
    found = {subject.name: subject for subject in compiled.subjects(False)}
    chosen = [found[name] for name in {line.partition(" | ")[0] for line in DOCTORED}]
    return {s.name: (compiled.seen(compiled.simulated(s)), compiled.ptx_of(s)) for s in chosen}


def unexplained(subject, text):
    every = compiled.compare(subject[0], compiled.emitted(text))
    return [sentence for sentence, rule in every if rule is None]


@pytest.mark.parametrize("line", DOCTORED)
def test_doctored_ptx_is_a_mismatch(subjects, line):
    name, old, new, said = line.split(" | ")
    text = subjects[name][1]
    assert old in text
    assert unexplained(subjects[name], text) == []
    assert any(said in sentence for sentence in unexplained(subjects[name], text.replace(old, new)))
