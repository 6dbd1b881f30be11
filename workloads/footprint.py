"""What a workload asks of a cache: how much it holds in total, and the most it could hit.

`IdealCache` never forgets: after a request ends, every whole page of its prompt and answer stays.
It works on runs of tokens, not on tokens or pages: requests meet in a tree whose edges are spans,
so its cost does not depend on prompt length or page size, and the counts are exact whenever
tokens of different streams count as different.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workloads.request import Request, Workload
from workloads.tokens import Span
from workloads.workload import in_arrival_order


@dataclass(frozen=True, slots=True)
class Footprint:
    """Totals over a workload's requests; all in tokens but the first."""

    requests: int
    page_size: int
    total_prompt_tokens: int
    total_output_tokens: int
    #: Distinct whole pages of all prompts and answers: a cache of this size never evicts.
    unique_page_tokens: int
    #: Prompt tokens that an infinite cache serves: whole pages, at most n - 1 of n tokens.
    ideal_hit_tokens: int

    @property
    def ideal_token_hit_rate(self) -> float:
        """Hit tokens over all prompt tokens; 0 if there are none."""
        return self.ideal_hit_tokens / max(self.total_prompt_tokens, 1)


def footprint(
    workload: Workload, page_size: int, *, served: Callable[[Request], bool] = lambda _: True
) -> Footprint:
    """Count `workload` in order of arrival, each request ending before the next; aborts ignored.

    Requests for which `served` is false are left out, such as those longer than the context.
    """
    ideal = IdealCache(page_size)
    for request in in_arrival_order(workload):
        if served(request):
            ideal.add(request)
    return ideal.footprint()


@dataclass
class IdealCache:
    """An infinite cache that is told of requests one by one.

    Invariant: no two edges below one node begin with the same token.
    """

    page_size: int
    requests: int = 0
    total_prompt_tokens: int = 0
    total_output_tokens: int = 0
    unique_page_tokens: int = 0
    ideal_hit_tokens: int = 0
    _roots: dict[str, _Edge] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.page_size >= 1, f"page_size must be at least 1, got {self.page_size}"

    def add(self, request: Request) -> int:
        """Serve `request`, keep its pages, and return the prompt tokens that were a hit."""
        prompt_len, output_len = request.prompt_len, request.output_len
        root = self._roots.setdefault(request.namespace, _Edge(0, {}))
        known = _insert(root, [s for s in (*request.prompt, *request.output) if s.length])
        hit = self._whole_pages(min(known, max(prompt_len - 1, 0)))
        whole = self._whole_pages(prompt_len + output_len)
        self.requests += 1
        self.total_prompt_tokens += prompt_len
        self.total_output_tokens += output_len
        self.unique_page_tokens += whole - self._whole_pages(known)
        self.ideal_hit_tokens += hit
        return hit

    def footprint(self) -> Footprint:
        """The totals so far."""
        return Footprint(
            self.requests,
            self.page_size,
            self.total_prompt_tokens,
            self.total_output_tokens,
            self.unique_page_tokens,
            self.ideal_hit_tokens,
        )

    def _whole_pages(self, tokens: int) -> int:
        return tokens - tokens % self.page_size


@dataclass(slots=True)
class _Edge:
    """A run of one stream; its children are keyed by the (seed, index) of their first token."""

    length: int
    below: dict[tuple[int, int], _Edge]


def _insert(root: _Edge, spans: list[Span]) -> int:
    """Add a sequence of spans that are not empty; return how much of its head was there before."""
    node, known = root, 0
    for number, span in enumerate(spans):
        seed, start, left = span
        while left:
            edge = node.below.get((seed, start))
            if edge is None:
                _append(node, Span(seed, start, left), spans[number + 1 :])
                return known
            if edge.length > left:
                _split(edge, seed, start, left)
            node = edge
            known += edge.length
            start += edge.length
            left -= edge.length
    return known


def _append(node: _Edge, first: Span, rest: list[Span]) -> None:
    for seed, start, length in (first, *rest):
        edge = _Edge(length, {})
        node.below[seed, start] = edge
        node = edge


def _split(edge: _Edge, seed: int, start: int, length: int) -> None:
    """Cut the edge after `length` tokens; what is below it moves under the second half."""
    tail = _Edge(edge.length - length, edge.below)
    edge.length = length
    edge.below = {(seed, start + length): tail}
