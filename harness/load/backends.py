"""What differs between servers: the fields of a request, and where they say what was a hit."""

import json
from typing import Any, NamedTuple

from harness.load.exchange import Outcome
from harness.load.settings import Backend


class Hits(NamedTuple):
    """Prompt tokens by tier. A server that does not tell tiers apart has all on the device."""

    device: int
    host: int
    storage: int


def body_of(
    backend: Backend, model: str, prompt: list[int], max_tokens: int, *, salt: str, priority: int
) -> str:
    """The JSON of a streamed greedy completion of `max_tokens`, no fewer where the backend can be
    told so."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if backend != "openai":
        body["ignore_eos"] = True
        if salt:
            body["cache_salt"] = salt
        if priority:
            body["priority"] = priority
    if backend == "sglang":
        body["return_cached_tokens_details"] = True
    return json.dumps(body, separators=(",", ":"))


def hits_of(outcome: Outcome) -> Hits:
    """What `usage` says was cached, by tier."""
    inner = outcome.usage.get("prompt_tokens_details") or {}
    cached = int(inner.get("cached_tokens") or 0)
    details = outcome.details
    host, storage = int(details.get("host") or 0), int(details.get("storage") or 0)
    return Hits(int(details.get("device", cached - host - storage) or 0), host, storage)
