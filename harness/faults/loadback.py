"""Defects of load-back and of copies: wrong anchors, unlocked ends, bytes read too early."""

from typing import Any

from cache.config import Component, Tier, WritePolicy
from cache.contract import Demand, LoadOutcome
from cache.pools import Owner
from cache.transfers import Copy, CopyState
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, forgotten, patch

family = Family("load-back")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA = Component.FULL, Component.SWA


@family.fault("M1", "S3", "crash", reference="sglang issue 24869, PR 25088")
def load_back_from_the_wrong_node(cache: UnifiedCache) -> None:
    """Load-back starts at the deepest host-backed FULL node, not at the anchor of all components.

    Below the deepest node that is valid for every component there may be holes within the window;
    the load brings what there is, and the request counts on the rest.
    """

    def deepest(original: Any, path: list[Node]) -> Node:
        there = [n for n in path if n.slots[DEVICE][FULL] is not None or n.ready(HOST, FULL)]
        return there[-1] if there else cache.tree.root

    def lacking(original: Any, anchor: Node) -> list[tuple[Node, Component]]:
        return [(n, c) for n, c in original(anchor) if n.slots[HOST][c] is not None]

    patch(cache.loadbacks, "_deepest_loadable", deepest)
    patch(cache.loadbacks, "_lacking", lacking)


@family.fault("M1", reference="sglang PR 25277")
def shared_validator(cache: UnifiedCache) -> None:
    """One test serves for "servable from the device" and for "loadable".

    A window that only the host has is reported as a device hit; nobody loads it back.
    """

    def deepest(original: Any, path: list[Node]) -> Node:
        walks = [(component, rule.walk()) for component, rule in cache.rules.items()]
        found = cache.tree.root
        for node in path:
            if node.slots[DEVICE][FULL] is None:
                break
            valid = True
            for component, walk in walks:
                there = any(node.slots[tier][component] is not None for tier in Tier)
                valid &= walk.step(there, node.start, node.end)
            if valid:
                found = node
        return found

    patch(cache.loadbacks, "deepest_on_device", deepest)


@family.fault("L1", "D1", "crash", reference="sglang PRs 26728, 27444")
def no_host_lock_reentrant(cache: UnifiedCache) -> None:
    """Load-back locks the device path only while it makes room.

    Making room evicts, which backs up, which evicts from the host: the very slots that are about to
    be loaded.
    """

    def lock(original: Any, match: Any, holder: str) -> Any:
        if not match.anchor.attached:
            return None
        return cache.locks.acquire(match.anchor, cache._reach(match.anchor), (DEVICE,), holder)

    def may_go(original: Any, node: Node, tier: Tier, component: Component) -> bool:
        held = node.locks[DEVICE][component]
        node.locks[DEVICE][component] = held if tier is DEVICE else 0
        try:
            return bool(original(node, tier, component))
        finally:
            node.locks[DEVICE][component] = held

    patch(cache, "lock", lock)
    patch(cache.residency, "may_go", may_go)


@family.fault("D1", "L1", "C1", reference="sglang PRs 26728, 27444")
def no_host_lock_async(cache: UnifiedCache) -> None:
    """The host slots of a queued load-back are not locked.

    They are freed and given to another backup before the copy runs: wrong KV, and no crash.
    """

    def acquire(original: Any, anchor: Node, reach: list[int], tiers: Any, holder: str) -> Any:
        return original(anchor, reach, (DEVICE,) if holder == "load-back" else tiers, holder)

    patch(cache.locks, "acquire", acquire)


@family.fault("M1", "D1", reference="sglang PR 35931")
def foreign_pin_overlap(cache: UnifiedCache) -> None:
    """A request whose prefix two copies are filling waits for the first of them only.

    Values are published before their copy lands; it reads what the second is still loading.
    """

    def inbound(original: Any, anchor: Node) -> list[Copy]:
        copies: list[Copy] = original(anchor)
        return copies[:1]

    patch(cache.loadbacks, "inbound", inbound)


@family.fault("M1", "D1")
def joined_load_not_waited_for(cache: UnifiedCache) -> None:
    """A request that finds its prefix filling takes it for ready.

    Its first chunk reads pages that the copy has not brought.
    """
    patch(cache.loadbacks, "inbound", lambda original, anchor: [])


@family.fault("S2", "crash", reference="sglang PR 27108")
def demote_without_backup(cache: UnifiedCache) -> None:
    """Under write_back a victim is demoted although its backup got no host slot.

    The node stays in the tree with FULL nowhere.
    """

    def let_go(original: Any, node: Node, short: int = 0) -> None:
        if cache.config.write_policy is not WritePolicy.WRITE_BACK:
            original(node, short)
            return
        with forgotten(cache.tree, "remove"):
            original(node, short)

    patch(cache.evictor, "_let_go", let_go)


@family.fault("D1", "C1", reference="sglang PR 24585")
def free_before_copied(cache: UnifiedCache) -> None:
    """Under write_back the device slots are freed when the copy is queued, not when it lands.

    Somebody else writes them before the copy reads them.
    """

    def leave(original: Any, node: Node, component: Component) -> None:
        for part_component in reversed(cache.config.components):
            slots = node.slots[DEVICE][part_component]
            if slots is not None and component in (FULL, part_component):
                cache.residency._take(node, (DEVICE, part_component), Owner.NODE)

    patch(cache.residency, "leave", leave)


@family.fault("crash", "M3", reference="sglang PR 27391")
def unbudgeted_window(cache: UnifiedCache) -> None:
    """A load-back asks for FULL slots only; its window's slots come on top.

    Out of memory after a yes.
    """

    def make_room(original: Any, demand: Demand) -> Any:
        return original(demand._replace(swa=0))

    patch(cache.loadbacks, "_make_room", make_room)


@family.fault("M3", "M2", "M1", reference="vLLM 39702, 42289")
def hit_counted_then_gone(cache: UnifiedCache) -> None:
    """A host hit is counted at scheduling and evicted before it is allocated.

    The load-back finds no room, and the request goes on as if it had been served.
    """

    def load(original: Any, match: Any) -> Any:
        result = original(match)
        if result.outcome in (LoadOutcome.NO_ROOM, LoadOutcome.STALE):
            return result._replace(outcome=LoadOutcome.JOINED)
        return result

    patch(cache.loadbacks, "load", load)


@family.fault("D2", "D1", "C1", reference="Dynamo 15079")
def failed_copy_marked_done(cache: UnifiedCache) -> None:
    """A copy that failed is acknowledged as a success.

    Its targets are served although nothing was written there.
    """

    def acknowledge(original: Any, copy: Copy) -> None:
        if copy.state is CopyState.BROKEN:
            copy.state = CopyState.RAN
        original(copy)

    patch(cache, "acknowledge", acknowledge)


@family.fault("D1", "O1", reference="TensorRT-LLM 9056")
def one_host_slot_twice(cache: UnifiedCache) -> None:
    """Two pages are offloaded into one host slot in one step.

    The second overwrites the first; a later load-back brings the wrong page.
    """
    if not cache.config.hierarchical:
        return

    def allocate(original: Any, count: int, owner: Owner) -> list[int]:
        slots: list[int] = original(count, owner)
        return slots if len(slots) < 2 else [slots[0], *slots[:-1]]

    patch(cache.pools[HOST, FULL], "allocate", allocate)


@family.fault("D2", "S4", "S5")
def follower_not_doomed(cache: UnifiedCache) -> None:
    """A copy that builds on a failed one is taken for good.

    Its node hangs below a parent that never arrived.
    """
    patch(cache, "_doom_followers", lambda original, failed: None)


@family.fault("D1", "D2", "crash")
def split_forgets_inbound(cache: UnifiedCache) -> None:
    """A split of a node that is being filled leaves the upper half looking ready.

    It is matched, read and evicted while the copy is still under way.
    """

    def split(original: Any, lower: Node, pages: int) -> Node:
        upper: Node = original(lower, pages)
        for tier in Tier:
            upper.inbound[tier][:] = [None] * len(upper.inbound[tier])
        return upper

    patch(cache.tree, "split", split)


@family.fault("M3")
def joined_what_has_landed(cache: UnifiedCache) -> None:
    """A load-back that has nothing to bring says that it has joined a copy.

    Hits on the device are counted as hits on the host.
    """

    def load(original: Any, match: Any) -> Any:
        result = original(match)
        if result.outcome is LoadOutcome.NOTHING:
            return result._replace(outcome=LoadOutcome.JOINED)
        return result

    patch(cache.loadbacks, "load", load)


@family.fault("P2")
def pages_given_up_for_a_hopeless_load_back(cache: UnifiedCache) -> None:
    """A load-back makes room though all that could go would not be enough.

    Others lose their pages, and the request computes its prefix all the same.
    """
    patch(cache.loadbacks, "_hopeless", lambda original, pages: None)
