"""The bodies of answers: whole ones, and the chunks of streams."""

import json
from dataclasses import dataclass

import numpy as np

from harness.serve.asked import Asked
from harness.serve.received import Ticket
from harness.serve.tokenizer import text_of

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """The replies to one request. `created` is in whole seconds since 1970."""

    asked: Asked
    ticket: Ticket
    model: str
    created: int

    def whole(self) -> dict[str, object]:
        """The answer in one piece, once it is complete."""
        ids = self._ids(0, self.ticket.generated)
        if self.asked.chat:
            choice: dict[str, object] = {
                "message": {"role": "assistant", "content": text_of(ids)},
            }
        else:
            choice = {"text": text_of(ids)}
        choice |= {"index": 0, "logprobs": None, "finish_reason": "length"}
        if self.asked.token_ids:
            choice["token_ids"] = ids
        return {**self._head(streamed=False), "choices": [choice], "usage": self.usage()}

    def chunk(self, start: int, stop: int) -> bytes:
        """Tokens [start, stop) as one event; the last says why it is the last."""
        ids = self._ids(start, stop)
        text = text_of(ids)
        last = stop == self.ticket.received.output_len
        choice: dict[str, object] = {"index": 0, "logprobs": None}
        if self.asked.chat:
            delta = {"role": "assistant", "content": text} if not start else {"content": text}
            choice["delta"] = delta
        else:
            choice["text"] = text
        choice["finish_reason"] = "length" if last else None
        if self.asked.token_ids:
            choice["token_ids"] = ids
        return event({**self._head(streamed=True), "choices": [choice]})

    def ending(self) -> bytes:
        """What follows the last token: usage if it was asked for, and the end mark."""
        if not self.asked.include_usage:
            return DONE
        page = {**self._head(streamed=True), "choices": [], "usage": self.usage()}
        return event(page) + DONE

    def usage(self) -> dict[str, object]:
        """Tokens in, out, and from which tier of the cache."""
        prompt, answer = len(self.asked.prompt), self.ticket.generated
        device, host, storage = self.ticket.cached
        return {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
            "prompt_tokens_details": {
                "cached_tokens": device + host + storage,
                "cached_tokens_details": {"device": device, "host": host, "storage": storage},
            },
        }

    def _head(self, *, streamed: bool) -> dict[str, object]:
        kind = "text_completion"
        if self.asked.chat:
            kind = "chat.completion.chunk" if streamed else "chat.completion"
        return {
            "id": self.ticket.received.request_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
        }

    def _ids(self, start: int, stop: int) -> list[int]:
        ids: list[int] = np.frombuffer(self.ticket.output, "<i4")[start:stop].tolist()
        return ids


def event(page: dict[str, object]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(page, separators=(",", ":")).encode() + b"\n\n"
