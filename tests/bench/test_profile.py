"""What is read of Nsight Compute's table, and the cases that are profiled."""

import json

import pytest

from bench import profile
from bench.peers import PROVIDERS
from quack_tutorial.operations import OPERATIONS


def table(kernel="softmax_kernel", **values):
    names = ["ID", "Kernel Name", *profile.METRICS.values()]
    row = ["0", kernel, *(values.get(name, "1") for name in profile.METRICS)]
    quoted = (",".join(f'"{cell}"' for cell in line) for line in (names, [""] * len(names), row))
    return "==PROF== Connected\n" + "\n".join(quoted)


def test_a_launch_has_its_name_and_every_metric():
    (launch,) = profile.parse(table(time_us="5,140,000", dram_read_bytes="8589934592", registers="n/a"))
    assert launch["kernel"] == "softmax_kernel"
    assert launch["time_us"] == 5140.0 and launch["dram_read_bytes"] == 8589934592
    assert launch["registers"] is None and set(launch) == {"kernel", *profile.METRICS}


def test_each_case_is_one_that_the_benchmark_knows():
    for case in profile.CASES:
        if case.operation == "reads":
            assert case.provider in profile.READS
            continue
        operation = OPERATIONS[case.operation]
        assert case.provider in {**PROVIDERS[case.operation], **operation.ladder}, case


@pytest.mark.parametrize("N", [32768, 65536])
def test_ligers_recorded_machine_code_has_the_registers_and_spills_that_were_counted(N):
    from quack_tutorial.records import listings
    from quack_tutorial.records import profile as records

    made, counted = listings.liger_softmax()[0][N], records.load()("softmax", "liger", N)
    assert made.registers == counted.of_main("registers")
    assert made.threads == counted.of_main("threads")
    threads = made.threads * counted.of_main("blocks")
    for operation, counter in (("STL", "local_store_sectors"), ("LDL", "local_load_sectors")):
        assert made.words(operation) == round(counted.total(counter) * 8 / threads)
    assert made.words("LDG") == made.words("STG") == N // made.threads
    strip = made.strip({"LDG": "G", "STG": "W"})
    assert len(strip) == 72 and strip.rstrip(".").endswith("W")
    assert strip.index("G") < strip.index("W")


def test_a_record_is_gone_on_with_only_on_its_own_machine_and_versions(tmp_path):
    path, here = tmp_path / "profile.json", {"device": "NVIDIA H200", "versions": {"torch": "2"}}
    path.write_text(json.dumps({**here, "date": "2026-11-24", "cases": [{"case": {"N": 1}}]}))
    assert profile.held(path, here) == ([{"case": {"N": 1}}], ["2026-11-24"], {"torch": "2"})
    with_a_peer = {"torch": "2", "liger-kernel": "1"}
    assert profile.held(path, {**here, "versions": with_a_peer})[2] == with_a_peer
    with pytest.raises(profile.NotProfiled, match=r"another machine or version \(torch\)"):
        profile.held(path, {**here, "versions": {"torch": "3"}})
