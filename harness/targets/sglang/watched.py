"""The oracles and marks of a release over a long run: at every step, or now and then.

What is told at the moment it happens (a copy that runs, a prefill's reads, every acquire and
release of a lock) is judged whenever it happens; what takes a look at the whole tree and at the
pools, and what a decode reads, every so many times.
"""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from harness.record.manifest import Mark
from harness.soak.settings import Oracles
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Copy
from harness.targets.sglang.marks import MEANINGS, Marks
from harness.targets.sglang.oracles import ORACLES, Oracle
from harness.targets.sglang.view import View
from harness.targets.sglang.world import Row, World

LOOK_EVERY: dict[Oracles, int] = {"every": 1, "sampled": 256, "off": 256}
DECODES_EVERY: dict[Oracles, int] = {"every": 1, "sampled": 16, "off": 16}
REQUIRED = ("prefix_hit",)
REQUIRED_WITH_HOST = ("backup", "load_back")
HARNESS = str(Path(__file__).resolve().parents[2])


class Watched:
    """A watcher of a world that passes on what it is told; `marks` counts as far as it looks."""

    def __init__(self, world: World, oracles: Oracles) -> None:
        self.view = View(world.cache, world.pools)
        self.verifies_content = oracles != "off"
        self._world = world
        seen = [kind for kind in ORACLES if self.view.opaque <= kind.sees_opaque]
        self._oracles: list[Oracle] = []
        if self.verifies_content:
            self._oracles = [kind(world, self.view) for kind in seen]
        self._marks = Marks(world, self.view)
        self._look_every, self._decodes_every = LOOK_EVERY[oracles], DECODES_EVERY[oracles]
        self._settled = self._decoded = 0
        self._copies = {"backup": 0, "load_back": 0}

    def reads(self, row: Row) -> None:
        self._marks.reads(row)
        if row.stop - row.start == 1:
            self._decoded += 1
            if self._decoded % self._decodes_every:
                return
        for oracle in self._oracles:
            oracle.reads(row)

    def copies(self, copy: Copy) -> None:
        self._copies["backup" if copy.to_host else "load_back"] += 1
        for oracle in self._oracles:
            oracle.copies(copy)

    def pages(self, page: object) -> None: ...

    def kept(self, key: str, prints: object) -> None: ...

    def settled(self) -> None:
        self._settled += 1
        if self._settled % self._look_every:
            return
        self.view.forget()
        for oracle in self._oracles:
            oracle.settled()
        self._marks.settled()

    def at_rest(self) -> None:
        """Every request has ended and nothing is in flight."""
        self.view.forget()
        self._marks.settled()
        for oracle in self._oracles:
            oracle.at_rest()

    @property
    def marks(self) -> Mapping[str, int]:
        """Backups and load-backs by their copies, which are seen even where nodes are not."""
        seen = self._marks.counts
        return seen | {mark: max(count, seen[mark]) for mark, count in self._copies.items()}

    def rows(self) -> list[Mark]:
        hierarchical = self._world.shape.hierarchical
        required = (*REQUIRED, *(REQUIRED_WITH_HOST if hierarchical else ()))
        counts = self.marks
        return [
            Mark(m.mark, counts[m.mark], required=m.mark in required, meaning=m.meaning)
            for m in MEANINGS
            if m.mark != "ranks_skewed"
        ]


def harness_raised(error: BaseException) -> bool:
    """Whether the harness has failed, and not the release: it raised, and no oracle did."""
    if isinstance(error, Broken):
        return False
    trace: TracebackType | None = error.__traceback__
    inner = ""
    while trace is not None:
        inner = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return inner.startswith(HARNESS)
