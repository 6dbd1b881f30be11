"""A client that was the bottleneck says so."""

from harness.load.health import Health
from harness.record.histogram import Histogram


def _health(*delays_s: float) -> Health:
    health = Health(Histogram())
    for delay_s in delays_s:
        health.sent(delay_s)
    return health


def test_a_client_in_time_has_no_complaints():
    health = _health(*[0.001] * 99, 0.4)
    assert health.complaints(0.5) == []
    assert health.late == 1


def test_late_halves_late_tails_and_a_busy_core_are_each_told():
    assert "half" in _health(0.02, 0.02, 0.001).complaints(0.1)[0]
    assert "one request in a hundred" in _health(*[0.001] * 90, *[2.0] * 10).complaints(0.1)[0]
    assert "90%" in _health(0.001).complaints(0.9)[0]


def test_a_request_before_its_time_is_not_late():
    health = _health(-0.5)
    assert (health.late, health.delays.largest) == (0, 0.0)
