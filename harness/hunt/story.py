"""A finding as a story: each step with what it did to the tree, and who held what at the end."""

from dataclasses import dataclass

from cache.unified import UnifiedCache
from harness.explore.kernel import Point, Task
from harness.explore.outcome import Outcome, Scenario, Verdict
from harness.explore.tape import StrictReplay, Tape
from harness.hunt.picture import Picture, changes, picture_of
from harness.hunt.runner import ArenaRunner


@dataclass(frozen=True, slots=True)
class Step:
    """Numbered from 1. `inner` are the points that ran inside the same atomic segment."""

    number: int
    task: str
    point: str
    inner: tuple[str, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Story:
    verdict: Verdict | None
    steps: tuple[Step, ...]
    end: Picture


class Teller:
    """Watches a run and writes its steps down; give it to `ArenaRunner.run`."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.cache: UnifiedCache | None = None
        self._before: Picture | None = None
        self._inner: list[str] = []
        self._open: Point | None = None

    def begin(self, cache: UnifiedCache) -> None:
        self.cache = cache
        self._before = picture_of(cache)

    def on_step(self, task: Task, point: Point) -> None:
        if self._open is None:
            self._open = point
        else:
            self._inner.append(point.name)

    def after_step(self, task: Task, point: Point) -> None:
        """Called when the segment is over, and once more if it raised."""
        assert self.cache is not None
        assert self._before is not None
        after = picture_of(self.cache)
        told = tuple(changes(self._before, after))
        number = len(self.steps) + 1
        self.steps.append(Step(number, task.name, point.name, tuple(self._inner), told))
        self._before, self._open = after, None
        self._inner.clear()

    def end(self) -> Picture:
        assert self._before is not None
        return self._before


def tell(runner: ArenaRunner, scenario: Scenario, tape: Tape) -> tuple[Story, Outcome]:
    """Run a tape strictly once more and tell what happened."""
    teller = Teller()
    outcome = runner.run(scenario, StrictReplay(tape), teller)
    return Story(outcome.verdict, tuple(teller.steps), teller.end()), outcome
