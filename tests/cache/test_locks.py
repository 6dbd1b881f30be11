"""Receipts: every count is the number of live receipts over that page, whatever happens between."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cache.config import Component, Tier
from cache.contract import BrokenInvariant, Demand
from cache.locks import NOT_HELD, Lock, LockTable
from cache.observer import Observer
from cache.tree import Node, RadixTree
from tests.cache.builders import a_cache, a_key, admit, compute, demote, land, node_at, serve

PAGE = 2
TEXT = st.lists(st.integers(0, 1), min_size=1, max_size=6)
BOTH = tuple(Tier)

Count = tuple[bytes, Tier, Component]


class LocksMachine(RuleBasedStateMachine):
    """The model is a list of receipts, each a plain list of the pages that it counted; splits and
    removals in between change nodes, never pages."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = RadixTree(PAGE, len(Component))
        self.turned: Counter[tuple[int, Tier, Component]] = Counter()
        self.locks = LockTable(Observer(), self._turn)
        self.tree.on_split = self._split
        self.receipts: list[tuple[Lock, dict[Component, list[Count]]]] = []

    def _turn(self, node: Node, tier: Tier, component: Component, step: int) -> None:
        self.turned[node.number, tier, component] += step

    def _split(self, upper: Node, lower: Node, pages: int) -> None:
        for tier in Tier:
            for component in Component:
                turned = self.turned[lower.number, tier, component]
                self.turned[upper.number, tier, component] = turned

    @rule(text=TEXT)
    def grow(self, text: list[int]) -> None:
        key = a_key(text, PAGE)
        path = self.tree.walk(key, len(text) * PAGE)
        above = path[-1] if path else self.tree.root
        if above.end < len(text) * PAGE:
            self.tree.add(above, key, len(text) * PAGE)

    @rule(text=TEXT, reach=st.tuples(*[st.sampled_from([NOT_HELD, 0, 2, 4, 8])] * 3))
    def acquire(self, text: list[int], reach: tuple[int, ...]) -> None:
        """On what there is of a text; a position inside a node counts the whole node."""
        path = self.tree.walk(a_key(text, PAGE), len(text) * PAGE)
        if not path:
            return
        tiers = BOTH if len(text) % 2 else (Tier.DEVICE,)
        counted: dict[Component, list[Count]] = {}
        for component, position in zip(Component, reach, strict=True):
            covered = [n for n in path if n.end > position] if position != NOT_HELD else []
            counted[component] = [
                (page, tier, component) for n in covered for page in _pages(n) for tier in tiers
            ]
        lock = self.locks.acquire(path[-1], list(reach), tiers, "r")
        self.receipts.append((lock, counted))

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lock, _ = self.receipts.pop(data.draw(st.integers(0, len(self.receipts) - 1)))
        self.locks.release(lock)
        with pytest.raises(BrokenInvariant):
            self.locks.release(lock)

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), component=st.sampled_from(Component))
    def narrow(self, data: st.DataObject, component: Component) -> None:
        lock, counted = self.receipts[data.draw(st.integers(0, len(self.receipts) - 1))]
        self.locks.narrow(lock, component)
        counted[component] = []

    @rule()
    def remove_unlocked_leaves(self) -> None:
        for node in list(self.tree.nodes()):
            if not node.children and not any(map(any, node.locks)):
                self.tree.remove(node)

    @invariant()
    def every_count_is_the_number_of_receipts(self) -> None:
        expected = Counter(
            count for _, counted in self.receipts for part in counted.values() for count in part
        )
        for node in self.tree.nodes():
            for tier in Tier:
                for component in Component:
                    seen = node.locks[tier][component]
                    assert {expected.pop((p, tier, component), 0) for p in _pages(node)} == {seen}
                    assert self.turned[node.number, tier, component] == (seen > 0)
        assert not +expected, "a receipt covers what has left the tree"
        assert [lock.number for lock in self.locks.live()] == [r.number for r, _ in self.receipts]


TestLocks = LocksMachine.TestCase
TestLocks.settings = settings(max_examples=60, stateful_step_count=25)


def _pages(node: Node) -> list[bytes]:
    whole = b"".join(reversed([up.edge for up in node.ancestors()]))
    return [whole[: stop * 4] for stop in range(node.start + PAGE, node.end + PAGE, PAGE)]


def test_a_receipt_of_another_cache_is_refused():
    one, other = a_cache(), a_cache()
    mine = one.lock(one.match(a_key([1])), "r")
    theirs = other.lock(other.match(a_key([1])), "r")
    assert mine is not None
    assert theirs is not None
    with pytest.raises(BrokenInvariant) as caught:
        one.unlock(theirs)
    assert caught.value.oracle == "L1"
    one.unlock(mine)


def test_a_count_that_was_taken_away_is_noticed_by_the_release_that_misses_it():
    cache = a_cache()
    serve(cache, a_key([1]))
    lock = cache.lock(cache.match(a_key([1])), "r")
    assert lock is not None
    lock.anchor.locks[Tier.DEVICE][Component.FULL] -= 1
    with pytest.raises(BrokenInvariant) as caught:
        cache.unlock(lock)
    assert caught.value.signature == "release.count"


def test_a_window_revived_under_an_admission_lock_is_still_held_when_that_lock_goes():
    """The admission found a tombstone; a release by residency instead of by receipt would now take
    the count of the request or of the load-back."""
    cache = a_cache(full=(8, 8), swa=(4, 4), window=2)
    serve(cache, a_key([1]))
    land(cache)
    cache.make_room(Demand(0, 4))
    match = cache.match(a_key([1]))
    admission = cache.lock(match, "r.admission")
    assert admission is not None
    assert not match.anchor.ready(Tier.DEVICE, Component.SWA)
    cache.load_back(match, admission)
    table = cache.settle(match, admission, "r")
    cache.unlock(admission)
    land(cache)
    cache.make_room(Demand(0, 4))
    assert match.anchor.ready(Tier.DEVICE, Component.SWA), "the request's window was evicted"
    assert cache.read(table, table.written).swa == a_key([1]).prints()[:1]
    cache.abort(table)
    assert cache.make_room(Demand(8, 4)).enough


def test_letting_the_window_go_early_takes_nobody_elses_count():
    cache = a_cache(full=(8, 0), swa=(6, 0), window=2)
    key = a_key([1, 2, 3])
    serve(cache, a_key([1]))
    runner, reader = admit(cache, key, "runner"), admit(cache, a_key([1]), "reader")
    compute(cache, runner, key, 6)
    cache.slide(runner, 6)
    shared = node_at(cache, [1])
    assert shared.locks[Tier.DEVICE] == [2, 1]
    cache.make_room(Demand(0, 6))
    assert cache.read(reader, 2).swa == key.prints()[:1]
    cache.abort(runner)
    assert shared.locks[Tier.DEVICE] == [1, 1]
    cache.abort(reader)
    assert shared.locks[Tier.DEVICE] == [0, 0]


def test_a_lock_holds_its_prefix_on_both_tiers_while_a_request_is_admitted():
    cache = a_cache(full=(8, 2), page=2)
    serve(cache, a_key([1, 2]))
    land(cache)
    demote(cache)
    lock = cache.lock(cache.match(a_key([1, 2])), "r.admission")
    assert lock is not None
    serve(cache, a_key([5, 6]))
    assert cache.backups.refused, "nothing tried to evict the host"
    assert cache.match(a_key([1, 2])).loadable_tokens == 4
    cache.unlock(lock)
    serve(cache, a_key([5, 6]))
    assert cache.match(a_key([1, 2])).loadable_tokens < 4
