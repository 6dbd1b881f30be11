"""Rows whose prompts are named by block ids, and the rule that ids cover the prompt.

Each id is one token stream, so equal ids mean equal tokens, and a partial block holds the first
tokens of the whole one. Ids of a `scope` mean nothing outside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workloads.errors import WorkloadError
from workloads.tokens import Span, numbered_seeds, stream_seed
from workloads.traces.lines import Line
from workloads.traces.rows import counted

SALT = "mooncake"  # of every format with block ids: published digests depend on it


@dataclass(frozen=True, slots=True)
class BlockRow:
    """One line: either at `timestamp_ms`, or `delay_ms` after the session's previous row ended."""

    line: int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]
    block_size: int
    timestamp_ms: float | None
    delay_ms: float | None
    session_id: str
    scope: str = ""  # "": the file
    name: str = ""

    @property
    def request_id(self) -> str:
        return self.name or f"line-{self.line}"

    def seeds(self) -> list[int]:
        """The streams of its blocks."""
        base = stream_seed(SALT, self.scope) if self.scope else stream_seed(SALT)
        return numbered_seeds(base, self.hash_ids)

    def blocks(self) -> tuple[int, ...]:
        """A number for each of its blocks, which means the same in the whole trace."""
        return tuple(self.seeds()) if self.scope else self.hash_ids

    def prompt(self) -> tuple[Span, ...]:
        """Whole blocks, then what is left: the head of the last, or tokens without an id."""
        size = self.block_size
        spans = [Span(seed, 0, size) for seed in self.seeds()] if self.hash_ids else []
        left = self.input_length - size * len(spans)
        if left < 0:
            spans[-1] = Span(spans[-1].seed, 0, size + left)
        elif left > 0:
            spans.append(Span(self._own("tail"), 0, left))
        return tuple(spans)

    def output(self) -> tuple[Span, ...]:
        return (Span(self._own("answer"), 0, self.output_length),)

    def with_ids(self, hash_ids: tuple[int, ...]) -> BlockRow:
        return replace(self, hash_ids=hash_ids)

    def shorter(self, shrink: int) -> BlockRow:
        if shrink < 1 or self.block_size % shrink:
            raise WorkloadError(f"blocks of {self.block_size} tokens cannot be shrunk by {shrink}")
        return replace(
            self,
            input_length=-(-self.input_length // shrink),
            output_length=-(-self.output_length // shrink),
            block_size=self.block_size // shrink,
        )

    def _own(self, what: str) -> int:
        if self.name:
            return stream_seed(SALT, what, self.name)
        return stream_seed(SALT, what, self.line)


@dataclass
class Coverage:
    """Checks the ids of rows as they come, and remembers what to say of all."""

    lenient: bool
    parents: dict[int, int] = field(default_factory=dict)
    orphans: set[int] = field(default_factory=set)
    miscounted: int = 0

    def covered(self, line: Line, row: BlockRow) -> BlockRow:
        """`row` with exactly the ids its length needs; leniently, with no more than those."""
        needed = -(-row.input_length // row.block_size)
        if len(row.hash_ids) != needed:
            if not self.lenient:
                line.refuse(
                    f"{needed} hash_ids for input_length {row.input_length} in blocks of "
                    f"{row.block_size} (--block-size tells another size)",
                    str(len(row.hash_ids)),
                )
            self.miscounted += 1
            row = row.with_ids(row.hash_ids[:needed])
        self._chain(row.blocks())
        return row

    def warnings(self) -> tuple[str, ...]:
        return counted(
            (len(self.orphans), "block ids follow different blocks: ids are not prefix-chained"),
            (self.miscounted, "rows whose hash_ids do not fit their length: cut or filled up"),
        )

    def _chain(self, blocks: tuple[int, ...]) -> None:
        parent = -1
        for block in blocks:
            if self.parents.setdefault(block, parent) != parent:
                self.orphans.add(block)
            parent = block


def common_size(rows: list[BlockRow]) -> int | str:
    """The block size of all rows, or the different ones in words."""
    sizes = sorted({row.block_size for row in rows})
    return sizes[0] if len(sizes) == 1 else "by row: " + ", ".join(map(str, sizes))
