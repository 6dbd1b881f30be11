"""The model of a soak: on its clock, checked by N1, counted."""

from collections.abc import Callable, Mapping

from cache.unified import UnifiedCache
from harness.engine.compute import Compute
from harness.explore.kernel import Kernel, Picker
from harness.model.executor import ModelExecutor
from harness.model.launchers import VirtualLauncher, WallLauncher
from harness.model.numerics import Wrong
from harness.model.plan import ModelPlan
from harness.model.run import ModelRun
from harness.record.summary import Number
from harness.serve.wall_clock import WallClock


class Computed:
    """`executor` is for the world; `close` it, or `cut` it short, when the world has ended and
    before the clock is closed."""

    def __init__(
        self,
        plan: ModelPlan,
        cache: UnifiedCache,
        clock: Picker,
        compute: Compute,
        on_wrong: Callable[[Wrong], None],
    ) -> None:
        self._model = ModelRun(plan, cache)
        self._clock = clock
        self._compute = compute
        self._on_wrong = on_wrong
        self._launcher: VirtualLauncher | WallLauncher

    def executor(self, kernel: Kernel) -> ModelExecutor:
        if isinstance(self._clock, WallClock):
            self._launcher = WallLauncher(kernel, self._clock)
        else:
            self._launcher = VirtualLauncher(kernel, self._compute)
        return self._model.executor(self._launcher, self._on_wrong)

    def memory(self) -> Mapping[str, float]:
        return self._model.memory()

    def close(self) -> None:
        self._launcher.close()

    def cut(self) -> None:
        self._launcher.cut()

    def counters(self) -> dict[str, Number]:
        """How much N1 has recomputed."""
        numerics = self._model.numerics
        if numerics is None:
            return {}
        return {
            "logits_checked_requests": numerics.checked_requests,
            "logits_checked_positions": numerics.checked_positions,
            "logits_unchecked_requests": self._launcher.dropped,
        }
