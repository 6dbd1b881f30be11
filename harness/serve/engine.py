"""The engine of a server: the kernel, the scheduler and the cache in a thread of their own.

Invariant: the world is touched by the engine's thread alone. What other threads want done goes
through the clock's queue of actions, what they want to know comes back in futures and tickets.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cache.config import Tier
from cache.contract import Cache
from cache.null import NullCache
from cache.observer import Observer
from cache.storage.contract import Storage
from cache.unified import UnifiedCache
from harness.engine.clients import Load
from harness.engine.job import Job, JobStatus
from harness.engine.marks import MEANINGS, Marks
from harness.engine.scheduler import Scheduler
from harness.engine.traffic import Traffic
from harness.engine.world import Grain, World
from harness.explore.kernel import Ended, Kernel, Point, Task
from harness.faults.fault import Fault
from harness.oracles import Violation, Watch, default_oracles, raised_by_cache, violation_of
from harness.record.manifest import Mark
from harness.record.run import Recorder
from harness.record.summary import Number
from harness.serve.answers import Answers, Decided, Named
from harness.serve.door import Door
from harness.serve.ideal import Ideal
from harness.serve.latencies import Latencies
from harness.serve.meters import Meters, Served, Snapshot
from harness.serve.received import Ticket
from harness.serve.snapshot import snapshot_of
from harness.serve.wall_clock import WallClock
from harness.soak.build import every_rank, one_rank
from harness.soak.gauges import Gauges
from harness.soak.plan import ServerPlan
from harness.soak.rows import row_of
from harness.soak.settings import AUDIT_EVERY, STEP_LIMIT, Oracles

if TYPE_CHECKING:  # it imports torch, which takes a second, and most servers compute nothing
    from harness.soak.computed import Computed

SAMPLE_S = 1.0
STOPPED = "the engine has stopped"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stopped:
    """How the engine's thread ended; `error` is a failure of the harness, not of the cache."""

    violations: int
    error: Exception | None


class Engine:
    """`start`, then any thread may use it until `stop` has returned."""

    def __init__(
        self,
        server: ServerPlan,
        recorder: Recorder,
        *,
        oracles: Oracles,
        radix_cache: bool,
        storage: Storage | None = None,
        fault: Fault | None = None,
    ) -> None:
        config = server.config
        self.plan = server
        self.latencies = Latencies(server.shape.name)
        self._clock = WallClock()
        self._recorder = recorder
        self._served = Served()
        self._ideal = Ideal()
        self._ideal_tokens: dict[int, int] = {}
        self._marks = Marks(config)
        self._meters = Meters(config)
        self._traffic = Traffic(config)
        listeners: list[Observer] = [self._marks, self._traffic, self._meters]
        self._answers: Answers = Decided()
        if server.model is None:
            self._answers = named = Named(server.shape.vocab_size)
            listeners.append(named)
        self._watch = Watch(
            default_oracles(oracles),
            listeners=listeners,
            on_violation=self._on_violation,
            audit_every=AUDIT_EVERY[oracles],
        )
        self._at_rest = self._watch.at_rest
        self.cache = self._make_cache(radix_cache, storage, oracles, fault)
        self._computed = self._make_computed()
        self._world = self._make_world()
        memory = None if self._computed is None else self._computed.memory
        self._gauges = Gauges(self._world, self._traffic, memory)
        self._flushes: list[Future[bool]] = []
        self.alive = True  # until the engine has stopped, for whatever reason
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # -- for any thread ------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def submit(self, ticket: Ticket) -> None:
        """Serve it; its `changed` is called from the engine's thread."""
        sent_s = self._clock.at(ticket.received.arrived)
        self._call(lambda: self._door.submit(ticket, sent_s), lambda: ticket.end(None, STOPPED))

    def abort(self, ticket: Ticket) -> None:
        self._call(lambda: self._door.abort(ticket), lambda: None)

    def snapshot(self) -> "Future[Snapshot]":
        return self._ask(self._snapshot)

    def flush(self) -> "Future[bool]":
        """Forget everything cached as soon as no request is open and nothing is in flight; cancel
        the future to want it no more."""
        done: Future[bool] = Future()

        def begin() -> None:
            self._flushes.append(done)
            self._try_flush()

        self._call(begin, lambda: done.set_exception(RuntimeError(STOPPED)))
        return done

    def stop(self, *, drain_s: float) -> Stopped:
        """Let open requests end for `drain_s` seconds, drop the others, bring the cache to rest and
        ask the oracles once more."""
        self._call(self._door.close, lambda: None)
        self._thread.join(drain_s)
        if self._thread.is_alive():
            self._call(self._door.abort_all, lambda: None)
            self._thread.join()
        return Stopped(self._recorder.violations, self._error)

    def marks(self) -> list[Mark]:
        """Once it has stopped."""
        return [Mark(m.mark, self._marks.counts[m.mark], meaning=m.meaning) for m in MEANINGS]

    def counters(self) -> dict[str, Number]:
        """The run's own numbers, once it has stopped."""
        self._gauges.rss_bytes()
        traffic, served = self._traffic, self._served
        hits = {Tier.DEVICE: served.device_tokens, Tier.HOST: served.host_tokens}
        counters: dict[str, Number] = {
            "violations": self._recorder.violations,
            "marks": sum(1 for count in self._marks.counts.values() if count),
            "events": self._watch.step,
            "peak_rss_bytes": self._gauges.peak_rss_bytes,
        }
        for tier in Tier:
            name = tier.name.lower()
            counters[f"{name}_written_bytes"] = traffic.written_bytes[tier]
            counters[f"{name}_read_bytes"] = traffic.read_bytes[tier]
            counters[f"{name}_hit_tokens"] = hits[tier]
            counters[f"{name}_evicted_pages"] = traffic.evicted_pages[tier]
            counters[f"peak_{name}_bytes"] = traffic.peak_bytes[tier]
        return counters if self._computed is None else counters | self._computed.counters()

    def _call(self, action: Callable[[], None], otherwise: Callable[[], None]) -> None:
        if not self._clock.call(action):
            otherwise()

    def _ask(self, question: Callable[[], T]) -> "Future[T]":
        answer: Future[T] = Future()

        def ask() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(question())

        self._call(ask, lambda: answer.set_exception(RuntimeError(STOPPED)))
        return answer

    # -- in the engine's thread ----------------------------------------------------------------

    def _run(self) -> None:
        kernel = self._world.kernel
        kernel.on_step, kernel.after_step = self._on_step, self._after_step
        kernel.spawn("sampler", self._sample(), daemon=True)
        try:
            ended = self._world.run(self._clock, step_limit=STEP_LIMIT)
            self._end_computed(whole=ended.reason == "finished")
            self._conclude(ended)
        except Exception as error:
            self._error = error
        finally:
            self.alive = False
            try:
                self._clock.close()  # first: who is told that it has stopped must find it stopped
            finally:
                self._door.give_up(STOPPED)
                for flush in self._flushes:
                    flush.set_exception(RuntimeError(STOPPED))

    def _end_computed(self, *, whole: bool) -> None:
        """What goes on beside the world ends with it."""
        if self._computed is not None:
            self._computed.close() if whole else self._computed.cut()

    def _conclude(self, ended: Ended) -> None:
        """Bring the world to rest and ask the oracles once more."""
        if ended.error is not None:
            self._crashed(ended.error)
            return
        assert ended.reason == "finished", ended.reason
        try:
            self._world.rest()
            self._traffic.freeze()
            self._marks.freeze()
            self._meters.flushing = True
            self._at_rest()
        except Exception as error:
            self._crashed(error)

    def _crashed(self, error: Exception) -> None:
        """A crash of the cache is a finding; one of the harness is a failure of the run."""
        if not isinstance(error, AssertionError) and not raised_by_cache(error):
            raise error
        found = violation_of(error, self._watch.step, self._world.kernel.now)
        self._recorder.violation(found.record())

    def _on_violation(self, violation: Violation) -> None:
        self._recorder.violation(violation.record())

    async def _sample(self) -> None:
        kernel = self._world.kernel
        while True:
            await kernel.pause(max(SAMPLE_S, self._recorder.sample_interval_s), "sample")
            self._recorder.sample(kernel.now, self._gauges.read(self._recorder.violations))

    def _on_step(self, task: Task, point: Point) -> None:
        self._watch.step += 1
        self._watch.elapsed_s = self._world.kernel.now

    def _after_step(self, task: Task, point: Point) -> None:
        self._door.stepped(task, point)
        if self._flushes:
            self._try_flush()

    def _try_flush(self) -> None:
        if self._door.open or self.cache.in_flight():
            return
        self._meters.flushing = True
        done = self.cache.flush()
        self._meters.flushing = False
        if done:
            for flush in self._flushes:
                if flush.set_running_or_notify_cancel():
                    flush.set_result(True)
            self._flushes.clear()

    def _on_accept(self, job: Job) -> None:
        self._ideal_tokens[job.number] = self._ideal.hit_tokens(job.key)
        self._ideal.add(job.key)

    def _on_job(self, job: Job) -> None:
        self._served.add(job)
        self._marks.job_ended(job)
        if self._computed is not None:
            self._computed.job_ended(job)
        self._ideal.add(job.key)
        if job.status is JobStatus.COMPLETED:
            self._gauges.admitted(job)
            self.latencies.observe(job)
        self._recorder.request(
            row_of(
                job,
                page_size=self.cache.config.page_size,
                phase="steady",
                ideal_tokens=self._ideal_tokens.pop(job.number, 0),
                verified=self._watch.verifies_content,
            )
        )

    def _on_gap(self, seconds: float, count: int) -> None:
        self._recorder.itl(seconds, count)
        self.latencies.gap(seconds, count)

    def _snapshot(self) -> Snapshot:
        return snapshot_of(
            self._world,
            self._meters,
            self._served,
            open_requests=self._door.open,
            violations=self._recorder.violations,
        )

    # -- the parts -----------------------------------------------------------------------------

    def _make_cache(
        self, radix_cache: bool, storage: Storage | None, oracles: Oracles, fault: Fault | None
    ) -> Cache:
        """Watched already, and with the fault in it."""
        if not radix_cache:
            assert fault is None, "faults are of the reference cache"
            null = NullCache(self.plan.config, self._watch)
            self._watch.attach(null)
            return null
        if self.plan.ranks == 1:
            cache = one_rank(self.plan, self._watch, storage)
            self._watch.attach(cache)
            if fault is not None:
                fault.put_into(cache)
            return cache
        met = self._marks.offers_met
        ranks = every_rank(self.plan, self._watch, storage, oracles=oracles, on_offers=met)
        if fault is not None:
            fault.put_into(ranks.cache)
        ranks.attach()
        self._at_rest = ranks.at_rest
        return ranks.cache

    def _make_computed(self) -> "Computed | None":
        plan = self.plan
        if plan.model is None:
            return None
        from harness.soak.computed import Computed

        assert isinstance(self.cache, UnifiedCache), "what is computed lies in the radix cache"
        return Computed(
            plan.model,
            plan.storage,
            self.cache,
            self._clock,
            plan.compute,
            lambda wrong: self._watch.report("N1", *wrong),
            self._recorder.folder,
        )

    def _make_world(self) -> World:
        plan = self.plan
        return World(
            self.cache,
            plan.compute,
            (),
            limits=plan.limits,
            load=Load(),
            vocab_size=plan.shape.vocab_size,
            grain=Grain(),
            link=None if plan.storage is None else plan.storage.link,
            trouble=None if plan.storage is None else plan.storage.troubles,
            front=self._make_door,
            executor=None if self._computed is None else self._computed.executor,
            streams=None if self._computed is None else self._computed.streams,
            storage=None if self._computed is None else self._computed.storage,
            on_accept=self._on_accept,
            on_job=self._on_job,
            on_gap=self._on_gap,
        )

    def _make_door(self, kernel: Kernel, scheduler: Scheduler) -> Door:
        self._door = Door(kernel, scheduler, self._answers, self.cache.config.page_size)
        return self._door
