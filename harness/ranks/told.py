"""What the first rank tells another one, and hears from it, over a pipe between their processes.

    to a rank      Decision ..., PING ..., END      the end of the pipe: the first rank is gone
    from a rank    HERE, then violations as they are found, PONG ..., a RankRow at its end

Invariant: messages of either way are read in the order in which they were sent.
"""

from dataclasses import dataclass
from enum import Enum

from harness.record.ranks import RankRow
from harness.soak.settings import Serving, Traffic, Watching


class Word(Enum):
    HERE = "I am about to meet the others"
    PING = "are you there?"
    PONG = "I am"
    END = "there is nothing more to follow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All that a rank needs to begin. `folder` is its own, `port` where the ranks meet."""

    serving: Serving
    traffic: Traffic
    watching: Watching
    rank: int
    port: int
    folder: str
    patience_s: float
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A violation, as the recorder wants it."""

    record: dict[str, object]


News = Word | Found | RankRow
