"""The published traces have the counts that were made of them by other means."""

from pathlib import Path

import pytest

from workloads.footprint import footprint
from workloads.traces.mooncake import read_mooncake
from workloads.traces.recorded import RecordedTrace

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"
WHOLE = ROOT.parent / "shared" / "traces" / "mooncake"


def whole(name: str) -> RecordedTrace:
    path = WHOLE / name
    if not path.is_file():
        pytest.skip(f"the whole trace {name} is not beside the checkout")
    return read_mooncake(path)


def infinite_hits(trace: RecordedTrace) -> tuple[float, float, int]:
    """Share of blocks and of tokens that an infinite cache has, and requests it has whole."""
    seen: set[int] = set()
    blocks = hit_blocks = tokens = hit_tokens = full = 0
    for record in trace.records:
        known = 0
        for block in record.hash_ids:
            if block not in seen:
                break
            known += 1
        seen.update(record.hash_ids)
        blocks += len(record.hash_ids)
        hit_blocks += known
        tokens += record.input_length
        hit_tokens += min(known * record.block_size, record.input_length)
        full += known == len(record.hash_ids)
    return hit_blocks / blocks, hit_tokens / tokens, full


def counts(trace: RecordedTrace) -> dict[str, float]:
    uses: dict[int, int] = {}
    for ids in trace.rows():
        for block in ids:
            uses[block] = uses.get(block, 0) + 1
    n = len(trace.records)
    return {
        "requests": n,
        "input_mean": round(sum(r.input_length for r in trace.records) / n, 1),
        "output_mean": round(sum(r.output_length for r in trace.records) / n, 1),
        "references": sum(uses.values()),
        "unique": len(uses),
        "instants": len({r.timestamp_ms for r in trace.records}),
        "last_ms": trace.records[-1].timestamp_ms or 0,
    }


def test_the_conversation_trace_has_its_published_counts():
    trace = whole("conversation_trace.jsonl")
    assert counts(trace) == {
        "requests": 12_031,
        "input_mean": 12_035.1,
        "output_mean": 342.6,
        "references": 288_500,
        "unique": 182_790,
        "instants": 1_180,
        "last_ms": 3_536_999,
    }
    blocks, tokens, full = infinite_hits(trace)
    assert (round(blocks, 4), round(tokens, 4), full) == (0.3664, 0.3736, 118)
    assert trace.source["warnings"] == ""


def test_the_synthetic_trace_has_its_published_counts():
    trace = whole("synthetic_trace.jsonl")
    assert counts(trace) == {
        "requests": 3_993,
        "input_mean": 15_325.5,
        "output_mean": 149.1,
        "references": 121_877,
        "unique": 43_924,
        "instants": 3_982,
        "last_ms": 1_022_025,
    }
    blocks, tokens, _ = infinite_hits(trace)
    assert (round(blocks, 4), round(tokens, 4)) == (0.6396, 0.6512)
    assert trace.source["warnings"] == ""


def test_every_prompt_is_as_long_as_the_trace_says():
    trace = whole("conversation_trace.jsonl")
    lengths = [session.turns[0].prompt_len for session in trace.sessions()]
    assert lengths == [record.input_length for record in trace.records]


def test_the_ideal_hit_rate_in_tokens_is_near_the_one_in_blocks():
    """Whole pages and n - 1 tokens cost each request at most a page and a token."""
    trace = whole("conversation_trace.jsonl")
    counted = footprint(trace, 64)
    _, rate, _ = infinite_hits(trace)
    assert counted.total_prompt_tokens == 144_793_823
    assert 0 <= rate - counted.ideal_token_hit_rate <= 64 * 12_031 / 144_793_823


def test_the_bundled_head_is_that_of_the_whole_trace():
    head = read_mooncake(DATA / "mooncake_conversation_1000.jsonl")
    assert len(head.records) == 1000
    assert whole("conversation_trace.jsonl").records[:1000] == head.records


def test_the_ci_trace_has_its_published_counts():
    trace = read_mooncake(DATA / "ci_mooncake.jsonl")
    assert len(trace.records) == 64
    assert round(infinite_hits(trace)[0], 4) == 0.4789
