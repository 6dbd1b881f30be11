"""`bench.py soak` from the outside: flags in, exit code, files and one line of errors out."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT.parent / "shared" / "traces" / "mooncake"
GOLDEN = {  # published for the whole files: capacity in pages, hit rate, evictions
    "conversation": [(1_000, 0.0445, 274_653), (5_000, 0.1118, 251_240), (10_000, 0.2116, 217_454)],
    "synthetic": [(1_000, 0.0841, 110_625), (5_000, 0.2793, 82_834), (10_000, 0.4239, 60_208)],
}
FILES = {
    "run.json",
    "requests.csv",
    "timeseries.csv",
    "summary.json",
    "summary.csv",
    "violations.jsonl",
    "marks.json",
    "report.html",
}


def bench(*words: str, hash_seed: str = "0", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "bench.py"), *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=_environment(hash_seed),
        timeout=240,
        check=False,
    )


@contextmanager
def begun(*words: str) -> Iterator["subprocess.Popen[str]"]:
    """A command that is running and hears Ctrl-C, even if whoever started the tests ignores it;
    what is left of it at the end is killed."""
    command = [sys.executable, str(ROOT / "bench.py"), *words]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command, cwd=ROOT, env=_environment("0"), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _environment(hash_seed: str) -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": hash_seed, "COLUMNS": "100"}


def soak(tmp_path: Path, *words: str, **options: str) -> subprocess.CompletedProcess[str]:
    return bench("soak", "--output-dir", str(tmp_path), *words, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hicache-ratio", "0"], "--hicache-ratio"),
        (["--hicache-ratio", "9"], "0.25 and 8"),
        (["--page-size", "0"], "--page-size"),
        (["--page-size", "40000"], "--page-size"),
        (["--hicache-write-policy", "write_around"], "write_back"),
        (["--hicache-io-backend", "telepathy"], "direct"),
        (["--hicache-mem-layout", "heap"], "page_first"),
        (["--kv-cache-dtype", "int4"], "fp8_e4m3"),
        (["--components", "swa"], "full"),
        (["--components", "full,mamba"], "full,swa"),
        (["--tp", "3"], "--tp"),
        (["--model", "gpt-7"], "--model"),
        (["--hardware", "abacus"], "--hardware"),
        (["--model", "gpt-oss-120b", "--hardware", "cpu", "--tp", "1"], "--tp"),
        (["--mem-fraction-static", "2"], "--mem-fraction-static"),
        (["--device-pages", "0"], "--device-pages"),
        (["--context-length", "99999999"], "--context-length"),
        (["--chunked-prefill-size", "1"], "--chunked-prefill-size"),
        (["--trace", "no/such.jsonl"], "no/such.jsonl"),
        (["--trace-format", "cuneiform"], "mooncake"),
        (["--workload", "gossip"], "chat"),
        (["--workload", "chat", "--set", "num_clients=-1"], "num_clients"),
        (["--set", "num_clients=4"], "--workload"),
        (["--workload", "chat", "--trace", "x"], "--trace"),
        (["--num-requests", "0"], "--num-requests"),
        (["--duration", "soon"], "10m"),
        (["--request-rate", "0"], "--request-rate"),
        (["--arrival", "poisson"], "--request-rate"),
        (["--arrival", "tidal", "--request-rate", "2"], "poisson"),
        (["--max-concurrency", "0"], "--max-concurrency"),
        (["--tag", "../x"], "--tag"),
        (["--clock", "sundial"], "virtual"),
        (["--seed", "x"], "--seed"),
        (["--colour", "red"], "--colour"),
        (["--from-sglang", "rm -rf"], "sglang"),
        (["--ids-as-pages"], "--disable-hierarchical-cache"),
    ],
)
def test_bad_input_ends_in_one_line_that_says_what_to_type(
    tmp_path: Path, words: list[str], says: str
) -> None:
    done = soak(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_broken_line_of_a_trace_is_named_by_file_and_number(tmp_path: Path) -> None:
    trace = tmp_path / "broken.jsonl"
    good = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'
    trace.write_text(good + good.replace("[1, 2]", "[1]"))
    done = soak(tmp_path / "out", "--trace", str(trace))
    assert done.returncode == 2
    assert "broken.jsonl:2" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_an_output_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    done = bench("soak", "--output-dir", str(file / "below"))
    assert done.returncode == 2
    assert "--output-dir" in done.stderr


def test_the_default_soak_passes_and_leaves_a_whole_run_directory(tmp_path: Path) -> None:
    done = soak(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.iterdir()
    assert {path.name for path in run.iterdir()} >= FILES
    assert len(list(run.glob("*.png"))) >= 5
    page = json.loads((run / "run.json").read_text())
    assert page["settings"]["model"] == "gemma-4-31B-it"
    assert page["settings"]["tp"] == 2
    assert any("Every rank has a cache of its own" in note for note in page["notes"])
    summary = json.loads((run / "summary.json").read_text())
    assert summary["verdict"] == "pass"
    assert summary["violations"] == 0
    assert summary["completed"] + summary["rejected"] == 1000
    assert summary["rejected"] > 0, "prompts beyond the context are rejected and counted"
    assert summary["verified"] == summary["completed"]
    with (run / "requests.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 1000
    for row in rows:
        if row["status"] == "completed":
            names = ("queue_ms", "match_ms", "load_ms", "prefill_ms")
            parts = sum(float(row[name]) for name in names)
            assert parts == pytest.approx(float(row["ttft_ms"]), abs=1e-3)


def test_the_same_seed_gives_the_same_digest_whatever_the_hash_seed(tmp_path: Path) -> None:
    digests = []
    for hash_seed in ("1", "77"):
        done = soak(tmp_path, "--num-requests", "150", "--json", hash_seed=hash_seed)
        assert done.returncode in (0, 5), done.stderr
        digests.append(json.loads(done.stdout)["digest"])
    assert digests[0] == digests[1]


@pytest.mark.parametrize("tp", ["1", "2"])
def test_every_pool_of_either_tier_is_in_the_series_whatever_the_ranks(
    tmp_path: Path, tp: str
) -> None:
    soak(tmp_path, "--num-requests", "60", "--tp", tp)
    (series,) = tmp_path.rglob("timeseries.csv")
    seen = {row["metric"] for row in csv.DictReader(series.read_text().splitlines())}
    pools = [f"{tier}_{name}" for tier in ("device", "host") for name in ("full", "swa")]
    kinds = ("used", "locked", "evictable")
    assert {f"{pool}_{kind}_pages" for pool in pools for kind in kinds} <= seen


def test_a_soak_that_reached_nothing_is_inconclusive_and_says_so(tmp_path: Path) -> None:
    done = soak(tmp_path, "--num-requests", "3")
    assert done.returncode == 5
    assert "INCONCLUSIVE: never reached" in done.stdout


def test_a_pasted_launch_command_is_used_and_the_rest_listed(tmp_path: Path) -> None:
    command = (
        "sglang serve --model-path meta-llama/Llama-3.1-8B --tp 1 --page-size 32"
        " --enable-hierarchical-cache --hicache-ratio 2 --port 30000"
    )
    done = soak(tmp_path, "--from-sglang", command, "--num-requests", "5", "--page-size", "16")
    assert "ignored: --port 30000" in done.stdout
    (run,) = tmp_path.iterdir()
    settings = json.loads((run / "run.json").read_text())["settings"]
    assert settings["model"] == "meta-llama/Llama-3.1-8B"
    assert settings["page_size"] == 16, "a flag that was typed beats the pasted one"
    assert settings["hicache_ratio"] == 2.0
    assert settings["hierarchical"] is True


def test_the_null_cache_is_the_baseline(tmp_path: Path) -> None:
    words = ("--workload", "chat", "--set", "num_clients=8", "--disable-radix-cache", "--json")
    summary = json.loads(soak(tmp_path, *words).stdout)
    assert summary["completed"] > 0
    assert summary["prefix_token_hit_rate"] == 0
    assert summary["ideal_token_hit_rate"] > 0


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_block_hits_and_evictions_are_met_exactly(tmp_path: Path, name: str) -> None:
    trace = SHARED / f"{name}_trace.jsonl"
    if not trace.is_file():
        pytest.skip(f"the whole {name} trace is not beside this checkout")
    for pages, rate, evicted in GOLDEN[name]:
        done = soak(
            tmp_path, "--ids-as-pages", "--components", "full", "--disable-hierarchical-cache",
            "--compute", "null", "--device-pages", str(pages), "--trace", str(trace), "--json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        counted = json.loads(done.stdout)
        assert round(counted["prefix_block_hit_rate"], 4) == rate
        assert counted["evicted_pages"] == evicted
