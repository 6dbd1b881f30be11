"""`bench.py compare`: a table, a page, files and exit codes."""

import csv
import json
import re

import pytest
from click.testing import CliRunner

import bench
from tests.harness.compare.runs import noisy, run, slower
from tests.harness.record.test_output_doc import table
from tests.harness.report.test_page import Page


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [str(run(folder, change, seed=seed, number=200))
            for seed, change in ((1, noisy), (2, noisy), (3, slower(1.5)))]  # fmt: skip


def _invoke(*words):
    result = CliRunner().invoke(
        bench.cli, ["compare", *words, "--resamples", "200"], standalone_mode=False
    )
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_the_table_says_what_is_worse_and_where_the_page_is(runs, tmp_path):
    code, out = _invoke(runs[0], runs[2], "--output-dir", str(tmp_path))
    assert code == 0
    assert re.search(r"median_ttft_ms +\S+ m?s +\S+ m?s +\+\S+ m?s +\+\d+ % .*worse", out)
    assert "compare.html" in out
    assert max(len(line) for line in out.splitlines()) <= 200


def test_every_file_is_written_and_documented(runs, tmp_path):
    _invoke(runs[0], runs[2], "--output-dir", str(tmp_path))
    (folder,) = tmp_path.iterdir()
    documented = {row[0] for row in table("What a comparison leaves behind")}
    assert {file.name for file in folder.iterdir()} == documented
    html = (folder / "compare.html").read_text()
    page = Page(html)
    assert page.seen.count("h1") == 1
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    with (folder / "compare.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [row[0] for row in table("What a comparison leaves behind", number=1)]
    assert {row["metric"] for row in rows} >= {"p99_ttft_ms", "prefix_token_hit_rate"}


def test_json_is_one_line(runs, tmp_path):
    code, out = _invoke(runs[0], runs[1], "--output-dir", str(tmp_path), "--json")
    told = json.loads(out)
    assert code == 0
    assert told["headline"].startswith("No difference")
    assert told["paired"] is True


def test_a_limit_that_is_surely_exceeded_is_exit_code_4(runs, tmp_path):
    limit = ("--fail-if-worse", "0.1", "--output-dir", str(tmp_path))
    code, out = _invoke(runs[0], runs[2], *limit)
    assert code == 4
    assert "worse by more than allowed" in out
    assert _invoke(runs[0], runs[1], *limit)[0] == 0


def test_different_workloads_are_one_line_and_exit_code_2(runs, tmp_path, capsys):
    other = str(run(tmp_path, noisy, digest="beef", number=60))
    words = ["compare", runs[0], other, "--output-dir", str(tmp_path / "out")]
    assert bench.guarded(lambda: bench.cli.main(words, standalone_mode=False)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--different-workloads" in said
    assert not (tmp_path / "out").exists()
