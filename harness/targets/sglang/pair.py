"""Two ranks of a small server: the same requests, each rank with its own pools, cache and copies.

    sched  both ranks' schedulers, in step, as their broadcasts and collectives keep them
    fwd    the forward pass of both
    d2h0   the copy stream of rank 0 to the host; d2h1, h2d0, h2d1 likewise

What differs between ranks is when their copies land, and nothing else.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from harness.explore.kernel import Kernel, Signal
from harness.explore.outcome import Scenario
from harness.targets.sglang import serving
from harness.targets.sglang.agreement import Group, reduce, together
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Device
from harness.targets.sglang.prompts import Prompt
from harness.targets.sglang.release import Release
from harness.targets.sglang.workers import Site
from harness.targets.sglang.world import CACHE, INBOX, RECEIVE, SERVE, Launch, World

RANKS = 2
# Where a controller has the process groups of its threads; made as storage is attached.
SYNC_GROUPS = (
    "prefetch_sync_groups",
    "prefetch_hits_sync_groups",
    "prefetch_completion_sync_groups",
)
T = TypeVar("T")
Launched = tuple[Any, Any, Launch]  # a batch, its result, and its way through the model


class _Process:
    """What a rank's process has for itself: its default stream, how it numbers its nodes, and its
    side of storage."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._site = Site.current
        self._default, self._current = Device.default, Device.current
        self._numbers = release.numbers()

    def enter(self) -> None:
        Device.default, Device.current = self._default, self._current
        Site.current = self._site
        self._release.number_from(self._numbers)

    def leave(self) -> None:
        self._default, self._current = Device.default, Device.current
        self._numbers = self._release.numbers()


class Pair:
    """Built for one run of one scenario."""

    def __init__(self, release: Release, scenario: Scenario) -> None:
        self.kernel = Kernel()
        self.ranks: list[World] = []
        self._processes: list[_Process] = []
        self._changed = changed = Signal("changed")
        for _ in range(RANKS):
            world = World(release, scenario, kernel=self.kernel, changed=changed)
            cache = world.cache
            cache.tp_group, cache.tp_world_size = Group(RANKS), RANKS
            if world.background is not None:
                world.background.agree_with(self._meet)
                for groups in SYNC_GROUPS:
                    if hasattr(cache.cache_controller, groups):
                        setattr(cache.cache_controller, groups, [Group(RANKS)])
            world.scheduler.result_queue = []
            self.ranks.append(world)
            self._processes.append(_Process(release))
        self._results: list[list[Launched]] = []  # of batches in flight: of every rank
        self.skewed = 0  # passes in which the ranks' copies had come to different points

    def start(self) -> None:
        spawn, first = self.kernel.spawn, self.ranks[0]
        spawn("sched", self._loop(), daemon=True)
        spawn("fwd", self._forward(), daemon=True)
        for number, world in enumerate(self.ranks):
            for name in world.streams:
                if name != "fwd":
                    spawn(f"{name}{number}", world.run_stream(name), daemon=True)
            if world.background is not None:
                world.background.start(world.cache, str(number))
        for prompt in first.prompts:
            if prompt.served:
                continue
            spawn(f"R{prompt.id}", self._client(prompt))
            if prompt.abort:
                spawn(f"A{prompt.id}", self._leave(prompt))

    def _meet(self) -> None:
        """Threads of one kind that wait for each other on all ranks agree."""
        sites = [world.background.site for world in self.ranks if world.background is not None]
        for name in sites[0].workers:
            calls = [site.workers[name].call for site in sites]
            if len(calls) == RANKS and None not in calls:
                reduce(calls)
                for site in sites:
                    site.workers[name].call = None
                for world in self.ranks:
                    world.kick()

    async def _client(self, prompt: Prompt) -> None:
        first = self.ranks[0]
        if prompt.waits_for is None or prompt.waits_for in first.ended:
            await self.kernel.point("client.send", INBOX)
        else:
            await self.kernel.wait(first.answer_to(prompt.waits_for), "client.send", INBOX)
        self._post(prompt)
        await self.kernel.wait(first.answer_to(prompt.rid), "client.wait")

    async def _leave(self, prompt: Prompt) -> None:
        await self.kernel.point("client.abort", INBOX)
        for world in self.ranks:
            world.post(world.release.abort_of(prompt.rid))

    async def _forward(self) -> None:
        """A batch runs on both ranks at once: its layers reduce across them."""
        streams = [world.streams["fwd"] for world in self.ranks]
        while True:
            if all(stream.ready for stream in streams):
                await self.kernel.point("forward.run", CACHE)
            while not all(stream.ready for stream in streams):
                await self.kernel.wait(self._changed, "forward.run", CACHE)
            for stream in streams:
                stream.run_next()
            for world in self.ranks:
                world.kick()

    async def _loop(self) -> None:
        await self._serve()
        idle = 0
        while True:
            if idle > serving.SPINS and not self.ranks[0].has_mail:
                await self.kernel.wait(self._changed, RECEIVE, CACHE)
                idle = 0
            else:
                await self.kernel.point(RECEIVE, CACHE)
            idle = 0 if await self._turn() else idle + 1

    async def _serve(self) -> None:
        """As `World` does: before the story begins."""
        served = [prompt for prompt in self.ranks[0].prompts if prompt.served]
        if not served:
            return
        await self.kernel.point(SERVE, CACHE)
        mail = [world.inbox for world in self.ranks]
        for world in self.ranks:
            world.serving, world.inbox = True, []
        await serving.serve(served, self._post, self._turn)
        for world, kept in zip(self.ranks, mail, strict=True):
            world.serving, world.inbox = False, kept

    def _post(self, prompt: Prompt) -> None:
        for world in self.ranks:
            world.post(prompt)

    async def _turn(self) -> bool:
        self._together(lambda world: world.receive())
        progress = [[len(s.copies) for s in world.streams.values()] for world in self.ranks]
        self.skewed += progress[0] != progress[1]
        return await (self._pass_overlapped() if self._first.shape.overlap else self._pass())

    @property
    def _first(self) -> World:
        return self.ranks[0]

    async def _pass(self) -> bool:
        """The rest of a pass of `event_loop_normal` on both ranks; whether there was a batch."""
        batches = self._schedule()
        if batches[0]:
            self._launch(batches)
            await self._process_oldest()
        else:
            self._together(lambda world: world.scheduler.on_idle())
        self._end(batches)
        return bool(batches[0])

    async def _pass_overlapped(self) -> bool:
        """The rest of a pass of `event_loop_overlap` on both ranks, as `World` has it."""
        era, before = self._first.era, self._first.scheduler.last_batch
        if era.barrier == "schedule":
            self._together(lambda world: world.wait_for_forward())
        batches = self._schedule()
        todo = {id(world): batch for world, batch in zip(self.ranks, batches, strict=True)}
        disabled = self._together(lambda world: world.overlap_disabled(todo[id(world)]))[0]
        if disabled:
            await self._process_oldest()
        if batches[0]:
            self._launch(batches)
            if era.barrier == "launch":
                self._together(lambda world: world.wait_for_forward())
        if before:
            if not disabled:
                await self._process_oldest()
        elif batches[0] is None:
            self._together(lambda world: world.scheduler.on_idle())
        self._end(batches)
        return bool(batches[0] or before)

    def _schedule(self) -> list[Any]:
        batches = self._together(lambda world: world.schedule())
        for world in self.ranks:
            world.settle()
        _same([_told(batch) for batch in batches])
        return batches

    def _launch(self, batches: list[Any]) -> None:
        launched = []
        for world, batch in zip(self.ranks, batches, strict=True):
            launch, result = world.launch(batch)
            kept = batch.copy() if world.shape.overlap else batch
            launched.append((kept, result, launch))
            world.scheduler.result_queue.append(launched[-1])
        self._results.append(launched)

    async def _process_oldest(self) -> None:
        """What the forward passes launched first came to reaches the requests."""
        oldest = self._results[0]
        await self._first.synchronize(lambda: all(one.done.query() for _, _, one in oldest))
        self._results.pop(0)
        todo = {id(world): one for world, one in zip(self.ranks, oldest, strict=True)}
        for world in self.ranks:
            world.scheduler.result_queue.pop(0)
        self._together(lambda world: world.process(*todo[id(world)][:2]))

    def _end(self, batches: list[Any]) -> None:
        for world, batch in zip(self.ranks, batches, strict=True):
            world.scheduler.last_batch = batch
            world.settle()

    def _together(self, share: Callable[[World], T]) -> list[T]:
        works = [(lambda world=world: share(world)) for world in self.ranks]
        return together(works, self._processes)


def _told(batch: Any) -> Any:
    """What a batch computes, in words that ranks can compare."""
    if not batch:
        return "no batch"
    lengths = [int(n) for n in batch.seq_lens]
    starts = list(batch.prefix_lens) if batch.forward_mode.is_extend() else lengths
    rows = zip(batch.reqs, starts, lengths, strict=False)
    return ", ".join(f"{req.rid} [{int(start)}, {stop})" for req, start, stop in rows)


def _same(told: list[str]) -> None:
    if len(set(told)) > 1:
        seen = "; ".join(f"rank {rank}: {what}" for rank, what in enumerate(told))
        raise Broken("R1", "the ranks compute different batches", "the same batch", seen)
