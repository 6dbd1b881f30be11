"""The contract with nothing cached: the baseline that a cache must beat, and the contract's first
test. Invariant: no key ever matches, and a closed table leaves every slot free."""

from collections.abc import Sequence

from cache.components import rules_for
from cache.config import MAMBA, CacheConfig, Component, Tier
from cache.contract import Cache, Commit, Demand, LoadBack, LoadOutcome, Match, Reading, Room
from cache.keys import Key, pages_of, state_print
from cache.locks import NOT_HELD, Lock, LockTable
from cache.observer import Observer
from cache.pools import Owner, SlotMap, SlotPool
from cache.stores import FingerprintStore
from cache.table import PageTable
from cache.transfers import Copy, Transfers
from cache.tree import Node, RadixTree


class NullCache(Cache):
    def __init__(self, config: CacheConfig, observer: Observer | None = None) -> None:
        self.config = config
        self.observer = observer = observer or Observer()
        self.transfers = Transfers({}, observer)
        self._root = RadixTree(config.page_size, config.width).root
        self._locks = LockTable(observer, _ignore_turn)
        self._rules = rules_for(config)
        self._nothing = (0,) * config.width
        self._map = SlotMap(config.full.device)
        self._open = 0
        self._numbers = 0
        self._pools = {
            component: _device_pool(config, component, observer) for component in config.components
        }

    def match(self, key: Key) -> Match:
        match = Match(key, self._root, self._root, self._nothing)
        self.observer.matched(match)
        return match

    def lock(self, match: Match, holder: str) -> Lock | None:
        reach = [NOT_HELD] * len(self._nothing)
        return self._locks.acquire(self._root, reach, (Tier.DEVICE,), holder)

    def load_back(self, match: Match, admission: Lock) -> LoadBack:
        room = Room(self._nothing, self._nothing)
        return LoadBack(LoadOutcome.NOTHING, self._nothing, None, room)

    def settle(self, match: Match, admission: Lock, holder: str, priority: int = 0) -> PageTable:
        self._open += 1
        self._numbers += 1
        table = PageTable(self._numbers, holder, self.config.page_size, priority=priority)
        table.lock = self.lock(match, holder)
        self.observer.settled(match, table)
        return table

    def unlock(self, lock: Lock) -> None:
        self._locks.release(lock)

    def extend(self, table: PageTable, tokens: int) -> Room:
        pages = max(0, pages_of(tokens, self.config.page_size) - len(table.full))
        stateless = MAMBA in self._pools and table.state is None
        room = self.make_room(Demand(pages, pages, int(stateless)))
        if room.enough:
            if stateless:
                (table.state,) = self._pools[MAMBA].allocate(1, Owner.REQUEST)
                self.observer.took_state(table, table.state)
            full = self._pools[Component.FULL].allocate(pages, Owner.REQUEST)
            table.full += full
            if Component.SWA in self._pools:
                self._map.bind(full, self._pools[Component.SWA].allocate(pages, Owner.REQUEST))
        self.observer.extended(table, room)
        return room

    def write(self, table: PageTable, prints: Sequence[int], tokens: int) -> None:
        size = self.config.page_size
        first, stop = table.written // size, tokens // size
        self._write(Component.FULL, table.full[first:stop], list(prints[first:stop]))
        if Component.SWA in self._pools:
            first = max(first, table.swa_from)
            slots = self._map.lookup(table.full[first:stop])
            self._write(Component.SWA, slots, list(prints[first:stop]))
        if table.state is not None and tokens > table.written:
            value = state_print(prints, tokens, self.config.page_size)
            self._write(MAMBA, [table.state], [value])
        table.written = tokens

    def read(self, table: PageTable, tokens: int) -> Reading:
        pages = start = tokens // self.config.page_size
        full = self._pools[Component.FULL].store.read(table.full[:pages])
        swa: list[int] = []
        if Component.SWA in self._pools:
            start = self._rules[Component.SWA].needed_from(tokens) // self.config.page_size
            slots = self._map.lookup(table.full[start:pages])
            swa = self._pools[Component.SWA].store.read(slots)
        state = 0
        if table.state is not None and tokens == table.written:
            (state,) = self._pools[MAMBA].store.read([table.state])
        reading = Reading(full, swa, start, state)
        self.observer.reading(table, tokens, reading)
        return reading

    def commit(self, table: PageTable, key: Key) -> Commit:
        return Commit(0, 0, 0, False)

    def slide(self, table: PageTable, tokens: int) -> None:
        if Component.SWA not in self._pools:
            return
        start = self._rules[Component.SWA].needed_from(tokens) // self.config.page_size
        start = min(start, table.written // self.config.page_size)
        if start > table.swa_from:
            gone = self._map.unbind(table.full[table.swa_from : start])
            self._pools[Component.SWA].release(gone, Owner.REQUEST)
            table.swa_from = start

    def finish(self, table: PageTable, key: Key) -> Commit:
        self.abort(table)
        return Commit(0, 0, 0, False)

    def abort(self, table: PageTable) -> None:
        assert not table.closed
        assert table.lock is not None
        if Component.SWA in self._pools:
            self._pools[Component.SWA].release(self._map.unbind(table.full), Owner.REQUEST)
        self._pools[Component.FULL].release(table.full, Owner.REQUEST)
        if table.state is not None:
            self._pools[MAMBA].release([table.state], Owner.REQUEST)
        self._locks.release(table.lock)
        table.full, table.state, table.lock, table.closed = [], None, None, True
        self._open -= 1
        self.observer.closed(table)

    def make_room(self, demand: Demand) -> Room:
        missing = list(self._nothing)
        for component, pool in self._pools.items():
            missing[component] = max(0, demand[component] - pool.free_slots)
        room = Room(tuple(missing), self._nothing)
        self.observer.made_room(demand, room)
        return room

    def acknowledge(self, copy: Copy) -> None:
        raise AssertionError("a null cache issues no copies")

    def flush(self) -> bool:
        return self._open == 0

    def pool(self, component: Component, tier: int) -> SlotPool:
        assert tier == Tier.DEVICE, "a null cache has no host tier"
        return self._pools[component]

    def available(self, component: Component) -> int:
        return self._pools[component].free_slots

    def _write(self, component: Component, slots: list[int], prints: list[int]) -> None:
        self.observer.writing(self._pools[component], slots, prints)
        self._pools[component].store.write(slots, prints)


def _device_pool(config: CacheConfig, component: Component, observer: Observer) -> SlotPool:
    capacity = config.pools(component).device
    name = f"device_{component.name.lower()}"
    return SlotPool(name, capacity, FingerprintStore(capacity), observer)


def _ignore_turn(node: Node, tier: Tier, component: Component, step: int) -> None:
    """Nothing is ever cached, so nothing becomes evictable."""
