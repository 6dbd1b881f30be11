"""`soak --calibrate`: the machine measured right before and right after a run, by rehearsals."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from harness.calibrate.forwards import forwards_of, settings_for
from harness.cli.errors import UserError
from harness.record.directory import RunDirectory
from harness.soak.calibrated import FILE, write_calibrated
from harness.soak.plan import ServerPlan
from harness.soak.rehearsal import rehearse
from harness.soak.settings import Serving, Traffic, Watching


def check(seconds: float | None, server: ServerPlan, watching: Watching) -> None:
    """Raises `UserError` where there is nothing that a rehearsal could measure."""
    if seconds is not None and (server.model is None or watching.clock != "wall"):
        raise UserError("--calibrate measures real forwards: add --clock wall --compute model")
    if seconds is not None and server.ranks > 1:
        raise UserError("--calibrate knows of one rank: add --tp 1")


@contextmanager
def rehearsals(
    seconds: float | None,
    server: ServerPlan,
    serving: Serving,
    traffic: Traffic,
    watching: Watching,
    folder: Path,
) -> Iterator[None]:
    """One before the block and one after it, into the run's folder; none without `seconds`."""
    if seconds is None:
        yield
        return
    assert server.model is not None
    settings = settings_for(
        server.shape, serving.page_size, serving.kv_cache_dtype, server.model.device
    )
    try:
        before = rehearse(serving, traffic, watching, seconds)
    except ValueError as error:
        RunDirectory(folder).discard()
        raise UserError(str(error)) from None
    yield
    try:
        after = rehearse(serving, traffic, watching, seconds)
        write_calibrated(folder, settings, before, forwards_of(folder), after)
        click.echo(f"  {folder / FILE}", err=True)
    except (OSError, ValueError) as error:  # the run is there all the same
        click.echo(f"  no {FILE}: {error}", err=True)
