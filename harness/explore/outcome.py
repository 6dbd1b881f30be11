"""What one run of a scenario came to, and the two things that everything else here asks for.

Invariant: an outcome is plain data; it can be pickled, and repeating its tape on its scenario
gives the same digest.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from harness.explore.kernel import Ended, Point
from harness.explore.marks import RunMarks
from harness.explore.pickers import Chooser
from harness.explore.tape import Tape

Scenario = dict[str, Any]


class Verdict(NamedTuple):
    """A violation. Two verdicts are of one class when oracle and signature agree."""

    oracle: str
    signature: str
    message: str

    @property
    def kind(self) -> str:
        """The class, as one word: it must survive shrinking."""
        return f"{self.oracle}.{self.signature}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """``verdict`` is None when nothing was violated; ``points`` has one entry per step.

    A pickled outcome keeps the text of an error, not its class or traceback.
    """

    verdict: Verdict | None
    ended: Ended
    tape: Tape
    marks: RunMarks

    @property
    def digest(self) -> str:
        return self.ended.digest

    @property
    def steps(self) -> int:
        return self.ended.steps

    @property
    def points(self) -> list[Point]:
        return self.tape.points

    def __getstate__(self) -> dict[str, Any]:
        state, error = dict(vars(self)), self.ended.error
        if error is not None:
            text = RuntimeError(f"{type(error).__name__}: {error}")
            state["ended"] = self.ended._replace(error=text)
        return state


class Runner(Protocol):
    """Builds the world of ``scenario`` afresh, runs it under ``chooser``, judges it.

    Precondition for everything here: the run depends on the scenario and the choices alone.
    A ``Divergence`` raised by the chooser must pass through.
    """

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome: ...
