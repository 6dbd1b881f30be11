"""A soak on the wall clock whose forwards wait for load-backs layer by layer."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cache.config import Component, Tier
from cache.tensors import TensorStore
from harness.engine.overlap import Overlap
from harness.engine.streams import CopyStreams
from harness.record.decisions import read_decisions
from harness.soak.follow import Follower
from harness.soak.plan import overlap_of
from harness.soak.run import Soak, Soaked
from harness.soak.wall import recorded_clock
from tests.harness.soak.test_model_soak import SERVING, a_soak, one_thread

__all__ = ["one_thread"]  # a fixture
PATIENCE_S = 5
SWA = replace(
    SERVING,
    model="tiny-swa",
    device_pages=28,
    chunked_prefill_size=512,
    hicache_mem_layout="page_first_direct",  # a layer at a time
    load_back_overlap="layer",
)


def device_store(soak: Soak, component: Component) -> TensorStore:
    store = soak.cache.pool(component, Tier.DEVICE).store
    assert isinstance(store, TensorStore)
    return store


def ahead_forwards(soak: Soak) -> int:
    assert soak._computed is not None
    return soak._computed._launcher.ahead


def soaked(folder: Path, serving: Any, change: Callable[[Soak], None], **more: Any) -> Soaked:
    with recorded_clock(folder) as clock, a_soak(folder, serving, clock, wall=True, **more) as soak:
        change(soak)
        return soak.run()


@pytest.mark.parametrize("decoding", ["trace", "greedy"])
def test_forwards_begin_ahead_of_load_backs_and_are_followed(tmp_path: Path, decoding: str) -> None:
    serving = replace(SWA, decoding=decoding)
    kept = tmp_path / "kept"
    kept.mkdir()
    with recorded_clock(kept) as clock, a_soak(tmp_path, serving, clock, wall=True) as soak:
        assert soak.drive().reason == "finished"
    assert ahead_forwards(soak) > 0
    assert soak._recorder.violations == 0
    decisions = list(read_decisions(kept))
    again = replace(serving, compute="null") if decoding == "trace" else serving
    with a_soak(tmp_path, again, Follower(iter(decisions)), wall=True) as followed:
        assert followed.drive().reason == "finished"
    assert followed.world.digest == soak.world.digest
    assert followed._recorder.violations == 0


def test_the_virtual_clock_overlaps_if_it_is_told_to(tmp_path: Path) -> None:
    with a_soak(tmp_path, replace(SWA, check_logits=0.3), None) as soak:
        summary = soak.run().summary
    assert summary["ahead_forwards"] > 0
    assert (summary["violations"], summary["completed"]) == (0, 12)


def test_what_is_left_to_the_clock_is_by_layer_for_a_model_on_the_wall_clock() -> None:
    free = replace(SWA, load_back_overlap="")
    assert overlap_of(free, "wall") is Overlap.LAYER
    assert overlap_of(free, "virtual") is Overlap.NONE
    assert overlap_of(replace(free, compute="roofline"), "wall") is Overlap.NONE


def test_a_forward_whose_load_back_fails_on_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    streams: list[CopyStreams] = []

    def fail_once(soak: Soak) -> None:
        streams.append(soak.world.streams)
        store = device_store(soak, Component.FULL)
        take, calls = store.take_layers, []

        def fails(other, source, target, layers):  # type: ignore[no-untyped-def]
            calls.append(layers)
            if len(calls) == 2:  # the first layer has come, and a forward may have read it
                raise RuntimeError("the device has fallen off the bus")
            take(other, source, target, layers)

        store.take_layers = fails  # type: ignore[method-assign]

    summary = soaked(tmp_path, SWA, fail_once).summary
    assert summary["violations"] == 0
    assert summary["completed"] == 12
    assert summary["ahead_forwards"] > 0
    assert streams[0].failed == 1


@pytest.mark.parametrize("waits", [True, False])
def test_n1_sees_a_forward_that_does_not_wait_for_its_layers(tmp_path: Path, waits: bool) -> None:
    """No layer comes before a forward has asked for one; or, without waiting, is over."""
    told, times = threading.Condition(), [0]

    def tell() -> None:
        with told:
            times[0] += 1
            told.notify_all()

    def hold_layers(soak: Soak) -> None:
        network = soak.world.scheduler.forward._executor._network  # type: ignore[attr-defined]
        forward, store = network.forward, device_store(soak, Component.FULL)
        take = store.take_layers

        def ask_and_wait(pieces, ready):  # type: ignore[no-untyped-def]
            def asked(component: Component, layer: int) -> None:
                tell()
                ready(component, layer)

            return forward(pieces, asked)

        def do_not_wait(pieces, ready):  # type: ignore[no-untyped-def]
            rows = forward(pieces)
            tell()
            return rows

        def late(other, source, target, layers):  # type: ignore[no-untyped-def]
            if layers.start == 0:
                with told:
                    before = times[0]
                    told.wait_for(lambda: times[0] > before, timeout=PATIENCE_S)
            take(other, source, target, layers)

        network.forward = ask_and_wait if waits else do_not_wait
        store.take_layers = late  # type: ignore[method-assign]

    done = soaked(tmp_path, SWA, hold_layers, oracles="off")
    path = done.recorded.directory.path / "violations.jsonl"
    found = path.read_text().splitlines() if path.exists() else []
    assert all('"oracle":"N1"' in line.replace(" ", "") for line in found)
    assert bool(found) is not waits
