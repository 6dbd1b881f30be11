"""`bench.py soak --companions`: what lies beside every slot takes room, moves, and is shown."""

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


def summary(done) -> dict[str, object]:
    assert done.returncode in (0, 5), done.stderr
    found = json.loads(done.stdout)
    assert found["violations"] == 0
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[dict[str, object], Path]:
    folder = tmp_path_factory.mktemp("run")
    found = summary(soak(folder, *SMALL, "--companions", "scales,indexer,draft"))
    return found, folder / str(found["run"])


def test_it_passes_with_companions_on_both_tiers(run):
    found, folder = run
    assert found["verdict"] == "pass", found["verdict_reason"]
    marks = {m["mark"]: m for m in json.loads((folder / "marks.json").read_text())}
    for name in ("companions_backed_up", "companions_loaded_back"):
        assert marks[name]["required"]
        assert marks[name]["count"] > 0


def test_series_and_manifest_show_them_as_pools(run):
    _, folder = run
    with (folder / "timeseries.csv").open() as file:
        rows = list(csv.DictReader(file))
    used = {name: [float(r["value"]) for r in rows if r["metric"] == name] for name in NAMES}
    assert all(map(any, used.values()))
    assert used["device_draft_used_pages"] == used["device_full_used_pages"]
    pools = json.loads((folder / "run.json").read_text())["pools"]
    sizes = {pool["component"]: pool["page_bytes"] for pool in pools}
    assert sizes["indexer"] == 64 * 10 * 132
    assert sizes["scales"] == 64 * 2 * 10 * 2 * 4


NAMES = ("device_full_used_pages", "device_draft_used_pages", "host_window_scales_used_pages")


def test_bytes_that_move_are_theirs_too(tmp_path):
    flags = (*SMALL, "--set", "num_clients=4", "--device-pages", "2000", "--hicache-ratio", "1")
    alone, accompanied = (
        summary(soak(tmp_path, *flags, *more)) for more in ((), ("--companions", "indexer"))
    )
    manifest = json.loads((tmp_path / str(accompanied["run"]) / "run.json").read_text())
    (indexer,) = {p["page_bytes"] for p in manifest["pools"] if p["component"] == "indexer"}
    more = int(str(accompanied["host_written_bytes"])) - int(str(alone["host_written_bytes"]))
    assert more > 0
    assert more % indexer == 0, "nothing is evicted, so every page is backed up once in both"


def test_one_that_has_nothing_to_belong_to_is_refused_in_one_line(tmp_path):
    done = soak(tmp_path, *SMALL, "--companions", "side")
    assert done.returncode == 2
    assert "leave side out of --companions" in done.stderr


def test_an_indexer_lies_beside_latent_rows_which_every_rank_keeps_whole(tmp_path):
    flags = ("--model", "deepseek-ai/DeepSeek-R1", "--tp", "4", "--hardware", "B200")
    found = summary(soak(tmp_path, *SMALL, "--set", "num_clients=4", *flags,
                         "--companions", "indexer"))  # fmt: skip
    manifest = json.loads((tmp_path / str(found["run"]) / "run.json").read_text())
    sizes = {pool["component"]: pool["page_bytes"] for pool in manifest["pools"]}
    assert sizes == {"full": 64 * 61 * (512 + 64), "indexer": 64 * 61 * 132}
    assert any("latent row whole" in note for note in manifest["notes"])
