"""The whole of what must hold, recomputed from scratch.

`audit` reads a cache's public parts and derives every ledger anew, without using the code that
maintains them. It changes nothing; cost is the size of tree and pools. An empty list is a pass.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from cache.companions import ABSENT, OwnSlots
from cache.config import MAMBA, Component, Tier, WritePolicy
from cache.keys import UNWRITTEN, gather
from cache.pools import Owner, SlotMap, SlotPool
from cache.tree import Node
from cache.unified import UnifiedCache


class Finding(NamedTuple):
    """One broken promise: the oracle's name (S1 .. D2), where, and what was expected and seen."""

    oracle: str
    signature: str
    expected: str
    seen: str


def audit(cache: UnifiedCache) -> list[Finding]:
    """Every check of structure, ownership, locks and content; in that order."""
    return [finding for check in CHECKS for finding in check(cache)]


def structure_chains(cache: UnifiedCache) -> Iterator[Finding]:
    """S1: parent and child point at each other and positions chain."""
    for node in _nodes(cache):
        for first, child in node.children.items():
            if child.parent is not node:
                yield _finding("S1", "parent", f"{node} above {child}", child.parent)
            if child.start != node.end or child.end <= child.start:
                yield _finding("S1", "position", f"start {node.end}", child)
            if len(child.edge) != child.tokens * 4 or not first.startswith(child.edge[:4]):
                yield _finding("S1", "edge", f"{child.tokens} tokens", len(child.edge) // 4)


def structure_dead(cache: UnifiedCache) -> Iterator[Finding]:
    """S2: every node has FULL somewhere."""
    for node in cache.tree.nodes():
        if all(node.slots[tier][Component.FULL] is None for tier in Tier):
            yield _finding("S2", "dead", f"FULL of {node} on some tier", "none")


def structure_components(cache: UnifiedCache) -> Iterator[Finding]:
    """S3: a component on a tier implies FULL on that tier or, for the host under write_back, on
    the device; and one slot for each page."""
    back = cache.config.write_policy is WritePolicy.WRITE_BACK
    size = cache.config.page_size
    for node in cache.tree.nodes():
        for tier in Tier:
            for component in cache.config.components:
                slots = node.slots[tier][component]
                if slots is None:
                    if node.inbound[tier][component] is not None:
                        yield _finding("S3", "filling", f"slots on {node}", "none")
                    continue
                expected = 1 if component is MAMBA else node.tokens // size
                if len(slots) != expected:
                    yield _finding("S3", "pages", expected, len(slots))
                full = node.slots[tier][Component.FULL] is not None
                full |= back and tier is Tier.HOST and node.slots[Tier.DEVICE][0] is not None
                if not full and not _doomed(node, tier, component):
                    yield _finding("S3", f"{_place(tier, component)}", f"FULL of {node}", "none")


def structure_closure(cache: UnifiedCache) -> Iterator[Finding]:
    """S4, S5: FULL on a tier implies the parent's FULL there (on the host: under the
    write-through policies). A value that is doomed to be given back does not count."""
    closed = [Tier.DEVICE]
    if cache.config.write_policy is not WritePolicy.WRITE_BACK:
        closed.append(Tier.HOST)
    for node in cache.tree.nodes():
        parent = node.parent
        if parent is None or parent.parent is None:
            continue
        for tier in closed:
            here = node.slots[tier][Component.FULL] is not None
            gap = here and parent.slots[tier][Component.FULL] is None
            if gap and not _doomed(node, tier, Component.FULL):
                name = "S4" if tier is Tier.DEVICE else "S5"
                yield _finding(name, "closure", f"FULL of {parent} above {node}", "none")


def structure_ledgers(cache: UnifiedCache) -> Iterator[Finding]:
    """S6: victim lists, their order, child counts and size ledgers equal their recomputation."""
    residency = cache.residency
    nodes = list(cache.tree.nodes())
    for node in _nodes(cache):
        for tier in Tier:
            kids = sum(c.slots[tier][Component.FULL] is not None for c in node.children.values())
            if kids != node.kids[tier]:
                yield _finding("S6", f"kids.{tier.name.lower()}", kids, node.kids[tier])
    for (tier, component), victims in residency.victims.items():
        place = _place(tier, component)
        listed = sorted(n.number for n in nodes if _evictable(node=n, tier=tier, comp=component))
        if listed != victims.numbers():
            yield _finding("S6", f"victims.{place}", listed, victims.numbers())
        for node in nodes:
            rank = victims.listed_rank(node)
            if rank is not None and rank != victims.rank(node):
                yield _finding("S6", f"order.{place}", victims.rank(node), rank)
        held = sum(len(n.slots[tier][component] or ()) for n in nodes)
        locked = sum(len(n.slots[tier][component] or ()) for n in nodes if n.locks[tier][component])
        if residency.held_pages[tier, component] != held:
            yield _finding("S6", f"held.{place}", held, residency.held_pages[tier, component])
        if residency.locked_pages[tier, component] != locked:
            yield _finding("S6", f"locked.{place}", locked, residency.locked_pages[tier, component])


def structure_leaving(cache: UnifiedCache) -> Iterator[Finding]:
    """S6: the ledger of nodes that wait for their backup is that of the nodes marked so."""
    listed = sorted(cache.residency.leaving)
    leaving = sorted(node.number for node in cache.tree.nodes() if node.leaving)
    if leaving != listed:
        yield _finding("S6", "leaving", leaving, listed)


def ownership(cache: UnifiedCache) -> Iterator[Finding]:
    """O1, O2: every slot has exactly one owner, the one its pool says, and totals add up."""
    for (tier, component), pool in cache.pools.items():
        owners: dict[int, list[Owner]] = {slot: [] for slot in range(pool.capacity)}
        for slot in pool.free_list():
            owners[slot].append(Owner.FREE)
        for slot, owner in _claims(cache, tier, component):
            owners[slot].append(owner)
        for slot, claims in owners.items():
            if claims != [pool.owner(slot)]:
                expected = f"slot {slot} owned by {pool.owner(slot).name} alone"
                seen = [c.name for c in claims] or "nobody"
                yield _finding("O1", f"owner.{pool.name}", expected, seen)
        total = sum(map(len, owners.values()))
        if total != pool.capacity:
            yield _finding("O2", f"total.{pool.name}", pool.capacity, total)


def slot_map(cache: UnifiedCache) -> Iterator[Finding]:
    """O3: the map holds what nodes and requests hold, once each, and nothing else."""
    if Component.SWA not in cache.config.components:
        return
    entries = {k: v for k, v in enumerate(cache.residency.map.entries()) if v != SlotMap.ABSENT}
    expected: dict[int, int] = {}
    for node in cache.tree.nodes():
        full, swa = node.slots[Tier.DEVICE][:2]
        if full is not None and swa is not None:
            expected.update(zip(full, swa, strict=False))
    for table in cache.tables.values():
        for slot in table.full[max(table.shared, table.swa_from) :]:
            expected[slot] = entries.get(slot, SlotMap.ABSENT)
    if entries != expected:
        wrong = {k for k in {**entries, **expected} if entries.get(k) != expected.get(k)}
        key = min(wrong)
        yield _finding("O3", "map", f"{key} -> {expected.get(key)}", f"{key} -> {entries.get(key)}")
    for slot, count in Counter(entries.values()).items():
        if count > 1:
            yield _finding("O3", "injective", f"SWA slot {slot} once", f"{count} times")


def lock_counts(cache: UnifiedCache) -> Iterator[Finding]:
    """L1: a count is the number of live receipts that cover the node."""
    counts: Counter[tuple[int, Tier, Component]] = Counter()
    for lock in cache.locks.live():
        for node in lock.anchor.ancestors():
            for component in cache.config.components:
                if lock.covers(node, component):
                    counts.update((node.number, tier, component) for tier in lock.tiers)
    for node in cache.tree.nodes():
        for tier in Tier:
            for component in cache.config.components:
                expected, seen = counts[node.number, tier, component], node.locks[tier][component]
                if expected != seen:
                    signature = f"count.{_place(tier, component)}"
                    yield _finding("L1", signature, f"{expected} on {node}", seen)


def content(cache: UnifiedCache) -> Iterator[Finding]:
    """C1, C2: a ready slot holds the page that its node stands for; a request's written page that
    of its prefix is checked where it is read."""
    for node in cache.tree.nodes():
        for (tier, component), pool in cache.pools.items():
            slots = node.slots[tier][component]
            if slots is None or node.inbound[tier][component] is not None:
                continue
            prints = cache.tree.prints(node)
            expected = prints[-1:] if component is MAMBA else prints
            yield from _compare(node, pool.name, expected, pool.store.read(slots))


def companions(cache: UnifiedCache) -> Iterator[Finding]:
    """O3, O1: a companion with slots of its own has one for each slot of its owner that is in use,
    in the same hands, and no other."""
    for pool in cache.pools.values():
        for beside in pool.companions:
            if isinstance(beside, OwnSlots):
                yield from _paired(pool, beside)


def companion_content(cache: UnifiedCache) -> Iterator[Finding]:
    """C1, C2: beside a ready slot a companion holds what belongs to its page."""
    for node in cache.tree.nodes():
        for (tier, component), pool in cache.pools.items():
            slots = node.slots[tier][component]
            if not pool.companions or slots is None or node.inbound[tier][component] is not None:
                continue
            prints = cache.tree.prints(node)
            expected = prints[-1:] if component is MAMBA else prints
            for beside in pool.companions:
                if isinstance(beside, OwnSlots) and ABSENT in gather(beside.entries(), slots):
                    continue  # which O3 tells
                name = f"{pool.name}.{beside.name}"
                yield from _compare(node, name, expected, beside.read(slots))


def copies(cache: UnifiedCache) -> Iterator[Finding]:
    """D1, D2: copies in flight hold their lock, their slots and their targets' nodes."""
    transfers = cache.transfers
    for tier in Tier:
        for copy in transfers.queues[tier]:
            if not copy.lock.live:
                yield _finding("D1", f"lock.{copy.kind}", "a live transfer lock", copy.lock)
            for node, component, source, target in copy.parts:
                if node.slots[tier][component] != target:
                    yield _finding("D1", f"target.{copy.kind}", target, node.slots[tier][component])
                if node.slots[copy.source][component] != source and not copy.doomed:
                    seen = node.slots[copy.source][component]
                    yield _finding("D1", f"source.{copy.kind}", source, seen)
    flying = {c.number for tier in Tier for c in transfers.queues[tier]}
    for node in cache.tree.nodes():
        for tier in Tier:
            for inbound in node.inbound[tier]:
                if inbound is not None and inbound.number not in flying:
                    yield _finding("D2", "orphan", f"{inbound} in flight", "gone")


def storage_moves(cache: UnifiedCache) -> Iterator[Finding]:
    """D1, D2: persists in flight hold their lock and their sources; nodes know of them, and of no
    others."""
    if cache.storage is None:
        return
    expected = {node.number: 0 for node in cache.tree.nodes()}
    for persist in cache.storage.persists.queue:
        if not persist.lock.live:
            yield _finding("D1", "lock.persist", "a live transfer lock", persist.lock)
        for node, strand, slots in persist.sources:
            seen = node.slots[Tier.HOST][strand.component]
            if seen != slots:
                yield _finding("D1", "source.persist", slots, seen)
            expected[node.number] = expected.get(node.number, 0) | 1 << strand.number
    for node in cache.tree.nodes():
        if node.persisting != expected[node.number]:
            signature = "persisting"
            yield _finding("D2", signature, f"{expected[node.number]} on {node}", node.persisting)


CHECKS = (
    structure_chains,
    structure_dead,
    structure_components,
    structure_closure,
    structure_ledgers,
    structure_leaving,
    ownership,
    slot_map,
    lock_counts,
    content,
    companions,
    companion_content,
    copies,
    storage_moves,
)


def _nodes(cache: UnifiedCache) -> Iterator[Node]:
    yield cache.tree.root
    yield from cache.tree.nodes()


def _evictable(*, node: Node, tier: Tier, comp: Component) -> bool:
    """Derived from the node alone: ready, unlocked, and for FULL a leaf of its tier."""
    if not node.ready(tier, comp) or node.locks[tier][comp]:
        return False
    if comp is Component.FULL:
        if any(c.slots[tier][comp] is not None for c in node.children.values()):
            return False
        if tier is Tier.HOST and node.slots[Tier.DEVICE][comp] is None:
            return not node.locks[Tier.DEVICE][comp]
    return True


def _claims(cache: UnifiedCache, tier: Tier, comp: Component) -> Iterator[tuple[int, Owner]]:
    """Who says that a slot is theirs: nodes, copies in flight, requests."""
    for node in cache.tree.nodes():
        owner = Owner.NODE if node.inbound[tier][comp] is None else Owner.COPY
        for slot in node.slots[tier][comp] or ():
            yield slot, owner
    if tier is not Tier.DEVICE:
        for prefetch in cache.storage.prefetches.live.values() if cache.storage else ():
            for slot in prefetch.held.get(comp, {}).values():
                yield slot, Owner.COPY
        return
    for table in cache.tables.values():
        own = table.full[table.shared :]
        if comp is MAMBA:
            own = [slot for slot in (table.state, table.kept) if slot is not None]
        elif comp is Component.SWA:
            own = cache.residency.map.lookup(table.full[max(table.shared, table.swa_from) :])
        for slot in own:
            if slot != SlotMap.ABSENT:
                yield slot, Owner.REQUEST


def _paired(pool: SlotPool, beside: OwnSlots) -> Iterator[Finding]:
    """The table of one companion against both pools."""
    own, name = beside.pool, beside.pool.name
    entries = dict(enumerate(beside.entries()))
    for slot, mine in entries.items():
        used = slot < pool.capacity and pool.owner(slot) is not Owner.FREE
        if used != (mine != ABSENT):
            expected = f"a slot for {slot} of its owner" if used else f"none for free slot {slot}"
            yield _finding("O3", f"companion.{name}", expected, mine)
        elif used and own.owner(mine) is not pool.owner(slot):
            expected = f"slot {mine} owned by {pool.owner(slot).name}"
            yield _finding("O1", f"companion.{name}", expected, own.owner(mine).name)
    twice = [s for s, n in Counter(entries.values()).items() if n > 1 and s != ABSENT]
    if twice:
        yield _finding("O3", f"companion.twice.{name}", f"slot {twice[0]} for one slot", "for two")
    if own.used_slots != pool.used_slots:
        yield _finding("O2", f"companion.{name}", f"{pool.used_slots} slots in use", own.used_slots)


def _compare(node: Node, name: str, expected: list[int], seen: list[int]) -> Iterator[Finding]:
    if expected == seen:
        return
    differ = (i for i, (a, b) in enumerate(zip(expected, seen, strict=False)) if a != b)
    page = next(differ, None)
    if page is None:
        return  # as many as there are hold what they should: S3 tells how many are missing
    oracle = "C2" if seen[page] == UNWRITTEN else "C1"
    signature = f"node.{name}"
    yield _finding(
        oracle, signature, f"{expected[page]:016x} at {node} page {page}", f"{seen[page]:016x}"
    )


def _doomed(node: Node, tier: Tier, component: Component) -> bool:
    copy = node.inbound[tier][component]
    return copy is not None and copy.doomed


def _place(tier: Tier, component: Component) -> str:
    return f"{tier.name.lower()}_{component.name.lower()}"


def _finding(oracle: str, signature: str, expected: object, seen: object) -> Finding:
    return Finding(oracle, signature, str(expected), str(seen))
