"""Storage that is really asked, in a thread of its own, in a world on the wall clock.

The tasks and their points are those of `harness.engine.storage_streams`. The thread reads host
slots and hands their bytes over, or has pages brought; what has come goes into its slots in the
scheduler's thread. Invariant: one question is with storage at a time, and the next one begins when
its reply has been taken; so storage does things in the order of the replies, and answers alike when
a recorded run is followed.
"""

from collections import deque
from typing import NamedTuple

from cache.contract import Cache
from cache.storage_moves import Move
from cache.storage_tier import Reply, StorageTier
from harness.device.streams import Job, Stream
from harness.engine.storage_streams import StorageLink, StorageStreams
from harness.explore.kernel import Kernel, Signal, Task
from harness.serve.wall_clock import WallClock


class _Asker(NamedTuple):
    tier: StorageTier
    move: Move
    task: Task
    replies: list[Reply]
    jobs: list[Job]


class WallStorage(StorageStreams):
    """`thread` is closed by its owner before the world is brought to rest."""

    def __init__(
        self, kernel: Kernel, clock: WallClock, cache: Cache, thread: Stream, replied: Signal
    ) -> None:
        super().__init__(kernel, cache, StorageLink(), replied)
        self._clock = clock
        self._thread = thread
        self._line: deque[_Asker] = deque()

    async def _reply(self, tier: StorageTier, move: Move, rank: int, moved: int) -> None:
        task = self._kernel.current
        assert task is not None
        asker = _Asker(tier, move, task, [], [])
        self._line.append(asker)
        if self._line[0] is asker:
            self._ask(asker)
        name = ("storage", move.kind, move.number)
        await self._clock.until_woken(self._kernel, "storage.reply", name)
        assert self._line.popleft() is asker
        (job,) = asker.jobs
        if job.error is not None:
            raise job.error
        tier.answer(move, asker.replies[0])
        if self._line:
            self._ask(self._line[0])

    def _ask(self, asker: _Asker) -> None:
        question = asker.tier.question(asker.move)

        def ask() -> None:
            asker.replies.append(question())

        asker.jobs.append(self._thread.submit([ask], on_end=lambda _: self._wake(asker.task)))

    def _wake(self, task: Task) -> None:
        """In the storage's thread."""
        self._clock.call(lambda: self._clock.wake(task))
