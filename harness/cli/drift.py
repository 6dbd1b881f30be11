"""`bench.py drift RUN`: a run on the wall clock against the same traffic on the virtual one."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cache.model import KvDtype
from cache.shapes import load_shape
from harness.calibrate.compute import findings
from harness.calibrate.findings import Sample, Settings
from harness.cli.errors import UserError
from harness.cli.follow import saved_run
from harness.engine.compute import Work
from harness.engine.hardware import base_of
from harness.engine.hardware_file import write_hardware
from harness.explore.pickers import VirtualClock
from harness.record.directory import RunDirectory
from harness.record.forwards import read_forwards
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.record.strict_json import to_page
from harness.soak.drift import draw, drift_between
from harness.soak.live import SilentScreen
from harness.soak.plan import plan_server, plan_traffic
from harness.soak.run import Soak
from harness.soak.settings import Serving
from harness.verdict import Exit

PRESET = "hardware.json"
PLOT, NUMBERS = "ttft_virtual_against_wall.png", "drift.json"


def run(directory: Path, hardware: str, at_most: float | None) -> int:
    """Writes a picture and the numbers into the run's directory. 4 where the median is further off
    than `at_most`. Without `hardware` a preset is fitted to the run's own forwards first, which
    tells how good the model is where the machine was not always the same."""
    saved = saved_run(directory)
    if saved.serving.tp > 1:
        raise UserError("calibration knows of one rank: compare a run of --tp 1")
    hardware = hardware or _fitted(directory, saved.serving)
    serving = replace(saved.serving, compute="roofline", hardware=hardware)
    with TemporaryDirectory() as folder:
        manifest = Manifest(
            command="", clock="virtual", seed=saved.traffic.seed, settings={}, workload={}
        )
        target = RunDirectory.create(Path(folder), "virtual")
        with Recorder(target, manifest) as recorder:
            soak = Soak(
                plan_server(serving),
                plan_traffic(saved.traffic),
                saved.watching,
                radix_cache=serving.radix_cache,
                warmup_requests=saved.traffic.warmup_requests,
                recorder=recorder,
                screen=SilentScreen(),
                clock=VirtualClock(),
            )
            ended = soak.drive()
            if ended.error is not None:
                raise ended.error
        try:
            found = drift_between(directory / "requests.csv", target.path / "requests.csv")
        except (OSError, ValueError) as error:
            raise UserError(f"{directory}: {error}") from None
    drift, measured, simulated = found
    draw(drift, measured, simulated, directory / PLOT)
    (directory / NUMBERS).write_text(to_page({"hardware": hardware, **drift._asdict()}))
    click.echo(
        f"TTFT of {drift.requests:,} requests, measured and simulated: p50 {drift.wall_p50_ms:,.1f}"
        f" and {drift.virtual_p50_ms:,.1f} ms ({drift.error_p50:+.1%}), p99"
        f" {drift.wall_p99_ms:,.1f} and {drift.virtual_p99_ms:,.1f} ms ({drift.error_p99:+.1%})"
    )
    click.echo(f"  {directory / PLOT}")
    if at_most is not None and abs(drift.error_p50) > at_most:
        click.echo(f"  that is more than {at_most:.0%} at p50")
        return Exit.THRESHOLD
    return Exit.PASS


def _fitted(directory: Path, serving: Serving) -> str:
    """The path of a preset made of what the run's forwards took."""
    try:
        forwards = read_forwards(directory, Work._fields)
    except (OSError, ValueError) as error:
        raise UserError(f"{error}: give --hardware a file of bench.py calibrate") from None
    taken: dict[str, Sample] = {}
    amounts: dict[str, Work] = {}
    for number, (cells, seconds) in enumerate(forwards):
        name = f"forward {number}"
        taken[name] = Sample(name, seconds, 0.0, seconds, seconds, 1)
        amounts[name] = Work(*cells)
    settings = Settings(
        shape=load_shape(serving.model),
        page_size=serving.page_size,
        kv_dtype=KvDtype(serving.kv_cache_dtype),
        tp=1,
        device="cpu",
        repeats=1,
    )
    found = findings(settings.shape, settings, taken, amounts)
    fields = {**found.hardware, "name": "fitted", "source": f"{len(taken):,} forwards of the run"}
    path = directory / PRESET
    write_hardware(path, replace(base_of("cpu"), **fields), {"misfits": found.misfits})
    return str(path)
