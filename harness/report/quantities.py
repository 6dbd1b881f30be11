"""Numbers as a reader wants them: three digits that matter, and always a unit."""

from math import isfinite

_TIMES_MS = (
    (1e-3, 1e6, "ns"),
    (1.0, 1e3, "µs"),
    (1e3, 1.0, "ms"),
    (120e3, 1e-3, "s"),
    (7_200e3, 1 / 60e3, "min"),
)


def duration(value_ms: float) -> str:
    """Return milliseconds as "85 µs", "412 ms", "6.1 s", "3.2 min" or "1.5 h"."""
    if not isfinite(value_ms):
        return "none"
    if value_ms == 0:
        return "0 ms"
    for below_ms, factor, unit in _TIMES_MS:
        if abs(value_ms) < below_ms:
            return f"{_short(value_ms * factor)} {unit}"
    return f"{_short(value_ms / 3_600e3)} h"


def size(value_bytes: float) -> str:
    """Return bytes as "512 B", "1.5 MiB", "3.2 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value_bytes) < 1024:
            return f"{_short(value_bytes)} {unit}"
        value_bytes /= 1024
    return f"{_short(value_bytes)} TiB"


def count(value: float) -> str:
    """Return a count as "12,031", a small fraction as "0.42"."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else _short(value)


def percent(ratio: float) -> str:
    """Return a ratio as "61 %", "0.4 %"; never 0 or 100 unless it is."""
    value = ratio * 100
    if value in (0, 100):
        return f"{value:.0f} %"
    if 99.5 <= value < 100:
        return f"{min(value, 99.9):.1f} %"
    if abs(value) >= 10:
        return f"{value:.0f} %"
    return f"{max(value, 0.1):.1f} %" if value > 0 else f"{value:.1f} %"


def plural(number: int, noun: str) -> str:
    """Return "1 request", "2 requests"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _short(value: float) -> str:
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"
