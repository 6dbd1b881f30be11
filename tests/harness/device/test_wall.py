"""Real copies in a world on the wall clock make the same steps as modelled ones."""

import pytest

from cache.config import Tier
from harness.device.wall import WallStreams
from harness.engine.compute import NullCompute
from harness.engine.streams import Streams
from harness.explore.kernel import Kernel, Signal
from harness.explore.pickers import VirtualClock
from harness.serve.wall_clock import WallClock
from tests.cache.builders import a_key, admit
from tests.harness.device.rig import Rig

KEY, OTHER = a_key([1, 2]), a_key([7])
STEPS = 1_000


def run(rig, clock, streams_of, *, before_waiting=lambda streams, tier: None):
    """Two backups, then a load-back; the points that the copies' tasks came to."""
    kernel, landed, seen = Kernel(), Signal("landed"), []
    streams = streams_of(kernel, landed)
    rig.gate.set()

    async def acknowledged(tier):
        while (copy := rig.cache.transfers.next_to_acknowledge(tier)) is None:
            await kernel.wait(landed, "scheduler.idle")
        rig.cache.acknowledge(copy)

    async def scheduler():
        await kernel.pause(0.0, "begin")  # the streams are idle by now
        rig.cache.finish(rig.start(KEY, "writer"), KEY)
        rig.compute.record().wait()  # modelled copies have no fence
        streams.kick()
        before_waiting(streams, Tier.HOST)
        rig.cache.finish(rig.start(OTHER, "another"), OTHER)  # of whose backup nobody tells
        rig.compute.record().wait()
        await acknowledged(Tier.HOST)
        await acknowledged(Tier.HOST)
        rig.demote_all()
        table = admit(rig.cache, KEY, "reader")
        rig.compute.record().wait()
        streams.kick()
        before_waiting(streams, Tier.DEVICE)
        await acknowledged(Tier.DEVICE)
        assert rig.cache.read(table, 4).full == KEY.prints()[:2]
        rig.cache.abort(table)

    kernel.on_step = lambda task, point: seen.append((task.name, point.name, point.obj))
    streams.start()
    kernel.spawn("scheduler", scheduler())
    ended = kernel.run(clock, step_limit=STEPS)
    assert ended.error is None, ended.error
    assert ended.reason == "finished"
    assert 2 * streams.bytes_moved[Tier.HOST] == 3 * streams.bytes_moved[Tier.DEVICE] > 0
    assert rig.found == []
    return [step for step in seen if step[0] in ("h2d", "d2h")]


def modelled():
    with Rig() as rig:
        return run(
            rig,
            VirtualClock(),
            lambda kernel, landed: Streams(kernel, rig.cache, NullCompute(), landed),
        )


def wait_for_bytes(streams, tier):
    """The copy is over before its task looks for it."""
    (flight,) = streams.device.flights(streams._cache.transfers.queues[tier])
    flight.job.end.wait()


@pytest.mark.parametrize("before_waiting", [lambda streams, tier: None, wait_for_bytes])
def test_a_real_copy_makes_the_steps_of_a_modelled_one(before_waiting):
    with Rig() as rig:
        clock = WallClock()
        points = run(
            rig,
            clock,
            lambda kernel, landed: WallStreams(
                kernel,
                clock,
                rig.cache,
                rig.links,
                landed,
                fence=lambda rank: [rig.compute.record()],
            ),
            before_waiting=before_waiting,
        )
        clock.close()
    assert points == modelled()
    assert [name for _, name, _ in points].count("copy.run") == 3
