"""A calibration from settings to a preset. `MEASUREMENTS` is all that there is to measure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psutil
import torch

from harness.calibrate import compute, copies
from harness.calibrate.findings import Findings, Measurement, Sample, Settings
from harness.engine.hardware import Hardware, base_of
from harness.record.machine import machine, versions

WORST_MISFIT = 0.5  # of the time measured
MEASUREMENTS: tuple[Measurement, ...] = (copies, compute)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The preset, and what it was made of. `assumed` are the fields of it that nothing measured."""

    hardware: Hardware
    samples: tuple[Sample, ...]
    misfits: dict[str, float]
    assumed: tuple[str, ...]

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why this should be measured anew on a quieter machine, one line each."""
        noisy = (sample for sample in self.samples if sample.noisy)
        bent = ((name, share) for name, share in self.misfits.items() if share > WORST_MISFIT)
        return (
            *(f"noisy: {s.name}, quartiles {s.iqr_s / s.median_s:.0%} apart" for s in noisy),
            *(f"bent: {name}, a size lies {share:.0%} off" for name, share in bent),
        )


def calibrate(
    settings: Settings,
    on_measured: Callable[[str, Findings], None],
    *,
    measurements: Sequence[Measurement] = MEASUREMENTS,
) -> Calibrated:
    """Measure everything, one thing after another. What no measurement gives is the assumption of
    the preset that is nearest: that of the CPU, or of an H200."""
    base = base_of(settings.device)
    fields: dict[str, Any] = {"memory_bytes": _memory(settings.device)}
    samples: list[Sample] = []
    misfits: dict[str, float] = {}
    for measurement in measurements:
        found = measurement.measure(settings)
        fields |= found.hardware
        samples += found.samples
        misfits |= found.misfits
        on_measured(measurement.NAME, found)
    fields |= {"name": f"measured {settings.device}", "source": _source(settings)}
    assumed = tuple(name for name in Hardware.__slots__ if name not in fields)
    return Calibrated(replace(base, **fields), tuple(samples), misfits, assumed)


def _memory(device: str) -> int:
    if device == "cpu":
        return int(psutil.virtual_memory().total)
    return int(torch.cuda.get_device_properties(device).total_memory)


def _source(settings: Settings) -> str:
    on = machine()["cpu"] if settings.device == "cpu" else torch.cuda.get_device_name()
    return (
        f"measured on {on}, torch {versions().get('torch', '?')}, for pages of"
        f" {settings.page_size} tokens of {settings.shape.name}, TP {settings.tp},"
        f" {settings.kv_dtype}"
    )
