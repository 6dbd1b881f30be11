"""Real copies between the tiers, on real streams: what `harness.engine.streams` models.

A copy that the cache has queued is handed to the stream of its direction and rank, behind a
*fence*: an event of the compute that comes when all that was launched before is over. So a backup
reads no page that a forward has yet to write, and a load-back writes none that one still uses.

    scheduler   commit: queues backup 7     kick            finish, acknowledge 7
    compute     [ forward writes page 3 ]
    d2h                                     ... fence ...[ page 3 ]---^

Invariant: streams touch bytes only. Whatever the cache is told is told in the scheduler's thread,
by `finish` and `drain`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from cache.companions import AccompaniedStore
from cache.config import Component, Tier
from cache.contract import Cache
from cache.stores import Store
from cache.tensors import TensorStore
from cache.transfers import Copy, Transfers
from harness.device.layers import Layer, LayerGroup, grouped, layers_at_once, side_by_side
from harness.device.streams import Event, Job, Step, Stream
from harness.engine.streams import NAMES

Links = Mapping[Tier, Stream]  # a rank's streams, by the tier that they copy to
Slots = tuple[list[int], list[int]]  # of a component: of the source, and of the target
Fence = Callable[[int], Sequence[Event]]


class Flight:
    """One rank's part of a copy, on its way. For the compute: which layers have come."""

    def __init__(self, copy: Copy, job: Job, groups: Sequence[LayerGroup]) -> None:
        self.copy = copy
        self.job = job
        self._layers = {
            (component, layer): event
            for (component, layers), event in zip(groups, job.events, strict=False)
            for layer in layers
        }

    def layer_ready(self, layer: Layer) -> Event:
        """Comes when that layer of every page of the copy has; at once if the copy has none."""
        return self._layers.get(layer) or Event.past()


class DeviceStreams:
    """Runs the copies of every rank of `cache`, in the order in which each queued them.

    `links[rank]` are that rank's streams; their owner closes them when the clock is over.
    `fence(rank)` is what a copy of that rank that begins now has to wait for. `on_end(rank, copy)`
    is called in a stream's thread when the bytes are there, or will not come: the scheduler's
    thread then has to `finish` the copy, in that order. `order` is that of the model's layers, for
    load-backs; without it components come side by side.

    A copy whose stream raised an error of the environment breaks; a programmer's error is raised
    again by `finish`. `bytes_moved` are those of the first rank."""

    def __init__(
        self,
        cache: Cache,
        links: Sequence[Links],
        *,
        fence: Fence,
        on_end: Callable[[int, Copy], None],
        order: Sequence[Layer] = (),
    ) -> None:
        assert len(links) == len(cache.ranks), "streams for every rank"
        self._cache = cache
        self._links = tuple(links)
        self._fence = fence
        self._on_end = on_end
        self._order = tuple(order) or side_by_side(_layers(cache))
        self._flights: list[dict[int, Flight]] = [{} for _ in links]
        self._sent = [dict.fromkeys(Tier, 0) for _ in links]
        self.bytes_moved = dict.fromkeys(Tier, 0)
        self.failed = 0

    def kick(self) -> None:
        """Begin what the cache has queued since; cheap when there is nothing. Call it before more
        compute is launched, or copies wait for that as well."""
        for rank, cache in enumerate(self._cache.ranks):
            for tier, queue in cache.transfers.queues.items():
                sent = self._sent[rank]
                if queue and queue[-1].number > sent[tier]:
                    for copy in [copy for copy in queue if copy.number > sent[tier]]:
                        self._begin(rank, cache.transfers, copy)
                    sent[tier] = queue[-1].number

    def flights(self, copies: Iterable[Copy], rank: int = 0) -> list[Flight]:
        """Those of `copies` (the rank's own, such as its table's `waits`) that are on their way;
        the others have landed or failed. Copies of a direction land in order, so work that waits
        for every one of these, layer by layer, sees all their bytes."""
        self.kick()
        under_way = self._flights[rank]
        return [under_way[copy.number] for copy in copies if copy.number in under_way]

    def finish(self, rank: int, copy: Copy) -> None:
        """The rank's cache takes note that the copy has run or broken; once is enough."""
        transfers = self._cache.ranks[rank].transfers
        flight = self._flights[rank].pop(copy.number, None)
        if flight is None:
            return
        error = flight.job.error
        if error is None:
            transfers.moved(copy)
            self.bytes_moved[copy.target] += 0 if rank else _bytes(transfers, copy)
        elif isinstance(error, RuntimeError):  # torch's, when memory or a device gives out
            transfers.break_off(copy)
            self.failed += 1
        else:
            raise error

    def drain(self) -> None:
        """Finish what is on its way, and run what is queued besides in this thread, which is the
        scheduler's. For a world at rest, whose clock is over; its streams may be closed."""
        for rank, flights in enumerate(self._flights):
            for flight in list(flights.values()):
                flight.job.end.synchronize()
                self.finish(rank, flight.copy)
        for rank, cache in enumerate(self._cache.ranks):
            for tier in Tier:
                while (copy := cache.transfers.next_to_run(tier)) is not None:
                    cache.transfers.run(copy)
                    self.bytes_moved[tier] += 0 if rank else _bytes(cache.transfers, copy)

    def _begin(self, rank: int, transfers: Transfers, copy: Copy) -> None:
        groups, steps = self._steps(transfers, copy)
        stream = self._links[rank][copy.target]
        job = stream.submit(
            steps, after=self._fence(rank), on_end=lambda _: self._on_end(rank, copy)
        )
        self._flights[rank][copy.number] = Flight(copy, job, groups)

    def _steps(self, transfers: Transfers, copy: Copy) -> tuple[list[LayerGroup], list[Step]]:
        """A load-back comes a few layers at a time, as compute will want them, a backup as is
        quickest. The slots are those of this moment, which a split of a node leaves as they are."""
        slots: dict[Component, Slots] = {}
        for _, component, source, target in copy.parts:
            of, to = slots.setdefault(component, ([], []))
            of += source
            to += target
        there = {component: _tensors(transfers, copy.source, component) for component in slots}
        here = {component: _tensors(transfers, copy.target, component) for component in slots}
        beside = _beside(transfers, copy, slots)
        if copy.target is Tier.HOST:
            return [], [
                *beside,
                *(
                    partial(here[component].take, there[component], *pair)
                    for component, pair in slots.items()
                ),
            ]
        sizes = {component: layers_at_once(store.layout) for component, store in there.items()}
        groups = grouped(self._order, sizes)
        steps: list[Step] = [
            partial(here[component].take_layers, there[component], *slots[component], layers)
            for component, layers in groups
        ]
        if beside:  # before the first layer comes, for any layer may need them
            steps[0] = _one_by_one([*beside, steps[0]])
        return groups, steps


def links_of(device: str, ranks: int) -> list[dict[Tier, Stream]]:
    """Fresh streams, one for each direction and rank; close each when done with it."""
    return [
        {tier: Stream(f"{NAMES[tier]}{rank or ''}", device) for tier in Tier}
        for rank in range(ranks)
    ]


def close(links: Iterable[Links]) -> None:
    """Let every stream finish what it was given, and end."""
    for link in links:
        for stream in link.values():
            stream.close()


def _layers(cache: Cache) -> dict[Component, int]:
    transfers = cache.ranks[0].transfers
    return {
        component: _tensors(transfers, Tier.DEVICE, component).shape.layers
        for component in cache.config.components
    }


def _bytes(transfers: Transfers, copy: Copy) -> int:
    return sum(
        len(part.target) * _slot_bytes(transfers.store(copy.target, part.component))
        for part in copy.parts
    )


def _slot_bytes(store: Store) -> int:
    """What moves with a slot."""
    beside = store.companions if isinstance(store, AccompaniedStore) else ()
    return store.body_bytes + sum(companion.body_bytes for companion in beside)


def _beside(transfers: Transfers, copy: Copy, slots: Mapping[Component, Slots]) -> list[Step]:
    """What brings the companions of the slots. Which of theirs belong to these is looked up now."""
    steps: list[Step] = []
    for component, (of, to) in slots.items():
        source = transfers.store(copy.source, component)
        target = transfers.store(copy.target, component)
        if isinstance(source, AccompaniedStore) and isinstance(target, AccompaniedStore):
            for theirs, mine in zip(source.companions, target.companions, strict=True):
                steps.append(partial(mine.store.take, theirs.store, theirs.of(of), mine.of(to)))
    return steps


def _one_by_one(steps: Sequence[Step]) -> Step:
    def step() -> None:
        for part in steps:
            part()

    return step


def _tensors(transfers: Transfers, tier: Tier, component: Component) -> TensorStore:
    store = transfers.store(tier, component)
    if isinstance(store, AccompaniedStore):
        store = store.bare
    assert isinstance(store, TensorStore), "only tensors have bytes to move"
    return store
