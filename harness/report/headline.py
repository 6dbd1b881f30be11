"""What a reader sees first: the verdict with its reasons, the numbers with their denominators."""

from collections.abc import Mapping
from typing import NamedTuple

from harness.record.directory import LostOutput
from harness.record.summary import Number
from harness.report.files import RunFiles
from harness.report.quantities import count, duration, percent, plural, size

CLOCKS = {
    "virtual": (
        "Simulated on the virtual clock: every time, throughput and bandwidth is model time;"
        " nothing but the memory of this process (RSS) was measured. The cache, its pools and every"
        " oracle are the real code."
    ),
    "adversarial": (
        "Run on the adversarial clock: the search picks what happens next and time means nothing;"
        " only counts, hits and verdicts can be read from this page."
    ),
    "wall": "Run on the wall clock: every time on this page was measured on this machine.",
}


class Banner(NamedTuple):
    """`kind` is pass, violation, decay or inconclusive."""

    kind: str
    title: str
    reasons: tuple[str, ...]


class Headline(NamedTuple):
    """One headline number; `basis` is its denominator or what it was taken over."""

    name: str
    value: str
    basis: str


def banner(run: RunFiles) -> Banner:
    """Say how the run ended and why; a run that did not end by itself is never a pass."""
    verdict = str(run.summary.get("verdict", "inconclusive"))
    found = _count(run.summary, "violations")
    status = str(run.run["status"])
    kind = "violation" if found or verdict == "violation" else verdict
    if (status != "finished" and kind == "pass") or kind not in ("pass", "violation", "decay"):
        kind = "inconclusive"
    title = {
        "pass": "Pass",
        "violation": f"Violation: {plural(found, 'finding')}",
        "decay": "Decay",
        "inconclusive": "Inconclusive",
    }[kind]
    return Banner(kind, title, tuple(_reasons(run, status, found)))


def clock_note(run: RunFiles) -> str:
    """Say what was simulated and what was measured."""
    return CLOCKS.get(str(run.run["clock"]), "The clock of this run was not recorded.")


def numbers(summary: Mapping[str, Number]) -> list[Headline]:
    """Return the headline numbers."""
    done = _count(summary, "completed")
    over = f"over {plural(done, 'completed request')}"
    prompt = _count(summary, "total_input_tokens")
    cached = sum(_count(summary, f"cached_tokens_{tier}") for tier in ("device", "host", "storage"))
    spread = [duration(_value(summary, f"{name}_ttft_scheduled_ms")) for name in ("p90", "p99")]
    shares = [
        f"{percent(_value(summary, f'tier_hit_share_{tier}'))} of the hits came from {name}"
        for tier, name in (("host", "the host"), ("storage", "storage"))
        if tier == "host" or "storage_hit_tokens" in summary
    ]
    return [
        Headline(
            "TTFT, median",
            duration(_value(summary, "median_ttft_scheduled_ms")),
            f"p90 {spread[0]}, p99 {spread[1]}; from the scheduled arrival, {over}",
        ),
        Headline(
            "Prefix token hit rate",
            percent(_value(summary, "prefix_token_hit_rate")),
            f"{cached:,} of {prompt:,} prompt tokens; {', '.join(shares)}",
        ),
        Headline(
            "Possible without limits",
            percent(_value(summary, "ideal_token_hit_rate")),
            f"{_count(summary, 'ideal_tokens'):,} of {prompt:,} prompt tokens",
        ),
        Headline(
            "Throughput",
            f"{count(round(_value(summary, 'total_token_throughput')))} tokens/s",
            f"prompt and output, {_value(summary, 'request_throughput'):.3g} requests/s over"
            f" {duration(_value(summary, 'duration_s') * 1e3)}",
        ),
        Headline(
            "TPOT, median",
            duration(_value(summary, "median_tpot_ms")),
            f"p99 {duration(_value(summary, 'p99_tpot_ms'))}, answers of two tokens and more",
        ),
        Headline("Requests completed", f"{done:,}", _endings(summary)),
        Headline(
            "Device memory, peak",
            _peak(summary, "device"),
            f"host {_peak(summary, 'host')}; this process {_peak(summary, 'rss')} (measured)",
        ),
        Headline("Violations", f"{_count(summary, 'violations'):,}", _checked(summary, done)),
    ]


def _reasons(run: RunFiles, status: str, found: int) -> list[str]:
    reason = str(run.summary.get("verdict_reason", ""))
    reasons = [reason] if reason else []
    if status == "running" and reason != "the run did not end: it was killed or is still going":
        reasons.append("the run did not end: it was killed or is still going")
    if status == "interrupted" and "interrupted" not in reason:
        reasons.append("the run was interrupted; numbers are those of the part that ran")
    missed = [mark["mark"] for mark in run.marks if mark["required"] and not mark["count"]]
    if missed:
        reasons.append(f"required marks never reached: {', '.join(missed)}")
    signatures = [str(item.get("signature", "")) for item in run.violations[:1]]
    if found and signatures:
        reasons.append(f"first finding: {signatures[0]}")
    reasons += [LostOutput(**loss).sentence() for loss in run.run["lost"]]
    return reasons


def _endings(summary: Mapping[str, Number]) -> str:
    names = ("rejected", "aborted", "failed")
    parts = [f"{_count(summary, name):,} {name}" for name in names]
    warm = _count(summary, "warmup_requests")
    return ", ".join(parts) + (f"; {warm:,} warm-up requests not counted" if warm else "")


def _checked(summary: Mapping[str, Number], done: int) -> str:
    verified = _count(summary, "verified")
    events = f" in {_count(summary, 'events'):,} events" if "events" in summary else ""
    return f"found by all oracles{events}; content checked in {verified:,} of {done:,} requests"


def _peak(summary: Mapping[str, Number], what: str) -> str:
    key = f"peak_{what}_bytes"
    return size(_value(summary, key)) if key in summary else "not recorded"


def _value(summary: Mapping[str, Number], key: str) -> float:
    value = summary.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _count(summary: Mapping[str, Number], key: str) -> int:
    return int(_value(summary, key))
