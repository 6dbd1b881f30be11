"""A made-up load of a server: what the client saw, and what the server said of it."""

from math import nan
from pathlib import Path

from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from tests.harness.record.feed import counters, rows

MANIFEST = Manifest(command="load", clock="wall", seed=7, settings={}, workload={"digest": "d"})
SPAN_S = 3600.0
SAMPLES = 90


def sample(number: int, *, silent: bool = False) -> dict[str, float]:
    """The server's word after `number` of the samples; nothing but NaN when it was silent."""
    told = {
        "queue_requests": number % 4,
        "running_requests": number % 7,
        "server_prompt_tokens": number * 9000,
        "server_cached_device_tokens": number * 3000,
        "server_cached_host_tokens": max(0, number - 30) * 2000,
        "server_evicted_tokens": number * 1000,
        "server_load_back_tokens": max(0, number - 30) * 2000,
        "server_ttft_total_s": number * 2.0,
        "server_ttft_requests": number * 4,
        "server_device_used_tokens": 2000 + 100 * (number % 7),
        "server_device_evictable_tokens": min(number, 40) * 200,
        "server_device_total_tokens": 12000,
        "server_host_used_tokens": min(number, 60) * 600,
        "server_host_total_tokens": 40000,
    }
    if silent:
        told = dict.fromkeys(told, nan)
    return {**told, "server_up": float(not silent), "in_flight_requests": number % 9}


def loaded(folder: Path, *, found=(), samples=None, summary=None) -> Path:
    """The run directory; `samples` takes the place of the server's own."""
    directory = RunDirectory.create(folder, "loaded")
    with Recorder(directory, MANIFEST) as recorder:
        for row in rows(120):
            recorder.request(row)
        for number in range(SAMPLES):
            said = sample(number, silent=number in (50, 51)) if samples is None else samples(number)
            recorder.sample(number * SPAN_S / SAMPLES, said)
        for finding in found:
            recorder.violation(finding)
        recorder.server({"version": "0.5.23", "page_size": 64})
        whole = {"server_completed_requests": 116, "server_prompt_tokens": 9000,
                 "server_mean_ttft_ms": 500.0, **(summary or {})}  # fmt: skip
        recorder.finish(recorder.summary({**counters(len(found)), **whole}))
    return directory.path
