"""The whole cache against an idealised one that knows every page, under Hypothesis.

Admissions go step by step, so that anything may come between match, lock, load_back, settle and
unlock. What must hold after each step is in tests.cache.world; what Hypothesis adds to the random
drivers of test_sweep is that a failing story is cut down to its few steps.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cache.config import CacheConfig, EvictionOrder, Tier, WritePolicy
from cache.keys import Key
from tests.cache.builders import a_config, tokens_of
from tests.cache.world import Rider, Stage, World

THROUGH, SELECTIVE, BACK = WritePolicy
CONFIGS = [
    a_config(page=2, full=(4, 6), policy=THROUGH),
    a_config(page=1, full=(5, 3), policy=BACK, order=EvictionOrder.LFU),
    a_config(page=2, full=(6, 6), swa=(4, 6), window=2, policy=THROUGH),
    a_config(page=2, full=(5, 5), swa=(3, 3), window=3, policy=BACK),
    a_config(page=1, full=(5, 8), swa=(4, 2), window=2, policy=SELECTIVE),
    a_config(page=4, full=(5, 2), swa=(3, 1), window=1, policy=THROUGH, threshold=4),
    a_config(page=1, full=(6, 6), swa=(9, 6), window=9, policy=BACK, order=EvictionOrder.PRIORITY),
    a_config(page=2, full=(5, 0), swa=(3, 0), window=3),
    a_config(page=2, full=(6, 6), mamba=(3, 3), policy=THROUGH),
    a_config(page=1, full=(5, 4), mamba=(2, 2), policy=BACK),
    a_config(page=2, full=(6, 6), swa=(4, 6), window=2, mamba=(3, 2), policy=SELECTIVE),
    a_config(page=1, full=(5, 5), swa=(3, 3), window=3, mamba=(4, 3), policy=BACK),
]
TEXT = st.lists(st.integers(0, 1), min_size=1, max_size=4)
TIERS = st.sampled_from(Tier)
WHO = st.integers(0, 2)
ADMITTING = (Stage.MATCH, Stage.LOCK, Stage.LOAD_BACK, Stage.SETTLE, Stage.UNLOCK)


class CacheMachine(RuleBasedStateMachine):
    world: World

    @initialize(config=st.sampled_from(CONFIGS), texts=st.lists(TEXT, max_size=3))
    def build(self, config: CacheConfig, texts: list[list[int]]) -> None:
        """A cache that has served a few texts, which may be on the host only."""
        self.world = World(config)
        for text in texts:
            self._serve(text)
            self._land()
        if len(texts) > 1:
            self.world.make_room(9, 9)

    # -- requests ----------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.riders) < 3)
    @rule(
        text=TEXT,
        tail=st.integers(1, 3),
        namespace=st.sampled_from(["", "", "", "lora"]),
        priority=st.integers(0, 1),
    )
    def arrive(self, text: list[int], tail: int, namespace: str, priority: int) -> None:
        page = self.world.cache.config.page_size
        whole = tokens_of(text, page, tail)
        prompt = Key(whole[: 4 * (len(text) * page + 1)], page, namespace)
        self.world.arrive(prompt, Key(whole, page, namespace), priority)

    @precondition(lambda self: self._at(*ADMITTING))
    @rule(who=WHO)
    def step(self, who: int) -> None:
        self.world.advance(self._pick(who, *ADMITTING))

    @precondition(lambda self: self._at(Stage.MATCH))
    @rule(who=WHO)
    def admit_at_once(self, who: int) -> None:
        """As a single scheduler thread does it."""
        self._admit(self._pick(who, Stage.MATCH))

    @precondition(lambda self: len(self.world.riders) < 3)
    @rule(text=TEXT)
    def serve(self, text: list[int]) -> None:
        self._serve(text)

    @precondition(lambda self: self._at(Stage.RUN))
    @rule(who=WHO, tokens=st.integers(1, 9))
    def prefill(self, who: int, tokens: int) -> None:
        self._prefill(self._pick(who, Stage.RUN), tokens)

    @precondition(lambda self: self._at(Stage.RUN))
    @rule(who=WHO, what=st.sampled_from(["read", "commit", "slide", "finish", "abort"]))
    def work(self, who: int, what: str) -> None:
        getattr(self.world, what)(self._pick(who, Stage.RUN))

    @precondition(lambda self: self._at(*ADMITTING))
    @rule(who=WHO)
    def abort_an_admission(self, who: int) -> None:
        self.world.abort(self._pick(who, *ADMITTING))

    # -- copies and pressure -----------------------------------------------------------------

    @precondition(lambda self: len(self.world.cache.transfers))
    @rule(tier=TIERS, what=st.sampled_from(["run", "acknowledge", "acknowledge", "break_off"]))
    def copy(self, tier: Tier, what: str) -> None:
        getattr(self.world, what)(tier)

    @precondition(lambda self: len(self.world.cache.transfers))
    @rule()
    def land_everything(self) -> None:
        self._land()

    @rule(wanted=st.tuples(*[st.sampled_from([0, 1, 2, 9])] * 3))
    def make_room(self, wanted: tuple[int, ...]) -> None:
        self.world.make_room(*wanted)

    @precondition(lambda self: self.world.cache.tree.root.children and not self.world.riders)
    @rule()
    def flush(self) -> None:
        self.world.flush()

    @invariant()
    def everything_holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()

    # -- what rules are made of --------------------------------------------------------------

    def _admit(self, rider: Rider) -> None:
        while rider.stage is not Stage.RUN:
            self.world.advance(rider)
            self.world.check()

    def _prefill(self, rider: Rider, tokens: int) -> None:
        assert rider.table is not None
        stop = rider.table.written + tokens
        self.world.extend(rider, stop)
        if not rider.waiting:
            self.world.write(rider, stop)

    def _serve(self, text: list[int]) -> None:
        """A whole request, as far as there is room and nothing to wait for."""
        page = self.world.cache.config.page_size
        key = Key(tokens_of(text, page, 1), page)
        rider = self.world.arrive(key, key)
        self._admit(rider)
        self._prefill(rider, key.tokens)
        if not rider.waiting:
            self.world.finish(rider)

    def _land(self) -> None:
        for tier in Tier:
            while self.world.cache.transfers.queues[tier]:
                self.world.run(tier)
                self.world.acknowledge(tier)
                self.world.check()

    def _at(self, *stages: Stage) -> list[Rider]:
        return [rider for rider in self.world.riders if rider.stage in stages]

    def _pick(self, who: int, *stages: Stage) -> Rider:
        riders = self._at(*stages)
        return riders[who % len(riders)]


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=150, stateful_step_count=40)
