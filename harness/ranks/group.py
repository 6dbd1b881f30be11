"""What the processes of a run tell each other, over torch.distributed: numbers over gloo, tensors
over NCCL where they are on GPUs and over gloo where they are not.

Two groups, for two threads: schedulers agree on numbers while forwards add up tensors. Invariant:
whoever calls here meets every other rank in the same call, or learns that it never will.
"""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

from harness.ranks.party import RankLost

HOST = "127.0.0.1"
PATIENCE_S = 60.0


class Doorway:
    """Where ranks find each other: a port of this machine's own. The first rank opens it."""

    def __init__(self, ranks: int, patience_s: float) -> None:
        self.store = _store(0, ranks, patience_s, is_master=True)

    @property
    def port(self) -> int:
        return int(self.store.port)


class Group:
    """One rank's end. Close it, or use it as a context manager.

    Raises `RankLost` wherever another rank has died or has not come for `patience_s`."""

    def __init__(
        self,
        store: Store,
        *,
        rank: int,
        ranks: int,
        device: str = "cpu",
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Returns when every rank has come to its own."""
        self.rank = rank
        self.ranks = ranks
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
        timeout = timedelta(seconds=patience_s)
        gpu = torch.device(device).type == "cuda"

        def found() -> None:
            dist.init_process_group(
                "gloo", store=store, rank=rank, world_size=ranks, timeout=timeout
            )
            self._tensors = dist.new_group(backend="nccl" if gpu else "gloo", timeout=timeout)

        _meeting(found)

    @classmethod
    def entered(cls, port: int, *, rank: int, ranks: int, device: str, patience_s: float) -> Self:
        """That of a rank which is not the first, through its doorway."""
        store = _store(port, ranks, patience_s, is_master=False)
        return cls(store, rank=rank, ranks=ranks, device=device, patience_s=patience_s)

    def least(self, numbers: Sequence[int]) -> list[int]:
        """Of every number the least that a rank has; all have as many."""
        told = torch.tensor(list(numbers), dtype=torch.int64)
        _meeting(lambda: dist.all_reduce(told, op=dist.ReduceOp.MIN))
        return [int(number) for number in told.tolist()]

    def everybody(self, numbers: Sequence[int]) -> list[list[int]]:
        """The numbers of every rank, in order of rank; all have as many."""
        told = torch.tensor(list(numbers), dtype=torch.int64)
        heard = [torch.empty_like(told) for _ in range(self.ranks)]
        _meeting(lambda: dist.all_gather(heard, told))
        return [[int(number) for number in one.tolist()] for one in heard]

    def words(self, text: str) -> list[str]:
        """What every rank says, in order of rank."""
        said = text.encode()
        longest = -self.least([-len(said)])[0]
        told = torch.zeros(longest + 1, dtype=torch.uint8)
        told[: len(said)] = torch.frombuffer(bytearray(said), dtype=torch.uint8)
        heard = [torch.empty_like(told) for _ in range(self.ranks)]
        _meeting(lambda: dist.all_gather(heard, told))
        return [bytes(one.tolist()).rstrip(b"\0").decode(errors="replace") for one in heard]

    def total(self, part: Tensor) -> Tensor:
        """The sum of every rank's `part`, which is used up."""
        _meeting(lambda: dist.all_reduce(part, group=self._tensors))
        return part

    def greatest(self, part: Tensor) -> Tensor:
        """The greatest of every rank's `part`, element by element; `part` is used up."""
        _meeting(lambda: dist.all_reduce(part, op=dist.ReduceOp.MAX, group=self._tensors))
        return part

    def close(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _store(port: int, ranks: int, patience_s: float, *, is_master: bool) -> TCPStore:
    try:
        return TCPStore(
            HOST,
            port,
            ranks,
            is_master=is_master,
            wait_for_workers=False,
            timeout=timedelta(seconds=patience_s),
        )
    except RuntimeError as error:
        raise RankLost(f"ranks cannot meet on {HOST}: {error}") from error


def _meeting(call: Callable[[], object]) -> None:
    """torch says what went wrong in several lines, each time in other words."""
    try:
        call()
    except RuntimeError as error:
        late = "timed out" in str(error).lower() or "timeout" in str(error).lower()
        why = "did not answer in time" if late else "has gone away"
        raise RankLost(f"another rank {why}") from error


def _loopback() -> str:
    return "lo0" if os.uname().sysname == "Darwin" else "lo"
