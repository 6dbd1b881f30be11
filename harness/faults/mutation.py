"""Hunts mutants of the cache: how many defects that nobody wrote are found, and which are not.

python -m harness.faults.mutation [--sample N] [--seed S] [--schedules N] [--csv FILE]

A mutant that survives either changes nothing that a promise speaks of (a speed-up, a cost, an
unreachable guard) or shows what the oracles and scenarios are blind to: survivors are to be read.
"""

import csv
import multiprocessing as mp
import os
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click

from harness.explore.campaign import Campaign, Report, default_portfolio
from harness.explore.prng import SplitMix
from harness.faults.mutants import Mutant, mutants, put_in
from harness.faults.score import BothGrains
from harness.hunt.runner import ArenaRunner


class Judged(NamedTuple):
    """What became of one mutant; `kind` is "" for a survivor."""

    mutant: str
    kind: str
    schedules: int
    seconds: float


@click.command()
@click.option("--sample", type=click.IntRange(1), help="This many, drawn evenly. Default: all.")
@click.option("--seed", type=int, default=42, show_default=True)
@click.option("--schedules", type=click.IntRange(1), default=1_000, show_default=True)
@click.option("--budget", "budget_s", type=float, default=20.0, show_default=True, help="Seconds.")
@click.option("--only", default="", help="Mutants whose name contains this.")
@click.option("--again", type=click.Path(path_type=Path, exists=True), help="A CSV's survivors.")
@click.option("--csv", "path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--jobs", type=click.IntRange(1), default=None, help="Default: one a core.")
def main(
    sample: int | None,
    seed: int,
    schedules: int,
    budget_s: float,
    only: str,
    again: Path | None,
    path: Path | None,
    jobs: int | None,
) -> None:
    """Hunt mutants of the reference cache and list the survivors."""
    names = _chosen(sample, seed, only) if again is None else survivors(again)
    work = [(name, seed, schedules, budget_s) for name in names]
    started, rows = time.monotonic(), []
    with mp.get_context("spawn").Pool(jobs or len(os.sched_getaffinity(0))) as pool:
        for row in pool.imap_unordered(_judge, work):
            rows.append(row)
            if not row.kind:
                click.echo(f"survived: {row.mutant}")
            if len(rows) % 50 == 0:
                click.echo(f"{len(rows)} of {len(names)}", err=True)
    found = [row for row in rows if row.kind]
    click.echo(
        f"{len(found)} of {len(rows)} mutants found in {time.monotonic() - started:.0f} s;"
        f" by {_tally(found)}"
    )
    if path is not None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Judged._fields)
            writer.writerows(sorted(rows))


def _chosen(sample: int | None, seed: int, only: str) -> list[str]:
    names = [mutant.name for mutant in mutants() if only in mutant.name]
    if sample is None or sample >= len(names):
        return names
    chance, chosen = SplitMix(seed), set[int]()
    while len(chosen) < sample:
        chosen.add(chance.below(len(names)))
    return [names[index] for index in sorted(chosen)]


def judge(mutant: Mutant, seed: int, schedules: int, budget_s: float) -> Judged:
    """Hunt one mutant until something is found, or the schedules or the seconds are spent."""
    started = time.monotonic()
    campaign = Campaign(
        runner=ArenaRunner(), scenarios=BothGrains(), strategy=default_portfolio(), seed=seed
    )
    report = Report()
    try:
        with put_in(mutant):
            report = campaign.run(
                elapsed=lambda: time.monotonic() - started,
                budget_s=budget_s,
                schedule_limit=schedules,
                enough=lambda r: bool(r.findings or r.unrepeatable),
            )
        kind = next(iter(report.findings), "unrepeatable" if report.unrepeatable else "")
    except Exception as error:  # it does not even let a cache be built
        kind = f"crash.{type(error).__name__} before the first step"
    return Judged(mutant.name, kind, report.schedules, round(time.monotonic() - started, 3))


def survivors(path: Path) -> list[str]:
    """Those of an earlier run that are still mutants of today's source."""
    with path.open(newline="") as file:
        left = {row["mutant"] for row in csv.DictReader(file) if not row["kind"]}
    return [mutant.name for mutant in mutants() if mutant.name in left]


_MUTANTS: dict[str, Mutant] = {}  # of this process, made once


def _judge(work: tuple[str, int, int, float]) -> Judged:
    name, seed, schedules, budget_s = work
    if not _MUTANTS:
        _MUTANTS.update((mutant.name, mutant) for mutant in mutants())
    return judge(_MUTANTS[name], seed, schedules, budget_s)


def _tally(found: list[Judged]) -> str:
    counts = Counter(row.kind.split(".")[0] for row in found)
    return ", ".join(f"{oracle} {count}" for oracle, count in counts.most_common())


if __name__ == "__main__":
    main()
