"""What an oracle says when a promise is broken.

Invariant: a violation's kind names the promise and the place and never a number, so that the same
defect found twice, or shrunk, is of the same kind.
"""

import re
from dataclasses import asdict, dataclass
from types import TracebackType

from cache.contract import BrokenInvariant


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise. `oracle` is its short name (O1 .. E1, or `crash`)."""

    oracle: str
    signature: str
    expected: str
    seen: str
    step: int
    elapsed_s: float

    @property
    def kind(self) -> str:
        """The signature without numbers: with `oracle`, the class of the verdict."""
        return re.sub(r"\d+", "#", self.signature)

    @property
    def verdict_class(self) -> tuple[str, str]:
        return (self.oracle, self.kind)

    def record(self) -> dict[str, str | int | float]:
        """Plain data, for a line of JSON."""
        return asdict(self)


def violation_of(error: BaseException, step: int, elapsed_s: float) -> Violation:
    """What an exception out of the cache stands for: the promise that an inline check saw broken,
    or a crash, named after the function that it came from."""
    if isinstance(error, BrokenInvariant):
        return Violation(error.oracle, error.signature, error.expected, error.seen, step, elapsed_s)
    signature = f"{type(error).__name__} in {_raised_in(error.__traceback__)}"
    return Violation(
        "crash", signature, "no exception", str(error) or "nothing said", step, elapsed_s
    )


def raised_by_cache(error: BaseException) -> bool:
    """Whether the cache was at work when `error` was raised: then it is the cache's crash."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("cache."):
            return True
        trace = trace.tb_next
    return False


def _raised_in(trace: TracebackType | None) -> str:
    name = "nowhere"
    while trace is not None:
        name = trace.tb_frame.f_code.co_qualname
        trace = trace.tb_next
    return name
