"""The numbers of `summary.json` that a comparison shows as they are: one a run, no interval."""

from typing import Literal

from harness.record.summary import REQUEST_KEYS, RUN_KEYS

LOWER = (
    "median_itl_ms", "p90_itl_ms", "p99_itl_ms", "rejected", "aborted", "failed",
    "dropped_requests", "violations", "duration_s",
    "peak_device_bytes", "peak_host_bytes", "peak_rss_bytes",
    "device_evicted_pages", "host_evicted_pages",
    "server_mean_ttft_ms", "server_evicted_tokens", "server_retracted_requests",
)  # fmt: skip
PLAIN = (
    "completed", "host_read_bytes", "host_written_bytes", "storage_read_bytes",
    "storage_written_bytes", "server_load_back_tokens", "server_backup_tokens",
    "server_peak_device_tokens", "server_peak_host_tokens", "marks",
)  # fmt: skip
_UNITS = {name: key.unit for name, key in {**REQUEST_KEYS, **RUN_KEYS}.items()}


def _unit(name: str) -> str:
    return _UNITS.get(name, "ms")


SINGLES: dict[str, tuple[str, Literal["lower", ""]]] = {
    **{name: (_unit(name), "lower") for name in LOWER},
    **{name: (_unit(name), "") for name in PLAIN},
}
