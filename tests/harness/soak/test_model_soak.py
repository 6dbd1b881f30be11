"""A soak whose model is computed: on either clock, followed afterwards, checked by N1."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cache.config import ConfigError, Tier
from cache.storage.contract import Fetched
from cache.storage.memory import MemoryStorage
from cache.tensors import TensorStore
from harness.device.storage import WallStorage
from harness.device.wall import WallStreams
from harness.engine.job import Job
from harness.explore.kernel import Kernel, Picker
from harness.faults import fault_named
from harness.record.decisions import BadDecisions, Decision, Decisions, read_decisions
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.serve.wall_clock import WallClock
from harness.soak.follow import Follower
from harness.soak.live import SilentScreen
from harness.soak.plan import plan_server, plan_traffic
from harness.soak.run import Soak
from harness.soak.settings import Oracles, Serving, Traffic, Watching
from harness.soak.wall import recorded_clock, stopping_on_interrupt

SERVING = Serving(
    model="tiny-hybrid",
    hardware="cpu",
    tp=1,
    compute="model",
    page_size=16,
    device_pages=40,
    max_mamba_cache_size=12,
    context_length=512,
    chunked_prefill_size=64,
    max_running_requests=4,
    hicache_ratio=4.0,
    hicache_write_policy="write_through",
    check_logits=1.0,
)
SIZES = {
    "num_groups": 4,
    "prompts_per_group": 3,
    "system_prompt_len": 160,
    "question_len": 24,
    "output_len": 6,
}
TRAFFIC = Traffic(
    workload="shared_prefix",
    set=tuple((name, str(value)) for name, value in SIZES.items()),
    request_rate=20.0,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@contextmanager
def a_soak(
    folder: Path,
    serving: Serving,
    clock: Picker | None,
    *,
    wall: bool = False,
    oracles: Oracles = "every",
    traffic: Traffic = TRAFFIC,
) -> Iterator[Soak]:
    manifest = Manifest(command="", clock="wall", seed=1, settings={}, workload={})
    with Recorder(RunDirectory.create(folder, "test"), manifest) as recorder:
        yield Soak(
            plan_server(serving, clock="wall" if wall else "virtual"),
            plan_traffic(traffic),
            Watching(oracles=oracles),
            radix_cache=True,
            warmup_requests=0,
            recorder=recorder,
            screen=SilentScreen(),
            clock=clock,
        )


def test_a_run_on_the_virtual_clock_checks_all_logits_and_finds_nothing(tmp_path: Path) -> None:
    with a_soak(tmp_path, SERVING, None) as soak:
        soaked = soak.run()
    assert soaked.summary["violations"] == 0
    assert soaked.summary["completed"] == 12
    assert soaked.summary["host_hit_tokens"] > 0
    assert soaked.summary["logits_checked_requests"] == 24  # at the first token and at the end
    assert soaked.summary["logits_checked_positions"] == 12 * 6


def test_n1_sees_a_fault_of_a_soak_that_no_other_oracle_watches(tmp_path: Path) -> None:
    with a_soak(tmp_path, SERVING, None, oracles="off") as soak:
        fault_named("pages-copied-in-reverse").put_into(soak.cache)  # type: ignore[arg-type]
        soaked = soak.run()
    assert soaked.summary["violations"] > 0
    first = (soaked.recorded.directory.path / "violations.jsonl").read_text().splitlines()[0]
    assert '"oracle":"N1"' in first.replace(" ", "")


def test_a_run_on_the_wall_clock_is_followed_to_the_same_digest(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with recorded_clock(kept) as clock, a_soak(tmp_path, SERVING, clock, wall=True) as soak:
        ended = soak.drive()
    assert ended.reason == "finished"
    assert isinstance(soak.world.streams, WallStreams)
    assert soak.world.streams.bytes_moved[Tier.HOST] > 0
    decisions = list(read_decisions(kept))
    assert len(decisions) == ended.steps
    nothing_computed = replace(SERVING, compute="null", load_back_overlap="layer")
    follower = Follower(iter(decisions))
    with a_soak(tmp_path, nothing_computed, follower, wall=True) as again:
        assert again.drive().reason == "finished"
    assert again.world.digest == soak.world.digest
    _parts_where_a_decision_is_another(tmp_path, decisions, nothing_computed)


def _parts_where_a_decision_is_another(
    tmp_path: Path, decisions: list[Decision], serving: Serving
) -> None:
    at = next(n for n, d in enumerate(decisions) if d.point == "forward.prefill")
    changed = [*decisions[:at], *decisions[at + 1 :]]
    follower = Follower(iter(changed))
    with a_soak(tmp_path, serving, follower, wall=True) as soak:
        soak.drive()
    assert follower.parted is not None
    assert "the record goes on with" in str(follower.parted)


BESIDE = replace(SERVING, companions=("scales", "indexer", "draft", "side"))


def test_logits_over_pages_with_companions_are_those_of_a_recomputation(tmp_path: Path) -> None:
    with a_soak(tmp_path, BESIDE, None) as soak:
        soaked = soak.run()
    assert soaked.summary["violations"] == 0
    assert soaked.summary["host_hit_tokens"] > 0
    assert soaked.summary["logits_checked_requests"] == 24
    beside = [c.store for pool in soak.cache.ranks[0].pools.values() for c in pool.companions]
    assert len(beside) == 2 * 5  # scales of pages and of the window's, and the other three
    assert all(isinstance(store, TensorStore) for store in beside)


@pytest.mark.parametrize("fault", ["companions-copied-in-reverse", "loads-without-companions"])
def test_n1_sees_scales_that_do_not_belong_to_their_pages(tmp_path: Path, fault: str) -> None:
    with a_soak(tmp_path, BESIDE, None, oracles="off") as soak:
        fault_named(fault).put_into(soak.cache)  # type: ignore[arg-type]
        soaked = soak.run()
    assert soaked.summary["violations"] > 0
    first = (soaked.recorded.directory.path / "violations.jsonl").read_text().splitlines()[0]
    assert '"oracle":"N1"' in first.replace(" ", "")


STORED = replace(
    SERVING,
    hicache_ratio=1.0,
    hicache_storage_backend="memory",
    hicache_storage_prefetch_policy="wait_complete",
    prefetch_threshold=16,
    storage_size=0.1,
)


def test_logits_over_prefetched_pages_are_those_of_a_recomputation(tmp_path: Path) -> None:
    with a_soak(tmp_path, STORED, None) as soak:
        soaked = soak.run()
    assert soaked.summary["violations"] == 0
    assert soaked.summary["logits_checked_requests"] == 24
    assert soaked.summary["prefetched_pages"] > 0
    assert soaked.summary["storage_hit_tokens"] > soaked.summary["host_hit_tokens"]


def test_n1_sees_that_storage_serves_the_bytes_of_another_page(tmp_path: Path) -> None:
    with a_soak(tmp_path, STORED, None, oracles="off") as soak:
        storage = soak.cache.storage
        assert storage is not None
        assert isinstance(storage.backend, MemoryStorage)
        original, served = storage.backend.get, []

        def get(keys: Sequence[bytes]) -> Fetched:
            fetched = original(keys)
            full = [p for p in fetched.payloads if len(p) == len(fetched.payloads[0])]
            served.append(len(full))
            return fetched._replace(
                payloads=[full[0] if p in full else p for p in fetched.payloads]
            )

        storage.backend.get = get  # type: ignore[method-assign]
        soaked = soak.run()
    assert max(served) > 1
    assert soaked.summary["violations"] > 0
    first = (soaked.recorded.directory.path / "violations.jsonl").read_text().splitlines()[0]
    assert '"oracle":"N1"' in first.replace(" ", "")


@pytest.mark.parametrize("backend", ["memory", "file"])
def test_a_run_that_storage_is_really_asked_in_is_followed(tmp_path: Path, backend: str) -> None:
    serving = replace(
        STORED,
        hicache_storage_backend=backend,
        load_back_overlap="layer",
        companions=("scales", "draft"),
    )
    in_turn = replace(TRAFFIC, max_concurrency=1)  # each finds what those before it left behind
    kept = tmp_path / "kept"
    kept.mkdir()
    with (
        recorded_clock(kept) as clock,
        a_soak(tmp_path, serving, clock, wall=True, traffic=in_turn) as soak,
    ):
        ended = soak.drive()
        assert soak._recorder.violations == 0
        assert isinstance(soak.world.storage, WallStorage)
        assert soak.world.storage.read_bytes > 0
        soak._storage.close()  # type: ignore[union-attr]
    assert ended.reason == "finished"
    follower = Follower(read_decisions(kept))
    in_memory = replace(serving, hicache_storage_backend="memory", check_logits=0.0)
    with a_soak(tmp_path, in_memory, follower, wall=True, traffic=in_turn) as again:
        assert again.drive().reason == "finished"
    assert again.world.digest == soak.world.digest


def test_greedy_answers_are_the_same_on_either_clock(tmp_path: Path) -> None:
    greedy = replace(SERVING, decoding="greedy", check_logits=0.0)
    answers = []
    with a_soak(tmp_path, greedy, None) as soak:
        answers.append(_answers(soak))
    with recorded_clock(tmp_path) as clock, a_soak(tmp_path, greedy, clock, wall=True) as soak:
        answers.append(_answers(soak))
    assert answers[0] == answers[1]
    assert len(set(answers[0].values())) > 1


def _answers(soak: Soak) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    told = soak.world._on_job

    def ended(job: Job) -> None:
        found[job.name] = job.output[: 4 * job.generated]
        told(job)

    soak.world._on_job = ended
    soak.drive()
    return found


def test_ctrl_c_on_the_wall_clock_ends_between_two_segments() -> None:
    kernel, clock, whole = Kernel(), WallClock(), []

    async def work() -> None:
        while True:
            await kernel.pause(0.0, "work")
            signal.raise_signal(signal.SIGINT)
            whole.append(kernel.now)

    kernel.spawn("work", work())
    with stopping_on_interrupt(kernel, clock):
        assert kernel.run(clock, step_limit=1000).reason == "stopped"
    assert len(whole) == 1


def test_decisions_are_read_as_they_were_written(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    decisions.add(3, 17, "copy.run")
    assert decisions.close() is None
    assert list(read_decisions(tmp_path)) == [(3, 17, "copy.run")]
    (tmp_path / "decisions.csv").write_text("task,now_ns,point\n3,x,copy.run\n")
    with pytest.raises(BadDecisions, match="line 2"):
        list(read_decisions(tmp_path))
    with pytest.raises(BadDecisions, match="only runs on the wall clock"):
        list(read_decisions(tmp_path / "elsewhere"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tp": 2}, "--tp 1"),
        ({"check_logits": 1.5}, "--check-logits"),
        ({"load_back_overlap": "half"}, "layer, none"),
        ({"decoding": "beam"}, "trace, greedy, sampled"),
        ({"radix_cache": False}, "--disable-radix-cache"),
        ({"mamba_ssm_dtype": "bfloat16"}, "float32"),
        ({"model": "Llama-3.1-8B", "device": "tpu"}, "use cpu or cuda"),
    ],
)
def test_what_the_model_cannot_do_is_said_in_one_line(
    change: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        plan_server(replace(SERVING, **change))  # type: ignore[arg-type]
