"""A request's lock keeps the slots of its window and no others, however long the node is."""

import numpy as np
import pytest

from cache.audit import audit
from cache.config import CacheConfig, Component, PoolPages
from cache.keys import Key
from cache.unified import UnifiedCache

PAGE, PAGES, SLOTS = 4, 10, 16


def key(tokens: int) -> Key:
    return Key(np.arange(tokens, dtype="<i4").tobytes(), PAGE)


def opened(cache: UnifiedCache, wanted: Key):
    match = cache.match(wanted)
    admission = cache.lock(match, "r.admission")
    assert admission is not None
    cache.load_back(match, admission)
    table = cache.settle(match, admission, "r")
    cache.unlock(admission)
    return table


@pytest.mark.parametrize("window", [1, 4, 7, 8, 9, 39, 40, 400])
def test_a_request_gets_every_slot_but_those_of_its_window(window):
    """Its lock covers a node that is far longer than the window, until slots are short."""
    slots = max(SLOTS, -(-window // PAGE))
    full, swa = PoolPages(PAGES + slots, 0), PoolPages(slots, 0)
    cache = UnifiedCache(CacheConfig(page_size=PAGE, full=full, swa=swa, window=window))
    left = slots - min(-(-window // PAGE), PAGES)
    whole = key(PAGE * PAGES)

    writer = opened(cache, whole)
    assert cache.extend(writer, whole.tokens).enough
    cache.write(writer, whole.prints(), whole.tokens)
    cache.commit(writer, whole)
    reader = opened(cache, key(PAGE * PAGES + 1))
    assert reader.shared == PAGES
    for table in (writer, reader):
        assert not cache.extend(table, PAGE * (PAGES + left + 1)).enough
        assert cache.extend(table, PAGE * (PAGES + left)).enough
        assert cache.read(table, table.written).full == whole.prints()
        assert audit(cache) == []
        cache.abort(table)
    assert cache.flush()


def test_a_lock_stays_whole_while_slots_suffice():
    """Cutting nodes makes paths longer for everybody, so it waits until it is of use."""
    full, swa = PoolPages(PAGES + SLOTS, 0), PoolPages(SLOTS, 0)
    cache = UnifiedCache(CacheConfig(page_size=PAGE, full=full, swa=swa, window=PAGE))
    whole = key(PAGE * PAGES)
    writer = opened(cache, whole)
    assert cache.extend(writer, whole.tokens).enough
    cache.write(writer, whole.prints(), whole.tokens)
    cache.commit(writer, whole)
    assert cache.extend(writer, PAGE * SLOTS).enough
    assert len(list(cache.tree.nodes())) == 1
    assert cache.available(Component.SWA) == 0
    assert cache.extend(writer, PAGE * (SLOTS + 1)).enough
    assert [node.end for node in cache.tree.nodes()] == [PAGE * (PAGES - 1), PAGE * PAGES]
