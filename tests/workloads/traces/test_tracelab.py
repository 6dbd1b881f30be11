"""TraceLab: rounds that say how much of their session they repeat."""

import pytest

from tests.workloads.traces.reading import DATA, arrivals, read, repeated, requests, shared, whole
from workloads.errors import TraceError
from workloads.footprint import footprint

HEADER = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms"
BARE = "session_id,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms"


def test_a_round_repeats_as_much_of_its_session_as_it_says(write):
    path = write(
        HEADER,
        "0,117,0,0,100,20,300",
        "0,117,1,120,30,10,0",
        "0,117,2,50,30,10,0",
        "1,90,0,7,5,1,0",
    )
    other, main = read(path).sessions()
    first, second, third = main.turns
    assert (repeated(first, second), shared(second, third)) == (120, 50)
    assert [turn.prompt_len for turn in main.turns] == [100, 150, 80]
    assert [turn.delay_s for turn in main.turns] == [None, 0.3, 0.0]
    assert (other.turns[0].arrival_s, first.arrival_s) == (0, 0.027)
    assert other.turns[0].prompt_len == 12


def test_what_comes_after_a_fork_is_new(write):
    """The third round goes back to token 50 and says nothing; its answer is not the old text."""
    path = write(BARE, "0,0,0,100,20,0", "0,1,50,0,20,0", "0,2,70,5,1,0")
    first, second, third = next(read(path).sessions()).turns
    assert repeated(second, third) == 70
    assert shared(first, third) == 50


def test_a_prefix_beyond_the_session_is_filled_with_its_own_tokens(write):
    path = write(BARE, "0,0,0,100,20,0", "0,1,200,10,5,0", "0,2,215,1,1,0")
    first, second, third = next(read(path).sessions()).turns
    assert (second.prompt_len, third.prompt_len) == (210, 216)
    assert (repeated(first, second), repeated(second, third)) == (120, 215)


def test_the_bundled_replay_hits_what_its_prefixes_say():
    trace = read(DATA / "tracelab_replay.csv")
    rows = [line.split(",") for line in (DATA / "tracelab_replay.csv").read_text().split()[1:]]
    assert len(trace.records) == len(rows) == 303
    said = sum(int(row[3]) for row in rows)
    assert footprint(trace, 1).ideal_hit_tokens == said
    assert trace.source["format"] == "tracelab-replay"


def test_rounds_of_the_bundled_sessions_follow_by_their_pauses():
    trace = read(DATA / "tracelab_rounds.jsonl")
    codex, claude = trace.sessions()
    assert (len(codex.turns), len(claude.turns)) == (9, 10)
    assert codex.turns[1].delay_s == pytest.approx(0.005, abs=1e-3)
    assert claude.turns[0].prompt_len == 32_272
    assert arrivals(trace)[0] == 0
    assert trace.source["format"] == "tracelab"


def test_the_whole_workload_example_has_one_session():
    trace = read(whole("tracelab/replay_examples_session_workload_example.csv"))
    assert [len(session.turns) for session in trace.sessions()] == [11]
    assert footprint(trace, 64).total_prompt_tokens == 535_277


ROUND = {
    "session_id": "s",
    "round_index": 0,
    "input_tokens_total": 10,
    "prefix_tokens": 4,
    "output_tokens": 2,
    "timing_events": [{"timestamp": "2026-06-01T05:40:20.151Z"}],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prefix_tokens": 11}, "input_tokens_total as an integer of at least 11, found 10"),
        ({"timing_events": []}, "timing_events with a time, found an empty list"),
        ({"timing_events": [{"timestamp": "noon"}]}, "timestamp as a time such as"),
        ({"output_tokens": None}, "output_tokens as an integer of at least 0, found None"),
        ({"input_tokens_total": 0, "prefix_tokens": 0}, "a prompt of at least 1 token, found 0"),
    ],
)
def test_a_broken_round_is_named(write, change, said):
    assert len(requests(read(write(ROUND)))) == 1
    with pytest.raises(TraceError, match=said):
        read(write({**ROUND, **change}))
