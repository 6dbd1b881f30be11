"""A rank that is not the first, in a process of its own: the same soak, on the first rank's clock.

Invariant: it leaves when the first rank has, whatever it was doing.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

import torch

from harness.ranks.following import FollowingClock
from harness.ranks.group import Group
from harness.ranks.member import Member
from harness.ranks.told import Found, News, Told, Word
from harness.record.decisions import Decision
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.soak.live import SilentScreen
from harness.soak.plan import plan_server, plan_traffic
from harness.soak.run import Soak

BETWEEN = ("R1", "R2")  # which every rank finds when the first does


def work(told: Told, pipe: Connection) -> None:
    """A process's main. Ctrl-C is for the first rank to take."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Line(pipe)
    server = plan_server(told.serving, clock="wall", seed=told.traffic.seed, rank=told.rank)
    assert server.model is not None
    device = server.model.device
    if device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(device)
    line.say(Word.HERE)
    group = Group.entered(
        told.port,
        rank=told.rank,
        ranks=server.ranks,
        device=device,
        patience_s=told.patience_s,
    )
    manifest = Manifest(command="", clock="wall", seed=told.traffic.seed, settings={}, workload={})
    with group, Telling(RunDirectory(Path(told.folder)), manifest, line) as recorder:
        soak = Soak(
            server,
            plan_traffic(told.traffic),
            told.watching,
            radix_cache=True,
            warmup_requests=told.traffic.warmup_requests,
            recorder=recorder,
            screen=SilentScreen(),
            clock=FollowingClock(line.decisions()),
            party=Member(group, fault=told.fault),
        )
        soak.live()
        line.say(soak.rank_row())


class Line:
    """This end of the pipe. What comes is read by a thread, so that the first rank never waits."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._heard: SimpleQueue[Decision | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="line", daemon=True).start()

    def say(self, news: News) -> None:
        try:
            with self._lock:
                self._pipe.send(news)
        except OSError:
            os._exit(1)  # nobody is left to tell

    def decisions(self) -> Iterator[Decision]:
        while (decision := self._heard.get()) is not None:
            yield decision

    def _listen(self) -> None:
        while True:
            try:
                heard = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(1)
            if heard is Word.PING:
                self.say(Word.PONG)
            else:
                self._heard.put(None if heard is Word.END else heard)


class Telling(Recorder):
    """Tells the first rank of violations as they are found, but for those that it finds as well."""

    def __init__(self, directory: RunDirectory, manifest: Manifest, line: Line) -> None:
        super().__init__(directory, manifest)
        self._line = line

    def violation(self, record: Mapping[str, object]) -> None:
        super().violation(record)
        if record["oracle"] not in BETWEEN or record["signature"] == "followed":
            self._line.say(Found(dict(record)))
