"""A bell remembers what a signal forgets."""

from harness.engine.bell import Bell
from harness.explore.kernel import Kernel
from harness.explore.pickers import VirtualClock


def heard_at(*, ring_s: float, busy_s: float) -> float:
    """One task clears the bell, is busy, then listens; another rings."""
    kernel, bell, times = Kernel(), Bell("bell"), []

    async def listen():
        bell.clear()
        await kernel.pause(busy_s, "busy")
        await bell.heard(kernel, "listen")
        times.append(kernel.now)

    async def ring():
        await kernel.pause(ring_s, "ring")
        bell.fire()

    kernel.spawn("listener", listen())
    kernel.spawn("ringer", ring())
    assert kernel.run(VirtualClock(), step_limit=100).reason == "finished"
    return times[0]


def test_a_ring_wakes_who_waits():
    assert heard_at(ring_s=5.0, busy_s=1.0) == 5.0


def test_a_ring_that_nobody_waited_for_is_heard_at_once():
    assert heard_at(ring_s=1.0, busy_s=5.0) == 5.0


def test_a_ring_before_the_clearing_is_over():
    kernel, bell = Kernel(), Bell("bell")
    bell.fire()
    bell.clear()
    kernel.spawn("listener", bell_heard(kernel, bell))
    assert kernel.run(VirtualClock(), step_limit=100).reason == "deadlock"


async def bell_heard(kernel, bell):
    await bell.heard(kernel, "listen")
