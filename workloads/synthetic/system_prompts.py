"""The prefixes that a family's groups share."""

from __future__ import annotations

from workloads.synthetic.amounts import Amount, tokens
from workloads.synthetic.chances import generator
from workloads.tokens import Span, stream_seed


def system_prompt(seed: int, group: int, length: Amount) -> Span:
    """The system prompt of `group`: the same for the same seed, however many groups there are."""
    (drawn,) = tokens(length, generator(seed, "system", group), 1)
    return Span(stream_seed(seed, "system", group), 0, drawn)
