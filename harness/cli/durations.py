"""Durations and rates as people type them."""

import re
from math import isfinite, isnan

import click

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")


class Duration(click.ParamType[float]):
    """Seconds from "90", "90s", "10m", "4h" or "1h30m"."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip().lower()
        pieces = list(_PATTERN.finditer(text))
        if not pieces or "".join(piece.group(0) for piece in pieces) != text:
            self.fail(f"{value!r} is no duration: use 90s, 10m or 4h", param, context)
        seconds = sum(float(p.group(1)) * _UNITS[p.group(2) or "s"] for p in pieces)
        if seconds <= 0:
            self.fail(f"{value!r} is no time at all: use 90s, 10m or 4h", param, context)
        return seconds


class Rate(click.ParamType[float]):
    """Requests per second, above 0; "inf" sends everything at once."""

    name = "rate"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> float:
        try:
            rate = float(str(value))
        except ValueError:
            rate = float("nan")
        if isnan(rate) or rate <= 0:
            self.fail(f"{value!r} is no rate: use requests per second, or inf", param, context)
        return rate


def text_of(seconds: float) -> str:
    """Seconds in the form in which they are typed."""
    if not isfinite(seconds):
        return "no limit"
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"
