"""Made-up runs of the same traffic: alike, slower, or with other requests."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.record.directory import RunDirectory
from harness.record.requests import RequestRow
from harness.record.run import Recorder
from tests.harness.record.feed import MANIFEST, counters, rows, sample

Change = Callable[[RequestRow, np.random.Generator], RequestRow | None]


def noisy(row: RequestRow, chance: np.random.Generator) -> RequestRow:
    """The same request in a run that differs by chance alone."""
    return slower(1.0)(row, chance)


def slower(factor: float) -> Change:
    """Every latency so many times as long, give or take a twentieth by chance."""

    def change(row: RequestRow, chance: np.random.Generator) -> RequestRow:
        by = factor * float(chance.lognormal(0, 0.05))
        names = ("ttft_ms", "ttft_scheduled_ms", "queue_ms", "match_ms", "load_ms", "prefill_ms",
                 "tpot_ms", "e2e_latency_ms")  # fmt: skip
        return replace(row, **{name: getattr(row, name) * by for name in names})

    return change


def run(folder: Path, change: Change | None = None, *, seed: int = 1, number: int = 400,
        digest: str = "c0ffee", summary=None) -> Path:  # fmt: skip
    """The directory of one run; a row that `change` makes None is left out."""
    chance = np.random.Generator(np.random.PCG64(seed))
    workload = {**MANIFEST.workload, "digest": digest}
    directory = RunDirectory.create(folder, "run")
    with Recorder(directory, replace(MANIFEST, workload=workload)) as recorder:
        for row in rows(number):
            changed = row if change is None else change(row, chance)
            if changed is not None:
                recorder.request(changed)
        recorder.sample(0.0, sample(0.0))
        recorder.finish(recorder.summary({**counters(0), **(summary or {})}))
    return directory.path
