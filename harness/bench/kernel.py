"""What the kernel asks for a point, a pause and a wait, on the virtual clock and under a search.

Invariant: the tasks do nothing but announce, so all of the time is the kernel's.
"""

from collections.abc import Callable
from time import process_time

from harness.bench.sheet import Cell, Sheet, spread_of
from harness.explore.estimate import Estimate
from harness.explore.kernel import Kernel, Picker, Signal
from harness.explore.pickers import Search, VirtualClock
from harness.explore.strategies import Uniform

TASKS = 2
Scene = Callable[[Kernel, int], None]  # spawns tasks that announce so often in all


def measure(repeats: int, *, announcements: int) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for name, spawn, picker in CASES:
        taken = [_announcement_ns(spawn, picker(), announcements) for _ in range(repeats)]
        rows.append((name, *spread_of(taken)))
    return Sheet(
        name="kernel",
        title="Kernel: one switch",
        notes=(
            f"{TASKS} tasks that announce {announcements:,} times in all and do nothing else;"
            f" {repeats} repeats; processor time, building and closing the kernel"
            " counted in.",
        ),
        columns=("announcement", "median_ns", "min_ns", "max_ns", "iqr_ns"),
        rows=tuple(rows),
    )


def _announcement_ns(spawn: Scene, picker: Picker, announcements: int) -> float:
    start = process_time()
    kernel = Kernel()
    spawn(kernel, announcements)
    ended = kernel.run(picker, step_limit=10 * announcements)
    elapsed = process_time() - start
    assert ended.reason == "finished", ended
    return elapsed / announcements * 1e9


def _points(kernel: Kernel, announcements: int) -> None:
    async def work() -> None:
        for _ in range(announcements // TASKS):
            await kernel.point("bench.point")

    for number in range(TASKS):
        kernel.spawn(f"T{number}", work())


def _pauses(kernel: Kernel, announcements: int) -> None:
    async def work() -> None:
        for _ in range(announcements // TASKS):
            await kernel.pause(1e-6, "bench.pause")

    for number in range(TASKS):
        kernel.spawn(f"T{number}", work())


def _waits(kernel: Kernel, announcements: int) -> None:
    """Each wakes the other and waits for its own signal; a last fire lets both end."""
    signals = [Signal(f"turn{number}") for number in range(TASKS)]

    async def work(number: int) -> None:
        for _ in range(announcements // TASKS):
            signals[1 - number].fire()
            await kernel.wait(signals[number], "bench.wait")
        signals[1 - number].fire()

    for number in range(TASKS):
        kernel.spawn(f"T{number}", work(number))


def _searching() -> Search:
    strategy = Uniform()
    strategy.begin(1, Estimate())
    return Search(strategy)


CASES: tuple[tuple[str, Scene, Callable[[], Picker]], ...] = (
    ("point, virtual clock", _points, VirtualClock),
    ("pause, virtual clock", _pauses, VirtualClock),
    ("wait and wake, virtual clock", _waits, VirtualClock),
    ("point, search", _points, _searching),
    ("pause, search", _pauses, _searching),
)
