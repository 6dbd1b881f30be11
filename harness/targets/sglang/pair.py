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
from harness.targets.sglang.agreement import Group, together
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Device
from harness.targets.sglang.prompts import Prompt
from harness.targets.sglang.release import Release
from harness.targets.sglang.world import CACHE, SERVE, SPINS, Launch, World, serve

RANKS = 2
T = TypeVar("T")


class _Process:
    """What a rank's process has for itself: its default stream, and how it numbers its nodes."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._default, self._current = Device.default, Device.current
        self._numbers = release.numbers()

    def enter(self) -> None:
        Device.default, Device.current = self._default, self._current
        self._release.number_from(self._numbers)

    def leave(self) -> None:
        self._default, self._current = Device.default, Device.current
        self._numbers = self._release.numbers()


class Pair:
    """Built for one run of one scenario. The loop is the one without overlap."""

    def __init__(self, release: Release, scenario: Scenario) -> None:
        self.kernel = Kernel()
        self.ranks: list[World] = []
        self._processes: list[_Process] = []
        changed, answers = Signal("changed"), Signal("answers")
        for _ in range(RANKS):
            world = World(release, scenario, kernel=self.kernel, changed=changed, answers=answers)
            cache = world.cache
            cache.tp_group, cache.tp_world_size = Group(RANKS), RANKS
            world.scheduler.result_queue = []
            self.ranks.append(world)
            self._processes.append(_Process(release))
        self._changed, self._answers = changed, answers
        self.skewed = 0  # passes in which the ranks' copies had come to different points

    def start(self) -> None:
        spawn, first = self.kernel.spawn, self.ranks[0]
        spawn("sched", self._loop(), daemon=True)
        spawn("fwd", self._forward(), daemon=True)
        for number, world in enumerate(self.ranks):
            for name in world.streams:
                if name != "fwd":
                    spawn(f"{name}{number}", world.run_stream(name), daemon=True)
        for prompt in first.prompts:
            if prompt.served:
                continue
            spawn(f"R{prompt.id}", self._client(prompt))
            if prompt.abort:
                spawn(f"A{prompt.id}", self._leave(prompt))

    async def _client(self, prompt: Prompt) -> None:
        ended = self.ranks[0].ended
        while prompt.waits_for is not None and prompt.waits_for not in ended:
            await self.kernel.wait(self._answers, "client.think")
        await self.kernel.point("client.send", ("inbox",))
        self._post(prompt)
        while prompt.rid not in ended:
            await self.kernel.wait(self._answers, "client.wait")

    async def _leave(self, prompt: Prompt) -> None:
        await self.kernel.point("client.abort", ("inbox",))
        for world in self.ranks:
            world.post(world.release.abort_of(prompt.rid))

    async def _forward(self) -> None:
        """A batch runs on both ranks at once: its layers reduce across them."""
        streams = [world.streams["fwd"] for world in self.ranks]
        while True:
            while not all(stream.ready for stream in streams):
                await self.kernel.wait(self._changed, "fwd.idle")
            await self.kernel.point("forward.run", CACHE)
            for stream in streams:
                stream.run_next()
            for world in self.ranks:
                world.kick()

    async def _loop(self) -> None:
        await self._serve()
        idle = 0
        while True:
            if idle > SPINS and not self.ranks[0].has_mail:
                await self.kernel.wait(self._changed, "scheduler.idle")
                idle = 0
            await self.kernel.point("scheduler.receive", CACHE)
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
        await serve(served, self._post, self._turn)
        for world, kept in zip(self.ranks, mail, strict=True):
            world.serving, world.inbox = False, kept

    def _post(self, prompt: Prompt) -> None:
        for world in self.ranks:
            world.post(prompt)

    async def _turn(self) -> bool:
        self._together(lambda world: world.receive())
        return await self._pass()

    async def _pass(self) -> bool:
        """A pass of `event_loop_normal` on both ranks; whether there was a batch."""
        progress = [[len(s.copies) for s in world.streams.values()] for world in self.ranks]
        self.skewed += progress[0] != progress[1]
        batches = self._together(lambda world: world.schedule())
        _same([_told(batch) for batch in batches])
        if batches[0]:
            await self.ranks[0].stand("scheduler.launch")
            pairs = zip(self.ranks, batches, strict=True)
            launched = [world.launch(batch) for world, batch in pairs]
            while not all(launch.done.query() for launch, _ in launched):
                await self.kernel.wait(self._changed, "scheduler.synchronize")
            await self.ranks[0].stand("scheduler.process")
            self._process(batches, launched)
        else:
            self._together(lambda world: world.scheduler.on_idle())
        for world, batch in zip(self.ranks, batches, strict=True):
            world.scheduler.last_batch = batch
            world.settle()
        return bool(batches[0])

    def _process(self, batches: list[Any], launched: list[tuple[Launch, Any]]) -> None:
        todo = {
            id(world): (batch, result)
            for world, batch, (_, result) in zip(self.ranks, batches, launched, strict=True)
        }
        self._together(lambda world: world.scheduler.process_batch_result(*todo[id(world)]))

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
