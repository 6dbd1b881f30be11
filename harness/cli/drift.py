"""`bench.py drift RUN`: a run on the wall clock against the same traffic on the virtual one."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cache.shapes import load_shape
from harness.calibrate.forwards import forwards_of, preset_of, settings_for
from harness.cli.errors import UserError
from harness.cli.follow import saved_run
from harness.engine.hardware_file import write_hardware
from harness.explore.pickers import VirtualClock
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.record.strict_json import to_page
from harness.soak.calibrated import FILE, read_machine
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
    than `at_most`, 5 where the machine changed during the run. Without `hardware` the run's own
    rehearsals are used; where it has none, a preset is fitted to its own forwards, which tells how
    good the model is and nothing of calibrations."""
    saved = saved_run(directory)
    if saved.serving.tp > 1:
        raise UserError("calibration knows of one rank: compare a run of --tp 1")
    rehearsed = directory / FILE
    hardware = hardware or (str(rehearsed) if rehearsed.exists() else "")
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
    if not _told(hardware):
        return Exit.INCONCLUSIVE
    if at_most is not None and abs(drift.error_p50) > at_most:
        click.echo(f"  that is more than {at_most:.0%} at p50")
        return Exit.THRESHOLD
    return Exit.PASS


def _fitted(directory: Path, serving: Serving) -> str:
    """The path of a preset made of what the run's forwards took."""
    try:
        forwards = forwards_of(directory)
    except (OSError, ValueError) as error:
        raise UserError(f"{error}: give --hardware a file of bench.py calibrate") from None
    device = "cuda" if serving.device == "cuda" else "cpu"
    shape = load_shape(serving.model)
    settings = settings_for(shape, serving.page_size, serving.kv_cache_dtype, device)
    preset = preset_of(forwards, settings, f"{len(forwards):,} forwards of the run itself")
    path = directory / PRESET
    write_hardware(path, preset, {})
    return str(path)


def _told(hardware: str) -> bool:
    """Say what its rehearsals say of the machine. False where it was not the same all along."""
    machine = read_machine(Path(hardware)) if hardware.endswith(".json") else None
    if machine is None:
        return True
    click.echo(f"  {machine.sentence()}")
    if not machine.same:
        click.echo(
            "  INCONCLUSIVE: the machine was doing other things, or the rehearsals ended before the"
            " traffic did; measure anew, with --calibrate as long as the run"
        )
    return machine.same
