"""The recorder under a million requests: what it costs, and that its memory stays where it is.

Invariant: the requests are made one by one and forgotten, so what grows is the recorder's.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

import psutil

from harness.bench.fresh import in_fresh_process
from harness.bench.sheet import Cell, Sheet
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.requests import RequestRow
from harness.record.run import Recorder

PARTS = 10
GAPS = 4  # of each request


class Mark(NamedTuple):
    """After so many requests."""

    requests: int
    rss_bytes: int
    cpu_us: float  # of one request, since the mark before


def measure(requests: int) -> Sheet:
    marks = in_fresh_process(_recorded, requests)
    first = marks[1]
    return Sheet(
        name="recorder",
        title=f"Recorder: {requests:,} requests",
        notes=(
            f"One process records {requests:,} made-up requests of {GAPS} gaps each into files; its"
            " resident memory after every tenth of them, with the row it is given in memory.",
            "Latencies are kept as they are for the first 131,072 requests, and then go into"
            " histograms: memory is largest just before.",
        ),
        columns=("requests", "rss_mb", "grown_since_the_second_mark_mb", "cpu_us_per_request"),
        rows=tuple(_row(mark, first) for mark in marks),
    )


def _row(mark: Mark, first: Mark) -> tuple[Cell, ...]:
    grown = (mark.rss_bytes - first.rss_bytes) / 1e6 if mark.requests > first.requests else None
    cpu_us = mark.cpu_us if mark.requests else None
    return f"{mark.requests:,}", mark.rss_bytes / 1e6, grown, cpu_us


def _recorded(requests: int) -> list[Mark]:
    """At the start and after each part."""
    manifest = Manifest(command="bench", clock="wall", seed=0, settings={}, workload={})
    process = psutil.Process()
    with TemporaryDirectory() as folder:
        directory = RunDirectory.create(Path(folder), "recorder")
        with Recorder(directory, manifest) as recorder:
            marks = [Mark(0, process.memory_info().rss, 0.0)]
            for part in range(PARTS):
                start = process_time()
                first, last = part * requests // PARTS, (part + 1) * requests // PARTS
                for number in range(first, last):
                    _record(recorder, number)
                cpu_us = (process_time() - start) / max(last - first, 1) * 1e6
                marks.append(Mark(last, process.memory_info().rss, cpu_us))
            recorder.finish(recorder.summary())
    return marks


def _record(recorder: Recorder, number: int) -> None:
    """Latencies that no other request has, over three powers of ten."""
    spread = (number * 7919 % 100_003 + 1) / 100
    for gap in range(GAPS):
        recorder.itl((spread + gap) / 1e4, 1)
    sent_ns = number * 5_000_000
    recorder.request(
        RequestRow(
            request_id=f"r{number}",
            session_id=f"s{number // 8}",
            turn=number % 8,
            phase="steady",
            tenant="",
            scheduled_ns=sent_ns,
            sent_ns=sent_ns,
            first_token_ns=sent_ns + int(spread * 1e6),
            end_ns=sent_ns + int(spread * 3e6),
            prompt_tokens=2000,
            output_tokens=GAPS + 1,
            cached_tokens_device=1024,
            cached_tokens_host=512,
            cached_tokens_storage=0,
            eligible_tokens=1984,
            ideal_tokens=1600,
            ttft_ms=spread,
            ttft_scheduled_ms=spread + 0.5,
            queue_ms=spread / 5,
            match_ms=spread / 50,
            load_ms=spread / 9,
            prefill_ms=spread / 2,
            tpot_ms=spread / 2,
            e2e_latency_ms=spread * 3,
            status="completed",
            error="",
            verified=True,
        )
    )
