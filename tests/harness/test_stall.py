"""An operation that never comes back is ended and told, and a run that ends is left alone."""

import signal
import threading

import pytest

from cache.contract import Demand
from harness import stall
from harness.stall import Stalled, stall_watch
from tests.cache.builders import a_cache


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "LIMIT_S", 0.05)


def spin(*given: object) -> None:
    while True:
        pass


def test_what_never_ends_is_ended_and_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = a_cache(full=(4, 4))
    monkeypatch.setattr(cache.evictor, "make_room", spin)
    with pytest.raises(Stalled, match=r"in UnifiedCache\.make_room"), stall_watch():
        cache.make_room(Demand(1))


def test_what_ends_is_left_alone_and_the_timer_with_it() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with stall_watch() as again:
        again()
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is before


def test_what_a_thread_does_that_the_main_one_waits_for_is_ended_there() -> None:
    raised: list[Stalled] = []

    def work() -> None:
        try:
            spin()
        except Stalled as stalled:
            raised.append(stalled)

    thread = threading.Thread(target=work)
    with stall_watch(lambda frame: frame.f_code is spin.__code__, lambda: thread):
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
    assert [stalled.where for stalled in raised] == ["spin"]


def test_another_thread_than_the_main_one_is_not_watched() -> None:
    seen: list[float] = []

    def run() -> None:
        with stall_watch():
            seen.append(signal.getitimer(signal.ITIMER_VIRTUAL)[0])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [0.0]
