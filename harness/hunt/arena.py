"""A small world for a search: requests as tasks over one cache, with everything else that moves.

    setup    serves prompts and makes room, alone, before anything else begins
    R<n>     a request: its admission step by step, then chunks, answer, end
    A<n>     the client of request n goes away
    P<n>     something wants device room
    Q<n>     something wants recurrent states
    h2d d2h  the copy streams; under a search a copy runs, or fails, whenever it likes; h2d1 .. are
             those of further ranks
    ack      the scheduler takes note of what has landed

With the scheduler grain an admission is one segment, as on a single scheduler thread; with the fine
grain each of its steps is. Invariant: the scenario and the choices decide everything.
"""

from array import array
from collections.abc import Awaitable, Callable, Hashable

from cache.config import Tier
from cache.contract import Demand
from cache.keys import Key, pages_of
from cache.table import PageTable
from cache.transfers import CopyState, Transfers
from harness.engine.admission import Admission, Verdict
from harness.engine.marks import Marks
from harness.explore.kernel import FINISHED, Kernel, Point, Signal
from harness.explore.outcome import Scenario
from harness.hunt.ranks import STREAMS, Tortured, may_shut, stream_name
from harness.hunt.refusals import Refusals
from harness.hunt.scenario import GROUPS, Request, leaving, recurrent, requests_of, setup_of
from harness.hunt.state import cache_state
from harness.hunt.storage import Left, StorageTasks, narrow, no_more

TREE = ("tree",)
FAILURES = 2  # copies of one run that may fail; if all did, nobody would ever get on
Forward = Callable[[PageTable, Key, int], None]  # computes a key's tokens from `written` up to here
ALIKE = 70  # the first voice of groups that speak with one: above all requests' own


def nothing(table: PageTable, key: Key, stop: int) -> None:
    """No model computes; the fingerprints say what would be there."""


class Seeker:
    """A request of the arena, as an applicant for admission."""

    def __init__(self, request: Request, page_size: int, voice: int) -> None:
        self.request = request
        self.voice = voice
        self.name = f"R{request.id}"
        self.namespace = "other" if request.namespace else ""
        self.key = prompt_key(request, page_size, self.namespace, voice)
        self.table: PageTable | None = None
        self.leaving = False
        self.admitted = False
        self.done = False
        self.retracted = False
        self.failed_at = -1  # the arena's epoch at its last attempt without room
        self.answered = 0

    @property
    def priority(self) -> int:
        return self.request.priority

    def state(self) -> Hashable:
        """What its future depends on, beside where its task stands."""
        flags = (self.leaving, self.admitted, self.done, self.retracted, self.answered)
        table = self.table
        if table is None:
            return (*flags, self.key.tokens)
        waits = tuple(copy.state.value for copy in table.waits)
        pages = (table.written, table.shared, table.swa_from, len(table.full))
        states = (table.state is None, table.forked, table.kept is None, table.kept_at)
        return (*flags, self.key.tokens, *pages, waits, states)


class Arena:
    """Built for one run of one scenario around a cache that is ready to be tortured."""

    def __init__(
        self,
        scenario: Scenario,
        cache: Tortured,
        marks: Marks,
        compute: Forward = nothing,
        left: Left = no_more,
    ) -> None:
        self.kernel = Kernel()
        self.cache = cache
        self._compute = compute
        self._marks = marks
        self._scenario = scenario
        self._recurrent = recurrent(scenario)
        self._fine = scenario["grain"] == "fine"
        self._refusals = Refusals(self.kernel, FAILURES)
        self._failures_left = FAILURES if scenario["copies_fail"] else 0
        self._size = cache.config.page_size
        self._admission = Admission(cache, self._step)
        self._issued = {tier: Signal(f"{STREAMS[tier]}.queue") for tier in Tier}
        self._landed = Signal("copies.landed")
        self._changed = Signal("cache.changed")
        self._epoch = 0  # counts lasting changes of the cache
        alike = scenario.get("alike", False)
        self.seekers = [
            Seeker(r, self._size, ALIKE + r.group if alike else r.id) for r in requests_of(scenario)
        ]
        self._storage: StorageTasks | None = None
        if cache.storage is not None:
            self._storage = StorageTasks(
                self.kernel, cache, scenario, marks, self._changed, self._kick, left
            )

    def start(self) -> None:
        self.kernel.state_key = self._state
        if self._scenario["rooms_fail"]:
            self._refusals.begin(self.cache.ranks)
        self.kernel.spawn("setup", self._setup())

    # -- tasks ---------------------------------------------------------------------------------

    async def _setup(self) -> None:
        """Serve and evict until the tree looks as the scenario wants it; then let go."""
        if self._storage is not None:
            self._storage.warm([_prefix_key(group, self._size) for group in range(GROUPS)])
        for item in setup_of(self._scenario):
            await self.kernel.point("setup.serve" if item["serve"] else "setup.room", TREE)
            if item["serve"]:
                self._serve(item["group"], item["pages"])
            else:
                self.cache.make_room(self._demand(item["full"], item["swa"]))
            self._drain()
        if any(gone := leaving(self._scenario)):
            await self.kernel.point("setup.room", TREE)
            self.cache.make_room(self._demand(*gone))
            self._drain()
        if self._scenario["rooms_fail"] or may_shut(self._scenario):
            self._refusals.begin_apart(self.cache)
        spawn = self.kernel.spawn
        if self.cache.config.hierarchical:
            for number, rank in enumerate(self.cache.ranks):
                for tier in (Tier.HOST, Tier.DEVICE):
                    stream = self._stream(rank.transfers, tier)
                    spawn(stream_name(tier, number), stream, daemon=True)
            spawn("ack", self._acknowledge(), daemon=True)
        if self._storage is not None:
            self._storage.start()
        for seeker in self.seekers:
            spawn(seeker.name, self._live(seeker))
            if seeker.request.abort:
                spawn(f"A{seeker.request.id}", self._leave(seeker))
        if self._scenario.get("flush", False):
            spawn("flush", self._flush())
        for item in self._scenario["pressure"]:
            spawn(f"P{item['id']}", self._press(item["full"], item["swa"], 0))
        for item in self._scenario["state_pressure"] if self._recurrent else ():
            spawn(f"Q{item['id']}", self._press(0, 0, item["states"]))

    async def _live(self, seeker: Seeker) -> None:
        """A request from its arrival to its end, whatever comes between."""
        await self.kernel.point("request.arrive", TREE)
        if self._storage is not None and not (seeker.leaving or seeker.request.unasked):
            prefetch = self._storage.ask(seeker.key, seeker.name, seeker.request.id)
            await self._storage.wait(prefetch, lambda: seeker.leaving, self._storage_step)
        while not seeker.done:
            if not await self._admit(seeker):
                break
            if await self._wait_for_loads(seeker) and await self._prefill(seeker):
                await self._answer(seeker)
        seeker.done = True
        self._kick()

    async def _leave(self, seeker: Seeker) -> None:
        await self.kernel.point("client.abort", TREE)
        if not seeker.done:
            seeker.leaving = True
            loading = seeker.table is not None and any(c.in_flight for c in seeker.table.waits)
            queued = seeker.table is None
            self._marks.hit(
                "abort_while_queued"
                if queued
                else "abort_while_loading"
                if loading
                else "abort_while_running"
            )
            self._changed.fire()

    async def _flush(self) -> None:
        """An operator's call: refused, unless nothing is held just then."""
        await self.kernel.point("flush", TREE)
        if self.cache.flush():
            self._kick()

    async def _press(self, full: int, swa: int, states: int) -> None:
        await self.kernel.point("pressure", TREE)
        self.cache.make_room(self._demand(full, swa, states))
        self._kick()

    async def _stream(self, transfers: Transfers, tier: Tier) -> None:
        while True:
            if transfers.next_to_run(tier) is None:
                await self.kernel.wait(self._issued[tier], "copy.idle")
                continue
            await self.kernel.point("copy.run", TREE)
            copy = transfers.next_to_run(tier)
            assert copy is not None, "only this stream runs copies of its direction"
            if self._failures_left and self.kernel.draw("copy.fail", 2):
                self._failures_left -= 1
                transfers.break_off(copy)
            else:
                transfers.run(copy)
            self._landed.fire()

    async def _acknowledge(self) -> None:
        transfers = self.cache.transfers
        while True:
            ready = [t for t in Tier if transfers.next_to_acknowledge(t) is not None]
            if not ready:
                await self.kernel.wait(self._landed, "ack.idle")
                continue
            await self.kernel.point("copy.acknowledge", TREE)
            ready = [t for t in Tier if transfers.next_to_acknowledge(t) is not None]
            tier = ready[self.kernel.draw("ack.direction", len(ready))]
            copy = transfers.next_to_acknowledge(tier)
            assert copy is not None
            self.cache.acknowledge(copy)
            self._kick()

    # -- a request's life ----------------------------------------------------------------------

    async def _admit(self, seeker: Seeker) -> bool:
        """Until it is admitted or its client has left."""
        while not seeker.leaving:
            await self.kernel.point("admit", TREE)
            if seeker.leaving:
                break
            holders = self._holders(seeker)
            if seeker.retracted and holders and holders[0] < seeker.request.id:
                await self.kernel.wait(self._changed, "admit.queue")
                continue
            verdict = await self._admission.admit(seeker, lambda: self._answer_pages(seeker))
            if verdict is Verdict.ADMITTED:
                seeker.admitted = True
                assert seeker.table is not None
                if seeker.table.hit_tokens:
                    self._marks.hit("prefix_hit")
                self._kick()
                return True
            self._let_others_try(seeker)
            if verdict is Verdict.NO_ROOM and not self._anything_else_moves(seeker):
                break  # its prompt can never be had
            if verdict is Verdict.NO_ROOM:
                await self.kernel.wait(self._changed, "admit.queue")
        if seeker.table is not None:
            self._end(seeker)
        return False

    async def _wait_for_loads(self, seeker: Seeker) -> bool:
        """False when a load-back failed and it has to be admitted again."""
        table = seeker.table
        assert table is not None
        if self._recurrent and table.waits:
            # A state that is to be copied when it has landed, if there is room by then.
            self.cache.extend(table, min(seeker.key.tokens, table.written + self._size))
            self._start_streams()
        while any(copy.in_flight for copy in table.waits) and not seeker.leaving:
            await self.kernel.wait(self._changed, "load.wait")
        if any(copy.state is CopyState.FAILED for copy in table.waits) and not seeker.leaving:
            await self.kernel.point("load.failed", TREE)
            self._give_up(seeker)
            return False
        return True

    async def _prefill(self, seeker: Seeker) -> bool:
        """Chunk by chunk. False when it had to give its pages up."""
        while True:
            table, key = seeker.table, seeker.key
            assert table is not None
            if seeker.leaving:
                await self.kernel.point("request.abort", TREE)
                self._end(seeker)
                return False
            if table.written == key.tokens:
                return True
            if table.written > table.hit_tokens:
                self._marks.hit("chunked_prefill")
            stop = min(key.tokens, table.written + seeker.request.chunk * self._size)
            if not await self._extend(seeker, stop):
                return False
            await self.kernel.point("forward", TREE)
            if seeker.leaving:  # taken out of the batch before it is launched
                self._end(seeker)
                return False
            start = table.written
            self.cache.read(table, start)
            self._compute(table, key, stop)
            self.cache.write(table, key.prints(), stop)
            if stop < key.tokens or start // self._size < stop // self._size:
                self.cache.commit(table, key)
            self._slide(table, stop)
            self._kick()

    async def _answer(self, seeker: Seeker) -> None:
        """Token by token."""
        table = seeker.table
        assert table is not None
        while seeker.answered < seeker.request.answer - 1 and not seeker.leaving:
            seeker.key = seeker.key.extended(_token(900_000 + seeker.voice))
            seeker.answered += 1
            if not await self._extend(seeker, seeker.key.tokens):
                return
            await self.kernel.point("decode", TREE)
            self.cache.read(table, table.written)
            self._compute(table, seeker.key, seeker.key.tokens)
            self.cache.write(table, seeker.key.prints(), seeker.key.tokens)
            self._slide(table, table.written)
            self._kick()
        await self.kernel.point("request.finish", TREE)
        self._end(seeker)

    def _slide(self, table: PageTable, tokens: int) -> None:
        self.cache.slide(table, tokens)
        self.cache.observer.slid(table, tokens)

    async def _extend(self, seeker: Seeker, tokens: int) -> bool:
        """Pages for `tokens`, waiting for room that others will bring. False when it has given up
        its own pages instead, to try again later or never."""
        table = seeker.table
        assert table is not None
        while not seeker.leaving:
            if self.cache.extend(table, tokens).enough:
                self._kick()
                return True
            self._start_streams()
            holders = self._holders(seeker)
            if self.cache.in_flight() or (holders and holders[0] > seeker.request.id):
                await self.kernel.wait(self._changed, "extend.wait")
                continue
            await self.kernel.point("request.retract", TREE)
            self._give_up(seeker)
            seeker.done = not holders  # nobody will ever bring the room that it needs
            seeker.retracted = True
            return False
        await self.kernel.point("request.abort", TREE)
        self._end(seeker)
        return False

    def _give_up(self, seeker: Seeker) -> None:
        """Pages and lock go back; what was computed stays cached."""
        table = seeker.table
        assert table is not None
        failed = any(copy.state is CopyState.FAILED for copy in table.waits)
        if failed or table.written <= table.hit_tokens:
            self.cache.abort(table)
        else:
            self.cache.finish(table, seeker.key)
            self._marks.hit("retraction")
        seeker.table, seeker.admitted = None, False
        self._kick()

    def _end(self, seeker: Seeker) -> None:
        table = seeker.table
        assert table is not None
        if seeker.leaving and table.written <= table.hit_tokens:
            self.cache.abort(table)
        else:
            self.cache.finish(table, seeker.key)
        seeker.table, seeker.done = None, True
        self._kick()

    # -- helpers -------------------------------------------------------------------------------

    def _state(self) -> Hashable:
        left = (self._failures_left, *self._refusals.both_left)
        seekers = tuple(s.state() for s in self.seekers)
        caches = tuple(cache_state(rank) for rank in self.cache.ranks)
        if self._storage is None:
            return (caches, left, seekers)
        return (caches, left, seekers, self._storage.state())

    @property
    def refused(self) -> bool:
        """Whether room that could be had was refused in this run."""
        return self._refusals.any

    def _storage_step(self, name: str) -> Awaitable[None]:
        return self._step(name, TREE)

    def _step(self, name: str, obj: object) -> Awaitable[None]:
        if self._fine:
            return self.kernel.point(name, TREE)
        kernel = self.kernel
        if kernel.on_step is not None and kernel.current is not None:
            kernel.on_step(kernel.current, Point(name, TREE))
        return FINISHED

    def _kick(self) -> None:
        """The cache has changed for good: whoever waits for that looks again."""
        self._epoch += 1
        self._start_streams()
        self._changed.fire()

    def _let_others_try(self, seeker: Seeker) -> None:
        """An attempt that found no room has given its lock back, which may be all that others
        lacked; told once until the cache changes, else two of them could wake each other for ever.
        """
        self._start_streams()
        if seeker.failed_at != self._epoch:
            seeker.failed_at = self._epoch
            self._changed.fire()

    def _start_streams(self) -> None:
        for tier, queue in self.cache.transfers.queues.items():
            if queue:
                self._issued[tier].fire()
        if self._storage is not None:
            self._storage.kick()

    def _anything_else_moves(self, seeker: Seeker) -> bool:
        """Whether somebody's progress could bring the room that `seeker` lacks."""
        return bool(self.cache.in_flight() or self._holders(seeker))

    def _holders(self, seeker: Seeker) -> list[int]:
        """The other requests that hold pages, oldest first; the younger ones give way."""
        others = (other for other in self.seekers if other is not seeker)
        return [other.request.id for other in others if other.table is not None]

    def _answer_pages(self, seeker: Seeker) -> int:
        return pages_of(seeker.request.answer, self._size)

    def _serve(self, group: int, pages: int) -> None:
        """One prompt from admission to end with nothing else going on."""
        request = Request(90 + group, group, pages, 1, 1, pages + 1, 0, False, False)
        key = prompt_key(request, self._size, "", request.id)
        match = self.cache.match(key)
        admission = self.cache.lock(match, "setup.admission")
        assert admission is not None
        table = self.cache.settle(match, admission, "setup")
        self.cache.unlock(admission)
        whole = pages * self._size
        if self.cache.extend(table, whole).enough and not table.waits:
            self._compute(table, key, max(whole, table.written))
            self.cache.write(table, key.prints(), max(whole, table.written))
            if narrow(self._scenario):  # whose host could not take a window for each page
                self._slide(table, table.written)
            self.cache.finish(table, key)
        else:
            self.cache.abort(table)

    def _drain(self) -> None:
        """What is in flight lands at once, as far as the cache lets it."""
        self._drain_copies()
        if self._storage is not None:
            self._storage.drain()

    def _drain_copies(self) -> None:
        transfers = self.cache.transfers
        left = len(transfers) + 1
        while len(transfers) < left:
            left = len(transfers)
            for tier in Tier:
                for rank in self.cache.ranks:
                    while (copy := rank.transfers.next_to_run(tier)) is not None:
                        rank.transfers.run(copy)
                while (copy := transfers.next_to_acknowledge(tier)) is not None:
                    self.cache.acknowledge(copy)

    def rest(self) -> None:
        """What is still in flight lands."""
        self._drain()

    def _demand(self, *extra: int) -> Demand:
        """Beyond what is free: by component, so many slots are to be evicted."""
        config = self.cache.config
        wanted = [*extra, *[0] * config.width][: config.width]
        for component in config.components:
            free = self.cache.pool(component, Tier.DEVICE).free_slots
            limit = config.pools(component).device
            wanted[component] = min(free + wanted[component], limit)
        return Demand(*wanted)


def _prefix_key(group: int, page_size: int) -> Key:
    """As long a prefix of a group as any request may share."""
    request = Request(90 + group, group, 9, 0, 1, 1, 0, False, False)
    return prompt_key(request, page_size, "", request.id)


def prompt_key(request: Request, page_size: int, namespace: str, voice: int) -> Key:
    """`shared` pages of the group's prefix, `own` tokens of its voice's, and one query token."""
    first = 1_000 * (request.group + 1)
    tokens = array("i", range(first, first + request.shared * page_size))
    mine = 100_000 * (voice + 1)
    tokens.extend(range(mine, mine + request.own + 1))
    return Key(tokens.tobytes(), page_size, namespace)


def _token(value: int) -> bytes:
    return array("i", [value]).tobytes()
