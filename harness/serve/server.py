"""A running server: its socket, its event loop and its engine, from start to verdict.

Invariant: when `run` returns, the engine's thread has ended and the run directory is complete.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from harness.record.run import Recorded, Recorder
from harness.record.summary import Number
from harness.report.page import build_report
from harness.serve.app import Service
from harness.serve.connections import Connections
from harness.serve.engine import Engine, Stopped
from harness.serve.limits import ServeLimits
from harness.serve.postbox import Postbox
from harness.verdict import Verdict

SEND_BUFFER_BYTES = 128 << 10  # what the system may hold for a client that does not read


class CannotListen(Exception):
    """The address cannot be listened on; the message is one line that says what to type."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a server's life came to. `report` is None where it could not be written."""

    verdict: Verdict
    reason: str
    summary: dict[str, Number]
    recorded: Recorded
    report: Path | None
    failed: Exception | None


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 takes a free one. Raises `CannotListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, else asyncio leaves Nagle's algorithm on and small writes wait 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES
    )  # connections inherit it
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise CannotListen(
            f"--host {host} --port {port}: {(error.strerror or str(error)).lower()};"
            " use another port, or 0 for a free one"
        ) from None
    return sock


class Server:
    """Made for one life: `Server(...).run()`, in the main thread, until a signal or `stop`."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        sock: socket.socket,
        *,
        limits: ServeLimits,
        info: dict[str, object],
        api_key: str = "",
    ) -> None:
        self._engine = engine
        self._recorder = recorder
        self._socket = sock
        self._limits = limits
        self._info = info
        self._api_key = api_key
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self, ready: Callable[[str], None]) -> Served:
        """Serve; `ready(url)` is called once requests are answered."""
        with asyncio.Runner() as runner:
            stopped = runner.run(self._live(ready))
        return self._conclude(stopped)

    def stop(self) -> None:
        """From any thread: let what is open end, and stop."""
        loop, stopping = self._loop, self._stopping
        assert loop is not None
        assert stopping is not None, "it has not begun"
        with contextlib.suppress(RuntimeError):  # it has stopped already
            loop.call_soon_threadsafe(stopping.set)

    async def _live(self, ready: Callable[[str], None]) -> Stopped:
        loop = self._loop = asyncio.get_running_loop()
        stopping = self._stopping = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, stopping.set)
        listening = asyncio.Event()
        server = self._uvicorn(loop, listening)
        self._engine.start()
        serving = asyncio.create_task(server.serve([self._socket]))
        try:
            await listening.wait()
            ready(self.url)
            await stopping.wait()
        finally:
            stopped = await loop.run_in_executor(
                None, lambda: self._engine.stop(drain_s=self._limits.drain_s)
            )
            server.should_exit = True
            await serving
        return stopped

    def _uvicorn(self, loop: asyncio.AbstractEventLoop, listening: asyncio.Event) -> "_Http":
        limits = self._limits
        connections = Connections(most=limits.max_connections, idle_s=limits.idle_s)
        service = Service(
            self._engine, Postbox(loop), connections, limits, self._info, self._api_key
        )
        return _Http(
            uvicorn.Config(
                service.app(),
                http=connections.protocol,  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=int(limits.idle_s) or 1,
                timeout_graceful_shutdown=1,
            ),
            listening,
        )

    def _conclude(self, stopped: Stopped) -> Served:
        verdict, reason = self._verdict(stopped)
        counters = {"verdict": verdict.value, "verdict_reason": reason, **self._engine.counters()}
        self._recorder.marks(self._engine.marks())
        summary = self._recorder.summary(counters)
        failed = stopped.error
        recorded = self._recorder.finish(summary, status="failed" if failed else "finished")
        report: Path | None = None
        with contextlib.suppress(OSError):
            report = build_report(recorded.directory.path)
        return Served(verdict, reason, summary, recorded, report, failed)

    def _verdict(self, stopped: Stopped) -> tuple[Verdict, str]:
        if stopped.violations:
            return Verdict.VIOLATION, f"{stopped.violations} violations were found"
        if stopped.error is not None:
            return Verdict.INCONCLUSIVE, f"the run failed: {stopped.error}"
        done = self._recorder.columns.statuses["completed"]
        if not done:
            return Verdict.INCONCLUSIVE, "no request was completed"
        return Verdict.PASS, f"{done:,} requests completed, no violation"


class _Http(uvicorn.Server):
    """Leaves signals to `Server`, and says when it listens."""

    def __init__(self, config: uvicorn.Config, listening: asyncio.Event) -> None:
        super().__init__(config)
        self._listening = listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()
