"""Copies on real streams: fenced against the compute both ways, layer by layer, told in turn."""

import threading

import pytest

from cache.config import Component, Tier
from cache.contract import Demand
from cache.layout import Layout
from cache.transfers import CopyState
from harness.device.movers import mover_of
from harness.engine.hardware import IoBackend
from tests.cache.builders import a_config, a_key, admit
from tests.harness.device.rig import Rig

FULL, SWA = Component.FULL, Component.SWA
KEY = a_key([1, 2])
every_layout = pytest.mark.parametrize("layout", Layout)
every_device = pytest.mark.parametrize(
    ("device", "backend"),
    [
        ("cpu", IoBackend.DIRECT),
        pytest.param("cuda", IoBackend.DIRECT, marks=pytest.mark.gpu),
        pytest.param("cuda", IoBackend.KERNEL, marks=pytest.mark.gpu),
    ],
)


def backed_up_early(rig: Rig) -> None:
    """A backup is queued while the forward that writes its pages is still at work."""
    rig.cache.finish(rig.start(KEY, "writer"), KEY)
    rig.streams.kick()
    (flight,) = rig.streams.flights(rig.cache.transfers.queues[Tier.HOST])
    rig.open_gate_after(flight)
    rig.land()


@every_device
@every_layout
def test_a_backup_waits_for_the_forward_that_writes_its_pages(layout, device, backend):
    with Rig(layout=layout, device=device, mover=mover_of(backend, device)) as rig:
        backed_up_early(rig)
        slots = rig.cache.tree.walk(KEY, 4)[-1].slots[Tier.HOST][FULL]
        assert rig.found == []
        assert rig.store(Tier.HOST).damaged(slots) == []
        assert rig.store(Tier.HOST).read(slots) == KEY.prints()[:2]


@every_device
def test_a_backup_without_a_fence_is_seen_by_the_content_oracle(device, backend):
    with Rig(fenced=False, device=device, mover=mover_of(backend, device)) as rig:
        backed_up_early(rig)
        assert "C2 stored.host_full" in rig.signatures()


def loaded_early(rig: Rig) -> list[int]:
    """Pages are loaded into slots that the forward of an aborted request has yet to write."""
    rig.serve(KEY, "owner")
    rig.demote_all()
    other = a_key([7, 8, 9, 6])
    aborted = rig.start(other, "aborted")
    used = list(aborted.full)
    rig.cache.abort(aborted)
    table = admit(rig.cache, KEY, "reader")
    assert set(table.full) <= set(used)
    (flight,) = rig.streams.flights(table.waits)
    rig.open_gate_after(flight)
    rig.land()
    rig.cache.read(table, 4)
    return table.full


@every_device
@every_layout
def test_a_load_back_waits_for_the_forward_that_still_writes_its_pages(layout, device, backend):
    with Rig(layout=layout, device=device, mover=mover_of(backend, device)) as rig:
        slots = loaded_early(rig)
        assert rig.found == []
        assert rig.store(Tier.DEVICE).damaged(slots) == []


@every_device
def test_a_load_back_without_a_fence_is_seen_by_the_content_oracle(device, backend):
    with Rig(fenced=False, device=device, mover=mover_of(backend, device)) as rig:
        slots = loaded_early(rig)
        assert "C2 stored.device_full" in rig.signatures()
        assert rig.store(Tier.DEVICE).read(slots) != KEY.prints()[:2]


def test_compute_goes_on_with_a_layer_before_the_next_one_has_come():
    with Rig(layout=Layout.PAGE_FIRST_DIRECT) as rig:
        rig.serve(KEY, "owner")
        rig.demote_all()
        hold, seen = threading.Event(), []
        take = rig.store(Tier.DEVICE).take_layers

        def held(other, source, target, layers):
            if layers.start == 1:
                hold.wait()
            take(other, source, target, layers)

        rig.store(Tier.DEVICE).take_layers = held
        table = admit(rig.cache, KEY, "reader")
        (flight,) = rig.streams.flights(table.waits)

        def attend():
            for layer in range(3):
                assert flight.layer_ready((FULL, layer)).wait()
                seen.append(layer)
                if layer == 0:
                    hold.set()

        rig.compute.submit([attend])
        rig.compute.record().wait()
        assert seen == [0, 1, 2]
        assert flight.layer_ready((SWA, 0)).done, "the copy has nothing of that component"
        rig.land()
        rig.cache.read(table, 4)
        assert rig.found == []


@pytest.mark.parametrize(
    ("layout", "steps"),
    [
        (Layout.PAGE_FIRST, [range(3)]),
        (Layout.PAGE_FIRST_DIRECT, [range(n, n + 1) for n in range(3)]),
        (Layout.LAYER_FIRST, [range(n, n + 1) for n in range(3)]),
    ],
)
def test_layers_that_lie_side_by_side_come_in_one_step(layout, steps):
    with Rig(layout=layout) as rig:
        rig.serve(KEY, "owner")
        rig.demote_all()
        store, seen = rig.store(Tier.DEVICE), []
        take = store.take_layers
        store.take_layers = lambda *copy: (seen.append(copy[-1]), take(*copy))
        table = admit(rig.cache, KEY, "reader")
        (flight,) = rig.streams.flights(table.waits)
        events = {flight.layer_ready((FULL, layer)) for layer in range(3)}
        assert len(events) == len(steps)
        assert flight.job.end in events
        rig.land()
        rig.cache.read(table, 4)
        assert seen == steps
        assert store.damaged(table.full) == []
        assert rig.found == []


def test_a_copy_whose_stream_fails_breaks_and_everything_is_as_before():
    with Rig() as rig:
        rig.serve(KEY, "owner")
        rig.demote_all()

        def fails(*_):
            raise RuntimeError("the device has fallen off the bus")

        rig.store(Tier.DEVICE).take_layers = fails
        table = admit(rig.cache, KEY, "reader")
        (flight,) = rig.streams.flights(table.waits)
        assert not flight.layer_ready((FULL, 0)).wait()
        (copy,) = rig.land()
        assert copy.state is CopyState.FAILED
        assert rig.streams.failed == 1
        rig.cache.abort(table)
        assert rig.found == []


def test_an_error_of_the_program_is_raised_in_the_schedulers_thread():
    with Rig() as rig:
        rig.serve(KEY, "owner")
        rig.demote_all()
        rig.store(Tier.DEVICE).take_layers = lambda: None
        admit(rig.cache, KEY, "reader")
        with pytest.raises(TypeError):
            rig.land()


def test_a_world_at_rest_finishes_its_copies_itself():
    with Rig() as rig:
        rig.gate.set()
        rig.cache.finish(rig.start(KEY, "first"), KEY)
        rig.streams.kick()
        other = a_key([5])
        rig.cache.finish(rig.start(other, "second"), other)  # whose copy no stream was given
        rig.compute.record().wait()
        rig.streams.drain()
        while (copy := rig.cache.transfers.next_to_acknowledge(Tier.HOST)) is not None:
            rig.cache.acknowledge(copy)
        rig.inbox.get(timeout=60)()  # the stream's own word comes too late, and changes nothing
        assert rig.streams.bytes_moved[Tier.HOST] == 3 * rig.store(Tier.HOST).shape.page_bytes
        assert rig.found == []


def test_every_component_of_a_node_is_copied_both_ways():
    config = a_config(full=(6, 8), swa=(4, 6), window=4, mamba=(3, 3))
    with Rig(config=config) as rig:
        rig.serve(KEY, "owner")
        rig.cache.make_room(Demand(6, 4, 3))
        table = admit(rig.cache, KEY, "reader")
        assert table.waits
        moved = rig.land()
        assert {part.component for copy in moved for part in copy.parts} == set(config.components)
        rig.cache.abort(table)
        assert rig.found == []
