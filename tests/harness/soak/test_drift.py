"""How far simulated TTFT is from the measured one."""

from pathlib import Path

import pytest

from harness.soak.drift import draw, drift_between


def a_table(path: Path, ttfts: dict[str, float], *, rejected: str = "") -> Path:
    lines = ["request_id,status,ttft_ms"]
    lines += [f"{name},completed,{ms}" for name, ms in ttfts.items()]
    if rejected:
        lines.append(f"{rejected},rejected,")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_errors_are_shares_of_what_was_measured_over_common_requests(tmp_path: Path) -> None:
    wall = a_table(tmp_path / "wall.csv", {"a": 100, "b": 200, "c": 300, "x": 9}, rejected="r")
    virtual = a_table(tmp_path / "virtual.csv", {"c": 330, "b": 220, "a": 110, "y": 1, "r": 5})
    drift, measured, simulated = drift_between(wall, virtual)
    assert drift.requests == 3
    assert drift.error_p50 == pytest.approx(0.1)
    assert drift.error_p99 == pytest.approx(0.1)
    assert drift.median_request_error == pytest.approx(0.1)
    draw(drift, measured, simulated, tmp_path / "drift.png")
    assert (tmp_path / "drift.png").stat().st_size > 1000


def test_runs_with_no_request_in_common_cannot_be_compared(tmp_path: Path) -> None:
    wall = a_table(tmp_path / "wall.csv", {"a": 100})
    with pytest.raises(ValueError, match="no request in common"):
        drift_between(wall, a_table(tmp_path / "virtual.csv", {"b": 100}))
