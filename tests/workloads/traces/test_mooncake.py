"""The Mooncake reader takes what the format allows, and says in one line what it does not."""

import json
import math
import os
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from workloads.errors import TraceError, WorkloadError
from workloads.traces.mooncake import read_mooncake

DATA = Path(__file__).resolve().parents[2] / "data"
ROW = {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [1, 2]}


def row(**changes):
    """A good row with fields changed; None removes one."""
    merged = {**ROW, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def late(**changes):
    """A row that comes after the others of its file, with fields changed."""
    return row(**{"timestamp": 20, **changes})


def requests(trace):
    return [turn for session in trace.sessions() for turn in session.turns]


def test_equal_ids_mean_equal_tokens(write):
    first, second = requests(
        read_mooncake(
            write(
                row(input_length=1300, hash_ids=[7, 8, 9]),
                row(timestamp=3000, input_length=1536, hash_ids=[7, 8, 10]),
            )
        )
    )
    ours, theirs = first.prompt_tokens(), second.prompt_tokens()
    assert (first.prompt_len, second.prompt_len) == (1300, 1536)
    assert np.array_equal(ours[:1024], theirs[:1024])
    assert not np.array_equal(ours[1024:], theirs[1024:1300])


def test_a_partial_block_holds_the_first_tokens_of_the_whole_one(write):
    partial, whole = requests(read_mooncake(write(row(), row(timestamp=1, input_length=1024))))
    assert np.array_equal(partial.prompt_tokens(), whole.prompt_tokens()[:700])


def test_answers_are_shared_by_nobody(write):
    first, second = requests(read_mooncake(write(row(output_length=64), row(output_length=64))))
    assert first.output_len == 64
    assert not np.array_equal(first.output_tokens(), second.output_tokens())


def test_rows_without_a_session_are_sessions_of_one_turn(write):
    trace = read_mooncake(write(row(), "", row(timestamp=2500)))
    assert [s.session_id for s in trace.sessions()] == ["line-1", "line-3"]
    assert [r.arrival_s for r in requests(trace)] == [0, 2.5]
    assert trace.name == "trace"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\r\n  \r\n"])
def test_blank_lines_and_foreign_line_ends_are_accepted(write, end):
    assert len(requests(read_mooncake(write("", row(), row(), end=end)))) == 2


def test_a_byte_order_mark_is_accepted(write):
    assert len(requests(read_mooncake(write("\ufeff" + json.dumps(row()))))) == 1


def test_the_source_says_how_the_file_was_read(write):
    path = write(row(input_length=100, hash_ids=[1, 2]), row(timestamp=3))
    source = read_mooncake(path, block_size=64, time_scale=2.0, limit=1).source
    assert source == {
        "file": str(path),
        "format": "mooncake",
        "sha256": sha256(path.read_bytes()).hexdigest(),
        "time_unit": "ms",
        "time_scale": 2.0,
        "block_size": 64,
        "prefixes": "block ids",
        "requests": 1,
        "warnings": "",
    }


def test_the_time_scale_stretches_arrivals_and_delays(write):
    rows = (
        row(session_id="a", timestamp=1000),
        row(session_id="a", timestamp=None, delay=250),
        row(timestamp=2000),
    )
    first, second, third = requests(read_mooncake(write(*rows), time_scale=2.0))
    assert (first.arrival_s, third.arrival_s) == (2.0, 4.0)
    assert (second.delay_s, second.arrival_s) == (0.5, 2.5)


def test_a_turn_with_a_delay_closes_the_loop(write):
    trace = read_mooncake(
        write(
            row(session_id="a", timestamp=1000),
            row(timestamp=1001),
            row(session_id="a", timestamp=None, delay_ms=250.5),
        )
    )
    session, other = trace.sessions()
    assert [(turn.turn, turn.delay_s) for turn in session.turns] == [(0, None), (1, 0.2505)]
    assert session.session_id == "a"
    assert other.turns[0].arrival_s == 1.001


def test_a_row_may_carry_its_block_size(write):
    minimal = {"block_size": 64, "hash_ids": [2001, 2002], "input_length": 128}
    trace = read_mooncake(write(minimal, row()))
    first, _ = requests(trace)
    assert [span.length for span in first.prompt] == [64, 64]
    assert (first.arrival_s, first.output_len) == (0, 1)
    assert trace.source["block_size"] == "by row: 64, 512"


def test_only_the_first_requests_are_read_with_a_limit(write):
    path = write(row(), row(timestamp=1), "broken")
    assert len(requests(read_mooncake(path, limit=2))) == 2


BROKEN = {
    "not JSON": ('{"timestamp": 0', "a JSON object", "not valid JSON"),
    "deep": ("[" * 100_000, "a JSON object", "not valid JSON"),
    "a list": ("[1, 2]", "a JSON object", "[1, 2]"),
    "a bare number": ("7", "a JSON object", "found 7"),
    "no timestamp": (late(timestamp=None), "timestamp", "no such field"),
    "no input_length": (late(input_length=None), "input_length", "no such field"),
    "no output_length": (late(output_length=None), "output_length", "no such field"),
    "no hash_ids": (late(hash_ids=None), "hash_ids", "no such field"),
    "negative time": (late(timestamp=-1), "timestamp", "found -1"),
    "NaN time": (late(timestamp=math.nan), "timestamp", "found nan"),
    "infinite time": (late(timestamp=math.inf), "timestamp", "found inf"),
    "endless time": (late(timestamp=10**400), "timestamp", "..."),
    "text for a time": (late(timestamp="82"), "timestamp", "'82'"),
    "a truth for a time": (late(timestamp=True), "timestamp", "True"),
    "null time": ('{"timestamp": null}', "timestamp", "None"),
    "no input": (late(input_length=0), "input_length", "found 0"),
    "fractional input": (late(input_length=700.0), "input_length", "700.0"),
    "huge input": (late(input_length=1 << 40), "input_length", str(1 << 40)),
    "text for a length": (late(output_length="5"), "output_length", "'5'"),
    "no output": (late(output_length=0), "output_length", "found 0"),
    "ids not a list": (late(hash_ids="1,2"), "hash_ids", "'1,2'"),
    "no ids": (late(hash_ids=[]), "hash_ids", "an empty list"),
    "a negative id": (late(hash_ids=[1, -2]), "hash_ids", "found -2"),
    "a fractional id": (late(hash_ids=[1, 2.5]), "hash_ids", "found 2.5"),
    "a true id": (late(hash_ids=[1, True]), "hash_ids", "found True"),
    "an id of 65 bits": (late(hash_ids=[1, 1 << 64]), "hash_ids", str(1 << 64)),
    "too few ids": (late(hash_ids=[1]), "2 hash_ids for input_length 700 in blocks of 512", "1"),
    "too many ids": (late(hash_ids=[1, 2, 3]), "2 hash_ids", "found 3"),
    "out of order": (late(timestamp=5), "timestamp of at least 10", "found 5"),
    "an empty session": (late(session_id=""), "session_id", "''"),
    "a number for a session": (late(session_id=7), "session_id", "found 7"),
    "a delay without a session": (late(timestamp=None, delay=5), "timestamp", "no such field"),
    "a first turn without a time": (
        late(timestamp=None, delay=5, session_id="new"),
        "timestamp as a number",
        "no such field",
    ),
    "a later turn without a time": (
        late(timestamp=None, session_id="old"),
        "timestamp or delay",
        "no such field",
    ),
    "a negative delay": (late(timestamp=None, delay=-1, session_id="old"), "delay", "found -1"),
    "a block of nothing": (late(block_size=0), "block_size", "found 0"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_line_is_named_with_what_was_expected(write, kind):
    broken, expected, found = BROKEN[kind]
    path = write(row(timestamp=10, session_id="old"), "", broken, row(timestamp=11))
    with pytest.raises(TraceError) as error:
        read_mooncake(path)
    said = str(error.value)
    assert said.startswith(f"{path}:3: expected ")
    assert expected in error.value.expected
    assert found in f"found {error.value.found}"
    assert "\n" not in said
    assert len(said) < len(str(path)) + 300


def test_text_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(json.dumps(row()).encode() + b'\n{"\xff\n')
    with pytest.raises(TraceError, match=":2: expected UTF-8 text"):
        read_mooncake(path)


@pytest.mark.parametrize("content", ["", "\n\r\n  \n"])
def test_a_file_without_requests_is_refused(write, content):
    with pytest.raises(TraceError, match="expected at least one request, found an empty file"):
        read_mooncake(write(content))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"none\.jsonl: expected a trace file.*No such file"):
        read_mooncake(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match="Is a directory"):
        read_mooncake(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(write):
    path = write(row())
    path.chmod(0)
    with pytest.raises(TraceError, match="Permission denied"):
        read_mooncake(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"block_size": 0}, "block size must be at least 1"),
        ({"time_scale": 0}, "time scale must be more than 0"),
        ({"time_scale": math.nan}, "time scale must be more than 0"),
        ({"time_scale": math.inf}, "time scale must be finite"),
        ({"limit": 0}, "number of requests must be at least 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(write, settings, said):
    with pytest.raises(WorkloadError, match=said):
        read_mooncake(write(row()), **settings)


def test_a_lenient_reader_sorts_and_keeps_closed_loop_turns_behind_their_session(write):
    path = write(
        row(timestamp=30, session_id="late"),
        row(timestamp=None, delay=5, session_id="late"),
        row(timestamp=10),
        row(timestamp=20),
    )
    trace = read_mooncake(path, lenient=True)
    assert [r.request_id for r in requests(trace)] == ["line-3", "line-4", "line-1", "line-2"]
    assert trace.source["warnings"] == "2 timestamps out of order: sorted"


def test_a_lenient_reader_makes_the_ids_fit_the_length(write):
    path = write(row(hash_ids=[1]), row(hash_ids=[1, 2, 3]), row())
    trace = read_mooncake(path, lenient=True)
    few, many, right = requests(trace)
    assert [r.prompt_len for r in (few, many, right)] == [700, 700, 700]
    assert many.prompt == right.prompt
    assert few.prompt[0] == right.prompt[0]
    assert few.prompt[1].seed != right.prompt[1].seed
    assert trace.source["warnings"] == (
        "2 rows whose hash_ids do not fit their length: cut or filled up"
    )


def test_a_lenient_reader_still_refuses_what_is_no_request(write):
    with pytest.raises(TraceError):
        read_mooncake(write(row(input_length=-1)), lenient=True)


def test_ids_with_two_parents_are_reported(write):
    path = write(row(hash_ids=[1, 2]), row(hash_ids=[3, 2]), row(hash_ids=[2, 1]))
    warnings = read_mooncake(path).source["warnings"]
    assert warnings == "2 block ids follow different blocks: ids are not prefix-chained"


def test_a_row_with_timestamp_and_delay_is_reported(write):
    trace = read_mooncake(write(row(session_id="a", delay=7)))
    assert requests(trace)[0].delay_s is None
    assert trace.source["warnings"] == "1 rows with timestamp and delay: the timestamp is used"


def test_spreading_keeps_order_and_stays_inside_the_gap(write):
    at_ms = [0] * 20 + [3000] * 20 + [6000] + [60_000] * 20
    path = write(*(row(timestamp=t) for t in at_ms))
    times = np.array([r.arrival_s for r in requests(read_mooncake(path, spread_seed=1))])
    again = [r.arrival_s for r in requests(read_mooncake(path, spread_seed=1))]
    other = [r.arrival_s for r in requests(read_mooncake(path, spread_seed=2))]
    moved = times - np.array(at_ms) / 1000
    assert np.all(np.diff(times) >= 0)
    assert np.all((moved >= 0) & (moved <= 3))
    assert len(set(times.tolist())) == len(times)
    assert times.tolist() == again != other


def test_spreading_is_uniform(write):
    # 4,000 places in [0, 3): a mean of 1.5, deviation 3 / sqrt(12 * 4000); five deviations.
    path = write(*(row(timestamp=3000 * (i // 400)) for i in range(4000)))
    times = [r.arrival_s for r in requests(read_mooncake(path, spread_seed=1))]
    moved = np.array(times) - 3 * (np.arange(4000) // 400)
    assert abs(moved.mean() - 1.5) < 5 * 3 / math.sqrt(12 * 4000)
    assert abs(np.mean(moved < 0.75) - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 4000)


def test_one_instant_has_no_gap_to_spread_over(write):
    trace = read_mooncake(write(row(timestamp=5), row(timestamp=5)), spread_seed=1)
    assert [r.arrival_s for r in requests(trace)] == [0.005, 0.005]


def test_ids_as_pages_are_whole_pages_and_nothing_else():
    trace = read_mooncake(DATA / "ci_mooncake.jsonl")
    view = trace.ids_as_pages(16)
    listed = [session.turns for session in view.sessions()]
    assert len(listed) == 64
    for (request,), ids in zip(listed, trace.rows(), strict=True):
        assert request.prompt_len == 16 * len(ids)
        assert request.output == ()
    pages = {span for (request,) in listed for span in request.prompt}
    assert len(pages) == len({block for ids in trace.rows() for block in ids})
    assert view.source["ids_as_pages"] == 16
    assert view.digest() != trace.digest()


def test_sessions_with_their_own_times_keep_them():
    trace = read_mooncake(DATA / "ci_mooncake.jsonl")
    listed = list(trace.sessions())
    assert len(listed) < 64
    first = listed[0]
    assert [turn.arrival_s for turn in first.turns][:3] == [0.001, 0.025, 0.038]
    assert [turn.turn for turn in first.turns] == list(range(len(first.turns)))
    assert all(turn.delay_s is None for session in listed for turn in session.turns)
