"""UnifiedCache: the operations of the contract, each a short story told with the parts.

Invariant: every operation leaves the whole of section "what must hold" true (see `audit`).
"""

from collections.abc import Sequence

from cache.backup import Backups
from cache.companions import CompanionStoreMaker, build_pools, companion_fingerprints
from cache.components import rules_for
from cache.config import DEVICE, MAMBA, SWA, CacheConfig, Component, Tier, WritePolicy
from cache.contract import Cache, Commit, Demand, LoadBack, Match, Reading, Room
from cache.eviction import DeviceEvictor, HostEvictor
from cache.insertion import Insertion
from cache.keys import Key, pages_of
from cache.loadback import LoadBacks
from cache.locks import NOT_HELD, Lock, LockTable
from cache.observer import Observer
from cache.pools import Owner, SlotPool
from cache.residency import Residency
from cache.states import States
from cache.storage.contract import KEY_BYTES, Storage
from cache.storage_tier import StorageTier
from cache.stores import Store, StoreMaker, fingerprints
from cache.table import PageTable
from cache.transfers import Copy, CopyState, Transfers
from cache.tree import Node, RadixTree

DEVICE_ONLY = (Tier.DEVICE,)


class UnifiedCache(Cache):
    """`backend` and `identity` (whose pages they are) belong to `config.storage`: all or none."""

    def __init__(
        self,
        config: CacheConfig,
        observer: Observer | None = None,
        *,
        backend: Storage | None = None,
        identity: bytes = bytes(KEY_BYTES),
        store_of: StoreMaker = fingerprints,
        companion_store_of: CompanionStoreMaker = companion_fingerprints,
    ) -> None:
        assert (backend is None) == (config.storage is None), "a backend and its settings"
        self.config = config
        self.observer = observer = observer or Observer()
        self.rules = rules_for(config)
        self.tree = RadixTree(config.page_size, config.width)
        self.pools = build_pools(config, observer, store_of, companion_store_of)
        stores: dict[tuple[Tier, Component], Store] = {
            place: pool.store for place, pool in self.pools.items()
        }
        self.transfers = Transfers(stores, observer)
        self.residency = Residency(config, self.rules, self.tree, self.pools, observer)
        self.locks = LockTable(observer, self.residency.turn)
        hosts = HostEvictor(self.residency)
        self.backups = Backups(
            self.residency, self.locks, self.transfers, hosts, config.write_policy
        )
        self.evictor = DeviceEvictor(self.residency, self.backups, hosts, config.write_policy)
        self.loadbacks = LoadBacks(
            self.residency, self.locks, self.transfers, self.make_room, config.load_back_threshold
        )
        self.insertion = Insertion(self.residency, self.tree, observer)
        self.states: States | None = None
        if MAMBA in config.components:
            self.states = States(self.residency, self.locks, self.make_room, observer)
        self.tables: dict[int, PageTable] = {}  # open ones, by number
        self.tree.on_split = self._follow_split
        self._no_room_needed = Room(self.residency.nothing, self.residency.nothing)
        self._paged = tuple(c for c in config.components if c is not MAMBA)
        self._clock = 0
        self._table_numbers = 0
        self.storage: StorageTier | None = None
        if backend is not None:
            self.storage = StorageTier(
                config,
                backend,
                identity,
                self.residency,
                self.tree,
                self.locks,
                hosts,
                self._tick,
                observer,
            )

    @property
    def ranks(self) -> "tuple[UnifiedCache, ...]":
        return (self,)

    # -- admission ---------------------------------------------------------------------------

    def match(self, key: Key) -> Match:
        limit = max(0, key.tokens - 1) // self.config.page_size * self.config.page_size
        path = self.tree.walk(key, limit)
        match = self.loadbacks.assess(key, path)
        self.observer.matched(match)
        return match

    def lock(self, match: Match, holder: str) -> Lock | None:
        if not match.anchor.attached or not match.device.attached:
            return None
        tiers = tuple(Tier) if self.config.hierarchical else DEVICE_ONLY
        return self.locks.acquire(match.anchor, self._reach(match.anchor), tiers, holder)

    def load_back(self, match: Match, admission: Lock) -> LoadBack:
        assert admission.live
        assert admission.anchor is match.anchor
        result = self.loadbacks.load(match)
        self.observer.loaded_back(match, result)
        return result

    def settle(self, match: Match, admission: Lock, holder: str, priority: int = 0) -> PageTable:
        assert admission.live
        assert admission.anchor is match.anchor
        path = list(reversed(list(match.anchor.ancestors())))
        anchor = self.loadbacks.deepest_on_device(path)
        table = PageTable(self._next_table(), holder, self.config.page_size, priority=priority)
        self.tables[table.number] = table
        table.lock = self._take_lock(table, anchor)
        for node in reversed(list(anchor.ancestors())):
            self._share(table, node)
        table.swa_from = table.shared
        table.written = anchor.end
        table.waits = self.loadbacks.inbound(anchor)
        table.branch = match.known_tokens
        self._use(anchor, None, priority)
        self.observer.settled(match, table)
        return table

    def unlock(self, lock: Lock) -> None:
        self.locks.release(lock)

    def extend(self, table: PageTable, tokens: int) -> Room:
        assert not table.closed
        pages = max(0, pages_of(tokens, self.config.page_size) - len(table.full))
        stateless = self.states is not None and table.state is None
        if not pages and not stateless:
            self._keep_state(table)
            return self._no_room_needed
        demand = Demand(pages, pages, int(stateless))
        room = self.make_room(demand)
        if self._lacks_window(room) and not room.pending[SWA] and self._tighten_locks():
            room = self.make_room(demand)
        if self._lacks_state(room) and self._spare_state():
            room = self.make_room(demand)
        if room.enough:
            self._keep_state(table)  # which may evict, so before anything is taken
            self._give(table, pages)
        self.observer.extended(table, room)
        return room

    # -- while it runs -----------------------------------------------------------------------

    def write(self, table: PageTable, prints: Sequence[int], tokens: int) -> None:
        assert not table.closed
        assert table.written <= tokens <= table.capacity_tokens
        page_size = self.config.page_size
        first, stop = table.written // page_size, tokens // page_size
        assert first >= table.shared
        if stop > first:
            for component in self._paged:
                start = first if component is Component.FULL else max(first, table.swa_from)
                slots = self._own_slots(table, component, start, stop)
                values = list(prints[start : start + len(slots)])
                pool = self.pools[Tier.DEVICE, component]
                self.observer.writing(pool, slots, values)
                pool.store.write(slots, values)
        if self.states is not None:
            self.states.write(table, prints, tokens)
        table.written = tokens

    def read(self, table: PageTable, tokens: int) -> Reading:
        assert not table.closed
        assert tokens <= table.written
        page_size = self.config.page_size
        pages = tokens // page_size
        full = table.full[:pages]
        swa: list[int] = []
        window: list[int] = []
        start = pages
        if Component.SWA in self.config.components:
            start = self.rules[Component.SWA].needed_from(tokens) // page_size
            window = self.residency.map.lookup(full[start:])
            swa = self.pools[Tier.DEVICE, Component.SWA].store.read(window)
        state = 0 if self.states is None else self.states.read(table, tokens)
        prints = self.pools[Tier.DEVICE, Component.FULL].store.read(full)
        companions: tuple[list[int], ...] = ()
        if self.config.companions:
            own = [table.state] if state and table.state is not None else []
            companions = self._read_companions((full, window, own))
        reading = Reading(prints, swa, start, state, companions)
        self.observer.reading(table, tokens, reading)
        return reading

    def commit(self, table: PageTable, key: Key) -> Commit:
        old = table.lock
        assert old is not None
        assert not table.closed
        result, anchor = self._insert(table, key, old.anchor)
        table.lock = self._take_lock(table, anchor)
        self.locks.release(old)
        self._use(anchor, old.anchor, table.priority)
        self.observer.committed(table, result)
        return result

    def slide(self, table: PageTable, tokens: int) -> None:
        if Component.SWA not in self.config.components or table.closed:
            return
        page_size = self.config.page_size
        # From whole pages, or a window that is no multiple of the page would lose the page that
        # the prefix about to be committed ends its window in.
        whole = min(tokens, table.written) // page_size * page_size
        start = self.rules[Component.SWA].needed_from(whole) // page_size
        if start > table.swa_from:
            freed = self.residency.map.unbind(table.full[table.swa_from : start])
            self.pools[Tier.DEVICE, Component.SWA].release(freed, Owner.REQUEST)
            table.swa_from = start
        lock = table.lock
        if lock is not None and start >= table.shared and lock.reach[Component.SWA] != NOT_HELD:
            self.locks.narrow(lock, Component.SWA)

    # -- the end -----------------------------------------------------------------------------

    def finish(self, table: PageTable, key: Key) -> Commit:
        old = table.lock
        assert old is not None
        assert not table.closed
        if self.states is not None:
            self.states.conclude(table)
        result, anchor = self._insert(table, key, old.anchor)
        self.observer.committed(table, result)
        self._use(anchor, old.anchor, table.priority)
        self._close(table)
        return result

    def abort(self, table: PageTable) -> None:
        self._close(table)

    # -- room, copies, rest ------------------------------------------------------------------

    def make_room(self, demand: Demand) -> Room:
        self.observer.making_room(demand)
        room = self.evictor.make_room(demand)
        self.observer.made_room(demand, room)
        return room

    def acknowledge(self, copy: Copy) -> None:
        self.transfers.retire(copy)
        landed = copy.state is CopyState.RAN and not copy.doomed
        nodes = list(dict.fromkeys(part.node for part in copy.parts))
        for part in copy.parts if landed else reversed(copy.parts):
            place = (copy.target, part.component)
            if landed:
                self.residency.land(part.node, place)
            else:
                self.residency.give_back(part.node, place)
        copy.state = CopyState.DONE if landed else CopyState.FAILED
        if not landed:
            self._doom_followers(copy)
        elif self.states is not None and copy.target is DEVICE:
            self.states.fork(self.tables.values())
        self.locks.release(copy.lock)
        if landed and self.storage is not None and copy.target is Tier.HOST:
            self.storage.consider(nodes)
        self.observer.acknowledged(copy)
        for node in reversed(nodes):
            if node.leaving and not any(node.inbound[Tier.HOST]):
                self.evictor.conclude(node)

    def flush(self) -> bool:
        if len(self.locks) or len(self.transfers) or self.tables:
            return False
        if self.storage is not None and len(self.storage):
            return False
        for node in reversed(list(self.tree.nodes())):
            for tier in Tier:
                for component in reversed(self.config.components):
                    if node.slots[tier][component] is not None:
                        self.residency.drop(node, tier, component)
        self.observer.flushed()
        return True

    def pool(self, component: Component, tier: int) -> SlotPool:
        return self.pools[Tier(tier), component]

    def available(self, component: Component) -> int:
        return self.residency.obtainable(Tier.DEVICE, component)

    # -- between ranks -----------------------------------------------------------------------

    def open_pools(self) -> tuple[int, ...]:
        """For each of `pools` 1, or 0 if it is shut here."""
        return tuple([int(pool.open) for pool in self.pools.values()])

    def heed_open(self, agreed: tuple[int, ...]) -> None:
        """From now on a pool gives slots if the ranks have agreed on that."""
        self.residency.agreed_open = dict(zip(self.pools, map(bool, agreed), strict=True))

    def wants_room(self, table: PageTable, tokens: int) -> bool:
        """Whether `extend` would look for any."""
        if pages_of(tokens, self.config.page_size) > len(table.full):
            return True
        return self.states is not None and (table.state is None or table.kept is None)

    # -- helpers -----------------------------------------------------------------------------

    def _reach(self, anchor: Node) -> list[int]:
        return self.loadbacks.reach(anchor)

    def _lacks_window(self, room: Room) -> bool:
        return SWA in self.config.components and room.short[SWA] > 0

    def _lacks_state(self, room: Room) -> bool:
        return self.states is not None and room.short[MAMBA] > 0 and not room.pending[MAMBA]

    def _spare_state(self) -> bool:
        assert self.states is not None
        return self.states.spare(self.tables.values())

    def _give(self, table: PageTable, pages: int) -> None:
        """What `extend` has made room for."""
        full = self._allocate(Component.FULL, pages)
        table.full += full
        if Component.SWA in self.config.components:
            self.residency.map.bind(full, self._allocate(Component.SWA, pages))
        if self.states is not None and table.state is None:
            self.states.open(table)

    def _keep_state(self, table: PageTable) -> None:
        if self.states is not None:
            self.states.keep(table)

    def _tighten_locks(self) -> bool:
        """Whether some request's lock kept more than its window, as a lock over whole nodes does
        where the window begins inside a long one: it is cut there and the lock taken anew."""
        tightened = False
        for table in self.tables.values():
            lock = table.lock
            assert lock is not None
            start = self.rules[SWA].needed_from(lock.anchor.end)
            if lock.reach[SWA] == NOT_HELD or lock.reach[SWA] >= start:
                continue
            node = next(node for node in lock.anchor.ancestors() if node.start <= start)
            if node.start < start:
                self.tree.split(node, (start - node.start) // self.config.page_size)
            table.lock = self._take_lock(table, lock.anchor)
            self.locks.release(lock)
            self.observer.relocked(table)
            tightened = True
        return tightened

    def _take_lock(self, table: PageTable, anchor: Node) -> Lock:
        """Over the prefix and its window; over its state until the request has its own."""
        reach = self._reach(anchor)
        if self.states is not None and table.forked:
            reach[MAMBA] = NOT_HELD
        return self.locks.acquire(anchor, reach, DEVICE_ONLY, table.holder)

    def _share(self, table: PageTable, node: Node) -> None:
        slots = node.slots[Tier.DEVICE][Component.FULL]
        assert slots is not None
        table.full += slots
        table.shared = len(table.full)
        if node.inbound[Tier.DEVICE][Component.FULL] is None:
            table.device_tokens += node.tokens
        else:
            table.host_tokens += node.tokens

    def _use(self, anchor: Node, above: Node | None, priority: int) -> None:
        """Touch the anchor's path, and count a hit on its nodes below `above`."""
        self._tick()
        counted, needed_from = list(anchor.ancestors()), self._reach(anchor)
        for node in counted:
            node.priority = max(node.priority, priority)
            if above is None or node.end > above.end:
                node.hits += 1
            self.residency.touch(node, needed_from, self._clock)
        for node in reversed(counted):
            if above is None or node.end > above.end:
                self.backups.on_use(node)
        if self.storage is not None:
            self.storage.consider(reversed(counted))

    def _insert(self, table: PageTable, key: Key, anchor: Node) -> tuple[Commit, Node]:
        assert anchor.end == table.shared * self.config.page_size
        result, anchor = self.insertion.insert(table, key, anchor)
        if self.states is not None:
            self.states.donate(table, anchor)
        return result, anchor

    def _read_companions(self, slots: tuple[list[int], ...]) -> tuple[list[int], ...]:
        """What all companions hold for the device slots, by component, that attention reads."""
        return tuple(
            beside.read(slots[component])
            for component in self.config.components
            for beside in self.pools[Tier.DEVICE, component].companions
        )

    def _allocate(self, component: Component, pages: int) -> list[int]:
        return self.pools[Tier.DEVICE, component].allocate(pages, Owner.REQUEST)

    def _own_slots(
        self, table: PageTable, component: Component, start: int, stop: int
    ) -> list[int]:
        slots = table.full[start:stop]
        return slots if component is Component.FULL else self.residency.map.lookup(slots)

    def _close(self, table: PageTable) -> None:
        assert not table.closed
        assert table.lock is not None
        own = table.full[table.shared :]
        if Component.SWA in self.config.components:
            freed = self.residency.map.unbind(own)
            self.pools[Tier.DEVICE, Component.SWA].release(freed, Owner.REQUEST)
        self.pools[Tier.DEVICE, Component.FULL].release(own, Owner.REQUEST)
        del table.full[table.shared :]
        if self.states is not None:
            self.states.release(table)
        self.locks.release(table.lock)
        table.lock = None
        table.closed = True
        del self.tables[table.number]
        self.observer.closed(table)

    def _doom_followers(self, failed: Copy) -> None:
        """Copies that were to hang below FULL which `failed` did not bring must be given back too.
        A window that it did not bring is nobody's parent."""
        gone = {p.node.number for p in failed.parts if p.component is Component.FULL}
        closed = failed.target is Tier.DEVICE or self.config.write_policy is not _UNCLOSED
        for copy in self.transfers.queues[failed.target]:
            below = (part.node for part in copy.parts)
            if any(
                above.number in gone
                for node in below
                for above in (node.ancestors() if closed else (node,))
            ):
                copy.doomed = True

    def _follow_split(self, upper: Node, lower: Node, pages: int) -> None:
        self.transfers.follow_split(upper, lower, pages)
        if self.storage is not None:
            self.storage.follow_split(upper, lower, pages)
        self.residency.follow_split(upper, lower)

    def _tick(self) -> int:
        """The logical time of a use."""
        self._clock += 1
        return self._clock

    def _next_table(self) -> int:
        self._table_numbers += 1
        return self._table_numbers


_UNCLOSED = WritePolicy.WRITE_BACK  # the one policy whose host may hold a child without its parent
