"""A small world of a search with a model in it: real bytes, N1 at every forward, no other oracle.

Invariant: what is found here was seen in logits and nowhere else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache as remembered

import torch
from torch import Tensor

from cache.config import CacheConfig, Component
from cache.keys import Key
from cache.model import AttentionShape, KvDtype, ModelShape, RecurrentShape
from cache.stores import StoreMaker, fingerprints
from cache.strands import Strand
from cache.table import PageTable
from cache.unified import UnifiedCache
from harness.engine.marks import Marks
from harness.explore.kernel import Point, Task
from harness.explore.marks import run_marks
from harness.explore.outcome import Outcome, Scenario, Verdict
from harness.explore.pickers import Chooser, Search
from harness.explore.tape import Divergence
from harness.faults import fault_named
from harness.faults.fault import Fault
from harness.hunt.arena import Arena, Forward, nothing
from harness.hunt.build import build
from harness.hunt.runner import STEP_LIMIT
from harness.hunt.scenario import config_of
from harness.hunt.storage import PAGE_BYTES, Left, no_more
from harness.model.network import Network
from harness.model.numerics import Numerics, Question, Wrong, origins
from harness.model.pieces import Piece, Vocabulary, piece_of
from harness.model.scratch import Scratch
from harness.model.store import ModelStore, device_stores, page_shape, store_maker
from harness.model.weights import Weights, make_weights, pattern
from harness.oracles import Violation, Watch
from harness.oracles.content import Content

SEED = 7
DTYPE = KvDtype.FP8_E4M3
_ATTENTION = AttentionShape(layers=1, kv_heads=1, key_dim=8, value_dim=8)
_RECURRENT = RecurrentShape(
    layers=1, heads=2, key_dim=4, value_dim=4, conv_channels=0, conv_width=1, projected=36
)
_SHAPE = ModelShape(
    name="smallest",
    source="made up here, for worlds of a few pages",
    hidden_size=32,
    query_heads=2,
    full=_ATTENTION,
    intermediate_size=32,
    vocab_size=256,
    max_context=256,
    tied_embeddings=True,
)


class NumericsRunner:
    """A `Runner` whose only oracle is N1. A scenario may name its fault, as replay files do.

    Worlds with several ranks or companions are not for it."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._fault = fault

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        model = ArenaModel(config_of(scenario))
        watch = Watch([], on_violation=lambda seen: None)
        cache = _cache(scenario, watch, self._fault, model.store_of, model.stored_bytes)
        model.attach(cache)
        return _run(scenario, cache, chooser, watch, model, lambda: model.wrong, model.left)


class ReadRunner:
    """The same worlds with fingerprints in place of bytes, which are a hundred times faster: finds
    the orders in which a request reads what it should not, for N1 to be tried on."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._fault = fault

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        found: list[Wrong] = []

        def heard(seen: Violation) -> None:
            if seen.signature.startswith("read."):
                found.append(Wrong(seen.kind, seen.expected, seen.seen))

        watch = Watch([Content()], on_violation=heard)
        cache = _cache(scenario, watch, self._fault, fingerprints)
        return _run(scenario, cache, chooser, watch, nothing, lambda: next(iter(found), None))


def _cache(
    scenario: Scenario,
    watch: Watch,
    fault: Fault | None,
    store_of: StoreMaker,
    stored_bytes: int = PAGE_BYTES,
) -> UnifiedCache:
    if fault is None and scenario.get("fault"):
        fault = fault_named(scenario["fault"])
    built = build(
        scenario,
        watch,
        fault,
        store_of=store_of,
        stored_bytes=stored_bytes,
        on_offers=lambda what, offers: None,
    )
    assert isinstance(built.cache, UnifiedCache), "one rank"
    return built.cache


def _run(
    scenario: Scenario,
    cache: UnifiedCache,
    chooser: Chooser,
    watch: Watch,
    compute: Forward,
    wrong: Callable[[], Wrong | None],
    left: Left = no_more,
) -> Outcome:
    """Until something is wrong, or to the end."""
    marks = Marks(cache.config)
    watch.listen(marks)
    arena = Arena(scenario, cache, marks, compute, left)

    def after_step(task: Task, point: Point) -> None:
        if wrong() is not None:
            arena.kernel.stop()

    arena.kernel.after_step = after_step
    arena.start()
    search = Search(chooser)
    ended = arena.kernel.run(search, step_limit=STEP_LIMIT)
    if isinstance(ended.error, Divergence):
        raise ended.error
    tape, found = search.tape, wrong()
    counts = {mark: count for mark, count in marks.counts.items() if count}
    return Outcome(
        verdict=None if found is None else _verdict(found),
        ended=ended,
        tape=tape,
        marks=run_marks(tape.order, tape.points, counts, ()),
    )


class ArenaModel:
    """Computes for the requests of one arena, and compares every forward's logits with those of a
    computation from scratch. `wrong` is the first difference."""

    def __init__(self, config: CacheConfig) -> None:
        self._config = config
        self._shape = _shape_for(config)
        self._weights = _weights(self._shape)
        self._vocabulary = Vocabulary(self._shape.vocab_size)
        scratch = Scratch(self._shape, self._weights, config, DTYPE)
        self._numerics = Numerics(
            scratch, pattern(self._shape), config.page_size, share=1.0, seed=SEED
        )
        self._known = _logits_of(self._shape, config.page_size)
        self._scratch = scratch
        self.store_of: StoreMaker = store_maker(self._shape, config, DTYPE)
        self.wrong: Wrong | None = None

    def attach(self, cache: UnifiedCache) -> None:
        """Before the first forward."""
        self._cache = cache
        self._stores: Mapping[Component, ModelStore] = device_stores(cache)
        self._network = Network(self._shape, self._weights, self._config, self._stores)

    def __call__(self, table: PageTable, key: Key, stop: int) -> None:
        start = table.written
        if stop == start:
            return
        tokens = self._vocabulary.rows(key.data, 0, stop, key.namespace)
        piece = piece_of(self._cache, table, tokens[start:], start)
        (row,) = self._network.forward([piece])[0]
        name = tokens.tobytes()
        if name not in self._known:
            self._known[name] = self._scratch.logits(tokens, stop - 1)[0]
        if self.wrong is None and not torch.equal(row, self._known[name]):
            self._judge(table, piece, tokens, row)

    @property
    def stored_bytes(self) -> int:
        """What the largest of its objects takes in storage."""
        sizes = [
            page_shape(self._shape, self._config, component, DTYPE).page_bytes
            for component in self._config.components
        ]
        return PAGE_BYTES + max(sizes)

    def left(self, strand: Strand, key: Key, pages: int) -> Sequence[memoryview]:
        """What another server has left in storage: the bytes of page number `pages`, or the state
        at its end, computed from scratch."""
        tokens = pages * self._config.page_size
        self._scratch.logits(self._vocabulary.rows(key.data, 0, tokens, key.namespace), tokens - 1)
        store = self._scratch.stores[strand.component]
        slot = 0 if strand.component is Component.MAMBA else pages - 1
        store.stamp([slot], [key.prints()[pages - 1]])
        return store.bodies([slot])

    def _judge(self, table: PageTable, piece: Piece, tokens: object, row: Tensor) -> None:
        self.wrong = self._numerics.judge(
            Question(
                name=table.holder,
                tokens=tokens,  # type: ignore[arg-type]
                rows={piece.stop - 1: row},
                held=self._numerics.hold(piece, dict(self._stores)),
                origin=origins(table, self._config.page_size),
            )
        )


def _verdict(wrong: Wrong) -> Verdict:
    return Verdict("N1", wrong.signature, f"expected {wrong.expected}, saw {wrong.seen}")


def _shape_for(config: CacheConfig) -> ModelShape:
    """With the layers that the cache has components for."""
    return replace(
        _SHAPE,
        swa=_ATTENTION if Component.SWA in config.components else None,
        window=config.window,
        recurrent=_RECURRENT if Component.MAMBA in config.components else None,
    )


@remembered
def _weights(shape: ModelShape) -> Weights:
    return make_weights(shape, SEED, "cpu")


@remembered
def _logits_of(shape: ModelShape, page_size: int) -> dict[bytes, Tensor]:
    """What sequences come to, from scratch; worlds ask for the same ones again and again."""
    return {}
