"""Where the base schedules of a sweep come from, and sweeping them on several cores.

Invariant: which schedules are swept depends on what was asked for alone, not on the number of
processes; only a sweep that its time ends depends on more.
"""

import multiprocessing as mp
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, product

from harness.explore.outcome import Scenario
from harness.explore.prng import derive
from harness.faults import fault_named
from harness.hunt.runner import ArenaRunner
from harness.hunt.scenario import swarm
from harness.hunt.sweep import KINDS, Base, Swept, sweep

ORDERS = 3  # base schedules of each world: the natural one, and two that are drawn


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


def sweep_all(asked: Sweep, jobs: int) -> Swept:
    """Sweep what is asked for on `jobs` processes."""
    if jobs == 1:
        return _share(asked, 0, 1)
    total = Swept()
    with mp.get_context("spawn").Pool(jobs) as pool:
        for part in pool.starmap(_share, [(asked, job, jobs) for job in range(jobs)]):
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


def _share(asked: Sweep, job: int, jobs: int) -> Swept:
    """Every `jobs`-th base, from number `job` on."""
    started = time.monotonic()
    return sweep(
        ArenaRunner(fault_named(asked.fault) if asked.fault else None),
        islice(bases_of(asked), job, None, jobs),
        asked.kinds,
        elapsed=lambda: time.monotonic() - started,
        budget_s=asked.budget_s,
    )
