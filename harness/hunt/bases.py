"""Where the base schedules of a sweep come from, and sweeping them on several cores.

Invariant: which schedules are swept depends on what was asked for alone, not on the number of
processes; only a sweep that its time ends depends on more.
"""

import multiprocessing as mp
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice, product
from typing import Any, NamedTuple

from harness.explore.outcome import Scenario
from harness.explore.prng import derive
from harness.faults import fault_named
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import swarm
from harness.hunt.sweep import KINDS, Base, Swept, sweep

ORDERS = 3  # base schedules of each world: the natural one, and two that are drawn
INTERRUPTED = "Ctrl-C"
TALLY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What every process of a sweep is told. Without `scenarios` worlds are drawn until the time
    is up, so that the sweep is never complete."""

    kinds: tuple[str, ...] = KINDS
    grains: tuple[str, ...] = ("scheduler", "fine")
    scenarios: tuple[Scenario, ...] = ()
    orders: int = ORDERS
    fault: str = ""
    seed: int = 42
    budget_s: float = 60.0


class Tally(NamedTuple):
    """How far all processes are."""

    points: int
    elapsed_s: float


def sweep_all(
    asked: Sweep, jobs: int, on_tally: Callable[[Tally], None] = lambda tally: None
) -> Swept:
    """Sweep what is asked for on `jobs` processes. Ctrl-C ends it early, with what there is."""
    started, total = time.monotonic(), Swept()
    context = mp.get_context("spawn")
    stop, counts = context.Event(), [context.Value("Q") for _ in range(jobs)]
    shares = [(asked, job, jobs) for job in range(jobs)]
    with context.Pool(jobs, _begin, (stop, counts)) as pool:
        parts = pool.starmap_async(_share, shares)
        try:
            while not parts.ready():
                parts.wait(TALLY_S)
                points = sum(count.value for count in counts)
                on_tally(Tally(points, time.monotonic() - started))
        except KeyboardInterrupt:
            stop.set()
        for part in parts.get():
            total.merge(part)
    return total


def bases_of(asked: Sweep) -> Iterator[Base]:
    """Every world of every grain in its natural order and in some drawn ones."""
    if asked.scenarios:
        for scenario, grain in product(asked.scenarios, asked.grains):
            for order in range(asked.orders):
                yield Base({**scenario, "grain": grain}, order, asked.seed)
        return
    for number in count():
        for grain in asked.grains:
            world = swarm(grain).draw(derive(asked.seed, "world", number))
            yield Base(world, number % asked.orders, derive(asked.seed, "order", number))


_stop: Any = None  # of this process: the event that ends its share early
_counts: Any = None  # and how many points each process has swept


def _begin(stop: Any, counts: Any) -> None:
    """Ctrl-C in a terminal reaches every process; the first one tells the others."""
    global _stop, _counts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _stop, _counts = stop, counts


def _share(asked: Sweep, job: int, jobs: int) -> Swept:
    """Every `jobs`-th base, from number `job` on."""
    started = time.monotonic()

    def enough(swept: Swept) -> str:
        _counts[job].value = swept.points.total()
        if _stop.is_set():
            return INTERRUPTED
        return "the end of its time" if time.monotonic() - started >= asked.budget_s else ""

    return sweep(
        ArenaRunner(fault_named(asked.fault) if asked.fault else None),
        islice(bases_of(asked), job, None, jobs),
        asked.kinds,
        elapsed=lambda: time.monotonic() - started,
        enough=enough,
    )
