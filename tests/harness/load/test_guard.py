"""The watchdog tells the last good moment, what was in flight, and the server's last word."""

import pytest

from harness.load.guard import Guard
from harness.load.names import SGLANG
from harness.load.pulse import Pulse
from harness.load.watcher import Watcher

S = 10**9


@pytest.fixture
def guard():
    watcher = Watcher(None, SGLANG)
    watcher.last = {"queued": 3.0}
    guard = Guard(Pulse(start_ns=100 * S, heard_ns=100 * S), watcher, stall_s=5.0)
    guard.answered("r7", 109 * S)
    guard.looked(112 * S)
    return guard


def test_a_server_that_goes_on_raises_no_alarm(guard):
    guard.pulse.in_flight, guard.pulse.heard_ns = 3, 110 * S
    assert guard.alarm(114 * S) is None


def test_silence_is_no_stall_while_nothing_is_due(guard):
    assert guard.alarm(999 * S) is None


def test_a_stall_is_told_with_its_last_good_moment_and_what_was_in_flight(guard):
    guard.pulse.in_flight, guard.pulse.heard_ns = 7, 110 * S
    guard.pulse.open = {f"r{n}": (104 + n) * S for n in (9, 8, 10, 11, 12, 13, 14)}
    alarm = guard.alarm(120 * S)
    assert alarm.signature == "stall"
    assert alarm.seen == (
        "7 in flight (r8 for 8.0 s, r9 for 7.0 s, r10 for 6.0 s, r11 for 5.0 s, r12 for 4.0 s"
        " and 2 more); no byte for 10.0 s; last good moment: r7 was answered at 9.0 s;"
        " the server's last word, at 12.0 s: queued 3"
    )


def test_three_refused_looks_mean_that_the_server_is_gone(guard):
    guard.pulse.in_flight, guard.pulse.heard_ns = 1, 120 * S
    guard.watcher.failures, guard.watcher.refused = 2, True
    assert guard.alarm(120 * S) is None
    guard.watcher.failures = 3
    assert guard.alarm(120 * S).signature == "server.gone"


def test_slow_looks_are_no_death_while_answers_go_on(guard):
    guard.pulse.in_flight, guard.pulse.heard_ns = 1, 120 * S
    guard.watcher.failures, guard.watcher.refused = 3, False
    assert guard.alarm(120 * S) is None
    assert guard.alarm(122 * S).signature == "server.gone"


def test_a_server_that_never_answered_is_told_as_such():
    guard = Guard(Pulse(in_flight=1), Watcher(None, SGLANG), stall_s=5.0)
    assert "no answer was ever whole; the server never said a word" in guard.alarm(9 * S).seen
