"""Reads of shared memory that nobody wrote before, on traces by hand."""

from log import Log, at, span

from cutesim.analysis.unwritten import unwritten_reads


def found(log):
    reads = unwritten_reads(log.trace())
    assert all(read.what.endswith(" of buffer") for read in reads)
    return [(read.line.number, read.block, read.thread, int(read.what.split()[1])) for read in reads]


def test_the_first_read_of_a_line_is_named_with_who_reads_what():
    log = Log()
    log.store(1, span(0, lanes=range(30)))
    log.load(3, span(0, lanes=range(30)))
    log.load(4, span(4), warp=1)  # words 1 to 32, of which 30 to 32 are not there
    log.load(4, span(0), warp=0)
    assert found(log) == [(4, 0, 32 + 29, 30)]
    wanted = "thread 61 of block 0 reads element 30 of buffer at k.py:4"
    assert str(unwritten_reads(log.trace())[0]) == wanted


def test_half_of_a_word_is_not_the_word():
    log = Log()
    log.store(1, at(l0=0), nbytes=2)
    log.load(2, at(l0=0), nbytes=4)
    log.load(3, at(l0=0), nbytes=2)
    assert found(log) == [(2, 0, 0, 0)]


def test_an_update_reads_too():
    log = Log()
    log.atomic(1, at(l0=0, l1=4))
    assert found(log) == [(1, 0, 0, 0)]
    log = Log()
    log.store(1, at(l0=0))
    log.atomic(2, at(l0=0))
    assert found(log) == []


def test_every_block_has_its_own_and_one_may_write_anothers():
    log = Log(grid=2, cluster=2)
    log.store(1, at(l0=0), block=0)
    log.store(2, at(l0=4), block=0, owner=1)
    log.load(3, at(l0=0), block=0)
    log.load(4, at(l0=4), block=1)
    log.load(5, at(l0=0), block=1)
    log.load(6, at(l0=4), block=0)
    assert found(log) == [(5, 1, 0, 0), (6, 0, 0, 1)]


def test_asynchronous_copies_write():
    log = Log()
    log.cp_async(1, span(0), span(0))
    log.bulk(2, 4096, 0, 512, mbarrier=1024)
    log.load(3, span(0))
    log.load(4, span(4096, stride=16), nbytes=16)
    log.load(5, at(l0=4096 + 512))
    assert found(log) == [(5, 0, 0, 1024 + 128)]


def test_a_launch_finds_nothing_of_the_one_before():
    log = Log()
    log.store(1, at(l0=0))
    log.launch()
    log.load(2, at(l0=0))
    assert found(log) == [(2, 0, 0, 0)]
