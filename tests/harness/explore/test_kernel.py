"""The kernel under both pickers: order, time, signals, cancellation, endings, closing."""

from collections.abc import Sequence

import pytest

from harness.explore import pickers
from harness.explore.kernel import Cancelled, Ended, Kernel, Point, Signal, Task
from harness.explore.pickers import Chooser, Search, VirtualClock
from harness.explore.tape import Divergence, LenientReplay, StrictReplay, Tape

PICKERS = ["virtual", "search"]


class Zeros:
    """Every choice is the natural one."""

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        return 0

    def draw(self, label: str, bound: int) -> int:
        return 0


class Last:
    """Every choice is the last candidate, every draw the highest."""

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        return len(runnable) - 1

    def draw(self, label: str, bound: int) -> int:
        return bound - 1


def picker(kind: str) -> VirtualClock | Search:
    return VirtualClock() if kind == "virtual" else Search(Zeros())


def steps_of(kernel: Kernel) -> list[tuple[str, str]]:
    """Everything that starts, in order, as (task, point)."""
    seen: list[tuple[str, str]] = []
    kernel.on_step = lambda task, point: seen.append((task.name, point.name))
    return seen


def mixed(kernel: Kernel, log: list[str]) -> None:
    """A producer, a consumer and two sleepers, with points, pauses, a signal and a late spawn."""
    signal, box = Signal("box"), list[int]()

    async def produce() -> None:
        for n in range(3):
            await kernel.pause(2.0, "make", ("box", n))
            box.append(n)
            log.append(f"made {n} at {kernel.now}")
            signal.fire()
            await kernel.point("made", ("box", n))
        kernel.spawn("late", sleep("late", 0.5))

    async def consume() -> None:
        for _ in range(3):
            while not box:
                await kernel.wait(signal, "take")
            await kernel.point("eat")
            log.append(f"ate {box.pop()} at {kernel.now}")

    async def sleep(name: str, seconds: float) -> None:
        for _ in range(2):
            await kernel.pause(seconds, "sleep", ("sleeper", name))
            log.append(f"{name} at {kernel.now}")

    kernel.spawn("producer", produce())
    kernel.spawn("consumer", consume())
    kernel.spawn("s1", sleep("s1", 1.5))
    kernel.spawn("s2", sleep("s2", 1.5))


def test_the_empty_tape_is_the_order_of_the_virtual_clock() -> None:
    logs: dict[str, list[str]] = {}
    for kind in PICKERS:
        kernel = Kernel()
        mixed(kernel, logs.setdefault(kind, []))
        assert kernel.run(picker(kind), step_limit=1000).reason == "finished"
    assert logs["virtual"] == logs["search"]
    assert logs["virtual"][:3] == ["s1 at 1.5", "s2 at 1.5", "made 0 at 2.0"]


def test_time_never_runs_backwards_under_a_search() -> None:
    kernel, times = Kernel(), list[float]()
    mixed(kernel, [])
    kernel.on_step = lambda task, point: times.append(kernel.now)
    assert kernel.run(Search(Last()), step_limit=1000).reason == "finished"
    assert times == sorted(times)
    assert times[-1] > 0


def test_a_point_on_the_virtual_clock_does_not_suspend() -> None:
    kernel = Kernel()

    async def walk() -> None:
        for n in range(10):
            await kernel.point("walk", ("at", n))

    kernel.spawn("walker", walk())
    seen = steps_of(kernel)
    ended = kernel.run(VirtualClock(), step_limit=1)
    assert ended.reason == "finished"
    assert seen == [("walker", "start")] + [("walker", "walk")] * 10


def test_a_point_outside_a_run_is_free() -> None:
    kernel = Kernel()

    async def walk() -> int:
        await kernel.point("walk")
        return 7

    coro = walk()
    with pytest.raises(StopIteration) as stop:
        coro.send(None)
    assert stop.value.value == 7


def test_the_listener_hears_of_a_step_before_its_operation() -> None:
    kernel, done, seen = Kernel(), list[str](), list[tuple[str, int]]()

    async def act() -> None:
        await kernel.point("first", write=False)
        done.append("first")
        await kernel.point("second")
        done.append("second")

    kernel.spawn("actor", act())
    kernel.on_step = lambda task, point: seen.append((point.name, len(done)))
    kernel.run(Search(Zeros()), step_limit=10)
    assert seen == [("first", 0), ("second", 1)]


def test_a_choice_is_recorded_only_where_two_are_runnable() -> None:
    kernel = Kernel()

    async def walk(length: int) -> None:
        for _ in range(length):
            await kernel.point("walk")

    kernel.spawn("short", walk(1))
    kernel.spawn("long", walk(4))
    search = Search(Zeros())
    kernel.run(search, step_limit=10)
    assert search.tape.order == ["short", "long", "long", "long", "long"]
    assert [choice.bound for choice in search.tape.picks] == [2]


def test_a_signal_wakes_every_waiter_in_the_order_of_waiting() -> None:
    for kind in PICKERS:
        kernel, signal, woken, gate = Kernel(), Signal(), list[str](), list[int]()

        async def wait(
            name: str,
            kernel: Kernel = kernel,
            signal: Signal = signal,
            woken: list[str] = woken,
            gate: list[int] = gate,
        ) -> None:
            while not gate:
                await kernel.wait(signal, "gate")
            woken.append(name)

        async def open_gate(
            kernel: Kernel = kernel, signal: Signal = signal, gate: list[int] = gate
        ) -> None:
            await kernel.pause(1.0, "open")
            gate.append(1)
            signal.fire()

        for name in ("c", "a", "b"):
            kernel.spawn(name, wait(name))
        kernel.spawn("opener", open_gate())
        assert kernel.run(picker(kind), step_limit=100).reason == "finished"
        assert woken == ["c", "a", "b"]


@pytest.mark.parametrize("kind", PICKERS)
def test_a_deadlock_names_who_waits_for_what(kind: str) -> None:
    kernel, never = Kernel(), Signal("page freed")

    async def wait() -> None:
        await kernel.wait(never, "alloc", ("pool", "swa"))

    kernel.spawn("R0", wait())
    kernel.spawn("stream", wait(), daemon=True)
    ended = kernel.run(picker(kind), step_limit=100)
    assert ended.reason == "deadlock"
    assert [(w.task, w.point, w.signal) for w in ended.waiting] == [
        ("R0", Point("alloc", ("pool", "swa")), "page freed"),
        ("stream", Point("alloc", ("pool", "swa")), "page freed"),
    ]


@pytest.mark.parametrize("kind", PICKERS)
def test_a_daemon_does_not_keep_the_run_alive(kind: str) -> None:
    kernel = Kernel()

    async def poll() -> None:
        while True:
            await kernel.pause(1.0, "poll")

    async def work() -> None:
        await kernel.pause(2.5, "work")

    kernel.spawn("stream", poll(), daemon=True)
    kernel.spawn("R0", work())
    ended = kernel.run(picker(kind), step_limit=100)
    assert (ended.reason, ended.now) == ("finished", 2.5)


@pytest.mark.parametrize("kind", PICKERS)
def test_a_livelock_ends_at_the_step_limit(kind: str) -> None:
    kernel = Kernel()

    async def spin() -> None:
        while True:
            await kernel.pause(0.0, "spin")

    kernel.spawn("R0", spin())
    ended = kernel.run(picker(kind), step_limit=50)
    assert (ended.reason, ended.steps) == ("step_limit", 50)


def test_a_standstill_of_the_virtual_clock_is_a_livelock(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task starts anew for ever while time stands still; the one that is due later waits."""
    monkeypatch.setattr(pickers, "STANDSTILL", 100)
    kernel = Kernel()

    async def spin() -> None:
        while True:
            await kernel.pause(0.0, "spin")

    async def later() -> None:
        await kernel.pause(1.0, "later")

    kernel.spawn("A", spin())
    kernel.spawn("B", later())
    assert kernel.run(VirtualClock(), step_limit=10_000).reason == "livelock"


def test_many_tasks_that_end_at_one_instant_are_no_livelock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pickers, "STANDSTILL", 600)
    kernel = Kernel()

    async def brief() -> None:
        await kernel.pause(0.0, "brief")

    for number in range(500):
        kernel.spawn(f"T{number}", brief())
    assert kernel.run(VirtualClock(), step_limit=10_000).reason == "finished"


@pytest.mark.parametrize("kind", PICKERS)
def test_an_exception_in_a_task_ends_the_run_and_names_the_task(kind: str) -> None:
    kernel = Kernel()

    async def fail() -> None:
        await kernel.pause(1.0, "fail")
        raise ValueError("broken")

    kernel.spawn("R0", fail())
    ended = kernel.run(picker(kind), step_limit=50)
    assert (ended.reason, ended.task, str(ended.error)) == ("raised", "R0", "broken")


@pytest.mark.parametrize("kind", PICKERS)
def test_an_exception_in_the_listener_ends_the_run(kind: str) -> None:
    kernel = Kernel()

    async def work() -> None:
        await kernel.pause(1.0, "work")

    def look(task: Task, point: Point) -> None:
        if point.name == "work":
            raise LookupError("seen")

    kernel.spawn("R0", work())
    kernel.on_step = look
    ended = kernel.run(picker(kind), step_limit=50)
    assert (ended.reason, str(ended.error)) == ("raised", "seen")


@pytest.mark.parametrize("kind", PICKERS)
def test_stop_ends_the_run_after_the_segment(kind: str) -> None:
    kernel, done = Kernel(), list[int]()

    async def work() -> None:
        await kernel.pause(1.0, "work")
        kernel.stop()
        done.append(1)
        await kernel.pause(1.0, "work")
        done.append(2)

    kernel.spawn("R0", work())
    assert kernel.run(picker(kind), step_limit=50).reason == "stopped"
    assert done == [1]


@pytest.mark.parametrize("kind", PICKERS)
@pytest.mark.parametrize("where", ["point", "pause", "wait"])
def test_a_cancelled_task_unwinds_at_its_point(kind: str, where: str) -> None:
    kernel, never, log = Kernel(), Signal("never"), list[str]()

    async def victim() -> None:
        try:
            await kernel.pause(0.0, "first")
            if where == "wait":
                await kernel.wait(never, "victim.wait")
            await kernel.pause(100.0, "victim.pause", ("request", "R0"))
            log.append("went on")
        except Cancelled:
            await kernel.point("clean")
            log.append("cleaned up")
            raise

    task = kernel.spawn("victim", victim())

    async def killer() -> None:
        await kernel.pause(1.0, "kill")
        assert kernel.cancel(task)

    kernel.spawn("killer", killer())
    ended = kernel.run(picker(kind), step_limit=50)
    assert (ended.reason, log) == ("finished", ["cleaned up"])
    assert ended.now == 1.0 or kind == "search"
    assert not kernel.cancel(task)


def test_a_pause_that_was_cancelled_wakes_nobody_later() -> None:
    kernel, times = Kernel(), list[float]()

    async def victim() -> None:
        try:
            await kernel.pause(5.0, "long")
        except Cancelled:
            await kernel.pause(10.0, "clean")
            times.append(kernel.now)

    task = kernel.spawn("victim", victim())

    async def killer() -> None:
        await kernel.pause(1.0, "kill")
        kernel.cancel(task)

    kernel.spawn("killer", killer())
    assert kernel.run(VirtualClock(), step_limit=50).reason == "finished"
    assert times == [11.0]


def test_a_task_that_was_passed_over_at_a_point_is_ready_before_those_that_pause() -> None:
    kernel, script = Kernel(), [1, 1, 0, 0, 0, 0]

    class Script(Zeros):
        def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
            return script.pop(0)

    async def late() -> None:
        await kernel.pause(5.0, "late.pause")
        await kernel.point("late.point")

    async def ready() -> None:
        await kernel.pause(5.0, "ready.pause")
        await kernel.pause(9.0, "ready.pause")

    async def soon() -> None:
        await kernel.pause(4.0, "soon.pause")

    for name, coro in (("late", late()), ("ready", ready()), ("soon", soon())):
        kernel.spawn(name, coro)
    search = Search(Script())
    assert kernel.run(search, step_limit=50).reason == "finished"
    # "late" is chosen first, then passed over for "ready"; when that pauses, "late" is ready, and
    # comes before "soon" although its own pause was the longer one.
    assert search.tape.order == ["late", "ready", "late", "soon", "ready"]


def test_a_cancelled_step_is_announced_as_such() -> None:
    kernel = Kernel()

    async def victim() -> None:
        await kernel.pause(5.0, "load", ("request", "R0"))

    task = kernel.spawn("victim", victim())

    async def killer() -> None:
        await kernel.point("kill")
        kernel.cancel(task)

    kernel.spawn("killer", killer())
    seen = list[tuple[str, Point]]()
    kernel.on_step = lambda task, point: seen.append((task.name, point))
    assert kernel.run(Search(Zeros()), step_limit=50).reason == "finished"
    assert seen[-1] == ("victim", Point("cancelled", ("request", "R0")))


def test_every_coroutine_is_closed_and_cleans_up_without_suspending() -> None:
    kernel, log, never = Kernel(), list[str](), Signal()

    async def held() -> None:
        try:
            await kernel.wait(never, "hold")
        finally:
            await kernel.point("release")
            await kernel.pause(1.0, "release")
            log.append("released")
            kernel.draw("late", 3)
            kernel.spawn("late", again())

    async def again() -> None:
        while True:
            await kernel.wait(never, "again")

    async def stuck() -> None:
        try:
            await kernel.wait(never, "hold")
        finally:
            while True:
                await kernel.wait(never, "never again")

    kernel.spawn("R0", held())
    kernel.spawn("R1", stuck())
    endings: list[Ended] = []
    kernel.on_end = endings.append
    ended = kernel.run(Search(Zeros()), step_limit=50)
    assert endings == [ended]
    assert log == ["released"]


def test_an_unstarted_coroutine_is_closed_without_a_warning() -> None:
    kernel = Kernel()

    async def fail() -> None:
        raise ValueError("at once")

    async def never() -> None:
        await kernel.point("never")

    kernel.spawn("R0", fail())
    kernel.spawn("R1", never())
    assert kernel.run(Search(Zeros()), step_limit=50).task == "R0"


def test_a_point_that_is_not_awaited_is_a_programmers_error() -> None:
    kernel = Kernel()

    async def careless() -> None:
        kernel.point("lost")
        await kernel.point("next")

    kernel.spawn("R0", careless())
    ended = kernel.run(Search(Zeros()), step_limit=50)
    assert "without awaiting it" in str(ended.error)


def test_draws_are_zero_on_the_virtual_clock_unless_it_has_a_source() -> None:
    def drawn(clock: VirtualClock | Search) -> list[int]:
        kernel, values = Kernel(), list[int]()

        async def draw() -> None:
            await kernel.point("start")
            values.extend(kernel.draw("copy.fail", 5) for _ in range(3))

        kernel.spawn("R0", draw())
        assert kernel.run(clock, step_limit=9).reason == "finished"
        return values

    assert drawn(VirtualClock()) == [0, 0, 0]
    assert drawn(VirtualClock(lambda label, bound: bound - 2)) == [3, 3, 3]
    search = Search(Last())
    assert drawn(search) == [4, 4, 4]
    assert search.tape.draws == [("copy.fail", 4, 5)] * 3


def mixed_run(strategy: Chooser) -> tuple[Ended, Tape]:
    kernel = Kernel()
    mixed(kernel, [])
    search = Search(strategy)
    return kernel.run(search, step_limit=1000), search.tape


def test_strict_and_lenient_replay_repeat_a_run_exactly() -> None:
    ended, tape = mixed_run(Last())
    assert ended.digest != mixed_run(Zeros())[0].digest
    assert mixed_run(StrictReplay(tape))[0].digest == ended.digest
    assert mixed_run(LenientReplay(tape))[0].digest == ended.digest


def test_strict_replay_names_the_first_divergence() -> None:
    _, tape = mixed_run(Last())
    wrong = Tape([*tape.order[:4], "R9", *tape.order[5:]], tape.draws)
    with pytest.raises(Divergence, match="at step 5: expected R9, possible were") as caught:
        mixed_run(StrictReplay(wrong))
    assert caught.value.runnable
