"""Where tables are printed: as wide as the terminal, or wide enough to cut nothing in a file."""

import sys

from rich.console import Console

PLAIN_WIDTH = 160


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
