"""`python -m harness.bench`, as a user runs it."""

import csv
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHEETS = [
    "cache",
    "world",
    "shares",
    "hottest",
    "kernel",
    "search",
    "storage",
    "copies",
    "recorder",
    "client",
    "serve",
]


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "harness.bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One quick run of everything, and where it left its files."""
    folder = tmp_path_factory.mktemp("published")
    return _bench("--quick", "--output-dir", str(folder)), folder


@pytest.fixture(scope="module")
def table(quick):
    """sheet -> row -> column -> text, of bench.csv."""
    found: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    with (quick[1] / "bench.csv").open(encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            found[line["benchmark"]][line["row"]][line["column"]] = line["value"]
    return found


def test_a_quick_run_ends_well_and_prints_plain_text(quick):
    done, _ = quick
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_every_benchmark_leaves_a_table(table):
    assert list(table) == SHEETS


def test_the_page_says_what_was_typed_and_names_no_folder_or_machine(quick):
    page = (quick[1] / "bench.md").read_text(encoding="utf-8")
    assert page.startswith("# Benchmarks\n\n```sh\nmake bench ARGS=")
    assert len(re.findall(r"(?m)^## ", page)) == len(SHEETS)
    assert str(ROOT) not in page
    assert str(Path.home()) + "/" not in page


def test_no_row_takes_no_time(table):
    for sheet, column in (("cache", "median_us"), ("world", "wall_s"), ("kernel", "median_ns")):
        assert all(float(row[column]) > 0 for row in table[sheet].values()), sheet


def test_watching_changes_nothing_but_the_time(table):
    runs = {name: row["digest"] for name, row in table["world"].items() if name != "null cache"}
    assert len(set(runs.values())) == 1, runs
    assert {row["operations"] for name, row in table["world"].items() if name in runs} != {""}


def test_the_shares_of_a_run_add_up(table):
    columns = next(iter(table["shares"].values()))
    for column in columns:
        total = sum(float(row[column]) for row in table["shares"].values())
        assert total == pytest.approx(100), column


def test_only_oracles_that_are_on_take_time(table):
    oracles = table["shares"]["oracles"]
    assert float(oracles["reference_cache_pct"]) == 0
    assert float(oracles["soak_every_oracle_pct"]) > 0


def test_part_of_a_benchmark_can_be_had_and_leaves_nothing():
    done = _bench("--quick", "--only", "kernel")
    assert done.returncode == 0, done.stderr
    assert "Kernel" in done.stdout
    assert "Cache" not in done.stdout
    assert "wrote" not in done.stdout


def test_an_unknown_benchmark_is_refused_with_the_names_there_are():
    done = _bench("--only", "cache,teapot")
    assert done.returncode == 2
    assert "'teapot' is not known: use cache, world, kernel, search" in done.stderr


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_timed(tmp_path):
    (tmp_path / "taken").write_text("a file")
    done = _bench("--quick", "--output-dir", str(tmp_path / "taken" / "below"))
    assert done.returncode == 2
    assert "cannot be written to" in done.stderr
    assert done.stdout == ""
