"""The tree against the plainest of models: a set of prefixes, and one slot for each."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cache.config import Component, Tier
from cache.tree import Node, RadixTree
from tests.cache.builders import a_key, tokens_of

PAGE = 2
TEXT = st.lists(st.integers(0, 1), min_size=1, max_size=6)
SPACE = st.sampled_from(["", "lora"])

Prefix = tuple[str, tuple[int, ...]]


class TreeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree = RadixTree(PAGE, 1)
        self.model: dict[Prefix, int] = {}  # every prefix of whole pages, and its page's slot
        self.slots = 0

    @rule(text=TEXT, space=SPACE)
    def insert(self, text: list[int], space: str) -> None:
        """What of a text is new becomes one node below what is old."""
        key, stop = a_key(text, PAGE, space), len(text) * PAGE
        path = self.tree.walk(key, stop)
        above = path[-1] if path else self.tree.root
        assert above.end == self._known(text, space) * PAGE
        if above.end < stop:
            new = range(self.slots, self.slots + (stop - above.end) // PAGE)
            self.slots += len(new)
            node = self.tree.add(above, key, stop)
            node.slots[Tier.DEVICE][Component.FULL] = list(new)
            for page, slot in enumerate(new, above.end // PAGE):
                self.model[space, tuple(text[: page + 1])] = slot

    @rule(text=TEXT, space=SPACE, pages=st.integers(0, 6))
    def walk(self, text: list[int], space: str, pages: int) -> None:
        """A walk ends where model and text part, on a node's end, whatever the tree's edges are."""
        limit = min(pages, len(text))
        path = self.tree.walk(a_key(text, PAGE, space), limit * PAGE)
        ends = [node.end for node in path]
        assert ends == sorted(set(ends))
        assert (ends[-1] if ends else 0) == self._known(text[:limit], space) * PAGE

    @rule(text=TEXT, space=SPACE, first=st.integers(1, 5))
    def walk_on(self, text: list[int], space: str, first: int) -> None:
        """A walk may go on where another one ended."""
        key, stop = a_key(text, PAGE, space), len(text) * PAGE
        path = self.tree.walk(key, min(first, len(text)) * PAGE)
        if path:
            path += self.tree.walk(key, stop, path[-1])
        assert sum(node.tokens for node in path) == self._known(text, space) * PAGE

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove_a_leaf(self, data: st.DataObject) -> None:
        leaves = [node for node in self.tree.nodes() if not node.children]
        leaf = leaves[data.draw(st.integers(0, len(leaves) - 1))]
        for prefix in _prefixes(leaf):
            del self.model[prefix]
        self.tree.remove(leaf)
        assert not leaf.attached

    @invariant()
    def the_nodes_are_the_model(self) -> None:
        seen: dict[Prefix, int] = {}
        for node in self.tree.nodes():
            slots = node.slots[Tier.DEVICE][Component.FULL]
            assert slots is not None
            prefixes = _prefixes(node)
            assert len(slots) == len(prefixes) == node.tokens // PAGE
            assert not seen.keys() & set(prefixes)
            seen.update(zip(prefixes, slots, strict=True))
            last_space, last_text = prefixes[-1]
            whole = a_key(last_text, PAGE, last_space, tail=0).prints()
            assert self.tree.prints(node) == whole[-len(prefixes) :]
        assert seen == self.model

    def _known(self, text: list[int], space: str) -> int:
        pages = 0
        while pages < len(text) and (space, tuple(text[: pages + 1])) in self.model:
            pages += 1
        return pages


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=60, stateful_step_count=25)


def _prefixes(node: Node) -> list[Prefix]:
    edge = b"".join(reversed([up.edge for up in node.ancestors()]))
    pages = [int.from_bytes(edge[at : at + 4], "little") for at in range(0, len(edge), PAGE * 4)]
    first = node.start // PAGE
    return [(node.namespace, tuple(pages[: page + 1])) for page in range(first, len(pages))]


def _grown(*texts: list[int]) -> RadixTree:
    tree = RadixTree(PAGE, 2)
    for text in texts:
        key = a_key(text, PAGE)
        path = tree.walk(key, len(text) * PAGE)
        tree.add(path[-1] if path else tree.root, key, len(text) * PAGE)
    return tree


def test_the_lower_half_of_a_split_keeps_its_identity_so_that_receipts_stay_true():
    tree = _grown([1, 2, 3])
    (node,) = tree.nodes()
    (upper,) = tree.walk(a_key([1, 9], PAGE), 2 * PAGE)
    assert (upper.start, upper.end, node.start, node.end) == (0, 2, 2, 6)
    assert node.parent is upper
    assert [n.number for n in tree.nodes()] == [upper.number, node.number]


def test_both_halves_of_a_split_have_the_same_locks_recency_and_residency():
    tree = _grown([1, 2, 3])
    (node,) = tree.nodes()
    node.slots[Tier.HOST][Component.SWA] = [4, 5, 6]
    node.locks[Tier.DEVICE][Component.FULL] = 3
    node.used[Component.SWA], node.hits, node.priority = 7, 2, 1
    upper = tree.split(node, 2)
    assert upper.slots[Tier.HOST][Component.SWA] == [4, 5]
    assert node.slots[Tier.HOST][Component.SWA] == [6]
    assert upper.locks == node.locks
    assert (upper.used, upper.hits, upper.priority) == (node.used, node.hits, node.priority)
    upper.locks[Tier.DEVICE][Component.FULL] -= 1
    upper.used[Component.SWA] = 9
    assert node.locks[Tier.DEVICE][Component.FULL] == 3, "the halves share a list"
    assert node.used[Component.SWA] == 7, "the halves share a list"


def test_a_walk_that_leaves_an_edge_inside_a_page_stops_before_that_page():
    tree = _grown([1, 2])
    key = a_key([1], PAGE, tail=0).extended(tokens_of([2], 1) + tokens_of([7], 1))
    assert [node.end for node in tree.walk(key, 2 * PAGE)] == [PAGE]


def test_a_namespace_cannot_be_taken_for_the_end_of_a_page():
    tree = RadixTree(1, 1)
    tree.add(tree.root, a_key([1], 1, "\x01\x00\x00\x00"), 1)
    tree.add(tree.root, a_key([1, 1], 1), 2)
    assert len(tree.root.children) == 2
    assert tree.walk(a_key([1, 1], 1, "\x01\x00\x00\x00"), 2)[-1].end == 1


def test_parents_come_before_their_children_and_siblings_in_order_of_insertion():
    tree = _grown([1, 2], [5], [1, 3], [1, 2, 4])
    spelled = [_prefixes(node)[-1][1] for node in tree.nodes()]
    assert spelled == [(1,), (1, 2), (1, 2, 4), (1, 3), (5,)]
