"""Companions in storage: inside their owner's object, or apart; and pages that lack theirs."""

import pytest

from cache.audit import audit
from cache.config import Companion, Component, PoolPages, PrefetchPolicy, Tier
from cache.storage.contract import Status
from cache.storage.frame import HEADER_BYTES
from cache.storage.memory import MemoryStorage
from cache.storage_moves import Outcome
from cache.strands import ITSELF, strands_of
from cache.unified import UnifiedCache
from tests.cache.builders import a_config, a_key, admit, land, node_at, serve
from tests.cache.storage_builders import IDENTITY, ROOMY, fetch, reply, with_storage

FULL, SWA, MAMBA = Component
HOST = Tier.HOST
SCALES = Companion("scales", FULL)
DRAFT = Companion("draft", FULL, pools=PoolPages(8, 8), apart=True)
BOTH = (SCALES, DRAFT)
APART = 3 + BOTH.index(DRAFT)  # the number of its strand
PROMPT = a_key([1, 2, 3])


def kept(backend: MemoryStorage, companions: tuple[Companion, ...] = BOTH) -> UnifiedCache:
    """A server that has left [1 2 3] in storage, and has forgotten it."""
    cache = with_storage(backend=backend, companions=companions)
    serve(cache, PROMPT)
    land(cache)
    reply(cache)
    assert cache.flush()
    return cache


def name(cache: UnifiedCache, strand: int, page: int) -> bytes:
    assert cache.storage is not None
    return cache.storage.name_of(strand, PROMPT.prints()[page])


def held(cache: UnifiedCache, pages: list[int]) -> list[list[int]]:
    slots = node_at(cache, pages).slots[HOST][FULL]
    assert slots is not None
    return [beside.read(slots) for beside in cache.pools[HOST, FULL].companions]


def test_a_strand_is_a_component_with_what_travels_inside_or_a_companion_apart():
    config = a_config(swa=(8, 0), window=4, companions=(SCALES, Companion("keys", SWA, 7), DRAFT))
    full, draft, swa = strands_of(config)
    assert (full.number, full.name, full.parts) == (FULL, "full", (ITSELF, 0))
    assert (draft.number, draft.name, draft.parts) == (5, "full.draft", (1,))
    assert (swa.number, swa.parts, swa.slot_bytes) == (SWA, (ITSELF, 0), 8)


def test_without_companions_strands_are_the_components():
    strands = strands_of(a_config(swa=(8, 0), window=4))
    assert [strand.number for strand in strands] == [FULL, SWA]


def test_pages_and_companions_come_back_from_storage():
    backend = MemoryStorage(IDENTITY, ROOMY)
    cache = kept(backend)
    assert len(backend.blobs) == 6, "three pages and what each has apart"
    prefetch = fetch(cache, a_key([1, 2, 3, 4]))
    assert prefetch.outcome is Outcome.COMPLETE
    assert held(cache, [1, 2, 3]) == [PROMPT.prints()[:3]] * 2
    table = admit(cache, a_key([1, 2, 3, 4]))
    land(cache)
    assert cache.read(table, 6).companions == (PROMPT.prints()[:3],) * 2
    cache.abort(table)
    assert audit(cache) == []


def test_what_travels_inside_takes_a_word_and_no_object():
    backend = MemoryStorage(IDENTITY, ROOMY)
    cache = kept(backend, (SCALES,))
    assert len(backend.blobs) == 3
    assert len(backend.blobs[name(cache, FULL, 0)]) == HEADER_BYTES + 16


def test_a_page_whose_companion_is_missing_does_not_count():
    backend = MemoryStorage(IDENTITY, ROOMY)
    cache = kept(backend)
    backend.remove([name(cache, APART, 1)])
    prefetch = fetch(cache, a_key([1, 2, 3, 4]))
    assert (prefetch.outcome, prefetch.end) == (Outcome.COMPLETE, 2)
    assert [(w.component, w.page) for w in prefetch.wanted] == [(FULL, 0)] * 2
    assert node_at(cache, [1]).end == 2
    assert audit(cache) == []


def test_a_companion_is_sent_anew_when_its_page_is_there_and_it_is_not():
    """Storage is full after the page, and its owner is believed to be stored and it is not."""
    entry = HEADER_BYTES + 16
    backend = MemoryStorage(IDENTITY, entry)
    cache = with_storage(backend=backend, companions=BOTH)
    serve(cache, a_key([1]))
    land(cache)
    reply(cache)
    node = node_at(cache, [1])
    assert node.persisted == 1 << FULL
    backend._capacity_bytes = ROOMY
    serve(cache, a_key([1]))
    assert cache.storage is not None
    (persist,) = cache.storage.persists.queue
    assert [source.strand.number for source in persist.sources] == [APART]
    reply(cache)
    assert node.persisted == 1 << FULL | 1 << APART
    assert name(cache, APART, 0) in backend.blobs
    assert audit(cache) == []


def test_a_prefetch_that_ends_between_a_page_and_its_companion_brings_neither():
    backend = MemoryStorage(IDENTITY, ROOMY)
    kept(backend)
    cache = with_storage(backend=backend, batch=3, companions=BOTH)
    assert cache.storage is not None
    prefetch = cache.storage.prefetch(a_key([1, 2, 3, 4]), "r")
    for _ in range(2):
        cache.storage.run(prefetch)
        if not prefetch.arrived:
            cache.storage.acknowledge(prefetch)
    assert prefetch.arrived == 3, "a page, its companion, and the next page"
    backend.remove([name(cache, APART, 1)])
    cache.storage.run(prefetch)
    assert prefetch.status is Status.ABSENT
    cache.storage.acknowledge(prefetch)
    assert (prefetch.outcome, prefetch.grafted_end) == (Outcome.PARTIAL, 2)
    assert cache.pool(FULL, HOST).used_slots == 1
    assert audit(cache) == []


@pytest.mark.parametrize("leave", ["conclude", "cancel"])
def test_a_page_that_has_come_is_kept_while_its_companion_is_on_its_way(leave: str):
    backend = MemoryStorage(IDENTITY, ROOMY)
    kept(backend)
    cache = with_storage(
        backend=backend, batch=1, companions=BOTH, prefetch_policy=PrefetchPolicy.TIMEOUT
    )
    storage = cache.storage
    assert storage is not None
    prefetch = storage.prefetch(a_key([1, 2, 3, 4]), "r")
    storage.run(prefetch)
    storage.acknowledge(prefetch)
    storage.run(prefetch)
    assert (prefetch.arrived, prefetch.asked) == (1, 1)
    slot = prefetch.held[FULL][0]
    getattr(storage, leave)(prefetch)
    assert prefetch.held[FULL] == {0: slot}, "the page whose companion is on its way, and no other"
    assert cache.pool(FULL, HOST).used_slots == 1
    storage.run(prefetch)
    storage.acknowledge(prefetch)
    assert cache.pool(FULL, HOST).used_slots == 0
    assert audit(cache) == []


def test_a_split_leaves_a_side_state_in_storage_with_the_lower_half():
    side = Companion("side", MAMBA, apart=True)
    cache = with_storage(full=(12, 12), mamba=(6, 6), companions=(side,))
    serve(cache, PROMPT)
    land(cache)
    reply(cache)
    lower = node_at(cache, [1, 2, 3])
    all_of_it = 1 << FULL | 1 << MAMBA | 1 << 3
    assert lower.persisted == all_of_it
    upper = node_at(cache, [1])
    assert upper.persisted == 1 << FULL
    assert lower.persisted == all_of_it
    assert audit(cache) == []
