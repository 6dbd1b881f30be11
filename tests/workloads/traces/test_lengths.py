"""Length-only CSV traces: columns by name, nothing shared but what sessions say."""

import pytest

from tests.workloads.traces.reading import DATA, read, repeated, requests, shared, whole
from workloads.errors import TraceError
from workloads.footprint import footprint

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURST_V1 = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
BURST = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens"


def test_azure_times_keep_all_seven_decimals_and_count_from_the_first(write):
    path = write(
        AZURE,
        "2023-11-16 18:17:03.9799600,4808,10",
        "2023-11-16 18:17:04.0319601,3180,8",
        end="\r\n",
        name="a.csv",
    )
    trace = read(path)
    first, second = requests(trace)
    assert (first.arrival_s, first.prompt_len, first.output_len) == (0, 4808, 10)
    assert second.arrival_s == pytest.approx(0.0520001, abs=1e-12)
    assert (trace.source["format"], trace.source["time_unit"]) == ("azure", "wall time")
    assert trace.source["block_size"] == "none"
    assert "unique" in trace.source["prefixes"]
    assert shared(first, second) == 0


def test_azure_times_with_a_zone_are_read(write):
    path = write(AZURE, "2024-05-10 00:00:00.009930+00:00,5,1", "2024-05-10 00:00:01Z,6,2")
    assert requests(read(path))[1].arrival_s == pytest.approx(0.99007)


def test_the_head_of_azure_has_its_counts():
    trace = read(DATA / "azure_conv_300.csv")
    assert len(trace.records) == 300
    assert footprint(trace, 64).ideal_hit_tokens == 0


@pytest.mark.parametrize(
    ("name", "count", "asked", "answered", "minutes"),
    [("code", 8_819, 2_047.8, 27.9, 57.3), ("conv", 19_366, 1_154.7, 211.1, 58.4)],
)
def test_whole_azure_traces_have_their_published_counts(name, count, asked, answered, minutes):
    trace = read(whole(f"azure/AzureLLMInferenceTrace_{name}.csv"))
    assert len(trace.records) == count
    assert round(sum(row.input_length for row in trace.records) / count, 1) == asked
    assert round(sum(row.output_length for row in trace.records) / count, 1) == answered
    assert round(max(trace.arrivals_s) / 60, 1) == minutes


def test_burstgpt_without_sessions_is_unique_and_failed_calls_are_left_out(write):
    path = write(
        BURST_V1,
        "5,ChatGPT,472,18,490,Conversation log",
        "45,ChatGPT,1087,230,1317,Conversation log",
        "46,GPT-4,1087,0,1087,API log",
        "47,GPT-4,0,0,0,API log",
    )
    trace = read(path)
    first, second = requests(trace)
    assert [first.arrival_s, second.arrival_s] == [0, 40]
    assert trace.source["warnings"] == "2 rows without an answer: left out"
    assert trace.source["format"] == "burstgpt"
    assert shared(first, second) == 0


def test_a_later_turn_repeats_its_session_where_it_is_long_enough(write):
    path = write(
        BURST,
        "0,a,1.5,ChatGPT,100,20,120",
        "1,,1.5,ChatGPT,500,20,520",
        "9,a,1.5,ChatGPT,150,30,180",
        "20,a,1.5,ChatGPT,60,30,90",
        "30,7,1.5,ChatGPT,60,30,90",
    )
    trace = read(path)
    first, second, third = next(trace.sessions()).turns
    assert repeated(first, second) == 120
    assert repeated(second, third) == 0
    assert [session.session_id for session in trace.sessions()] == ["a", "line-3", "7"]
    assert trace.source["prefixes"] == "sessions, by length; else unique"


def test_shrinking_keeps_what_a_session_repeats(write):
    path = write(BURST, "0,a,1,M,103,21,0", "9,a,1,M,150,30,0", "10,b,1,M,1,1,0")
    first, second, tiny = requests(read(path, shrink=8))
    assert (first.prompt_len, first.output_len, second.prompt_len) == (12, 3, 18)
    assert repeated(first, second) == 15
    assert (tiny.prompt_len, tiny.output_len) == (1, 1)


@pytest.mark.parametrize(
    ("name", "header", "row", "arrival_s"),
    [
        ("vidur", "arrived_at,num_prefill_tokens,num_decode_tokens", "3.5,10,4", 1.5),
        ("splitwise", "request_id,arrival_timestamp,prompt_size,token_size", "1,3.5,10,4", 1.5),
    ],
)
def test_simulators_csv_are_read(write, name, header, row, arrival_s):
    first = row.replace("3.5", "2")
    trace = read(write(header, first, row))
    assert trace.source["format"] == name
    request = requests(trace)[1]
    assert (request.prompt_len, request.output_len, request.arrival_s) == (10, 4, arrival_s)


def test_etalon_has_no_times(write):
    path = write("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio", "9,3,12,3.0")
    trace = read(path)
    assert trace.source["time_unit"] == "none"
    assert requests(trace)[0].arrival_s == 0


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("yesterday,5,5", ":3: expected TIMESTAMP as a time such as .*, found 'yesterday'"),
        ("2023-11-16 99:00:00,5,5", "as a time such as"),
        ("2023-11-16,5,5", "as a time such as"),
        ("2023-11-16 18:00:00,0,5", "ContextTokens as an integer of at least 1, found 0"),
        ("2023-11-16 18:00:00,5.5,5", "ContextTokens as an integer of at least 1, found 5.5"),
        ("2023-11-16 18:00:00,5,x", "GeneratedTokens as an integer of at least 0, found 'x'"),
        ("2023-11-16 18:00:00,5", "GeneratedTokens as an integer of at least 0, found no such"),
        ("2023-11-15 18:00:00,5,5", "TIMESTAMP of at least 2023-11-16 .* --lenient to sort"),
    ],
)
def test_a_broken_row_is_named(write, row, said):
    path = write(AZURE, "2023-11-16 17:00:00,5,5", row)
    with pytest.raises(TraceError, match=said):
        read(path)


def test_a_lenient_reader_sorts_and_begins_at_the_earliest(write):
    path = write(AZURE, "2023-11-16 17:00:05,5,5", "2023-11-16 17:00:00,6,5")
    trace = read(path, lenient=True)
    assert [(r.prompt_len, r.arrival_s) for r in requests(trace)] == [(6, 0), (5, 5)]
    assert trace.source["warnings"] == "1 timestamps out of order: sorted"


def test_a_missing_column_is_named_when_the_format_is_told(write):
    with pytest.raises(TraceError, match=r":1: expected the columns Timestamp, .*found no Timest"):
        read(write(AZURE, "x,1,1"), "burstgpt")
