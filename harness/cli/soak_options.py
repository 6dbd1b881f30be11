"""The flags of `soak`; apart from the command itself, which imports torch."""

from collections.abc import Callable
from typing import Any

import click

from harness.cli.durations import Duration
from harness.cli.serving import SERVING_OPTIONS
from harness.cli.traffic import TRAFFIC_OPTIONS
from harness.soak.settings import Watching

_WATCHING = Watching()
Command = Callable[..., Any]


def options(command: Command) -> Command:
    """Every flag of `soak`, in the order in which help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_opt = click.option
_OPTIONS = (
    _opt("--target", default="reference", show_default=True,
         help="What is tortured: the reference cache, or a release such as sglang==0.5.23."),
    *TRAFFIC_OPTIONS,
    _opt("--clock", type=click.Choice(["virtual", "wall"]), default="virtual", show_default=True,
         help="Which clock picks the next event: what is due by the model, or what is over."),
    *SERVING_OPTIONS,
    _opt("--ids-as-pages", is_flag=True,
         help="Count block hits: every id one whole page, prompts only, one at a time."),
    _opt("--oracles", type=click.Choice(["every", "sampled", "off"]), default=_WATCHING.oracles,
         show_default=True, help="every: full audit after every event; sampled: now and then."),
    _opt("--output-dir", default=_WATCHING.output_dir, show_default=True, help="Where runs land."),
    _opt("--tag", default=_WATCHING.tag, show_default=True, help="Name of the run's directory."),
    _opt("--calibrate", type=Duration(),
         help="Measure this machine so long before and after, with the beginning of the traffic;"
              " for --clock wall --compute model. `drift` then uses it."),
    _opt("--json", is_flag=True, help="The summary as one JSON line on standard output."),
)  # fmt: skip
