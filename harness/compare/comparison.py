"""Every metric of two runs, with ratio, difference and interval.

Invariant: a metric that one run does not have has no ratio; it is shown, and called neither better
nor worse.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, nan
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np

from harness.compare.bootstrap import (
    Interval,
    Statistics,
    Values,
    holm,
    intervals,
    means,
    percentiles,
    ratios,
    resamples_for,
)
from harness.compare.modes import Modes, two_modes
from harness.compare.sides import LATENCIES, Side, Sides
from harness.compare.singles import SINGLES
from harness.record.summary import Number

Better = Literal["lower", "higher", ""]
Word = Literal["same", "better", "worse", "differs", "one number", "too few"]
LEVELS = (50, 90, 99)
STATISTICS = ("mean", "median", "p90", "p99")
TIERS = ("device", "host", "storage")
LEAST_EFFECT = 0.01  # a ratio within a hundredth of 1 is called the same, however sure it is
WINDOWS = (10, 60)
REQUESTS_A_WINDOW = 20
LEAST_BEYOND = 10
MODES_OF = ("ttft_scheduled_ms", "tpot_ms", "e2e_latency_ms")


class Row(NamedTuple):
    """One metric of both runs; NaN where a run does not have it. It is `sure` to differ when its
    interval does not hold 0 and Holm's rule over all metrics agrees."""

    metric: str
    unit: str
    better: Better
    a: float
    b: float
    interval: Interval | None
    sure: bool = False
    few: bool = False  # a percentile with fewer than ten requests beyond it

    @property
    def difference(self) -> float:
        return self.b - self.a

    @property
    def ratio(self) -> float:
        """b / a; 1 for two zeros, NaN where it does not exist."""
        if self.a == self.b:
            return 1.0
        return self.b / self.a if self.a else nan

    @property
    def word(self) -> Word:
        """What the interval says: `one number` where a run gives just one."""
        if self.interval is None:
            return "one number"
        if self.few:
            return "too few"
        small = isfinite(self.ratio) and abs(self.ratio - 1) <= LEAST_EFFECT
        if small or not self.sure:
            return "same"
        if not self.better:
            return "differs"
        return "better" if (self.difference < 0) == (self.better == "lower") else "worse"

    def worse_by(self, limit: float) -> bool:
        """Whether it is worse by more than `limit`, a ratio, even at the kinder end of the
        interval."""
        if self.interval is None or self.word != "worse":
            return False
        if self.better == "lower":
            return self.interval.ratio_low > 1 + limit
        return self.interval.ratio_high < 1 - limit


class TwoModes(NamedTuple):
    """A latency of one run that gathers around two places."""

    side: Literal["a", "b"]
    metric: str
    modes: Modes


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found. `resamples` is how many were drawn for each interval."""

    sides: Sides
    rows: tuple[Row, ...]
    modes: tuple[TwoModes, ...]
    confidence: float
    resamples: int
    seed: int

    def worded(self, word: Word) -> list[Row]:
        return [row for row in self.rows if row.word == word]


def compare(sides: Sides, *, confidence: float, resamples: int, seed: int) -> Comparison:
    """Compare the runs; the same runs and seed give the same numbers."""
    longest = max(len(sides.a.requests), len(sides.b.requests))
    drawn = resamples_for(longest, resamples)
    drawer = _Drawer(confidence, drawn, seed)
    rows = [*_latencies(sides, drawer), *_throughputs(sides, drawer), *_hits(sides, drawer)]
    judged = (*_judged(rows, 1 - confidence), *_singles(sides))
    return Comparison(sides, judged, tuple(_modes(sides)), confidence, drawn, seed)


class _Drawer(NamedTuple):
    """Draws every metric's intervals from a seed of its own, whatever else is compared."""

    confidence: float
    resamples: int
    seed: int

    def intervals(
        self, name: str, a: Values, b: Values, statistics: Statistics, *, paired: bool
    ) -> list[Interval]:
        chance = np.random.default_rng([self.seed, crc32(name.encode())])
        return intervals(
            a, b, statistics, paired=paired, resamples=self.resamples, confidence=self.confidence,
            chance=chance,
        )  # fmt: skip


def _judged(rows: list[Row], level: float) -> Iterator[Row]:
    judged = [row for row in rows if not row.few]
    chances = holm([row.interval.chance if row.interval else 1.0 for row in judged])
    sure = {row.metric for row, chance in zip(judged, chances, strict=True) if chance <= level}
    for row in rows:
        assert row.interval is not None
        low, high = row.interval.difference_low, row.interval.difference_high
        yield row._replace(sure=row.metric in sure and not low <= 0 <= high)


def _latencies(sides: Sides, drawer: _Drawer) -> Iterator[Row]:
    for stem in LATENCIES:
        a = sides.a.requests[stem].to_numpy(dtype=float)
        b = sides.b.requests[stem].to_numpy(dtype=float)
        if sides.paired:
            known = np.isfinite(a) & np.isfinite(b)
            a, b = a[known], b[known]
        else:
            a, b = a[np.isfinite(a)], b[np.isfinite(b)]
        if len(a) < 2 or len(b) < 2 or not (a.any() or b.any()):
            continue
        of = percentiles(LEVELS)
        found = drawer.intervals(stem, a[:, None], b[:, None], of, paired=sides.paired)
        values = (of(side[None, :, None])[0] for side in (a, b))
        beyond = [min(len(a), len(b)) * share / 100 for share in (100, 50, 10, 1)]
        for name, ours, theirs, interval, left in zip(
            STATISTICS, *values, found, beyond, strict=True
        ):
            yield Row(f"{name}_{stem}", "ms", "lower", float(ours), float(theirs), interval,
                      few=left < LEAST_BEYOND)  # fmt: skip


def _throughputs(sides: Sides, drawer: _Drawer) -> Iterator[Row]:
    names = ("request_throughput", "input_throughput", "output_throughput")
    fewest = min(len(sides.a.requests), len(sides.b.requests))
    number = int(np.clip(fewest // REQUESTS_A_WINDOW, *WINDOWS))
    a, b = _windows(sides.a, number), _windows(sides.b, number)
    found = drawer.intervals("throughput", a, b, means, paired=sides.paired)
    for place, (name, interval) in enumerate(zip(names, found, strict=True)):
        unit = "requests/s" if name.startswith("request") else "tokens/s"
        ours, theirs = float(a[:, place].mean()), float(b[:, place].mean())
        yield Row(name, unit, "higher", ours, theirs, interval)


def _windows(side: Side, number: int) -> Values:
    """Requests, prompt and output tokens a second, of equal windows of the run's own time."""
    rows = side.requests
    start, end = rows["scheduled_ns"].min(), rows["end_ns"].max()
    edges = np.linspace(start, max(end, start + 1), number + 1)
    ones = np.ones(len(rows))
    weights = (ones, rows["prompt_tokens"].to_numpy(), rows["output_tokens"].to_numpy())
    width_s = (edges[1] - edges[0]) / 1e9
    sums = [np.histogram(rows["end_ns"].to_numpy(), edges, weights=w)[0] for w in weights]
    return np.asarray(np.column_stack(sums) / width_s)


def _hits(sides: Sides, drawer: _Drawer) -> Iterator[Row]:
    """Over sums of prompt tokens; the ideal rate is the traffic's own and says if that is alike."""
    used = [t for t in TIERS if any(s.requests[f"cached_tokens_{t}"].any()
                                    for s in (sides.a, sides.b))]  # fmt: skip
    names = ("prefix_token_hit_rate", *(f"hit_rate_{tier}" for tier in used),
             "ideal_token_hit_rate")  # fmt: skip
    a, b = _tokens(sides.a, used), _tokens(sides.b, used)
    found = drawer.intervals("hits", a, b, ratios, paired=sides.paired)
    ours, theirs = (ratios(side[None])[0] for side in (a, b))
    for name, x, y, interval in zip(names, ours, theirs, found, strict=True):
        better: Better = "higher" if name == "prefix_token_hit_rate" else ""
        yield Row(name, "ratio", better, float(x), float(y), interval)


def _tokens(side: Side, used: list[str]) -> Values:
    rows = side.requests
    tiers = [rows[f"cached_tokens_{tier}"].to_numpy(dtype=float) for tier in used]
    whole = np.sum(tiers, axis=0) if tiers else np.zeros(len(rows))
    ideal, prompt = (rows[name].to_numpy(dtype=float) for name in ("ideal_tokens", "prompt_tokens"))
    return np.column_stack([whole, *tiers, ideal, prompt])


def _singles(sides: Sides) -> Iterator[Row]:
    """Numbers of which a run gives just one, so that nothing can be said of their chance."""
    for key, (unit, better) in SINGLES.items():
        a, b = (_number(side.files.summary.get(key)) for side in (sides.a, sides.b))
        if (isfinite(a) or isfinite(b)) and (a, b) != (0.0, 0.0):
            yield Row(key, unit, better, a, b, None)


def _modes(sides: Sides) -> Iterator[TwoModes]:
    for which, side in (("a", sides.a), ("b", sides.b)):
        for stem in MODES_OF:
            modes = two_modes(side.requests[stem].dropna().to_numpy(dtype=float))
            if modes is not None:
                yield TwoModes("a" if which == "a" else "b", stem, modes)


def _number(value: Number | None) -> float:
    return float(value) if isinstance(value, int | float) else nan
