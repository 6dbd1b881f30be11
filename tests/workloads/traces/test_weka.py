"""Conversations of kv-cache-tester: closed loops, sub-agents, local and global ids."""

import json

import pytest

from tests.workloads.traces.reading import (
    DATA,
    block_hits,
    read,
    repeated,
    requests,
    shared,
    whole,
)
from workloads.errors import TraceError


def turn(t, tokens, ids, **more):
    return {"t": t, "type": "n", "in": tokens, "out": 5, "hash_ids": ids, **more}


def conversation(name, *turns, **more):
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": turns, **more}


TALK = conversation(
    "a",
    turn(0.0, 150, [1, 2], api_time=2.0),
    {
        "t": 30.0,
        "type": "subagent",
        "agent_id": "agent_001",
        "duration_ms": 20_000,
        "requests": [turn(0.0, 128, [1, 9]), turn(4.0, 192, [1, 9, 10])],
    },
    turn(10.0, 200, [1, 2, 3], api_time=1.0),
)


def test_turns_follow_each_other_by_the_recorded_pause(write):
    main, agent = read(write(TALK)).sessions()
    assert (main.session_id, agent.session_id) == ("a", "a/agent_001")
    assert [turn.delay_s for turn in main.turns] == [None, 8.0]
    assert [turn.prompt_len for turn in main.turns] == [150, 200]


def test_a_sub_agent_is_a_session_that_begins_its_duration_before_its_time(write):
    _, agent = read(write(TALK)).sessions()
    assert [turn.arrival_s for turn in agent.turns] == [10.0, 14.0]
    assert agent.turns[1].delay_s == 4.0


def test_a_sub_agent_of_unknown_duration_ends_with_its_last_request(write):
    inner = [turn(0.0, 64, [1]), turn(4.0, 64, [1], api_time=2.0)]
    agent = {"t": 30.0, "type": "subagent", "agent_id": "x", "duration_ms": None}
    talk = conversation("a", turn(0.0, 64, [1], api_time=None), {**agent, "requests": inner})
    _, session = read(write(talk)).sessions()
    assert session.turns[0].arrival_s == 24.0


def test_a_conversation_and_its_sub_agents_share_ids(write):
    main, agent = read(write(TALK)).sessions()
    assert shared(main.turns[0], agent.turns[0]) == 64
    assert shared(main.turns[0], main.turns[1]) == 128
    assert repeated(main.turns[0], main.turns[1]) == 128


@pytest.mark.parametrize(("scope", "common"), [("local", 0), ("global", 128)])
def test_another_conversation_shares_global_ids_only(tmp_path, scope, common):
    for name in "ab":
        talk = conversation(name, turn(0.0, 128, [1, 2]), hash_id_scope=scope)
        (tmp_path / f"{name}.json").write_text(json.dumps(talk))
    first, second = requests(read(tmp_path))
    assert shared(first, second) == common


def test_a_partial_last_block_may_have_an_id_or_none(write):
    talk = conversation("a", turn(0.0, 150, [1, 2]), turn(1.0, 150, [1, 2, 3]))
    first, second = requests(read(write(talk)))
    assert (first.prompt_len, second.prompt_len) == (150, 150)
    short = conversation("a", turn(0.0, 40, []))
    assert requests(read(write(short)))[0].prompt_len == 40


def test_ids_that_do_not_fit_are_refused_or_mended(write):
    path = write(conversation("a", turn(0.0, 150, [1])))
    with pytest.raises(TraceError, match=r"expected 2 hash_ids in a/0 for in 150 .*, found 1"):
        read(path)
    trace = read(path, lenient=True)
    assert requests(trace)[0].prompt_len == 150
    assert trace.source["warnings"].startswith("1 requests whose hash_ids do not fit")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"id": "a"}, "formats"),
        (conversation("a"), "at least one request"),
        (conversation("a", "x"), "requests as a list of JSON objects"),
        (conversation("a", turn(0.0, 64, [1]), hash_id_scope="x"), "local or global, found 'x'"),
        (conversation("a", {"t": 0, "type": "subagent"}), "requests as a list"),
        (conversation("a", {"t": -1}), "t as a number of at least 0, found -1"),
    ],
)
def test_a_broken_conversation_is_named(write, broken, said):
    with pytest.raises(TraceError, match=said):
        read(write(broken))


def test_a_folder_without_conversations_and_one_with_a_name_twice_are_refused(tmp_path):
    with pytest.raises(TraceError, match=r"a folder of \*.json conversations, found none"):
        read(tmp_path)
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps(TALK))
    with pytest.raises(TraceError, match="an id that no other conversation has, found 'a'"):
        read(tmp_path)


def test_a_file_on_many_lines_is_read(write):
    assert len(requests(read(write(json.dumps(TALK, indent=1))))) == 4


def test_a_conversation_a_line_is_read(write):
    other = conversation("b", turn(0.0, 64, [1]))
    assert len(requests(read(write(TALK, "", other)))) == 5
    with pytest.raises(TraceError, match=r"jsonl:2: expected a JSON object"):
        read(write(TALK, "{"))


def test_the_bundled_conversations_have_their_counts():
    trace = read(DATA / "weka")
    assert len({session.session_id for session in trace.sessions()}) == 2
    assert block_hits(trace.rows()) == (1_329, 821)
    assert (trace.source["block_size"], trace.source["time_unit"]) == (64, "s")


def test_whole_conversations_have_the_hits_of_a_plain_count():
    """Counted over the files themselves: 351 requests, ids looked up per file in order of time."""
    trace = read(whole("weka"))
    assert len(trace.records) == 351
    assert sum(row.input_length for row in trace.records) == 17_762_898
    order = sorted(range(351), key=trace.arrivals_s.__getitem__)
    rows = list(trace.rows())
    assert block_hits(rows[at] for at in order) == (277_372, 239_302)
