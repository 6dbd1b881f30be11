"""What a person sees while a soak runs: a panel on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table


class Progress(NamedTuple):
    """One look at a run. Times are seconds, latencies milliseconds of the run's clock."""

    elapsed_s: float
    ended: int
    expected: int | None
    queued: int
    running: int
    ttft_p50_ms: float
    ttft_p99_ms: float
    hit_rate_device: float
    hit_rate_host: float
    device_used: float  # shares of the pools
    host_used: float
    violations: int
    marks: int
    marks_known: int
    hit_rate_storage: float | None = None  # None without storage


class Screen(Protocol):
    def show(self, progress: Progress) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class SilentScreen:
    """For `--json` and tests."""

    def show(self, progress: Progress) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class LineScreen:
    """One line every few seconds, so that a log stays short."""

    def __init__(self, write: Callable[[str], None], *, every_s: float = 5.0) -> None:
        self._write = write
        self._every_s = every_s
        self._started = self._last = time.monotonic()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last < self._every_s:
            return
        self._last = now
        self._write(" | ".join(f"{name} {value}" for name, value in _facts(progress, self._left)))

    @property
    def _left(self) -> float:
        return time.monotonic() - self._started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class PanelScreen:
    """A panel that is redrawn a few times a second."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._started = self._last = time.monotonic()
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last < 0.2:
            return
        self._last = now
        table = Table.grid(padding=(0, 2))
        facts = _facts(progress, now - self._started)
        for left, right in zip(facts[::2], [*facts[1::2], ("", "")], strict=False):
            table.add_row(f"[dim]{left[0]}", left[1], f"[dim]{right[0]}", right[1])
        body = Group(table)
        if progress.expected:
            body = Group(table, ProgressBar(progress.expected, progress.ended))
        self._live.update(Panel(body, title=self._title, expand=False))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)


def _facts(progress: Progress, wall_s: float) -> list[tuple[str, str]]:
    expected = f"/{progress.expected:,}" if progress.expected else ""
    left = "?"
    if progress.expected and progress.ended:
        left = f"{wall_s * (progress.expected / progress.ended - 1):.0f} s"
    return [
        ("requests", f"{progress.ended:,}{expected}"),
        ("left", left),
        ("clock", f"{progress.elapsed_s:,.0f} s"),
        ("queue, running", f"{progress.queued}, {progress.running}"),
        ("TTFT p50, p99", f"{progress.ttft_p50_ms:,.0f}, {progress.ttft_p99_ms:,.0f} ms"),
        _hits(progress),
        ("pools device, host", f"{progress.device_used:.0%}, {progress.host_used:.0%}"),
        ("violations", str(progress.violations)),
        ("marks", f"{progress.marks} of {progress.marks_known}"),
    ]


def _hits(progress: Progress) -> tuple[str, str]:
    rates = f"{progress.hit_rate_device:.1%}, {progress.hit_rate_host:.1%}"
    if progress.hit_rate_storage is None:
        return ("hits device, host", rates)
    return ("hits device, host, storage", f"{rates}, {progress.hit_rate_storage:.1%}")
