"""What a hunt reached, for people and for files: what was never reached comes first."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.explore.marks import Marks
from harness.hunt.transitions import LOCKS, POSSIBLE, Transition
from harness.targets.choose import REFERENCE, meanings_of

SHOWN = 8  # orders of each kind that were never seen


def evidence(marks: Marks, target: str) -> dict[str, Any]:
    """Plain data: names of what was never reached, counts of what was. Transitions are told of the
    reference cache only."""
    pairs, triples = list(marks.unseen_pairs()), list(marks.unseen_triples())
    moves = {str(move): marks.transitions[str(move)] for move in possible_in(target)}
    return {
        "never_reached": {
            "marks": [m.mark for m in meanings_of(target) if not marks.sometimes.get(m.mark)],
            "transitions": [move for move, count in moves.items() if not count],
            "pairs": [" -> ".join(pair) for pair in pairs[:SHOWN]],
            "triples": [" -> ".join(triple) for triple in triples[:SHOWN]],
        },
        "pairs": {"seen": len(marks.pairs), "never_seen": len(pairs)},
        "triples": {"seen": len(marks.triples), "never_seen": len(triples)},
        "transitions": moves,
        "unsound_transitions": sorted(set(marks.transitions) - set(moves)),
    }


def possible_in(target: str) -> tuple[Transition, ...]:
    """The transitions that a sound cache of this kind may go through."""
    return POSSIBLE if target == REFERENCE else ()


def screen(marks: Marks, target: str) -> RenderableType:
    """The same as two tables below a list of gaps."""
    found = evidence(marks, target)
    gaps = found["never_reached"]
    lines = [
        f"never reached: marks: {', '.join(gaps['marks']) or 'none'}",
        f"  transitions: {'; '.join(gaps['transitions']) or 'none'}",
        *(f"  {_orders(kind, found)}" for kind in ("pairs", "triples")),
    ]
    if found["unsound_transitions"]:
        lines.append(f"not of a sound cache: {'; '.join(found['unsound_transitions'])}")
    tables = [_marks(marks, target)]
    if possible_in(target):
        tables.insert(0, _transitions(marks, target))
    return Group(*(Text(line) for line in lines), *tables)


def _orders(kind: str, found: dict[str, Any]) -> str:
    seen, never = found[kind]["seen"], found[kind]["never_seen"]
    line = f"{kind}: {never:,} of {seen + never:,} that could be"
    return f"{line}, such as {', '.join(found['never_reached'][kind][:3])}" if never else line


def _transitions(marks: Marks, target: str) -> Table:
    """A row for each transition, a column for each state of its lock."""
    rows: dict[str, list[str]] = {}
    for move in possible_in(target):
        row = rows.setdefault(move.row, ["-"] * len(LOCKS))
        row[move.held] = f"{marks.transitions[str(move)]:,}"
    table = _table("transition", *LOCKS)
    for name, row in sorted(rows.items(), key=lambda item: "0" not in item[1]):
        table.add_row(name, *row)
    return table


def _marks(marks: Marks, target: str) -> Table:
    table = _table("mark", "count", "meaning")
    told = sorted(meanings_of(target), key=lambda m: marks.sometimes.get(m.mark, 0) > 0)
    for mark, meaning in told:
        table.add_row(mark, f"{marks.sometimes.get(mark, 0):,}", meaning)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in ("count", *LOCKS) else "left")
    return table
