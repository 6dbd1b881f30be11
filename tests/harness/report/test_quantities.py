"""Numbers on a page are short, have a unit and never round to a lie."""

import pytest

from harness.report.quantities import count, duration, percent, plural, size


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (0, "0 ms"),
        (0.0004, "400 ns"),
        (0.085, "85 µs"),
        (1.0, "1 ms"),
        (412.3, "412 ms"),
        (6_100, "6.1 s"),
        (119_000, "119 s"),
        (192_000, "3.2 min"),
        (5.4e6 * 2, "3 h"),
        (float("nan"), "none"),
    ],
)
def test_durations_use_the_unit_that_fits(value_ms, text):
    assert duration(value_ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(512, "512 B"), (1536, "1.5 KiB"), (3 << 30, "3 GiB"), (5 << 50, "5,120 TiB")],
)
def test_sizes_are_binary(value, text):
    assert size(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.61, "61 %"),
        (0.9999, "99.9 %"),
        (1e-6, "0.1 %"),
        (0.004, "0.4 %"),
    ],
)
def test_a_rate_is_0_or_100_percent_only_when_it_is(ratio, text):
    assert percent(ratio) == text


def test_counts_have_separators_and_nouns_a_number():
    assert (count(12031), count(0.42), count(6.27)) == ("12,031", "0.42", "6.3")
    assert (plural(1, "request"), plural(2000, "page")) == ("1 request", "2,000 pages")
