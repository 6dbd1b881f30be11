"""How many whole schedules a search gets through on one core.

The same scenarios under the same seeds, once bare and once as a hunt runs them. Invariant: nothing
is cached from one schedule to the next but what strategies learn.
"""

from collections.abc import Callable
from time import process_time
from typing import NamedTuple

from cache.observer import Observer
from cache.unified import UnifiedCache
from harness.bench.sheet import Cell, Sheet, spread_of
from harness.engine.marks import Marks
from harness.explore.campaign import default_portfolio
from harness.explore.estimate import Estimator
from harness.explore.marks import run_marks
from harness.explore.outcome import Scenario
from harness.explore.pickers import Chooser, Search
from harness.explore.prng import derive
from harness.explore.tape import Tape
from harness.hunt.arena import Arena
from harness.hunt.scenario import config_of, swarm
from harness.hunt.storage import IDENTITY, storage_of
from harness.oracles import Violation, Watch, default_oracles

STEP_LIMIT = 2_000
SEED = 1
Run = Callable[[Scenario, Chooser], Tape]


class Searched(NamedTuple):
    schedules: int
    steps: int
    cpu_s: float


def measure(repeats: int, *, schedules: int) -> Sheet:
    rows = [
        _row(name, [_search(run, grain, schedules) for _ in range(repeats)])
        for grain in ("scheduler", "fine")
        for name, run in (
            (f"{grain} grain, no oracles", _run_bare),
            (f"{grain} grain, every oracle", _run_watched),
        )
    ]
    return Sheet(
        name="search",
        title="Search: whole schedules on one core",
        notes=(
            f"{schedules:,} scenarios of the hunt's swarm, drawn from one seed, under the default"
            f" portfolio of strategies; {repeats} repeats; processor time, drawing and building"
            " each small world counted in.",
            "'no oracles' takes the steps and nothing else; 'every oracle' also derives the marks"
            " of each schedule, as a hunt does.",
        ),
        columns=(
            "world",
            "schedules_per_s",
            "min_per_s",
            "max_per_s",
            "iqr_per_s",
            "mean_steps",
            "step_us",
        ),
        rows=tuple(rows),
    )


def _search(run: Run, grain: str, schedules: int) -> Searched:
    scenarios, strategy, estimator = swarm(grain), default_portfolio(), Estimator()
    steps = 0
    start = process_time()
    for number in range(schedules):
        seed = derive(SEED, number)
        strategy.begin(derive(seed, "strategy"), estimator.estimate())
        scenario = strategy.scenario
        if scenario is None:
            scenario = scenarios.draw(derive(seed, "scenario"))
        tape = run(scenario, strategy.member())
        estimator.observe(tape)
        steps += len(tape.order)
    return Searched(schedules, steps, process_time() - start)


def _run_bare(scenario: Scenario, chooser: Chooser) -> Tape:
    cache = _cache(scenario)
    return _torture(scenario, chooser, cache, Marks(cache.config))


def _run_watched(scenario: Scenario, chooser: Chooser) -> Tape:
    found: list[Violation] = []
    marks = Marks(config_of(scenario))
    watch = Watch(default_oracles("every"), listeners=[marks], on_violation=found.append)
    cache = _cache(scenario, watch)
    watch.attach(cache)
    tape = _torture(scenario, chooser, cache, marks)
    run_marks(tape.order, tape.points, marks.counts)
    return tape


def _cache(scenario: Scenario, observer: Observer | None = None) -> UnifiedCache:
    backend = storage_of(scenario)
    return UnifiedCache(config_of(scenario), observer, backend=backend, identity=IDENTITY)


def _torture(scenario: Scenario, chooser: Chooser, cache: UnifiedCache, marks: Marks) -> Tape:
    arena = Arena(scenario, cache, marks)
    arena.start()
    search = Search(chooser)
    arena.kernel.run(search, step_limit=STEP_LIMIT)
    return search.tape


def _row(name: str, runs: list[Searched]) -> tuple[Cell, ...]:
    rates = spread_of([run.schedules / run.cpu_s for run in runs])
    steps = runs[0].steps / runs[0].schedules
    return (name, *rates, steps, 1e6 / (rates.median * steps))
