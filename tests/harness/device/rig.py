"""A cache of real bytes on real streams, driven by hand: the test is the scheduler.

A forward fills pages on the stream of the compute, and may be held at a gate; copies run on streams
of their own. Nothing is timed: a test waits for events, and closes what it opened whatever happens.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from cache.config import CacheConfig, Component, Tier
from cache.contract import Demand
from cache.kernels import Mover
from cache.kernels.direct import DIRECT
from cache.keys import Key
from cache.layout import Layout
from cache.model import KvDtype
from cache.stores import Store
from cache.table import PageTable
from cache.tensors import PageShape, TensorStore
from cache.transfers import Copy
from cache.unified import UnifiedCache
from harness.device.copies import DeviceStreams, Flight, close, links_of
from harness.device.streams import Stream
from harness.oracles import Violation, Watch, default_oracles
from tests.cache.builders import a_config, admit
from tests.harness.device.stores import RankStores, take_memory

PATIENCE_S = 60
SHAPES = {
    Component.FULL: PageShape(layers=3, tokens=2, width=16, dtype=KvDtype.FP8_E4M3),
    Component.SWA: PageShape(layers=2, tokens=2, width=8, dtype=KvDtype.FP8_E5M2),
    Component.MAMBA: PageShape(layers=1, tokens=1, width=24, dtype=KvDtype.BF16),
}


class Rig:
    """`fenced` False is the fault: copies that wait for no compute."""

    def __init__(
        self,
        *,
        fenced: bool = True,
        layout: Layout = Layout.PAGE_FIRST,
        device: str = "cpu",
        mover: Mover = DIRECT,
        config: CacheConfig | None = None,
    ) -> None:
        self.gate = threading.Event()
        self._fenced = fenced
        self.compute = Stream("compute", device)
        self.links = links_of(device, 1)
        self.found: list[Violation] = []
        self.inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        config = config or a_config(full=(4, 8))
        stores = take_memory(config, SHAPES, layout, self.compute, mover=mover)
        assert isinstance(stores, RankStores)
        self.stores = stores
        self.watch = Watch(default_oracles("every"), on_violation=self.found.append, audit_every=1)
        self.cache = UnifiedCache(config, self.watch, store_of=self.store_of)
        self.watch.attach(self.cache)
        self.streams = DeviceStreams(
            self.cache,
            self.links,
            fence=lambda rank: [self.compute.record()] if fenced else [],
            on_end=self.call,
        )

    def store_of(self, tier: Tier, component: Component, capacity: int) -> Store:
        return self.stores.store_of(tier, component, capacity)

    def store(self, tier: Tier, component: Component = Component.FULL) -> TensorStore:
        return self.stores.stores[tier, component]

    def call(self, rank: int, copy: Copy) -> None:
        self.inbox.put(lambda: self.streams.finish(rank, copy))

    # -- what a scheduler does -------------------------------------------------------------------

    def start(self, key: Key, holder: str) -> PageTable:
        """Admit a request and launch the forward over all of `key` but its last token, which waits
        at the gate before it fills the pages."""
        table = admit(self.cache, key, holder)
        return self.forward(table, key)

    def forward(self, table: PageTable, key: Key) -> PageTable:
        """Launch it; the scheduler goes on as if it were over."""
        tokens = (key.tokens - 1) // 2 * 2
        assert self.cache.extend(table, tokens).enough
        pages = slice(table.written // 2, tokens // 2)
        slots, prints = table.full[pages], key.prints()[pages]
        store = self.store(Tier.DEVICE)

        def fill() -> None:
            self.gate.wait()
            TensorStore.write(store, slots, prints)

        self.compute.submit([fill])
        self.cache.write(table, key.prints(), tokens)
        return table

    def serve(self, key: Key, holder: str) -> None:
        """A whole request at an open gate, and its backup."""
        self.gate.set()
        self.cache.finish(self.start(key, holder), key)
        self.land()
        self.compute.record().wait()
        self.gate.clear()

    def open_gate_after(self, flight: Flight) -> None:
        """Let the forward go on: once the copy is over where nothing holds it back, which would
        wait for ever otherwise."""
        if self._fenced:
            assert not flight.job.end.done
        else:
            assert flight.job.end.wait()
        self.gate.set()
        self.compute.record().wait()

    def demote_all(self) -> None:
        self.cache.make_room(Demand(self.cache.config.full.device))

    def land(self) -> list[Copy]:
        """Wait for every copy that is queued and acknowledge it."""
        self.streams.kick()
        landed: list[Copy] = []
        while len(self.cache.transfers):
            self.inbox.get(timeout=PATIENCE_S)()
            for tier in Tier:
                while (copy := self.cache.transfers.next_to_acknowledge(tier)) is not None:
                    self.cache.acknowledge(copy)
                    landed.append(copy)
        return landed

    def signatures(self) -> list[str]:
        return sorted({f"{v.oracle} {v.signature}" for v in self.found})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.gate.set()
        self.compute.close()
        close(self.links)
