"""The processes of all ranks but the first: begun, told what to follow, listened to, ended.

Invariant: when the block is left, however it is, no process of it is there any more.
"""

import multiprocessing as mp
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import NamedTuple, Self

from harness.explore.kernel import Task
from harness.ranks.follower import work
from harness.ranks.party import RankLost
from harness.ranks.told import Found, News, Told, Word
from harness.record.decisions import Decision
from harness.record.ranks import RankRow

START_S = 120.0  # for a process to come up, on a machine with other things to do
GRACE_S = 3.0  # for it to go
POLL_S = 0.05
OnViolation = Callable[[Mapping[str, object]], None]


class Hand(NamedTuple):
    """One rank's process, and the pipe to it."""

    rank: int
    process: SpawnProcess
    pipe: Connection


class Crew:
    """A context manager. `on_violation(record)` is told what ranks find, `on_news()` in another
    thread that there is something to `hear`."""

    def __init__(self, told: Sequence[Told], on_violation: OnViolation) -> None:
        self.on_news: Callable[[], object] = lambda: None
        self.rows: dict[int, RankRow] = {}
        self._told = told
        self._on_violation = on_violation
        self._hands: list[Hand] = []
        self._news: SimpleQueue[tuple[int, News | None]] = SimpleQueue()
        self._gone: set[int] = set()  # whose pipe has ended
        self._answered: set[int] = set()
        self._over = False  # nothing is left to follow

    def __enter__(self) -> Self:
        """Returns when every process is about to meet the others. Raises `RankLost`."""
        context = mp.get_context("spawn")
        with _undisturbed():
            for told in self._told:
                mine, theirs = context.Pipe()
                process = context.Process(
                    target=work, args=(told, theirs), name=f"rank {told.rank}", daemon=True
                )
                process.start()
                theirs.close()
                self._hands.append(Hand(told.rank, process, mine))
        try:
            for hand in self._hands:
                self._wait_until_here(hand)
        except BaseException:
            self._end_all()
            raise
        for hand in self._hands:
            threading.Thread(target=self._listen, args=(hand,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_all()

    def tell(self, task: Task, now_ns: int) -> None:
        """The first rank's clock goes on with `task`."""
        self._send(Decision(task.number, now_ns, task.point.name))

    def end(self) -> None:
        """There is nothing more to follow."""
        self._over = True
        self._send(Word.END)

    def hear(self) -> None:
        """Take note of what has come. Raises `RankLost` where a rank has left before its time."""
        with suppress(Empty):
            while True:
                self._take(*self._news.get_nowait())

    def wait_for_rows(self, patience_s: float) -> bool:
        """Until every rank has said what it comes to. False where one does not."""
        deadline = time.monotonic() + patience_s
        while len(self.rows) < len(self._hands) and not self._gone - self.rows.keys():
            with suppress(Empty):
                self._take(*self._news.get(timeout=POLL_S))
            if time.monotonic() > deadline:
                break
        return len(self.rows) == len(self._hands)

    def why_lost(self) -> str:
        """In one line, what became of a rank that others have missed. Takes a few seconds."""
        self._over = True
        ended = wait([hand.process.sentinel for hand in self._hands], timeout=GRACE_S)
        self.hear()
        for hand in self._hands:
            if hand.rank not in self.rows and hand.process.sentinel in ended:
                return f"rank {hand.rank} {_how_it_ended(hand.process)}"
        self._send(Word.PING)
        deadline = time.monotonic() + GRACE_S
        while len(self._answered) < len(self._hands) and time.monotonic() < deadline:
            with suppress(Empty):
                self._take(*self._news.get(timeout=POLL_S))
        silent = [str(hand.rank) for hand in self._hands if hand.rank not in self._answered]
        if silent:
            return f"rank {' and '.join(silent)} does not answer"
        return "ranks waited for each other in vain"

    @property
    def lost(self) -> list[int]:
        """Those that have not said what they come to."""
        return [hand.rank for hand in self._hands if hand.rank not in self.rows]

    def kill(self) -> None:
        """Whoever is still there meets nobody any more."""
        for hand in self._hands:
            hand.process.kill()

    # -- helpers -----------------------------------------------------------------------------

    def _take(self, rank: int, news: News | None) -> None:
        if isinstance(news, Found):
            self._on_violation(news.record)
        elif isinstance(news, RankRow):
            self.rows[rank] = news
        elif news is Word.PONG:
            self._answered.add(rank)
        elif news is None:
            self._gone.add(rank)
            if not self._over:
                raise RankLost(f"rank {rank} has gone away")

    def _send(self, word: Decision | Word) -> None:
        for hand in self._hands:
            with suppress(OSError):  # it has gone, which its pipe tells by itself
                hand.pipe.send(word)

    def _listen(self, hand: Hand) -> None:
        while True:
            try:
                news = hand.pipe.recv()
            except (EOFError, OSError):
                news = None
            self._news.put((hand.rank, news))
            self.on_news()
            if news is None:
                return

    def _wait_until_here(self, hand: Hand) -> None:
        came = wait([hand.pipe, hand.process.sentinel], timeout=START_S)
        if not came:
            raise RankLost(f"rank {hand.rank} did not come up in {START_S:.0f} s")
        try:
            here = hand.pipe.recv() is Word.HERE
        except (EOFError, OSError):
            here = False
        if not here:
            raise RankLost(f"rank {hand.rank} {_how_it_ended(hand.process)}")

    def _end_all(self) -> None:
        """Whoever has said all there is goes by itself, others are made to."""
        for hand in self._hands:
            if hand.rank in self.rows:
                hand.process.join(GRACE_S)
            if hand.process.is_alive():
                hand.process.kill()
        for hand in self._hands:
            hand.process.join()
            hand.pipe.close()
            hand.process.close()
        self._hands.clear()


def _how_it_ended(process: SpawnProcess) -> str:
    """It has let go of everything, and will be over any moment."""
    process.join(GRACE_S)
    code = process.exitcode
    if code is None:
        return "does not end"
    return f"was killed by signal {-code}" if code < 0 else f"left with exit code {code}"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Processes that begin here take no Ctrl-C: it is meant for the first rank."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
