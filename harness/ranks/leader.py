"""The first rank: its wall clock is everybody's, and what the others find is written down by it.

Invariant: nothing that another rank has told is lost, however the run ends.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from harness.explore.kernel import Ended
from harness.oracles import Violation
from harness.ranks.crew import GRACE_S, Crew, OnViolation
from harness.ranks.group import PATIENCE_S, Doorway, Group
from harness.ranks.member import Member
from harness.ranks.party import RankLost
from harness.ranks.recorded import AgreementsFile
from harness.ranks.told import Told
from harness.record.ranks import RankRow
from harness.serve.wall_clock import WallClock
from harness.soak.settings import Serving, Traffic, Watching
from harness.soak.wall import recorded_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Voyage:
    """What all ranks are told alike, and how long they wait for each other. `fault` is put into the
    cache of the last one."""

    serving: Serving
    traffic: Traffic
    watching: Watching
    patience_s: float = PATIENCE_S
    fault: str = ""


class Leader(Member):
    """A `Party`."""

    def __init__(
        self,
        group: Group,
        crew: Crew,
        agreements: AgreementsFile,
        on_violation: OnViolation,
        patience_s: float,
    ) -> None:
        super().__init__(group, agreements.add)
        self._agreements = agreements
        self._crew = crew
        self._on_violation = on_violation
        self._patience_s = patience_s
        self._why = ""

    def together(self, numbers: Mapping[str, int]) -> dict[str, list[int]]:
        self._agreements.flush()  # every second, as whatever else is written down
        return super().together(numbers)

    def ended(self, ended: Ended | None) -> None:
        """Whoever cannot go on with the others is let go of, so that nobody waits for it."""
        if ended is not None and isinstance(ended.error, RankLost):
            self._let_go(ended.now)
            return
        self._crew.end()
        if ended is None:
            self._crew.kill()
        elif ended.reason == "raised":
            self._crew.wait_for_rows(GRACE_S)
            self._crew.kill()

    def last(self, mine: RankRow, lost: str) -> tuple[list[RankRow], str]:
        crew = self._crew
        if lost and not self._why:
            self._let_go(0.0)
        elif not crew.wait_for_rows(self._patience_s) and not self._why:
            self._why = crew.why_lost()
        for row in crew.rows.values():
            if not self._why and row.digest != mine.digest:
                self._on_violation(_apart(mine, row))
        missed = [RankRow(rank=rank, status="lost") for rank in crew.lost]
        rows = sorted([mine, *crew.rows.values(), *missed], key=lambda row: row.rank)
        return rows, self._why

    def _let_go(self, now_s: float) -> None:
        after = f", after {now_s:,.1f} s" if now_s else ""
        self._why = self._crew.why_lost() + after
        self._crew.kill()


@contextmanager
def leading(
    voyage: Voyage,
    folder: Path,
    device: str,
    on_violation: OnViolation,
) -> Iterator[tuple[WallClock, Leader]]:
    """Everything for the first rank's soak, whose run is in `folder`; the other ranks' processes
    are there, and have met. Raises `RankLost` where one has not come."""
    if device != "cpu":
        torch.cuda.set_device(device)
    ranks, patience_s = voyage.serving.tp, voyage.patience_s
    doorway = Doorway(ranks, patience_s)
    told = [_told(voyage, folder, rank, doorway.port) for rank in range(1, ranks)]
    with (
        closing(AgreementsFile(folder)) as agreements,
        Crew(told, on_violation) as crew,
        recorded_clock(folder, crew.tell) as clock,
        Group(doorway.store, rank=0, ranks=ranks, device=device, patience_s=patience_s) as group,
    ):
        crew.on_news = lambda: clock.call(crew.hear)
        yield clock, Leader(group, crew, agreements, on_violation, patience_s)
        whole = not crew.lost
    for one in told if whole else ():
        shutil.rmtree(one.folder)  # all of it has been told


def _told(voyage: Voyage, folder: Path, rank: int, port: int) -> Told:
    own = folder / f"rank{rank}"
    own.mkdir()
    last = rank == voyage.serving.tp - 1
    return Told(
        serving=voyage.serving,
        traffic=voyage.traffic,
        watching=voyage.watching,
        rank=rank,
        port=port,
        folder=str(own),
        patience_s=voyage.patience_s,
        fault=voyage.fault if last else "",
    )


def _apart(mine: RankRow, other: RankRow) -> dict[str, object]:
    apart = Violation("R1", "digest", mine.digest, f"{other.digest} on rank {other.rank}", 0, 0.0)
    return {**apart.record(), "rank": mine.rank}
