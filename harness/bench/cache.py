"""The tree and the pools at production size: match, insert, evict.

Every repeat builds the cache anew, so each times the same operations on the same tree; a repeat's
figure is the mean over its sequences. Invariant: keys, and so trees, come from one seed.
"""

import gc
from collections.abc import Callable
from time import process_time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cache.config import DEVICE, FULL, CacheConfig, PoolPages
from cache.contract import Cache, Demand
from cache.keys import Key
from cache.null import NullCache
from cache.table import PageTable
from cache.tree import Node
from cache.unified import UnifiedCache
from harness.bench.sheet import Cell, Sheet, Spread, spread_of
from harness.oracles import Violation, Watch, default_oracles

PAGE_TOKENS = 64
SEQUENCE_PAGES = 512
SEQUENCES = 50
HIT_PAGES = (394, 512)  # of a match, least and most: 29k tokens on average
EVICTED_PAGES = 6250  # 400,000 tokens
DEVICE_PAGES = 40_000
VOCAB_SIZE = 32_000
SEED = 1

Tokens = npt.NDArray[np.int32]
Timings = dict[str, float]  # operation -> us


class Reference(NamedTuple):
    """What another cache took, us."""

    rust: float
    python: float


REFERENCE = {
    "match": Reference(75, 875),
    "insert": Reference(777, 2390),
    "evict": Reference(2900, 5900),
}
REFERENCE_SOURCE = (
    "Reference: SGLang 0.5.23 on this kind of machine, by a script of this shape: Rust core 75 us,"
    " 777 us, 2.9 ms; Python core 875 us, 2,390 us, 5.9 ms (measured earlier, not in this run)."
    " 'rust_x' and 'python_x' say how many times as long it took."
)


class Forest(NamedTuple):
    """What is inserted, and what is asked for afterwards."""

    name: str
    stored: list[Key]
    probes: list[Key]


def measure(repeats: int) -> Sheet:
    forests = (spread_forest(), deep_forest())
    gc.collect()
    gc.freeze()  # what is here already, plotting libraries and keys, is no part of any cache
    try:
        rows = [row for forest in forests for row in _measure(forest, repeats)]
    finally:
        gc.unfreeze()
    return Sheet(
        name="cache",
        title="Cache: tree and pools at production size",
        notes=(*_notes(repeats), REFERENCE_SOURCE),
        columns=(
            "operation",
            "median_us",
            "min_us",
            "max_us",
            "iqr_us",
            "rust_us",
            "rust_x",
            "python_us",
            "python_x",
            "oracles_us",
            "oracles_x",
            "null_cache_us",
        ),
        rows=tuple(rows),
    )


def _measure(forest: Forest, repeats: int) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    runs = [_run(UnifiedCache(config()), forest) for _ in range(repeats)]
    watched = [_run(_watched(), forest) for _ in range(repeats)]
    null = [_run_null(forest) for _ in range(repeats)]
    for operation in runs[0]:
        ours, theirs = _spread(runs, operation), _spread(watched, operation)
        floor = _spread(null, operation).median if operation in null[0] else None
        cells = (
            *ours,
            *_reference(operation, ours),
            theirs.median,
            theirs.median / ours.median,
        )
        rows.append((f"{forest.name}: {operation}", *cells, floor))
    return rows


def page_slots(node: Node) -> list[int]:
    """The FULL device slots of the prefix that ends at `node`, page by page."""
    runs = [above.slots[DEVICE][FULL] for above in node.ancestors()]
    slots: list[int] = []
    for run in reversed(runs):
        assert run is not None
        slots += run
    return slots


def _run(cache: UnifiedCache, forest: Forest) -> Timings:
    timings = {"insert": _mean_us(lambda key: finish_s(cache, key), forest.stored)}
    timings["match, first"] = _mean_us(lambda key: match_s(cache, key), forest.probes)
    timings["match"] = _mean_us(lambda key: match_s(cache, key), forest.probes)
    demand = Demand(cache.pool(FULL, DEVICE).free_slots + EVICTED_PAGES)
    start = process_time()
    room = cache.make_room(demand)
    timings["evict"] = (process_time() - start) * 1e6
    assert room.enough
    return timings


def _run_null(forest: Forest) -> Timings:
    cache = NullCache(config())
    return {
        "insert": _mean_us(lambda key: finish_s(cache, key), forest.stored),
        "match": _mean_us(lambda key: match_s(cache, key), forest.probes),
    }


def _mean_us(operation: Callable[[Key], float], keys: list[Key]) -> float:
    return sum(map(operation, keys)) / len(keys) * 1e6


def match_s(cache: Cache, key: Key) -> float:
    """Seconds of one match, the page slots of its hit collected."""
    start = process_time()
    match = cache.match(key)
    slots = page_slots(match.device)
    elapsed = process_time() - start
    assert len(slots) * PAGE_TOKENS == match.device_tokens
    return elapsed


def finish_s(cache: Cache, key: Key) -> float:
    """Seconds in which a request that computed all of `key` itself hands it over and is closed."""
    table = _computed(cache, key)
    start = process_time()
    cache.finish(table, key)
    return process_time() - start


def _computed(cache: Cache, key: Key) -> PageTable:
    match = cache.match(Key(b"", PAGE_TOKENS))
    admission = cache.lock(match, "bench")
    assert admission is not None
    table = cache.settle(match, admission, "bench")
    cache.unlock(admission)
    room = cache.extend(table, key.tokens)
    assert room.enough
    cache.write(table, key.prints(), key.tokens)
    return table


def config() -> CacheConfig:
    return CacheConfig(page_size=PAGE_TOKENS, full=PoolPages(DEVICE_PAGES, 0))


def spread_forest() -> Forest:
    """Every sequence leaves the base at a random page and is asked for up to a random page: half
    the way along the base, then its own."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    base = _tokens(rng, SEQUENCE_PAGES)
    cuts = rng.integers(1, SEQUENCE_PAGES, SEQUENCES)
    stored = [_joined(base, int(cut), _tokens(rng, SEQUENCE_PAGES)) for cut in cuts]
    hits = rng.integers(*HIT_PAGES, SEQUENCES, endpoint=True)
    probes = [_asked(tokens, int(hit)) for tokens, hit in zip(stored, hits, strict=True)]
    return Forest("spread", _keys(stored), _keys(probes))


def deep_forest() -> Forest:
    """The same, but the base itself is stored and asked for, and all others leave it before the
    least hit: every match walks the 50 nodes between them."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    base = _tokens(rng, SEQUENCE_PAGES)
    cuts = rng.choice(np.arange(1, HIT_PAGES[0]), SEQUENCES - 1, replace=False)
    stored = [_joined(base, int(cut), _tokens(rng, SEQUENCE_PAGES)) for cut in cuts]
    hits = HIT_PAGES * (SEQUENCES // len(HIT_PAGES))
    return Forest("deep", _keys([*stored, base]), _keys([_asked(base, hit) for hit in hits]))


def _tokens(rng: np.random.Generator, pages: int) -> Tokens:
    return rng.integers(0, VOCAB_SIZE, pages * PAGE_TOKENS, dtype=np.int32)


def _joined(base: Tokens, pages: int, rest: Tokens) -> Tokens:
    """The first pages of `base`, then those of `rest`, up to a sequence's length."""
    cut = pages * PAGE_TOKENS
    return np.concatenate([base[:cut], rest[cut:]])


def _asked(tokens: Tokens, pages: int) -> Tokens:
    """A prompt that hits the first `pages` pages of `tokens`: they and one page of its own."""
    own = np.full(PAGE_TOKENS, VOCAB_SIZE, np.int32)
    return np.concatenate([tokens[: pages * PAGE_TOKENS], own])


def _keys(sequences: list[Tokens]) -> list[Key]:
    return [Key(tokens.astype("<i4").tobytes(), PAGE_TOKENS) for tokens in sequences]


def _watched() -> UnifiedCache:
    """With every oracle on; a finding ends the benchmark."""
    watch = Watch(default_oracles("every"), on_violation=_refuse)
    cache = UnifiedCache(config(), watch)
    watch.attach(cache)
    return cache


def _refuse(violation: Violation) -> None:
    raise AssertionError(violation)


def _spread(runs: list[Timings], operation: str) -> Spread:
    return spread_of([run[operation] for run in runs])


def _reference(operation: str, ours: Spread) -> tuple[Cell, ...]:
    known = REFERENCE.get(operation)
    if known is None:
        return (None, None, None, None)
    return (known.rust, known.rust / ours.median, known.python, known.python / ours.median)


def _notes(repeats: int) -> tuple[str, ...]:
    return (
        f"FULL only, pages of {PAGE_TOKENS} tokens, {SEQUENCES} sequences of"
        f" {SEQUENCE_PAGES * PAGE_TOKENS:,} tokens that share random page-aligned prefixes of one"
        f" base; {repeats} repeats, each on a new cache; a repeat's figure is the mean over its"
        " sequences. Processor time, which is wall time where nothing else runs; the garbage"
        " collector stays on, for what the caches make.",
        "match: the page slots of the hit (29k tokens on average) are collected too; 'first' cuts"
        " the edge that the hit ends in, as the first match of a new branch does. insert: `finish`"
        " of a request that computed the whole sequence, its duplicates given back and its table"
        f" closed. evict: `make_room` for {EVICTED_PAGES * PAGE_TOKENS:,} tokens.",
        "oracles: the same with every oracle on, and how many times as long that takes. null_cache:"
        " the contract with nothing cached, the least that a call costs.",
        "spread: half of a hit lies on the base. deep: every hit walks a path of 50 nodes.",
    )
