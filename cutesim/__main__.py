"""Run a script that says `import cutlass` where the CuTe DSL is not installed.

python -m cutesim script.py [its arguments]
python -m cutesim check script.py [...]     the command `cutesim check`

The imports of cutlass in the script, and in modules beside it, are answered with the simulator's names; the script then
runs its kernels with `cutesim.simulate`. Where the DSL is installed, the script gets the
real one, as from `python script.py`. Nothing stays behind: no package or module named cutlass exists at any time.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from .context import told
from .language.loading import answer_folder, answer_imports

USAGE = "python -m cutesim: give it a script, as in `python -m cutesim kernel.py`"


def main(argv) -> None:
    if not argv or argv[0].startswith("-"):
        sys.exit(__doc__.strip() if argv else USAGE)
    if argv[0] == "check":
        from .command import main as command

        sys.exit(command(argv))
    script = Path(argv[0])
    if not script.is_file():
        sys.exit(f"{USAGE}; there is no file {argv[0]}")
    sys.argv[:] = argv
    sys.path[0] = str(script.resolve().parent)
    answer_folder(sys.path[0])
    answered = {}
    answer_imports(answered, torch=True)
    try:
        runpy.run_path(str(script), init_globals=answered, run_name="__main__")
    except Exception as error:
        if not hasattr(error, "_render_traceback_"):
            raise
        sys.exit("\n".join(told(error)))


if __name__ == "__main__":
    main(sys.argv[1:])
