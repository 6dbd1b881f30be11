"""When the pools of a run were full for the first time."""

from collections.abc import Iterable, Mapping

from harness.record.manifest import Pool

FULL = 0.9  # of a pool's size
TOLD = {  # by a server under load: what it holds, and its size
    "server_device": (("server_device_used_tokens", "server_device_evictable_tokens"),
                      "server_device_total_tokens"),
    "server_host": (("server_host_used_tokens",), "server_host_total_tokens"),
}  # fmt: skip


class Filling:
    """Told of every sample of the time series. Seconds of the run's clock."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._sizes = {f"{pool.tier}_{pool.component.lower()}": pool.pages for pool in pools}
        self._known = False
        self._full: dict[str, float] = {}

    def sample(self, elapsed_s: float, metrics: Mapping[str, float]) -> None:
        for name, size in self._sizes.items():
            self._see(name, metrics.get(f"{name}_used_pages", 0.0), size, elapsed_s)
        for name, (held, total) in TOLD.items():
            used = sum(metrics.get(part, 0.0) for part in held)
            self._see(name, used, metrics.get(total, 0.0), elapsed_s)

    @property
    def full_s(self) -> float | None:
        """When the last of the pools that were ever full was full; 0 if none was, None if nothing
        is known of any pool."""
        return max(self._full.values(), default=0.0) if self._known else None

    def _see(self, name: str, used: float, size: float, elapsed_s: float) -> None:
        if not size > 0:
            return
        self._known = self._known or used > 0
        if used >= FULL * size:
            self._full.setdefault(name, elapsed_s)
