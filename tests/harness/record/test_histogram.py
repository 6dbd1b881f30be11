"""A histogram answers like numpy on the raw values, within its stated error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.record.histogram import RELATIVE_ERROR, Histogram

DURATIONS = st.floats(min_value=1e-8, max_value=1e6)
WEIGHTED = st.lists(st.tuples(DURATIONS, st.integers(1, 50)), min_size=1, max_size=60)


def filled(pairs):
    histogram = Histogram()
    for value, count in pairs:
        histogram.add(value, count)
    return histogram


def raw(pairs):
    return np.repeat([value for value, _ in pairs], [count for _, count in pairs])


@given(WEIGHTED, st.floats(0, 100))
def test_percentiles_are_numpys_within_the_stated_error(pairs, percent):
    exact = np.percentile(raw(pairs), percent)
    assert filled(pairs).percentile(percent) == pytest.approx(exact, rel=RELATIVE_ERROR + 1e-9)


@given(WEIGHTED)
def test_mean_std_and_extremes_are_those_of_the_values(pairs):
    histogram, values = filled(pairs), raw(pairs)
    assert histogram.count == len(values)
    assert histogram.mean == pytest.approx(values.mean(), rel=1e-9)
    assert histogram.std == pytest.approx(values.std(), rel=1e-6, abs=1e-9 * values.max())
    assert (histogram.smallest, histogram.largest) == (values.min(), values.max())


@given(WEIGHTED, WEIGHTED)
def test_merging_is_recording_both(left, right):
    merged, both = filled(left), filled(left + right)
    merged.merge(filled(right))
    assert merged.count == both.count
    assert merged.mean == pytest.approx(both.mean, rel=1e-9)
    assert merged.std == pytest.approx(both.std, rel=1e-6, abs=1e-9 * both.largest)
    for percent in (0, 50, 90, 99, 100):
        assert merged.percentile(percent) == both.percentile(percent)


def test_the_stated_error_is_below_half_a_percent():
    assert RELATIVE_ERROR < 0.005


def test_a_constant_has_no_deviation_and_is_reported_exactly():
    histogram = filled([(0.013, 1_000_000), (0.013, 5)])
    assert histogram.std == 0
    assert histogram.percentile(99) == 0.013


def test_an_empty_one_answers_zero_and_merging_it_changes_nothing():
    empty, histogram = Histogram(), filled([(2.0, 3)])
    assert (empty.mean, empty.std, empty.percentile(50)) == (0, 0, 0)
    histogram.merge(empty)
    empty.merge(histogram)
    assert (empty.count, empty.mean, empty.smallest) == (3, 2.0, 2.0)


def test_zero_and_absurd_durations_stay_in_bounds():
    histogram = filled([(0.0, 3), (1e-12, 3), (1e12, 3)])
    assert histogram.percentile(0) == 0
    assert histogram.percentile(100) <= 1e12


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_what_is_not_a_duration_is_refused(value):
    with pytest.raises(AssertionError, match="not a duration"):
        Histogram().add(value)


def test_a_count_of_zero_records_nothing():
    histogram = filled([(1.0, 0)])
    assert (histogram.count, histogram.largest) == (0, 0)
