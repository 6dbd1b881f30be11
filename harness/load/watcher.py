"""The server's own word: `/metrics` and `/get_server_info`, polled while it is loaded.

What has no sample is absent, and never zero.
"""

import http.client
import json
from collections.abc import Mapping
from typing import Any

from harness.load.exchange import Line
from harness.load.names import Names, Scrape, parse

COUNTERS = ("prompt", "output", "completed", "evicted", "loaded_back", "ttft_requests")
INFO_EVERY = 10  # looks
INFO_PATHS = ("/get_server_info", "/server_info")


class Watcher:
    """Scrapes one server. A counter that shrank, or a server that names another life, has started
    anew; what it counts from then on is added to what it counted before."""

    def __init__(self, line: Line, names: Names) -> None:
        self._line = line
        self._names = names
        self.last: Scrape = {}
        self.peaks: dict[str, float] = {}
        self._grown: dict[str, float] = {}
        self.info: Mapping[str, Any] = {}  # as the server first told it; empty where it does not
        self.life = ""
        self.restarted = ""
        self.failures = 0  # looks in a row that got no answer
        self.refused = False  # the last of them was refused or cut short, not just slow
        self.has_metrics = True
        self._looks = 0

    def look(self) -> bool:
        """Look once; False when the server gave no answer."""
        try:
            found = self._scrape()
            if self._looks % INFO_EVERY == 0 or self.failures:
                self._ask_info()
        except (OSError, http.client.HTTPException) as error:
            self.failures += 1
            self.refused = not isinstance(error, TimeoutError)
            return False
        self.failures = 0
        self._lived(found)
        for field, value in found.items():
            before = self.last.get(field, self.peaks.get(field, 0.0 if self._looks else value))
            self._grown[field] = self._grown.get(field, 0.0) + (
                value - before if value >= before else value
            )
            self.peaks[field] = max(value, self.peaks.get(field, value))
        self._looks += 1
        self.last = found
        return True

    def grown(self, field: str) -> float | None:
        """How much a counter grew since the first look; None where it never had a sample. One that
        appeared later is counted from 0: servers make a sample when it is first needed."""
        return self._grown.get(field)

    def close(self) -> None:
        self._line.close()

    def _scrape(self) -> dict[str, float]:
        status, text = self._line.fetch("GET", "/metrics")
        self.has_metrics = status == 200
        if not self.has_metrics:
            return {}
        try:
            return parse(text, self._names)
        except ValueError:
            return {}

    def _ask_info(self) -> None:
        for path in INFO_PATHS:
            status, text = self._line.fetch("GET", path)
            if status != 200:
                continue
            try:
                page = json.loads(text)
            except ValueError:
                return
            if isinstance(page, dict):
                self.info = self.info or page
                self._born(_life_of(page))
            return

    def _lived(self, found: Scrape) -> None:
        for counter in COUNTERS:
            before, now = self.last.get(counter, 0.0), found.get(counter)
            if now is not None and now < before:
                fell = f"its count of {counter} fell from {before:,.0f} to {now:,.0f}"
                self.restarted = self.restarted or fell
        before = self.last.get("started_s", 0.0)
        if before and found.get("started_s", before) != before:
            self.restarted = self.restarted or "its process started later than before"

    def _born(self, life: str) -> None:
        if self.life and life and life != self.life:
            self.restarted = self.restarted or "it tells of another start than before"
        self.life = life or self.life


def _life_of(page: Mapping[str, Any]) -> str:
    """What differs between two lives of a server: our `boot`, or SGLang's time of its start."""
    states = page.get("internal_states")
    state = states[0] if isinstance(states, list) and states else {}
    started = state.get("startup_time") if isinstance(state, dict) else None
    return str(page.get("boot") or started or "")
