"""Recurrent states led by the hand: what each oracle says of one that went astray."""

from cache.config import MAMBA, CacheConfig, PoolPages, Tier
from cache.table import PageTable
from tests.harness.oracles.bench import PAGE, Bench

STATEFUL = CacheConfig(page_size=PAGE, full=PoolPages(16, 0), mamba=PoolPages(4, 0))
DEVICE = Tier.DEVICE


def begun() -> tuple[Bench, PageTable]:
    """A prompt is cached; a request has been admitted with it and has no pages of its own yet."""
    bench = Bench(STATEFUL)
    bench.serve(bench.key(5))
    table = bench.admit(bench.key(5, own=9))
    assert table.hit_tokens == 4
    return bench, table


def write_over(bench: Bench, slots: list[int]) -> None:
    bench.cache.pools[DEVICE, MAMBA].store.write(slots, [1] * len(slots))


def test_a_sound_request_is_not_objected_to():
    bench, table = begun()
    bench.compute(table, bench.key(5, own=9))
    bench.cache.read(table, table.written)
    bench.cache.finish(table, bench.key(5, own=9))
    bench.watch.at_rest()
    assert bench.first == "nothing"


def test_a_state_that_is_let_go_before_it_is_copied_is_seen():
    bench, table = begun()
    assert table.lock is not None
    bench.cache.locks.narrow(table.lock, MAMBA)
    assert bench.first == "L1 narrow.state"


def test_a_copy_of_what_is_not_the_state_of_the_hit_is_seen():
    bench, table = begun()
    write_over(bench, bench.node().slots[DEVICE][MAMBA] or [])
    bench.cache.extend(table, 7)
    assert bench.first == "C1 fork.device_mamba"


def test_a_request_that_goes_on_from_nothing_is_seen():
    bench, table = begun()
    assert bench.cache.states is not None
    bench.cache.states.fork = lambda tables: None
    bench.cache.extend(table, 7)
    bench.cache.read(table, 4)
    assert bench.first == "M1 read.state"


def test_a_state_that_was_written_over_while_nobody_read_it_is_seen_by_the_next_audit():
    bench, table = begun()
    bench.compute(table, bench.key(5, own=9))
    assert table.state is not None
    write_over(bench, [table.state])
    bench.watch.audit()
    assert bench.first == "C1 own.device_mamba"


def test_a_slot_that_a_request_took_and_does_not_know_any_more_is_seen():
    bench, table = begun()
    bench.compute(table, bench.key(5, own=9))
    table.kept = None
    bench.watch.audit()
    assert bench.first == "O1 request.kept.mamba"


def test_a_state_in_a_slot_of_no_boundary_is_seen():
    bench, table = begun()
    key = bench.key(5, own=9)
    bench.cache.extend(table, key.tokens)
    other = bench.admit(bench.key(5, own=8), "S")
    bench.cache.extend(other, 7)
    table.state, other.state = other.state, table.state
    bench.cache.write(table, key.prints(), 7)
    assert bench.oracles & {"C1", "O1"}
