"""What a cell's error says in the page."""

from __future__ import annotations

import os
import re
import traceback

from cutesim.context import NotSimulated, told

HERE = os.path.dirname(__file__)
GPU = "This page has no GPU and no CuTe DSL: run this cell in the notebook, on a machine with a Hopper GPU."


def told_error(error):
    """The traceback of a cell's error as text, from the cell's own line on; a sentence more for what only a GPU has.

    Of an error that a notebook shows without a traceback, as a finding or a lab's check, what it says and the lines it is about.
    """
    if hasattr(error, "_render_traceback_"):
        text = "\n".join(told(error))  # in the page its lines are as long as the page is wide
    else:
        frame = error.__traceback__
        while frame is not None and frame.tb_frame.f_code.co_filename.startswith(HERE):
            frame = frame.tb_next
        if isinstance(error, SyntaxError):  # which no cell's own line has raised
            frame = None
        text = "".join(traceback.format_exception(type(error), error, frame)).rstrip()
        text = re.sub(r'File "(cell \d+)", line (\d+)', r"\1:\2", text)
    needs_gpu = isinstance(error, NotSimulated) and not error.near or "CuTe DSL is not installed" in str(error)
    return f"{text}\n{GPU}" if needs_gpu else text
