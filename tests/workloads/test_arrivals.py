"""Arrival rules keep their rate and their shape, and moving a workload changes nothing else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.arrivals import Burst, Constant, Gamma, Poisson, Recorded, reschedule
from workloads.errors import WorkloadError
from workloads.synthetic import Chat, Unique

N = 20_001  # that many arrivals have 20,000 gaps

RULES = [
    Constant(3.0),
    Poisson(3.0),
    Gamma(3.0, 0.25),
    Burst(5, 2.0),
    Recorded(tuple(i / 7 for i in range(40)), 2.0),
]


def rng(seed=1):
    return np.random.Generator(np.random.PCG64(seed))


@given(st.sampled_from(RULES), st.integers(0, 40), st.integers(0, 1000))
def test_times_are_sorted_begin_at_zero_and_repeat(rule, n, seed):
    times = rule.times(n, rng(seed))
    assert times.shape == (n,)
    assert np.all(np.diff(times) >= 0)
    assert n == 0 or times[0] == 0
    assert times.tobytes() == rule.times(n, rng(seed)).tobytes()


def test_constant_arrivals_are_evenly_spaced():
    assert Constant(4).times(5, rng()).tolist() == [0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_mean_and_the_variation_they_promise(burstiness):
    rate = 5.0
    gaps = np.diff(Gamma(rate, burstiness).times(N, rng()))
    # The mean of n gaps deviates by mean * cv / sqrt(n). The squared variation of a gamma variable
    # of shape k has relative variance of about (2 + 6/k)/n. Five deviations of each.
    cv = burstiness**-0.5
    n = len(gaps)
    assert abs(gaps.mean() - 1 / rate) < 5 * cv / rate / math.sqrt(n)
    variance = cv**2 / rate**2
    assert abs(gaps.var() - variance) < 5 * variance * math.sqrt((2 + 6 / burstiness) / n)


def test_poisson_gaps_are_exponential():
    rate = 5.0
    gaps = np.sort(np.diff(Poisson(rate).times(N, rng())))
    n = len(gaps)
    # Kolmogorov-Smirnov: sqrt(n) * D exceeds 2.5 with a probability of 2 exp(-12.5), below 1e-5.
    expected = 1 - np.exp(-rate * gaps)
    ranks = np.arange(n + 1) / n
    distance = max(np.max(ranks[1:] - expected), np.max(expected - ranks[:-1]))
    assert math.sqrt(n) * distance < 2.5


def test_bursts_arrive_all_at_once_every_so_often():
    assert Burst(3, 10.0).times(7, rng()).tolist() == [0, 0, 0, 10, 10, 10, 20]


def test_recorded_times_are_scaled():
    assert Recorded([0, 1.5, 4], 2.0).times(2, rng()).tolist() == [0, 3.0]
    with pytest.raises(WorkloadError, match="5 sessions need 5 recorded times; got 3"):
        Recorded([0, 1.5, 4]).times(5, rng())


@pytest.mark.parametrize("rule", [Constant(math.inf), Poisson(math.inf), Gamma(math.inf, 0.5)])
def test_an_infinite_rate_puts_everything_at_zero(rule):
    assert rule.times(4, rng()).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Constant(0), "request rate must be more than 0"),
        (lambda: Poisson(-1), "request rate must be more than 0"),
        (lambda: Poisson(math.nan), "request rate must be more than 0"),
        (lambda: Gamma(1, 0), "burstiness must be more than 0"),
        (lambda: Gamma(1, math.inf), "burstiness must be finite"),
        (lambda: Burst(0, 1), "burst size must be at least 1"),
        (lambda: Burst(1, 0), "time between bursts must be more than 0"),
        (lambda: Burst(1, math.inf), "time between bursts must be finite"),
        (lambda: Recorded([1.0], math.inf), "time scale must be finite"),
        (lambda: Recorded([1.0], 0), "time scale must be more than 0"),
        (lambda: Recorded([2.0, 1.0]), "in order"),
        (lambda: Recorded([math.nan]), "finite"),
    ],
)
def test_a_rule_that_cannot_be_says_why(make, said):
    with pytest.raises(WorkloadError, match=said) as error:
        make()
    assert "\n" not in str(error.value)


def test_rescheduling_moves_sessions_and_nothing_else():
    chat = Chat(num_clients=6, num_rounds=3)
    moved = reschedule(chat, Constant(2.0), seed=3)
    assert [session.turns[0].arrival_s for session in moved.sessions()] == [0, 0.5, 1, 1.5, 2, 2.5]
    for before, after in zip(chat.sessions(), moved.sessions(), strict=True):
        for old, new in zip(before.turns, after.turns, strict=True):
            assert (new.request_id, new.prompt, new.delay_s) == (
                old.request_id,
                old.prompt,
                old.delay_s,
            )
            distance = old.arrival_s - before.turns[0].arrival_s
            assert new.arrival_s - after.turns[0].arrival_s == pytest.approx(distance)
    assert moved.name == "chat"
    assert moved.source["arrivals"] == "Constant(rate_per_s=2.0)"
    assert moved.digest() != chat.digest()


def test_rescheduling_repeats_for_a_seed_and_differs_for_another():
    unique = Unique(num_requests=10)
    moved = reschedule(unique, Poisson(1.0), seed=3)
    assert moved.digest() == moved.digest() == reschedule(unique, Poisson(1.0), seed=3).digest()
    assert moved.digest() != reschedule(unique, Poisson(1.0), seed=4).digest()
