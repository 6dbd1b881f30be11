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

from harness.load.sse import Events, EventTooLong

READ_BYTES = 65536
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
        parts = urlsplit(base_url)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        self._used_s = 0.0
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"content-type": "application/json"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"

    def complete(self, body: str, heard: Callable[[], None]) -> Outcome:
        """Ask with a body of `body_of`, and listen to the end; `heard()` is called at every read.
        Never raises for what a server or a network does."""
        outcome = Outcome()
        try:
            self._ask(body, outcome)
            self._listen(outcome, heard)
        except (OSError, http.client.HTTPException, EventTooLong, ValueError) as error:
            outcome.error = f"{type(error).__name__}: {error}"[:200]
            self._connection.close()
        outcome.end_ns = time.monotonic_ns()
        self._used_s = time.monotonic()
        return outcome

    def fetch(self, method: str, path: str) -> tuple[int, str]:
        """A small whole answer. Raises `OSError` or `http.client.HTTPException`."""
        if time.monotonic() - self._used_s > IDLE_S:
            self._connection.close()
        self._used_s = time.monotonic()
        try:
            self._connection.request(method, self._path + path, headers=self._headers)
            response = self._connection.getresponse()
            return response.status, response.read().decode("utf-8", "replace")
        except BaseException:  # a greenlet that is killed while it waits, too
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def _ask(self, body: str, outcome: Outcome) -> None:
        if time.monotonic() - self._used_s > IDLE_S:
            self._connection.close()
        self._connection.request("POST", f"{self._path}/v1/completions", body, self._headers)
        outcome.sent_ns = time.monotonic_ns()

    def _listen(self, outcome: Outcome, heard: Callable[[], None]) -> None:
        response = self._connection.getresponse()
        outcome.status = response.status
        if response.status != 200:
            said = response.read(2000).decode("utf-8", "replace")
            outcome.error = f"HTTP {response.status}: {said}"[:200]
            self._connection.close()
            return
        events, last_ns, done = Events(), -1, False
        while not done and (part := response.read1(READ_BYTES)):
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
        if done:
            response.read()  # the last chunk, so that the connection can be used again
        else:
            self._connection.close()


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
