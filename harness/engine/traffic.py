"""What moved between tiers, what was evicted, and how much was in use at most.

Invariant: bytes are counted where they land, companions' too: a written page once, a copied page at
both ends.
"""

from collections.abc import Mapping

from cache.config import CacheConfig, Component, Tier
from cache.observer import Observer
from cache.pools import Owner, SlotPool
from cache.storage_moves import Persist, Prefetch
from cache.transfers import Copy, CopyState
from cache.tree import Node


class Traffic(Observer):
    def __init__(self, config: CacheConfig) -> None:
        self._slot_bytes = config.slot_bytes
        self._places = {
            f"{tier.name.lower()}_{component.name.lower()}": (tier, component)
            for tier in Tier
            for component in Component
        }
        self._frozen = False
        self._page_size = config.page_size
        self._used = dict.fromkeys(Tier, 0)
        self.peak_bytes = dict.fromkeys(Tier, 0)
        self.written_bytes = dict.fromkeys(Tier, 0)
        self.read_bytes = dict.fromkeys(Tier, 0)
        self.evicted_pages = dict.fromkeys(Tier, 0)
        self.prefetches = self.prefetched_pages = self.persisted_pages = 0

    @property
    def used_bytes(self) -> Mapping[Tier, int]:
        return self._used

    def allocated(self, pool: SlotPool, slots: list[int], owner: Owner) -> None:
        tier, component = self._places[pool.name]
        used = self._used[tier] + len(slots) * self._slot_bytes[component]
        self._used[tier] = used
        if used > self.peak_bytes[tier]:
            self.peak_bytes[tier] = used

    def released(self, pool: SlotPool, slots: list[int]) -> None:
        tier, component = self._places[pool.name]
        self._used[tier] -= len(slots) * self._slot_bytes[component]

    def writing(self, pool: SlotPool, slots: list[int], prints: list[int]) -> None:
        tier, component = self._places[pool.name]
        self.written_bytes[tier] += len(slots) * self._slot_bytes[component]

    def acknowledged(self, copy: Copy) -> None:
        if copy.state is not CopyState.DONE:
            return
        moved = sum(len(p.target) * self._slot_bytes[p.component] for p in copy.parts)
        self.written_bytes[copy.target] += moved
        self.read_bytes[copy.source] += moved

    def persisted(self, persist: Persist) -> None:
        self.persisted_pages += persist.stored

    def prefetch_asked(self, prefetch: Prefetch) -> None:
        self.prefetches += 1

    def grafted(self, prefetch: Prefetch, nodes: list[Node]) -> None:
        self.prefetched_pages += prefetch.granted

    def freeze(self) -> None:
        """What is dropped from now on is not evicted but flushed."""
        self._frozen = True

    def dropped(self, node: Node, tier: Tier, component: Component) -> None:
        if not self._frozen:
            self.evicted_pages[tier] += node.tokens // self._page_size
