"""When two moments of an arena are the same: what an exhaustive search may take for one state.

Slot numbers are left out (slots of a pool are alike), recency counts by its order only, lock and
copy numbers by their place in line. Path marks are lost, as they are with any state hashing.
"""

from collections.abc import Hashable

from cache.config import Tier
from cache.tree import Node
from cache.unified import UnifiedCache


def cache_state(cache: UnifiedCache) -> Hashable:
    """Everything about a cache that can make its future differ."""
    nodes = list(cache.tree.nodes())
    ticks = sorted({tick for node in nodes for tick in node.used})
    order = {tick: place for place, tick in enumerate(ticks)}
    copies = [copy for tier in Tier for copy in cache.transfers.queues[tier]]
    places = {copy.number: place for place, copy in enumerate(copies)}
    return (
        tuple(_node_state(node, order, places) for node in nodes),
        tuple((copy.target, copy.state.value, copy.doomed) for copy in copies),
        tuple(pool.free_slots for pool in cache.pools.values()),
        tuple(
            (lock.holder, lock.anchor.start, lock.anchor.edge, tuple(lock.reach))
            for lock in cache.locks.live()
        ),
    )


def _node_state(node: Node, order: dict[int, int], places: dict[int, int]) -> Hashable:
    residency = tuple(slots is not None for tier in Tier for slots in node.slots[tier])
    inbound = tuple(
        -1 if copy is None else places.get(copy.number, -2)
        for tier in Tier
        for copy in node.inbound[tier]
    )
    return (
        node.namespace,
        node.start,
        node.edge,
        residency,
        inbound,
        tuple(node.locks[Tier.DEVICE]),
        tuple(node.locks[Tier.HOST]),
        node.hits,
        (node.persisted, node.persisting),
        node.priority,
        node.leaving,
        tuple(order[tick] for tick in node.used),
    )
