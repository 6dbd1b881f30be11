"""A seeded random driver of a World, and the nasty little configurations it is let loose on."""

from dataclasses import replace

import numpy as np

from cache.config import (
    CacheConfig,
    Companion,
    Component,
    EvictionOrder,
    PoolPages,
    Tier,
    WritePolicy,
)
from cache.keys import Key
from cache.tree import Node
from tests.cache.builders import a_config, tokens_of
from tests.cache.seen import Seen
from tests.cache.world import Rider, Stage, World

# (page, window): page 1, page > window, window no multiple of the page, windows above prefixes
SHAPES = ((1, 0), (2, 0), (1, 1), (1, 3), (4, 2), (2, 3), (3, 7), (2, 4), (1, 20))


class Driver:
    def __init__(self, config: CacheConfig, seed: int, seen: Seen | None = None) -> None:
        self.chance = np.random.Generator(np.random.PCG64(seed))
        self.world = World(config, seen)
        self._draws: list[int] = []
        # A swarm: each seed has its own mixture, since an average one reaches no extremes.
        self._slow_copies = self.below(2)
        self._breaks_in_20 = (0, 1, 5, 10)[self.below(4)]
        self._crowd = 2 + self.below(3)
        self._pressure = (2, 8, 16)[self.below(3)]  # per cent

    def drive(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.world.check()
        self.world.drain()

    def step(self) -> None:
        """One move: mostly some request's next step, else copies, pressure, arrivals."""
        world = self.world
        dice = self.below(200)
        if self.below(12) == 0:
            self._cut()
        elif self.below(100) < self._pressure:
            world.make_room(*self._demand())
        elif dice < 120 and world.riders:
            rider = world.riders[self.below(len(world.riders))]
            for _ in range(8 if self.below(4) == 0 else 1):
                self._ride(rider)
                world.check()
        elif dice < 150 and len(world.riders) < self._crowd:
            self._arrive()
        elif dice < (160 if self._slow_copies else 190):
            self._copy(Tier(self.below(2)))
        elif dice == 199 and self.below(8) == 0:
            world.flush()

    def _demand(self) -> list[int]:
        config = self.world.cache.config
        most = 1 + config.full.device
        wanted = [self.below(most), self.below(most)]
        return wanted if config.mamba is None else [*wanted, self.below(2 + config.mamba.device)]

    def _cut(self) -> None:
        """A passer-by leaves an edge that a load-back is filling, which cuts it."""
        page = self.world.cache.config.page_size
        nodes = self.world.cache.tree.nodes()
        loading = [node for node in nodes if _is_long_and_loading(node, page)]
        if loading:
            node = loading[self.below(len(loading))]
            cut = _spelled(node)[: 4 * (node.start + page)] + tokens_of([2], page)
            self.world.glance(Key(cut, page, node.namespace))

    def below(self, stop: int) -> int:
        if not self._draws:
            self._draws = self.chance.integers(0, 1 << 30, 256).tolist()
        return self._draws.pop() % stop

    def _arrive(self) -> None:
        page = self.world.cache.config.page_size
        namespace, whole = self._text()
        prompt = whole if self.below(5) else whole[: 4 * (1 + self.below(len(whole) // 4))]
        self.world.arrive(Key(prompt, page, namespace), Key(whole, page, namespace), self.below(3))

    def _text(self) -> tuple[str, bytes]:
        """A prefix of one of few long texts, or what the host could bring back."""
        config = self.world.cache.config
        page = config.page_size
        nodes = list(self.world.cache.tree.nodes())
        lost = [node for node in nodes if _could_come_back(node, config.components)]
        if lost and self.below(2):
            node = lost[self.below(len(lost))]
            return node.namespace, _spelled(node) + tokens_of([self.below(2)], page)
        text = self.below(6)
        whole = tokens_of([0, text > 2, text % 3, 0, text % 2, 0], page)
        longest = page * max(3, config.full.device // 2)
        namespace = "lora" if self.below(12) == 0 else ""
        cut = self.below(min(longest, len(whole) // 4)) if self.below(3) == 0 else longest
        return namespace, whole[: 4 * (1 + cut)]

    def _ride(self, rider: Rider) -> None:
        world = self.world
        if rider.stage is Stage.OVER:
            return
        if self.below(60) == 0:
            world.abort(rider)
        elif rider.stage is not Stage.RUN:
            world.advance(rider)
        else:
            self._work(rider)

    def _work(self, rider: Rider) -> None:
        world, table = self.world, rider.table
        assert table is not None
        dice = self.below(16)
        tokens = table.written + 1 + self.below(3 * world.cache.config.page_size)
        if rider.waiting:
            if dice < 4:
                world.extend(rider, tokens)
            return
        if dice < 6:
            world.extend(rider, tokens)
            world.write(rider, tokens if dice > 1 else table.written)
            if tokens > table.capacity_tokens and self.below(2) == 0:
                world.finish(rider)  # out of room: what there is will do
        elif dice < 7:
            world.read(rider)
        elif dice < 9:
            world.commit(rider)
        elif dice < 11:
            world.slide(rider)
        elif table.written >= rider.whole.tokens or dice == 15:
            world.finish(rider)

    def _copy(self, tier: Tier) -> None:
        if self.below(2):
            self.world.acknowledge(tier)
        elif self.below(20) < self._breaks_in_20:
            self.world.break_off(tier)
        else:
            self.world.run(tier)


def _could_come_back(node: Node, components: tuple[Component, ...]) -> bool:
    missing = any(not node.ready(Tier.DEVICE, component) for component in components)
    return missing and node.ready(Tier.HOST, Component.FULL)


def _is_long_and_loading(node: Node, page: int) -> bool:
    return node.tokens > page and any(copy is not None for copy in node.inbound[Tier.DEVICE])


def _spelled(node: Node) -> bytes:
    return b"".join(reversed([up.edge for up in node.ancestors()]))


def stateful_config(seed: int, policy: WritePolicy) -> CacheConfig:
    """The same with recurrent layers: as few states as let a request run, or some more."""
    config = nasty_config(seed, policy)
    chance = np.random.Generator(np.random.PCG64([seed, 2]))
    device = 2 + int(chance.integers(6))
    host = 1 + int(chance.integers(2 * device)) if config.hierarchical else 0
    return replace(config, mamba=PoolPages(device, host))


def accompanied_config(seed: int, policy: WritePolicy) -> CacheConfig:
    """The same with companions of everything: under their owner's numbers, and in pools of their
    own, which may be the smaller ones."""
    config = stateful_config(seed, policy)
    chance = np.random.Generator(np.random.PCG64([seed, 3]))
    found = []
    for component in config.components:
        theirs, fewer = config.pools(component), int(chance.integers(2))
        pools = PoolPages(theirs.device, max(1, theirs.host - fewer) if theirs.host else 0)
        name = component.name.lower()
        found += [Companion(f"{name}_near", component)]
        found += [Companion(f"{name}_far", component, pools=pools)]
    return replace(config, companions=tuple(found))


def nasty_config(seed: int, policy: WritePolicy) -> CacheConfig:
    """The configuration number `seed`: every shape, order and ratio comes up in turn."""
    chance = np.random.Generator(np.random.PCG64([seed, 1]))
    page, window = SHAPES[seed % len(SHAPES)]
    order = list(EvictionOrder)[int(chance.integers(3))]
    device = int(chance.integers(4, 11))
    ratio = (0.25, 0.5, 1, 2, 3, 2, 3, 0)[int(chance.integers(8))]
    host = max(1, int(device * ratio)) if ratio else 0
    swa = None
    if window:
        least = -(-window // page)
        slots = max(least + 1, int(device * (0.25, 0.5, 1)[int(chance.integers(3))]))
        swa = (slots, max(1, int(slots * ratio)) if ratio else 0)
    return a_config(
        page=page,
        full=(device, host),
        swa=swa,
        window=window,
        policy=policy,
        order=order,
        threshold=int(chance.integers(2)) * page,
    )
