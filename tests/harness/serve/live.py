"""A real server on a free port of the loopback, in threads of this process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from harness.cli.serve import plan_of
from harness.faults import fault_named
from harness.record.directory import RunDirectory
from harness.record.manifest import Manifest
from harness.record.run import Recorder
from harness.serve.engine import Engine
from harness.serve.limits import ServeLimits
from harness.serve.server import Served, Server, listen
from harness.soak.settings import Serving

READY_S = 60.0
SMALL = {"compute": "null", "device_pages": 200, "page_size": 16, "context_length": 1024}


@dataclass
class Live:
    url: str
    engine: Engine
    client: httpx.Client
    model: str
    stop: Callable[[], None]
    served: list[Served] = field(default_factory=list)

    def complete(self, prompt, max_tokens=4, **more):
        """The reply to one completion that must succeed."""
        body = {"prompt": prompt, "max_tokens": max_tokens, **more}
        reply = self.client.post("/v1/completions", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def flush(self) -> None:
        reply = self.client.get("/flush_cache", params={"timeout": 20})
        assert reply.status_code == 200, reply.text

    def state(self) -> dict:
        return self.client.get("/get_server_info").json()["internal_states"][0]

    def metrics(self) -> dict[str, float]:
        """Sample, with its labels but the model's name, to value."""
        lines = self.client.get("/metrics").text.splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        label = f'model_name="{self.model}"'
        names = [name.replace(f",{label}", "").replace(label, "") for name, _ in pairs]
        values = [float(value) for _, value in pairs]
        return {name.removesuffix("{}"): v for name, v in zip(names, values, strict=True)}

    def assert_whole(self) -> None:
        """Nothing is open, and after a flush every slot of every pool is free."""
        self.flush()
        state = self.state()
        assert state["open"] == state["running"] == state["queued"] == 0
        for name, pool in state["pools"].items():
            assert pool["free_pages"] == pool["total_pages"], name


@contextmanager
def serving(folder: Path, *, fault="", limits=None, api_key="", **settings) -> Iterator[Live]:
    """`settings` are those of `Serving`, over small ones; `live.served` is filled at the end."""
    serve = Serving(**{**SMALL, **settings})
    plan = plan_of(serve)
    manifest = Manifest(command="serve", clock="wall", seed=0, settings={}, workload={})
    directory = RunDirectory.create(folder, "serve")
    with Recorder(directory, manifest) as recorder:
        engine = Engine(
            plan,
            recorder,
            oracles="every",
            radix_cache=serve.radix_cache,
            storage=None if plan.storage is None else plan.storage.open(folder / "storage"),
            fault=fault_named(fault) if fault else None,
        )
        server = Server(
            engine,
            recorder,
            listen("127.0.0.1", 0),
            limits=limits or ServeLimits(drain_s=20.0),
            info={"served_model_name": plan.shape.name},
            api_key=api_key,
        )
        ready = threading.Event()
        served: list[Served] = []
        thread = threading.Thread(target=lambda: served.append(server.run(lambda _: ready.set())))
        thread.start()
        try:
            assert ready.wait(READY_S)
            headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
            with httpx.Client(base_url=server.url, headers=headers, timeout=READY_S) as client:
                live = Live(server.url, engine, client, plan.shape.name, server.stop, served)
                yield live
        finally:
            server.stop()
            thread.join(READY_S)
        assert not thread.is_alive()
