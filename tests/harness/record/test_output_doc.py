"""docs/output.md names exactly what the code writes."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from harness.record.metrics import TIMESERIES
from harness.record.ranks import RankRow
from harness.record.requests import FIELDS
from harness.record.summary import LATENCY_STEMS, REQUEST_KEYS, RUN_KEYS, STATISTICS
from harness.report.page import build_report
from tests.harness.record.feed import record

DOC = Path(__file__).parents[3] / "docs" / "output.md"


def table(heading: str, *, number: int = 0) -> list[list[str]]:
    """Return the rows of the table with this number below a heading."""
    section = re.split(rf"^#+ {re.escape(heading)}$", DOC.read_text(), flags=re.M)[1]
    section = re.split(r"^#", section, flags=re.M)[0]
    blocks = re.findall(r"(?:^\|.*\n?)+", section, flags=re.M)
    lines = blocks[number].splitlines()[2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def test_every_request_column_is_documented_in_order():
    assert tuple(row[0] for row in table("requests.csv")) == FIELDS


def test_every_column_of_a_rank_is_documented_in_order():
    assert [row[0] for row in table("ranks.csv")] == [field.name for field in fields(RankRow)]


def test_every_metric_is_documented_with_its_unit_and_stat():
    documented = {row[0]: (row[1], row[2]) for row in table("timeseries.csv")}
    assert documented == {name: metric[:2] for name, metric in TIMESERIES.items()}


def test_every_latency_and_statistic_is_documented():
    assert tuple(row[0] for row in table("Latencies")) == STATISTICS
    assert [row[0] for row in table("Latencies", number=1)] == list(LATENCY_STEMS)


@pytest.mark.parametrize(
    ("heading", "keys"),
    [("Requests, tokens, hit rates", REQUEST_KEYS), ("Run, tiers, verdict", RUN_KEYS)],
)
def test_every_summary_key_is_documented_with_its_unit(heading, keys):
    documented = {row[0]: (row[1], row[2]) for row in table(heading)}
    assert documented == {name: tuple(key) for name, key in keys.items()}


def test_every_file_of_a_reported_run_is_documented(tmp_path):
    directory = record(tmp_path, number=60, samples=20)
    build_report(directory.path)
    written = {file.name for file in directory.path.iterdir()}
    assert {row[0] for row in table("Files")} == written


def test_every_key_of_run_json_is_documented(tmp_path):
    directory = record(tmp_path, number=20, samples=5)
    page = json.loads((directory.path / "run.json").read_text())
    assert [row[0] for row in table("run.json")] == list(page)


def test_the_exit_codes_are_those_of_the_design():
    assert [row[0] for row in table("Exit codes")] == [*"0123456", "130"]
