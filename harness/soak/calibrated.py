"""What rehearsals before and after a run say of the machine, and of the run between them.

Invariant: nothing of the run itself is in the preset; its forwards are only held against it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from harness.calibrate.findings import Settings
from harness.calibrate.forwards import Forward, preset_of, quarters_of, share_of
from harness.engine.hardware_file import write_hardware

FILE = "calibrated.json"
# Beyond these, the machine was not the same.
MOST_APART = 0.2  # of rehearsals
MOST_DRIFT = 0.3  # of quarters of a run, whose prefills are fewer


class Shares(NamedTuple):
    """How much of what a preset says forwards of the run took, in the middle; 1 is as much. NaN of
    none."""

    prefills: float
    decodes: float


def write_calibrated(
    folder: Path,
    settings: Settings,
    before: Sequence[Forward],
    run: Sequence[Forward],
    after: Sequence[Forward],
) -> None:
    """Into the folder of the run. Raises `OSError`."""
    source = f"{len(before):,} forwards rehearsed before and {len(after):,} after a run"
    told: dict[str, object] = {}
    for name, forwards in (("before", before), ("after", after)):
        preset = preset_of(forwards, settings, name)
        told[name] = asdict(preset) | {"forwards": len(forwards)}
        told[f"run_by_{name}"] = _shares(preset, run, settings)._asdict()
    preset = preset_of([*before, *after], settings, source)
    told["run"] = _shares(preset, run, settings)._asdict()
    told["run_quarters"] = quarters_of(preset, run, settings)
    write_hardware(folder / FILE, preset, told)


def _shares(preset: Any, run: Sequence[Forward], settings: Settings) -> Shares:
    return Shares(
        share_of(preset, run, settings, prefill=True),
        share_of(preset, run, settings, prefill=False),
    )


class Machine(NamedTuple):
    """Whether it was the same before, in and after a run."""

    run: Shares
    before: Shares
    after: Shares
    quarters: tuple[float, ...]  # of the run's prefills, in order, by both rehearsals

    @property
    def apart(self) -> float:
        """How much longer prefills, or decodes, took after the run than before it; negative where
        they took less. The worse of the two."""
        found = [b / a - 1 for b, a in zip(self.before, self.after, strict=True) if b == b and a]
        return max(found, key=abs, default=0.0)

    @property
    def same(self) -> bool:
        drift = max(self.quarters, default=1.0) / min(self.quarters, default=1.0) - 1
        return abs(self.apart) <= MOST_APART and drift <= MOST_DRIFT

    def sentence(self) -> str:
        quarters = ", ".join(f"{share:.2f}" for share in self.quarters)
        return (
            f"forwards took {self.apart:+.0%} after the run compared with before; in it prefills"
            f" took {self.run.prefills:.2f} and decodes {self.run.decodes:.2f} of what both say,"
            f" by quarters of the run {quarters}"
        )


def read_machine(path: Path) -> Machine | None:
    """What a `calibrated.json` says; None where a preset comes from elsewhere."""
    page = json.loads(path.read_text(encoding="utf-8"))
    if "run_by_before" not in page:
        return None
    parts = (page["run"], page["run_by_before"], page["run_by_after"])
    run, before, after = (Shares(*(_number(p[name]) for name in Shares._fields)) for p in parts)
    return Machine(run, before, after, tuple(page["run_quarters"]))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
