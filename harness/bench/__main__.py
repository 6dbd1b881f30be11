"""`python -m harness.bench`: time what there is, print the tables, keep them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

import click
from rich.console import Console

from harness.bench import (
    cache,
    client,
    copies,
    half,
    kernel,
    recorder,
    search,
    serving,
    shares,
    storage,
    world,
)
from harness.bench.bare import Excerpt
from harness.bench.publish import publish
from harness.bench.runs import bundled_head, measure_runs, whole_trace
from harness.bench.sheet import Sheet, show

PUBLISHED = Path("results/published")
QUICK_REQUESTS = 100
PLAIN_WIDTH = 200  # columns, where there is no terminal to ask
Benchmark = Callable[[], Sequence[Sheet]]
FULL: Mapping[str, Benchmark] = {
    "cache": lambda: [cache.measure(30)],
    "world": lambda: _worlds(whole_trace(), repeats=3),
    "kernel": lambda: [kernel.measure(15, announcements=200_000)],
    "search": lambda: [search.measure(5, schedules=2_000)],
    "storage": lambda: [storage.measure(5, pages=256)],
    "copies": lambda: [copies.measure(9, pages=64)],
    "recorder": lambda: [recorder.measure(1_000_000)],
    "client": lambda: [client.measure()],
    "serve": lambda: [serving.measure(500)],
    "half": lambda: [half.measure(600)],
}
QUICK: Mapping[str, Benchmark] = {
    "cache": lambda: [cache.measure(3)],
    "world": lambda: _worlds(bundled_head(QUICK_REQUESTS), repeats=1),
    "kernel": lambda: [kernel.measure(3, announcements=20_000)],
    "search": lambda: [search.measure(1, schedules=50)],
    "storage": lambda: [storage.measure(3, pages=64)],
    "copies": lambda: [copies.measure(3, pages=16)],
    "recorder": lambda: [recorder.measure(2_000)],
    "client": lambda: [client.measure("--request-rate", "20", "--duration", "1s")],
    "serve": lambda: [serving.measure(20)],
}


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.split(",")))
    for name in names:
        if name not in FULL:
            raise click.BadParameter(f"{name!r} is not known: use {', '.join(FULL)}")
    return names


@click.command()
@click.option(
    "--only",
    default=",".join(FULL),
    show_default=True,
    callback=_names,
    help="Which benchmarks to run, with commas between.",
)
@click.option(
    "--quick", is_flag=True, help="A head of the bundled trace, few repeats: half a minute."
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Where bench.md and bench.csv go. Default: {PUBLISHED} for a full run of everything,"
    " nowhere for part of one.",
)
def main(only: tuple[str, ...], quick: bool, output_dir: Path | None) -> None:
    """Time the tree, the pools, the world, the kernel, storage and copies on this machine."""
    if output_dir is None and not quick and len(only) == len(FULL):
        output_dir = PUBLISHED
    if output_dir is not None:
        _make(output_dir)
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    sheets: list[Sheet] = []
    for name in only:
        if quick and name not in QUICK:
            console.print(f"{name}: left out, for it takes ten minutes", highlight=False)
            continue
        for sheet in (QUICK if quick else FULL)[name]():
            show(sheet, console)
            sheets.append(sheet)
    if output_dir is not None:
        for path in publish(sheets, output_dir, command=_command(only, quick)):
            console.print(f"wrote {path}", highlight=False)


def _worlds(trace: Excerpt, *, repeats: int) -> list[Sheet]:
    measured = measure_runs(trace, repeats=repeats)
    return [world.tabulate(measured, trace), *shares.tabulate(measured, trace)]


def _make(directory: Path) -> None:
    """Before anything is timed, because a full run takes long."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise click.BadParameter(
            f"{directory} cannot be written to ({error.strerror}): use --output-dir FOLDER"
        ) from None


def _command(only: Sequence[str], quick: bool) -> str:
    flags = ["--quick"] if quick else []
    if len(only) < len(FULL):
        flags.append(f"--only {','.join(only)}")
    return f'make bench ARGS="{" ".join(flags)}"' if flags else "make bench"


if __name__ == "__main__":
    main()
