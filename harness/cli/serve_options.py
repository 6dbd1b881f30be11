"""The flags of `serve`; apart from the command itself, which imports a web server."""

from collections.abc import Callable
from typing import Any

import click

from harness.cli.durations import Duration
from harness.cli.serving import SERVING_OPTIONS
from harness.serve.limits import ServeLimits
from harness.soak.settings import Watching

_LIMITS, _WATCHING = ServeLimits(), Watching()
Command = Callable[..., Any]


def options(command: Command) -> Command:
    """Every flag of `serve`, in the order in which help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_opt = click.option
_OPTIONS = (
    _opt("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    _opt("--port", type=click.IntRange(0, 65535), default=30000, show_default=True,
         help="Port to listen on; 0 takes a free one and says which."),
    _opt("--api-key", default="", envvar="KVTORTURE_API_KEY",
         help="What clients must send as Bearer  [default: no key]"),
    _opt("--max-body-bytes", default=_LIMITS.max_body_bytes, show_default=True,
         help="Longer bodies are refused (413)."),
    _opt("--max-open-requests", default=_LIMITS.max_open_requests, show_default=True,
         help="More requests at once are refused (429)."),
    _opt("--max-connections", default=_LIMITS.max_connections, show_default=True,
         help="More connections are closed at once."),
    _opt("--request-timeout", "request_s", type=Duration(), default=f"{_LIMITS.request_s:g}s",
         show_default=True, help="The most an answer may take; then it is aborted."),
    _opt("--idle-timeout", "idle_s", type=Duration(), default=f"{_LIMITS.idle_s:g}s",
         show_default=True, help="A client that neither sends nor reads for so long is cut off."),
    _opt("--drain-timeout", "drain_s", type=Duration(), default=f"{_LIMITS.drain_s:g}s",
         show_default=True, help="What open requests get when the server is told to stop."),
    _opt("--default-max-tokens", default=_LIMITS.default_max_tokens, show_default=True,
         help="Length of an answer whose request does not say."),
    _opt("--null", is_flag=True,
         help="No engine: stream at a fixed pace, to measure clients against. No run directory."),
    *SERVING_OPTIONS,
    _opt("--fault", default="", help="Put this defect into the cache first (see faults)."),
    _opt("--oracles", type=click.Choice(["every", "sampled", "off"]), default=_WATCHING.oracles,
         show_default=True, help="What is checked while it serves."),
    _opt("--output-dir", default=_WATCHING.output_dir, show_default=True, help="Where runs land."),
    _opt("--tag", default="serve", show_default=True, help="Name of the run's directory."),
    _opt("--json", is_flag=True, help="Address and summary as JSON lines on standard output."),
)  # fmt: skip
