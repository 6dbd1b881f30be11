"""Storage in the arena: its replies are tasks, and so is a request's waiting for them.

    storage  replies to a persist or a prefetch, whichever the search likes, as it likes
    stow     the scheduler takes note of a reply
    T<n>     the patience of request n ends (policy `timeout`)
    other    another server of the same kind leaves its pages, when the search likes

Further ranks are replied to by storage1, .. and have clocks of their own: T<n>.1, ..

Nothing here draws from the tape in a world without storage.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from itertools import product
from math import inf

from cache.config import Component, PrefetchPolicy, StorageConfig
from cache.keys import Key
from cache.packing import pack
from cache.storage.contract import ROOT, Page
from cache.storage.frame import HEADER_BYTES
from cache.storage.memory import MemoryStorage
from cache.storage.naming import identity_of
from cache.storage_moves import Move, Prefetch
from cache.storage_tier import StorageTier
from cache.strands import Strand
from harness.engine.marks import Marks
from harness.engine.troubles import TROUBLES, Trouble, TroubledStorage
from harness.explore.kernel import Kernel, Signal
from harness.explore.outcome import Scenario
from harness.explore.swarm import Feature, Knob, Number, Options
from harness.hunt.ranks import Tortured

IDENTITY = identity_of(world="arena")
PAGE_BYTES = HEADER_BYTES + 8
TREE = ("tree",)
# Beside fingerprints, what an object of a strand has for the last of a key's first pages.
Left = Callable[[Strand, Key, int], Sequence[memoryview]]
MOST_WARM = 14
MOST_TROUBLES = 3  # of one run; if storage never worked, nothing would be said about the cache

STORAGE: dict[str, Knob] = {
    "policy": Options(("wait_complete", "timeout", "best_effort", "wait_complete")),
    "threshold": Options((0, 1, 0, 2)),  # pages
    "batch": Number(1, 3),  # pages
    "capacity": Options((60, 60, 20, 60, 4)),  # pages, of all components
    "warm": Number(0, MOST_WARM),  # pages of each group's prefix that another server has left there
    "orphans": Number(0, 3),  # the page from which on it left no companions apart; 0: it did
    "every": Number(1, 3),  # pages from one recurrent state of that prefix to the next
    "trouble": Options(("none", "any", "torn", "none", "failing", "lying")),
    "late": Feature(0.3),  # the other server leaves them while requests are on their way
    "queue": Number(0, 8),  # turns that others have before a request looks for what has come
}


def storage_config(scenario: Scenario) -> StorageConfig | None:
    """None where the world has no storage."""
    if not scenario.get("storage") or not scenario["ratio"]:
        return None
    knobs = scenario["storage"][0]
    return StorageConfig(
        prefetch_policy=PrefetchPolicy(knobs["policy"]),
        prefetch_threshold=knobs["threshold"] * scenario["page_size"],
        batch_pages=knobs["batch"],
    )


def narrow(scenario: Scenario) -> bool:
    """Whether the host has room for hardly more than one window or state, and storage for all;
    replay files from before there was such a host do not say."""
    return bool(scenario.get("storage")) and bool(scenario.get("narrow", False))


def storage_of(scenario: Scenario, page_bytes: int = PAGE_BYTES) -> TroubledStorage | None:
    """The backend of a scenario, without trouble until the arena says so; `page_bytes` is what a
    stored page takes at most."""
    if storage_config(scenario) is None:
        return None
    capacity = scenario["storage"][0]["capacity"] * page_bytes
    return TroubledStorage(MemoryStorage(IDENTITY, capacity), lambda: Trouble.NONE)


def no_more(strand: Strand, key: Key, pages: int) -> Sequence[memoryview]:
    """Fingerprints are all there is."""
    return ()


class StorageTasks:
    """For one run. `kick()` tells everybody that the cache has changed; `left` is what another
    server has left behind beside fingerprints."""

    def __init__(
        self,
        kernel: Kernel,
        cache: Tortured,
        scenario: Scenario,
        marks: Marks,
        changed: Signal,
        kick: Callable[[], None],
        left: Left = no_more,
    ) -> None:
        assert cache.storage is not None
        self._kernel = kernel
        self.tier = cache.storage
        assert isinstance(self.tier.backend, TroubledStorage)
        self._backend = self.tier.backend
        self._ranks = [rank.storage for rank in cache.ranks if rank.storage is not None]
        self._knobs = scenario["storage"][0]
        self._narrow = narrow(scenario)
        self._marks = marks
        self._changed = changed
        self._kick = kick
        self._left = left
        self._asked = Signal("storage.queue")
        self._replied = Signal("storage.replied")
        self._components = cache.config.components
        self._impatient: set[tuple[int, int]] = set()  # prefetch and rank: it waits no longer
        self._kinds = _kinds(self._knobs["trouble"])
        self._troubles_left = MOST_TROUBLES
        self._late: list[Key] = []

    def warm(self, keys: list[Key]) -> None:
        """What another server of the same kind leaves: the first pages of `keys`; now, or one key
        after the other while requests are on their way."""
        if self._knobs.get("late", False):  # replay files from before there was one do not say
            self._late = keys
        else:
            self._leave(keys)

    def start(self) -> None:
        """From now on storage may be in trouble."""
        self._backend.trouble = self._trouble
        for number, tier in enumerate(self._ranks):
            self._kernel.spawn(f"storage{number or ''}", self._storage(tier), daemon=True)
        self._kernel.spawn("stow", self._stow(), daemon=True)
        if self._late:
            self._kernel.spawn("other", self._other(self._late), daemon=True)

    def kick(self) -> None:
        if self.tier.outstanding():
            self._asked.fire()

    def drain(self) -> None:
        """Storage replies to everything at once, and all of it is acknowledged."""
        while len(self.tier):
            for tier in self._ranks:
                for move in tier.outstanding():
                    tier.run(move)
            for move in self.tier.replied():
                self.tier.acknowledge(move)

    def state(self) -> Hashable:
        """What the future of storage depends on."""
        index = self._backend.inner.index
        moves: list[Move] = []
        for tier in self._ranks:
            moves += [*tier.persists.queue, *tier.prefetches.live.values()]
        order = tuple(sorted((index.used_at(entry.key), entry.key) for entry in index))
        whole = tuple(self._backend.inner.blobs.get(key) for _, key in order)
        return (
            self._troubles_left,
            tuple(_state(move) for move in moves),
            tuple(k for _, k in order),
            whole,
        )

    # -- a request -------------------------------------------------------------------------------

    def ask(self, key: Key, name: str, number: int) -> Prefetch:
        prefetch = self.tier.prefetch(key, name)
        if not prefetch.over and self.tier.config.prefetch_policy is PrefetchPolicy.TIMEOUT:
            for rank in range(len(self._ranks)):
                name = f"T{number}.{rank}" if rank else f"T{number}"
                self._kernel.spawn(name, self._lose_patience(prefetch, rank), daemon=True)
        self._kick()
        return prefetch

    async def wait(
        self,
        prefetch: Prefetch,
        leaving: Callable[[], bool],
        step: Callable[[str], Awaitable[None]],
    ) -> None:
        """Until the policy lets the request go on, or its client has left: then nothing of the
        prefetch is held but what storage is writing into."""
        for _ in range(self._knobs.get("queue", 0)):  # replay files from before do not say
            await self._kernel.point("prefetch.turn", TREE)
        while not leaving() and not self.tier.may_go_on(prefetch, *self._waited_s(prefetch)):
            await self._kernel.wait(self._changed, "prefetch.wait")
        if leaving():
            self._marks.hit("prefetch_cancelled")
            self.tier.cancel(prefetch)
        else:
            await step("prefetch.conclude")
            self.tier.conclude(prefetch)
        self._kick()

    def _waited_s(self, prefetch: Prefetch) -> list[float]:
        """By each rank's clock."""
        clocks = ((prefetch.number, rank) for rank in range(len(self._ranks)))
        return [inf if clock in self._impatient else 0.0 for clock in clocks]

    async def _lose_patience(self, prefetch: Prefetch, rank: int) -> None:
        await self._kernel.point("prefetch.timeout", TREE)
        if not prefetch.over:
            self._impatient.add((prefetch.number, rank))
            self._changed.fire()

    # -- storage ---------------------------------------------------------------------------------

    async def _other(self, keys: list[Key]) -> None:
        for key in keys:
            await self._kernel.point("storage.other", TREE)
            self._leave([key])

    def _leave(self, keys: list[Key]) -> None:
        warm = MOST_WARM if self._narrow else self._knobs["warm"]
        for key, tier in product(keys, self._ranks):
            above = ROOT
            for pages in range(1, min(warm, key.pages) + 1):
                above = self._keep(tier, above, key, pages)

    async def _storage(self, tier: StorageTier) -> None:
        while True:
            if not tier.outstanding():
                await self._kernel.wait(self._asked, "storage.idle")
                continue
            await self._kernel.point("storage.reply", TREE)
            moves = tier.outstanding()
            if moves:
                tier.run(moves[self._kernel.draw("storage.which", len(moves))])
                self._replied.fire()

    def _keep(self, tier: StorageTier, above: bytes, key: Key, pages: int) -> bytes:
        """One page with all that belongs to it, but for the companions of orphans; its name."""
        print_ = key.prints()[pages - 1]
        every = self._knobs.get("every", 1)  # replay files from before there was one do not say
        orphans = self._knobs.get("orphans", 0)
        full = tier.name_of(Component.FULL, print_)
        kept = []
        for strand in tier.strands:
            apart = strand.number >= len(Component)
            if strand.component is Component.MAMBA and pages % every:
                continue
            if apart and orphans and pages >= orphans:
                continue
            head = tier.name_of(strand.component, print_) if apart else full
            if strand.number == Component.FULL:
                head = above
            bodies = self._left(strand, key, pages)
            payload = pack(strand.number, [print_] * len(strand.parts), tier.share, bodies)
            kept.append(Page(tier.name_of(strand.number, print_), head, payload))
        self._backend.put(kept)
        return full

    async def _stow(self) -> None:
        while True:
            if not self.tier.replied():
                await self._kernel.wait(self._replied, "stow.idle")
                continue
            await self._kernel.point("storage.acknowledge", TREE)
            moves = self.tier.replied()
            if moves:
                self.tier.acknowledge(moves[self._kernel.draw("stow.which", len(moves))])
                self._kick()

    def _trouble(self) -> Trouble:
        if not self._troubles_left:
            return Trouble.NONE
        trouble = self._kinds[self._kernel.draw("storage.trouble", len(self._kinds))]
        if trouble is not Trouble.NONE:
            self._troubles_left -= 1
        return trouble


def _kinds(word: str) -> tuple[Trouble, ...]:
    """What a reply may be, the sound one first."""
    match word:
        case "none":
            return (Trouble.NONE,)
        case "any":
            return TROUBLES
        case _:
            return (Trouble.NONE, Trouble(word))


def _state(move: Move) -> Hashable:
    if isinstance(move, Prefetch):
        facts = (move.phase.value, move.stopped, move.arrived, move.asked, move.there)
        objects = tuple((w.strand.number, w.page) for w in (*move.questions, *move.wanted))
        return ("prefetch", move.holder, move.start, move.limit, move.end, *facts, objects)
    nodes = tuple(
        (source.node.start, source.node.edge, source.component) for source in move.sources
    )
    return ("persist", move.state.value, move.stored, move.status.value, nodes)
