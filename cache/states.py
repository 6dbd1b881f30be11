"""A request's own recurrent states: where they come from, and where they go.

    the tree's, at the hit --fork--> table.state --compute--> table.state
                                          |
                                          +-- at page boundaries --> table.kept
                                                                          |
    the tree's, at the commit <---------------donate----------------------+

Invariant: computing writes slots of the request only; the tree's state is copied before the first
token is computed, and the request's lock holds it until then.
"""

from collections.abc import Callable, Iterable, Sequence

from cache.config import DEVICE, MAMBA
from cache.contract import Demand, Room
from cache.keys import state_print
from cache.locks import NOT_HELD, LockTable
from cache.observer import Observer
from cache.pools import Owner
from cache.residency import Residency
from cache.table import PageTable
from cache.tree import Node


class States:
    """Only for a cache with MAMBA."""

    def __init__(
        self,
        residency: Residency,
        locks: LockTable,
        make_room: Callable[[Demand], Room],
        observer: Observer,
    ) -> None:
        self._residency = residency
        self._locks = locks
        self._make_room = make_room
        self._observer = observer
        self._page_size = residency.tree.page_size
        self._pool = residency.pools[DEVICE, MAMBA]

    def open(self, table: PageTable) -> None:
        """The request's own state, for which there is room."""
        assert table.state is None
        table.state = self._take(table)
        self.fork([table])

    def fork(self, tables: Iterable[PageTable]) -> None:
        """Copy the tree's state into the own one of those that still lack it, where it is ready.
        Then the tree's is not needed any more: whoever runs holds no state but their own."""
        for table in tables:
            if table.state is None or table.forked:
                continue
            lock = table.lock
            assert lock is not None
            node = lock.anchor
            if node.end:
                source = node.slots[DEVICE][MAMBA]
                if source is None or not node.ready(DEVICE, MAMBA):
                    continue
                store = self._pool.store
                store.take(store, source, [table.state])
                self._observer.forked(table, node)
            table.forked = True
            if lock.reach[MAMBA] != NOT_HELD:
                self._locks.narrow(lock, MAMBA)

    def keep(self, table: PageTable) -> None:
        """A slot for the state at the next page boundary, if one can be had at once beside the own
        state. Without one the request runs as well, and leaves a prefix that has none at its end.
        """
        if table.kept is not None:
            return
        wanted = 1 if table.state is not None else 2
        if self._residency.obtainable(DEVICE, MAMBA) < wanted:
            return
        if self._make_room(Demand(0, 0, wanted)).enough:
            table.kept, table.kept_at = self._take(table), 0

    def spare(self, tables: Iterable[PageTable]) -> bool:
        """A request cannot begin for want of a state: somebody's slot for a boundary gives way, an
        empty one first, the youngest's first. Whether there was one."""
        keeping = [table for table in tables if table.kept is not None]
        if not keeping:
            return False
        table = max(keeping, key=lambda table: (not table.kept_at, table.number))
        assert table.kept is not None
        self._pool.release([table.kept], Owner.REQUEST)
        table.kept, table.kept_at = None, 0
        self._observer.gave_way(table)
        return True

    def write(self, table: PageTable, prints: Sequence[int], tokens: int) -> None:
        """Compute went on from `table.written` to `tokens`. What it starts from it carries on: a
        wrong state stays wrong."""
        assert table.state is not None
        assert table.forked, "the state that it goes on from has not arrived"
        if tokens == table.written:
            return
        own, size = table.state, self._page_size
        before = state_print(prints, table.written, size)
        boundary = tokens // size * size
        if table.kept is not None and boundary > table.written:
            self._go_on(own, table.kept, before ^ state_print(prints, boundary, size))
            table.kept_at = boundary
        self._go_on(own, own, before ^ state_print(prints, tokens, size))

    def read(self, table: PageTable, tokens: int) -> int:
        """The fingerprint of the own state, if it is that of `tokens` tokens; else 0."""
        if table.state is None or tokens != table.written:
            return 0
        return self._pool.store.read([table.state])[0]

    def conclude(self, table: PageTable) -> None:
        """Nothing more will be computed: at a page boundary the own state is itself the one to
        keep."""
        if table.state is None or not table.forked or table.written % self._page_size:
            return
        if table.kept is not None:
            self._pool.release([table.kept], Owner.REQUEST)
        table.kept, table.kept_at, table.state = table.state, table.written, None

    def donate(self, table: PageTable, node: Node) -> None:
        """The request's prefix is in the tree down to `node`: so becomes the state kept there,
        unless the tree has one."""
        if table.kept is None or not node.end or table.kept_at != node.end:
            return
        if node.slots[DEVICE][MAMBA] is None:
            self._residency.adopt(node, MAMBA, [table.kept], [])
        else:
            self._pool.release([table.kept], Owner.REQUEST)
        table.kept, table.kept_at = None, 0

    def release(self, table: PageTable) -> None:
        """Whatever the request still has."""
        own = [slot for slot in (table.state, table.kept) if slot is not None]
        self._pool.release(own, Owner.REQUEST)
        table.state = table.kept = None

    def _take(self, table: PageTable) -> int:
        (slot,) = self._pool.allocate(1, Owner.REQUEST)
        self._observer.took_state(table, slot)
        return slot

    def _go_on(self, source: int, target: int, change: int) -> None:
        """Compute goes from the state in `source` to one that differs from it by `change`, and each
        of its companions from what is there of it."""
        pool = self._pool
        value = pool.bare.read([source])[0] ^ change
        values = [beside.read([source])[0] ^ change for beside in pool.companions]
        self._observer.writing(pool, [target], [value])
        pool.bare.write([target], [value])
        for beside, own in zip(pool.companions, values, strict=True):
            beside.write([target], [own])
