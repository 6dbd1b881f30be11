"""Ranks that are processes: a soak over gloo, with faults, deaths and silence among them.

Each test starts a process, which takes a few seconds, so there are few of them."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from harness.cli import follow
from harness.ranks.crew import Crew
from harness.ranks.leader import Leader, Voyage, leading
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.live import SilentScreen
from harness.soak.plan import plan_server, plan_traffic
from harness.soak.run import Soak, Soaked
from harness.soak.settings import Serving, Traffic, Watching
from harness.verdict import Verdict

SERVING = Serving(
    model="tiny-hybrid",
    hardware="cpu",
    tp=2,
    compute="model",
    device="cpu",
    page_size=16,
    device_pages=14,
    max_mamba_cache_size=12,
    context_length=512,
    chunked_prefill_size=64,
    max_running_requests=4,
    hicache_ratio=4.0,
    hicache_write_policy="write_through",
    check_logits=1.0,
)
SIZES = {
    "num_groups": 3,
    "prompts_per_group": 3,
    "system_prompt_len": 96,
    "question_len": 16,
    "output_len": 3,
}
TRAFFIC = Traffic(
    workload="shared_prefix",
    set=tuple((name, str(value)) for name, value in SIZES.items()),
    request_rate=50.0,
)
WATCHING = Watching(clock="wall", oracles="every")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@contextmanager
def a_soak(
    folder: Path,
    *,
    serving: Serving = SERVING,
    watching: Watching = WATCHING,
    fault: str = "",
    patience_s: float = 60.0,
    tamper: Callable[[Leader, Crew], None] = lambda leader, crew: None,
) -> Iterator[Soak]:
    voyage = Voyage(
        serving=serving, traffic=TRAFFIC, watching=watching, patience_s=patience_s, fault=fault
    )
    settings = {**asdict(serving), **asdict(TRAFFIC), **asdict(watching)}
    manifest = Manifest(command="", clock="wall", seed=1, settings=settings, workload={})
    directory = RunDirectory.create(folder, "test")
    with (
        Recorder(directory, manifest) as recorder,
        leading(voyage, directory.path, "cpu", recorder.violation) as (clock, leader),
    ):
        tamper(leader, leader._crew)
        yield Soak(
            plan_server(serving, clock="wall", seed=TRAFFIC.seed),
            plan_traffic(TRAFFIC),
            watching,
            radix_cache=True,
            warmup_requests=0,
            recorder=recorder,
            screen=SilentScreen(),
            clock=clock,
            party=leader,
        )


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than these runs."""
    monkeypatch.setattr("harness.soak.run.report_of", lambda recorded: None)


def rows_of(soaked: Soaked) -> list[dict[str, str]]:
    lines = (soaked.recorded.directory.path / "ranks.csv").read_text().splitlines()
    names = lines[0].split(",")
    return [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]


def test_two_processes_decide_alike_and_can_be_followed_by_one(tmp_path: Path) -> None:
    greedy = replace(SERVING, decoding="greedy")
    with a_soak(tmp_path, serving=greedy) as soak:
        soaked = soak.run()
    assert soaked.summary["violations"] == 0, soaked.reason
    assert soaked.summary["completed"] == 9
    assert soaked.summary["ranks"] == 2
    assert soaked.summary["host_hit_tokens"] > 0
    first, second = rows_of(soaked)
    assert first["digest"] == second["digest"] == soaked.summary["digest"]
    assert first["logits_checked_requests"] == second["logits_checked_requests"] == "18"
    assert int(first["meetings"]) == int(second["meetings"]) > soaked.summary["agreements"]
    assert not (soaked.recorded.directory.path / "rank1").exists()
    assert follow.run(soaked.recorded.directory.path) == 0


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("fault", "oracles"),
    [
        ("unagreed-backup-acknowledgements", {"R1", "R2"}),
        (
            "hit-without-a-copy-of-its-state",
            {"N1"},
        ),  # on one rank, whose heads are wrong in all sums
    ],
)
def test_a_rank_that_goes_its_own_way_is_found(
    fault: str, oracles: set[str], tmp_path: Path
) -> None:
    watching = WATCHING if "R1" in oracles else replace(WATCHING, oracles="off")
    with a_soak(tmp_path, fault=fault, watching=watching) as soak:
        soaked = soak.run()
    assert soaked.verdict is Verdict.VIOLATION, soaked.reason
    lines = (soaked.recorded.directory.path / "violations.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert {record["oracle"] for record in found} <= oracles
    if oracles == {"N1"}:
        seen = {rank: {r["signature"] for r in found if r["rank"] == rank} for rank in (0, 1)}
        assert seen[0]
        assert "logits.mamba" in seen[1] - seen[0]  # where it went wrong first
        assert follow.run(soaked.recorded.directory.path) == 0


def _after_forwards(count: int, action: Callable[[Crew], None]) -> Callable[[Leader, Crew], None]:
    def tamper(leader: Leader, crew: Crew) -> None:
        before, left = leader.before_forward, [count]

        def before_forward() -> None:
            left[0] -= 1
            if not left[0]:
                action(crew)
            before()

        leader.before_forward = before_forward  # type: ignore[method-assign]

    return tamper


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "rank 1 was killed by signal 9, after"),
        (signal.SIGSTOP, "rank 1 does not answer, after"),
    ],
)
def test_a_rank_that_is_lost_ends_the_run_in_one_line(
    number: int, words: str, tmp_path: Path
) -> None:
    def strike(crew: Crew) -> None:
        pid = crew._hands[0].process.pid
        assert pid is not None
        os.kill(pid, number)

    patience_s = 60.0 if number == signal.SIGKILL else 4.0
    with a_soak(tmp_path, patience_s=patience_s, tamper=_after_forwards(6, strike)) as soak:
        soaked = soak.run()
        hand = soak._party._crew._hands[0]  # type: ignore[union-attr]
        pid = hand.process.pid
    assert soaked.verdict is Verdict.INCONCLUSIVE
    assert soaked.reason.startswith(words)
    assert [row["status"] for row in rows_of(soaked)] == ["ended", "lost"]
    assert soaked.recorded.status == "failed"
    assert (soaked.recorded.directory.path / "rank1").exists()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
