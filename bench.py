"""The command line of kvtorture. Every command is a few lines that call the harness."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from cache.config import ConfigError
from harness.cli import soak as soak_command
from harness.cli.errors import UserError
from harness.record.directory import UsageError
from harness.verdict import Exit
from workloads.errors import WorkloadError

USER_ERRORS = (ConfigError, WorkloadError, UsageError, UserError)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(
    package_name="kvtorture", prog_name="kvtorture", message="%(prog)s %(version)s"
)
def cli() -> None:
    """Torment the tiered KV cache of a language-model server: does it break, what does it cost?"""


@cli.command("soak")
@soak_command.options
@click.pass_context
def soak(context: click.Context, /, **flags: Any) -> None:
    """Replay traffic through the cache on the virtual clock, with all oracles on, and report.

    Without flags: the configuration of the seed report (gemma-4-31B-it, TP 2, fp8, page 64, ratio
    1, write_through_selective) on the bundled head of the Mooncake conversation trace.
    """
    raise SystemExit(soak_command.run(context, flags))


@cli.command("report")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
def report(directory: str) -> None:
    """Build report.html of a run directory anew from its data files."""
    click.echo(soak_command.rebuild(directory))


def main() -> None:
    """Run the command line; what a user did wrong is one line and exit code 2."""
    sys.exit(guarded(lambda: cli.main(standalone_mode=False)))


def guarded(command: Callable[[], Any]) -> int:
    """The exit code of `command`, with errors told in one line."""
    try:
        command()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return Exit.INTERRUPTED
    except click.ClickException as error:
        return _complain(error.format_message())
    except USER_ERRORS as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else Exit.RUN_FAILED
    return Exit.PASS


def _complain(message: str) -> int:
    click.echo("error: " + " ".join(message.split()), err=True)
    return Exit.USAGE


if __name__ == "__main__":
    main()
