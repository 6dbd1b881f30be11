"""The model of a soak: on its clock, checked by N1, counted."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cache.config import Tier
from cache.transfers import Copy
from cache.unified import UnifiedCache
from harness.device.copies import Flight, close, links_of
from harness.device.storage import WallStorage
from harness.device.streams import Event, Stream
from harness.device.wall import WallStreams
from harness.engine.compute import Compute, Work
from harness.engine.job import Job
from harness.engine.storage_streams import StorageLink, StorageStreams
from harness.engine.streams import CopyStreams, Streams
from harness.explore.kernel import Kernel, Picker, Signal
from harness.model.executor import ModelExecutor
from harness.model.launchers import VirtualLauncher, WallLauncher
from harness.model.numerics import Wrong
from harness.model.plan import ModelPlan
from harness.model.run import ModelRun
from harness.model.shard import ALONE
from harness.ranks.party import Party
from harness.ranks.streams import RankStreams, StreamedBytes, instant_streams
from harness.record.forwards import Forwards
from harness.record.summary import Number
from harness.serve.wall_clock import WallClock
from harness.soak.storage import StoragePlan


class Computed:
    """`forwards` on the wall clock that waited for no load-back took `forwards_s`.

    `executor` is for the world; `close` it, or `cut` it short, when the world has ended and
    before the clock is closed."""

    def __init__(
        self,
        plan: ModelPlan,
        storage: StoragePlan | None,
        cache: UnifiedCache,
        clock: Picker,
        compute: Compute,
        on_wrong: Callable[[Wrong], None],
        folder: Path,
        party: Party | None = None,
    ) -> None:
        """`folder` is the run's: on the wall clock, what every forward took is written there.
        `party` are the ranks that compute with this one."""
        self.forwards = 0
        self.forwards_s = 0.0
        self._folder = folder
        self._forwards: Forwards | None = None
        self._party = party
        self._model = ModelRun(plan, cache, ALONE if party is None else party.sums)
        self._cache = cache
        self._device = plan.device
        self._streams: WallStreams | None = None
        self._bytes: StreamedBytes | None = None
        self._links: list[dict[Tier, Stream]] = []
        self._storage = storage
        self._storage_thread: Stream | None = None
        self._clock = clock
        self._compute = compute
        self._on_wrong = on_wrong
        self._launcher: VirtualLauncher | WallLauncher

    def executor(self, kernel: Kernel) -> ModelExecutor:
        self._executor = self._make_executor(kernel)
        return self._executor

    def job_ended(self, job: Job) -> None:
        """Nothing more will be asked about it."""
        self._executor.forget(job)

    def _make_executor(self, kernel: Kernel) -> ModelExecutor:
        if isinstance(self._clock, WallClock):
            self._forwards = Forwards(self._folder, Work._fields)
            self._launcher = WallLauncher(
                kernel,
                self._clock,
                self._device,
                self._forwarded,
                flights=self._flights,
                before=_nothing if self._party is None else self._party.before_forward,
            )
        else:
            self._launcher = VirtualLauncher(kernel, self._compute)
        return self._model.executor(self._launcher, self._on_wrong)

    def streams(self, kernel: Kernel, landed: Signal) -> CopyStreams:
        """Real ones on the wall clock; on another, copies are modelled and done at their end. Those
        of several ranks' run that is followed are done at once."""
        if self._party is not None and not isinstance(self._clock, WallClock):
            return instant_streams(self._cache)(kernel, landed)
        if not isinstance(self._clock, WallClock):
            return Streams(kernel, self._cache, self._compute, landed)
        self._links = links_of(self._device, 1)
        if self._party is not None:
            return self._rank_streams(kernel, self._clock, landed)
        self._streams = WallStreams(
            kernel,
            self._clock,
            self._cache,
            self._links,
            landed,
            fence=lambda rank: self._fence(),
            order=self._model.layers(),
        )
        return self._streams

    def storage(self, kernel: Kernel, replied: Signal) -> StorageStreams:
        """A thread on the wall clock; on another, and where storage is in trouble by plan, its
        times are modelled."""
        plan = self._storage
        if plan is None:
            return StorageStreams(kernel, self._cache, StorageLink(), replied)
        if not isinstance(self._clock, WallClock) or plan.troubles is not None:
            return StorageStreams(kernel, self._cache, plan.link, replied, plan=plan.troubles)
        self._storage_thread = Stream("l3")
        return WallStorage(kernel, self._clock, self._cache, self._storage_thread, replied)

    def _rank_streams(self, kernel: Kernel, clock: WallClock, landed: Signal) -> RankStreams:
        def wake(copy: Copy) -> None:
            if (task := streams.awaited(copy)) is not None:
                clock.wake(task)

        self._bytes = StreamedBytes(
            clock,
            self._cache,
            self._links[0],
            fence=lambda rank: self._fence(),
            order=self._model.layers(),
            on_end=wake,
        )
        streams = RankStreams(kernel, self._cache, self._bytes, landed)
        return streams

    def _flights(self, copies: Sequence[Copy]) -> list[Flight]:
        if self._bytes is not None:
            return self._bytes.flights(copies)
        assert self._streams is not None
        return self._streams.device.flights(copies)

    def _fence(self) -> list[Event]:
        assert isinstance(self._launcher, WallLauncher)
        return self._launcher.fence()

    def _forwarded(self, work: Work, turn_s: float, seconds: float) -> None:
        assert self._forwards is not None
        self.forwards += 1
        self.forwards_s += seconds
        self._forwards.add(work, turn_s, seconds)

    def memory(self) -> Mapping[str, float]:
        return self._model.memory()

    def close(self) -> None:
        self._launcher.close()
        self._end()

    def cut(self) -> None:
        self._launcher.cut()
        self._end()

    def _end(self) -> None:
        if self._forwards is not None:
            self._forwards.close()
        close(self._links)
        if self._storage_thread is not None:
            self._storage_thread.close()

    def counters(self) -> dict[str, Number]:
        """How many forwards began ahead of load-backs, and how much N1 has recomputed."""
        numerics = self._model.numerics
        ahead: dict[str, Number] = {"ahead_forwards": self._launcher.ahead}
        if numerics is None:
            return ahead
        return {
            **ahead,
            "logits_checked_requests": numerics.checked_requests,
            "logits_checked_positions": numerics.checked_positions,
            "logits_unchecked_requests": self._launcher.dropped,
        }


def _nothing() -> None: ...
