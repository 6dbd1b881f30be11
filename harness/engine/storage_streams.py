"""What storage takes, in model time, and the two streams that it is reached by.

One stream reads (what is there, then batch by batch), one writes; each serves one move at a time,
the oldest first. Every rank has links of its own, a little slower on one than on another.
Invariant: a move's reply comes after its time, and never without its question.
"""

from dataclasses import dataclass

from cache.config import CacheConfig
from cache.contract import Cache
from cache.storage_moves import Move, Persist, Prefetch, PrefetchState
from cache.storage_tier import StorageTier
from harness.engine.streams import SKEW
from harness.engine.troubles import Trouble, TroublePlan
from harness.explore.kernel import Kernel, Signal
from harness.explore.prng import SplitMix, derive


@dataclass(frozen=True, slots=True)
class StorageLink:
    """The way to storage: bytes and seconds. The defaults are assumptions, those of a good NVMe
    disk; `slow_x` is how many times as long everything takes while storage is slow."""

    read_bandwidth: float = 6e9
    write_bandwidth: float = 3e9
    latency_s: float = 100e-6
    slow_x: float = 50.0


class StorageStreams:
    """`replied` fires at every reply. Nothing runs where the cache has no storage. Bytes are those
    of the first rank, as all sizes are one rank's; `rank_bytes` are each one's, read and written.
    """

    def __init__(
        self,
        kernel: Kernel,
        cache: Cache,
        link: StorageLink,
        replied: Signal,
        *,
        plan: TroublePlan | None = None,
    ) -> None:
        self._kernel = kernel
        self._config: CacheConfig = cache.config
        self._tier = cache.storage
        self._ranks = [rank.storage for rank in cache.ranks if rank.storage is not None]
        self._link = link
        self._replied = replied
        self._plan = plan
        self._asked = {
            kind: Signal(f"storage.{kind.__name__.lower()}") for kind in (Prefetch, Persist)
        }
        self.rank_bytes = [[0, 0] for _ in self._ranks]

    @property
    def read_bytes(self) -> int:
        return self.rank_bytes[0][0] if self.rank_bytes else 0

    @property
    def written_bytes(self) -> int:
        return self.rank_bytes[0][1] if self.rank_bytes else 0

    def start(self) -> None:
        for rank in range(len(self._ranks)):
            which = rank or ""
            self._kernel.spawn(f"l3-read{which}", self._stream(rank, Prefetch), daemon=True)
            self._kernel.spawn(f"l3-write{which}", self._stream(rank, Persist), daemon=True)

    def kick(self) -> None:
        """Tell idle streams that there may be work."""
        if self._tier is not None and len(self._tier):
            for signal in self._asked.values():
                signal.fire()

    def rest(self) -> None:
        """Storage replies to everything, as it would with nothing else to do."""
        tier = self._tier
        while tier is not None and len(tier):
            for rank in self._ranks:
                for move in rank.outstanding():
                    rank.run(move)
            for move in tier.replied():
                tier.acknowledge(move)

    async def _stream(self, rank: int, kind: type[Prefetch] | type[Persist]) -> None:
        tier = self._ranks[rank]
        while True:
            move = next((m for m in tier.outstanding() if isinstance(m, kind)), None)
            if move is None:
                await self._kernel.wait(self._asked[kind], "storage.idle")
                continue
            moved = _moved(move)
            self.rank_bytes[rank][kind is Persist] += moved
            await self._reply(tier, move, rank, moved)
            self._replied.fire()

    async def _reply(self, tier: StorageTier, move: Move, rank: int, moved: int) -> None:
        """Over when storage has replied."""
        name = ("storage", move.kind, move.number)
        await self._kernel.pause(self._seconds(move, rank, moved), "storage.reply", name)
        tier.run(move)

    def _seconds(self, move: Move, rank: int, moved: int) -> float:
        link = self._link
        bandwidth = link.write_bandwidth if isinstance(move, Persist) else link.read_bandwidth
        seconds = link.latency_s + moved / bandwidth
        if self._plan is not None and self._plan.at(self._kernel.now) is Trouble.SLOW:
            seconds *= link.slow_x
        if rank:
            kind = int(isinstance(move, Persist))
            seconds *= 1 + SKEW * SplitMix(derive(rank, kind, move.number)).unit()
        return round(seconds * 1e9) / 1e9


def _moved(move: Move) -> int:
    """The bytes of what storage is given or asked for; a question what is there has none."""
    if isinstance(move, Persist):
        return sum(s.strand.slot_bytes * len(s.slots) for s in move.sources)
    if move.phase is not PrefetchState.FETCHING:
        return 0
    batch = move.wanted[move.arrived : move.arrived + move.asked]
    return sum(wanted.strand.slot_bytes for wanted in batch)
