"""The recorder: everything a run says while it runs, written down so that nothing but the last
second can be lost.

`requests.csv`, `timeseries.csv` and `violations.jsonl` grow while the run goes on; `summary.json`,
`summary.csv` and `marks.json` come at its end; `run.json` says from the start what is being run
and, at the end, how it ended. A full disk never stops a run: what was lost is returned.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from harness.record.directory import RUN_FILE, LostOutput, RunDirectory
from harness.record.filling import Filling
from harness.record.histogram import Histogram
from harness.record.hit_windows import HitWindows
from harness.record.lines import LineFile
from harness.record.machine import machine, versions
from harness.record.manifest import Manifest, Mark
from harness.record.requests import HEADER, RequestColumns, RequestLines, RequestRow
from harness.record.strict_json import plain, to_line, to_page
from harness.record.summary import PERCENTILE_RULE, Number, summarise
from harness.record.timeseries import VIRTUAL_EPOCH, TimeSeries
from workloads.synthetic import FAMILIES

__all__ = ["Recorded", "Recorder", "RequestRow"]

EndStatus = Literal["finished", "interrupted", "failed"]
VIOLATIONS_WRITTEN = 10_000


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of a recording; `lost` is empty when every file is complete."""

    directory: RunDirectory
    status: EndStatus
    lost: tuple[LostOutput, ...]


class Recorder:
    """Writes one run into its directory; its memory is bounded.

    As a context manager it closes the books when the block is left without `finish`: "interrupted"
    after Ctrl-C, "failed" after any other exception, each with the summary of what was seen so far.
    """

    def __init__(
        self,
        directory: RunDirectory,
        manifest: Manifest,
        *,
        epoch: datetime = VIRTUAL_EPOCH,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.columns = RequestColumns()
        self.itl_s = Histogram()
        self.hits = HitWindows()
        self.filling = Filling(manifest.pools)
        self.replayed = manifest.workload.get("name") not in FAMILIES
        self.violations = 0
        self.recorded: Recorded | None = None
        self._directory = directory
        self._marks: tuple[Mark, ...] = ()
        self._monotonic = monotonic
        self._flushed_at = monotonic()
        self._page = _first_page(directory, manifest)
        self._lost = [directory.write(RUN_FILE, to_page(self._page))]
        self._row_lines = RequestLines()
        self._requests = LineFile(directory.path / "requests.csv", header=HEADER)
        self._violations = LineFile(directory.path / "violations.jsonl")
        self._series = TimeSeries(directory.path / "timeseries.csv", epoch=epoch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.recorded is not None:
            return
        stopped = kind is None or issubclass(kind, KeyboardInterrupt)
        why = "the run was interrupted" if stopped else f"the run failed: {error}"
        verdict = "violation" if self.violations else "inconclusive"
        counters: dict[str, Number] = {
            "verdict": verdict,
            "verdict_reason": why,
            "violations": self.violations,
        }
        self.finish(self.summary(counters), status="interrupted" if stopped else "failed")

    def request(self, row: RequestRow) -> None:
        """Record one ended request; it is on disk after 256 more of them or a second, whichever
        comes first.
        """
        self.columns.add(row)
        if row.status == "completed" and row.phase == "steady":
            cached = row.cached_tokens_device + row.cached_tokens_host + row.cached_tokens_storage
            self.hits.add(row.end_ns / 1e9, prompt=row.prompt_tokens, cached=cached,
                          ideal=row.ideal_tokens)  # fmt: skip
        self._requests.append(self._row_lines.line(row))
        self._breathe()

    def itl(self, gap_s: float, count: int) -> None:
        """Record `count` gaps of `gap_s` between two tokens of one answer."""
        self.itl_s.add(gap_s, count)

    def sample(self, elapsed_s: float, metrics: Mapping[str, float]) -> None:
        """Record the state of the world; names are those of `metrics.TIMESERIES`, NaN means nothing
        to measure.
        """
        self._series.add(elapsed_s, metrics)
        self.filling.sample(elapsed_s, metrics)
        self._breathe()

    def violation(self, record: Mapping[str, object]) -> None:
        """Record a finding (oracle, signature, expected, seen, step, elapsed_s, ...) at once.

        All are counted, the first 10,000 are written.
        """
        self.violations += 1
        if self.violations <= VIOLATIONS_WRITTEN:
            self._violations.append(to_line(record))
            self._violations.flush()

    def marks(self, marks: Iterable[Mark]) -> None:
        """Set the counts of all marks, those never reached included; written by `finish`."""
        self._marks = tuple(marks)

    def put(self, name: str, content: str) -> None:
        """Write a whole file of another kind; what cannot be written is among `lost`."""
        self._lost.append(self._directory.write(name, content))

    def server(self, told: Mapping[str, object]) -> None:
        """Set what the server under load told of itself; written by `finish`."""
        self._page["server"] = plain(told)

    def summary(self, counters: Mapping[str, Number] | None = None) -> dict[str, Number]:
        """Return the summary of what was recorded so far, with `counters` merged in."""
        return summarise(self.columns, self.itl_s, counters)

    @property
    def folder(self) -> Path:
        """Where the run's files go."""
        return self._directory.path

    @property
    def sample_interval_s(self) -> float:
        """The least time between two samples that are kept; sampling more often is of no use."""
        return self._series.interval_s

    def finish(self, summary: Mapping[str, Number], *, status: EndStatus = "finished") -> Recorded:
        """Write the summary and the marks, close every file, and say how the run ended."""
        assert self.recorded is None, "a run ends once"
        put = self._directory.write
        lost = [
            *self._lost,
            self._requests.close(),
            self._series.close(),
            self._violations.close(),
            put("marks.json", to_page(self._marks)),
            put("summary.json", to_page(summary)),
            put("summary.csv", _flat_table(summary)),
        ]
        known = tuple(loss for loss in lost if loss is not None)
        self._page |= {"status": status, "ended": _now(), "lost": plain(known)}
        last = put(RUN_FILE, to_page(self._page))
        self.recorded = Recorded(self._directory, status, known if last is None else (*known, last))
        return self.recorded

    def _breathe(self) -> None:
        now = self._monotonic()
        if now - self._flushed_at >= 1.0:
            self._flushed_at = now
            self._requests.flush()
            self._series.flush()


def _first_page(directory: RunDirectory, manifest: Manifest) -> dict[str, object]:
    return {
        "schema": 1,
        "run": directory.path.name,
        "status": "running",
        "started": _now(),
        "ended": None,
        **manifest.page(),
        "versions": versions(),
        "machine": machine(),
        "server": {},
        "percentiles": PERCENTILE_RULE,
        "lost": [],
    }


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _flat_table(summary: Mapping[str, Number]) -> str:
    rows = [f"{key},{_flat_cell(plain(value))}" for key, value in summary.items()]
    return "\n".join(["key,value", *rows]) + "\n"


def _flat_cell(value: object) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text
