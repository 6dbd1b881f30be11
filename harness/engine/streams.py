"""The copy streams: one task a direction and rank, first in first out.

A stream moves the bytes of the oldest copy of its direction when its time has come, and leaves the
acknowledgement to the scheduler. Under a search it may do so at any time, and may fail. Ranks have
links of their own: a copy takes a little longer on one than on another.
"""

from typing import Protocol

from cache.config import CacheConfig, Tier
from cache.contract import Cache
from cache.transfers import Copy, Transfers
from harness.engine.compute import Compute, Direction
from harness.explore.kernel import Kernel, Signal
from harness.explore.prng import SplitMix, derive

DIRECTIONS = {Tier.DEVICE: Direction.HOST_TO_DEVICE, Tier.HOST: Direction.DEVICE_TO_HOST}
NAMES = {Tier.DEVICE: "h2d", Tier.HOST: "d2h"}
SKEW = 0.1  # a copy takes up to so much longer on a rank than on the first: an assumption


class CopyStreams(Protocol):
    """Whatever runs the copies of a world. `bytes_moved` by the tier they went to, of the first
    rank; `failed` counts copies of any rank."""

    @property
    def bytes_moved(self) -> dict[Tier, int]: ...

    @property
    def failed(self) -> int: ...

    def start(self) -> None:
        """Once, before the first kick."""

    def kick(self) -> None:
        """There may be copies queued; cheap when there are none."""

    def drain(self) -> None:
        """Everything that is queued runs now, in a world at rest."""


class Streams:
    """Modelled ones. `landed` fires whenever a copy has run or broken. `outcomes` is how many
    outcomes a copy has under `Kernel.draw`: 1 never fails, 2 or more fails on every draw but 0.
    `bytes_moved` are those of the first rank, as all sizes are one rank's."""

    def __init__(
        self, kernel: Kernel, cache: Cache, compute: Compute, landed: Signal, *, outcomes: int = 1
    ) -> None:
        self._kernel = kernel
        self._cache = cache
        self._config: CacheConfig = cache.config
        self._slot_bytes = cache.config.slot_bytes
        self._compute = compute
        self._landed = landed
        self._outcomes = outcomes
        self._queued = {tier: Signal(f"copies.{NAMES[tier]}") for tier in Tier}
        self.bytes_moved = dict.fromkeys(Tier, 0)
        self.failed = 0

    def start(self) -> None:
        if self._config.hierarchical:
            for number, rank in enumerate(self._cache.ranks):
                for tier in (Tier.HOST, Tier.DEVICE):
                    stream = self._stream(rank.transfers, number, tier)
                    self._kernel.spawn(f"{NAMES[tier]}{number or ''}", stream, daemon=True)

    def kick(self) -> None:
        """Tell idle streams that there may be work; cheap when there is none."""
        queues = self._cache.transfers.queues
        for tier in Tier:
            if queues[tier]:
                self._queued[tier].fire()

    def drain(self) -> None:
        for rank in self._cache.ranks:
            for tier in Tier:
                while (copy := rank.transfers.next_to_run(tier)) is not None:
                    rank.transfers.run(copy)

    async def _stream(self, transfers: Transfers, rank: int, tier: Tier) -> None:
        while True:
            copy = transfers.next_to_run(tier)
            if copy is None:
                await self._kernel.wait(self._queued[tier], "copy.idle")
                continue
            seconds = self._seconds(copy, rank)
            await self._kernel.pause(seconds, "copy.run", ("copy", copy.number))
            if self._kernel.draw("copy.fail", self._outcomes):
                transfers.break_off(copy)
                self.failed += 1
            else:
                transfers.run(copy)
                self.bytes_moved[tier] += 0 if rank else self._bytes(copy)
            self._landed.fire()

    def _seconds(self, copy: Copy, rank: int) -> float:
        pages = sum(len(part.target) for part in copy.parts)
        seconds = self._compute.copy_s(self._bytes(copy), pages, DIRECTIONS[copy.target])
        if rank:
            late = SplitMix(derive(rank, copy.target, copy.number)).unit()
            seconds *= 1 + SKEW * late
        return round(seconds * 1e9) / 1e9

    def _bytes(self, copy: Copy) -> int:
        sizes = self._slot_bytes
        return sum(len(part.target) * sizes[part.component] for part in copy.parts)
