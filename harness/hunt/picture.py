"""A cache as text: what every node has, who holds what. For stories and for stepping through them.

F  FULL, W  window, S  state: on the device; f, w, s: on the host; in brackets while filling
.  a tombstone: absent here
"""

from typing import NamedTuple

from cache.config import Component, Tier
from cache.tree import Node
from cache.unified import UnifiedCache

LETTERS = {
    (Tier.DEVICE, Component.FULL): "F",
    (Tier.DEVICE, Component.SWA): "W",
    (Tier.DEVICE, Component.MAMBA): "S",
    (Tier.HOST, Component.FULL): "f",
    (Tier.HOST, Component.SWA): "w",
    (Tier.HOST, Component.MAMBA): "s",
}


class NodeState(NamedTuple):
    """One node: `residency` such as "F. fw", `locks` such as "2/1 host 1"."""

    label: str
    residency: str
    locks: str

    def __str__(self) -> str:
        return f"{self.residency}  locks {self.locks}"


class Picture(NamedTuple):
    """The whole cache at one moment."""

    nodes: dict[int, NodeState]
    pools: dict[str, str]
    locks: tuple[str, ...]
    copies: tuple[str, ...]


def picture_of(cache: UnifiedCache) -> Picture:
    return Picture(
        nodes={node.number: _state(node, cache) for node in cache.tree.nodes()},
        pools={
            pool.name: f"{pool.used_slots} of {pool.capacity} used"
            for pool in cache.pools.values()
            if pool.capacity
        },
        locks=tuple(str(lock) for lock in cache.locks.live()),
        copies=tuple(str(c) for tier in Tier for c in cache.transfers.queues[tier]),
    )


def changes(before: Picture, after: Picture) -> list[str]:
    """What a step did to the tree, one line for each node that it touched."""
    lines = []
    for number in {**before.nodes, **after.nodes}:
        old, new = before.nodes.get(number), after.nodes.get(number)
        if old == new:
            continue
        if old is None:
            assert new is not None
            lines.append(f"{new.label}: new {new}")
        elif new is None:
            lines.append(f"{old.label}: {old} -> gone")
        elif old.residency == new.residency and old.label == new.label:
            lines.append(f"{new.label}: locks {old.locks} -> {new.locks}")
        else:
            lines.append(f"{new.label}: {old} -> {new}")
    return lines


def lines_of(picture: Picture, cache: UnifiedCache) -> list[str]:
    """The tree, the pools and the locks, for a person."""
    lines = ["tree"]
    for node in cache.tree.nodes():
        depth = sum(1 for _ in node.ancestors())
        state = picture.nodes[node.number]
        lines.append("  " * depth + f"{state.label}  {state}")
    lines += ["pools"] + [f"  {name}: {text}" for name, text in picture.pools.items()]
    lines += ["locks"] + [f"  {text}" for text in picture.locks or ("none",)]
    lines += ["copies"] + [f"  {text}" for text in picture.copies or ("none",)]
    return lines


def _state(node: Node, cache: UnifiedCache) -> NodeState:
    tiers = tuple(Tier) if cache.config.hierarchical else (Tier.DEVICE,)
    residency = " ".join(
        "".join(_letter(node, tier, component) for component in cache.config.components)
        for tier in tiers
    )
    there = cache.config.components
    locks = " host ".join("/".join(str(node.locks[tier][c]) for c in there) for tier in tiers)
    return NodeState(f"node {node.number} [{node.start}:{node.end})", residency, locks)


def _letter(node: Node, tier: Tier, component: Component) -> str:
    if node.slots[tier][component] is None:
        return "."
    letter = LETTERS[tier, component]
    return letter if node.inbound[tier][component] is None else f"({letter})"
