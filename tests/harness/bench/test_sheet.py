"""A table keeps what was measured, and shows what was not as nothing."""

import pytest
from rich.console import Console

from harness.bench.sheet import Sheet, markdown, show, spread_of, text_of, tidy_rows

SHEET = Sheet(
    name="doors",
    title="Doors",
    notes=("By hand.",),
    columns=("door", "opened_ms", "digest"),
    rows=(("front | left", 1234.5, "0f"), ("back", None, "1e")),
)


def test_a_spread_has_the_middle_the_ends_and_the_distance_of_the_quartiles():
    assert spread_of([4.0, 1.0, 2.0, 3.0, 100.0]) == (3.0, 1.0, 100.0, 2.0)


def test_one_repeat_has_no_spread():
    assert spread_of([7.0]) == (7.0, 7.0, 7.0, 0.0)


def test_a_row_without_a_cell_for_every_column_is_refused():
    with pytest.raises(AssertionError):
        Sheet(name="a", title="A", notes=(), columns=("x", "y"), rows=((1,),))


def test_a_table_without_rows_is_refused():
    with pytest.raises(AssertionError):
        Sheet(name="a", title="A", notes=(), columns=("x",), rows=())


def test_markdown_keeps_columns_apart_whatever_is_in_them():
    assert markdown(SHEET) == (
        "## Doors\n\n"
        "| door | opened ms | digest |\n"
        "| --- | ---: | ---: |\n"
        "| front \\| left | 1,234 | 0f |\n"
        "| back |  | 1e |\n\n"
        "* By hand.\n"
    )


def test_what_was_not_measured_is_left_out_of_the_tidy_table():
    assert list(tidy_rows(SHEET)) == [
        ("doors", "front | left", "opened_ms", 1234.5),
        ("doors", "front | left", "digest", "0f"),
        ("doors", "back", "digest", "1e"),
    ]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, ""),
        (0, "0"),
        (0.0, "0"),
        (0.01234, "0.0123"),
        (12.34, "12.3"),
        (567.8, "568"),
        (12345.6, "12,346"),
        (1234567, "1,234,567"),
    ],
)
def test_numbers_show_the_digits_that_count(cell, text):
    assert text_of(cell) == text


def test_away_from_a_terminal_a_table_is_plain_text():
    console = Console(width=80, record=True, force_terminal=False)
    with console.capture() as captured:
        show(SHEET, console)
    assert captured.get().isascii()
    assert "\x1b" not in captured.get()
    assert "front | left" in captured.get()
