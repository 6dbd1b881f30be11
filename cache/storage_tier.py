"""The storage tier (L3) of a cache: what its scheduler and its streams call.

    prefetch -> may_go_on ... -> conclude | cancel        for a request that waits
    next moves: run(move) ... acknowledge(move)           whenever storage replies

Persists are issued by the cache itself, when a backup lands or a prefix is used.
"""

from collections.abc import Callable, Iterable

from cache.config import CacheConfig, StorageConfig, Tier, WritePolicy
from cache.eviction import HostEvictor
from cache.grafting import Grafting
from cache.keys import Key
from cache.lacking import Lacking
from cache.locks import LockTable
from cache.observer import Observer
from cache.packing import share_of
from cache.persist import Persists, Sent
from cache.prefetch import Prefetches
from cache.residency import Residency
from cache.storage.contract import Fetched, Presence, Storage
from cache.storage.naming import page_key
from cache.storage_moves import Move, Persist, Prefetch, Reached
from cache.strands import strands_of
from cache.tree import Node, RadixTree

Reply = Sent | Presence | Fetched


class StorageTier:
    """`identity` names whose pages these are (`cache.storage.naming`), `share` its part of it."""

    def __init__(
        self,
        config: CacheConfig,
        backend: Storage,
        identity: bytes,
        residency: Residency,
        tree: RadixTree,
        locks: LockTable,
        hosts: HostEvictor,
        tick: Callable[[], int],
        observer: Observer,
    ) -> None:
        assert config.storage is not None
        self.config: StorageConfig = config.storage
        self.backend = backend
        self._observer = observer
        self._identity = identity
        closed = config.write_policy is not WritePolicy.WRITE_BACK
        # Where the host may have a child without its parent, the parent on the device keeps it.
        self._tiers = tiers = (Tier.HOST,) if closed else tuple(Tier)
        self.share = share_of(identity)
        self.strands = strands = strands_of(config)
        self._names = {strand.number: strand.name for strand in strands}
        self.persists = Persists(
            residency, locks, backend, strands, self.name_of, self.share, tiers, observer
        )
        self.lacking = Lacking(residency, strands, closed=closed)
        self.grafting = Grafting(residency, tree, tick, observer, strands, closed=closed)
        self.prefetches = Prefetches(
            config.storage,
            residency,
            tree,
            locks,
            hosts,
            backend,
            strands,
            self.name_of,
            self.share,
            self.lacking,
            self.grafting,
            tiers,
            observer,
        )

    def __len__(self) -> int:
        """Moves in flight."""
        return len(self.persists.queue) + len(self.prefetches.live)

    @property
    def device_holders(self) -> int:
        """Moves in flight that keep something on the device from eviction."""
        return len(self) if Tier.DEVICE in self._tiers else 0

    def prefetch(self, key: Key, holder: str) -> Prefetch:
        """Begin to bring to the host what storage has of `key` and the tree lacks. Look at `over`:
        it may be so at once. Nothing waits for it but whom `may_go_on` tells to."""
        prefetch = self.prefetches.ask(key, holder)
        self._observer.stepped(prefetch)
        return prefetch

    def may_go_on(self, prefetch: Prefetch, waited_s: float) -> bool:
        """Whether the policy lets the request be admitted after `waited_s` seconds."""
        return self.prefetches.may_go_on(prefetch, waited_s)

    def conclude(self, prefetch: Prefetch, reached: Reached | None = None) -> None:
        """The request is about to be admitted: what has come is in the tree, no more is asked.
        `reached` is what ranks have agreed on; without it there is one."""
        if prefetch.in_flight:
            self.prefetches.conclude(prefetch, reached or prefetch.reached)
            self._observer.stepped(prefetch)

    def cancel(self, prefetch: Prefetch, reached: Reached | None = None) -> None:
        """The request has left; its prefetch holds nothing but what storage is writing into."""
        if prefetch.in_flight:
            self.prefetches.cancel(prefetch, reached or prefetch.reached)
            self._observer.stepped(prefetch)

    def line(self) -> list[Move]:
        """What may come to be acknowledged next: the oldest persist, then every prefetch."""
        return [*list(self.persists.queue)[:1], *self.prefetches.live.values()]

    def outstanding(self) -> list[Move]:
        """Moves whose reply is to come: the oldest persist, then every prefetch, oldest first.
        Prefetches may be answered in any order."""
        persist = next((p for p in self.persists.queue if p.outstanding), None)
        moves: list[Move] = [] if persist is None else [persist]
        return moves + [p for p in self.prefetches.live.values() if p.outstanding]

    def replied(self) -> list[Move]:
        """Moves to be acknowledged now."""
        return [move for move in self.line() if not move.outstanding]

    def run(self, move: Move) -> None:
        """Storage is asked, and replies."""
        if isinstance(move, Persist):
            self.persists.run(move)
        else:
            self.prefetches.run(move)
        self._observer.replied(move)

    def question(self, move: Move) -> Callable[[], Reply]:
        """`run` in two, for a stream of the world's own: what this returns asks storage, in
        whatever thread; its reply then goes to `answer`, in the scheduler's."""
        if isinstance(move, Persist):
            return self.persists.question(move)
        return self.prefetches.question(move)

    def answer(self, move: Move, reply: Reply) -> None:
        """Storage has replied to the question."""
        if isinstance(move, Persist):
            assert isinstance(reply, Sent)
            self.persists.answer(move, reply)
        else:
            assert not isinstance(reply, Sent)
            self.prefetches.answer(move, reply)
        self._observer.replied(move)

    def heed(self, move: Move, agreed: tuple[int, ...]) -> None:
        """The ranks have agreed on storage's reply, which is no better than it was here."""
        move.heed(agreed)
        self._observer.heeded(move)

    def acknowledge(self, move: Move, reached: Reached | None = None) -> None:
        """The scheduler takes note of a reply. `reached` as for `conclude`."""
        if isinstance(move, Persist):
            self.persists.acknowledge(move)
        else:
            self.prefetches.acknowledge(move, reached or move.reached)
        self._observer.stepped(move)

    def consider(self, nodes: Iterable[Node]) -> None:
        """These nodes (top down) have been used, or have come to the host."""
        self.persists.consider(nodes)

    def follow_split(self, upper: Node, lower: Node, pages: int) -> None:
        self.persists.follow_split(upper, lower, pages)

    def name_of(self, strand: int, print_: int) -> bytes:
        """Under which name storage has one page of a strand: of a component, or of a companion
        apart."""
        return page_key(self._identity, self._names[strand], print_)
