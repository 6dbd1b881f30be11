"""Qwen-Bailian: seconds, blocks of 16, chats that follow each other."""

import pytest

from tests.workloads.traces.reading import read, requests, shared
from workloads.errors import TraceError


def chat(number, parent, timestamp, tokens, ids, **more):
    return {
        "chat_id": number,
        "parent_chat_id": parent,
        "timestamp": timestamp,
        "input_length": tokens,
        "output_length": 9,
        "type": "text",
        "turn": 1,
        "hash_ids": ids,
        **more,
    }


def test_chats_that_follow_each_other_are_one_session(write):
    path = write(
        chat(159, -1, 61.114, 33, [1, 2, 3]),
        chat(160, 159, 62.5, 49, [1, 2, 4, 5]),
        chat(161, -1, 63, 16, [1]),
        chat(162, 160, 64, 16, [1]),
        chat(163, 7, 65, 16, [9]),
    )
    trace = read(path)
    sessions = list(trace.sessions())
    assert [(s.session_id, len(s.turns)) for s in sessions] == [
        ("chat-159", 3),
        ("chat-161", 1),
        ("chat-163", 1),
    ]
    first, second, third = sessions[0].turns
    assert [round(turn.arrival_s, 6) for turn in (first, second, third)] == [0, 1.386, 2.886]
    assert shared(first, second) == 32
    assert (trace.source["format"], trace.source["block_size"]) == ("bailian", 16)


def test_ids_that_do_not_fit_are_refused(write):
    path = write(chat(1, -1, 0, 33, [1, 2]))
    with pytest.raises(TraceError, match="expected 3 hash_ids for input_length 33 in blocks of 16"):
        read(path)
    assert requests(read(path, lenient=True))[0].prompt_len == 33


def test_a_parent_that_is_no_number_is_refused(write):
    with pytest.raises(TraceError, match="parent_chat_id as an integer of at least -1, found -2"):
        read(write(chat(1, -2, 0, 16, [1])))
