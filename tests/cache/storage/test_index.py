"""The index of a storage against a slow model of it."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cache.storage.contract import ROOT
from cache.storage.index import Entry, PageIndex


class IndexMachine(RuleBasedStateMachine):
    """Adds, uses, drops; the model is a dict of heads and a list in order of use."""

    def __init__(self):
        super().__init__()
        self.index = PageIndex()
        self.heads: dict[bytes, bytes] = {}
        self.order: list[bytes] = []
        self.made = 0

    def leaves(self):
        return [key for key in self.order if key not in self.heads.values()]

    def pick(self, data):
        return data.draw(st.sampled_from(self.order))

    @rule(data=st.data())
    def add(self, data):
        head = data.draw(st.sampled_from([ROOT, *self.order]))
        self.made += 1
        key = self.made.to_bytes(16, "little")
        self.index.add(Entry(key, head, self.made))
        self.heads[key] = head
        self.order.append(key)

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def use(self, data):
        key = self.pick(data)
        self.index.touch(key)
        self.order.remove(key)
        self.order.append(key)

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def give_up_one(self, data):
        spared = data.draw(st.sampled_from([b"", *self.order]))
        victim = self.index.victim(spared)
        left = [key for key in self.leaves() if key != spared]
        assert (victim.key if victim else None) == (left[0] if left else None)
        if victim is not None:
            self.forget(victim.key)

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def give_up_all_below(self, data):
        top = self.pick(data)
        for entry in self.index.subtree(top):
            self.forget(entry.key)
        assert top not in self.heads
        assert all(head == ROOT or head in self.heads for head in self.heads.values())

    def forget(self, key):
        self.index.drop(key)
        del self.heads[key]
        self.order.remove(key)

    @invariant()
    def holds_what_the_model_holds(self):
        entries = list(self.index)
        assert {e.key: e.head for e in entries} == self.heads
        assert self.index.used_bytes == sum(e.size_bytes for e in entries)
        seen = {ROOT}
        for entry in entries:
            assert entry.head in seen
            seen.add(entry.key)


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
