"""RAGPulse: parts with lengths from side tables, in the source's order."""

import json

import pytest

from tests.workloads.traces.reading import DATA, arrivals, read, requests, shared, whole
from workloads.errors import TraceError

TABLES = {
    "1_sys_prompt": ("sys_prompt_id", {1: 100, 2: 30}),
    "2_passages": ("passage_id", {10: 200, 11: 50}),
    "3_history": ("history_id", {20: 8}),
    "4_user_input": ("user_input_id", {30: 9, 31: 9}),
    "5_web_search": ("web_search_id", {40: 5}),
}


def row(timestamp, tokens, *, session="s", **parts):
    named = {"sys_prompt": [1], "passages_ids": [], "history": [], "web_search": []}
    ids = {**named, "user_input": [30], **parts}
    return {
        "timestamp": timestamp,
        "input_length": tokens,
        "output_length": 3,
        "hash_ids": ids,
        "session_id": session,
    }


@pytest.fixture
def place(write, tmp_path):
    def place(*rows):
        for name, (key, lengths) in TABLES.items():
            lines = [{key: number, "token_length": n} for number, n in lengths.items()]
            text = "\n".join(map(json.dumps, lines)) + "\n\n"
            (tmp_path / f"{name}.jsonl").write_text(text)
        return write(*rows, "", "")

    return place


def test_parts_have_the_lengths_of_their_tables_and_stand_in_order(place):
    path = place(
        row("82", 100 + 200 + 9 + 7, user_input=[30], passages_ids=[10]),
        row("93", 100 + 200 + 50 + 9 + 6, user_input=[31], passages_ids=[10, 11]),
        row("94", 100 + 50 + 9, passages_ids=[11]),
    )
    first, second, third = requests(read(path))
    assert [r.prompt_len for r in (first, second, third)] == [316, 365, 159]
    assert shared(first, second) == 300
    assert shared(first, third) == 100
    assert [r.arrival_s for r in (first, second, third)] == [0, 11, 12]
    assert [first.turn, second.turn, third.turn] == [0, 1, 2]


def test_rows_are_sorted_by_time(place):
    trace = read(place(row("9", 110, session="a"), row("3", 110, session="b")))
    assert arrivals(trace) == [0, 6]
    assert trace.source["warnings"] == "1 timestamps out of order: sorted"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (row("x", 110), "timestamp as a number of at least 0, found 'x'"),
        (row("1", 108), "parts of at most 108 tokens, the input_length, found 109"),
        (row("1", 500, history=[99]), "ids of history that its side table has, found 99"),
        (row("1", 500, history="x"), "history as a list"),
        (row("1", 500, colour=[1]), "hash_ids as an object of sys_prompt, passages_ids"),
    ],
)
def test_a_broken_row_is_named(place, broken, said):
    with pytest.raises(TraceError, match=f":1: expected {said}"):
        read(place(broken))


def test_a_lenient_reader_cuts_parts_to_the_length(place):
    trace = read(place(row("1", 105)), lenient=True)
    assert requests(trace)[0].prompt_len == 105
    assert trace.source["warnings"] == "1 prompts longer than they say: cut"


def test_a_missing_side_table_is_named(write):
    with pytest.raises(TraceError, match=r"a side table \*_sys_prompt.jsonl beside it, found none"):
        read(write(row("1", 110)))


def test_the_head_has_its_counts():
    trace = read(DATA / "ragpulse" / "0_trace.jsonl")
    assert len(trace.records) == 100
    lengths = sorted(request.prompt_len for request in requests(trace))
    assert lengths == sorted(row.input_length for row in trace.records)


def test_the_whole_trace_has_its_published_counts():
    trace = read(whole("ragpulse/0_trace.jsonl"))
    assert len(trace.records) == 7_106
    assert sum(1 for _ in trace.sessions()) == 3_990
    assert max(trace.arrivals_s) == 604_603
    assert sum(row.input_length for row in trace.records) == 20_917_099
