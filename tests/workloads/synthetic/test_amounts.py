"""Distributions keep their range, and are read in the form in which they are printed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import WorkloadError
from workloads.synthetic.amounts import Always, LogNormal, Uniform, parse_amount, pauses_s, tokens
from workloads.synthetic.chances import generator


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("512", Always(512)),
        (" 0.5", Always(0.5)),
        ("uniform:64,512", Uniform(64, 512)),
        ("lognormal:512,0.8", LogNormal(512, 0.8)),
        ("lognormal:512,0.8,4096", LogNormal(512, 0.8, 4096)),
    ],
)
def test_a_distribution_is_read_as_it_is_written(text, amount):
    assert parse_amount(text) == amount
    assert parse_amount(str(amount)) == amount


@pytest.mark.parametrize(
    "text",
    ["", "x", "1,2", "uniform:1", "uniform:", "normal:1,2", "lognormal:1", "lognormal:1,2,3,4"],
)
def test_what_is_no_distribution_is_refused_with_the_forms(text):
    with pytest.raises(WorkloadError, match="write 512, uniform:64,512 or lognormal:512"):
        parse_amount(text)


@pytest.mark.parametrize(
    "text",
    [
        "-1",
        "nan",
        "inf",
        "1e30",
        "uniform:5,4",
        "uniform:-1,4",
        "uniform:0,inf",
        "lognormal:0,1",
        "lognormal:9,-1",
        "lognormal:9,1,8",
        "lognormal:9,nan",
    ],
)
def test_a_distribution_that_cannot_be_is_refused(text):
    with pytest.raises(WorkloadError, match="needs"):
        parse_amount(text)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 1000))
def test_uniform_lengths_stay_in_their_range(low, more, seed):
    drawn = tokens(Uniform(low, low + more), generator(seed), 20)
    assert all(max(low, 1) <= length <= max(low + more, 1) for length in drawn)


def test_half_of_a_lognormal_is_above_its_median_and_none_above_the_most():
    drawn = LogNormal(100, 1.0, 200).draw(generator(1), 4000)
    # A binomial share of 4,000 has a deviation of 0.0079; a z-score of ln 2 has 24.4 % above it.
    assert abs(np.mean(drawn > 100) - 0.5) < 5 * 0.0079
    above = 0.5 * math.erfc(math.log(2) / math.sqrt(2))
    assert abs(np.mean(drawn == 200) - above) < 5 * 0.0079
    assert drawn.max() == 200


def test_a_length_is_at_least_one_token():
    assert tokens(Always(0), generator(1), 2) == [1, 1]


def test_pauses_are_whole_microseconds():
    pauses = pauses_s(Uniform(0, 1), generator(1), 50)
    assert all(pause == round(pause, 6) for pause in pauses)
