"""The clock of every rank but the first: it goes on as the first one's says.

The first rank's wall clock decides which task goes on and when; the decisions are sent round before
they are carried out. A rank that follows has the same tasks at the same points, or has decided
something else than the first: that is a violation of R1. Invariant: time is the first rank's, so
what depends on it (arrivals, time-outs) is the same everywhere.
"""

from collections.abc import Iterable, Iterator

from harness.explore.kernel import Kernel, Stop, Task
from harness.ranks.between import RanksApart
from harness.record.decisions import Decision
from harness.serve.wall_clock import WallClock
from harness.soak.follow import Follower


class FollowingClock(WallClock):
    """A wall clock that is driven from elsewhere. Threads may `call` it as any other; what they ask
    for is done between two decisions."""

    def __init__(self, decisions: Iterable[Decision]) -> None:
        """`decisions` end when the run does."""
        super().__init__()
        self._follower = Follower(self._between_actions(decisions))

    def make_ready(self, task: Task) -> None: ...

    def wake(self, task: Task) -> None: ...

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        try:
            stop = self._follower.drive(kernel, step_limit)
        except Exception as error:
            return Stop("raised", self._follower.steps, error)
        parted = self._follower.parted
        if parted is None:
            return stop
        apart = RanksApart("R1", "followed", "the decisions of the first rank", parted)
        return Stop("raised", stop.steps, apart)

    def _between_actions(self, decisions: Iterable[Decision]) -> Iterator[Decision]:
        for decision in decisions:
            self._act()
            yield decision
