"""The requests of two runs, made comparable: the same ones side by side where both have them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.record.directory import UsageError
from harness.report.files import RunFiles, read_run, whole_lines

LATENCIES = ("ttft_scheduled_ms", "ttft_ms", "queue_ms", "match_ms", "load_ms", "prefill_ms",
             "tpot_ms", "e2e_latency_ms")  # fmt: skip
TOKENS = ("prompt_tokens", "output_tokens", "cached_tokens_device", "cached_tokens_host",
          "cached_tokens_storage", "ideal_tokens")  # fmt: skip
TYPES: dict[str, Any] = {
    "request_id": "str",
    "phase": "category",
    "status": "category",
    "scheduled_ns": "int64",
    "end_ns": "int64",
    **dict.fromkeys(TOKENS, "int64"),
    **dict.fromkeys(LATENCIES, "float64"),
}


@dataclass(frozen=True, slots=True)
class Side:
    """One run: its files, and its completed steady requests in order of arrival."""

    files: RunFiles
    requests: pd.DataFrame

    @property
    def name(self) -> str:
        return self.files.path.resolve().name

    @property
    def digest(self) -> str:
        return str(self.files.run["workload"].get("digest", ""))


@dataclass(frozen=True, slots=True)
class Sides:
    """`a` and `b` of a comparison. With `paired`, row i of both is the same request; `alone` says
    how many requests only one of them completed."""

    a: Side
    b: Side
    paired: bool
    alone: tuple[int, int]


def read_side(path: Path) -> Side:
    """Raises `UsageError` when there is no run of requests at `path`."""
    files = read_run(path)
    source = whole_lines(path / "requests.csv")
    if source is None:
        raise UsageError(f"{path}: no requests.csv in it; compare runs of soak, load or serve")
    try:
        table = pd.read_csv(source, usecols=list(TYPES), dtype=TYPES)
    except ValueError as error:
        raise UsageError(f"{path}: requests.csv cannot be read ({error})") from error
    done = table[(table["phase"] == "steady") & (table["status"] == "completed")]
    if done.empty:
        raise UsageError(f"{path}: no completed request in it, so there is nothing to compare")
    return Side(files, done.sort_values("scheduled_ns", kind="stable", ignore_index=True))


def pair(a: Side, b: Side, *, different_workloads: bool) -> Sides:
    """Raises `UsageError` where the workloads differ and nobody said that they may."""
    alike = bool(a.digest) and a.digest == b.digest
    if not alike and not different_workloads:
        told = (side.digest[:12] or "none" for side in (a, b))
        raise UsageError(
            "workload digests differ ({} and {}): compare runs of the same traffic, or add"
            " --different-workloads".format(*told)
        )
    ours, theirs = a.requests, b.requests
    both = set(ours["request_id"]) & set(theirs["request_id"])
    unique = ours["request_id"].is_unique and theirs["request_id"].is_unique
    if not alike or not both or not unique:
        return Sides(a, b, False, (0, 0))
    left = ours[ours["request_id"].isin(both)].reset_index(drop=True)
    right = theirs.set_index("request_id").loc[left["request_id"]].reset_index()
    alone = (len(ours) - len(left), len(theirs) - len(right))
    return Sides(Side(a.files, left), Side(b.files, right), True, alone)
