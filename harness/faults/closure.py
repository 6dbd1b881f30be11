"""Defects of closure and of splits: children without their parents, halves that are forgotten."""

from typing import Any

from cache.config import Component, Tier
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, forgotten, patch

family = Family("closure")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


@family.fault("S5", "M2", reference="sglang PRs 25065, 22062")
def child_without_parent_backup(cache: UnifiedCache) -> None:
    """A leaf is split and its new parent is not backed up; the child's backup leaves a gap.

    Nothing below the gap can ever be loaded back.
    """

    def missing(original: Any, node: Node) -> list[tuple[Node, Component]]:
        return [piece for piece in original(node) if piece[0] is node]

    patch(cache.backups, "_missing", missing)


@family.fault("D2", "S6", "crash", reference="sglang PR 16946")
def split_while_writing(cache: UnifiedCache) -> None:
    """A node is split while its copy is in flight; the acknowledgement completes half of it.

    Only the lower half is known to the copy; the upper half stays filling for ever.
    """

    def follow(original: Any, upper: Node, lower: Node, pages: int) -> None:
        original(upper, lower, pages)
        for queue in cache.transfers.queues.values():
            for copy in queue:
                copy.parts = [part for part in copy.parts if part.node is not upper]

    patch(cache.transfers, "follow_split", follow)


@family.fault("S2", "M2", "crash", "P3", reference="sglang PR 38452")
def backed_up_stub(cache: UnifiedCache) -> None:
    """A node that host eviction has emptied stays in the tree and counts as matched.

    Nobody asks further down, and what hangs below it is never served.
    """

    def drop(original: Any, node: Node, tier: Tier, component: Component) -> None:
        if tier is DEVICE or node.slots[DEVICE][FULL] is not None:
            original(node, tier, component)
            return
        with forgotten(cache.tree, "remove"):
            original(node, tier, component)

    patch(cache.residency, "drop", drop)


@family.fault("S4", "S5", "S6", "crash")
def inner_nodes_evicted(cache: UnifiedCache) -> None:
    """FULL is evicted from inner nodes as well as from leaves.

    What hangs below loses the prefix that it continues.
    """

    def may_go(original: Any, node: Node, tier: Tier, component: Component) -> bool:
        kids, node.kids[tier] = node.kids[tier], 0
        try:
            return bool(original(node, tier, component))
        finally:
            node.kids[tier] = kids

    patch(cache.residency, "may_go", may_go)


@family.fault("S6")
def most_recent_first(cache: UnifiedCache) -> None:
    """The victim is the most recently used node.

    No promise of content breaks; only the order of victims tells.
    """
    for victims in cache.residency.victims.values():
        patch(victims, "rank", lambda original, node: tuple(-x for x in original(node)))


@family.fault("S6", "S5")
def host_parents_before_children(cache: UnifiedCache) -> None:
    """Host eviction takes a node although children of it are on the host.

    What hangs below has no prefix to be loaded with.
    """

    def may_go(original: Any, node: Node, tier: Tier, component: Component) -> bool:
        kids = node.kids[tier]
        node.kids[tier] = kids if tier is DEVICE else 0
        try:
            return bool(original(node, tier, component))
        finally:
            node.kids[tier] = kids

    patch(cache.residency, "may_go", may_go)


@family.fault("S6")
def split_forgets_hits_and_recency(cache: UnifiedCache) -> None:
    """The upper half of a split starts as if it had never been used.

    The hottest prefixes are cut oftenest, and so they go first.
    """

    def split(original: Any, lower: Node, pages: int) -> Node:
        upper: Node = original(lower, pages)
        upper.hits, upper.used[:] = 0, [0] * len(upper.used)
        cache.residency.review(upper)
        return upper

    patch(cache.tree, "split", split)


@family.fault("S6")
def touch_forgotten(cache: UnifiedCache) -> None:
    """A hit does not refresh the recency of what it hit.

    Victims go in the order in which they came.
    """
    patch(cache.residency, "touch", lambda original, node, anchor, now: None)


@family.fault("P2")
def host_evicts_the_demand(cache: UnifiedCache) -> None:
    """The host evicts what a backup asks for, not what it is short of.

    Half of what the host keeps goes with every backup.
    """

    def make_room(original: Any, component: Component, wanted: int) -> None:
        most = cache.residency.obtainable(Tier.HOST, component)
        original(component, min(most, wanted + cache.pools[Tier.HOST, component].free_slots))

    patch(cache.backups._hosts, "_make_room", make_room)


@family.fault("P2")
def demotion_drops_what_hangs_below(cache: UnifiedCache) -> None:
    """A node that goes from the device takes the host-only nodes below it along.

    It has its own host copy and so could carry them; the hits are lost for nothing.
    """

    def let_go(original: Any, node: Node, short: int = 0) -> None:
        cache.backups._hosts.drop_below(node)
        original(node, short)

    patch(cache.evictor, "_let_go", let_go)


@family.fault("P2", "M2")
def room_made_and_then_refused(cache: UnifiedCache) -> None:
    """The host gives pages up for a backup and then finds that it cannot have enough.

    A demand that cannot be met must cost nothing.
    """

    def make_room(original: Any, pages: list[int]) -> bool:
        return bool(original(pages)) and sum(pages) < 3

    patch(cache.backups._hosts, "make_room", make_room)


@family.fault("P2")
def dead_weight_kept(cache: UnifiedCache) -> None:
    """A leaf whose window is gone for good stays when the child that needed it goes.

    Nothing can be served through it, and it takes pages until its turn comes.
    """
    patch(cache.evictor, "_sweep", lambda original, node: None)
