"""One streamed completion, timed at the bytes.

`first_ns` is when the read returned that completed the first event with content, `sent_ns` when
the last byte of the request had been handed to the system; both on the monotonic clock.
"""

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from harness.load.connection import Connection
from harness.load.sse import Events, EventTooLong

IDLE_S = 2.0  # servers close idle connections: an older one is opened anew before a request


@dataclass(slots=True)
class Outcome:
    """What came back. `error` is "" for a whole answer, else its class and what was said."""

    sent_ns: int = -1
    first_ns: int = -1
    end_ns: int = -1
    status: int = 0
    error: str = ""
    texts: list[str] = field(default_factory=list)
    gaps_ns: list[int] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)  # hits by tier, where the server says

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Line:
    """One connection to the server, opened when it is needed and again when it broke."""

    def __init__(self, base_url: str, *, api_key: str, timeout_s: float) -> None:
        headers = {"content-type": "application/json"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        self._connection = Connection(base_url, headers=headers, timeout_s=timeout_s)
        self._path = urlsplit(base_url).path.rstrip("/").removesuffix("/v1")
        self._used_s = 0.0

    def complete(self, body: str, heard: Callable[[], None]) -> Outcome:
        """Ask with a body of `body_of`, and listen to the end; `heard()` is called at every read.
        Never raises for what a server or a network does."""
        outcome = Outcome()
        try:
            self._ask("POST", "/v1/completions", body)
            outcome.sent_ns = time.monotonic_ns()
            self._listen(outcome, heard)
        except (OSError, http.client.HTTPException, EventTooLong, ValueError) as error:
            outcome.error = f"{type(error).__name__}: {error}"[:200]
            self._connection.close()
        except BaseException:  # a user that is stopped
            self._connection.close()
            raise
        outcome.end_ns = time.monotonic_ns()
        self._used_s = time.monotonic()
        return outcome

    def fetch(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        """A small whole answer. Raises `OSError` or `http.client.HTTPException`."""
        try:
            self._ask(method, path, body)
            status, text = self._connection.status(), self._connection.read_all()
        except BaseException:  # a greenlet that is killed while it waits, too
            self._connection.close()
            raise
        self._used_s = time.monotonic()
        return status, text.decode("utf-8", "replace")

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: str = "") -> None:
        if time.monotonic() - self._used_s > IDLE_S:
            self._connection.close()
        self._connection.ask(method, self._path + path, body)

    def _listen(self, outcome: Outcome, heard: Callable[[], None]) -> None:
        connection = self._connection
        outcome.status = connection.status()
        if outcome.status != 200:
            said = connection.read_all().decode("utf-8", "replace")
            outcome.error = f"HTTP {outcome.status}: {said}"[:200]
            return
        events, last_ns, done = Events(), -1, False
        while part := connection.read():
            now = time.monotonic_ns()
            heard()
            for data in events.feed(part):
                if data == b"[DONE]":
                    done = True
                elif _take(json.loads(data), outcome):
                    if outcome.first_ns < 0:
                        outcome.first_ns = now
                    else:
                        outcome.gaps_ns.append(now - last_ns)
                    last_ns = now
        if not done and not outcome.error:
            outcome.error = "CutShort: the stream ended without its end mark"


def _take(page: dict[str, Any], outcome: Outcome) -> bool:
    """Keep what one event says; whether it has content."""
    if "error" in page:
        outcome.error = f"ServerError: {page['error'].get('message', '')}"[:200]
        return False
    if page.get("usage"):
        outcome.usage = page["usage"]
        inner = outcome.usage.get("prompt_tokens_details") or {}
        outcome.details = inner.get("cached_tokens_details") or outcome.details
    extra = page.get("sglext") or {}
    outcome.details = extra.get("cached_tokens_details") or outcome.details
    text = "".join(choice.get("text") or "" for choice in page.get("choices", ()))
    if text:
        outcome.texts.append(text)
    return bool(text)
