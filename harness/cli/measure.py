"""`bench.py calibrate`: measure this machine, write a preset for `--hardware`."""

from pathlib import Path
from typing import Any

import click

from cache.config import ConfigError
from cache.model import KvDtype
from cache.shapes import load_shape
from harness.calibrate.findings import Findings, Settings
from harness.calibrate.run import Calibrated, calibrate
from harness.cli.errors import UserError
from harness.device.movers import best_device
from harness.engine.hardware_file import write_hardware
from harness.record.machine import machine, versions
from harness.soak.choice import choice
from harness.verdict import Exit


def run(flags: dict[str, Any]) -> int:
    """Measure, write, tell. 5 where there are doubts: the file is written, and names them."""
    settings = _settings(flags)
    path = Path(flags["output"])
    if path.suffix != ".json":
        raise UserError(f"--output {path}: its name must end in .json for --hardware to take it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = calibrate(settings, _tell)
        write_hardware(path, found.hardware, _record(found))
    except OSError as error:
        raise UserError(f"--output {path}: {error.strerror}") from None
    except RuntimeError as error:
        raise UserError(f"the pages do not fit here: {str(error).splitlines()[0]}") from None
    for doubt in found.doubts:
        click.echo(f"  {doubt}")
    click.echo(f"  assumed: {', '.join(found.assumed)}")
    click.echo(f"  {path}  (use it with --hardware {path})")
    return Exit.INCONCLUSIVE if found.doubts else Exit.PASS


def _settings(flags: dict[str, Any]) -> Settings:
    if flags["repeats"] < 1:
        raise UserError(f"--repeats must be 1 or more, not {flags['repeats']}")
    shape = load_shape(flags["model"])
    shape.check_tp(flags["tp"])
    if shape.full is None and shape.swa is None:
        raise ConfigError(f"{shape.name} has no attention, so there are no pages to copy")
    device = flags["device"] or best_device()
    if device == "cuda" and best_device() != "cuda":
        raise UserError("--device cuda: there is no CUDA device here; use cpu")
    return Settings(
        shape=shape,
        page_size=flags["page_size"],
        kv_dtype=choice(KvDtype, flags["kv_cache_dtype"], "--kv-cache-dtype"),
        tp=flags["tp"],
        device=device,
        repeats=flags["repeats"],
    )


def _tell(name: str, found: Findings) -> None:
    click.echo(f"{name}: {len(found.samples)} samples")
    for rate in found.hardware.get("copies", ()):
        way = rate.direction.lower()
        click.echo(
            f"  {rate.backend} {rate.layout} {way}: {rate.bandwidth / 1e9:.2f} GB/s after"
            f" {rate.begin_s * 1e6:.0f} us"
        )


def _record(found: Calibrated) -> dict[str, object]:
    return {
        "assumed": found.assumed,
        "doubts": found.doubts,
        "misfits": found.misfits,
        "machine": machine(),
        "versions": versions(),
        "samples": found.samples,
    }
