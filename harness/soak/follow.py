"""Follows a recorded run: the same tasks in the same order at the same times, waiting for nothing.

Invariant: where the run cannot take the recorded way, it stops there and says so.
"""

from collections.abc import Iterator

from harness.explore.kernel import PAUSED, READY, Kernel, Stop, Task
from harness.explore.pickers import begin
from harness.record.decisions import Decision

NS = 1e9


class Parted(Exception):
    """The run took another way than the record; one line says where."""


class Follower:
    """A picker. A task may be picked as soon as it could have been: a pause ends when the record
    says so."""

    def __init__(self, decisions: Iterator[Decision]) -> None:
        self._decisions = decisions
        self.steps = 0
        self.parted: Parted | None = None

    def draw(self, label: str, bound: int) -> int:
        return 0

    def make_ready(self, task: Task) -> None: ...

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        for decision in self._decisions:
            kernel.fresh.clear()
            kernel.now = decision.now_ns / NS
            try:
                task = self._task(kernel, decision)
            except Parted as parted:
                self.parted = parted
                return Stop("stopped", self.steps)
            self.steps += 1
            begin(task)
            point = task.point
            try:
                if kernel.on_step is not None:
                    kernel.on_step(task, point)
                kernel.resume(task)
                if kernel.after_step is not None:
                    kernel.after_step(task, point)
            except Exception as error:
                return Stop("raised", self.steps, error, task.name)
        return Stop("stopped" if kernel.alive else "finished", self.steps)

    def _task(self, kernel: Kernel, decision: Decision) -> Task:
        number, now_ns, point = decision
        where = f"step {self.steps + 1} ({now_ns / NS:.6f} s)"
        if number >= len(kernel.tasks):
            raise Parted(f"{where}: the record has task {number} at {point}, which is not there")
        task = kernel.tasks[number]
        if task.state not in (READY, PAUSED) or task.point.name != point:
            seen = f"{task.name} is {task.state.value} at {task.point.name}"
            raise Parted(f"{where}: the record goes on with {task.name} at {point}; here {seen}")
        return task
