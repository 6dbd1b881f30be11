"""vLLM's timed traces: Mooncake's fields, in seconds and blocks of 16."""

import pytest

from tests.workloads.traces.reading import read, requests, shared
from workloads.errors import TraceError


def row(timestamp, tokens, ids):
    return {"timestamp": timestamp, "input_length": tokens, "output_length": 8, "hash_ids": ids}


def test_times_are_seconds_and_blocks_are_of_16(write):
    trace = read(write(row(12.4, 42, [981, 4412, 7]), row(13.4, 33, [981, 4412, 8])))
    first, second = requests(trace)
    assert (first.arrival_s, second.arrival_s) == (0, 1.0)
    assert shared(first, second) == 32
    assert trace.source["format"] == "timed_trace"
    assert (trace.source["time_unit"], trace.source["block_size"]) == ("s", 16)


def test_a_block_size_that_is_told_is_taken(write):
    trace = read(write(row(0, 42, [1, 2])), "timed_trace", block_size=32)
    assert trace.source["block_size"] == 32


def test_ids_that_do_not_fit_are_refused(write):
    with pytest.raises(TraceError, match="expected 3 hash_ids"):
        read(write(row(0, 42, [1])), "timed_trace")
