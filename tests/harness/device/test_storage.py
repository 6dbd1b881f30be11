"""Storage that is asked in a thread of its own answers in the order of its replies."""

import threading

from cache.storage.contract import Presence, Status
from cache.storage.memory import MemoryStorage
from harness.device.storage import WallStorage
from harness.device.streams import Stream
from harness.explore.kernel import Kernel, Signal
from harness.serve.wall_clock import WallClock
from tests.cache.builders import a_key, land, serve
from tests.cache.storage_builders import IDENTITY, ROOMY, with_storage

STEPS = 1_000


class Told(MemoryStorage):
    """Notes in which thread it was asked, and how many were asking at once."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(IDENTITY, ROOMY)
        self.asked: list[tuple[str, str]] = []
        self._error = error

    def has(self, keys):
        self.asked.append(("has", threading.current_thread().name))
        return Presence((False,) * len(keys), Status.FAILED)

    def put(self, pages):
        self.asked.append(("put", threading.current_thread().name))
        if self._error is not None:
            raise self._error
        return super().put(pages)


def run(backend: Told):
    """A persist and a prefetch at once, each acknowledged; the moves in the order of replies."""
    cache = with_storage(backend=backend)
    kernel, clock, replied, over = Kernel(), WallClock(), Signal("replied"), []
    with Stream("l3") as thread:
        storage = WallStorage(kernel, clock, cache, thread, replied)

        async def scheduler() -> None:
            await kernel.pause(0.0, "begin")
            serve(cache, a_key([1, 2]))
            land(cache)
            assert cache.storage is not None
            cache.storage.prefetch(a_key([7, 8, 9]), "r")
            storage.kick()
            while len(cache.storage):
                await kernel.wait(replied, "wait")
                for move in cache.storage.replied():
                    cache.storage.acknowledge(move)
                    over.append(move.kind)

        storage.start()
        kernel.spawn("scheduler", scheduler())
        ended = kernel.run(clock, step_limit=STEPS)
    clock.close()
    return ended, over, storage


def test_questions_are_asked_in_the_thread_and_answered_in_their_order() -> None:
    backend = Told()
    ended, over, storage = run(backend)
    assert ended.reason == "finished"
    assert {thread for _, thread in backend.asked} == {"l3"}
    kinds = {"has": "prefetch", "put": "persist"}
    assert [kinds[asked] for asked, _ in backend.asked] == over
    assert set(over) == {"prefetch", "persist"}
    assert len(backend.blobs) > 0
    assert storage.written_bytes > 0


def test_a_programmers_error_in_the_thread_ends_the_run() -> None:
    ended, _, _ = run(Told(ZeroDivisionError("a bug of a backend")))
    assert ended.reason == "raised"
    assert isinstance(ended.error, ZeroDivisionError)
