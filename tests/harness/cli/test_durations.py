"""What people type as a duration or a rate."""

import click
import pytest

from harness.cli.durations import Duration, Rate, text_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("4h", 14400), ("1h30m", 5400), ("500ms", 0.5)],
)
def test_a_duration_is_read_as_it_is_typed(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "abc", "-5m", "0", "0s", "10 m x", "1y"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="10m"):
        Duration().convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "fast"])
def test_a_rate_must_be_above_zero(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Rate().convert(text, None, None)


def test_everything_at_once_is_a_rate() -> None:
    assert Rate().convert("inf", None, None) == float("inf")


@pytest.mark.parametrize("text", ["10m", "4h", "90s", "2d"])
def test_a_duration_is_told_as_it_is_typed(text: str) -> None:
    assert text_of(Duration().convert(text, None, None)) == text
