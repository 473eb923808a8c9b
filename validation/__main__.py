"""`python -m validation`, from the project's root."""

import argparse
import sys

from validation import command

parser = argparse.ArgumentParser(prog="python -m validation", description=command.__doc__)
command.add_arguments(parser)
sys.exit(command.run(parser.parse_args()))
