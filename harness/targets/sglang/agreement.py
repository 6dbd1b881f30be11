"""Where ranks of a release agree: each runs its own code until it asks its process group, and the
reduction is really computed between them.

A rank is a thread here only because a release agrees in the middle of a call. One runs at a time,
in the order of ranks, each until it waits or ends.

Invariant: which rank runs is decided here and never by the operating system.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from harness.targets.sglang.baton import Baton
from harness.targets.sglang.broken import Broken

T = TypeVar("T")
WRAPPERS = ("_all_reduce", "_barrier")  # methods of releases that only pass an agreement on


class Group(NamedTuple):
    """Stands where a process group would."""

    size: int


class Own(Protocol):
    """What a process has for itself, and two ranks in one process have to take in turns."""

    def enter(self) -> None: ...

    def leave(self) -> None: ...


class Call(NamedTuple):
    """One rank's part in an agreement: what it asks for, from which function, with what."""

    kind: str
    place: str
    tensor: Any
    op: Any

    @property
    def shape(self) -> tuple[str, tuple[int, ...]]:
        return f"{self.kind} {self.op}", () if self.tensor is None else tuple(self.tensor.shape)


class _Part(Baton, Generic[T]):
    """One rank's share of a common step. `call` is what it waits for, None when it has ended."""

    def __init__(self, work: Callable[[], T], own: Own) -> None:
        super().__init__(self._do)
        self.result: T | None = None
        self._share = work
        self._own = own
        self.start()

    def _do(self) -> None:
        self.result = self._share()

    def advance(self) -> None:
        """Run until it waits for the others or ends."""
        self._own.enter()
        super().advance()
        self._own.leave()


def together(works: Sequence[Callable[[], T]], owns: Sequence[Own]) -> list[T]:
    """Run a share of every rank with what is its own, and give back what each returned.
    Raises what the first of them raised, and `Broken` (R2) where one does not come to an agreement
    that another waits in, or comes to a different one."""
    parts = [_Part(work, own) for work, own in zip(works, owns, strict=True)]
    try:
        _advance(parts)
        while any(part.call for part in parts):
            reduce([part.call for part in parts])
            _advance(parts)
    finally:
        for part in parts:
            part.abandon()
    return [part.result for part in parts]  # type: ignore[misc]


def _advance(parts: Sequence[_Part[Any]]) -> None:
    for part in parts:
        part.advance()
    for part in parts:
        if part.error is not None:
            raise part.error


def reduce(calls: Sequence[Call | None]) -> None:
    """Compute what the ranks ask for, in place, as a process group does."""
    import torch

    here = [call for call in calls if call is not None]
    if len(here) < len(calls):
        missing = [str(rank) for rank, call in enumerate(calls) if call is None]
        raise Broken(
            "R2",
            f"a rank skips the agreement of {here[0].place}",
            "every rank takes part in every agreement",
            f"rank {', '.join(missing)} ends its pass while the others wait in {here[0].place}",
        )
    first = here[0]
    if any(call.shape != first.shape for call in here):
        raise Broken(
            "R2",
            "the ranks are in different agreements",
            "the same agreements in the same order",
            ", ".join(f"{call.place} ({call.shape[0]})" for call in here),
        )
    if first.tensor is None:
        return
    stack = torch.stack([call.tensor for call in here])
    kind = torch.distributed.ReduceOp
    assert first.op in (kind.MIN, kind.MAX), "no release agrees in another way"
    agreed = stack.amin(dim=0) if first.op == kind.MIN else stack.amax(dim=0)
    for call in here:
        call.tensor.copy_(agreed)


def install() -> None:
    """Let the release's agreements over a `Group` come here; all others stay torch's."""
    import torch.distributed

    real: Any = torch.distributed
    all_reduce, barrier, size = real.all_reduce, real.barrier, real.get_world_size

    def agreed(tensor: Any, op: Any = None, group: Any = None, **more: Any) -> Any:
        if isinstance(group, Group):
            return _ask("all_reduce", tensor, op)
        return all_reduce(tensor, op=op, group=group, **more)

    def met(group: Any = None, **more: Any) -> Any:
        return _ask("barrier", None, None) if isinstance(group, Group) else barrier(group, **more)

    def size_of(group: Any = None) -> int:
        return group.size if isinstance(group, Group) else int(size(group))

    real.all_reduce, real.barrier, real.get_world_size = agreed, met, size_of


def _ask(kind: str, tensor: Any, op: Any) -> None:
    assert Baton.current is not None, "an agreement outside a common step"
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name.startswith(WRAPPERS):
        frame = frame.f_back
    Baton.current.agree(Call(kind, frame.f_code.co_name, tensor, op))
