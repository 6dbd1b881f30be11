"""A trace's format is told by its first rows, or by the user."""

import gzip
import json
import re
from dataclasses import fields

import pytest

from tests.workloads.traces.reading import DATA, ROOT, read, requests
from workloads.errors import TraceError, WorkloadError
from workloads.traces.formats import FORMATS, recognised
from workloads.traces.outline import Outline

MOONCAKE = {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [1, 2]}
MINIMAL = {"block_size": 64, "hash_ids": [2001, 2002], "input_length": 128}
SAMPLES = {
    "azure_conv_300.csv": "azure",
    "ci_mooncake.jsonl": "mooncake",
    "llmservingsim.jsonl": "llmservingsim",
    "mooncake_conversation_1000.jsonl": "mooncake",
    "ragpulse/0_trace.jsonl": "ragpulse",
    "tair_optimizer.jsonl": "tair",
    "tracelab_replay.csv": "tracelab-replay",
    "tracelab_rounds.jsonl": "tracelab",
    "weka": "weka",
    "weka/trace_0103.json": "weka",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_and_read(name):
    trace = read(DATA / name)
    assert trace.source["format"] == SAMPLES[name]
    assert trace.source["requests"] == len(trace.records) > 0
    assert trace.digest() == read(DATA / name).digest()


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_can_be_read_shorter_and_in_part(name):
    assert len(read(DATA / name, limit=3).records) == 3
    short = requests(read(DATA / name, shrink=2))
    assert all(request.prompt_len and request.output_len for request in short)
    whole = requests(read(DATA / name))
    halves = sum(request.prompt_len for request in whole) / 2
    assert sum(request.prompt_len for request in short) == pytest.approx(halves, rel=0.05)


def test_a_minimal_row_of_a_simulator_is_mooncake_even_packed(tmp_path):
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(MINIMAL).encode() + b"\n"))
    trace = read(path)
    assert (trace.source["format"], trace.source["block_size"]) == ("mooncake", 64)
    assert requests(trace)[0].prompt_len == 128


def test_packed_columns_are_read(tmp_path):
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress((DATA / "tracelab_replay.csv").read_bytes()))
    trace = read(path)
    assert trace.digest() == read(DATA / "tracelab_replay.csv").digest()


@pytest.mark.parametrize("kept", [8, 30])
def test_a_packed_file_that_ends_early_is_refused(tmp_path, kept):
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(MOONCAKE).encode() * 99)[:kept])
    with pytest.raises(TraceError, match="expected a trace file that can be read"):
        read(path)


def test_mooncake_whose_ids_cover_prompts_by_16_is_a_timed_trace(write):
    assert recognised(write({**MOONCAKE, "input_length": 20})) == "timed_trace"
    assert recognised(write({**MOONCAKE, "input_length": 20, "block_size": 16})) == "mooncake"
    assert recognised(write({**MOONCAKE, "hash_ids": [1]})) == "mooncake"
    assert recognised(write({**MOONCAKE, "input_length": 9, "hash_ids": [1]})) == "mooncake"


def test_a_block_size_that_is_told_makes_it_mooncake(write):
    path = write({**MOONCAKE, "input_length": 20})
    assert read(path, block_size=16).source["format"] == "mooncake"


def test_a_format_that_is_named_is_taken(write):
    path = write({**MOONCAKE, "input_length": 20})
    assert read(path, "timed_trace").source["time_unit"] == "s"
    with pytest.raises(TraceError, match="1 hash_ids for input_length 20 in blocks of 512"):
        read(path, "mooncake")


def test_a_format_that_is_not_known_lists_those_that_are(write):
    with pytest.raises(WorkloadError, match=f"use auto, {', '.join(FORMATS)}"):
        read(write(MOONCAKE), "parquet")


@pytest.mark.parametrize("content", ['{"time": 3, "text": "hi"}', "a,b\n1,2", "[1, 2]", "hello"])
def test_a_file_that_fits_none_lists_all_with_what_they_need(write, content):
    with pytest.raises(TraceError, match="expected a trace of one of the formats") as error:
        read(write(content))
    assert all(f"{name} ({one.needs})" in str(error.value) for name, one in FORMATS.items())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["", "\n \r\n", "\ufeff"])
def test_an_empty_file_is_refused(write, content):
    with pytest.raises(TraceError, match="at least one request, found an empty file"):
        read(write(content))


def test_a_broken_first_line_is_named(write):
    with pytest.raises(TraceError, match=r":1: expected a JSON object, .*not valid JSON"):
        read(write('{"timestamp": 0'))


def test_blocks_are_numbered_as_they_appear_whatever_their_ids(write):
    rows = [{**MOONCAKE, "hash_ids": ids} for ids in ([(1 << 64) - 1, 5], [5, 7])]
    assert list(read(write(*rows)).rows()) == [(0, 1), (1, 2)]


def test_local_ids_of_two_conversations_have_different_numbers():
    trace = read(DATA / "weka")
    numbers = {}
    for record, row in zip(trace.records, trace.rows(), strict=True):
        numbers.setdefault(record.session_id, set()).update(row)
    one, other = numbers.values()
    assert not one & other


def test_a_trace_without_ids_has_no_rows_of_ids():
    with pytest.raises(WorkloadError, match="has no block ids: use a trace with them"):
        read(DATA / "azure_conv_300.csv").rows()


def test_every_format_and_key_is_documented():
    page = (ROOT / "docs" / "traces.md").read_text()
    table = page.split("## Formats")[1].split("##")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)` ", table, re.M)) == sorted(FORMATS)
    keys = page.split("## What `trace --json` says")[1]
    told = {field.name for field in fields(Outline)} | {"note", "to", "to_block_size"}
    assert set(re.findall(r"^\| `(\w+)` ", keys, re.M)) == told


def test_every_key_of_a_source_is_documented():
    page = (ROOT / "docs" / "output.md").read_text()
    table = page.split("`workload` of a trace")[1].split("##")[0]
    documented = re.findall(r"^\| `(\w+)` ", table, re.M)
    assert documented == list(read(DATA / "ci_mooncake.jsonl", spread_seed=1, shrink=2).source)
