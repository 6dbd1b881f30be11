"""A comparison in words: changes, the headline, and what a reader must know."""

from math import isfinite

from harness.compare.comparison import Comparison, Row
from harness.report.quantities import count, duration, percent, plural, size

METHOD = (
    "Percentile intervals of a circular block bootstrap over requests in order of arrival"
    " (throughput: over windows of time), blocks of the square root of their number."
)

SHORT = {"tokens/s": "tok/s", "requests/s": "req/s", "requests": "", "violations": "", "marks": ""}


def change(ratio: float) -> str:
    """Return a ratio as "+12 %", "-3.1 %", "x 4.2"; "none" for exactly 1."""
    if not isfinite(ratio):
        return "no ratio"
    if ratio >= 3:
        return f"x {ratio:.3g}"
    per_cent = (ratio - 1) * 100
    if abs(per_cent) < 0.005:
        return "0 %"
    digits = 0 if abs(per_cent) >= 10 else 1 if abs(per_cent) >= 1 else 2
    return f"{per_cent:+.{digits}f} %"


def value(row: Row, number: float) -> str:
    """Return one number of a row with its unit."""
    if not isfinite(number):
        return "none"
    match row.unit:
        case "ms":
            return duration(number)
        case "s":
            return duration(number * 1e3)
        case "bytes":
            return size(number)
        case "ratio":
            return percent(number)
    return f"{count(round(number, 2))} {SHORT.get(row.unit, row.unit)}".strip()


def spread(row: Row) -> str:
    """Return the interval of the ratio, as changes."""
    if row.interval is None:
        return "one number a run"
    return f"{change(row.interval.ratio_low)} to {change(row.interval.ratio_high)}"


def difference(row: Row) -> str:
    """Return the difference with its sign."""
    if not isfinite(row.difference):
        return "none"
    if row.unit == "ratio":
        return f"{row.difference * 100:+.2f} points"
    if not row.difference or abs(row.ratio - 1) < 1e-6:
        return value(row, 0.0)
    sign = "-" if row.difference < 0 else "+"
    return sign + value(row, abs(row.difference))


def headline(found: Comparison) -> str:
    """Return what was found, in one line."""
    judged = sum(1 for row in found.rows if row.interval is not None and not row.few)
    worse, better, other = (found.worded(word) for word in ("worse", "better", "differs"))
    if not (worse or better or other):
        return f"No difference in any of {plural(judged, 'metric')}"
    parts = [f"worse in {len(worse)}"] * bool(worse) + [f"better in {len(better)}"] * bool(better)
    parts += [f"different in {len(other)}"] * bool(other)
    return f"B is {', '.join(parts)} of {plural(judged, 'metric')}"


def notes(found: Comparison) -> list[str]:
    """Return what must be known to read the numbers."""
    sides, judged = found.sides, sum(1 for row in found.rows if row.interval is not None)
    told = [f"{METHOD} {found.confidence:.0%}, {found.resamples:,} resamples, seed {found.seed}."]
    told.append(
        f"Of {judged} intervals about {judged * (1 - found.confidence):.1g} miss by chance where"
        " nothing differs; a metric is called better or worse only if Holm's rule over all of them"
        f" agrees (at most {1 - found.confidence:.2g} false alarms a comparison), and if it changed"
        " by more than 1 %."
    )
    few = len(found.worded("too few"))
    if few:
        told.append(f"{plural(few, 'percentile')} with fewer than ten requests beyond: not judged.")
    if sides.paired:
        told.append(f"Paired: {plural(len(sides.a.requests), 'request')} that both completed.")
        for name, alone in zip("AB", sides.alone, strict=True):
            if alone:
                told.append(f"Only {name} completed {plural(alone, 'request')}: left out.")
    else:
        told.append("Not paired: the runs did not send the same requests.")
    told += _clocks(found)
    for side, metric, modes in found.modes:
        told.append(
            f"{side.upper()}: {metric} has two modes (Silverman's test, p {modes.chance:.3f}):"
            f" {percent(modes.share)} around {duration(modes.low)}, the others around"
            f" {duration(modes.high)}; a percentile between them moves easily."
        )
    return told


def _clocks(found: Comparison) -> list[str]:
    clocks = [str(side.files.run["clock"]) for side in (found.sides.a, found.sides.b)]
    told = []
    if clocks[0] != clocks[1]:
        told.append(f"A ran on the {clocks[0]} clock, B on the {clocks[1]} clock: times of the one"
                    " are simulated, those of the other measured.")  # fmt: skip
    for name, side in (("A", found.sides.a), ("B", found.sides.b)):
        status, verdict = side.files.run["status"], side.files.summary.get("verdict", "")
        if status != "finished" or verdict not in ("pass", ""):
            told.append(f"{name} is {status}, its verdict {verdict or 'unknown'}.")
    return told
