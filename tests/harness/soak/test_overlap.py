"""A soak on the wall clock whose forwards wait for load-backs layer by layer."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cache.config import Component, Tier
from cache.tensors import TensorStore
from harness.engine.streams import CopyStreams
from harness.record.decisions import read_decisions
from harness.soak.follow import Follower
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
    with a_soak(tmp_path, SWA, None) as soak:
        summary = soak.run().summary
    assert summary["ahead_forwards"] > 0
    assert (summary["violations"], summary["completed"]) == (0, 12)
    with a_soak(tmp_path, replace(SWA, load_back_overlap=""), None) as soak:
        assert soak.run().summary["ahead_forwards"] == 0


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


def test_n1_sees_a_forward_that_does_not_wait_for_its_layers(tmp_path: Path) -> None:
    """Each load-back is held back until a forward is over that should have waited for it."""

    def do_not_wait(soak: Soak) -> None:
        network = soak.world.scheduler.forward._executor._network  # type: ignore[attr-defined]
        over, ended, forward = threading.Condition(), [0], network.forward

        def forward_anyway(pieces, ready):  # type: ignore[no-untyped-def]
            try:
                return forward(pieces)
            finally:
                with over:
                    ended[0] += 1
                    over.notify_all()

        network.forward = forward_anyway
        store = device_store(soak, Component.FULL)
        take = store.take_layers

        def late(other, source, target, layers):  # type: ignore[no-untyped-def]
            if layers.start == 0:
                with over:
                    before = ended[0]
                    over.wait_for(lambda: ended[0] > before, timeout=PATIENCE_S)
            take(other, source, target, layers)

        store.take_layers = late  # type: ignore[method-assign]

    done = soaked(tmp_path, SWA, do_not_wait, oracles="off")
    assert done.summary["violations"] > 0
    path = done.recorded.directory.path / "violations.jsonl"
    assert '"oracle":"N1"' in path.read_text().splitlines()[0].replace(" ", "")
