"""Storage of several ranks: each has its own part of it, and the least of what they got counts."""

from itertools import product

import pytest

from cache.agreement import RanksObserver
from cache.audit import audit
from cache.config import (
    CacheConfig,
    Component,
    PoolPages,
    PrefetchPolicy,
    StorageConfig,
    Tier,
    WritePolicy,
)
from cache.ranks import RankedCache
from cache.storage.contract import Status
from cache.storage.memory import MemoryStorage
from cache.storage.naming import identity_of_rank
from cache.storage_moves import Outcome, Prefetch
from cache.unified import UnifiedCache
from tests.cache.builders import a_key, admit, land, serve
from tests.cache.storage_builders import IDENTITY, ROOMY

FULL, MAMBA = Component.FULL, Component.MAMBA
HOST = Tier.HOST
PROMPT = a_key([1, 2, 3, 4])


def ranked(
    backend: MemoryStorage | None = None,
    *,
    policy: PrefetchPolicy = PrefetchPolicy.WAIT_COMPLETE,
    states: int = 0,
    observer: RanksObserver | None = None,
) -> RankedCache:
    """Two ranks over one storage: pages of 2 tokens, batches of 2."""
    config = CacheConfig(
        page_size=2,
        full=PoolPages(8, 8),
        mamba=PoolPages(states, states) if states else None,
        write_policy=WritePolicy.WRITE_THROUGH,
        storage=StorageConfig(policy, 0, 2),
    )
    shared = backend or MemoryStorage(IDENTITY, ROOMY)
    ranks = [
        UnifiedCache(config, backend=shared, identity=identity_of_rank(IDENTITY, rank, 2))
        for rank in range(2)
    ]
    return RankedCache(ranks, observer)


def reply(cache: RankedCache) -> None:
    """Storage replies to every rank, and the scheduler takes note, until nothing is under way."""
    while len(cache.storage):
        for rank in cache.ranks:
            for move in rank.storage.outstanding():
                rank.storage.run(move)
        for move in cache.storage.replied():
            cache.storage.acknowledge(move)


def warm(*paths, states: int = 0) -> MemoryStorage:
    """What another server of two ranks has left behind."""
    backend = MemoryStorage(IDENTITY, ROOMY)
    cache = ranked(backend, states=states)
    for path in paths:
        serve(cache, a_key(path))
        land(cache)
        reply(cache)
    assert_clean(cache)
    return backend


def assert_clean(cache: RankedCache) -> None:
    assert len(cache.storage) == 0
    for rank in cache.ranks:
        assert audit(rank) == []
        assert len(rank.locks) == len(rank.tables)
    free = [[pool.free_slots for pool in rank.pools.values()] for rank in cache.ranks]
    assert free[0] == free[1]


def own(cache: RankedCache, prefetch: Prefetch) -> list[Prefetch]:
    return [rank.storage.prefetches.live[prefetch.number] for rank in cache.ranks]


def name(cache: RankedCache, rank: int, page: int, component: Component = FULL) -> bytes:
    return cache.ranks[rank].storage.name_of(component, PROMPT.prints()[page])


def asked(cache: RankedCache, *, replies: int = 0) -> Prefetch:
    """A prefetch of the prompt whose slots are reserved, with so many batches come on each rank."""
    prefetch = cache.storage.prefetch(PROMPT, "r")
    for rank in cache.ranks:
        rank.storage.run(own(cache, prefetch)[cache.ranks.index(rank)])
    cache.storage.acknowledge(prefetch)
    for _ in range(replies):
        for rank, part in zip(cache.ranks, own(cache, prefetch), strict=True):
            rank.storage.run(part)
    return prefetch


def test_each_rank_keeps_its_own_part_of_every_page():
    backend = warm([1, 2])
    cache = ranked()
    names = {name(cache, rank, page) for rank, page in product(range(2), range(2))}
    assert len(names) == 4
    assert names == set(backend.blobs)
    payloads = [bytes(backend.get([name(cache, rank, 0)]).payloads[0]) for rank in range(2)]
    assert payloads[0] != payloads[1]


def test_what_both_ranks_stored_is_brought_to_both_hosts_and_served():
    cache = ranked(warm([1, 2, 3, 4]))
    prefetch = cache.storage.prefetch(PROMPT, "r")
    reply(cache)
    assert (prefetch.outcome, prefetch.grafted_end) == (Outcome.COMPLETE, 8)
    table = admit(cache, PROMPT)
    land(cache)
    for rank, mine in cache.each(table):
        assert rank.read(mine, 8).full == PROMPT.prints()[:4]
    cache.abort(table)
    assert_clean(cache)


def test_a_move_is_over_once_storage_has_answered_every_rank():
    cache = ranked(warm([1, 2, 3, 4]))
    prefetch = cache.storage.prefetch(PROMPT, "r")
    first, second = own(cache, prefetch)
    cache.ranks[1].storage.run(second)
    assert cache.storage.replied() == []
    cache.ranks[0].storage.run(first)
    assert cache.storage.replied() == [prefetch]
    cache.storage.cancel(prefetch)
    assert_clean(cache)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_prefetch_goes_as_far_as_every_rank_s_part_is_there(lost: int):
    backend = warm([1, 2, 3, 4])
    cache = ranked(backend)
    backend.remove([name(cache, lost, 2)])
    prefetch = cache.storage.prefetch(PROMPT, "r")
    reply(cache)
    assert (prefetch.outcome, prefetch.grafted_end) == (Outcome.COMPLETE, 4)
    assert_clean(cache)


def test_a_state_that_one_rank_lacks_is_no_end_for_any():
    backend = warm([1, 2], [1, 2, 3, 4], states=4)
    cache = ranked(backend, states=4)
    backend.remove([name(cache, 1, 3, MAMBA)])
    prefetch = cache.storage.prefetch(PROMPT, "r")
    reply(cache)
    assert prefetch.grafted_end == 4
    assert_clean(cache)


@pytest.mark.parametrize("torn", [0, 1])
def test_what_has_come_is_what_has_come_to_every_rank(torn: int):
    backend = warm([1, 2, 3, 4])
    cache = ranked(backend)
    prefetch = asked(cache)
    broken = name(cache, torn, 3)
    backend.blobs[broken] = backend.blobs[broken][:-1] + b"?"
    reply(cache)
    assert (prefetch.outcome, prefetch.grafted_end) == (Outcome.PARTIAL, 6)
    assert_clean(cache)


@pytest.mark.parametrize("how", ["conclude", "cancel"])
@pytest.mark.parametrize("ahead", [0, 1])
def test_slots_that_storage_may_be_writing_into_on_one_rank_are_kept_on_all(how: str, ahead: int):
    cache = ranked(warm([1, 2, 3, 4]), policy=PrefetchPolicy.BEST_EFFORT)
    prefetch = asked(cache)
    parts = own(cache, prefetch)
    cache.ranks[ahead].storage.run(parts[ahead])
    getattr(cache.storage, how)(prefetch)
    assert prefetch.grafted_end == 0
    assert [len(part.held[FULL]) for part in parts] == [4, 4]
    assert not prefetch.over
    reply(cache)
    assert prefetch.over
    assert_clean(cache)
    assert cache.flush()


def test_one_rank_without_room_is_enough_for_none_to_fetch():
    cache = ranked(warm([1, 2, 3, 4]))
    cache.ranks[1].pool(Component.FULL, Tier.HOST).open = False
    prefetch = cache.storage.prefetch(PROMPT, "r")
    reply(cache)
    assert prefetch.outcome is Outcome.NO_ROOM
    assert_clean(cache)
    assert list(cache.ranks[0].tree.nodes()) == []


def test_patience_ends_when_every_rank_s_clock_says_so():
    cache = ranked(warm([1, 2]), policy=PrefetchPolicy.TIMEOUT)
    prefetch = cache.storage.prefetch(PROMPT, "r")
    assert not cache.storage.may_go_on(prefetch, 60.0, 0.0)
    assert not cache.storage.may_go_on(prefetch, 0.0, 60.0)
    assert cache.storage.may_go_on(prefetch, 60.0, 60.0)
    cache.storage.conclude(prefetch)
    reply(cache)
    assert_clean(cache)


def test_what_storage_took_from_one_rank_alone_is_sent_again_by_both():
    cache = ranked()
    serve(cache, a_key([1, 2]))
    land(cache)
    first, second = (rank.storage.persists.queue[0] for rank in cache.ranks)
    cache.ranks[0].storage.run(first)
    second.stored, second.status, second.state = 0, Status.FAILED, first.state
    (move,) = cache.storage.replied()
    cache.storage.acknowledge(move)
    assert (first.stored, first.status) == (0, Status.FAILED)
    assert [node.persisted for rank in cache.ranks for node in rank.tree.nodes()] == [0, 0]
    cache.abort(admit(cache, a_key([1, 2])))
    assert [len(rank.storage.persists.queue) for rank in cache.ranks] == [1, 1]
    reply(cache)
    assert_clean(cache)


def test_storage_replies_to_ranks_and_not_to_all_of_them_at_once():
    cache = ranked(warm([1, 2]))
    prefetch = cache.storage.prefetch(PROMPT, "r")
    with pytest.raises(AssertionError, match="by itself"):
        cache.storage.run(prefetch)
    cache.storage.cancel(prefetch)
    reply(cache)


def test_asking_is_an_agreement_while_anything_is_under_way():
    cache = ranked(warm([1, 2]))
    before = cache.agreed
    assert cache.storage.replied() == []
    assert cache.agreed == before
    prefetch = cache.storage.prefetch(PROMPT, "r")
    assert cache.storage.replied() == []
    assert cache.agreed == before + 1
    cache.storage.cancel(prefetch)
    reply(cache)


def test_a_state_comes_back_to_the_same_node_on_every_rank_or_on_none():
    cache = ranked(warm([1, 2, 3, 4], states=4), states=4)
    serve(cache, PROMPT)
    land(cache)
    reply(cache)
    for rank in cache.ranks:
        (node,) = rank.tree.nodes()
        for tier in Tier:
            rank.residency.drop(node, tier, MAMBA)
    prefetch = asked(cache)
    first, last = own(cache, prefetch)
    assert [(w.component, w.page) for w in last.wanted] == [(MAMBA, 3)]
    cache.ranks[0].storage.run(first)
    cache.storage.conclude(prefetch)  # the last rank's has not come
    assert [list(part.revived) for part in (first, last)] == [[], []]
    reply(cache)
    assert_clean(cache)
    cache.storage.prefetch(PROMPT, "again")
    reply(cache)
    for rank in cache.ranks:
        (node,) = rank.tree.nodes()
        assert node.ready(HOST, MAMBA)
    assert_clean(cache)
