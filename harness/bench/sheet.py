"""One table of a benchmark: what was measured, in words, and its rows.

Invariant: every row has a cell for every column; a cell that was not measured is None and shows as
nothing, never as 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

from rich.box import ASCII2, ROUNDED
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """`name` is what `--only` calls it, `notes` say how it was measured, one sentence or more each.

    The first column names a row; the others carry their unit last in their name."""

    name: str
    title: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        assert self.rows, self.name
        assert all(len(row) == len(self.columns) for row in self.rows), self.name


class Spread(NamedTuple):
    """What repeats came to. `iqr` is the distance between the quartiles, 0 for a single repeat."""

    median: float
    least: float
    most: float
    iqr: float


def spread_of(values: Sequence[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 0.0)
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(median(values), min(values), max(values), high - low)


def show(sheet: Sheet, console: Console) -> None:
    """A table for people: coloured and framed on a terminal, plain text elsewhere."""
    box = ROUNDED if console.is_terminal else ASCII2
    table = Table(title=sheet.title, title_justify="left", title_style="bold", box=box)
    for index, column in enumerate(sheet.columns):
        table.add_column(
            column.replace("_", " "), justify="right" if index else "left", overflow="fold"
        )
    for row in sheet.rows:
        table.add_row(*(escape(text_of(cell)) for cell in row))
    console.print(table)
    for note in sheet.notes:
        console.print(note, style="dim", markup=False, highlight=False)
    console.print()


def markdown(sheet: Sheet) -> str:
    """A section with a table and its notes."""
    heads = [column.replace("_", " ") for column in sheet.columns]
    lines = [
        f"## {sheet.title}",
        "",
        _line(heads),
        _line(["---", *("---:" for _ in heads[1:])]),
        *(_line([text_of(cell) for cell in row]) for row in sheet.rows),
        "",
        *(f"* {note}" for note in sheet.notes),
    ]
    return "\n".join(lines) + "\n"


def tidy_rows(sheet: Sheet) -> Iterator[tuple[str, str, str, Cell]]:
    """(benchmark, row, column, value) of every cell that was measured, values as they are."""
    for name, *cells in sheet.rows:
        for column, cell in zip(sheet.columns[1:], cells, strict=True):
            if cell is not None:
                yield sheet.name, str(name), column, cell


def text_of(cell: Cell) -> str:
    """Three digits that count, thousands apart; whole numbers in full."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.3g}" if abs(cell) < 100 else f"{cell:.0f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
