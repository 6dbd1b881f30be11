"""The flags of `trace`; apart from the command itself, which reads and counts."""

from collections.abc import Callable
from typing import Any

import click

from harness.cli.traffic import TRACE_OPTIONS

Command = Callable[..., Any]


def options(command: Command) -> Command:
    """Every argument and flag of `trace`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_opt = click.option
_OPTIONS = (
    click.argument("file", type=click.Path()),
    *TRACE_OPTIONS,
    _opt("--page-size", type=click.IntRange(1), default=64, show_default=True,
         help="Tokens of a page, for the hit rate."),
    _opt("--to", default="", metavar="OUT", help="Write the trace there in Mooncake's form."),
    _opt("--to-block-size", type=click.IntRange(1),
         help="Tokens of an id there  [default: the trace's own, or 16]"),
    _opt("--json", is_flag=True, help="As one JSON line on standard output."),
)  # fmt: skip
