"""The flags of `calibrate`, apart from what it imports, so that help is quick."""

from collections.abc import Callable
from typing import Any

import click

from cache.shapes import DEFAULT_MODEL

Command = Callable[..., Any]


def options(command: Command) -> Command:
    """Every flag of `calibrate`, in the order in which help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_opt = click.option
_OPTIONS = (
    _opt("--model", default=DEFAULT_MODEL, show_default=True,
         help="Whose pages are copied: a preset, or the path of a Hugging Face config.json."),
    _opt("--tp", "--tp-size", default=1, show_default=True, help="Tensor parallelism."),
    _opt("--kv-cache-dtype", default="fp8_e4m3", show_default=True,
         help="fp8_e4m3, fp8_e5m2, bf16 or auto."),
    _opt("--page-size", type=click.IntRange(1), default=64, show_default=True,
         help="Tokens of a page."),
    _opt("--device", type=click.Choice(["cpu", "cuda"]), help="Default: the GPU if there is one."),
    _opt("--repeats", default=9, show_default=True, help="Of each sample."),
    _opt("--output", default="results/hardware.json", show_default=True,
         help="Where the preset goes."),
)  # fmt: skip
