"""Intervals cover what they should, and blocks are what makes them honest."""

import numpy as np
import pytest

from harness.compare.bootstrap import (
    blocks,
    holm,
    intervals,
    means,
    percentiles,
    ratios,
    resamples_for,
)


def _interval(a, b, *, paired=True, statistics=means, seed=1):
    chance = np.random.default_rng(seed)
    return intervals(a[:, None], b[:, None], statistics, paired=paired, resamples=300,
                     confidence=0.95, chance=chance)  # fmt: skip


def test_blocks_are_runs_of_neighbours_that_wrap_around():
    chosen = blocks(10, 4, np.random.default_rng(0))
    assert chosen.shape == (4, 10)
    steps = np.diff(chosen[:, :9].reshape(4, 3, 3), axis=2)
    assert set((steps % 10).ravel()) == {1}


def test_about_as_many_intervals_hold_the_truth_as_they_say():
    chance = np.random.default_rng(2)
    held = 0
    for trial in range(100):
        a = chance.normal(10, 1, 100)
        b = a * 1.5 + chance.normal(0, 0.5, 100)
        low, high, *_ = _interval(a, b, seed=trial)[0]
        held += low <= 1.5 <= high
    assert 85 <= held <= 100


def test_neighbours_that_move_together_make_intervals_wider():
    chance = np.random.default_rng(3)
    drift = np.repeat(chance.normal(0, 1, 20), 20)
    shuffled = chance.permutation(drift)
    widths = []
    for values in (drift, shuffled):
        found = _interval(10 + values, 10 + values[::-1], paired=False)[0]
        widths.append(found.difference_high - found.difference_low)
    assert widths[0] > 2 * widths[1]


def test_percentiles_are_numpys():
    rows = np.arange(30.0).reshape(1, 30, 1)
    assert percentiles((50, 90))(rows).tolist() == [[14.5, 14.5, 26.1]]


def test_ratios_are_of_sums():
    rows = np.array([[[1.0, 2.0, 4.0], [3.0, 0.0, 4.0]]])
    assert ratios(rows).tolist() == [[0.5, 0.25]]


def test_statistics_that_are_equal_have_ratio_one_even_when_they_are_zero():
    zero = np.zeros(9)
    assert _interval(zero, zero)[0] == (1.0, 1.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(("requests", "drawn"), [(10, 2000), (40_000, 1000), (10**7, 200)])
def test_very_long_runs_get_fewer_resamples(requests, drawn):
    assert resamples_for(requests, 2000) == drawn


def test_holms_rule_adjusts_each_chance_by_how_many_are_left():
    assert holm([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_difference_without_any_spread_is_no_chance():
    a = np.arange(1.0, 10.0)
    assert _interval(a, a + 1)[0].chance == 0.0
