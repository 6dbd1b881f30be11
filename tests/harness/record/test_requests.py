"""A request's row survives the file, and its numbers end up in the right columns."""

import csv
import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.record.requests import FIELDS, RequestColumns, RequestLines, RequestRow, parse_row
from tests.harness.record.feed import rows

ROW = next(row for row in rows(60) if row.status == "completed" and row.phase == "steady")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20)


def parsed(line: str) -> RequestRow:
    (cells,) = csv.reader([line])
    return parse_row(dict(zip(FIELDS, cells, strict=True)))


@given(TEXT, TEXT, st.floats(0, 1e12), st.integers(-1, 2**62), st.booleans())
def test_a_line_of_the_file_is_the_row(name, error, ttft_ms, end_ns, verified):
    row = replace(
        ROW, request_id=name, error=error, ttft_ms=ttft_ms, end_ns=end_ns, verified=verified
    )
    assert parsed(RequestLines().line(row)) == row


def test_a_latency_that_does_not_exist_is_an_empty_cell():
    line = RequestLines().line(replace(ROW, tpot_ms=math.nan))
    assert math.isnan(parsed(line).tpot_ms)
    assert "nan" not in line


def test_a_torn_line_is_refused():
    cells = dict(zip(FIELDS, RequestLines().line(ROW).split(","), strict=True))
    for name in ("verified", "end_ns", "ttft_ms"):
        with pytest.raises(ValueError, match="x"):
            parse_row({**cells, name: "x"})


def test_the_columns_are_those_of_the_public_convention():
    assert [field.name for field in fields(RequestRow)] == list(FIELDS)
    assert FIELDS[:5] == ("request_id", "session_id", "turn", "phase", "tenant")
    assert FIELDS[-3:] == ("status", "error", "verified")


def test_only_steady_completed_requests_give_latencies_and_tokens():
    columns = RequestColumns()
    for row in (
        replace(ROW, ttft_ms=10.0, prompt_tokens=100, verified=True),
        replace(ROW, ttft_ms=20.0, prompt_tokens=50, verified=False),
        replace(ROW, ttft_ms=99.0, prompt_tokens=7, phase="warmup"),
        replace(ROW, ttft_ms=99.0, prompt_tokens=7, status="aborted"),
        replace(ROW, ttft_ms=math.nan, prompt_tokens=7, status="rejected"),
    ):
        columns.add(row)
    assert columns.latency("ttft_ms").count == 2
    assert columns.latency("ttft_ms").statistics().mean == 15.0
    assert columns.tokens["prompt_tokens"] == 150
    assert (columns.warmup, columns.verified) == (1, 1)
    assert columns.statuses == {"completed": 2, "rejected": 1, "aborted": 1, "failed": 0}


def test_the_duration_spans_first_arrival_to_last_end():
    columns = RequestColumns()
    assert columns.duration_s == 0
    for scheduled_ns, end_ns in ((5_000_000_000, 9_000_000_000), (2_000_000_000, 3_000_000_000)):
        columns.add(replace(ROW, scheduled_ns=scheduled_ns, end_ns=end_ns))
    assert columns.duration_s == 7.0
