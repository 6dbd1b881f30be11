"""The server's own word: `/metrics` polled while it is loaded.

Every rank repeats its samples, so series that differ only in a rank are one, not a sum. What has
no sample is absent, and never zero.
"""

import http.client
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from harness.load.backends import Names
from harness.load.exchange import Line

RANKS = {"tp_rank", "pp_rank", "moe_ep_rank", "dp_rank", "pid"}
TIERS = ("device", "host", "storage")
Scrape = Mapping[str, float]


def parse(text: str, names: Names) -> dict[str, float]:
    """The fields of `Names` that have a sample, `cached` by tier as `cached_device` and so on."""
    seen: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for name, labels, value in _samples(text):
        rest = tuple(sorted((k, v) for k, v in labels.items() if k not in RANKS))
        seen[name, rest] = max(value, seen.get((name, rest), value))
    fields = {name: field for field, name in names._asdict().items() if name}
    found: dict[str, float] = {}
    for (name, series), value in seen.items():
        field = fields.get(name)
        if field is None:
            continue
        if field == "cached":
            source = dict(series).get("cache_source", "device")
            tier = next((tier for tier in TIERS if source.startswith(tier)), "device")
            field = f"cached_{tier}"
        found[field] = found.get(field, 0.0) + value
    return found


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


class Watcher:
    """Scrapes one server. `first` and `last` bound the run; a counter that shrank, or a server that
    names another life, has started anew."""

    def __init__(self, line: Line, names: Names) -> None:
        self._line = line
        self._names = names
        self.first: Scrape = {}
        self.last: Scrape = {}
        self.boot = ""
        self.restarted = ""
        self.failures = 0  # scrapes in a row that got no answer

    def look(self) -> bool:
        """Scrape once; False when the server gave no answer."""
        try:
            status, text = self._line.fetch("GET", "/metrics")
            found = parse(text, self._names) if status == 200 else {}
        except (OSError, http.client.HTTPException, ValueError):
            self.failures += 1
            return False
        self.failures = 0
        for counter in ("prompt", "output", "completed"):
            if found.get(counter, 0.0) < self.last.get(counter, 0.0):
                self.restarted = self.restarted or f"{counter} tokens or requests shrank"
        self.first = self.first or found
        self.last = found
        return True

    def grown(self, field: str) -> float | None:
        """How much a counter grew since the first look; None where it has no sample."""
        if field not in self.last:
            return None
        return self.last[field] - self.first.get(field, 0.0)
