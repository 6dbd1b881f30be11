"""The command line of kvtorture. Every command is a few lines that call the harness."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cache.config import ConfigError
from harness.cli import (
    compare_options,
    load_options,
    measure_options,
    serve_options,
    soak_options,
    trace_options,
)
from harness.cli.durations import Duration
from harness.cli.errors import UserError
from harness.cli.seeds import Seed
from harness.faults import UnknownFault
from harness.hunt.errors import ScenarioError
from harness.record.directory import UsageError
from harness.verdict import Exit
from workloads.errors import WorkloadError

USER_ERRORS = (
    ConfigError,
    WorkloadError,
    UsageError,
    UserError,
    UnknownFault,
    ScenarioError,
)
GRAINS = click.Choice(["scheduler", "fine", "both"])
SHARE = click.FloatRange(0, 1)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(
    package_name="kvtorture", prog_name="kvtorture", message="%(prog)s %(version)s"
)
def cli() -> None:
    """Torment the tiered KV cache of a language-model server: does it break, what does it cost?"""


@cli.command("soak")
@soak_options.options
@click.pass_context
def soak(context: click.Context, /, **flags: Any) -> None:
    """Replay traffic through the cache on the virtual clock, with all oracles on, and report.

    Without flags: the configuration of the seed report (gemma-4-31B-it, TP 2, fp8, page 64, ratio
    1, write_through_selective) on the bundled head of the Mooncake conversation trace.
    """
    if flags["target"] != "reference":
        from harness.cli import soak_release

        raise SystemExit(soak_release.run(context, flags))
    from harness.cli import soak as soak_command

    raise SystemExit(soak_command.run(context, flags))


@cli.command("serve")
@serve_options.options
@click.pass_context
def serve(context: click.Context, /, **flags: Any) -> None:
    """Serve the cache and the engine over HTTP as OpenAI's API, on the wall clock, oracles on.

    Any client of such servers can load it. There is no model: forwards and copies take the time
    that a model of the hardware says, and answers are pseudo-random tokens. Ends with a signal, a
    verdict and a run directory.
    """
    from harness.cli import serve as serve_command

    raise SystemExit(serve_command.run(context, flags))


@cli.command("load")
@load_options.options
@click.pass_context
def load(context: click.Context, /, **flags: Any) -> None:
    """Load any OpenAI-compatible server with traffic, and judge what it answers."""
    from harness.cli import load as load_command

    raise SystemExit(load_command.run(context, flags))


@cli.command("calibrate")
@measure_options.options
def calibrate(**flags: Any) -> None:
    """Measure this machine and write a preset that --hardware takes.

    Exits with 5 when the machine was too busy for a sample to be believed; the file names it.
    """
    from harness.cli import measure

    raise SystemExit(measure.run(flags))


@cli.command("smoke")
@click.option("--plan", default="", help="Steps and thresholds, a TOML file  [default: ours]")
@click.option("--output-dir", default="results/smoke", show_default=True, help="Where all lands.")
def smoke(**flags: Any) -> None:
    """A minute of everything, for CI: soak, hunt, known defects found, a round trip over HTTP.

    Writes smoke.xml (JUnit) and smoke.md, the latter to the job's page on GitHub too.
    """
    from harness.cli import smoke as smoke_command

    raise SystemExit(smoke_command.run(flags))


@cli.command("report")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
def report(directory: str) -> None:
    """Build report.html of a run directory anew from its data files."""
    from harness.cli import soak as soak_command

    click.echo(soak_command.rebuild(directory))


@cli.command("compare")
@compare_options.options
def compare(**flags: Any) -> None:
    """Compare the runs in two directories: ratio, difference and interval of every metric.

    Runs of soak, load and serve. The same requests are paired. Exits with 0 whatever differs,
    unless --fail-if-worse says otherwise (4).
    """
    from harness.cli import compare as compare_command

    raise SystemExit(compare_command.run(flags))


@cli.command("trace")
@trace_options.options
def trace(**flags: Any) -> None:
    """Say what a trace is: format, requests, lengths, sessions, the most a cache could hit.

    FILE is any trace that soak and load replay; --to writes it in Mooncake's form.
    """
    from harness.cli import trace as trace_command

    raise SystemExit(trace_command.run(flags))


@cli.command("hunt")
@click.option("--fault", default="", help="Put this defect into the cache first (see faults).")
@click.option(
    "--target",
    default="reference",
    show_default=True,
    help="What is tortured: the reference cache, or a release such as sglang==0.5.12.",
)
@click.option("--budget", type=Duration(), default="60s", show_default=True, help="How long.")
@click.option(
    "--strategy",
    default="portfolio",
    show_default=True,
    help="portfolio, uniform, sticky, urw, paces, pos, pct, pct3, mutation or directed.",
)
@click.option(
    "--towards", default="", metavar="ORDER", help='Head for it: "point -> point [-> point]".'
)
@click.option(
    "--grain",
    type=GRAINS,
    default="both",
    show_default=True,
    help="Admissions in one piece, or anything between any two of their steps.",
)
@click.option("--scenario", default="", metavar="FILE", help="One small world instead of swarms.")
@click.option("--exhaustive", is_flag=True, help="Every order of the scenario, states met once.")
@click.option(
    "--sweep",
    type=click.Choice(["aborts", "copies", "rooms", "replies", "all"]),
    help="One abort, failed copy, refused room or bad reply of storage at a time, everywhere.",
)
@click.option("--storage-share", type=SHARE, help="Of the drawn worlds so many have storage.")
@click.option("--ranks-share", type=SHARE, help="So many have several ranks.")
@click.option(
    "--hold",
    multiple=True,
    metavar="KNOB=VALUE",
    help="In a release's worlds, such as components=full+mamba; may be repeated.",
)
@click.option("--keep-going", is_flag=True, help="Search on after a finding.")
@click.option(
    "--until", default="", metavar="KIND", help="Search on until this, an oracle or a kind."
)
@click.option(
    "--shrink", type=Duration(), default="10s", show_default=True, help="How long, each kind."
)
@click.option(
    "--seed", type=Seed(), default=42, show_default=True, help="A number, or commit for HEAD's own."
)
@click.option("--jobs", type=int, default=0, help="Processes  [default: one a core]")
@click.option("--output-dir", default="results", show_default=True, help="Where runs land.")
@click.option("--tag", default="hunt", show_default=True, help="Name of the run's directory.")
@click.option("--json", is_flag=True, help="The summary as one JSON line on standard output.")
def hunt(**flags: Any) -> None:
    """Search for the rare order of events that breaks the cache; shrink it, tell it, save it."""
    from harness.cli import hunt as hunt_command

    raise SystemExit(hunt_command.run(flags))


@cli.command("replay")
@click.argument("file", type=click.Path())
@click.option("--step", is_flag=True, help="Show tree, pools and locks before each step, and wait.")
@click.option(
    "--script",
    default="",
    metavar="FILE",
    help="Write a release's finding as one file that needs only the release and torch.",
)
def replay(file: str, step: bool, script: str) -> None:
    """Repeat a finding strictly, step by step; or follow what a soak on the wall clock decided.

    FILE is a replay file, or the directory of a run.
    """
    from harness.cli import replay as replay_command

    raise SystemExit(replay_command.run(file, step, script))


@cli.command("drift")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--hardware",
    default="",
    help="A preset, or the file that calibrate has written  [default: fitted to the run itself]",
)
@click.option(
    "--at-most", type=float, help="Exit with 4 where the median is off by a larger share, as 0.2."
)
def drift(directory: str, hardware: str, at_most: float | None) -> None:
    """How far simulated TTFT is from measured TTFT: a soak on the wall clock, simulated anew."""
    from harness.cli import drift as drift_command

    raise SystemExit(drift_command.run(Path(directory), hardware, at_most))


@cli.command("faults")
@click.option("--json", "as_json", is_flag=True, help="As one JSON line.")
@click.option("--score", is_flag=True, help="Hunt each fault and say how well it is found.")
@click.option("--budget", type=Duration(), default="10s", show_default=True, help="For each hunt.")
@click.option("--campaigns", default=20, show_default=True, help="Hunts for each fault.")
@click.option("--fault", "names", multiple=True, help="Only this one (repeat for more).")
@click.option("--without", multiple=True, help="Leave an oracle out, such as locks (repeat).")
@click.option("--ablate", is_flag=True, help="Score again without each oracle in turn.")
@click.option("--seed", default=42, show_default=True, help="Seed of everything drawn.")
@click.option("--jobs", type=int, default=0, help="Processes  [default: one a core]")
@click.option("--output-dir", default="results", show_default=True, help="Where runs land.")
@click.option("--tag", default="faults", show_default=True, help="Name of the run's directory.")
def faults(as_json: bool, score: bool, **flags: Any) -> None:
    """List the seeded defects, or score the harness on them."""
    from harness.cli import faults as faults_command

    if score:
        raise SystemExit(faults_command.score(as_json, flags))
    faults_command.catalogue(as_json)


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
