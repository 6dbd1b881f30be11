"""Whether the server still serves: the stall watchdog and the notice of its death.

It is asked often and decides from what others noticed; it reads no clock and no socket itself.
"""

from dataclasses import dataclass
from typing import NamedTuple

from harness.load.pulse import Pulse
from harness.load.watcher import Watcher

DEAD_LOOKS = 3  # in a row
QUIET_S = 1.0  # a server that only lets looks wait may still answer its clients
SHOWN = 5  # requests in flight, the oldest first


class Alarm(NamedTuple):
    """A finding of oracle P1."""

    signature: str
    expected: str
    seen: str


@dataclass(slots=True)
class Guard:
    """Times in nanoseconds of the monotonic clock. `answered` is told of every whole answer, and
    `looked` of every look that the server answered; together they are the last good moment."""

    pulse: Pulse
    watcher: Watcher
    stall_s: float
    answer: str = ""
    answer_ns: int = -1
    look_ns: int = -1

    def answered(self, request_id: str, now_ns: int) -> None:
        self.answer, self.answer_ns = request_id, now_ns

    def looked(self, now_ns: int) -> None:
        self.look_ns = now_ns

    def alarm(self, now_ns: int) -> Alarm | None:
        """What is wrong, if anything is."""
        quiet_s = (now_ns - self.pulse.heard_ns) / 1e9
        if self.pulse.in_flight and quiet_s > self.stall_s:
            return Alarm("stall", "answers go on", self.story(now_ns))
        silent = self.watcher.refused or not self.pulse.in_flight or quiet_s > QUIET_S
        if self.watcher.failures >= DEAD_LOOKS and silent:
            return Alarm("server.gone", "the server answers", self.story(now_ns))
        return None

    def story(self, now_ns: int) -> str:
        """The last good moment, what was in flight, and the server's last word."""
        heard = f"no byte for {(now_ns - self.pulse.heard_ns) / 1e9:.1f} s"
        answer = f"{self.answer} was answered at {self._at(self.answer_ns)}"
        good = answer if self.answer_ns >= 0 else "no answer was ever whole"
        told = ", ".join(f"{name} {value:g}" for name, value in self.watcher.last.items())
        said = f"the server's last word, at {self._at(self.look_ns)}: {told or 'no metrics'}"
        return "; ".join(
            (self._flight(now_ns), heard, f"last good moment: {good}",
             said if self.look_ns >= 0 else "the server never said a word")
        )  # fmt: skip

    def _flight(self, now_ns: int) -> str:
        oldest = sorted(self.pulse.open.items(), key=lambda item: item[1])
        shown = [f"{name} for {(now_ns - at) / 1e9:.1f} s" for name, at in oldest[:SHOWN]]
        more = f" and {len(oldest) - SHOWN} more" if len(oldest) > SHOWN else ""
        which = f" ({', '.join(shown)}{more})" if shown else ""
        return f"{self.pulse.in_flight} in flight{which}"

    def _at(self, moment_ns: int) -> str:
        return f"{(moment_ns - self.pulse.start_ns) / 1e9:.1f} s"
