"""What is written in Mooncake's form reads back with the same lengths, times and sharing."""

import json
from dataclasses import dataclass, replace

import pytest

from tests.workloads.traces.reading import DATA, block_hits, read, requests, shared
from workloads.errors import WorkloadError
from workloads.footprint import footprint
from workloads.request import Session
from workloads.synthetic import build
from workloads.traces.recorded import RecordedTrace
from workloads.traces.writer import write_mooncake
from workloads.workload import in_arrival_order


def rewritten(trace, path, block_size):
    write_mooncake(trace, path, block_size=block_size)
    return read(path)


def test_a_mooncake_trace_comes_back_with_all_that_it_shares(tmp_path):
    trace = read(DATA / "ci_mooncake.jsonl")
    again = rewritten(trace, tmp_path / "t.jsonl", 512)
    assert again.arrivals_s == trace.arrivals_s
    turns = [len(session.turns) for session in trace.sessions()]
    assert [len(session.turns) for session in again.sessions()] == turns
    assert list(again.rows()) == list(trace.rows())
    assert footprint(again, 64) == footprint(trace, 64)


def test_partial_blocks_keep_the_id_of_the_whole(tmp_path):
    head = read(DATA / "mooncake_conversation_1000.jsonl", limit=300)
    again = rewritten(head, tmp_path / "t.jsonl", 512)
    assert block_hits(again.rows()) == block_hits(head.rows())
    assert footprint(again, 64).ideal_hit_tokens == footprint(head, 64).ideal_hit_tokens


def test_a_closed_loop_and_lengths_come_back(tmp_path):
    trace = read(DATA / "tracelab_replay.csv")
    again = rewritten(trace, tmp_path / "t.jsonl", 16)
    assert again.source["block_size"] == 16
    for ours, theirs in zip(trace.sessions(), again.sessions(), strict=True):
        assert [t.delay_s for t in theirs.turns] == [t.delay_s for t in ours.turns]
        assert [t.prompt_len for t in theirs.turns] == [t.prompt_len for t in ours.turns]
        assert [t.output_len for t in theirs.turns] == [t.output_len for t in ours.turns]


def test_no_two_prompts_share_more_than_they_did(tmp_path):
    """And at most a block less, an answer that is asked again apart."""
    trace = build("shared_prefix", {"seed": 3})
    before = list(in_arrival_order(trace))[:40]
    again = rewritten(trace, tmp_path / "t.jsonl", 16)
    after = list(in_arrival_order(again))[:40]
    for at in range(40):
        for other in range(at):
            was, now = shared(before[at], before[other]), shared(after[at], after[other])
            assert was - 16 < now <= was


@dataclass(frozen=True)
class Apart:
    """Every other session in another namespace."""

    inner: RecordedTrace

    def sessions(self):
        for number, session in enumerate(self.inner.sessions()):
            turns = tuple(replace(turn, namespace=str(number % 2)) for turn in session.turns)
            yield Session(session.session_id, turns)


def test_namespaces_share_nothing(tmp_path):
    path = tmp_path / "same.jsonl"
    row = {"timestamp": 0, "input_length": 64, "output_length": 1, "hash_ids": [1]}
    path.write_text((json.dumps({**row, "block_size": 64}) + "\n") * 3)
    first, second, third = requests(rewritten(Apart(read(path)), tmp_path / "t.jsonl", 64))
    assert (shared(first, second), shared(first, third)) == (0, 64)


def test_a_file_that_exists_is_not_written_over(tmp_path):
    trace = read(DATA / "ci_mooncake.jsonl")
    path = tmp_path / "t.jsonl"
    path.write_text("mine")
    with pytest.raises(WorkloadError, match="cannot be written: File exists"):
        write_mooncake(trace, path, block_size=512)
    assert path.read_text() == "mine"
