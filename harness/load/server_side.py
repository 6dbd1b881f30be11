"""What the server says of itself, beside what its client sees.

Counters go into the time series as totals since the run began: samples may be thinned out later,
and a difference of totals stays right.
"""

from math import nan

from harness.load.names import TIERS
from harness.load.watcher import Watcher
from harness.record.summary import Number

TOTALS = {  # field of a scrape: name in the time series
    "prompt": "server_prompt_tokens",
    "output": "server_output_tokens",
    "completed": "server_completed_requests",
    **{f"cached_{tier}": f"server_cached_{tier}_tokens" for tier in TIERS},
    "evicted": "server_evicted_tokens",
    "loaded_back": "server_load_back_tokens",
    "backed_up": "server_backup_tokens",
    "retracted": "server_retracted_requests",
    "ttft_s": "server_ttft_total_s",
    "ttft_requests": "server_ttft_requests",
}
LASTS = {
    "queued": "queue_requests",
    "running": "running_requests",
    "used": "server_device_used_tokens",
    "evictable": "server_device_evictable_tokens",
    "total": "server_device_total_tokens",
    "usage": "server_device_usage",
    "host_used": "server_host_used_tokens",
    "host_total": "server_host_total_tokens",
}
COUNTED = ("completed", "prompt", "output", *(f"cached_{tier}" for tier in TIERS), "evicted",
           "loaded_back", "backed_up", "retracted")  # fmt: skip


def sample_of(watcher: Watcher, *, answered: bool) -> dict[str, float]:
    """One sample of the time series; NaN for what the server does not tell. `answered` is whether
    the last look was."""
    now = watcher.last if answered else {}
    found = {name: now.get(field, nan) for field, name in LASTS.items()}
    for field, name in TOTALS.items():
        grown = watcher.grown(field) if field in now else None
        found[name] = nan if grown is None else grown
    return {**found, "server_up": float(answered)}


def counts_of(watcher: Watcher) -> dict[str, Number]:
    """What the server says that it did for this run; absent is not zero."""
    counts: dict[str, Number] = {}
    for field in COUNTED:
        grown = watcher.grown(field)
        if grown is not None:
            counts[TOTALS[field]] = int(grown)
    requests, seconds = watcher.grown("ttft_requests"), watcher.grown("ttft_s")
    if requests and seconds is not None:
        counts["server_mean_ttft_ms"] = seconds / requests * 1e3
    for field, name in (("used", "device"), ("host_used", "host")):
        if field in watcher.peaks:
            counts[f"server_peak_{name}_tokens"] = int(watcher.peaks[field])
    return counts


def proof_of(watcher: Watcher, told: dict[str, int]) -> str:
    """Which tiers gave tokens, or that they were not exercised. `told` is what the answers said, by
    tier; where they do not tell tiers apart, the server's counters do."""
    tiers = ["device"]
    if watcher.last.get("host_total") or "cached_host" in watcher.last or told["host"]:
        tiers.append("host")
    if "cached_storage" in watcher.last or told["storage"]:
        tiers.append("storage")
    counted = {tier: int(watcher.grown(f"cached_{tier}") or 0) for tier in TIERS}
    blind = not (told["host"] or told["storage"]) and (counted["host"] or counted["storage"])
    words = []
    for tier in tiers:
        tokens = counted[tier] if blind else told[tier]
        words.append(f"{tier} tier gave {tokens:,} tokens" if tokens
                     else f"{tier} tier not exercised")  # fmt: skip
    loaded = watcher.grown("loaded_back")
    if loaded and "host" in tiers:
        words.append(f"{loaded:,.0f} tokens loaded back")
    return ", ".join(words)
