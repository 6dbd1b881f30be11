"""Storage's side of a world: the controller's threads as tasks, the clock of deadlines, and what
storage holds before the story.

    query     asks storage how much of a prefix it holds; fetch reads it into host pages
    report    agrees on what was read, where the release has a thread for it
    persist   writes host pages into storage
    clock     a deadline passes
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.explore.kernel import Kernel, Signal
from harness.explore.outcome import Scenario
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.prompts import Prompt
from harness.targets.sglang.release import Release
from harness.targets.sglang.shape import Shape
from harness.targets.sglang.storage import Page, Prints, Storage, chain, prepare
from harness.targets.sglang.workers import Site, Worker

DEADLINES = 8  # that may pass in a run
DEADLINE_S = 1e6  # longer than any
POINT = ("cache",)


def background_of(
    release: Release, scenario: Scenario, shape: Shape, kernel: Kernel
) -> "Background | None":
    """None without storage."""
    return Background(release, scenario, shape, kernel) if shape.storage else None


class Background:
    """Made before the server that it is of, whose threads then report here."""

    def __init__(self, release: Release, scenario: Scenario, shape: Shape, kernel: Kernel) -> None:
        self.storage = Storage()
        self.site = Site.current = Site(self.storage)
        self.truth: dict[str, Prints] = {}  # by key: the page of the prefix that it names
        self._meet: Callable[[], None] = lambda: None
        self._kick: Callable[[], None] = lambda: None
        self._release, self._shape, self._kernel = release, shape, kernel
        self._broken: Broken | None = None
        self._woken: dict[str, Signal] = {}
        self._awaited: Callable[[], bool] = lambda: False  # somebody waits for a prefetch
        self._held = int(scenario.get("stored", 0))
        if scenario.get("failing"):
            self.storage.draw = kernel.draw
        prepare(release, shape.batch)

    def start(self, cache: Any, suffix: str = "") -> None:
        """Spawn a task for each thread; `suffix` tells ranks apart."""
        for name, worker in self.site.workers.items():
            self._woken[name] = Signal(f"{name}{suffix}.woken")
            self._kernel.spawn(f"{name}{suffix}", self._run(name, worker), daemon=True)
        if self._shape.prefetch == "timeout":
            self._awaited = lambda: bool(cache.ongoing_prefetch)
            self._woken["clock"] = Signal(f"clock{suffix}.woken")
            self._kernel.spawn(f"clock{suffix}", self._clock(), daemon=True)

    def learn(self, tokens: Any) -> None:
        """The cache may meet this sequence from now on."""
        page, prints = self._shape.page_size, np.array(tokens, dtype=np.int64)
        for at, key in enumerate(chain(self._release, tokens, page)):
            self.truth[key] = prints[at * page : (at + 1) * page]

    def hold(self, prompts: list[Prompt], components: list[str]) -> None:
        """Another server has put the first pages of these prompts into storage."""
        page = self._shape.page_size
        for prompt in prompts:
            tokens = prompt.tokens(prompts)
            for at, key in enumerate(chain(self._release, tokens, page)):
                if at == self._held:
                    break
                prints = np.array(tokens[at * page : (at + 1) * page], dtype=np.int64)
                for component in components:
                    name = key if component == "full" else f"{key}.{component}"
                    self.storage.pages[name] = prints[-1:] if component == "mamba" else prints

    def report_to(self, watchers: Callable[[], Sequence[Any]], kick: Callable[[], None]) -> None:
        """Tell watchers of pages that move and of what storage is given, and the world of each
        step."""

        def moves(page: Page) -> None:
            self._judged(lambda: [watcher.pages(page) for watcher in watchers()])

        def kept(key: str, prints: Prints) -> None:
            self._judged(lambda: [watcher.kept(key, prints) for watcher in watchers()])

        self.storage.on_page, self.storage.on_kept = moves, kept
        self._kick = kick

    def agree_with(self, meet: Callable[[], None]) -> None:
        """`meet` is called after each step: threads of several ranks may wait for each other."""
        self._meet = meet

    def _judged(self, tell: Callable[[], Any]) -> None:
        """The release may catch what is raised on its threads, and log it."""
        try:
            tell()
        except Broken as broken:
            self._broken = self._broken or broken
            raise

    def wake(self) -> None:
        """Whoever would get on may."""
        for name, signal in self._woken.items():
            if self.site.workers[name].ready if name in self.site.workers else self._awaited():
                signal.fire()

    @property
    def behind(self) -> bool:
        return any(worker.ready for worker in self.site.workers.values())

    def run(self) -> None:
        """One turn of everybody who would get on."""
        for worker in self.site.workers.values():
            if worker.ready:
                self._advance(worker)

    def close(self) -> None:
        self.site.close()

    async def _run(self, name: str, worker: Worker) -> None:
        while True:
            if worker.ready:
                await self._kernel.point(f"{name}.{worker.at}", POINT)
            while not worker.ready:
                await self._kernel.wait(self._woken[name], f"{name}.{worker.at}", POINT)
            self._advance(worker)
            self._kick()

    def _advance(self, worker: Worker) -> None:
        worker.advance()
        error = self._broken or worker.error
        if error is not None:
            raise error
        self._meet()

    async def _clock(self) -> None:
        for _ in range(DEADLINES):
            if self._awaited():
                await self._kernel.point("clock.deadline", POINT)
            while not self._awaited():
                await self._kernel.wait(self._woken["clock"], "clock.deadline", POINT)
            self.site.now += DEADLINE_S
            self._kick()
