"""Slow decay: hits, or right answers, that become rarer and rarer over a run.

Hits are judged as hit tokens / tokens that a cache without limits would have hit, in up to 24
windows of equally many requests. A decay needs all of these: Mann and Kendall's test sees a fall
(one-sided, p at most 0.001); Theil and Sen's slope makes it a tenth or more, and a sixth or more of
where it began; the last quarter stays below the first by at least half of that. While the pools
fill, and for as long again, nothing is judged: a cache that begins to evict hits less, and that is
no decay. Where the traffic itself changed, the fall is told and not judged; nor is it for a trace,
which comes back to ever older prompts, so that a cache with limits gets ever less of what could be
hit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import erfc, sqrt
from statistics import median

from harness.record.hit_windows import HitWindow

MOST_WINDOWS = 24
FEWEST_WINDOWS = 8
FEWEST_REQUESTS = 20  # of a window
LEVEL = 0.001
LEAST_FALL = 0.10
LEAST_SHARE = 1 / 6
TRAFFIC_LEVEL = 0.01
TRAFFIC_CHANGE = 0.25
UNFILLED_PART = 0.25  # of a run whose pools nobody knows


@dataclass(frozen=True, slots=True)
class Trend:
    """`fall` is how much less the last window's fitted share is than the first's; `chance` that of
    such a fall without any trend. `why` says it in words, or why nothing was judged."""

    decayed: bool
    judged: bool
    fall: float
    chance: float
    why: str


def trend_counters(trend: Trend) -> dict[str, float | int | str]:
    """The keys of a summary."""
    return {"hit_trend": trend.why, "hit_fall": trend.fall, "hit_fall_chance": trend.chance}


def hit_trend(
    windows: Sequence[HitWindow], *, filled_s: float | None, replayed: bool = False
) -> Trend:
    """`filled_s` is when the pools that were filled were full; None where pools are not known.
    `replayed` says that the traffic is a recorded one, whose reuse is what it is."""
    if not windows:
        return _unjudged("no request was completed")
    end_s = windows[-1].start_s + windows[-1].width_s
    begin_s = 2 * filled_s if filled_s is not None else UNFILLED_PART * end_s
    kept = [window for window in windows if window.start_s >= begin_s]
    joined = _joined(kept)
    if len(joined) < FEWEST_WINDOWS:
        return _unjudged(
            f"too few requests after the pools were full ({begin_s:,.0f} of {end_s:,.0f} s)"
        )
    shares = [window.cached / window.ideal for window in joined]
    fall, chance = _fall(shares), mann_kendall(shares)
    told = f"hits fell by {fall:.0%} of what could be hit (p {chance:.2g})"
    if not _fell(shares, fall, chance):
        return Trend(False, True, fall, chance, f"no decay of hits in {len(shares)} windows")
    changed = "a replayed trace comes back to older and older prompts" if replayed else ""
    changed = changed or _changed(joined)
    if changed:
        return Trend(False, False, fall, chance, f"{told}, and {changed}: not judged")
    return Trend(True, True, fall, chance, told)


def answer_trend(right: Sequence[bool]) -> Trend:
    """Of answers in the order in which they were given: whether wrong ones become more."""
    if len(right) < 3 * FEWEST_WINDOWS:
        return _unjudged(f"{len(right)} answers are too few")
    values, third = [float(one) for one in right], len(right) // 3
    first, last = sum(values[:third]) / third, sum(values[-third:]) / third
    fall, chance = first - last, mann_kendall(values)
    decayed = chance <= TRAFFIC_LEVEL and fall >= LEAST_FALL
    words = f"{first:.0%} of the first third of the answers were right, {last:.0%} of the last"
    return Trend(decayed, True, fall, chance, f"{words} (p {chance:.2g})")


def mann_kendall(values: Sequence[float]) -> float:
    """The chance of so many falls between pairs of values, or more, without a trend; ties count as
    neither."""
    n = len(values)
    score = sum((b > a) - (b < a) for a, b in combinations(values, 2))
    ties: dict[float, int] = {}
    for value in values:
        ties[value] = ties.get(value, 0) + 1
    spread = n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties.values())
    if spread <= 0:
        return 1.0
    z = (score + 1 if score < 0 else score - 1 if score > 0 else 0) / sqrt(spread / 18)
    return erfc(-z / sqrt(2)) / 2


def theil_sen(values: Sequence[float]) -> float:
    """The median slope of all pairs, from one value to the next."""
    return median((b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2))


def _fall(shares: Sequence[float]) -> float:
    return -theil_sen(shares) * (len(shares) - 1)


def _fell(shares: Sequence[float], fall: float, chance: float) -> bool:
    quarter = max(2, len(shares) // 4)
    first, last = median(shares[:quarter]), median(shares[-quarter:])
    least = max(LEAST_FALL, LEAST_SHARE * first)
    return chance <= LEVEL and fall >= least and first - last >= least / 2


def _changed(windows: Sequence[HitWindow]) -> str:
    """How the traffic changed, if it did."""
    sides = {
        "prompts changed in length": [w.prompt / w.requests for w in windows],
        "traffic changed in volume": [w.prompt / w.width_s for w in windows],
        "prompts changed in what they share": [w.ideal / w.prompt for w in windows],
    }
    for words, values in sides.items():
        change = abs(_fall(values)) / max(median(values), 1e-9)
        chance = 2 * min(mann_kendall(values), mann_kendall([-value for value in values]))
        if chance <= TRAFFIC_LEVEL and change >= TRAFFIC_CHANGE:
            return words
    return ""


def _joined(windows: Sequence[HitWindow]) -> list[HitWindow]:
    """Neighbours together, until each has its equal part of the requests."""
    total = sum(window.requests for window in windows)
    number = min(MOST_WINDOWS, total // FEWEST_REQUESTS)
    if number < FEWEST_WINDOWS:
        return []
    found, inside = list[HitWindow](), list[HitWindow]()
    for window in windows:
        inside.append(window)
        if sum(one.requests for one in inside) >= total / number:
            found.append(_sum(inside))
            inside = []
    return [window for window in found if window.ideal]


def _sum(inside: Sequence[HitWindow]) -> HitWindow:
    start_s, end_s = inside[0].start_s, inside[-1].start_s + inside[-1].width_s
    sums = [sum(int(window[field]) for window in inside) for field in range(2, 6)]
    return HitWindow(start_s, end_s - start_s, *sums)


def _unjudged(why: str) -> Trend:
    return Trend(False, False, 0.0, 1.0, f"not judged: {why}")
