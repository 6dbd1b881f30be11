"""Ranks in one process agree for real, and who stays away is named."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from harness.targets.sglang import agreement
from harness.targets.sglang.agreement import Group, together
from harness.targets.sglang.broken import Broken

GROUP = Group(2)
MIN, MAX = torch.distributed.ReduceOp.MIN, torch.distributed.ReduceOp.MAX


class Turn:
    """Writes down when its rank runs."""

    def __init__(self, rank: int, log: list[str]) -> None:
        self.rank, self.log = rank, log

    def enter(self) -> None:
        self.log.append(f"enter {self.rank}")

    def leave(self) -> None:
        self.log.append(f"leave {self.rank}")


@pytest.fixture(autouse=True)
def real_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("all_reduce", "barrier", "get_world_size"):
        monkeypatch.setattr(torch.distributed, name, getattr(torch.distributed, name))
    agreement.install()
    yield
    assert not [one for one in threading.enumerate() if isinstance(one, agreement._Part)]


def run(*works: Callable[[], object], log: list[str] | None = None) -> list[object]:
    log = [] if log is None else log
    return together(works, [Turn(rank, log) for rank in range(len(works))])


def agree(value: int, op: object = MIN) -> int:
    tensor = torch.tensor(value)
    torch.distributed.all_reduce(tensor, op=op, group=GROUP)
    return int(tensor)


def test_a_reduction_is_computed_between_the_ranks() -> None:
    assert run(lambda: agree(3), lambda: agree(1)) == [1, 1]
    assert run(lambda: agree(3, MAX), lambda: agree(1, MAX)) == [3, 3]
    assert torch.distributed.get_world_size(group=GROUP) == 2


def test_ranks_go_on_from_one_agreement_to_the_next() -> None:
    def both(first: int, second: int) -> tuple[int, int]:
        least = agree(first)
        torch.distributed.barrier(group=GROUP)
        return least, agree(second)

    assert run(lambda: both(1, 9), lambda: both(2, 7)) == [(1, 7), (1, 7)]


def test_one_rank_runs_at_a_time_and_in_their_order() -> None:
    log: list[str] = []
    run(lambda: agree(1), lambda: agree(1), log=log)
    assert log == ["enter 0", "leave 0", "enter 1", "leave 1"] * 2


def agree_in_a_wrapper(value: int) -> int:
    return _all_reduce(torch.tensor(value))


def _all_reduce(tensor: torch.Tensor) -> int:
    torch.distributed.all_reduce(tensor, op=MIN, group=GROUP)
    return int(tensor)


def test_a_rank_that_stays_away_is_named_with_the_place_where_the_others_wait() -> None:
    with pytest.raises(Broken, match="rank 0 ends its pass") as caught:
        run(lambda: 0, lambda: agree_in_a_wrapper(1))
    assert caught.value.oracle == "R2"
    assert caught.value.signature == "a rank skips the agreement of agree_in_a_wrapper"


def test_ranks_in_different_agreements_are_told_apart() -> None:
    with pytest.raises(Broken, match="the same agreements in the same order"):
        run(lambda: agree(1), lambda: torch.distributed.barrier(group=GROUP))


def test_what_one_rank_raises_ends_the_step_of_all() -> None:
    def fails() -> int:
        raise KeyError("r1")

    with pytest.raises(KeyError):
        run(lambda: agree(1), fails)
