"""The one record that every source of traffic yields, and what a source is.

A trace reader and a synthetic family give the same things: sessions of requests whose tokens are
named by spans. Nothing here changes after it was made; a request can be asked for its tokens any
number of times and always answers the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workloads.tokens import DEFAULT_VOCAB_SIZE, Span, synthesize


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and the answer it will get.

    `arrival_s` counts from the run's start. With `delay_s` the loop is closed: the turn is sent
    that long after the previous turn of its session ended, and `arrival_s` is only the earliest
    moment it could be. `abort_after_s` counts from sending. A larger `priority` goes first.
    `namespace` separates prefixes that must not be shared; "" is the common one.
    """

    request_id: str
    session_id: str
    turn: int
    prompt: tuple[Span, ...]
    output: tuple[Span, ...]
    arrival_s: float
    delay_s: float | None = None
    priority: int = 0
    namespace: str = ""
    tenant: str = ""
    abort_after_s: float | None = None

    @property
    def prompt_len(self) -> int:
        """Number of prompt tokens."""
        return sum(span.length for span in self.prompt)

    @property
    def output_len(self) -> int:
        """Number of tokens the answer has if nobody aborts it."""
        return sum(span.length for span in self.output)

    def prompt_tokens(self, vocab_size: int = DEFAULT_VOCAB_SIZE) -> npt.NDArray[np.int32]:
        """The prompt, int32 of shape (prompt_len,), made anew at each call."""
        return synthesize(self.prompt, vocab_size)

    def output_tokens(self, vocab_size: int = DEFAULT_VOCAB_SIZE) -> npt.NDArray[np.int32]:
        """The answer, int32 of shape (output_len,), made anew at each call."""
        return synthesize(self.output, vocab_size)


@dataclass(frozen=True, slots=True)
class Session:
    """The turns of one client, in order; turn k of the tuple has `turn == k`."""

    session_id: str
    turns: tuple[Request, ...]


class Workload(Protocol):
    """A source of sessions that can be read any number of times, with the same result."""

    @property
    def name(self) -> str:
        """A short name for reports."""
        ...

    @property
    def source(self) -> Mapping[str, str | int | float]:
        """Where the requests come from and how they were read; what a run records about it."""
        ...

    def sessions(self) -> Iterator[Session]:
        """The sessions in order of their first arrival, made while iterating."""
        ...

    def digest(self) -> str:
        """A sha256 over all requests: equal digests mean equal traffic."""
        ...
