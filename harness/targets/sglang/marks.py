"""What a run over a release reached: a clean run counts only if it was not an empty one."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from harness.targets.sglang.view import View, among, slots_of
from harness.targets.sglang.world import Row, World


class Meaning(NamedTuple):
    mark: str
    meaning: str


MEANINGS = (
    Meaning("prefix_hit", "the model read a cached prefix"),
    Meaning("backup", "a node was backed up to the host"),
    Meaning("demotion", "a node left the device and stayed on the host"),
    Meaning("window_tombstoned", "a node lost its window on the device and kept FULL"),
    Meaning("load_back", "a load-back was queued"),
    Meaning("window_loaded", "a load-back brought a window back"),
    Meaning("loads_overlap", "two load-backs were in flight at once"),
    Meaning("host_eviction", "a node left the host"),
    Meaning("split_with_copy_in_flight", "a node was split while its backup was in flight"),
    Meaning("retraction", "a running request gave its memory up"),
    Meaning("abort", "a client left before its answer was complete"),
    Meaning("chunked_prefill", "a prompt was computed in chunks"),
    Meaning("turn", "a later turn of a conversation was served"),
    Meaning("prefetch", "storage was asked for more of a prompt"),
    Meaning("prefetch_hit", "host pages were filled from storage for a prompt that waits"),
    Meaning("prefetch_revoked", "a prefetch ended before host pages were given to it"),
    Meaning("prefetch_cut_short", "a prefetch ended before all of its pages had come"),
    Meaning("prefetch_grafted", "pages from storage became a node"),
    Meaning("persisted", "storage was given pages"),
    Meaning("ranks_skewed", "the copies of two ranks had come to different points"),
)
# What a run with storage must reach beside them.
REQUIRED_WITH_STORAGE = ("prefetch_hit", "prefetch_grafted", "persisted")
REQUIRED = ("prefix_hit", "backup", "demotion", "load_back", "host_eviction", "chunked_prefill")


def may_store(held: Mapping[str, Any]) -> bool:
    """Whether servers that are held to this can have storage."""
    return (
        bool(held.get("storage", "file"))
        and held.get("ranks", 1) == 1
        and bool(held.get("ratio", 1))
    )


class Marks:
    """Counts what happened, by comparing the cache with what it was."""

    def __init__(self, world: World, view: View) -> None:
        self.counts = {meaning.mark: 0 for meaning in MEANINGS}
        self._world = world
        self._view = view
        self._before: dict[int, Any] = {}
        self._loading: set[int] = set()
        self._asked: dict[int, Any] = {}  # operations of prefetches, by their numbers

    def reads(self, row: Row) -> None:
        if row.start and row.stop > row.start + 1:
            self.counts["prefix_hit"] += 1

    def copies(self, copy: object) -> None: ...

    def pages(self, page: object) -> None: ...

    def kept(self, key: str, prints: object) -> None: ...

    def settled(self) -> None:
        counts, world = self.counts, self._world
        loading = self._view.loading()
        after = {}
        for node in self._view.nodes():
            state = (
                node.device["full"] is not None,
                node.host["full"] is not None,
                node.device.get("swa") is not None,
                len(node.tokens),
            )
            after[node.id] = state
            before = self._before.get(node.id)
            if before is None:
                continue
            counts["backup"] += state[1] and not before[1]
            counts["demotion"] += before[0] and not state[0] and state[1]
            counts["window_tombstoned"] += before[2] and not state[2] and state[0]
            counts["window_loaded"] += state[2] and not before[2] and node.id in loading
            in_flight = node.id in self._view.writing()
            counts["split_with_copy_in_flight"] += state[3] < before[3] and in_flight
        for node_id, before in self._before.items():
            counts["host_eviction"] += node_id not in after and before[1]
        if world.background is not None:
            self._storage(world.background.storage.kept)
        counts["load_back"] += len(loading - self._loading)
        counts["loads_overlap"] += len(loading) > 1
        counts["retraction"] += any(req.is_retracted for req in world.live.values())
        chunked = world.scheduler.chunked_req
        counts["chunked_prefill"] += chunked is not None
        counts["abort"] = sum(kind == "FINISH_ABORT" for kind in world.ended.values())
        counts["turn"] = sum(p.after is not None and p.rid in world.ended for p in world.prompts)
        self._before, self._loading = after, loading

    def _storage(self, kept: int) -> None:
        asked = {info[3].id: info[3] for info in self._world.cache.ongoing_prefetch.values()}
        counts, before = self.counts, self._asked
        counts["persisted"] = kept
        counts["prefetch"] += len(asked.keys() - before.keys())
        for number, operation in before.items():
            if number in asked:
                continue
            read = int(operation.completed_tokens)
            whole = len(operation.hash_value) * self._world.shape.page_size
            if not whole or operation.host_indices is None:
                counts["prefetch_revoked"] += 1
                continue
            counts["prefetch_cut_short"] += read < whole
            counts["prefetch_hit"] += read > 0
            slots = slots_of(operation.host_indices[:read])
            nodes = [node.host["full"] for node in self._view.nodes()]
            counts["prefetch_grafted"] += slots is not None and any(
                mine is not None and bool(len(among(slots, mine))) for mine in nodes
            )
        self._asked = asked
