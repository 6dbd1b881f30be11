"""The file of a hardware preset that was measured: JSON, read strictly.

    {"format": "kvtorture hardware 1", "hardware": {the fields of Hardware}, ...}

What else a file holds (samples, what is noisy, versions) is for people.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from cache.config import ConfigError
from cache.layout import Layout
from harness.engine.hardware import CopyRate, Hardware, IoBackend
from harness.record.strict_json import to_page

FORMAT = "kvtorture hardware 1"


def write_hardware(path: Path, hardware: Hardware, more: Mapping[str, object]) -> None:
    """Raises `OSError`."""
    path.write_text(to_page({"format": FORMAT, "hardware": hardware, **more}))


def read_hardware(path: Path) -> Hardware:
    """Raises `ConfigError` in one line that says what is wrong with the file."""
    try:
        page = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--hardware {path} cannot be read: {error}") from None
    if not isinstance(page, dict) or page.get("format") != FORMAT:
        raise ConfigError(f"--hardware {path} is no file of bench.py calibrate ({FORMAT!r})")
    try:
        return _hardware(page["hardware"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"--hardware {path} is damaged: {error}; calibrate anew") from None


def _hardware(found: dict[str, Any]) -> Hardware:
    known = {field.name: field.default for field in fields(Hardware)}
    if unknown := found.keys() - known.keys():
        raise ValueError(f"{sorted(unknown)} unknown")
    copies = tuple(_rate(rate) for rate in found.get("copies", ()))
    values: dict[str, Any] = {
        name: str(value) if name in ("name", "source") else _above_zero(name, value)
        for name, value in found.items()
        if name != "copies" and not (value == known[name] == 0)  # which says: not known
    }
    return Hardware(**values, copies=copies)


def _rate(found: dict[str, Any]) -> CopyRate:
    direction = str(found["direction"])
    if direction not in ("DEVICE_TO_HOST", "HOST_TO_DEVICE"):
        raise ValueError(f"direction {direction!r}")
    return CopyRate(
        IoBackend(found["backend"]),
        Layout(found["layout"]),
        direction,
        _above_zero("begin_s", found["begin_s"]),
        _above_zero("bandwidth", found["bandwidth"]),
    )


def _above_zero(name: str, value: object) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} is {value!r}")
    return value
