"""Conversations of kv-cache-tester (Weka): a JSON file each, a folder of them, or one a line.

`t` is in s from the conversation's start, and ids stand for `block_size` (64) whole tokens each;
the rest of a prompt has no id, so its tokens are its own. Ids of scope `local` mean nothing in
another conversation, those of scope `global` do.

A conversation is a session, and each sub-agent one of its own, which shares the conversation's
ids. A sub-agent is recorded at the moment it ended, `duration_ms` after it began, and the times of
its requests count from its beginning. The loop is closed: a turn follows the previous one by the
recorded pause between them. Whole conversations of a folder begin together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from workloads.errors import TraceError
from workloads.traces.blocks import BlockRow, common_size
from workloads.traces.lines import Line, Path, head_of, json_file, json_lines
from workloads.traces.recorded import Reading
from workloads.traces.rows import MS_PER_S, Table, counted

BLOCK_SIZE = 64
HEAD = 1 << 16  # bytes
SUBAGENT = "subagent"


def weka_table(path: Path, how: Reading) -> Table:
    """The conversations of a file or a folder; at most the limit's number of requests of them."""
    reader = _Reader(how)
    for file in files_of(path):
        for conversation in _conversations(file):
            reader.conversation(conversation)
    return reader.table()


def files_of(path: Path) -> list[FilePath]:
    """The file, or the folder's *.json in order of their names."""
    place = FilePath(path)
    if not place.is_dir():
        return [place]
    files = sorted(place.glob("*.json"))
    if not files:
        raise TraceError(path, 0, "a folder of *.json conversations", "none in it")
    return files


@dataclass
class _Reader:
    how: Reading
    sessions: list[list[BlockRow]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    #: Each id once: a turn repeats those before it, and a large trace has a hundred million.
    ids: dict[int, int] = field(default_factory=dict)
    miscounted: int = 0

    def conversation(self, file: Line) -> None:
        name = file.label("id")
        if name in self.names:
            file.refuse("an id that no other conversation has", repr(name))
        self.names.add(name)
        scope = file.text("hash_id_scope") if "hash_id_scope" in file.fields else "local"
        if scope not in ("local", "global"):
            file.refuse("hash_id_scope local or global", repr(scope))
        size = self.how.block_size or BLOCK_SIZE
        if "block_size" in file.fields:
            size = file.integer("block_size", at_least=1)
        self._session(file, name, "" if scope == "global" else name, size, 0.0)

    def table(self) -> Table:
        self.sessions.sort(key=lambda rows: rows[0].timestamp_ms or 0.0)
        rows = [row for session in self.sessions for row in session][: self.how.limit]
        return Table(
            rows=rows,
            time_unit="s",
            block_size=common_size(rows) if rows else BLOCK_SIZE,
            warnings=counted(
                (self.miscounted, "requests whose hash_ids do not fit their length: cut or filled")
            ),
        )

    def _session(self, entry: Line, name: str, scope: str, size: int, start_s: float) -> None:
        """The requests of a conversation or a sub-agent, and the sub-agents inside."""
        rows: list[BlockRow] = []
        ended_s = 0.0
        for number, one in enumerate(_entries(entry)):
            at_s = one.time("t")
            if one.fields.get("type") == SUBAGENT:
                lasted_s = _duration_s(one)
                inner = f"{name}/{one.label('agent_id')}"
                self._session(one, inner, scope, size, start_s + max(at_s - lasted_s, 0.0))
                continue
            pause_s = max(at_s - ended_s, 0.0)
            row = BlockRow(
                line=number,
                input_length=one.integer("in", at_least=1),
                output_length=max(one.integer("out", at_least=0), 1),
                hash_ids=self._ids(one),
                block_size=size,
                timestamp_ms=None if rows else round((start_s + at_s) * MS_PER_S, 3),
                delay_ms=round(pause_s * MS_PER_S, 3) if rows else None,
                session_id=name,
                scope=scope,
                name=f"{name}/{number}",
            )
            rows.append(self._covered(one, row))
            ended_s = at_s + _time_if_known(one, "api_time")
        if rows:
            self.sessions.append(rows)

    def _ids(self, entry: Line) -> tuple[int, ...]:
        if entry.fields.get("hash_ids") == []:
            return ()
        return tuple(self.ids.setdefault(number, number) for number in entry.ids("hash_ids"))

    def _covered(self, entry: Line, row: BlockRow) -> BlockRow:
        """Ids for whole blocks only; a partial last block with an id is fine too."""
        whole = row.input_length // row.block_size
        partial = -(-row.input_length // row.block_size)
        if whole <= len(row.hash_ids) <= partial:
            return row
        if not self.how.lenient:
            entry.refuse(
                f"{whole} hash_ids in {row.name} for in {row.input_length} in blocks of "
                f"{row.block_size}",
                str(len(row.hash_ids)),
            )
        self.miscounted += 1
        return row.with_ids(row.hash_ids[:partial])


def _conversations(file: FilePath) -> Iterator[Line]:
    """One over several lines, or one a line."""
    first, _, more = head_of(file, HEAD).strip().partition(b"\n")
    spread = more and not first.rstrip().endswith(b"}")
    return iter((json_file(file),)) if spread else json_lines(file)


def _duration_s(agent: Line) -> float:
    """How long a sub-agent took; where nobody noted it, until its last request ended."""
    if agent.fields.get("duration_ms") is not None:
        return agent.time("duration_ms") / MS_PER_S
    ends = (one.time("t") + _time_if_known(one, "api_time") for one in _entries(agent))
    return max(ends, default=0.0)


def _time_if_known(entry: Line, name: str) -> float:
    return 0.0 if entry.fields.get(name) is None else entry.time(name)


def _entries(entry: Line) -> Iterator[Line]:
    for fields in entry.objects("requests"):
        yield Line(entry.path, entry.number, fields)
