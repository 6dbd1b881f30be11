"""Random drivers over nasty little configurations, and the proof that they got into every corner.

Page 1, page above window, windows that are no multiple of the page or longer than any prefix, pools
of a handful of slots, a quarter to three times as many on the host or none, all orders, namespaces,
priorities, copies that are slow and copies that fail. A failure names its seed.
"""

from cache.config import WritePolicy
from tests.cache.driver import Driver, accompanied_config, nasty_config, stateful_config
from tests.cache.seen import Seen

WORLDS, STEPS = 27, 400

CORNERS = (
    "hit",
    "demoted",
    "dropped from the device",
    "host eviction",
    "host eviction inside a device eviction",
    "backup failed",
    "backup doomed",
    "load-back ISSUED",
    "load-back JOINED",
    "load-back NO_ROOM",
    "load-back STALE",
    "load-back failed",
    "load-back of a window alone",
    "load-back of several nodes",
    "anchor gone before the lock",
    "settled below the match",
    "split under a copy to the host",
    "split under a copy to the device",
    "split under a lock",
    "split of a leaving node",
    "leaving node used again before its backup landed",
    "insert blocked by a copy",
    "insert met a duplicate",
    "tombstone revived by a load-back",
    "tombstone revived by an insert",
    "window given up above its FULL",
    "lock narrowed",
    "room waited for",
    "no room",
    "request let down by a failed copy",
    "aborted with copies in flight",
    "flush refused",
)


def test_everything_holds_after_every_step_of_random_worlds():
    seen = Seen()
    for policy in WritePolicy:
        for seed in range(WORLDS):
            try:
                Driver(nasty_config(seed, policy), seed, seen).drive(STEPS)
            except Exception as error:
                error.add_note(f"seed {seed}, {nasty_config(seed, policy)}")
                raise
    missed = [mark for mark in CORNERS if not seen.counts[mark]]
    assert missed == [], dict(seen.counts)


STATEFUL_CORNERS = (
    "state forked",
    "state forked as it landed",
    "state donated",
    "no slot to keep a state in",
    "state given up above its FULL",
    "state loaded back",
    "state alone loaded back",
    "state given to an old node",
    "load-back NO_ROOM",
    "backup failed",
    "backup doomed",
    "room waited for",
    "request let down by a failed copy",
)


def test_everything_holds_with_recurrent_states_of_which_there_are_few():
    seen = Seen()
    for policy in WritePolicy:
        for seed in range(WORLDS):
            try:
                Driver(stateful_config(seed, policy), seed, seen).drive(STEPS)
            except Exception as error:
                error.add_note(f"seed {seed}, {stateful_config(seed, policy)}")
                raise
    missed = [mark for mark in STATEFUL_CORNERS if not seen.counts[mark]]
    assert missed == [], dict(seen.counts)


def test_everything_holds_beside_pages_windows_and_states():
    seen = Seen()
    for policy in WritePolicy:
        for seed in range(WORLDS // 3):
            try:
                Driver(accompanied_config(seed, policy), seed, seen).drive(STEPS // 2)
            except Exception as error:
                error.add_note(f"seed {seed}, {accompanied_config(seed, policy)}")
                raise
    missed = [mark for mark in ("state forked", "load-back ISSUED") if not seen.counts[mark]]
    assert missed == [], dict(seen.counts)
