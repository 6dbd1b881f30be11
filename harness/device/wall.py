"""Real copies in a world on the wall clock.

One task a direction and rank, as `harness.engine.streams` has, with the same points in the same
order, so that the decisions of a recorded run mean the same where copies are modelled. A task waits
for what its stream does; the stream itself was given the copy as soon as it was queued.
"""

from collections.abc import Sequence

from cache.config import Tier
from cache.contract import Cache
from cache.transfers import Copy
from harness.device.copies import DeviceStreams, Fence, Links
from harness.device.layers import Layer
from harness.engine.streams import NAMES
from harness.explore.kernel import Kernel, Signal, Task
from harness.serve.wall_clock import WallClock


class WallStreams:
    """`CopyStreams` of a world. `device` runs the copies; `links` are closed by their owner when
    the clock is over. `landed` fires whenever a copy has run or broken."""

    def __init__(
        self,
        kernel: Kernel,
        clock: WallClock,
        cache: Cache,
        links: Sequence[Links],
        landed: Signal,
        *,
        fence: Fence,
        order: Sequence[Layer] = (),
    ) -> None:
        self.device = DeviceStreams(cache, links, fence=fence, on_end=self._over, order=order)
        self._kernel = kernel
        self._clock = clock
        self._cache = cache
        self._landed = landed
        self._queued = {tier: Signal(f"copies.{NAMES[tier]}") for tier in Tier}
        self._awaited: dict[tuple[int, Tier], tuple[Copy, Task]] = {}

    @property
    def bytes_moved(self) -> dict[Tier, int]:
        return self.device.bytes_moved

    @property
    def failed(self) -> int:
        return self.device.failed

    def start(self) -> None:
        if self._cache.config.hierarchical:
            for rank in range(len(self._cache.ranks)):
                for tier in (Tier.HOST, Tier.DEVICE):
                    name = f"{NAMES[tier]}{rank or ''}"
                    self._kernel.spawn(name, self._stream(rank, tier), daemon=True)

    def kick(self) -> None:
        self.device.kick()
        queues = self._cache.transfers.queues
        for tier in Tier:
            if queues[tier]:
                self._queued[tier].fire()

    def drain(self) -> None:
        self.device.drain()

    async def _stream(self, rank: int, tier: Tier) -> None:
        transfers = self._cache.ranks[rank].transfers
        while True:
            copy = transfers.next_to_run(tier)
            if copy is None:
                await self._kernel.wait(self._queued[tier], "copy.idle")
                continue
            (flight,) = self.device.flights([copy], rank)
            point = ("copy.run", ("copy", copy.number))
            if flight.job.end.done:
                await self._kernel.pause(0.0, *point)
            else:
                task = self._kernel.current
                assert task is not None
                self._awaited[rank, tier] = copy, task
                await self._clock.until_woken(self._kernel, *point)
                del self._awaited[rank, tier]
            self.device.finish(rank, copy)
            self._landed.fire()

    def _over(self, rank: int, copy: Copy) -> None:
        """In a stream's thread."""
        self._clock.call(lambda: self._wake(rank, copy))

    def _wake(self, rank: int, copy: Copy) -> None:
        """The task may wait for it by now, or will find that it is over."""
        awaited, task = self._awaited.get((rank, copy.target), (None, None))
        if awaited is copy and task is not None:
            self._clock.wake(task)
