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
def test_a_lock_holds_a_window_of_a_long_node(window):
    slots = max(SLOTS, -(-window // PAGE))
    full, swa = PoolPages(PAGES + 2, 0), PoolPages(slots, 0)
    cache = UnifiedCache(CacheConfig(page_size=PAGE, full=full, swa=swa, window=window))
    held = min(-(-window // PAGE), PAGES)
    whole = key(PAGE * PAGES)

    writer = opened(cache, whole)
    assert cache.extend(writer, whole.tokens).enough
    cache.write(writer, whole.prints(), whole.tokens)
    cache.commit(writer, whole)
    assert cache.available(Component.SWA) == slots - held
    cache.finish(writer, whole)
    assert cache.available(Component.SWA) == slots

    reader = opened(cache, key(PAGE * PAGES + 1))
    assert reader.shared == PAGES
    assert cache.available(Component.SWA) == slots - held
    assert cache.read(reader, reader.written).full == whole.prints()
    assert audit(cache) == []
    cache.abort(reader)
    assert cache.flush()
