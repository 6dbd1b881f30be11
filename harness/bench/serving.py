"""What HTTP costs a request, on top of the engine that serves it.

The same requests, one at a time, first handed to an engine of this process, then sent to a server
of another over one connection of the loopback. Invariant: both have the same plan, all oracles off,
and forwards that take no time, so the difference is the server's.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from harness.bench.server import PATIENCE_S, server
from harness.bench.sheet import Cell, Sheet
from harness.engine.job import token_bytes
from harness.load.exchange import Line
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.serve.engine import Engine
from harness.serve.received import Received, Ticket
from harness.soak.plan import plan_server
from harness.soak.settings import Serving
from workloads.tokens import Span, synthesize

PROMPT, ANSWER = 512, 16
SERVING = Serving(compute="null", components=("full",), device_pages=4000)
FLAGS = ("--compute", "null", "--components", "full", "--device-pages", "4000", "--oracles", "off")
VOCAB = 32000
Serve = Callable[[list[int]], None]  # one request, until its last token is here


def measure(requests: int) -> Sheet:
    with TemporaryDirectory() as folder:
        with _engine(Path(folder)) as serve:
            alone = _seconds(serve, requests)
        with server(FLAGS, Path(folder)) as url, closing(_line(url)) as line:
            whole = _seconds(_in_one_piece(line), requests)
            streamed = _seconds(_streamed(line), requests)
    rows = (("engine alone", alone), ("over HTTP, in one piece", whole),
            ("over HTTP, streamed", streamed))  # fmt: skip
    return Sheet(
        name="serve",
        title="Server: what HTTP costs a request",
        notes=(
            f"{requests} requests one after the other, {PROMPT} prompt tokens that share nothing,"
            f" {ANSWER} tokens of answer; --compute null, oracles off; server and client on this"
            " machine, one connection, the client's own work counted in.",
            "overhead: the median above that of the engine alone.",
        ),
        columns=("path", "median_us", "p90_us", "p99_us", "overhead_us"),
        rows=tuple(_row(name, seconds, alone) for name, seconds in rows),
    )


def _row(name: str, seconds: list[float], alone: list[float]) -> tuple[Cell, ...]:
    median, p90, p99 = (float(value) * 1e6 for value in np.percentile(seconds, (50, 90, 99)))
    overhead = median - float(np.percentile(alone, 50)) * 1e6
    return name, median, p90, p99, None if seconds is alone else overhead


def _seconds(serve: Serve, requests: int) -> list[float]:
    taken = []
    for number in range(requests + 3):
        prompt: list[int] = synthesize([Span(number, 0, PROMPT)], VOCAB).tolist()
        start = time.perf_counter()
        serve(prompt)
        taken.append(time.perf_counter() - start)
    return taken[3:]  # without the first, which open connections and warm caches


@contextmanager
def _engine(folder: Path) -> Iterator[Serve]:
    manifest = Manifest(command="bench", clock="wall", seed=0, settings={}, workload={})
    with Recorder(RunDirectory.create(folder, "engine"), manifest) as recorder:
        engine = Engine(plan_server(SERVING), recorder, oracles="off", radix_cache=True)
        changed = threading.Event()
        numbered = 0

        def serve(prompt: list[int]) -> None:
            nonlocal numbered
            numbered += 1
            ticket = Ticket(_received(numbered, prompt), lambda ticket: changed.set())
            engine.submit(ticket)
            while ticket.ended is None:
                changed.wait(PATIENCE_S)
                changed.clear()
            assert ticket.generated == ANSWER, ticket.error

        engine.start()
        try:
            yield serve
        finally:
            engine.stop(drain_s=PATIENCE_S)


def _received(number: int, prompt: list[int]) -> Received:
    return Received(
        request_id=f"bench-{number}",
        session_id=f"bench-{number}",
        turn=0,
        prompt=(Span(0, 0, len(prompt)),),
        output=(Span(0, 0, ANSWER),),
        arrival_s=0.0,
        data=token_bytes(np.array(prompt, np.int32)),
        arrived=time.monotonic(),
    )


def _line(url: str) -> Line:
    return Line(url, api_key="", timeout_s=PATIENCE_S)


def _in_one_piece(line: Line) -> Serve:
    def serve(prompt: list[int]) -> None:
        status, text = line.fetch("POST", "/v1/completions", _body(prompt, stream=False))
        assert status == 200, text

    return serve


def _streamed(line: Line) -> Serve:
    def serve(prompt: list[int]) -> None:
        outcome = line.complete(_body(prompt, stream=True), lambda: None)
        assert not outcome.error, outcome.error

    return serve


def _body(prompt: list[int], *, stream: bool) -> str:
    return json.dumps({"prompt": prompt, "max_tokens": ANSWER, "stream": stream})
