"""Suite `compiled`: a sample holds, PTX is read as it is meant, and doctored PTX is found out."""

import re

import pytest

pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
pytest.importorskip("torch")

from validation import compiled


def test_a_sample_of_the_real_thing():
    found = compiled.run(True, lambda what: None)
    assert found.ok, found
    assert found.checked == sum(row[1] for row in found.rows) > 15


@pytest.fixture(scope="module")
def subjects():
    found = {subject.name: subject for subject in compiled.subjects(False)}
    names = ["CopyVectors(5 x 302)", "SoftmaxOnline(5 x 302)", "LastBlock", "BulkCopy(512)", "RowSums()"]
    names += ["CopyAsync(5 x 16)", "cross-entropy(7 x 71, congruent, (8, 32, 1, 2), gap 0, ignored -100)"]
    names += ["copy, vectors, float32, 5 x 1000", "CrossEntropyBackwardElements(5 x 41)", "SoftmaxThread(5 x 16)"]
    names += ["CopyThread(5 x 302)", "RMSNormBackwardAtomics(5 x 302)"]
    chosen = [found[name] for name in names]
    return {s.name: (compiled.seen(compiled.simulated(s)), compiled.ptx_of(s)) for s in chosen}


def unexplained(subject, text):
    every = compiled.compare(subject[0], compiled.emitted(text))
    return [sentence for sentence, rule in every if rule is None]


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
"""


@pytest.mark.parametrize("line", DOCTORED.strip().split("\n"))
def test_doctored_ptx_is_a_mismatch(subjects, line):
    name, old, new, said = line.split(" | ")
    text = subjects[name][1]
    assert old in text
    assert unexplained(subjects[name], text) == []
    assert any(said in sentence for sentence in unexplained(subjects[name], text.replace(old, new)))


def test_single_elements_of_global_memory_merge_only_where_neighbours_are_and_byte_for_byte(subjects):
    lanes, atomics = subjects["CopyThread(5 x 302)"], subjects["RMSNormBackwardAtomics(5 x 302)"]
    # Lanes beside each other are no neighbours in a thread: a wider load stays a mismatch.
    text = lanes[1]
    assert unexplained(lanes, text) == []
    assert "ld.global.b32" in text
    assert unexplained(lanes, text.replace("ld.global.b32", "ld.global.v2.b32"))
    text = atomics[1]
    assert unexplained(atomics, text) == [] and not compiled.emitted(text).loops
    assert unexplained(atomics, text.replace("ld.global.b32", "mov.b32", 1))


def test_in_ptx_without_loops_every_access_and_shuffle_is_counted(subjects):
    copy, sums = subjects["copy, vectors, float32, 5 x 1000"], subjects["RowSums()"]
    assert unexplained(copy, copy[1]) == [] and not compiled.emitted(copy[1]).loops
    (sentence,) = unexplained(copy, copy[1].replace("ld.global.v4.b32", "mov.b32", 1))
    assert re.search(r"global load of 16 bytes at copy.py:\d+, 4 a thread, the PTX has 3", sentence)
    # Four more loads, and no branch or predicate that could keep a thread from them.
    loads = "\n\tld.global.b32 %r1, [%rd1];" * 4
    sentences = unexplained(sums, re.sub(r"(\s+ret;)", loads + r"\1", sums[1]))
    assert sentences == ["the PTX has 5 times a global load of 4 bytes, a thread executes 1"]
    (sentence,) = unexplained(sums, sums[1].replace("shfl.sync.bfly", "mov", 1))
    assert sentence == "the PTX has 5 shuffles of kind bfly, a thread executes 6"


def test_loops_and_what_stands_behind_branches():
    load, branch = "ld.global.b32 %r1, [%rd1];", "@%p1 bra $L__2;"
    straight = compiled.emitted(f"{load}\n{branch}\n{load}\n$L__2:\n{load}\n@!%p2 {load}\n")
    assert (straight.accesses["global", "load", 4], straight.guarded["global", "load", 4]) == (4, 2)
    assert not straight.loops and compiled.emitted(f"$L__2:\n{load}\n{branch}\n").loops


def test_a_block_on_one_line_is_the_instructions_in_it():
    load = "ld.global.v2.b32 {%r1, %r2}, [%rd1];"
    block = "\t{ .reg .pred p; setp.ne.b32 p, %r5, 0; mov.b32 %r1, %r3; mov.b32 %r2, %r4; @p " + load + " }\n"
    found = compiled.emitted(f"{load}\n{block}")
    assert (found.accesses["global", "load", 8], found.guarded["global", "load", 8]) == (2, 1)


def test_rules_explain_and_are_named(subjects):
    def rules(name):
        shown, text = subjects[name]
        return {rule for _, rule in compiled.compare(shown, compiled.emitted(text))}

    assert rules("SoftmaxOnline(5 x 302)") == {"merged", "uniform"}
    assert rules("BulkCopy(512)") == {"no change", "uniform"}
    assert rules("CopyVectors(5 x 302)") == set()
    assert rules("CrossEntropyBackwardElements(5 x 41)") == {"narrowed", "not taken"}
    assert rules("CopyAsync(5 x 16)") == {"unused", "uniform"}
    assert rules("cross-entropy(7 x 71, congruent, (8, 32, 1, 2), gap 0, ignored -100)") == {"not taken"}


def test_a_shuffle_is_uniform_only_of_indices_by_lane_0_of_the_whole_warp():
    head = "mov.u32 %r1, %tid.x;\nshr.u32 %r2, %r1, 5;\nld.global.b32 %r3, [%rd1];\nadd.s32 %r4, %r2, %r3;\n"

    def kinds(operands):
        has = compiled.emitted(head + f"shfl.sync.idx.b32 %r9, {operands};\n")
        return set(has.uniform), set(has.shuffles)

    assert kinds("%r2, 0, 31, -1") == ({"idx"}, set())
    found = kinds("%r4, 0, 31, -1")
    assert found == kinds("%r2, 1, 31, -1") == kinds("%r2, 0, 31, 255") == (set(), {"idx"})


def test_what_the_compiler_refuses_is_a_mismatch(monkeypatch):
    def refused(host, *specs):
        raise ValueError("expects a static layout")

    monkeypatch.setattr(compiled.compiler, "ptx", refused)
    monkeypatch.setattr(compiled, "subjects", lambda sample, real=compiled.subjects: real(True)[:1])
    (mismatch,) = compiled.run(True, lambda what: None).mismatches
    assert "ValueError at refused: expects a static layout" in mismatch
