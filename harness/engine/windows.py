"""A window and a state for every running job: how many may share the pools of the components that
do not grow.

A job gets on with the slots of its window, of the page that it fills and of the one after that, and
with a state of its own beside the one that it starts from; what it holds beyond that it can let go.
Invariant: the running jobs' needs fit each pool together, so no job waits for slots that only
another's end would free.
"""

from cache.config import MAMBA, STATES_OF_A_REQUEST, CacheConfig, Component
from cache.keys import pages_of
from harness.engine.job import Job
from harness.engine.roster import Roster


class Windows:
    def __init__(self, config: CacheConfig, roster: Roster) -> None:
        there = Component.SWA in config.components
        self._page_size = config.page_size
        self._roster = roster
        self._most = config.window_pages + 2 if there else 0
        self.slots = config.pools(Component.SWA).device if there else 0
        stateful = MAMBA in config.components
        self._stateful = config.pools(MAMBA).device // STATES_OF_A_REQUEST if stateful else None

    def need(self, tokens: int) -> int:
        """Slots for a request that will be this long: fewer than a window's if it is short."""
        return min(pages_of(tokens, self._page_size), self._most)

    def admits(self, job: Job) -> bool:
        """Whether `job` can run beside those that do."""
        roster = self._roster
        if self._stateful is not None and roster.running >= self._stateful:
            return False
        if (roster.running + 1) * self._most <= self.slots:
            return True
        taken = sum(self._needs(other) for other in roster.active())
        return taken + self._needs(job) <= self.slots

    def _needs(self, job: Job) -> int:
        return self.need(job.prompt_len + job.output_len)
