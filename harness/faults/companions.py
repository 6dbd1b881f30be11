"""Defects of companions: left behind, freed apart, of another page, or not asked for."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from cache.companions import ABSENT, CompanionSlots, OwnSlots
from cache.config import Component, Tier
from cache.pools import Owner
from cache.storage_moves import Persist, Prefetch, Source
from cache.strands import Strand
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.faults.fault import Family, forgotten, patch

family = Family("companions", "companions")
DEVICE, HOST = Tier.DEVICE, Tier.HOST
FULL, SWA, MAMBA = Component
STORED = ("storage",)


# -- left behind -----------------------------------------------------------------------------------


@family.fault("C1", "C2", reference="sglang PR 39830")
def companion_state_left_behind(cache: UnifiedCache) -> None:
    """A copy takes a recurrent state and not the side state that belongs to it.

    The state comes back from the host beside what its slot happened to hold before.
    """
    for beside in _besides(cache, owners=(MAMBA,)):
        patch(beside, "take", lambda original, other, source, target: None)


@family.fault("C1", "C2")
def loads_without_companions(cache: UnifiedCache) -> None:
    """A load-back brings the pages; their companions were backed up and stay on the host.

    Attention reads the right pages with the scales of whatever lay there before.
    """
    for beside in _besides(cache, tiers=(DEVICE,), owners=(FULL, SWA)):
        patch(beside, "take", lambda original, other, source, target: None)


@family.fault("C1", "C2")
def second_companion_never_copied(cache: UnifiedCache) -> None:
    """A copy moves the first companion of a component and none of the others.

    Whoever added the second one changed what is written and not what is moved.
    """
    for pool in cache.pools.values():
        for beside in pool.companions[1:]:
            patch(beside, "take", lambda original, other, source, target: None)


@family.fault("C1", "C2")
def last_page_without_its_companion(cache: UnifiedCache) -> None:
    """Of a chunk of several pages the last one's companion is not written.

    It is written when the next chunk begins, and a chunk that ends the prompt has no next one.
    """

    def write(original: Any, slots: list[int], prints: list[int]) -> None:
        most = max(1, len(slots) - 1)
        original(slots[:most], prints[:most])

    for beside in _besides(cache, tiers=(DEVICE,), owners=(FULL, SWA)):
        patch(beside, "write", write)


@family.fault("C1", "C2")
def state_forked_without_its_companion(cache: UnifiedCache) -> None:
    """A request's own state begins as a copy of the tree's, its side state with nothing.

    Copy on write knows of the state alone.
    """
    pool = cache.pools.get((DEVICE, MAMBA))
    if pool is None or not pool.companions:
        return

    def take(original: Any, other: Any, source: list[int], target: list[int]) -> None:
        if other is pool.store:
            pool.bare.take(pool.bare, source, target)
        else:
            original(other, source, target)

    patch(pool.store, "take", take)


@family.fault("C1")
def side_state_kept_a_boundary_late(cache: UnifiedCache) -> None:
    """What is kept for the tree beside a state is the side state at the end of the chunk.

    The state is that of the page boundary; its companion knows some tokens more.
    """

    def write(original: Any, table: PageTable, prints: Any, tokens: int) -> None:
        at = table.kept_at
        original(table, prints, tokens)
        if table.kept is None or table.state is None or table.kept_at == at:
            return
        for beside in cache.pools[DEVICE, MAMBA].companions:
            beside.write([table.kept], beside.read([table.state]))

    if cache.states is not None:
        patch(cache.states, "write", write)


# -- of another page -------------------------------------------------------------------------------


@family.fault("C1", "C2")
def companions_copied_by_their_owners_slots(cache: UnifiedCache) -> None:
    """A copy writes a companion under the slot numbers of its owner, though it has its own.

    Its slots on the host are looked up; on the other side the owner's number is taken for it.
    """

    def take(original: Any, other: CompanionSlots, source: list[int], target: list[int]) -> None:
        beside = original.__self__
        there = [slot % beside.pool.capacity for slot in target]
        beside.store.take(other.store, other.of(source), there)

    for beside in _own(cache):
        patch(beside, "take", take)


@family.fault("C1")
def companions_copied_in_reverse(cache: UnifiedCache) -> None:
    """The pages of a copy arrive in order, their companions in reverse.

    One list was sorted for the sake of fewer, larger transfers, and the other was not.
    """

    def take(original: Any, other: CompanionSlots, source: list[int], target: list[int]) -> None:
        original(other, source[::-1], target)

    for beside in _besides(cache):
        patch(beside, "take", take)


@family.fault("C1", "C2")
def companions_copied_from_their_neighbours(cache: UnifiedCache) -> None:
    """A copy takes the bytes of the first companion for all the others of a component.

    They have the right page, the right slot, and the wrong meaning.
    """

    def take(original: Any, other: CompanionSlots, source: list[int], target: list[int]) -> None:
        beside = original.__self__
        for pool in cache.pools.values():
            if other in pool.companions:
                first = pool.companions[0]
                beside.store.take(first.store, first.of(source), beside.of(target))

    for pool in cache.pools.values():
        for beside in pool.companions[1:]:
            patch(beside, "take", take)


@family.fault("O3", "O1", "C1", "crash")
def stale_companion_after_reuse(cache: UnifiedCache) -> None:
    """A freed slot keeps the entry of its companion, and whoever gets it next finds that one there.

    The companion's slot was freed as well, and may be somebody else's by then.
    """

    def leave(original: Any, slots: list[int], owner: Owner) -> None:
        beside = original.__self__
        beside.pool.release(beside.of(slots), owner)

    def join(original: Any, slots: list[int], owner: Owner) -> None:
        beside = original.__self__
        original([slot for slot in slots if beside.entries()[slot] == ABSENT], owner)

    for beside in _own(cache):
        patch(beside, "leave", leave)
        patch(beside, "join", join)


@family.fault("C1", "C2")
def companion_rewritten_by_the_failed_copy(cache: UnifiedCache) -> None:
    """A copy that breaks off has written its companions already, over their source.

    They are moved and not copied, and nobody moves them back.
    """

    def break_off(original: Any, copy: Copy) -> None:
        original(copy)
        for _, component, source, _ in copy.parts:
            for beside in cache.pools[copy.source, component].companions:
                beside.forget(source)

    patch(cache.transfers, "break_off", break_off)


# -- freed apart -----------------------------------------------------------------------------------


@family.fault("O1", "O2")
def companions_outlive_their_slots(cache: UnifiedCache) -> None:
    """A page that is evicted gives its slot up and not its companion's.

    The companion's pool runs dry while the owner's has room.
    """

    def leave(original: Any, slots: list[int], owner: Owner) -> None:
        if owner is not Owner.NODE:
            original(slots, owner)
            return
        with forgotten(original.__self__.pool, "release"):
            original(slots, owner)

    for beside in _own(cache):
        patch(beside, "leave", leave)


@family.fault("M1", "O3", "O1")
def companions_freed_with_the_request(cache: UnifiedCache) -> None:
    """The tree takes a request's pages over, and the end of the request frees their companions.

    The pages are the tree's and full of sense, and what belongs to them is gone.
    """

    def move(original: Any, slots: list[int], old: Owner, new: Owner) -> None:
        if (old, new) == (Owner.REQUEST, Owner.NODE):
            original.__self__.leave(slots, old)
        else:
            original(slots, old, new)

    for beside in _own(cache):
        patch(beside, "move", move)


@family.fault("M1", "O3")
def demotion_frees_the_hosts_companions(cache: UnifiedCache) -> None:
    """A page leaves the device, and the companions of its host copy are freed along.

    They were looked for by the node, which has two copies, and not by the copy that goes.
    """

    def drop(original: Any, node: Node, tier: Tier, component: Component) -> None:
        original(node, tier, component)
        if tier is DEVICE and node.ready(HOST, component):
            for beside in cache.pools[HOST, component].companions:
                if isinstance(beside, OwnSlots):
                    beside.leave(node.slots[HOST][component] or [], Owner.NODE)

    patch(cache.residency, "drop", drop)


@family.fault("M1", "O3")
def owner_backed_up_without_room_beside(cache: UnifiedCache) -> None:
    """A page gets its room on the host though its companion is refused its own.

    Room is asked for in the owner's pool alone; what the other one lacks is left out.
    """

    def join(original: Any, slots: list[int], owner: Owner) -> None:
        beside = original.__self__
        original(slots[: max(0, beside.pool.free_slots - 1)], owner)

    for beside in _own(cache, tiers=(HOST,)):
        patch(beside, "join", join)


@family.fault("O1", "C1", "C2")
def companions_of_a_copy_stay_with_it(cache: UnifiedCache) -> None:
    """A copy has landed, and its companions' slots remain the copy's.

    The next one to end takes them for its own, and frees or fills them.
    """

    def move(original: Any, slots: list[int], old: Owner, new: Owner) -> None:
        if old is not Owner.COPY:
            original(slots, old, new)

    for beside in _own(cache):
        patch(beside, "move", move)


# -- to and from storage ---------------------------------------------------------------------------


@family.fault("M2", "M1", needs=STORED)
def companions_apart_not_persisted(cache: UnifiedCache) -> None:
    """What a companion has apart is not sent to storage with its page.

    The pages fill storage, and no prefix of them is of any use.
    """

    def lacks(original: Any, node: Node, strand: Strand) -> bool:
        return not _apart(strand) and bool(original(node, strand))

    if cache.storage is not None and any(map(_apart, cache.storage.strands)):
        patch(cache.storage.persists, "_lacks", lacks)


@family.fault("M2", needs=STORED)
def companion_taken_for_stored_with_its_owner(cache: UnifiedCache) -> None:
    """Storage took a page and not its companion, and both are believed to be there.

    The companion is never sent again, so the page is never of use to anybody.
    """

    def acknowledge(original: Any, persist: Persist) -> None:
        taken = list[Source]()
        left = persist.stored
        for source in persist.sources:
            left -= len(source.slots)
            if left >= 0:
                taken.append(source)
        original(persist)
        assert cache.storage is not None
        for node, strand, _ in taken:
            for other in cache.storage.strands:
                node.persisted |= (other.component is strand.component) << other.number

    if cache.storage is not None and any(map(_apart, cache.storage.strands)):
        patch(cache.storage.persists, "acknowledge", acknowledge)


@family.fault("M1", "M2", reference="sglang PR 37613", needs=STORED)
def orphans_counted_as_there(cache: UnifiedCache) -> None:
    """A page that storage has without its companion counts as there.

    Host slots are reserved, and evicted for, and what comes can never be served.
    """

    def absent(original: Any, prefetch: Prefetch) -> set[tuple[Component, int]]:
        answers = zip(prefetch.questions, prefetch.there, strict=True)
        return {
            (wanted.component, wanted.page)
            for wanted, there in answers
            if not there and not _apart(wanted.strand)
        }

    if cache.storage is not None and any(map(_apart, cache.storage.strands)):
        patch(cache.storage.prefetches, "_absent", absent)


@family.fault("C2", "C1", "M1", reference="sglang PR 30057", needs=STORED)
def published_before_its_companions_came(cache: UnifiedCache) -> None:
    """A prefetch that ends early publishes its pages though their companions have not come.

    They are hits from then on, with the scales or keys of whatever lay there before.
    """

    def reserve(original: Any, prefetch: Prefetch) -> None:
        original(prefetch)
        prefetch.landed = partial(_pages_alone, prefetch)  # type: ignore[method-assign]

    if cache.storage is not None and any(map(_apart, cache.storage.strands)):
        patch(cache.storage.prefetches, "_reserve", reserve)


@family.fault("D1", "O1", needs=STORED)
def page_freed_while_its_companion_comes(cache: UnifiedCache) -> None:
    """A request goes on without its prefetch, and slots of pages that have come are freed.

    Storage is still writing the companion of the last one, where somebody else may be by now.
    """

    def give_back(original: Any, prefetch: Prefetch, first: int, stop: int) -> None:
        kept, prefetch.kept = prefetch.kept, range(0)
        original(prefetch, first, stop)
        prefetch.kept = kept

    if cache.storage is not None and any(map(_apart, cache.storage.strands)):
        patch(cache.storage.prefetches, "_give_back", give_back)


def _pages_alone(prefetch: Prefetch, component: Component) -> int:
    """The page up to which the pages of a component have landed, whatever their companions do."""
    coming = prefetch.wanted[prefetch.granted :]
    last = prefetch.wanted[-1].page + 1 if prefetch.wanted else 0
    return next((w.page for w in coming if w.strand.number == component), last)


def _apart(strand: Strand) -> bool:
    return strand.number >= len(Component)


def _besides(
    cache: UnifiedCache,
    tiers: tuple[Tier, ...] = tuple(Tier),
    owners: tuple[Component, ...] = tuple(Component),
) -> Iterator[CompanionSlots]:
    for (tier, component), pool in cache.pools.items():
        if tier in tiers and component in owners:
            yield from pool.companions


def _own(cache: UnifiedCache, tiers: tuple[Tier, ...] = tuple(Tier)) -> Iterator[OwnSlots]:
    return (beside for beside in _besides(cache, tiers) if isinstance(beside, OwnSlots))
