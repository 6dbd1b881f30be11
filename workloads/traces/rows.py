"""What every reader makes of a file: rows in order of time, each able to name its tokens.

A row is at `timestamp_ms`, or `delay_ms` after the session's previous row ended. Rows are small
(numbers and ids), and spans are made when somebody asks: traces have millions of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from workloads.errors import WorkloadError
from workloads.tokens import Span, stream_seed
from workloads.traces.lines import Line

MS_PER_S = 1000


class Row(Protocol):
    """One request of a trace; lengths in tokens."""

    @property
    def request_id(self) -> str:
        """A name that stays the same whatever part of the file is read."""
        ...

    @property
    def session_id(self) -> str:
        """ "" for a session of its own."""
        ...

    @property
    def input_length(self) -> int: ...
    @property
    def output_length(self) -> int: ...
    @property
    def timestamp_ms(self) -> float | None: ...
    @property
    def delay_ms(self) -> float | None: ...

    def prompt(self) -> tuple[Span, ...]:
        """`input_length` tokens."""
        ...

    def output(self) -> tuple[Span, ...]:
        """`output_length` tokens."""
        ...

    def shorter(self, shrink: int) -> Self:
        """The same with all lengths divided by `shrink`, and the prefixes that it shares."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """The rows in order of time, and what a reader of the report should know about them."""

    rows: Sequence[Row]
    time_unit: str  # of the file
    block_size: int | str = "none"  # tokens of a hash id, where there are such
    prefixes: str = "block ids"  # what says which prompts begin alike
    warnings: tuple[str, ...] = ()
    origin_ms: float = 0  # the file's time that a run calls 0


@dataclass(frozen=True, slots=True)
class LengthRow:
    """A request of which only lengths are known.

    `stream` names the tokens it is the beginning of: the line's own, or that of an earlier turn
    whose prompt and answer this prompt repeats.
    """

    salt: str
    line: int
    input_length: int
    output_length: int
    timestamp_ms: float | None
    delay_ms: float | None = None
    session_id: str = ""
    stream: str = ""
    name: str = ""

    @property
    def request_id(self) -> str:
        return self.name or f"line-{self.line}"

    def prompt(self) -> tuple[Span, ...]:
        return (Span(self._seed(), 0, self.input_length),)

    def output(self) -> tuple[Span, ...]:
        return (Span(self._seed(), self.input_length, self.output_length),)

    def shorter(self, shrink: int) -> LengthRow:
        _check_shrink(shrink)
        whole = self.input_length + self.output_length
        asked = max(self.input_length // shrink, 1)
        answered = max(whole // shrink - asked, 1)
        return replace(self, input_length=asked, output_length=answered)

    def _seed(self) -> int:
        return stream_seed(self.salt, self.stream or self.request_id)


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A request whose tokens are named already."""

    request_id: str
    session_id: str
    timestamp_ms: float | None
    delay_ms: float | None
    asked: tuple[Span, ...]
    answered: tuple[Span, ...]

    @property
    def input_length(self) -> int:
        return sum(span.length for span in self.asked)

    @property
    def output_length(self) -> int:
        return sum(span.length for span in self.answered)

    def prompt(self) -> tuple[Span, ...]:
        return self.asked

    def output(self) -> tuple[Span, ...]:
        return self.answered

    def shorter(self, shrink: int) -> SpanRow:
        _check_shrink(shrink)
        return replace(
            self,
            asked=_shorter_spans(self.asked, shrink),
            answered=_shorter_spans(self.answered, shrink),
        )


@dataclass
class Timeline:
    """The order of rows: those with a time by it, others behind the row before of their session."""

    lenient: bool
    clock: tuple[float, str] = (0.0, "0")
    disordered: int = 0
    #: The time each session's rows sort by.
    session_ms: dict[str, float] = field(default_factory=dict)
    sort_ms: list[float] = field(default_factory=list)

    def at(self, line: Line, name: str, ms: float, *, session_id: str = "") -> None:
        """The next row is at `ms`, which the line's field `name` says."""
        latest_ms, latest = self.clock
        if ms < latest_ms:
            if not self.lenient:
                line.refuse(
                    f"{name} of at least {latest}, that of an earlier line "
                    "(read with --lenient to sort)",
                    str(line.fields[name]),
                )
            self.disordered += 1
        elif ms > latest_ms or not self.sort_ms:
            self.clock = (ms, str(line.fields[name]))
        self._add(session_id, ms)

    def behind(self, session_id: str) -> None:
        """The next row follows that of its session."""
        self._add(session_id, self.session_ms[session_id])

    def now(self, session_id: str) -> None:
        """The next row is at the time of the latest."""
        self._add(session_id, self.clock[0])

    def knows(self, session_id: str) -> bool:
        return session_id != "" and session_id in self.session_ms

    def in_order(self, rows: Sequence[Row]) -> Sequence[Row]:
        if not self.disordered:
            return rows
        return [rows[at] for at in sorted(range(len(rows)), key=self.sort_ms.__getitem__)]

    def warnings(self) -> tuple[str, ...]:
        return counted((self.disordered, "timestamps out of order: sorted"))

    def origin_ms(self) -> float:
        return min(self.sort_ms, default=0.0)

    def _add(self, session_id: str, ms: float) -> None:
        self.session_ms[session_id] = ms
        self.sort_ms.append(ms)


def counted(*found: tuple[int, str]) -> tuple[str, ...]:
    """The findings that there are, each with its number."""
    return tuple(f"{count} {text}" for count, text in found if count)


def head_of(spans: tuple[Span, ...], tokens: int) -> tuple[Span, ...]:
    """The first `tokens` of the joined spans, as far as there are."""
    kept = []
    for seed, start, length in spans:
        if tokens > 0:
            kept.append(Span(seed, start, min(length, tokens)))
        tokens -= length
    return tuple(kept)


def tail_of(spans: tuple[Span, ...], after: int) -> tuple[Span, ...]:
    """All but the first `after` tokens of the joined spans."""
    kept = []
    for seed, start, length in spans:
        if length > after:
            kept.append(Span(seed, start + max(after, 0), length - max(after, 0)))
        after -= length
    return tuple(kept)


def _shorter_spans(spans: tuple[Span, ...], shrink: int) -> tuple[Span, ...]:
    """By positions in their streams, so that spans which met still meet."""
    cut = [
        Span(seed, start // shrink, (start + length) // shrink - start // shrink)
        for seed, start, length in spans
    ]
    kept = tuple(span for span in cut if span.length)
    return kept or (Span(spans[0].seed, spans[0].start // shrink, 1),)


def _check_shrink(shrink: int) -> None:
    if shrink < 1:
        raise WorkloadError(f"a trace cannot be shrunk by {shrink}: use 1 or more")
