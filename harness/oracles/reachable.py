"""How far a prefix is servable, page by page and the slow way: with what a tree has on its tiers,
and with what storage said it has.

None of this asks the code of the cache that answers the same questions. Invariant: nothing here
changes anything.
"""

from collections.abc import Collection
from typing import NamedTuple

from cache.config import Component, Tier
from cache.storage_moves import Prefetch
from cache.tree import Node
from harness.oracles.naive import Needs

Bit = tuple[Component, int]  # a component's page, or the state at the end of that page


class Bits(NamedTuple):
    """What a path is made of: `there` is ready on some tier; `absent` is not, and could go to the
    host beside its FULL."""

    there: set[Bit]
    absent: set[Bit]


def bits_of(path: list[Node], needs: Needs) -> Bits:
    """Of a path from the top down."""
    there, absent = set[Bit](), set[Bit]()
    for node in path:
        pages = range(node.start // needs.page_size, node.end // needs.page_size)
        takes = node.ready(Tier.HOST, Component.FULL)
        for component in _components(needs):
            ready = any(node.ready(tier, component) for tier in Tier)
            for page in pages:
                whole = component is not Component.MAMBA or page == pages[-1]
                if ready and whole:
                    there.add((component, page))
                elif takes and component is not Component.FULL:
                    absent.add((component, page))
    return Bits(there, absent)


def beyond(anchor: Node, limit: int, needs: Needs) -> set[Bit]:
    """What there could be of a key between its anchor and `limit`."""
    pages = range(anchor.end // needs.page_size, limit // needs.page_size)
    return {(component, page) for component in _components(needs) for page in pages}


def needed(end: int, needs: Needs) -> set[Bit]:
    """Everything that a prefix of `end` tokens needs."""
    stop = end // needs.page_size
    bits: set[Bit] = {(Component.FULL, page) for page in range(stop)}
    if needs.window:
        first = needs.window_from(end) // needs.page_size
        bits |= {(Component.SWA, page) for page in range(first, stop)}
    if needs.stateful and stop:
        bits.add((Component.MAMBA, stop - 1))
    return bits


def longest(bits: Collection[Bit], limit: int, needs: Needs) -> int:
    """The longest prefix (tokens) up to `limit` of which everything is among `bits`."""
    full = 0
    while full * needs.page_size < limit and (Component.FULL, full) in bits:
        full += 1
    for stop in range(full, 0, -1):
        end = stop * needs.page_size
        if needs.stateful and (Component.MAMBA, stop - 1) not in bits:
            continue
        first = needs.window_from(end) // needs.page_size if needs.window else stop
        if all((Component.SWA, page) in bits for page in range(first, stop)):
            return end
    return 0


def found(prefetch: Prefetch) -> set[Bit]:
    """Of what was asked for, the pages of which storage said that it has every strand."""
    answers = zip(prefetch.questions, prefetch.there, strict=True)
    missing = {(asked.component, asked.page) for asked, there in answers if not there}
    return {(w.component, w.page) for w in prefetch.questions} - missing


def _components(needs: Needs) -> list[Component]:
    window = [Component.SWA] if needs.window else []
    return [Component.FULL, *window, *([Component.MAMBA] if needs.stateful else [])]
