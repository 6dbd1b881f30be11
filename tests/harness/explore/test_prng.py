"""Seeded chance: known values, fair bounds, independent labels."""

import pytest

from harness.explore.prng import SplitMix, derive


def test_the_stream_is_splitmix64() -> None:
    rng = SplitMix(1234567)
    assert [rng.bits() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_every_value_below_a_bound_comes_about_equally_often() -> None:
    rng, counts = SplitMix(5), [0] * 7
    for _ in range(7000):
        counts[rng.below(7)] += 1
    # Six standard deviations of a binomial with n = 7000 and p = 1/7 are 176.
    assert all(abs(count - 1000) < 176 for count in counts)


def test_weights_are_shares() -> None:
    rng, counts = SplitMix(9), [0] * 3
    for _ in range(10_000):
        counts[rng.weighted([1, 0, 3])] += 1
    assert counts[1] == 0
    assert abs(counts[0] - 2500) < 6 * (10_000 * 0.25 * 0.75) ** 0.5


@pytest.mark.parametrize(("bound", "count"), [(10, 3), (3, 3), (2, 5), (5, 0)])
def test_a_sample_is_ascending_and_without_repeats(bound: int, count: int) -> None:
    for seed in range(50):
        sample = SplitMix(seed).sample(bound, count)
        assert len(sample) == min(bound, count)
        assert sample == sorted(set(sample))
        assert all(0 <= n < bound for n in sample)


def test_labels_give_other_seeds_always_the_same() -> None:
    assert derive(7, "scenario") == derive(7, "scenario") == 2493282998969244430
    assert len({derive(seed, label) for seed in range(50) for label in ("a", "b")}) == 100
