""" "Sometimes" marks: proof that a clean run was not an empty one.

Each names a situation in which caches of this kind have broken. A run counts how often it came into
each; a verdict without the marks that its profile requires is inconclusive.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cache.agreed_room import ROOMS
from cache.agreed_storage import PATIENCE, REACHED, REPLIES, STORED, THERE
from cache.agreement import Offer
from cache.config import CacheConfig, Component, PrefetchPolicy, Tier, WritePolicy
from cache.contract import Commit, Demand, LoadBack, LoadOutcome, Match, Room
from cache.keys import TOKEN_BYTES
from cache.locks import Lock
from cache.observer import Observer
from cache.pools import Owner, SlotPool
from cache.ranks import Standing
from cache.storage.contract import Status
from cache.storage_moves import Outcome, Persist, Prefetch, PrefetchState
from cache.strands import strands_of
from cache.table import PageTable
from cache.transfers import Copy, CopyState
from cache.tree import Node
from harness.engine.job import Job, JobState, JobStatus


class Meaning(NamedTuple):
    mark: str
    meaning: str


STORAGE_MEANINGS: tuple[Meaning, ...] = (
    Meaning("persist_landed", "pages of a node went to storage"),
    Meaning("persist_refused", "storage did not take all of a persist"),
    Meaning("prefetch_asked", "a request asked storage for what the tree lacked"),
    Meaning("prefetch_landed", "pages came from storage and were put into the tree"),
    Meaning("prefetch_cut_short", "a request went on with a part of its prefetch, or none of it"),
    Meaning("prefetch_cancelled", "a client left while its prefetch was under way"),
    Meaning("prefetch_timed_out", "a request lost patience with its prefetch"),
    Meaning("prefetch_without_room", "a prefetch found no host slots"),
    Meaning("prefetch_met_the_tree", "what was fetched had come into the tree meanwhile"),
    Meaning("window_revived", "a window came from storage to a node that the tree had without it"),
    Meaning("state_revived", "a state came from storage to a node that the tree had without it"),
    Meaning("revived_meanwhile", "what a node lacked had come back before storage brought it"),
    Meaning("split_while_reviving", "a node was cut while storage was bringing what it lacked"),
    Meaning("storage_in_trouble", "storage said that it failed, was slow, full or torn"),
    Meaning(
        "split_while_persisting", "a node was cut while its pages were on their way to storage"
    ),
    Meaning("state_persisted", "a recurrent state went to storage"),
    Meaning("state_prefetched", "a recurrent state came from storage with the pages of its run"),
)
COMPANIONS_MEANINGS: tuple[Meaning, ...] = (
    Meaning("companions_backed_up", "a copy took companions to the host with their owner"),
    Meaning("companions_loaded_back", "a copy brought companions to the device with their owner"),
    Meaning("companions_given_back", "a copy broke, and the slots of companions were given back"),
    Meaning("companions_left_behind", "the device let companions go that the host has kept"),
    Meaning("companions_split", "a node with companions was cut while a copy was filling it"),
    Meaning("companion_state_forked", "a request's side state began as a copy of the tree's"),
    Meaning("companion_missing_in_storage", "storage had a page and not its companion apart"),
    Meaning("companion_cut_off", "a page came from storage and its companion did not"),
    Meaning("companion_slot_reused", "a companion's slot went to another slot of its owner"),
)
RANKS_MEANINGS: tuple[Meaning, ...] = (
    Meaning("ranks_landed_apart", "a copy had run on one rank and not yet on another"),
    Meaning("ranks_failed_apart", "a copy broke on one rank and ran on another"),
    Meaning("ranks_answered_apart", "storage had answered one rank and not yet another"),
    Meaning("ranks_found_apart", "storage had pages for one rank and not for another"),
    Meaning("ranks_reached_apart", "a prefetch ended further on one rank than on another"),
    Meaning("ranks_stored_apart", "storage took more of a persist from one rank than another"),
    Meaning("ranks_waited_apart", "one rank was out of patience and another was not"),
    Meaning("ranks_refused_apart", "a pool gave slots on one rank and not on another"),
)
MEANINGS: tuple[Meaning, ...] = (
    Meaning("prefix_hit", "a request was served a cached prefix"),
    Meaning("chunked_prefill", "a prompt took more than one chunk"),
    Meaning("device_eviction", "FULL left the device"),
    Meaning("demotion", "FULL left the device while the host kept a copy"),
    Meaning("last_copy_dropped", "a node left the tree for want of room"),
    Meaning("window_tombstoned", "a window left the device while its FULL stayed"),
    Meaning("host_eviction", "FULL left the host for want of room"),
    Meaning("host_eviction_inside_device_eviction", "making device room evicted from the host"),
    Meaning("backup_landed", "a copy to the host was acknowledged"),
    Meaning("backup_under_pressure", "a backup was issued while device room was being made"),
    Meaning("load_back_landed", "a copy to the device was acknowledged"),
    Meaning("load_back_joined", "a request joined the copies of others and issued none"),
    Meaning("load_backs_overlapped", "two load-backs were in flight at once"),
    Meaning("load_back_without_room", "a load-back found no device slots"),
    Meaning("load_back_went_stale", "the anchor of a match was not loadable any more"),
    Meaning("tombstone_under_lock", "an admission lock covered an absent window"),
    Meaning("revived_under_lock", "a covered absent window came back while the lock was held"),
    Meaning("split_with_copy_in_flight", "a node was cut while a copy was filling it"),
    Meaning("split_under_lock", "a node was cut while somebody held it"),
    Meaning("insert_met_duplicate", "an insert gave its pages back for the tree's"),
    Meaning("insert_filled_tombstone", "an insert gave its window to a node without one"),
    Meaning("insert_blocked", "an insert stopped above a node that a copy was filling"),
    Meaning("lock_narrowed", "decode left the shared window and its lock was let go early"),
    Meaning("state_forked", "a request's own state began as a copy of the tree's"),
    Meaning("state_forked_on_landing", "that copy had to wait for a load-back"),
    Meaning("state_kept", "the state at a page boundary became the tree's"),
    Meaning("state_given_to_old_node", "a node that the tree had without a state got one"),
    Meaning("state_tombstoned", "a state left the device while its FULL stayed"),
    Meaning("state_loaded_back", "a copy brought a state back to the device"),
    Meaning("state_gave_way", "a request's slot for a boundary went to one that could not begin"),
    Meaning("copy_failed", "a copy broke and its slots were given back"),
    Meaning("follower_doomed", "a copy was given back because the one it built on had failed"),
    Meaning("room_waited_for", "room was short and copies in flight were to bring it"),
    Meaning("retraction", "a running request gave its pages up for an older one"),
    Meaning("abort_while_queued", "a client left before its request was admitted"),
    Meaning("abort_while_loading", "a client left while its load-back was in flight"),
    Meaning("abort_while_running", "a client left during prefill or decode"),
    *STORAGE_MEANINGS,
    *COMPANIONS_MEANINGS,
    *RANKS_MEANINGS,
)


class Marks(Observer):
    """Counts marks from what the cache and the scheduler tell."""

    def __init__(self, config: CacheConfig) -> None:
        self.counts = dict.fromkeys((m.mark for m in MEANINGS), 0)
        self._windowed = Component.SWA in config.components
        self._page_size = config.page_size
        storage = config.storage
        self._patient = storage is not None and storage.prefetch_policy is PrefetchPolicy.TIMEOUT
        self._tombstones: dict[int, list[int]] = {}  # node number -> live admission locks
        self._covered: dict[int, list[int]] = {}  # lock number -> nodes
        self._filling: set[int] = set()  # node numbers whose window a copy brings
        self._states_coming: set[int] = set()  # node numbers whose state a copy brings
        self._loads = 0
        self._making_room = self._frozen = False
        self._accompanied = {companion.owner for companion in config.companions}
        self._strands = strands_of(config)
        self._apart = len(self._strands) > len(config.components)
        self._reviving: dict[int, Prefetch] = {}  # by number, those that bring what nodes lack
        self._pairs: dict[str, dict[int, int]] = {}  # by pool: its slots, and whose they were last

    def required(self, config: CacheConfig) -> tuple[str, ...]:
        """What a soak must have seen before it may call itself passed."""
        marks = ["prefix_hit", "device_eviction"]
        if config.hierarchical:
            marks += ["backup_landed", "load_back_landed"]
            if config.write_policy is WritePolicy.WRITE_BACK:
                marks.append("backup_under_pressure")
            if config.companions:
                marks += ["companions_backed_up", "companions_loaded_back"]
        if config.storage is not None:
            marks += ["persist_landed", "prefetch_asked"]
        return tuple(marks)

    def freeze(self) -> None:
        """What is dropped from now on is not evicted but flushed."""
        self._frozen = True

    def hit(self, mark: str) -> None:
        self.counts[mark] += 1

    # -- from the scheduler --------------------------------------------------------------------

    def job_ended(self, job: Job) -> None:
        hit = job.device_tokens + job.host_tokens + job.storage_tokens
        self.counts["prefix_hit"] += hit > 0
        self.counts["retraction"] += job.preemptions
        self.counts["chunked_prefill"] += job.chunks > 1
        if job.status is JobStatus.ABORTED:
            self.hit(_ABORTED.get(job.aborted_in, "abort_while_running"))

    # -- between ranks -------------------------------------------------------------------------

    def offers_met(self, subject: str, offers: Sequence[Offer]) -> None:
        """What ranks offered each other in an agreement."""
        first = offers[0]
        if all(offer == first for offer in offers):
            return
        if subject.startswith("copies"):
            self.counts["ranks_landed_apart"] += Standing.UNDER_WAY in offers
            self.counts["ranks_failed_apart"] += Standing.UNDER_WAY not in offers
        elif subject in _APART:
            self.hit(_APART[subject])

    # -- from the cache ------------------------------------------------------------------------

    def locked(self, lock: Lock) -> None:
        if not self._windowed or not lock.holder.endswith(".admission"):
            return
        for node in lock.anchor.ancestors():
            if node.end <= lock.reach[Component.SWA]:
                break
            if node.slots[Tier.DEVICE][Component.SWA] is None:
                self._tombstones.setdefault(node.number, []).append(lock.number)
                self._covered.setdefault(lock.number, []).append(node.number)
        self.counts["tombstone_under_lock"] += lock.number in self._covered

    def unlocked(self, lock: Lock) -> None:
        for number in self._covered.pop(lock.number, ()):
            self._tombstones[number].remove(lock.number)
            if not self._tombstones[number]:
                del self._tombstones[number]

    def narrowed(self, lock: Lock, component: Component) -> None:
        self.counts["lock_narrowed"] += component is Component.SWA

    def forked(self, table: PageTable, node: Node) -> None:
        self.hit("state_forked")
        self.counts["state_forked_on_landing"] += any(copy.in_flight for copy in table.waits)
        self.counts["companion_state_forked"] += Component.MAMBA in self._accompanied

    def gave_way(self, table: PageTable) -> None:
        self.hit("state_gave_way")

    def moved(self, pool: SlotPool, slots: list[int], old: Owner, new: Owner) -> None:
        for beside in pool.companions:
            if beside.pool is not None:
                known = self._pairs.setdefault(beside.pool.name, {})
                pairs = dict(zip(beside.of(slots), slots, strict=True))
                reused = any(known.get(mine, slot) != slot for mine, slot in pairs.items())
                self.counts["companion_slot_reused"] += reused
                known.update(pairs)

    def filling(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is Tier.DEVICE and component is Component.SWA:
            self._filling.add(node.number)
            self.counts["revived_under_lock"] += node.number in self._tombstones
        elif tier is Tier.DEVICE and component is Component.MAMBA:
            self._states_coming.add(node.number)

    def stored(self, node: Node, tier: Tier, component: Component) -> None:
        if tier is not Tier.DEVICE or component is Component.FULL:
            return
        if component is Component.MAMBA:
            self._state_stored(node)
        elif node.number in self._filling:
            self._filling.remove(node.number)  # it has landed, as announced
        else:
            self.counts["revived_under_lock"] += node.number in self._tombstones
            self.counts["insert_filled_tombstone"] += node.hits > 0

    def _state_stored(self, node: Node) -> None:
        if node.number in self._states_coming:
            self._states_coming.remove(node.number)
            self.hit("state_loaded_back")
        else:
            self.hit("state_kept")
            self.counts["state_given_to_old_node"] += node.hits > 0

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if self._frozen:
            return
        if tier is Tier.DEVICE and component in self._accompanied:
            kept = node.slots[Tier.HOST][component] is not None
            self.counts["companions_left_behind"] += kept
        on_device = node.slots[Tier.DEVICE][Component.FULL] is not None
        if component is Component.SWA:
            self.counts["window_tombstoned"] += tier is Tier.DEVICE and on_device
        elif component is Component.MAMBA:
            self.counts["state_tombstoned"] += tier is Tier.DEVICE and on_device
        elif tier is Tier.DEVICE:
            kept = node.slots[Tier.HOST][Component.FULL] is not None
            self.hit("device_eviction")
            self.hit("demotion" if kept else "last_copy_dropped")
        else:
            self.hit("host_eviction")
            self.counts["last_copy_dropped"] += not on_device
            self.counts["host_eviction_inside_device_eviction"] += self._making_room

    def split(self, upper: Node, lower: Node) -> None:
        if lower.number in self._filling:
            self._filling.add(upper.number)
        flying = any(copy is not None for tier in Tier for copy in lower.inbound[tier])
        self.counts["split_with_copy_in_flight"] += flying
        self.counts["companions_split"] += flying and bool(self._accompanied)
        self.counts["split_while_persisting"] += lower.persisting > 0
        self.counts["split_under_lock"] += any(any(lower.locks[tier]) for tier in Tier)
        self.counts["split_while_reviving"] += any(
            not prefetch.granted and any(lower is node for node, _ in _lacked(prefetch))
            for prefetch in self._reviving.values()
        )

    def issued(self, copy: Copy) -> None:
        if copy.target is Tier.DEVICE:
            self._loads += 1
            self.counts["load_backs_overlapped"] += self._loads > 1
        else:
            self.counts["backup_under_pressure"] += self._making_room

    def acknowledged(self, copy: Copy) -> None:
        loading = copy.target is Tier.DEVICE
        self._loads -= loading
        if self._accompanied and any(p.component in self._accompanied for p in copy.parts):
            landed = "companions_loaded_back" if loading else "companions_backed_up"
            self.hit(landed if copy.state is CopyState.DONE else "companions_given_back")
        if copy.state is CopyState.DONE:
            self.hit("load_back_landed" if loading else "backup_landed")
        else:
            self.hit("follower_doomed" if copy.doomed else "copy_failed")
            failed = [part.node.number for part in copy.parts if loading]
            self._filling.difference_update(failed)
            self._states_coming.difference_update(failed)

    # -- storage -------------------------------------------------------------------------------

    def persisted(self, persist: Persist) -> None:
        done = persist.state is CopyState.DONE
        self.hit("persist_landed" if done else "persist_refused")
        stateful = any(source.component is Component.MAMBA for source in persist.sources)
        self.counts["state_persisted"] += done and stateful

    def prefetch_asked(self, prefetch: Prefetch) -> None:
        self.hit("prefetch_asked")

    def grafted(self, prefetch: Prefetch, nodes: list[Node]) -> None:
        if self._apart and 0 < prefetch.granted < len(prefetch.wanted):
            last, following = prefetch.wanted[prefetch.granted - 1 :][:2]
            cut = (last.component, last.page) == (following.component, following.page)
            self.counts["companion_cut_off"] += cut
        landed = prefetch.grafted_end > prefetch.start
        fresh = prefetch.grafted_end - prefetch.anchor.end
        self.counts["prefetch_landed"] += landed
        self.counts["state_prefetched"] += (
            landed and prefetch.wanted[-1].component is Component.MAMBA
        )
        self.counts["prefetch_met_the_tree"] += fresh > sum(node.tokens for node in nodes)
        old = [component for node, component in prefetch.revived if node.end <= prefetch.anchor.end]
        self.counts["window_revived"] += Component.SWA in old
        self.counts["state_revived"] += Component.MAMBA in old
        self.counts["revived_meanwhile"] += any(
            node.slots[Tier.DEVICE][component] is not None for node, component in _lacked(prefetch)
        )

    def replied(self, move: Persist | Prefetch) -> None:
        self.counts["storage_in_trouble"] += move.status not in (Status.OK, Status.ABSENT)
        if self._apart and isinstance(move, Prefetch) and move.phase is PrefetchState.ANSWERED:
            self._look_for_orphans(move)

    def _look_for_orphans(self, prefetch: Prefetch) -> None:
        answers = zip(prefetch.questions, prefetch.there, strict=True)
        there = {(asked.strand.number, asked.page): found for asked, found in answers}
        self.counts["companion_missing_in_storage"] += any(
            there[component, page] and not there[strand.number, page]
            for strand, page in prefetch.questions
            for component in (strand.component,)
        )

    def prefetch_reserved(self, prefetch: Prefetch) -> None:
        if prefetch.wanted[0].page * self._page_size < prefetch.anchor.end:
            self._reviving[prefetch.number] = prefetch

    def prefetch_ended(self, prefetch: Prefetch) -> None:
        self._reviving.pop(prefetch.number, None)
        partial = prefetch.stopped and prefetch.outcome is Outcome.PARTIAL
        self.counts["prefetch_timed_out"] += self._patient and partial
        self.counts["prefetch_without_room"] += prefetch.outcome is Outcome.NO_ROOM
        self.counts["prefetch_cut_short"] += prefetch.outcome is Outcome.PARTIAL

    def loaded_back(self, match: Match, result: LoadBack) -> None:
        mark = _LOADS.get(result.outcome)
        if mark is not None:
            self.hit(mark)

    def committed(self, table: PageTable, result: Commit) -> None:
        self.counts["insert_met_duplicate"] += result.duplicates > 0
        self.counts["insert_blocked"] += result.blocked

    def making_room(self, demand: Demand) -> None:
        self._making_room = True

    def made_room(self, demand: Demand, room: Room) -> None:
        self._making_room = False
        self.counts["room_waited_for"] += room.worth_waiting


def _lacked(prefetch: Prefetch) -> Iterator[tuple[Node, Component]]:
    """What nodes down to its anchor lacked when it asked, and it brings."""
    wanted = {(w.component, w.page) for w in prefetch.wanted}
    size = prefetch.key.page_bytes // TOKEN_BYTES
    for node in prefetch.anchor.ancestors():
        for component in (Component.SWA, Component.MAMBA):
            if (component, node.end // size - 1) in wanted:
                yield node, component


_LOADS = {
    LoadOutcome.JOINED: "load_back_joined",
    LoadOutcome.NO_ROOM: "load_back_without_room",
    LoadOutcome.STALE: "load_back_went_stale",
}
_APART = {
    REPLIES: "ranks_answered_apart",
    THERE: "ranks_found_apart",
    REACHED: "ranks_reached_apart",
    STORED: "ranks_stored_apart",
    PATIENCE: "ranks_waited_apart",
    **dict.fromkeys(ROOMS, "ranks_refused_apart"),
}
_ABORTED = {
    JobState.PREFETCHING: "prefetch_cancelled",
    JobState.QUEUED: "abort_while_queued",
    JobState.ADMITTING: "abort_while_queued",
    JobState.LOADING: "abort_while_loading",
}
