"""The flags of `compare`; apart from the command itself, which imports matplotlib."""

from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., Any]


def options(command: Command) -> Command:
    """Every argument and flag of `compare`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_opt = click.option
_OPTIONS = (
    click.argument("a", type=click.Path(exists=True, file_okay=False)),
    click.argument("b", type=click.Path(exists=True, file_okay=False)),
    _opt("--different-workloads", is_flag=True,
         help="Compare runs of different traffic; nothing is paired then."),
    _opt("--confidence", type=click.FloatRange(0.5, 0.999), default=0.95, show_default=True,
         help="Of the intervals."),
    _opt("--resamples", type=click.IntRange(200), default=2000, show_default=True,
         help="Of the bootstrap; very long runs get fewer."),
    _opt("--fail-if-worse", type=click.FloatRange(0), metavar="RATIO",
         help="Exit with 4 if a metric is surely worse by more than this, such as 0.05."),
    _opt("--seed", default=42, show_default=True, help="Of the bootstrap."),
    _opt("--output-dir", default="results", show_default=True, help="Where comparisons land."),
    _opt("--tag", default="compare", show_default=True, help="Name of the directory."),
    _opt("--json", is_flag=True, help="The comparison as one JSON line on standard output."),
)  # fmt: skip
