"""The flags of `load`; apart from the command itself, which imports Locust."""

from collections.abc import Callable
from typing import Any

import click

from harness.cli.durations import Duration
from harness.cli.traffic import TRAFFIC_OPTIONS
from harness.load.settings import Loading

_LOADING = Loading()
Command = Callable[..., Any]


def options(command: Command) -> Command:
    """Every flag of `load`, in the order in which help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_opt = click.option
_OPTIONS = (
    _opt("--base-url", default=_LOADING.base_url, show_default=True, help="The server."),
    _opt("--backend", type=click.Choice(["openai", "sglang", "vllm"]), default=_LOADING.backend,
         show_default=True, help="What kind of server: fields and metrics differ."),
    _opt("--model", default="", help="Name to ask for  [default: the first that it lists]"),
    _opt("--api-key", default="", envvar="KVTORTURE_API_KEY", help="Sent as Bearer."),
    _opt("--users", default=_LOADING.users, show_default=True,
         help="Sessions that can be under way at once."),
    _opt("--output-len", "--osl", default=_LOADING.output_len,
         help="Tokens of every answer  [default: as the workload says]"),
    _opt("--vocab-size", default=_LOADING.vocab_size, show_default=True,
         help="Prompt tokens are drawn below it."),
    _opt("--page-size", default=64, show_default=True, help="Of the server, for hit rates."),
    _opt("--request-timeout", "request_s", type=Duration(), default=f"{_LOADING.request_s:g}s",
         show_default=True, help="A read that waits so long is an error."),
    _opt("--stall-timeout", "stall_s", type=Duration(), default=f"{_LOADING.stall_s:g}s",
         show_default=True, help="No byte of any answer for so long is a stall."),
    _opt("--drop-after", "drop_s", type=Duration(), default=f"{_LOADING.drop_s:g}s",
         show_default=True, help="A session that no user took in time is dropped."),
    _opt("--check-output", type=click.FloatRange(0, 1), default=_LOADING.check_output,
         show_default=True,
         help="Share of prompts asked again at the end, warm and flushed (50 at most)."),
    _opt("--check-counts/--no-check-counts", default=_LOADING.check_counts, show_default=True,
         help="A server of ours must have counted what the client did."),
    _opt("--calibrate", is_flag=True,
         help="Measure this client against a null server, at rising rates or --request-rate."),
    _opt("--processes", default=1, show_default=True,
         help="Processes of this machine that send; -1 is one a core."),
    _opt("--master", is_flag=True, help="Send nothing; share the load out to workers."),
    _opt("--expect-workers", default=1, show_default=True, help="How many the master waits for."),
    _opt("--master-bind-host", default="127.0.0.1", show_default=True,
         help="Where the master listens; * for all addresses."),
    _opt("--master-bind-port", type=click.IntRange(1, 65535), default=5557, show_default=True,
         help="Its port."),
    _opt("--worker", is_flag=True, help="Send what a master says; other flags come from there."),
    _opt("--master-host", default="127.0.0.1", show_default=True, help="The worker's master."),
    _opt("--master-port", type=click.IntRange(1, 65535), default=5557, show_default=True,
         help="Its port."),
    _opt("--web", is_flag=True, help="Show Locust's own page meanwhile; its Stop ends the run."),
    _opt("--web-host", default="127.0.0.1", show_default=True, help="Address of the page."),
    _opt("--web-port", type=click.IntRange(1, 65535), default=8089, show_default=True,
         help="Port of the page."),
    *TRAFFIC_OPTIONS,
    _opt("--output-dir", default="results", show_default=True, help="Where runs land."),
    _opt("--tag", default="load", show_default=True, help="Name of the run's directory."),
    _opt("--json", is_flag=True, help="The summary as one JSON line on standard output."),
)  # fmt: skip
