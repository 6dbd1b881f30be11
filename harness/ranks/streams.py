"""Copies of a rank that is a process: its own bytes, and the steps that all ranks take alike.

When bytes have moved is a fact of one rank, so no step of the world may hang on it but through an
agreement. A task for each direction therefore goes on when the clock says so, which is the first
rank's, and only rings: whoever hears it looks, offers how its own oldest copy stands, and the least
holds. While a copy that has come here is still under way elsewhere, the task rings again and again.

    first rank    copy lands, ring, look: 2     [ring, look: 2]    agreed: ran
    other rank                ring, look: 0       copy lands, ring, look: 2
                              agreed: under way

Invariant: what a task of this file does next follows from what was agreed on and from the clock.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from cache.config import Tier
from cache.contract import Cache
from cache.transfers import Copy, Transfers
from harness.device.copies import DeviceStreams, Fence, Flight, Links
from harness.device.layers import Layer
from harness.engine.streams import NAMES
from harness.explore.kernel import Kernel, Signal, Task
from harness.serve.wall_clock import UNTIL_WOKEN_S, WallClock

FIRST_NAP_S, LONGEST_NAP_S = 0.001, 0.032


class Bytes(Protocol):
    """Who moves them. Called in the scheduler's thread."""

    def begin(self) -> None:
        """Whatever the cache has queued since."""

    def here(self, copy: Copy) -> bool:
        """Whether it has landed or broken, on this rank."""
        ...

    def settle(self) -> None:
        """The cache takes note of all that have."""

    def drain(self) -> None:
        """All that is queued runs, in a world at rest."""

    @property
    def moved(self) -> dict[Tier, int]:
        """Bytes, by the tier they went to."""
        ...

    @property
    def failed(self) -> int:
        """Copies that broke here."""
        ...


class RankStreams:
    """`CopyStreams` of a world. `landed` fires whenever it is worth looking."""

    def __init__(self, kernel: Kernel, cache: Cache, bytes_: Bytes, landed: Signal) -> None:
        self._kernel = kernel
        self._cache = cache
        self._bytes = bytes_
        self._landed = landed
        self._queued = {tier: Signal(f"copies.{NAMES[tier]}") for tier in Tier}
        self._awaited: dict[int, Task] = {}

    @property
    def bytes_moved(self) -> dict[Tier, int]:
        return self._bytes.moved

    @property
    def failed(self) -> int:
        return self._bytes.failed

    def start(self) -> None:
        if self._cache.config.hierarchical:
            for tier in (Tier.HOST, Tier.DEVICE):
                self._kernel.spawn(NAMES[tier], self._ring(tier), daemon=True)

    def kick(self) -> None:
        self._bytes.begin()
        self._bytes.settle()
        for tier, queue in self._cache.transfers.queues.items():
            if queue:
                self._queued[tier].fire()

    def drain(self) -> None:
        self._bytes.drain()

    def awaited(self, copy: Copy) -> Task | None:
        """Who waits for its bytes, if somebody does."""
        return self._awaited.get(copy.number)

    async def _ring(self, tier: Tier) -> None:
        queue, last, nap_s = self._cache.transfers.queues[tier], 0, FIRST_NAP_S
        while True:
            if not queue:
                await self._kernel.wait(self._queued[tier], "copy.idle")
                continue
            copy = queue[0]
            if copy.number != last:
                last, nap_s = copy.number, FIRST_NAP_S
                await self._until_here(copy)
            else:
                await self._kernel.pause(nap_s, "copy.look", ("copy", copy.number))
                nap_s = min(2 * nap_s, LONGEST_NAP_S)
            self._bytes.settle()
            self._landed.fire()

    async def _until_here(self, copy: Copy) -> None:
        """The clock of another rank, or of a record, goes on when it likes."""
        task = self._kernel.current
        assert task is not None
        self._awaited[copy.number] = task
        nap_s = 0.0 if self._bytes.here(copy) else UNTIL_WOKEN_S
        await self._kernel.pause(nap_s, "copy.run", ("copy", copy.number))
        del self._awaited[copy.number]


class StreamedBytes:
    """On this rank's own streams, as `harness.device` has them. `links` are closed by their owner.
    `on_end(copy)` is told in the thread that drives the clock, in which the task may be woken."""

    def __init__(
        self,
        clock: WallClock,
        cache: Cache,
        links: Links,
        *,
        fence: Fence,
        order: Sequence[Layer],
        on_end: Callable[[Copy], None],
    ) -> None:
        def over(rank: int, copy: Copy) -> None:
            clock.call(lambda: on_end(copy))

        self._transfers = cache.transfers
        self._device = DeviceStreams(cache, [links], fence=fence, on_end=over, order=order)

    def flights(self, copies: Sequence[Copy]) -> list[Flight]:
        return self._device.flights(copies)

    def begin(self) -> None:
        self._device.kick()

    def here(self, copy: Copy) -> bool:
        return all(flight.job.end.done for flight in self._device.flights([copy]))

    def settle(self) -> None:
        for tier in Tier:
            while (copy := self._transfers.next_to_run(tier)) is not None and self.here(copy):
                self._device.finish(0, copy)

    def drain(self) -> None:
        self._device.drain()

    @property
    def moved(self) -> dict[Tier, int]:
        return self._device.bytes_moved

    @property
    def failed(self) -> int:
        return self._device.failed


class InstantBytes:
    """Moved as soon as they are queued, for a run that is followed: what ranks agreed on in it says
    when they were acknowledged."""

    failed = 0

    def __init__(self, transfers: Transfers) -> None:
        self.moved = dict.fromkeys(Tier, 0)
        self._transfers = transfers

    def begin(self) -> None:
        for tier in Tier:
            while (copy := self._transfers.next_to_run(tier)) is not None:
                self._transfers.run(copy)

    def here(self, copy: Copy) -> bool:
        return True

    def settle(self) -> None: ...

    def drain(self) -> None:
        self.begin()


def instant_streams(own: Cache) -> Callable[[Kernel, Signal], RankStreams]:
    """What makes the streams of a world whose run is followed."""
    bytes_ = InstantBytes(own.transfers)
    return lambda kernel, landed: RankStreams(kernel, own, bytes_, landed)
