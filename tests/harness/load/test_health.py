"""A client that was the bottleneck says so, and a server that was is told apart."""

from harness.load.health import Health


def _health(*delays_s: float) -> Health:
    health = Health()
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


def test_a_server_that_holds_every_user_is_saturated_and_the_client_is_not_blamed():
    health = Health()
    for _ in range(50):
        health.sent(2.0, 1.999)
    assert health.complaints(0.1) == []
    assert "all 8 users waited" in health.saturation(8, 0, 10)[0]
    assert health.late == 50


def test_a_server_with_a_queue_at_most_looks_is_saturated():
    health = _health(*[0.001] * 10)
    assert health.saturation(8, 5, 10) == []
    assert health.saturation(8, 6, 10) == ["requests queued in the server at 6 of 10 looks"]
    assert health.saturation(8, 0, 0) == []


def test_what_was_dropped_is_told():
    health = _health(0.001)
    health.dropped = 7
    assert "7 dropped" in health.saturation(8, 0, 0)[0]
