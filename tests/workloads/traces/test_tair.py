"""tair-kvcache's optimizer: keys of blocks, whose size the rows tell."""

import pytest

from tests.workloads.traces.reading import DATA, read, requests, shared
from workloads.errors import TraceError


def query(us, keys, tokens, instance="a"):
    return {
        "instance_id": instance,
        "timestamp_us": us,
        "keys": keys,
        "input_len": tokens,
        "output_len": 0,
    }


def test_the_bundled_example_is_read():
    trace = read(DATA / "tair_optimizer.jsonl")
    assert [r.prompt_len for r in requests(trace)] == [16, 32, 16, 48, 16]
    assert trace.arrivals_s == (0, 5.123456, 10.5, 15.75, 20.0)
    assert (trace.source["block_size"], trace.source["time_unit"]) == (16, "us")
    assert all(r.output_len == 1 for r in requests(trace))


def test_the_block_size_is_that_of_the_first_row_that_tells_it(write):
    trace = read(write(query(5, [1, 2], 33), query(6, [1, 2], 64)))
    assert trace.source["block_size"] == 32
    first, second = requests(trace)
    assert shared(first, second) == 33


def test_keys_may_be_negative(write):
    trace = read(write(query(5, [-2, 3], 32), query(6, [-2, 4], 32)))
    first, second = requests(trace)
    assert shared(first, second) == 16


def test_instances_share_nothing(write):
    first, second = requests(read(write(query(5, [1], 16), query(6, [1], 16, "b"))))
    assert shared(first, second) == 0


def test_keys_that_do_not_fit_are_refused(write):
    with pytest.raises(TraceError, match=":2: expected 1 hash_ids for input_length 16"):
        read(write(query(5, [1], 16), query(6, [1, 2], 16)))
