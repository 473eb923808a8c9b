"""NVIDIA's management library for tests, as ctypes shows it."""

from functools import partial


class Nvml:
    """Of a machine with these GPUs, as (name, compute capability); `numbers` are what nvmlDeviceGet... answers, and others it does
    not know."""

    def __init__(self, gpus=(), status=0, **numbers):
        self.gpus, self.status, self.numbers = gpus, status, numbers | {"Count_v2": len(gpus)}

    def __getattr__(self, name):
        return partial(self._answer, name.removeprefix("nvml").removeprefix("DeviceGet"))

    def _answer(self, what, *given):
        if what in ("Init_v2", "Shutdown"):
            return self.status
        if what == "SystemGetDriverVersion":
            given[0].value = b"580.95.05"
        elif what == "HandleByIndex_v2":
            given[1]._obj.value = given[0].value + 1
        elif what == "Name":
            given[1].value = self.gpus[given[0].value - 1][0].encode()
        elif what == "CudaComputeCapability":
            given[1]._obj.value, given[2]._obj.value = self.gpus[given[0].value - 1][1]
        elif what == "MemoryInfo":
            given[-1][0] = self.numbers[what]
        elif what in self.numbers:
            given[-1]._obj.value = self.numbers[what]
        else:
            return 3
        return 0
