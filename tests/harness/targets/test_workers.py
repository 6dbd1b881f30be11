"""Threads of a controller, one step at a time: nothing runs unless it is told to."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.explore.kernel import Kernel
from harness.stall import Stalled, stall_watch
from harness.targets.sglang import background, workers
from harness.targets.sglang.background import Background
from harness.targets.sglang.baton import Baton
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.runner import _runs, verdict_of
from harness.targets.sglang.storage import Storage
from harness.targets.sglang.workers import Queue, Site, Worker, halt, install

DAY_S = 86_400.0


class Controller:
    """Waits for operations as a release's controller does."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.queue, self.done = Queue(), list[Any]()

    def backup_thread_func(self) -> None:
        while not self.stop.is_set():
            try:
                item = self.queue.get(block=True, timeout=1)
            except Empty:
                continue
            halt("write")
            self.done.append(item)


@pytest.fixture
def site() -> Iterator[Site]:
    Site.current = one = Site(Storage())
    yield one
    one.close()
    assert not [thread for thread in threading.enumerate() if isinstance(thread, Baton)]


def started(site: Site) -> tuple[Controller, Worker]:
    controller = Controller()
    Worker(target=controller.backup_thread_func, daemon=True).start()
    return controller, site.workers["persist"]


def test_a_thread_that_never_stands_is_ended_and_says_where() -> None:
    def spin() -> None:
        while True:
            pass

    baton = Baton(spin)
    baton.start()
    with stall_watch(lambda frame: "spin" in frame.f_code.co_qualname, _runs, limit_s=0.05):
        baton.advance()
    baton.abandon()
    assert isinstance(baton.error, Stalled)
    assert baton.error.where.endswith("spin")
    assert verdict_of(baton.error).kind.startswith("P1.stalled in ")


def test_a_worker_takes_an_operation_and_waits_for_storage(site: Site) -> None:
    controller, worker = started(site)
    assert (worker.at, worker.ready) == ("take", False)
    controller.queue.put("page")
    assert worker.ready
    worker.advance()
    assert (worker.at, worker.ready, controller.done) == ("write", True, [])
    worker.advance()
    assert (worker.at, worker.ready, controller.done) == ("take", False, ["page"])


def test_a_worker_that_agrees_goes_on_though_its_queue_is_empty(site: Site) -> None:
    queue, done = Queue(), list[Any]()

    def prefetch_sync_thread_func() -> None:
        item = queue.get()
        worker = Baton.current
        assert worker is not None
        worker.agree("all ranks")
        done.append(item)

    Worker(target=prefetch_sync_thread_func).start()
    worker = site.workers["report"]
    queue.put("ack")
    worker.advance()
    assert (worker.call, worker.at, worker.ready) == ("all ranks", "agree", False)
    worker.call = None  # the others have come
    assert worker.ready
    worker.advance()
    assert done == ["ack"]


def test_a_worker_that_is_stopped_does_what_is_left(site: Site) -> None:
    controller, worker = started(site)
    controller.queue.put("page")
    controller.stop.set()
    worker.join(timeout=10)
    assert controller.done == ["page"]
    assert worker.over
    assert not worker.ready


def test_a_run_may_end_in_the_middle_of_an_operation(site: Site) -> None:
    controller, worker = started(site)
    controller.queue.put("page")
    worker.advance()
    site.close()
    assert worker.over
    assert controller.done == []


def test_what_a_worker_raises_is_kept(site: Site) -> None:
    controller, worker = started(site)
    controller.done = None  # type: ignore[assignment]
    controller.queue.put("page")
    worker.advance()
    worker.advance()
    assert isinstance(worker.error, AttributeError)
    assert not worker.ready


def test_what_an_oracle_says_is_not_lost_where_the_release_logs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "prepare", lambda release, batch: None)
    shape: Any = SimpleNamespace(batch=1, page_size=1, prefetch="best_effort")
    release: Any = None
    world = Background(release, {}, shape, Kernel())
    judge = SimpleNamespace(kept=refuse)
    world.report_to(lambda: [judge], lambda: None)

    def backup_thread_func() -> None:
        halt("take")
        with suppress(Exception):
            world.storage.put("key", np.array([1]))
        halt("take")

    Worker(target=backup_thread_func).start()
    with pytest.raises(Broken, match="C1"):
        world.run()
    world.close()


def refuse(key: str, prints: object) -> None:
    raise Broken("C1", "it is wrong", "right", "wrong")


def test_a_scheduler_that_waits_for_an_empty_queue_waits_for_ever() -> None:
    queue = Queue()
    with pytest.raises(Broken, match=r"P1\.the scheduler waits"):
        queue.get()
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(block=True, timeout=1)


def test_a_queue_is_first_in_first_out() -> None:
    queue = Queue[int]()
    assert queue.empty()
    queue.put(1)
    queue.put_nowait(2)
    assert queue.qsize() == 2
    assert [queue.get(), queue.get_nowait()] == [1, 2]


def test_only_a_controllers_modules_get_the_worlds_threads_and_time(site: Site) -> None:
    controller, other = ModuleType("sglang.srt.cache_controller"), ModuleType("sglang.srt.other")
    for module in (controller, other):
        vars(module).update(threading=threading, time=time, Queue=None)
    install([controller, other])
    assert other.threading is threading
    assert other.time is time
    assert controller.Queue is Queue
    assert controller.threading.Thread is Worker
    site.now = DAY_S
    assert controller.time.monotonic() == workers.now() == DAY_S
