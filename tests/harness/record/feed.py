"""A made-up but deterministic run to record: an hour of chat whose cache slowly fills up."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest, Mark, Pool
from harness.record.requests import RequestRow
from harness.record.run import Recorder

SPAN_S = 3600.0
POOLS = (
    Pool("device", "full", 4000, 2 << 20),
    Pool("device", "swa", 1000, 1 << 20),
    Pool("host", "full", 8000, 2 << 20),
    Pool("host", "swa", 2000, 1 << 20),
)
MANIFEST = Manifest(
    command="python bench.py soak --seed 7 --tag feed",
    clock="virtual",
    seed=7,
    settings={"page_size": 64, "model": "tiny", "hicache_ratio": 2.0, "tp": 2},
    workload={"source": "made up for tests", "requests": 4000, "digest": "c0ffee"},
    pools=POOLS,
    notes=("TP 2: one rank is simulated",),
    ignored_flags=("--chat-template", "--log-level info"),
)
MARKS = (
    Mark("revived-under-lock", 0, meaning="a load-back revived a tombstone under a lock"),
    Mark("split-while-copying", 12, required=True, meaning="a split hit a node in flight"),
    Mark("host-full", 345, meaning="the host was full during a write-back"),
)
VIOLATION = {
    "oracle": "L2",
    "signature": "release took another holder's count",
    "expected": {"node": 12, "count": 2},
    "seen": {"node": 12, "count": 1},
    "step": 4711,
    "elapsed_s": 31.5,
}


def rows(number: int, *, seed: int = 7) -> Iterator[RequestRow]:
    """Yield `number` ended requests: most complete, some are rejected or aborted."""
    chance = np.random.Generator(np.random.PCG64(seed))
    for index, at_s in enumerate(np.sort(chance.uniform(0, SPAN_S, number))):
        yield _row(index, float(at_s), chance)


def _row(index: int, at_s: float, chance: np.random.Generator) -> RequestRow:
    prompt = int(np.clip(chance.lognormal(8.3, 0.9), 80, 32_000))
    eligible = (prompt - 1) // 64 * 64
    ideal = int(eligible * chance.uniform(0.3, 1)) // 64 * 64
    filled = at_s / SPAN_S
    device = int(ideal * (0.75 - 0.5 * filled) * chance.uniform(0.5, 1)) // 64 * 64
    host = int((ideal - device) * chance.uniform(0.4, 0.9)) // 64 * 64
    queue = float(chance.lognormal(3.0 + 2.2 * filled, 1.1))
    load, match = host * 0.004, 0.1 + device * 1e-5
    prefill = 12.0 + (prompt - device - host) * 0.09
    ttft = queue + match + load + prefill
    waited = float(chance.exponential(40.0)) if chance.random() < 0.3 else 0.0
    output = int(np.clip(chance.lognormal(5, 0.8), 1, 2000))
    status = chance.choice(["completed", "rejected", "aborted"], p=[0.97, 0.02, 0.01])
    done = status == "completed"
    tpot = float(chance.uniform(14, 30)) if output > 1 and done else float("nan")
    scheduled = round(at_s * 1e9)
    sent = scheduled + round(waited * 1e6)
    first = sent + round(ttft * 1e6)
    end = first + (round(tpot * (output - 1) * 1e6) if tpot == tpot else 0)
    return RequestRow(
        request_id=f"r{index:06d}",
        session_id=f"s{index // 5}",
        turn=index % 5,
        phase="warmup" if index < 10 else "steady",
        tenant="",
        scheduled_ns=scheduled,
        sent_ns=sent,
        first_token_ns=first if done else -1,
        end_ns=end if done else sent,
        prompt_tokens=prompt,
        output_tokens=output if done else 0,
        cached_tokens_device=device if done else 0,
        cached_tokens_host=host if done else 0,
        cached_tokens_storage=0,
        eligible_tokens=eligible,
        ideal_tokens=ideal,
        ttft_ms=(first - sent) / 1e6 if done else float("nan"),
        ttft_scheduled_ms=(first - scheduled) / 1e6 if done else float("nan"),
        queue_ms=queue if done else float("nan"),
        match_ms=match if done else float("nan"),
        load_ms=load if done else float("nan"),
        prefill_ms=prefill if done else float("nan"),
        tpot_ms=tpot,
        e2e_latency_ms=(end - sent) / 1e6 if done else float("nan"),
        status=str(status),  # type: ignore[arg-type]
        error="" if done else "longer than the context, 32768 tokens",
        verified=done and index % 3 == 0,
    )


def sample(at_s: float) -> dict[str, float]:
    """Return one wide sample of the world at this time."""
    filled = min(at_s / 900, 1.0)
    wave = 0.5 + 0.5 * float(np.sin(at_s / 97))
    found: dict[str, float] = {}
    for pool in POOLS:
        used = int(pool.pages * min(filled * (0.9 + 0.1 * wave), 1))
        name = f"{pool.tier}_{pool.component}"
        found[f"{name}_used_pages"] = used
        if pool.tier == "device":
            found[f"{name}_locked_pages"] = int(used * (0.2 + 0.3 * wave))
            found[f"{name}_evictable_pages"] = int(used * (0.6 - 0.3 * wave))
    return found | {
        "device_used_bytes": found["device_full_used_pages"] * (2 << 20),
        "host_used_bytes": found["host_full_used_pages"] * (2 << 20),
        "queue_requests": int(18 * filled * wave**3),
        "running_requests": int(6 + 20 * wave),
        "batch_tokens": int(200 + 7800 * wave),
        "hit_rate_device": 0.5,
        "hit_rate_host": float("nan"),
        "copies_in_flight": int(4 * wave),
        "rss_bytes": 3e8 + at_s * 100,
        "violations": 0,
    }


def record(
    output_dir: Path, *, number: int = 400, samples: int = 300, violations: int = 0
) -> RunDirectory:
    """Record a whole run and return its directory."""
    directory = RunDirectory.create(output_dir, "feed")
    with Recorder(directory, MANIFEST) as recorder:
        feed(recorder, number=number, samples=samples)
        for step in range(violations):
            recorder.violation({**VIOLATION, "step": step})
        recorder.marks(MARKS)
        recorder.finish(recorder.summary(counters(violations)))
    return directory


def feed(recorder: Recorder, *, number: int, samples: int) -> None:
    for row in rows(number):
        recorder.request(row)
        if row.status == "completed" and row.output_tokens > 1:
            recorder.itl(row.tpot_ms / 1e3, row.output_tokens - 1)
    for at_s in np.linspace(0, SPAN_S, samples):
        recorder.sample(float(at_s), sample(float(at_s)))


def counters(violations: int) -> dict[str, float | int | str]:
    tier = {"written_bytes": 5 << 32, "read_bytes": 3 << 32, "hit_tokens": 123_456}
    tiers = ("device", "host")
    return {
        "verdict": "violation" if violations else "pass",
        "verdict_reason": f"{violations} violations" if violations else "every oracle held",
        "violations": violations,
        "marks": 2,
        "digest": "9f86d081884c7d65",
        "events": 1_234_567,
        "peak_rss_bytes": 300 << 20,
        **{f"{name}_{key}": value for name in tiers for key, value in tier.items()},
        **{f"{name}_evicted_pages": 9_876 for name in tiers},
        **{f"peak_{name}_bytes": 8 << 30 for name in tiers},
    }


if __name__ == "__main__":
    print(record(Path(sys.argv[1]), number=int(sys.argv[2]), samples=3000).path)
