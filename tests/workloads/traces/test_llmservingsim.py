"""LLMServingSim: real token ids, compared to the token; agentic sessions."""

import json

import pytest

from tests.workloads.traces.reading import DATA, read, repeated, requests, shared, whole
from workloads.errors import TraceError


def row(at_ns, ids, answer=(), **more):
    named = {"input_tok_ids": list(ids), "output_tok_ids": list(answer)}
    lengths = {"input_toks": len(ids), "output_toks": max(len(answer), 1)}
    return {**lengths, "arrival_time_ns": at_ns, **named, **more}


def test_prompts_share_what_their_ids_share():
    path = DATA / "llmservingsim.jsonl"
    ids = [json.loads(line)["input_tok_ids"] for line in path.read_text().splitlines()]
    answers = [json.loads(line)["output_tok_ids"] for line in path.read_text().splitlines()]
    trace = read(path)
    made = requests(trace)
    assert trace.source["prefixes"] == "token ids"
    for at, request in enumerate(made):
        assert request.prompt_len == len(ids[at])
        for before in range(at):
            said = [*ids[before], *answers[before]]
            assert repeated(made[before], request) == common(said, ids[at])


def common(ours, theirs):
    pairs = zip(ours, theirs, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def test_a_prompt_goes_back_into_the_middle_of_what_was_said(write):
    path = write(
        row(0, range(100), range(100, 120)),
        row(1, range(50)),
        row(2, [*range(110), 7, 7]),
        row(3, [*range(50), 9]),
    )
    first, second, third, fourth = requests(read(path))
    assert (repeated(first, second), repeated(first, third)) == (50, 110)
    assert (repeated(second, fourth), shared(third, fourth)) == (50, 50)


def test_agentic_sessions_close_the_loop(write):
    path = write(
        {
            "session_id": "session_0",
            "arrival_time_ns": 4_000_000,
            "sub_requests": [
                {"input_toks": 100, "output_toks": 20, "tool_duration_ns": 127_000_000},
                {"input_toks": 130, "output_toks": 20, "tool_duration_ns": 0},
            ],
        },
        {"input_toks": 5, "output_toks": 1, "arrival_time_ns": 9_000_000},
    )
    session, other = read(path).sessions()
    assert [turn.delay_s for turn in session.turns] == [None, 0.127]
    assert repeated(*session.turns) == 120
    assert other.turns[0].arrival_s == pytest.approx(0.005)


def test_a_mixed_file_says_how_many_have_ids(write):
    trace = read(write(row(0, [1, 2]), {"input_toks": 5, "output_toks": 1, "arrival_time_ns": 1}))
    assert trace.source["prefixes"] == "token ids of 1 requests; else unique"


def test_the_whole_workload_has_its_requests():
    trace = read(whole("llmservingsim/workload_me2_01_mixed.jsonl"))
    assert len(trace.records) == 608
    assert sum(row.input_length for row in trace.records) == 5_604_402


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input_toks": 3}, "3 input_tok_ids, the input_toks, found 2"),
        ({"output_toks": 3}, "3 output_tok_ids, the output_toks, found 2"),
        ({"arrival_time_ns": 1.5}, "arrival_time_ns as an integer"),
        ({"input_toks": None}, "input_toks as an integer of at least 1, found None"),
    ],
)
def test_a_broken_row_is_named(write, change, said):
    with pytest.raises(TraceError, match=f":1: expected {said}"):
        read(write({**row(0, [1, 2], [3, 4]), **change}))
