"""Two places are told, one is not, whatever its shape."""

import numpy as np
import pytest

from harness.compare.modes import two_modes

CHANCE = np.random.default_rng(11)
ONE = {
    "skewed": CHANCE.lognormal(3, 1, 400),
    "exponential": CHANCE.exponential(5, 400),
    "a few stragglers": np.concatenate((CHANCE.normal(10, 1, 300), CHANCE.normal(900, 9, 9))),
    "constant": np.full(100, 5.0),
    "too few": np.array([1.0, 100.0] * 10),
    "nothing": np.array([]),
    "zeros": np.zeros(50),
}


@pytest.mark.parametrize("values", ONE.values(), ids=ONE.keys())
def test_one_place_is_not_called_two(values):
    assert two_modes(values) is None


def test_hits_and_misses_are_two_places():
    values = np.concatenate((CHANCE.normal(12, 1, 300), CHANCE.normal(400, 40, 100)))
    modes = two_modes(CHANCE.permutation(values))
    assert modes.low == pytest.approx(12, rel=0.05)
    assert modes.high == pytest.approx(400, rel=0.1)
    assert modes.share == pytest.approx(0.75)
    assert modes.chance <= 0.01


def test_the_same_values_get_the_same_answer():
    values = np.concatenate((CHANCE.normal(10, 1, 60), CHANCE.normal(20, 1, 60)))
    assert two_modes(values) == two_modes(values.copy())
