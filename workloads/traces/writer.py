"""Any workload as a trace in Mooncake's form, which this program and others read.

An id stands for `block_size` tokens of a prompt and for all before them, so equal ids never claim
more than the workload shares. What prompts share beyond whole blocks may be lost, and so are
namespaces' names (their ids differ), priorities, aborts, and the tokens of answers: a later prompt
that repeats one has ids for it, but the answer itself has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from workloads.errors import WorkloadError
from workloads.request import Request, Workload
from workloads.tokens import Span
from workloads.traces.lines import Path
from workloads.traces.mooncake import BLOCK_SIZE
from workloads.traces.rows import MS_PER_S, head_of
from workloads.workload import in_arrival_order

Block = tuple[Span, ...]


def write_mooncake(workload: Workload, path: Path, *, block_size: int) -> None:
    """Write every request to `path`, which must not exist, in order of arrival; times in ms.

    Rows carry their `block_size` unless it is Mooncake's own. Turns of a session of several carry
    its `session_id`, and those that wait for the one before a `delay`. WorkloadError where the file
    cannot be made.
    """
    sessions = {s.session_id for s in workload.sessions() if len(s.turns) > 1}
    names = _Names(block_size)
    clock_ms = 0.0
    try:
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            for request in in_arrival_order(workload):
                row: dict[str, object] = {}
                if request.delay_s is None:
                    clock_ms = max(clock_ms, round(request.arrival_s * MS_PER_S, 3))
                    row["timestamp"] = _shortest(clock_ms)
                else:
                    row["delay"] = _shortest(round(request.delay_s * MS_PER_S, 3))
                row["input_length"] = request.prompt_len
                row["output_length"] = request.output_len
                row["hash_ids"] = names.of(request)
                if block_size != BLOCK_SIZE:
                    row["block_size"] = block_size
                if request.session_id in sessions:
                    row["session_id"] = request.session_id
                file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be written: {error.strerror or error}") from None


@dataclass
class _Names:
    """Ids by what they stand for.

    Invariant: an id's tokens only ever grow, by those of a longer block that begins with them.
    """

    block_size: int
    count: int = 0
    roots: dict[str, int] = field(default_factory=dict)
    #: (id of the block before, first token's place) to the ids that begin so, with their tokens.
    known: dict[tuple[int, int, int], list[tuple[int, Block]]] = field(default_factory=dict)

    def of(self, request: Request) -> list[int]:
        parent = self.roots.setdefault(request.namespace, -1 - len(self.roots))
        ids = []
        for block in _blocks(request.prompt, self.block_size):
            parent = self._name(parent, block)
            ids.append(parent)
        return ids

    def _name(self, parent: int, block: Block) -> int:
        alike = self.known.setdefault((parent, block[0].seed, block[0].start), [])
        for at, (number, tokens) in enumerate(alike):
            if _begins(tokens, block):
                alike[at] = (number, block)
                return number
            if _begins(block, tokens):
                return number
        alike.append((self.count, block))
        self.count += 1
        return self.count - 1


def _blocks(spans: Sequence[Span], size: int) -> Iterator[Block]:
    """The joined spans in pieces of `size` tokens, each in its shortest form; the last is less."""
    block: list[Span] = []
    room = size
    for seed, start, length in spans:
        while length:
            taken = min(room, length)
            if block and block[-1].seed == seed and sum(block[-1][1:]) == start:
                block[-1] = Span(seed, block[-1].start, block[-1].length + taken)
            else:
                block.append(Span(seed, start, taken))
            start, length, room = start + taken, length - taken, room - taken
            if not room:
                yield tuple(block)
                block, room = [], size
    if block:
        yield tuple(block)


def _begins(short: Block, long: Block) -> bool:
    """Whether the tokens of `long` begin with those of `short`."""
    return head_of(long, sum(span.length for span in short)) == short


def _shortest(ms: float) -> float | int:
    return int(ms) if ms == int(ms) else ms
