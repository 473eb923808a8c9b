"""What each release of CuTe DSL makes of every rung and every kernel that ships, on four generations of GPUs; no GPU is needed.

    python -m bench.releases 4.8.1 4.8.0 4.7.1    # installs each in a folder of its own, compiles, adds it to the record
    python -m bench.releases --here               # one sentence on what the installed one makes otherwise than the newest recorded

The PTX of all releases goes through the same ptxas, so what differs is the DSL's doing. `FACTS` are what is kept of a program; of
one that launches several kernels, their sum.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bench import architectures
from quack_tutorial import compiler, machine_code
from quack_tutorial.records import FOLDER, read, today

FILE = FOLDER / "compiled" / "releases.json"
GENERATIONS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
KINDS = {  # what the names of a kind's instructions begin with; an instruction is of the first that fits
    "global memory": ("LDG", "STG", "UBLKCP", "RED", "ATOMG"),
    "shared memory": ("LDS", "STS", "STAS", "SYNCS", "ATOMS"),
    "local memory": ("LDL", "STL"),
    "shuffles and votes": ("SHFL", "VOTE", "REDUX", "MATCH"),
    "barriers and fences": ("BAR", "UCGABAR", "MEMBAR", "FENCE", "CCTL", "DEPBAR"),
    "branches": ("BRA", "BSSY", "BSYNC", "BREAK", "EXIT", "RET", "CALL"),
    "floating point": ("F", "H", "MUFU"),
    "integers, addresses, moves": ("",),
}
FACTS = ("registers", "spilled bytes", "loads in flight")
FACTS += ("instructions", "registers under another name")
FACTS += ("local bytes", "loads of 16 bytes", "narrower loads", *KINDS)
PROGRAMS = tuple(
    p for p in architectures.programs() if p[2:] in (("float32", 1024), ("float32", 4096), ("bfloat16", 16384))
)
PACKAGES = ("", "-libs-base", "-libs-core", "-libs-cu12")


def facts(texts: list[str]) -> list[int]:
    """`FACTS` of the PTX of a program."""
    found = Counter()
    for ptx in texts:
        code = machine_code.assembled(ptx)
        counts = Counter(machine_code.counts(code.sass))
        renamed = machine_code.assembled(ptx.replace(machine_code.entry(ptx), "another"), listed=False)
        names = [named[2] for line in code.sass if (named := machine_code.INSTRUCTION.match(line))]
        kinds = Counter(next(kind for kind, starts in KINDS.items() if name.startswith(starts)) for name in names)
        narrower = sum(counts[f"loads of {width} bytes"] for width in (8, 4, 2, 1))
        here = (code.registers, code.spill_store_bytes)
        here += (counts["loads in flight"], len(names), renamed.registers)
        here += code.local_bytes, counts["loads of 16 bytes"], narrower
        found.update(dict(zip(FACTS, here)) | kinds)
    return [found[name] for name in FACTS]


def made(archs=GENERATIONS) -> dict:
    """{architecture: {program: `FACTS`, or why there are none}} by the DSL that is installed."""
    release, found = compiler.take_any_release(), {}
    for arch in archs:
        answers = architectures.compiled(arch, facts, PROGRAMS)
        found[arch] = {", ".join(map(str, program)): said for program, said in answers.items()}
        kept = [said for said in found[arch].values() if isinstance(said, list)]
        counted = f"{len(kept)} of {len(answers)} compile, {sum(said[1] > 0 for said in kept)} spill"
        print(f"{release}, {arch}: {counted}", file=sys.stderr, flush=True)
    return found


def of_release(release: str, folder: Path) -> dict:
    """`made` by a release, which is installed in a folder."""
    wanted = [f"nvidia-cutlass-dsl{package}=={release}" for package in PACKAGES]
    words = "-m pip install --quiet --no-deps --ignore-installed --prefix".split()
    subprocess.run([sys.executable, *words, str(folder), *wanted], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    paths = [str(FOLDER.parents[1]), str(site), str(site / "nvidia_cutlass_dsl/dsl_packages")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), compiler.DUMP_FOLDER: str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "bench.releases", "--print"],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def moved(before: dict, now: dict) -> str:
    """One sentence on what two releases make of the same programs."""
    told = []
    for arch, programs in now.items():
        pairs = [(before[arch][name], said) for name, said in programs.items() if name in before.get(arch, {})]
        both = [(old, new) for old, new in pairs if isinstance(old, list) and isinstance(new, list)]
        changes = {
            "no longer compile": sum(isinstance(old, list) and not isinstance(new, list) for old, new in pairs),
            "compile now": sum(isinstance(new, list) and not isinstance(old, list) for old, new in pairs),
            "take other registers": sum(old[0] != new[0] for old, new in both),
            "spill where they did not": sum(new[1] > old[1] == 0 for old, new in both),
            "have fewer loads in flight": sum(new[2] < old[2] for old, new in both),
            "use local memory where they did not": sum(new[5] > old[5] == 0 for old, new in both),
            "load in narrower pieces": sum(new[6] < old[6] and new[7] > old[7] for old, new in both),
        }
        told += [f"{arch}: {count} {what}" for what, count in changes.items() if count]
    return "; ".join(told) or "nothing moved"


def main(argv=None) -> int:
    """Keep, print or compare; 1 where ptxas or nvdisasm is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="*", metavar="RELEASE")
    parser.add_argument(
        "--here", action="store_true", help="compare the installed release with the newest recorded one"
    )
    parser.add_argument("--print", action="store_true", help="print what the installed release makes, as JSON")
    args = parser.parse_args(argv)
    if problem := machine_code.missing():
        print(f"releases: {problem}", file=sys.stderr)
        return 1
    if args.print:
        print(json.dumps(made()))
        return 0
    kept = read(FILE) if FILE.exists() else {"releases": {}}
    if args.here:
        newest = max(kept["releases"], key=lambda release: tuple(map(int, release.split("."))))
        # Again, since ptxas may be another one than the record's.
        with tempfile.TemporaryDirectory() as folder:
            before = of_release(newest, Path(folder))
        now = made()
        print(f"CuTe DSL {compiler.DSL_VERSION} beside {newest}: {moved(before, now)}.")
        return 0
    for release in args.releases:
        with tempfile.TemporaryDirectory() as folder:
            kept["releases"][release] = of_release(release, Path(folder))
        kept |= {"facts": FACTS, "ptxas": machine_code.tools()["ptxas"], "date": today()}
        FILE.write_text(
            re.sub(r"\[[^][]*\]", lambda found: " ".join(found[0].split()), json.dumps(kept, indent=1)) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
