"""What the tests of all readers need: a trace read, its requests, its hits counted plainly."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from workloads.request import Request
from workloads.traces.formats import read_trace
from workloads.traces.recorded import Reading, RecordedTrace
from workloads.workload import in_arrival_order

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"
WHOLE = ROOT.parent / "shared" / "traces"


def read(path: Path, name: str = "auto", **settings) -> RecordedTrace:
    return read_trace(path, Reading(**settings), format_name=name)


def whole(name: str) -> Path:
    """A whole public trace beside the checkout; skips the test without it."""
    path = WHOLE / name
    if not path.exists():
        pytest.skip(f"the whole trace {name} is not beside the checkout")
    return path


def requests(trace: RecordedTrace) -> list[Request]:
    return [turn for session in trace.sessions() for turn in session.turns]


def shared(first: Request, second: Request) -> int:
    """How many tokens both prompts begin with, token by token (chance: 1 in 2**31 a token)."""
    ours, theirs = first.prompt_tokens(1 << 31), second.prompt_tokens(1 << 31)
    pairs = zip(ours.tolist(), theirs.tolist(), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def repeated(before: Request, after: Request) -> int:
    """How many tokens of `after` are the prompt and the answer of `before`."""
    said = [*before.prompt_tokens(1 << 31).tolist(), *before.output_tokens(1 << 31).tolist()]
    prompt = after.prompt_tokens(1 << 31).tolist()
    pairs = zip(said, prompt, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(said), len(prompt)))


def block_hits(rows: Iterable[tuple[int, ...]]) -> tuple[int, int]:
    """Block references, and those that an infinite cache has, by the plainest count there is."""
    seen: set[int] = set()
    references = hits = 0
    for blocks in rows:
        known = 0
        for block in blocks:
            if block not in seen:
                break
            known += 1
        seen.update(blocks)
        references += len(blocks)
        hits += known
    return references, hits


def arrivals(trace: RecordedTrace) -> list[float]:
    return [request.arrival_s for request in in_arrival_order(trace)]
