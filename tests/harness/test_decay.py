"""A decay is called one, and nothing else is: not noise, not warm-up, not other traffic."""

import numpy as np
import pytest

from harness.decay import answer_trend, hit_trend, mann_kendall, theil_sen
from harness.record.hit_windows import HitWindow

N = 200


def _windows(shares, *, prompt=1000.0, ideal=0.6, seed=1, noise=0.05):
    """A window a second, ten requests each; `shares` of what could be hit, noise on top."""
    chance = np.random.default_rng(seed)
    found = []
    for place, share in enumerate(np.broadcast_to(shares, N)):
        asked = 10 * np.broadcast_to(prompt, N)[place] * chance.uniform(0.8, 1.2)
        could = asked * np.broadcast_to(ideal, N)[place] * chance.uniform(0.9, 1.0)
        hit = could * np.clip(share + chance.normal(0, noise), 0, 1)
        found.append(HitWindow(place, 1.0, 10, int(asked), int(hit), int(could)))
    return found


def test_hits_that_become_rarer_are_a_decay():
    trend = hit_trend(_windows(np.linspace(0.9, 0.6, N)), filled_s=0.0)
    assert trend.decayed
    assert trend.fall == pytest.approx(0.3, abs=0.07)
    assert trend.chance < 1e-6
    assert trend.why.startswith("hits fell by")


@pytest.mark.parametrize("seed", range(40))
def test_noise_is_no_decay(seed):
    trend = hit_trend(_windows(0.8, seed=seed), filled_s=0.0)
    assert trend.judged
    assert not trend.decayed


@pytest.mark.parametrize("seed", range(10))
def test_swings_are_no_decay(seed):
    waves = 0.7 + 0.2 * np.sin(np.linspace(seed, seed + 18, N))
    assert not hit_trend(_windows(waves, seed=seed), filled_s=0.0).decayed


def test_a_sure_but_small_fall_is_no_decay():
    trend = hit_trend(_windows(np.linspace(0.9, 0.83, N), noise=0.01), filled_s=0.0)
    assert trend.chance < 0.001
    assert not trend.decayed


def test_hits_that_become_more_are_no_decay():
    assert not hit_trend(_windows(np.linspace(0.3, 0.9, N)), filled_s=0.0).decayed


def test_a_cache_that_begins_to_evict_while_it_fills_is_no_decay():
    filling = np.concatenate((np.linspace(1.0, 0.6, 120), np.full(N - 120, 0.6)))
    assert hit_trend(_windows(filling), filled_s=0.0).decayed
    assert not hit_trend(_windows(filling), filled_s=60.0).decayed


def test_where_pools_are_not_known_the_first_quarter_is_left_out():
    early = np.concatenate((np.linspace(1.0, 0.6, 50), np.full(N - 50, 0.6)))
    assert not hit_trend(_windows(early), filled_s=None).decayed
    assert hit_trend(_windows(np.linspace(0.9, 0.5, N)), filled_s=None).decayed


def test_a_run_that_filled_its_pools_until_its_end_is_not_judged():
    trend = hit_trend(_windows(np.linspace(0.9, 0.5, N)), filled_s=95.0)
    assert (trend.judged, trend.decayed) == (False, False)
    assert "too few requests after the pools were full" in trend.why


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"prompt": np.linspace(800, 1600, N)}, "in length"),
     ({"ideal": np.linspace(0.8, 0.4, N)}, "in what they share")],
)  # fmt: skip
def test_a_fall_while_the_traffic_changed_is_told_and_not_judged(changed, words):
    trend = hit_trend(_windows(np.linspace(0.9, 0.6, N), **changed), filled_s=0.0)
    assert (trend.judged, trend.decayed) == (False, False)
    assert words in trend.why


def test_a_fall_in_a_replayed_trace_is_told_and_not_judged():
    windows = _windows(np.linspace(0.9, 0.6, N))
    trend = hit_trend(windows, filled_s=0.0, replayed=True)
    assert (trend.judged, trend.decayed) == (False, False)
    assert trend.fall > 0.2
    assert "a replayed trace" in trend.why


@pytest.mark.parametrize("windows", [[], _windows(0.5)[:5]])
def test_too_little_is_not_judged(windows):
    assert not hit_trend(windows, filled_s=0.0).judged


def test_windows_in_which_nothing_could_be_hit_say_nothing():
    assert not hit_trend(_windows(0.5, ideal=0.0), filled_s=0.0).judged


def test_answers_that_turn_wrong_are_told():
    turned = answer_trend([True] * 20 + [True, False] * 5 + [False] * 20)
    assert turned.decayed
    assert turned.why.startswith("100% of the first third of the answers were right, 0% of the")


def test_answers_that_are_wrong_now_and_then_do_not_decay():
    assert not answer_trend([True, False, True] * 16).decayed
    assert not answer_trend([True] * 50).decayed
    assert not answer_trend([True, False]).judged


def test_mann_kendalls_chance_is_that_of_orders():
    falls = [
        mann_kendall(np.random.default_rng(seed).permutation(20).tolist()) for seed in range(400)
    ]
    assert 0.02 <= np.mean(np.array(falls) <= 0.05) <= 0.09
    assert mann_kendall(range(9)) > 0.999
    assert mann_kendall([1.0] * 9) == 1.0


def test_the_slope_shrugs_off_outliers():
    assert theil_sen([0, 1, 2, 300, 4, 5, -60, 7]) == pytest.approx(1.0)
