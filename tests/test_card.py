"""Which card is meant: the one that the environment names, this machine's, or the book's."""

import pytest

from quack_tutorial import card, hardware, machine, records


@pytest.fixture(autouse=True)
def looked_at_anew(monkeypatch):
    monkeypatch.delenv(card.VARIABLE, raising=False)
    card.here.cache_clear()
    yield
    card.here.cache_clear()


def with_gpu(monkeypatch, name, capability=(9, 0), **numbers):
    monkeypatch.setattr(machine, "find_gpu", lambda: {"gpu": name, "compute_capability": capability})
    monkeypatch.setattr(machine, "gpu_numbers", lambda name: numbers or None)


def test_the_environment_comes_before_the_machine_and_the_machine_before_the_book(monkeypatch):
    with_gpu(monkeypatch, None)
    assert card.here() is None and card.meant().card == card.BOOK
    card.here.cache_clear()
    with_gpu(monkeypatch, "NVIDIA H100 80GB HBM3")
    assert card.meant().card == "h100" and card.like(("h200", "h100")) == "h100"
    monkeypatch.setenv(card.VARIABLE, "h200")
    assert card.meant().card == "h200"
    monkeypatch.setenv(card.VARIABLE, "h300")
    with pytest.raises(KeyError, match="no GPU 'h300'"):
        card.meant()


def test_a_gpu_that_the_table_lacks_is_what_the_driver_says(monkeypatch):
    with_gpu(monkeypatch, "NVIDIA A10G", (8, 6), sms=80, bandwidth_gb_s=600, memory_gb=24)
    found = card.meant()
    assert (found.card, found.sms, found.threads_per_sm, found.capability) == ("a10g", 80, 1536, (8, 6))
    assert card.like(("h200", "h100")) == "h100"
    card.here.cache_clear()
    with_gpu(monkeypatch, "NVIDIA Unheard")  # of which the driver says nothing
    assert card.meant().card == card.BOOK


class Driver:
    """NVML of one A100: 6,912 lanes, 5,120 wires at 1,593 MHz, 80 GiB."""

    def __getattr__(self, name):
        numbers = {"NumGpuCores": 6912, "MemoryBusWidth": 5120, "MaxClockInfo": 1593}

        def answer(*arguments):
            where = getattr(arguments[-1], "_obj", None) if arguments else None
            if name == "nvmlDeviceGetMemoryInfo":
                arguments[-1][0] = 80 << 30
            elif name.removeprefix("nvmlDeviceGet") in numbers:
                where.value = numbers[name.removeprefix("nvmlDeviceGet")]
            return 0

        return answer


def test_the_driver_is_asked_for_sms_and_bandwidth(monkeypatch):
    monkeypatch.setattr(machine, "load_nvml", Driver)
    monkeypatch.setattr(machine, "list_gpus", lambda nvml: [("NVIDIA A100X", (8, 0))])
    assert machine.gpu_numbers("NVIDIA A100X") == {"sms": 108, "bandwidth_gb_s": 2039, "memory_gb": 86}
    assert machine.gpu_numbers("another") is None
    monkeypatch.setattr(machine, "load_nvml", lambda: None)
    assert machine.gpu_numbers("NVIDIA A100X") is None


def test_records_are_those_of_the_card_or_of_the_one_most_like_it(monkeypatch):
    with_gpu(monkeypatch, "NVIDIA B200", (10, 0))
    assert records.folder().name in records.WHOLE
    assert records.folder("h100").name == "h100"
    monkeypatch.setenv(card.VARIABLE, "h100")
    assert records.folder().name == "h100"
    with pytest.raises(ValueError, match="nothing is recorded of a card 'l4'; there are h100, h200"):
        records.folder("l4")
    assert set(records.WHOLE) <= set(records.cards()) and all(hardware.gpu(name) for name in records.cards())
