"""A copy's time is a beginning and its bytes; both come out of what was measured."""

import pytest

from cache.layout import Layout
from cache.model import KvDtype
from cache.shapes import load_shape
from harness.calibrate import copies
from harness.calibrate.findings import Settings
from harness.engine.compute import Direction


def test_a_straight_line_is_found_exactly():
    points = [(size, 3e-5 + size / 2e9) for size in (10_000, 40_000, 160_000)]
    begin, bandwidth, worst = copies.fit(points)
    assert begin == pytest.approx(3e-5)
    assert bandwidth == pytest.approx(2e9)
    assert worst == pytest.approx(0, abs=1e-9)


def test_a_line_that_noise_has_bent_goes_through_the_origin_and_says_how_far_off_it_is():
    begin, bandwidth, worst = copies.fit([(1_000, 1e-6), (2_000, 4e-6)])
    assert 0 < begin <= 1e-9
    assert bandwidth == pytest.approx(1 / 1.5e-9)
    assert worst == pytest.approx(0.5, rel=0.01)


def test_every_layout_is_measured_both_ways_at_every_size():
    settings = Settings(
        shape=load_shape("tiny"),
        page_size=4,
        kv_dtype=KvDtype.BF16,
        tp=1,
        device="cpu",
        repeats=2,
    )
    found = copies.measure(settings)
    rates = found.hardware["copies"]
    ways = {(rate.layout, rate.direction) for rate in rates}
    assert ways == {(layout, way.name) for layout in Layout for way in Direction}
    assert len(found.samples) == len(Direction) + len(rates) * len(copies.PAGES)
    assert found.misfits.keys() == {
        f"direct {layout} {way.name.lower()}" for layout in Layout for way in Direction
    }
    assert all(rate.bandwidth > 0 and rate.begin_s > 0 for rate in rates)
