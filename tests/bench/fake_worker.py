"""A worker that measures nothing: it speaks the protocol, with made-up times, and dies or hangs where it is told to.

Run as `python fake_worker.py BEHAVIOUR`: "good", "dies-at:PROVIDER", "dies-at-ceiling", "full-at:PROVIDER", "lacks-ours",
"never-starts", "h200" (as "good", on a GPU whose memory is known).
"""

import dataclasses
import json
import sys

from tests.bench import synthetic

MISSING = "ImportError: libruntime.so: cannot open shared object file"
behaviour = sys.argv[1]
if behaviour == "never-starts":
    sys.exit("ImportError: no module named torch")
versions = {"torch": sys.argv[2], "quack-kernels": "0.0"}
device = "NVIDIA H200" if behaviour == "h200" else "Synthetic GPU"
machine = {"device": device, "l2_bytes": 62914560, "sms": 132, "versions": versions}
print(json.dumps({"machine": machine}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    steps = ["ceiling", *[p for p in request["providers"] if p not in request["crashed"]], "timing"]
    for step in steps:
        print(json.dumps({"doing": step}), flush=True)
        if behaviour in (f"dies-at:{step}", f"dies-at-{step}"):
            sys.exit("RuntimeError: CUDA error: an illegal memory access was encountered")
        if behaviour == f"full-at:{step}":
            sys.exit("torch.OutOfMemoryError: CUDA out of memory.")
    key = request["cell"]
    times = {p: 41.0 for p in request["providers"] if p not in ("ours", *request["crashed"])}
    cell = synthetic.cell(key["dtype"], key["M"], key["N"], peers_us=times, operation=key["operation"])
    crashed = [{"provider": name, "status": "crashed", "message": why} for name, why in request["crashed"].items()]
    data = dataclasses.asdict(cell)
    blank = dataclasses.asdict(cell.results[0])
    blank |= {"samples_us": [], "gb_s": None, "fraction_of_ceiling": None}
    data["results"] = [
        *data["results"],
        *(blank | {"iqr_us": None, "percent_of_datasheet": None, "error": None} | c for c in crashed),
    ]
    if behaviour == "lacks-ours":
        data["results"][0] |= {"provider": "ours", "status": "missing", "message": MISSING}
    print(json.dumps({"cell": data}), flush=True)
