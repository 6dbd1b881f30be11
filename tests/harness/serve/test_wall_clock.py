"""The wall clock waits for real, in order, and does what other threads ask between two steps."""

import threading
import time

import pytest

from harness.explore.kernel import Kernel, Signal
from harness.serve.wall_clock import WallClock

LIMIT = 10_000


def test_a_pause_lasts_at_least_as_long_as_it_says():
    kernel, ended = Kernel(), []

    async def nap():
        await kernel.pause(0.02, "nap")
        ended.append(kernel.now)

    kernel.spawn("sleeper", nap())
    started = time.monotonic()
    assert kernel.run(WallClock(), step_limit=LIMIT).reason == "finished"
    assert time.monotonic() - started >= 0.02
    assert ended[0] >= 0.02


def test_pauses_end_in_the_order_in_which_they_are_due():
    kernel, order = Kernel(), []

    async def nap(seconds):
        await kernel.pause(seconds, "nap")
        order.append(seconds)

    for seconds in (0.03, 0.01, 0.02):
        kernel.spawn(f"sleeper {seconds}", nap(seconds))
    kernel.run(WallClock(), step_limit=LIMIT)
    assert order == [0.01, 0.02, 0.03]


def test_another_thread_wakes_a_world_that_waits():
    kernel, clock, signal, seen = Kernel(), WallClock(), Signal("called"), []

    async def wait():
        await kernel.wait(signal, "wait")
        seen.append(threading.current_thread())

    kernel.spawn("waiter", wait())
    caller = threading.Timer(0.02, lambda: clock.call(signal.fire))
    caller.start()
    assert kernel.run(clock, step_limit=LIMIT).reason == "finished"
    caller.join()
    assert seen == [threading.current_thread()]


def test_a_closed_clock_does_what_was_asked_before_and_takes_no_more():
    kernel, clock, done = Kernel(), WallClock(), []

    async def end():
        await kernel.pause(0.0, "end")

    kernel.spawn("one", end())
    kernel.run(clock, step_limit=LIMIT)
    assert clock.call(lambda: done.append(1))
    assert done == []
    clock.close()
    assert done == [1]
    assert not clock.call(lambda: done.append(2))


def test_an_action_that_fails_ends_the_run():
    kernel, clock = Kernel(), WallClock()

    async def wait():
        await kernel.wait(Signal("never"), "wait")

    def fail():
        raise ValueError("no")

    kernel.spawn("waiter", wait())
    clock.call(fail)
    ended = kernel.run(clock, step_limit=LIMIT)
    assert (ended.reason, str(ended.error)) == ("raised", "no")


def test_steps_are_told_before_and_after():
    kernel, told = Kernel(), []

    async def two():
        await kernel.pause(0.0, "a")
        await kernel.pause(0.0, "b")

    kernel.on_step = lambda task, point: told.append(("before", point.name))
    kernel.after_step = lambda task, point: told.append(("after", point.name))
    kernel.spawn("two", two())
    kernel.run(WallClock(), step_limit=LIMIT)
    names = [("before", n) for n in ("start", "a", "b")]
    assert told[::2] == names
    assert [name for _, name in told[1::2]] == ["start", "a", "b"]


@pytest.mark.parametrize("moment", [-1.0, 0.0])
def test_what_came_before_the_run_came_at_its_start(moment):
    clock = WallClock(monotonic=lambda: 5.0)
    assert clock.at(5.0 + moment) == 0.0
    assert clock.at(7.0) == 2.0
