"""Admission: a sequence of named atomic steps.

    match -> lock -> budget -> load_back -> settle -> unlock

With the scheduler grain they run together, as on a single scheduler thread; with the fine grain
anything may come between two of them. Invariant: however it ends, the admission lock is back.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol

from cache.config import Component
from cache.contract import Cache, Match
from cache.keys import Key, pages_of
from cache.locks import Lock
from cache.table import PageTable

Step = Callable[[str, object], Awaitable[None]]


class Applicant(Protocol):
    """Who wants to be admitted."""

    name: str
    key: Key
    table: PageTable | None

    @property
    def priority(self) -> int: ...


class Verdict(Enum):
    ADMITTED = "admitted"
    NO_ROOM = "no room"  # stays queued, and so does everything behind it
    AGAIN = "again"  # the anchor was evicted between match and lock


class Admission:
    """`step(name, object)` is awaited before each step."""

    def __init__(self, cache: Cache, step: Step) -> None:
        self._cache = cache
        self._step = step
        self._page_size = cache.config.page_size

    async def admit(self, job: Applicant, reserve: Callable[[], int]) -> Verdict:
        """Try to give `job` its prefix. On ADMITTED `job.table` is open and holds its lock.

        `reserve()` tells how many FULL pages must stay for others and for the answer."""
        obj = ("request", job.name)
        await self._step("admit.match", obj)
        match = self._cache.match(job.key)
        await self._step("admit.lock", obj)
        admission = self._cache.lock(match, f"{job.name}.admission")
        if admission is None:
            return Verdict.AGAIN
        try:
            await self._step("admit.budget", obj)
            if not self._fits(job, match, reserve()):
                return Verdict.NO_ROOM
            await self._step("admit.load_back", obj)
            self._cache.load_back(match, admission)
            await self._step("admit.settle", obj)
            job.table = self._cache.settle(match, admission, job.name, job.priority)
            await self._step("admit.unlock", obj)
        finally:
            self._release(admission)
        return Verdict.ADMITTED

    def _fits(self, job: Applicant, match: Match, reserve: int) -> bool:
        """Whether the rest of the prompt, and what running jobs may still need, can be had.

        What the path to the anchor has on the device is under the admission lock: not available,
        and not wanted either, whether it can be served yet or a load-back has to come first."""
        held = match.loadable_tokens // self._page_size - match.load_pages[Component.FULL]
        wanted = pages_of(job.key.tokens + 1, self._page_size) - held
        return self._cache.available(Component.FULL) >= wanted + reserve

    def _release(self, admission: Lock) -> None:
        if admission.live:
            self._cache.unlock(admission)
