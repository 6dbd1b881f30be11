"""`bench.py soak` with storage: flags in, hits by tier, series and report out."""

import csv
import json
from pathlib import Path

import pytest

from tests.harness.cli.test_soak_command import soak

SMALL = (
    *("--workload", "chat", "--set", "num_clients=24", "--set", "num_rounds=3"),
    *("--request-rate", "1", "--device-pages", "250", "--hicache-ratio", "0.5"),
    *("--context-length", "16384", "--hicache-write-policy", "write_through", "--json"),
)
WAITING = ("--hicache-storage-prefetch-policy", "wait_complete")


def summary(done) -> dict[str, object]:
    assert done.returncode in (0, 5), done.stderr
    found = json.loads(done.stdout)
    assert found["violations"] == 0
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[dict[str, object], Path]:
    folder = tmp_path_factory.mktemp("run")
    words = ("--hicache-storage-backend", "memory", *WAITING, "--storage-troubles", "3")
    found = summary(soak(folder, *SMALL, *words))
    return found, folder / str(found["run"])


def test_storage_serves_hits_of_its_own_and_the_requests_say_so(run):
    found, folder = run
    assert found["verdict"] == "pass", found["verdict_reason"]
    assert found["storage_hit_tokens"] > 0
    assert found["storage_written_bytes"] > found["storage_read_bytes"] > 0
    assert found["storage_pages"] > 0
    with (folder / "requests.csv").open() as file:
        cached = [int(row["cached_tokens_storage"]) for row in csv.DictReader(file)]
    assert sum(cached) == found["storage_hit_tokens"]


def test_the_series_and_the_report_show_storage(run):
    _, folder = run
    with (folder / "timeseries.csv").open() as file:
        seen = {row["metric"] for row in csv.DictReader(file)}
    assert {"hit_rate_storage", "storage_used_pages", "storage_moves_in_flight"} <= seen
    page = (folder / "report.html").read_text()
    assert "storage_hit_tokens" in page
    assert "persist_landed" in page


def test_the_same_seed_gives_the_same_digest_in_the_same_trouble(run, tmp_path):
    words = ("--hicache-storage-backend", "memory", *WAITING, "--storage-troubles", "3")
    again = summary(soak(tmp_path, *SMALL, *words, hash_seed="7"))
    assert again["digest"] == run[0]["digest"]


def test_a_folder_serves_the_next_server_what_the_last_one_left(tmp_path):
    words = ("--hicache-storage-backend", "file", *WAITING)
    words += ("--storage-path", str(tmp_path / "pages"), "--num-requests", "30")
    first, second = (summary(soak(tmp_path / name, *SMALL, *words)) for name in "ab")
    assert second["storage_hit_tokens"] > first["storage_hit_tokens"]


@pytest.mark.parametrize(("backend", "there"), [("mooncake", False), ("file", True)])
def test_a_pasted_backend_is_used_or_listed_as_ignored(backend, there, tmp_path):
    pasted = "sglang serve --model gemma-4-31B-it --tp 2 --enable-hierarchical-cache"
    pasted += f" --hicache-storage-backend {backend}"
    done = soak(tmp_path, "--from-sglang", pasted, "--num-requests", "3")
    assert done.returncode in (0, 5), done.stderr
    (folder,) = tmp_path.iterdir()
    page = json.loads((folder / "run.json").read_text())
    assert page["settings"]["hicache_storage_backend"] == ("file" if there else "")
    ignored = [f"--hicache-storage-backend {backend}"]
    assert page["ignored_flags"] == ([] if there else ignored)
    assert (folder / "storage").exists() is there


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hicache-storage-backend", "mooncake"], "file, redis, memory"),
        (["--hicache-storage-backend", "redis"], "--storage-path redis://HOST:PORT"),
        (["--hicache-storage-prefetch-policy", "never"], "wait_complete"),
        (["--hicache-storage-backend", "memory", "--storage-size", "0"], "--storage-size"),
        (["--hicache-storage-backend", "memory", "--prefetch-threshold", "-1"], "threshold"),
        (["--hicache-storage-backend", "memory", "--prefetch-batch-pages", "0"], "1 page or more"),
        (["--hicache-storage-backend", "file", "--storage-troubles", "1"], "memory"),
        (
            ["--hicache-storage-backend", "memory", "--disable-hierarchical-cache"],
            "--disable-hierarchical-cache",
        ),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_two(words, says, tmp_path):
    done = soak(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []
