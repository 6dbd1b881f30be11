"""A column's statistics are numpy's, exactly for some values and nearly for many."""

import numpy as np
import pytest

from harness.record.column import Column
from harness.record.histogram import RELATIVE_ERROR


def _filled(values, exact_values):
    column = Column(exact_values)
    for value in values:
        column.add(value)
    return column


VALUES = np.random.Generator(np.random.PCG64(7)).lognormal(2.0, 1.5, 5000)


def test_up_to_the_limit_percentiles_are_exact():
    column = _filled(VALUES, len(VALUES))
    found = column.statistics()
    assert found[1:] == pytest.approx(
        (np.median(VALUES), VALUES.std(), *np.percentile(VALUES, (90, 99))), rel=1e-12
    )


def test_beyond_the_limit_percentiles_are_near_and_the_mean_is_exact():
    column = _filled(VALUES, 100)
    found = column.statistics()
    assert column.count == len(VALUES)
    assert found.mean == pytest.approx(VALUES.mean(), rel=1e-9)
    assert found.std == pytest.approx(VALUES.std(), rel=1e-9)
    for name, percent in (("median", 50), ("p90", 90), ("p99", 99)):
        exact = np.percentile(VALUES, percent)
        assert getattr(found, name) == pytest.approx(exact, rel=RELATIVE_ERROR * 1.01)


def test_memory_is_bounded_whatever_the_number_of_values():
    column = _filled(range(200), 100)
    assert len(column._exact) == 0
    assert (column.count, column.statistics().mean) == (200, 99.5)


def test_a_time_that_ran_back_by_a_grain_counts_as_none():
    assert _filled([-1e-6, 2.0, 4.0], 1).statistics().mean == 2.0


def test_no_value_is_zero():
    assert Column().statistics() == (0.0,) * 5
