"""A small server around a release's scheduler, as tasks of the kernel.

    R<n>   a client: sends its prompt and waits for the answer
    A<n>   that client goes away
    sched  the scheduler's event loop, one pass after the other
    fwd    the forward stream: the model runs a batch that was launched
    d2h    the copy stream to the host; h2d the one back

Everything of the scheduler runs on its one thread, so other tasks come between its passes and
between the launch of a batch and the processing of its result, as on a GPU, and nowhere else.

Invariant: the scenario and the choices decide everything.
"""

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol

import numpy as np

from harness.explore.kernel import Kernel, Signal
from harness.explore.outcome import Scenario
from harness.targets.sglang import serving
from harness.targets.sglang.background import background_of
from harness.targets.sglang.device import Copy, Device, Event, Stream
from harness.targets.sglang.driver import make_scheduler
from harness.targets.sglang.prompts import Prompt, prompts_of
from harness.targets.sglang.release import Release
from harness.targets.sglang.scenario import shape_of
from harness.targets.sglang.storage import Page, Prints
from harness.targets.sglang.tokens import ANSWER, grow
from harness.targets.sglang.view import NAMES, field_of

CACHE, INBOX = ("cache",), ("inbox",)
SERVE, RECEIVE, PROCESS = "scheduler.serve", "scheduler.receive", "scheduler.process"
PASSES_AT_REST = 40
Pass = Callable[[list[Any]], Awaitable[bool]]


def copy_streams(controller: Any) -> tuple[Stream, Stream]:
    """The streams to the host and back; a transfer engine has them from 0.5.17 on."""
    engine = getattr(controller, "l2_transfer_engine", None)
    if engine is not None:
        return engine.device_to_host_stream, engine.host_to_device_stream
    return controller.write_stream, controller.load_stream


class Launch:
    """A batch on its way through the model: where each request reads and writes."""

    def __init__(self, world: "World", batch: Any) -> None:
        self.rows: list[Row] = []
        self.begun, self.done = Event(), Event()
        self.awaits = Event()  # the end of the load-back that it reads; done, where it reads none
        self.extending = extending = batch.forward_mode.is_extend()
        prefixes = batch.prefix_lens if extending else [int(n) - 1 for n in batch.seq_lens]
        for at, req in enumerate(batch.reqs):
            start = int(prefixes[at]) if at < len(prefixes) else int(batch.seq_lens[at]) - 1
            self.rows.append(world.row_of(req, start, int(batch.seq_lens[at])))
        names = ("mamba_cow_src_indices", "mamba_cow_dst_indices", "mamba_clear_indices")
        found = [_states(batch, name) if extending else None for name in names]
        self.copied, self.cleared = found[:2], found[2]
        self.prepared = False  # they have been
        self.tokens = [row.truth[row.stop] for row in self.rows]


def _states(batch: Any, name: str) -> Any:
    """States that the model clears or copies before it runs, where the release leaves that to it
    (`ModelRunner`, from 0.5.13 on)."""
    found = getattr(batch, name, None)
    return None if found is None else found.numpy().copy()


class Row:
    """One request of a launched batch: it reads up to `start` and writes [`start`, `stop`)."""

    def __init__(self, rid: str, start: int, stop: int, truth: Any) -> None:
        self.rid = rid
        self.start = start
        self.stop = stop
        self.truth = truth
        self.full: Any = None
        self.swa: Any = None
        self.state = -1

    def writes(self, component: str) -> Any:
        """The device slots that the model writes for it."""
        if component == "mamba":
            return np.array([self.state] if self.state >= 0 else [], dtype=np.int64)
        slots = self.full if component == "full" else self.swa
        return slots[self.start : self.stop]


class Watcher(Protocol):
    """Somebody who is told what the model and the scheduler do."""

    def reads(self, row: Row) -> None: ...

    def copies(self, copy: Copy) -> None: ...

    def pages(self, page: Page) -> None: ...

    def kept(self, key: str, prints: Prints) -> None: ...

    def settled(self) -> None: ...


class World:
    """Built for one run of one scenario around a fresh cache of the release."""

    def __init__(
        self,
        release: Release,
        scenario: Scenario,
        *,
        kernel: Kernel | None = None,
        changed: Signal | None = None,
    ) -> None:
        """The kernel and the signals are its own, unless it is one of several ranks."""
        self.kernel = kernel or Kernel()
        self.release = release
        self.shape = shape_of(scenario)
        self.prompts = prompts_of(scenario)
        self.background = background_of(release, scenario, self.shape, self.kernel)
        self.scheduler, self.pools = make_scheduler(release, self.shape, self.answered)
        # Replay files from before this was drawn do not say: there it was one at a time.
        release.allow_running(self.shape.running if scenario.get("together") else 1)
        self.cache = self.scheduler.tree_cache
        self.watchers: list[Watcher] = []
        self.live: dict[str, Any] = {}  # requests that the scheduler was given and has not ended
        self.ended: dict[str, str] = {}
        self.truth: dict[str, Any] = {}  # a token for each position
        self.era = release.era
        self._launched: Launch | None = None
        self.serving = False  # the story has not begun
        self.in_flight: list[Launch] = []  # batches that the model has yet to run
        self.inbox: list[Any] = []
        self._changed = changed or Signal("changed")
        self._answers = {prompt.rid: Signal("answer") for prompt in self.prompts}
        self._result = Signal("result")
        self._awaits: Callable[[], bool] = lambda: True  # what `_result` is fired for
        self.issued: dict[str, Signal] = {}
        self.streams: dict[str, Stream] = {"fwd": self.scheduler.forward_stream}
        controller = self.cache.cache_controller
        if controller is not None:
            to_host, to_device = copy_streams(controller)
            self.streams |= {"d2h": to_host, "h2d": to_device}
        for name, stream in self.streams.items():
            stream.name, stream.deferred = name, True
            self.issued[name] = Signal(f"{name}.issued")
        if self.background is not None:
            kinds = [NAMES[int(kind)] for kind in self.cache.tree_components]
            self.background.hold(self.prompts, kinds)
            self.background.report_to(lambda: self.watchers, self.kick)

    def start(self) -> None:
        spawn = self.kernel.spawn
        spawn("sched", self._loop(), daemon=True)
        for name in self.streams:
            spawn(name, self.run_stream(name), daemon=True)
        if self.background is not None:
            self.background.start(self.cache)
        for prompt in self.prompts:
            if prompt.served:
                continue
            spawn(f"R{prompt.id}", self._client(prompt))
            if prompt.abort:
                spawn(f"A{prompt.id}", self._leave(prompt))

    # -- tasks ---------------------------------------------------------------------------------

    async def _client(self, prompt: Prompt) -> None:
        if prompt.waits_for is None or prompt.waits_for in self.ended:
            await self.kernel.point("client.send", INBOX)
        else:
            await self.kernel.wait(self.answer_to(prompt.waits_for), "client.send", INBOX)
        self.post(prompt)
        await self.kernel.wait(self.answer_to(prompt.rid), "client.wait")

    def answer_to(self, rid: str) -> Signal:
        """Fired once: when the request has ended, whichever way."""
        return self._answers[rid]

    async def _leave(self, prompt: Prompt) -> None:
        await self.kernel.point("client.abort", INBOX)
        self.post(self.release.abort_of(prompt.rid))

    async def run_stream(self, name: str) -> None:
        stream = self.streams[name]
        point = {"fwd": "forward.run", "d2h": "copy.to_host", "h2d": "copy.to_device"}[name]
        while True:
            if stream.ready:
                await self.kernel.point(point, CACHE)
            else:
                await self.kernel.wait(self.issued[name], point, CACHE)
            if not stream.ready:
                continue  # the scheduler's thread has waited for it meanwhile
            if (copy := stream.next_copy) is not None:
                for watcher in self.watchers:
                    watcher.copies(copy)
            stream.run_next()
            self.kick()

    async def _loop(self) -> None:
        """`Scheduler.event_loop_normal`, or `event_loop_overlap`: the same calls, in that order."""
        run = self._pass_overlapped if self.shape.overlap else self._pass
        results: list[tuple[Any, Any, Launch]] = []
        self.scheduler.result_queue = results
        await self._serve(run, results)
        idle = 0
        while True:
            if idle > serving.SPINS and not self.inbox:
                await self.kernel.wait(self._changed, RECEIVE, CACHE)
                idle = 0
            else:
                await self.turn()
            self.receive()
            busy = await run(results)
            idle = 0 if busy else idle + 1

    async def _serve(self, run: Pass, results: list[Any]) -> None:
        """Before the story begins: the same passes, for one request after the other, and whatever
        goes to a stream runs at once. All of it is one step."""
        served = [prompt for prompt in self.prompts if prompt.served]
        if not served:
            return
        await self.kernel.point(SERVE, CACHE)
        self.serving = True

        async def turn() -> bool:
            self.receive()
            return await run(results)

        mail, self.inbox = self.inbox, []
        await serving.serve(served, self.post, turn)
        self.inbox = mail
        self.serving = False

    async def turn(self) -> None:
        """The loop begins a pass."""
        await self.kernel.point(RECEIVE, CACHE)

    async def _pass(self, results: list[tuple[Any, Any, Launch]]) -> bool:
        """The rest of a pass of `event_loop_normal`; whether there was a batch."""
        scheduler = self.scheduler
        batch = self.schedule()
        self.settle()
        if batch:
            launch, result = self.launch(batch)
            await self.synchronize(lambda: launch.done.query())
            self.process(batch, result)
        else:
            scheduler.on_idle()
        scheduler.last_batch = batch
        self.settle()
        return bool(batch)

    async def _pass_overlapped(self, results: list[tuple[Any, Any, Launch]]) -> bool:
        """The rest of a pass of `event_loop_overlap`; whether there was anything to do."""
        scheduler = self.scheduler
        if self.era.barrier == "schedule":
            self.wait_for_forward()
        batch = self.schedule()
        self.settle()
        disabled = self.overlap_disabled(batch)
        busy = bool(batch or scheduler.last_batch)
        if disabled:
            await self._process_oldest(results)
        if batch:
            launch, result = self.launch(batch)
            if self.era.barrier == "launch":
                self.wait_for_forward()
            results.append((batch.copy(), result, launch))
        if scheduler.last_batch:
            if not disabled:
                await self._process_oldest(results)
        elif batch is None:
            scheduler.on_idle()
        scheduler.last_batch = batch
        self.settle()
        return busy

    def schedule(self) -> Any:
        """`get_next_batch_to_run` and what the loop does with it."""
        scheduler = self.scheduler
        if self.era.plans:
            plan = scheduler.get_next_batch_to_run(
                running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
            )
            scheduler.running_batch = plan.running_batch
            scheduler.cur_batch_for_debug = plan.batch_to_run
            return plan.batch_to_run
        scheduler.cur_batch = batch = scheduler.get_next_batch_to_run()
        return batch

    def overlap_disabled(self, batch: Any) -> Any:
        """Whether the loop processes the result of before first."""
        scheduler = self.scheduler
        if self.era.plans:
            return scheduler.is_disable_overlap_for_batch(batch, last_batch=scheduler.last_batch)
        return scheduler.is_disable_overlap_for_batch(batch)

    def wait_for_forward(self) -> None:
        """`_apply_war_barrier`: what the scheduler issues from now on runs after the forward pass
        last launched, or after its begin where that is enough for what the barrier is for."""
        launch = self._launched
        if launch is not None:
            early = self.era.graphs and not launch.extending
            Device.default.wait_event(launch.begun if early else launch.done)

    async def _process_oldest(self, results: list[tuple[Any, Any, Launch]]) -> None:
        batch, result, launch = results[0]
        await self.synchronize(lambda: launch.done.query())
        results.pop(0)
        self.process(batch, result)

    async def synchronize(self, done: Callable[[], bool]) -> None:
        """The scheduler thread waits for a result, as `copy_done.synchronize()` does. Others may
        run here even where it is there already, unless the story has not begun."""
        if not self.serving and done():
            await self.kernel.point(PROCESS, CACHE)
        while not done():
            self._awaits = done
            await self.kernel.wait(self._result, PROCESS, CACHE)

    # -- what the scheduler is given -----------------------------------------------------------

    def post(self, item: Any) -> None:
        """Something for the scheduler: a prompt, or a client's going away."""
        self.inbox.append(item)
        self._changed.fire()

    @property
    def has_mail(self) -> bool:
        return bool(self.inbox)

    def receive(self) -> None:
        """`recv_requests` and `process_input_requests`: all that came meanwhile, in order."""
        while self.inbox:
            item = self.inbox.pop(0)
            if isinstance(item, Prompt):
                self._admit(item)
            else:
                self.scheduler.abort_request(item)

    def _admit(self, prompt: Prompt) -> None:
        """`handle_generate_request`, without multimodal inputs, grammars and sessions."""
        tokens = prompt.tokens(self.prompts)
        req = self.release.request_of(prompt.rid, tokens, prompt.answer)
        self.scheduler.init_req_max_new_tokens(req)
        self.truth[prompt.rid] = grow(tokens, ANSWER, prompt.answer + 2)
        self.live[prompt.rid] = req
        if self.background is not None:
            self.background.learn(self.truth[prompt.rid])
        self.scheduler._add_request_to_queue(req)

    def launch(self, batch: Any) -> tuple[Launch, Any]:
        """`run_batch`: the forward pass goes to its stream, behind the load-backs it reads."""
        launch = Launch(self, batch)
        stream = self.streams["fwd"]
        consumer = getattr(batch, "hicache_consumer_index", -1)
        if consumer is not None and consumer >= 0:
            counter = self.cache.cache_controller.layer_done_counter
            launch.awaits = counter.events[consumer].finish_event
            if launch.copied[0] is not None and not self.era.waits_to_copy:
                stream.issue("states", lambda: self._prepare_states(launch))
            stream.wait_event(launch.awaits)
        if self.era.graphs and self.shape.overlap and not launch.extending:
            stream.issue("begin", lambda: None)
            launch.begun.record(stream)
        stream.issue("forward", lambda: self._forward(launch))
        launch.done.record(stream)
        result = self.release.result_of(launch.tokens, launch.done)
        batch.output_ids = result.next_token_ids
        self.scheduler.forward_ct += 1
        self._launched = launch
        self.in_flight.append(launch)
        self.kick()
        return launch, result

    def process(self, batch: Any, result: Any) -> None:
        """`process_batch_result`: what a forward pass came to reaches the requests."""
        self.scheduler.process_batch_result(batch, result)

    def row_of(self, req: Any, start: int, stop: int) -> Row:
        """Where a request's tokens lie as its batch is launched."""
        row = Row(req.rid, start, stop, self.truth[req.rid])
        table = self.pools.rows.req_to_token.numpy()
        row.full = table[int(field_of(req, "req_pool_idx")), :stop].astype(np.int64)
        if self.shape.window:
            row.swa = self.pools.allocator.full_to_swa_index_mapping.numpy()[row.full]
        if self.shape.states:
            row.state = int(field_of(req, "mamba_pool_idx"))
        return row

    def _forward(self, launch: Launch) -> None:
        """The model: reads what is cached before a request's new tokens, writes theirs."""
        self.in_flight.remove(launch)
        self._prepare_states(launch)
        for row in launch.rows:
            for watcher in self.watchers:
                watcher.reads(row)
        for row in launch.rows:
            new = slice(row.start, row.stop)
            written = row.truth[new]
            full = self.pools.full.k_buffer[0].numpy()
            full[row.full[new], 0, 0] = written
            if row.swa is not None:
                swa = self.pools.swa.k_buffer[0].numpy()
                swa[row.swa[new], 0, 0] = written
            if row.state >= 0:
                states = self.pools.states.mamba_cache.temporal.numpy()
                states[0, row.state] = written[-1]

    def _prepare_states(self, launch: Launch) -> None:
        """`_maybe_execute_deferred_mamba_cow_and_clear`, once: before any layer waits for its
        load-back, unless the release waits there."""
        if not launch.prepared and self.pools.states is not None:
            states = self.pools.states.mamba_cache.temporal.numpy()
            source, target = launch.copied
            if launch.cleared is not None:
                states[0, launch.cleared] = 0
            if source is not None:
                states[0, target] = states[0, source]
        launch.prepared = True

    # -- helpers -------------------------------------------------------------------------------

    def answered(self, req: Any) -> None:
        self.ended[req.rid] = type(req.finished_reason).__name__
        self.live.pop(req.rid, None)
        self._answers[req.rid].fire()

    def settle(self) -> None:
        """The scheduler is between two calls: whoever watches may look."""
        self._start_streams()
        for watcher in self.watchers:
            watcher.settled()

    def kick(self) -> None:
        self._start_streams()
        self._changed.fire()
        if self._awaits():
            self._result.fire()

    def _start_streams(self) -> None:
        if self.serving:
            self.drain()
        for name, stream in self.streams.items():
            if stream.ready:
                self.issued[name].fire()
        if self.background is not None:
            self.background.wake()

    def rest(self) -> None:
        """All requests have ended: what is in flight lands, and the loop turns until it is idle."""
        scheduler = self.scheduler
        for _ in range(PASSES_AT_REST):
            self.drain()
            for batch, result, _ in scheduler.result_queue:
                self.process(batch, result)
            scheduler.result_queue.clear()
            self.receive()
            scheduler.last_batch = batch = self.schedule()
            if batch:
                launch, result = self.launch(batch)
                scheduler.result_queue.append((batch.copy(), result, launch))
            elif scheduler.is_fully_idle() and not any(s.behind for s in self.streams.values()):
                scheduler.on_idle()
                return
            self.settle()

    def close(self) -> None:
        """The run is over, however it ended."""
        if self.background is not None:
            self.background.close()

    def drain(self) -> None:
        """All that waits in a stream or for storage runs."""
        storage = self.background
        while any(s.ready for s in self.streams.values()) or (storage and storage.behind):
            for stream in self.streams.values():
                stream.run_next()
            if storage is not None:
                storage.run()

    def state(self) -> Hashable:
        return None
