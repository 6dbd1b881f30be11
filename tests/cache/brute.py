"""What is resident, page by page, derived from the nodes alone: no walk, no rule, no ledger.

A recurrent state is filed under the last page of the prefix that it is the state of.
A page is named by (namespace, the bytes of its whole prefix). Cost is the size of the tree times
its depth, which small caches can afford after every step.
"""

from typing import NamedTuple

from cache.config import Component, Tier
from cache.keys import Key
from cache.tree import Node
from cache.unified import UnifiedCache

Page = tuple[str, bytes]


class Value(NamedTuple):
    slot: int
    ready: bool
    doomed: bool  # a copy is on its way, and will be given back


Residency = dict[Page, dict[tuple[Tier, Component], Value]]


def resident_pages(cache: UnifiedCache) -> Residency:
    """Every page of the tree, with what each tier has of each component."""
    found: Residency = {}
    stack = [(node, b"") for node in cache.tree.root.children.values()]
    while stack:
        node, above = stack.pop()
        prefix = above + node.edge
        for page, name in enumerate(_names(cache, node, above)):
            assert name not in found, "a prefix is in the tree twice"
            found[name] = {
                (tier, component): _value(node, tier, component, page)
                for tier in Tier
                for component in cache.config.components
                if _has(cache, node, tier, component, page)
            }
        stack += [(child, prefix) for child in node.children.values()]
    return found


def pages_under(cache: UnifiedCache, node: Node) -> list[Page]:
    """The pages of one node, by name."""
    above = b""
    for up in node.ancestors():
        if up is not node:
            above = up.edge + above
    return _names(cache, node, above)


def longest_servable(cache: UnifiedCache, pages: Residency, key: Key) -> int:
    """Tokens of the longest prefix, at most n-1, that the device can serve or is on a sound way
    to: FULL on every page, SWA on every page that the last window touches, MAMBA at its end."""
    return _longest(cache, pages, key, _on_device)


def longest_loadable(cache: UnifiedCache, pages: Residency, key: Key) -> int:
    """The same with what the host has ready."""
    return _longest(cache, pages, key, _obtainable)


def must_load(cache: UnifiedCache, pages: Residency, key: Key, tokens: int) -> tuple[int, ...]:
    """Per component, the pages that the prefix of `tokens` needs and the device has no slots for.
    Counts whole nodes of a window as the cache does only if the window starts at a node; callers
    compare with `<=`."""
    counts = [0] * cache.config.width
    for component in cache.config.components:
        needed = _needed(cache, key, tokens, component)
        counts[component] = sum((Tier.DEVICE, component) not in pages[page] for page in needed)
    return tuple(counts)


def _longest(cache: UnifiedCache, pages: Residency, key: Key, there) -> int:
    size = cache.config.page_size
    limit = max(0, key.tokens - 1) // size
    for count in range(limit, 0, -1):
        if all(
            page in pages and there(pages[page], component)
            for component in cache.config.components
            for page in _needed(cache, key, count * size, component)
        ):
            return count * size
    return 0


def _needed(cache: UnifiedCache, key: Key, tokens: int, component: Component) -> list[Page]:
    size = cache.config.page_size
    first = 0
    if component is Component.SWA:
        oldest = max(0, tokens - cache.config.window)  # the oldest token that the window touches
        first = oldest // size
    if component is Component.MAMBA:
        first = max(0, tokens // size - 1)
    return [
        (key.namespace, key.data[: (page + 1) * size * 4]) for page in range(first, tokens // size)
    ]


def _on_device(values: dict[tuple[Tier, Component], Value], component: Component) -> bool:
    value = values.get((Tier.DEVICE, component))
    return value is not None and not value.doomed


def _obtainable(values: dict[tuple[Tier, Component], Value], component: Component) -> bool:
    if (Tier.DEVICE, component) in values:
        return _on_device(values, component)
    host = values.get((Tier.HOST, component))
    taken = any(v.doomed for (tier, _), v in values.items() if tier is Tier.DEVICE)
    return host is not None and host.ready and not taken


def _names(cache: UnifiedCache, node: Node, above: bytes) -> list[Page]:
    step = cache.tree.page_bytes
    prefix = above + node.edge
    return [
        (node.namespace, prefix[: stop + step]) for stop in range(len(above), len(prefix), step)
    ]


def _has(cache: UnifiedCache, node: Node, tier: Tier, component: Component, page: int) -> bool:
    last = node.tokens // cache.config.page_size - 1
    there = node.slots[tier][component] is not None
    return there and (component is not Component.MAMBA or page == last)


def _value(node: Node, tier: Tier, component: Component, page: int) -> Value:
    slots, copy = node.slots[tier][component], node.inbound[tier][component]
    assert slots is not None
    slot = slots[0 if component is Component.MAMBA else page]
    return Value(slot, copy is None, copy is not None and copy.doomed)
