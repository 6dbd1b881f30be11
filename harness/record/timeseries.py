"""A time series of bounded length for a run of any length.

At most 2,000 samples are kept. When there are more, every second one goes and the interval doubles,
so a minute and a month cost the same. The file on disk holds exactly the kept samples (and the
newest one at the end of the run).
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from harness.record.directory import LostOutput
from harness.record.lines import LineFile
from harness.record.metrics import TIMESERIES

HEADER = "timestamp,elapsed_s,metric,unit,stat,value"
CAPACITY = 2_000
VIRTUAL_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Sample(NamedTuple):
    elapsed_s: float
    metrics: dict[str, float]


class TimeSeries:
    """Wide samples in, tidy rows out: `timestamp,elapsed_s,metric,unit,stat,value`.

    `epoch` is where elapsed time starts; with the virtual clock it is 1970, so that the same run
    writes the same bytes.
    """

    def __init__(
        self, path: Path, *, epoch: datetime = VIRTUAL_EPOCH, capacity: int = CAPACITY
    ) -> None:
        assert capacity >= 4
        self._epoch = epoch
        self._capacity = capacity
        self._samples: list[_Sample] = []
        self._newest: _Sample | None = None
        self._interval_s = 0.0
        self._file = LineFile(path, header=HEADER)

    @property
    def interval_s(self) -> float:
        """The least time between two kept samples; an engine need not sample more often."""
        return self._interval_s

    def add(self, elapsed_s: float, metrics: Mapping[str, float]) -> None:
        """Take a sample; it is kept if one interval has passed since the last kept one."""
        sample = _Sample(elapsed_s, dict(metrics))
        self._newest = sample
        if not self._samples or elapsed_s - self._samples[-1].elapsed_s >= self._interval_s:
            self._keep(sample)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> LostOutput | None:
        """Write the newest sample if it was passed over, and close the file."""
        if self._newest is not None and self._newest is not self._samples[-1]:
            self._append(self._newest)
        return self._file.close()

    def _keep(self, sample: _Sample) -> None:
        self._samples.append(sample)
        if len(self._samples) <= self._capacity:
            self._append(sample)
            return
        self._samples = self._samples[::2]
        span_s = self._samples[-1].elapsed_s - self._samples[0].elapsed_s
        self._interval_s = max(2 * self._interval_s, span_s / (len(self._samples) - 1))
        rows = [row for kept in self._samples for row in self._rows(kept)]
        self._file.replace([HEADER, *rows])

    def _append(self, sample: _Sample) -> None:
        for row in self._rows(sample):
            self._file.append(row)

    def _rows(self, sample: _Sample) -> list[str]:
        moment = self._epoch + timedelta(seconds=sample.elapsed_s)
        stamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
        rows = []
        for name, value in sample.metrics.items():
            assert name in TIMESERIES, f"{name} is not in harness/record/metrics.py"
            if isfinite(value):
                metric = TIMESERIES[name]
                what = f"{name},{metric.unit},{metric.stat}"
                rows.append(f"{stamp},{_number(sample.elapsed_s)},{what},{_number(value)}")
        return rows


def _number(value: float) -> str:
    exact = float(value)
    return repr(int(exact) if exact.is_integer() else exact)
