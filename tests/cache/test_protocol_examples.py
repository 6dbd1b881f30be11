"""The worked examples of docs/protocols, performed: every number in their tables was seen here."""

from pathlib import Path

import pytest

from cache.audit import audit
from cache.config import Companion, Component, PoolPages, PrefetchPolicy, Tier, WritePolicy
from cache.contract import Demand, Room
from cache.keys import state_print
from cache.ranks import RankedCache, Standing, standing
from cache.storage.memory import MemoryStorage
from cache.storage_moves import Prefetch
from cache.table import PageTable
from cache.transfers import Copy
from cache.tree import Node
from cache.unified import UnifiedCache
from tests.cache.builders import a_cache, a_key, admit, compute, demote, fail, land, node_at, serve
from tests.cache.storage_builders import IDENTITY, ROOMY, reply, with_storage

PAGES = Path(__file__).resolve().parents[2] / "docs" / "protocols"
FULL, SWA, MAMBA = Component
Rows = list[tuple[str, ...]]


def rows_of(page: str, table: int = 0) -> Rows:
    """The cells of one of a page's tables of times, without the numbers and the words for each
    step."""
    lines = (PAGES / page).read_text().splitlines()
    start = [at for at, line in enumerate(lines) if line.startswith("| Time |")][table]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[0] == str(len(rows) + 1)
        rows.append(tuple(cells[2:]))
    return rows


def on_device(node: Node, component: Component) -> str:
    if node.inbound[Tier.DEVICE][component] is not None:
        return "filling"
    return "absent" if node.slots[Tier.DEVICE][component] is None else "ready"


def where(node: Node, component: Component) -> str:
    """The tiers where it is ready, or `none`."""
    if not node.attached:
        return "gone"
    if node.inbound[Tier.DEVICE][component] is not None:
        return "filling"
    tiers = [tier.name.lower() for tier in Tier if node.ready(tier, component)]
    return " and ".join(tiers) or "none"


def run(cache: UnifiedCache, tier: Tier) -> Copy:
    copy = cache.transfers.next_to_run(tier)
    assert copy is not None
    cache.transfers.run(copy)
    return copy


def test_locks_a_tombstone_revived_under_an_admission_lock():
    cache = a_cache(full=(8, 8), swa=(4, 4), window=2)
    key = a_key([1])
    serve(cache, key)
    land(cache)
    cache.make_room(Demand(0, 4))
    node, rows = node_at(cache, [1]), Rows()

    def see() -> None:
        holders = ", ".join(lock.holder for lock in cache.locks.live()) or "nobody"
        counts = node.locks[Tier.DEVICE]
        rows.append((on_device(node, SWA), str(counts[FULL]), str(counts[SWA]), holders))
        assert audit(cache) == []

    see()
    match = cache.match(key)
    admission = cache.lock(match, "admission")
    assert admission is not None
    see()
    cache.load_back(match, admission)
    see()
    table = cache.settle(match, admission, "request")
    see()
    cache.unlock(admission)
    see()
    land(cache)
    see()
    cache.make_room(Demand(0, 4))
    see()
    assert cache.read(table, 2).swa == key.prints()[:1]
    cache.finish(table, key)
    see()
    cache.make_room(Demand(0, 4))
    see()
    assert rows == rows_of("locks.md")


def test_copies_a_copy_fails_under_another():
    cache = a_cache(full=(4, 4))
    for text in ([1], [1, 2]):
        serve(cache, a_key(text))
        land(cache)
    demote(cache)
    upper, lower, rows = node_at(cache, [1]), node_at(cache, [1, 2]), Rows()
    copies: list[Copy] = []

    def state(number: int) -> str:
        if number >= len(copies):
            return "-"
        copy = copies[number]
        return copy.state.value + (", doomed" if copy.doomed and copy.in_flight else "")

    def see() -> None:
        free = str(cache.pool(FULL, Tier.DEVICE).free_slots)
        nodes = [on_device(node, FULL) for node in (upper, lower)]
        rows.append((*nodes, state(0), state(1), state(2), free))
        assert audit(cache) == []

    see()
    first = admit(cache, a_key([1]), "first")
    copies += first.waits
    see()
    second = admit(cache, a_key([1, 2]), "second")
    copies.append(second.waits[-1])
    see()
    fail(cache, Tier.DEVICE)
    see()
    for table in (first, second):
        cache.abort(table)
    see()
    run(cache, Tier.DEVICE)
    see()
    land(cache)
    see()
    third = admit(cache, a_key([1, 2]), "third")
    copies += third.waits
    see()
    land(cache)
    see()
    assert cache.read(third, 4).full == a_key([1, 2]).prints()[:2]
    assert rows == rows_of("copies.md")


def test_load_back_is_anchored_where_every_component_is_valid():
    cache = a_cache(full=(8, 8), swa=(4, 4), window=2)
    for text in ([1], [1, 2], [1, 2, 3]):
        serve(cache, a_key(text))
        land(cache)
    demote(cache)
    nodes = [node_at(cache, [1, 2, 3][:pages]) for pages in (1, 2, 3)]
    cache.residency.drop(nodes[2], Tier.HOST, SWA)
    rows = Rows()

    def see(result: object) -> None:
        states = [f"{where(node, FULL)} / {where(node, SWA)}" for node in nodes]
        rows.append((*states, str(result)))
        assert audit(cache) == []

    see("")
    match = cache.match(a_key([1, 2, 3]))
    see(f"device {match.device_tokens}, anchor {match.loadable_tokens}")
    admission = cache.lock(match, "admission")
    assert admission is not None
    see(f"receipt for {admission.reach}")
    loaded = cache.load_back(match, admission)
    see(f"{loaded.outcome.value}, pages {loaded.pages}")
    table = cache.settle(match, admission, "request")
    see(f"hit {table.hit_tokens}, waits for {len(table.waits)}")
    cache.unlock(admission)
    see("")
    copy = run(cache, Tier.DEVICE)
    see(copy.state.value)
    cache.acknowledge(copy)
    see(copy.state.value)
    reading = cache.read(table, 4)
    assert reading[:3] == (a_key([1, 2]).prints()[:2], a_key([1, 2]).prints()[1:2], 1)
    see(f"{len(reading.full)} FULL, {len(reading.swa)} SWA")
    assert rows == rows_of("load-back.md")


def test_eviction_waits_for_a_backup_and_spares_what_was_used_again():
    cache = a_cache(full=(4, 2), policy=WritePolicy.WRITE_BACK)
    for text in ([1, 2], [3, 4]):
        serve(cache, a_key(text))
    x, y, rows = node_at(cache, [1, 2]), node_at(cache, [3, 4]), Rows()
    z: list[Node] = []

    def see(room: Room | None = None) -> None:
        states = [where(node, FULL) for node in (x, y, *z)] + ["-"] * (1 - len(z))
        free = [str(cache.pool(FULL, tier).free_slots) for tier in Tier]
        said = "" if room is None else f"short {room.short[0]}, pending {room.pending[0]}"
        rows.append((*states, *free, said))
        assert audit(cache) == []

    see()
    see(cache.make_room(Demand(2)))
    land(cache)
    see()
    key = a_key([5, 6])
    table = admit(cache, key, "z")
    compute(cache, table, key, 4)
    cache.finish(table, key)
    z.append(node_at(cache, [5, 6]))
    see()
    see(cache.make_room(Demand(2)))
    reader = admit(cache, a_key([3, 4]), "reader")
    see()
    land(cache)
    see()
    see(cache.make_room(Demand(2)))
    land(cache)
    see()
    assert cache.read(reader, 4).full == a_key([3, 4]).prints()[:2]
    assert rows == rows_of("eviction.md")


def test_a_state_is_copied_for_a_request_and_kept_at_a_page_boundary():
    cache = a_cache(full=(8, 8), mamba=(3, 3))
    serve(cache, a_key([1, 2]))
    land(cache)
    key = a_key([1, 2, 3], tail=2)
    upper, rows = node_at(cache, [1, 2]), Rows()
    tables: list[PageTable] = []
    pool = cache.pool(MAMBA, Tier.DEVICE)

    def content(slot: int | None) -> str:
        """Whose state a slot holds, found by its fingerprint."""
        if slot is None:
            return "-"
        (seen,) = pool.store.read([slot])
        known = {state_print(key.prints(), tokens, 2): f"{tokens} tokens" for tokens in range(1, 8)}
        return {0: "empty", **known}[seen]

    def see() -> None:
        below = [where(child, MAMBA) for child in upper.children.values()] or ["-"]
        own = [(t.state, t.kept) for t in tables if not t.closed] or [(None, None)]
        count = str(upper.locks[Tier.DEVICE][MAMBA])
        cells = [content(slot) for slot in own[0]]
        rows.append((where(upper, MAMBA), count, *below, *cells, str(pool.free_slots)))
        assert audit(cache) == []

    see()
    cache.make_room(Demand(0, 0, 3))
    see()
    match = cache.match(key)
    assert (match.device_tokens, match.loadable_tokens) == (0, 4)
    admission = cache.lock(match, "admission")
    assert admission is not None
    see()
    assert cache.load_back(match, admission).pages == (0, 0, 1)
    see()
    tables.append(cache.settle(match, admission, "request"))
    cache.unlock(admission)
    see()
    (table,) = tables
    assert cache.extend(table, 7).enough
    see()
    land(cache)
    see()
    cache.make_room(Demand(0, 0, 1))
    see()
    cache.write(table, key.prints(), 7)
    see()
    assert cache.read(table, 7).state
    cache.commit(table, key)
    see()
    land(cache)
    cache.abort(table)
    see()
    assert rows == rows_of("recurrent-state.md")
    assert cache.match(a_key([1, 2, 3])).device_tokens == 6


def test_ranks_a_copy_breaks_on_one_of_two():
    cache = RankedCache([a_cache(full=(4, 4)) for _ in range(2)])
    key = a_key([1, 2])
    serve(cache, key)
    land(cache)
    for rank in cache.ranks:
        demote(rank)
    nodes, rows = [node_at(rank, [1, 2]) for rank in cache.ranks], Rows()
    before, copies = cache.agreed, list[Copy]()

    def see(agreed: str = "-") -> None:
        states = [copy.state.value for copy in copies] or ["-", "-"]
        there = [on_device(node, FULL) for node in nodes]
        rows.append((*states, agreed, *there, str(cache.agreed - before)))
        assert not any(finding for rank in cache.ranks for finding in audit(rank))

    def issue() -> PageTable:
        table = admit(cache, key)
        copies[:] = [rank.transfers.queues[Tier.DEVICE][-1] for rank in cache.ranks]
        return table

    def look() -> None:
        least = min(standing(rank, Tier.DEVICE) for rank in cache.ranks)
        copy = cache.transfers.next_to_acknowledge(Tier.DEVICE)
        assert (copy is None) is (least is Standing.UNDER_WAY)
        see(least.name.lower().replace("_", " "))

    see()
    table = issue()
    see()
    first, second = (rank.transfers for rank in cache.ranks)
    first.run(copies[0])
    see()
    look()
    second.break_off(copies[1])
    see()
    look()
    cache.acknowledge(copies[0])
    see()
    cache.abort(table)
    table = issue()
    see()
    first.run(copies[0])
    second.run(copies[1])
    look()
    cache.acknowledge(copies[0])
    see()
    readings = [rank.read(own, 4).full for rank, own in cache.each(table)]
    assert readings == [key.prints()[:2]] * 2
    assert rows == rows_of("ranks.md")


def test_ranks_a_pool_is_shut_on_one_of_two():
    cache = RankedCache([a_cache(full=(4, 4)) for _ in range(2)])
    first, second = cache.ranks
    key, other, rows, before = a_key([1, 2]), a_key([7]), Rows(), cache.agreed

    def see(table: PageTable | None = None) -> None:
        used = [rank.pool(FULL, tier).used_slots for tier in Tier for rank in cache.ranks]
        own = "-" if table is None else str(len(table.full))
        rows.append((*map(str, used), own, str(cache.agreed - before)))
        assert not any(finding for rank in cache.ranks for finding in audit(rank))

    see()
    second.pool(FULL, Tier.HOST).open = False
    serve(cache, key)
    see()
    second.pool(FULL, Tier.HOST).open = True
    table = admit(cache, key)
    see(table)
    land(cache)
    cache.abort(table)
    see()
    for rank in cache.ranks:
        demote(rank)
    see()
    first.pool(FULL, Tier.DEVICE).open = False
    table = admit(cache, key)
    see(table)
    assert cache.extend(table, 4).short == (2,)
    see(table)
    first.pool(FULL, Tier.DEVICE).open = True
    assert cache.extend(table, 4).enough
    see(table)
    cache.abort(table)
    table = admit(cache, key)
    see(table)
    land(cache)
    readings = [rank.read(own, 4).full for rank, own in cache.each(table)]
    assert readings == [key.prints()[:2]] * 2
    cache.abort(table)
    assert serve(cache, other).adopted == 1
    assert rows == rows_of("ranks.md", 1)


def test_companions_a_page_that_lacks_one_and_one_that_waits_for_its_own():
    draft = Companion("draft", FULL, pools=PoolPages(8, 8), apart=True)
    backend = MemoryStorage(IDENTITY, ROOMY)
    cache = with_storage(
        backend=backend,
        batch=1,
        prefetch_policy=PrefetchPolicy.TIMEOUT,
        companions=(Companion("scales", FULL), draft),
    )
    storage, key, rows = cache.storage, a_key([1, 2]), Rows()
    assert storage is not None
    apart = storage.strands[1].number
    asked: list[Prefetch] = []

    def see() -> None:
        used = []
        for tier in Tier:
            beside = cache.pools[tier, FULL].companions[1].pool
            assert beside is not None
            used += [cache.pool(FULL, tier).used_slots, beside.used_slots]
        for strand in (FULL, apart):
            names = [storage.name_of(strand, print_) for print_ in key.prints()[:2]]
            used.append(sum(backend.has(names).there))
        phases = [prefetch.phase.value for prefetch in asked] or ["-"]
        rows.append((*map(str, used), *phases))
        assert audit(cache) == []

    serve(cache, key)
    see()
    land(cache)
    reply(cache)
    see()
    backend.remove([storage.name_of(apart, key.prints()[1])])
    see()
    assert cache.flush()
    see()
    asked.append(storage.prefetch(key, "r"))
    storage.run(asked[0])
    see()
    storage.acknowledge(asked[0])
    assert asked[0].end == 2
    see()
    storage.run(asked[0])
    see()
    storage.cancel(asked[0])
    see()
    storage.run(asked[0])
    see()
    storage.acknowledge(asked[0])
    see()
    assert rows == rows_of("companions.md")


PAGES_TOLD = [
    "companions",
    "locks",
    "copies",
    "load-back",
    "eviction",
    "storage",
    "recurrent-state",
    "ranks",
]


@pytest.mark.parametrize("page", PAGES_TOLD)
def test_every_protocol_page_tells_its_idea_its_operations_its_example_and_its_races(page):
    text = (PAGES / f"{page}.md").read_text()
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert titles[0].startswith("# ")
    of_its_own = ["## Ranks as processes"]
    assert [title for title in titles[1:] if title not in of_its_own] == [
        "## The idea",
        "## The data structure",
        "## Operations",
        "## Worked example",
        "## Residual races",
    ]
