"""The server of a load beside its client, as tables."""

from collections.abc import Mapping
from math import nan

from harness.record.summary import Number
from harness.report.files import RunFiles
from harness.report.quantities import duration
from harness.report.tables import Table

TIERS = ("device", "host", "storage")


def both_sides(run: RunFiles) -> Table:
    """One row a count: the client's over every request that got a first token, the server's, and
    how they differ."""
    rows = run.everything[run.everything["first_token_ns"] >= 0]
    completed = int((run.everything["status"] == "completed").sum())
    ours: list[tuple[str, str, float]] = [
        ("requests completed", "server_completed_requests", completed),
        ("prompt tokens", "server_prompt_tokens", rows["prompt_tokens"].sum()),
        ("output tokens", "server_output_tokens", rows["output_tokens"].sum()),
        *(
            (f"hit tokens, {tier}", f"server_cached_{tier}_tokens",
             rows[f"cached_tokens_{tier}"].sum())
            for tier in TIERS
        ),
    ]  # fmt: skip
    shown = [
        (what, f"{client:,.0f}", f"{server:,.0f}", f"{server - client:+,.0f}")
        for what, key, client in ours
        if (server := _number(run.summary, key)) == server
    ]
    server_ms = _number(run.summary, "server_mean_ttft_ms")
    if server_ms == server_ms and len(rows):
        mean_ms = float(rows["ttft_ms"].mean())
        sign = "+" if server_ms >= mean_ms else "-"
        apart = f"{sign}{duration(abs(server_ms - mean_ms))}"
        shown.append(("mean TTFT, from the send", duration(mean_ms), duration(server_ms), apart))
    columns = ("what", "client", "server", "server - client")
    return Table("Both sides", columns, tuple(shown), frozenset((1, 2, 3)))


def server_settings(run: RunFiles) -> Table:
    """What the server told of itself."""
    rows = tuple((name, str(value)) for name, value in run.run["server"].items())
    return Table("The server's settings", ("setting", "value"), rows)


def moved(summary: Mapping[str, Number]) -> Table:
    """What the server says that it moved and held."""
    names = {
        "server_evicted_tokens": "evicted from the device, tokens",
        "server_load_back_tokens": "loaded back from the host, tokens",
        "server_backup_tokens": "backed up to the host, tokens",
        "server_retracted_requests": "requests sent back to the queue",
        "server_peak_device_tokens": "most tokens held by requests on the device",
        "server_peak_host_tokens": "most tokens held by the host tier",
    }
    rows = [(what, f"{_number(summary, key):,.0f}" if key in summary else "not told")
            for key, what in names.items()]  # fmt: skip
    return Table("Moved and held", ("by the server's count", ""), tuple(rows), frozenset((1,)))


def _number(summary: Mapping[str, Number], key: str) -> float:
    value = summary.get(key)
    return float(value) if isinstance(value, int | float) else nan
