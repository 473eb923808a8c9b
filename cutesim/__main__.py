"""`python -m cutesim check FILE.py` is the command `cutesim check FILE.py`."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
