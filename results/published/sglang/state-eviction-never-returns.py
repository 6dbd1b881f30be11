#!/usr/bin/env python3
"""Evicting a recurrent state never comes back when the host has no room for the leaf that holds it

VIOLATION  P1.stalled in UnifiedRadixCache.evict
  expected every step ends, saw no end after 3 s of processor time, in UnifiedRadixCache.evict
  found by uniform, seed 15637722715335426758
minimal: 5 tasks, 11 steps, 7 switches (from 5 tasks, 11 steps, 7 switches; 0 replays)
 step  task   point              tree: device host, locks by component                              
    1  R4     client.send        -                                                                  
    2  sched  scheduler.serve    one after the other, each alone: r0, r1                            
                                 node 9 [0:7) of 0: new FM ..  locks 0/0                            
                                 node 10 [7:8) of 9: new FM ..  locks 0/0                           
                                 node 11 [0:1) of 0: new FM ..  locks 0/0                           
                                 full: 18 of 27 free; mamba: 2 of 5 free                            
    3  sched  scheduler.receive  node 9 [1:7) of 12: FM ..  locks 0/0 -> FM ..  locks 0/0           
                                 node 10 [7:8) of 9: FM ..  locks 0/0 -> .. fm  locks 0/0           
                                 node 12 [0:1) of 0: new F. ..  locks 0/0                           
                                 full: 17 of 27 free; full on the host: 12 of 14 free; mamba on     
                                 the host: 1 of 3 free                                              
    4  R6     client.send        -                                                                  
    5  fwd    forward.run        -                                                                  
    6  sched  scheduler.process  node 13 [1:2) of 12: new FM ..  locks 0/0                          
                                 full: 18 of 27 free                                                
    7  sched  scheduler.receive  node 11 [0:1) of 0: FM ..  locks 0/0 -> .. fm  locks 0/0           
                                 full on the host: 11 of 14 free                                    
    8  R2     client.send        -                                                                  
    9  fwd    forward.run        -                                                                  
   10  sched  scheduler.process  node 11 [0:1) of 0: .. fm  locks 0/0 -> FM fm  locks 0/0           
>> 11  sched  scheduler.receive  node 9 [1:7) of 12: FM ..  locks 0/0 -> .. fm  locks 0/0           
                                 node 11 [0:1) of 0: locks 0/0 -> 1/1                               
                                 full: 24 of 27 free; full on the host: 5 of 14 free; mamba on the  
                                 host: 0 of 3 free                                                  
held at the end: request r2 holds full of node 11, mamba of node 11; persist 10 holds full of node 
10, mamba of node 10; persist 11 holds full of node 11, mamba of node 11; persist 9 holds full of 
node 9, mamba of node 9
no neighbouring order was seen to pass
same oracle: undrained-acknowledgements (sglang PR 35869)
replay: python bench.py replay results/published/sglang/state-eviction-never-returns.json

Needs Python 3.11 or later, torch, numpy and sglang==0.5.15: installed, or its wheel unpacked in the
folder that SGLANG_WHEEL names, beside a folder packages with msgspec. No GPU, no model, no server. Exits with 1 when it happens.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

VERSION = "0.5.15"
RUN = r"""
{
  "format": 1,
  "tool": "kvtorture (checkout)",
  "scenario": {
    "components": "full+mamba",
    "page_size": 64,
    "window": 4,
    "spare": 0,
    "swa_spare": 0,
    "states": 1,
    "ratio": 0.5,
    "policy": "write_back",
    "stretch": 0,
    "chunk": 7,
    "running": 1,
    "together": false,
    "overlap": true,
    "ranks": 1,
    "served": 2,
    "mixed": false,
    "schedule_policy": "fcfs",
    "requests": [
      {
        "id": 0,
        "group": 0,
        "shared": 4,
        "tail": 0,
        "pages": 3,
        "own": 0,
        "answer": 1,
        "turn": false,
        "waits": false,
        "abort": false
      },
      {
        "id": 1,
        "group": 0,
        "shared": 0,
        "tail": 0,
        "pages": 0,
        "own": 0,
        "answer": 1,
        "turn": false,
        "waits": false,
        "abort": false
      },
      {
        "id": 2,
        "group": 0,
        "shared": 0,
        "tail": 0,
        "pages": 0,
        "own": 1,
        "answer": 1,
        "turn": false,
        "waits": false,
        "abort": false
      },
      {
        "id": 4,
        "group": 0,
        "shared": 1,
        "tail": 0,
        "pages": 0,
        "own": 0,
        "answer": 1,
        "turn": false,
        "waits": false,
        "abort": false
      },
      {
        "id": 6,
        "group": 0,
        "shared": 0,
        "tail": 0,
        "pages": 0,
        "own": 0,
        "answer": 1,
        "turn": false,
        "waits": false,
        "abort": false
      }
    ],
    "storage": "file",
    "prefetch": "best_effort",
    "threshold": 1,
    "batch": 3,
    "stored": 0,
    "failing": false,
    "sizes": {
      "page_size": 1,
      "full": 27,
      "swa": 0,
      "window": 0,
      "states": 5,
      "ratio": 0.5,
      "policy": "write_back",
      "chunk": 7,
      "prefill": 28,
      "running": 1,
      "context": 77,
      "overlap": false,
      "mixed": false,
      "schedule_policy": "fcfs",
      "storage": "file",
      "prefetch": "best_effort",
      "threshold": 1,
      "batch": 3
    },
    "target": "sglang==0.5.15"
  },
  "found_by": {"strategy": "uniform", "seed": 15637722715335426758, "schedule": 155},
  "verdict": {
    "oracle": "P1",
    "signature": "stalled in UnifiedRadixCache.evict",
    "message": "expected every step ends, saw no end after 3 s of processor time, in UnifiedRadixCache.evict"
  },
  "steps": 11,
  "digest": "ef949ec4e86efa56",
  "marks": {"backup": 2, "demotion": 2, "chunked_prefill": 2},
  "order": [
    ["R4", 1],
    ["sched", 2],
    ["R6", 1],
    ["fwd", 1],
    ["sched", 2],
    ["R2", 1],
    ["fwd", 1],
    ["sched", 2]
  ],
  "draws": []
}
"""


def main() -> int:
    unpack(SOURCES)
    from harness.explore.tape import StrictReplay, Tape
    from harness.targets.sglang.release import Release
    from harness.targets.sglang.runner import ReleaseRunner

    run = json.loads(RUN)
    tape = Tape.from_json({"order": run["order"], "draws": run["draws"]})
    runner = ReleaseRunner(Release(folder(), VERSION), without=('L', 'L', 'D', 'O', 'C', 'S'))  # other oracles
    outcome = runner.run(run["scenario"], StrictReplay(tape))
    print(__doc__)
    if outcome.verdict is None:
        print("nothing was violated")
        return 0
    print(f"{outcome.verdict.kind}\n  {outcome.verdict.message}")
    return 1


def folder() -> Path:
    """Where the release is."""
    if os.environ.get("SGLANG_WHEEL"):
        return Path(os.environ["SGLANG_WHEEL"])
    found = importlib.util.find_spec("sglang")
    if found is None or not found.submodule_search_locations:
        sys.exit("sglang is not here: set SGLANG_WHEEL to the folder of its unpacked wheel")
    return Path(list(found.submodule_search_locations)[0]).parent


def unpack(sources: dict[str, str]) -> None:
    """Make the driver importable, parents before their children."""
    for name in sources:
        module = ModuleType(name)
        module.__path__ = []
        module.__file__ = f"<{name}>"
        sys.modules[name] = module
    for name, text in sources.items():
        exec(compile(text, f"<{name}>", "exec"), sys.modules[name].__dict__)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])


# What drives the release, as it was when this was published (kvtorture, Apache 2.0): without
# docstrings, comments and annotations, and without the functions that do not run here.
SOURCES = {
    'harness': '',
    'harness.explore': '',
    'harness.explore.marks': r'''
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
LOOK_BACK = 16
Pair = tuple[str, str]
Triple = tuple[str, str, str]
Access = tuple[str, str, bool]

class RunMarks(NamedTuple):
    points: dict[str, int]
    sometimes: dict[str, int]
    pairs: tuple[Pair, ...]
    triples: tuple[Triple, ...]
    spans: tuple[tuple[str, str, str], ...]
    touches: tuple[tuple[str, str, bool], ...]
    transitions: tuple[str, ...] = ()

def run_marks(order, points, sometimes=None, transitions=()):
    by_object = {}
    for task, (name, obj, write) in zip(order, points, strict=True):
        if obj is not None:
            if obj not in by_object:
                by_object[obj] = []
            by_object[obj].append((task, name, write))
    pairs = {}
    triples = {}
    spans = {}
    touches = {}
    for obj, accesses in by_object.items():
        kind = kind_of(obj)
        touches.update(dict.fromkeys([(kind, name, write) for _, name, write in accesses]))
        _walk(kind, accesses, pairs, triples, spans)
    return RunMarks(points=dict(Counter([point[0] for point in points])), sometimes=dict(sometimes or {}), pairs=tuple(pairs), triples=tuple(triples), spans=tuple(spans), touches=tuple(touches), transitions=transitions)

def kind_of(obj):
    return str(obj[0]) if isinstance(obj, tuple) and obj else str(obj)

def _walk(kind, accesses, pairs, triples, spans):
    last = {}
    before_task, before_name, before_write = ('', '', False)
    for at, (task, name, write) in enumerate(accesses):
        if before_task != task and (write or before_write):
            pairs[before_name, name] = None
        if task in last:
            start = last[task]
            _, first, first_write = accesses[start]
            spans[kind, first, name] = None
            for _, middle, middle_write in accesses[max(start + 1, at - LOOK_BACK):at]:
                if middle_write or write or first_write:
                    triples[first, middle, name] = None
        last[task] = at
        before_task, before_name, before_write = (task, name, write)
    pairs.pop(('', accesses[0][1]), None)

@dataclass(kw_only=True)
class Marks:
    schedules: int = 0
    points: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)
    triples: Counter[Triple] = field(default_factory=Counter)
    spans: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    touches: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    transitions: Counter[str] = field(default_factory=Counter)

    def unseen_mass(self):
        if self.schedules == 0:
            return 1.0
        once = sum((count == 1 for count in self.pairs.values()))
        once += sum((count == 1 for count in self.triples.values()))
        return min(1.0, once / self.schedules)

    def failure_bound(self):
        return min(1.0, 3.0 / self.schedules) if self.schedules else 1.0

class Missing(NamedTuple):
    name: str
    found: float
    required: float
EXIT_CODES = {'pass': 0, 'violation': 3, 'inconclusive': 5}

class Certificate(NamedTuple):
    verdict: Literal['pass', 'violation', 'inconclusive']
    missing: tuple[Missing, ...]
    schedules: int
    unseen_mass: float
    failure_bound: float
''',
    'harness.explore.trail': r'''
from hashlib import blake2b
_FOLD_AT = 4096

class Trail:
    __slots__ = ('_digest', '_hash', '_pending')

    def __init__(self):
        self._hash = blake2b(digest_size=8)
        self._pending = []
        self._digest = ''

    def extend(self, entries):
        self._pending.extend(entries)

    def __getstate__(self):
        return self.digest()

    def __setstate__(self, digest):
        self.__init__()
        self._digest = digest
''',
    'harness.explore.kernel': r'''
from collections.abc import Generator
from enum import Enum
from types import coroutine
from typing import Final, Literal, NamedTuple, Protocol, cast
from harness.explore.trail import Trail

class Point(NamedTuple):
    name: str
    obj: object = None
    write: bool = True

class State(Enum):
    READY = 'ready'
    PAUSED = 'paused'
    BLOCKED = 'blocked'
    RUNNING = 'running'
    DONE = 'done'
READY: Final = State.READY
PAUSED: Final = State.PAUSED
BLOCKED: Final = State.BLOCKED
RUNNING: Final = State.RUNNING
DONE: Final = State.DONE
START: Final = Point('start')

class Cancelled(Exception):
    pass

class Task:
    __slots__ = ('_cancelled', '_signal', 'coro', 'daemon', 'due', 'kernel', 'name', 'number', 'point', 'rank', 'state', 'steps')

    def __init__(self, kernel, name, number, coro, daemon):
        self.name = name
        self.number = number
        self.coro = coro
        self.daemon = daemon
        self.state = READY
        self.point = START
        self.due = 0.0
        self.steps = 0
        self.rank = (-1.0, 0)
        self.kernel = kernel
        self._signal = None
        self._cancelled = False

    def __repr__(self):
        return f'<{self.name} {self.state.value} at {self.point.name}>'

class Signal:
    __slots__ = ('_waiters', 'name')

    def __init__(self, name='signal'):
        self.name = name
        self._waiters = []

    def fire(self):
        if self._waiters:
            waiters, self._waiters = (self._waiters, [])
            for task in waiters:
                task._signal = None
                task.kernel.make_ready(task)

    def __repr__(self):
        return f'Signal({self.name!r})'

class Waiting(NamedTuple):
    task: str
    point: Point
    signal: str
Reason = Literal['finished', 'deadlock', 'livelock', 'step_limit', 'raised', 'stopped']

class Ended(NamedTuple):
    reason: Reason
    steps: int
    trail: Trail
    now: float
    error: Exception | None = None
    task: str = ''
    waiting: tuple[Waiting, ...] = ()

class Stop(NamedTuple):
    reason: Reason
    steps: int
    error: Exception | None = None
    task: str = ''

class Picker(Protocol):
    pass

@coroutine
def _suspend():
    yield

def _exhausted():
    awaitable = _suspend()
    cast(Generator[None, None, None], awaitable).close()
    return awaitable
FINISHED: Final = _exhausted()
_new_tuple = tuple.__new__

class Kernel:

    def __init__(self):
        self.now = 0.0
        self.current = None
        self.on_step = None
        self.after_step = None
        self.on_end = None
        self.state_key = None
        self.tasks = []
        self.fresh = []
        self.alive = 0
        self.stopping = False
        self.inline = True
        self.trail = Trail()
        self._names = {}
        self._sequence = 0
        self._closing = False
        self._picker = None

    def spawn(self, name, coro, *, daemon=False):
        if self._closing:
            coro.close()
            return Task(self, name, -1, coro, daemon)
        assert name not in self._names, f'two tasks named {name!r}'
        task = Task(self, name, len(self.tasks), coro, daemon)
        self._names[name] = task
        self.tasks.append(task)
        self.alive += not daemon
        self.fresh.append(task)
        return task

    def point(self, name, obj=None, write=True):
        if self.inline:
            if self.on_step is not None and self.current is not None:
                self.on_step(self.current, Point(name, obj, write))
            return FINISHED
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, write))
        task.state = READY
        return _suspend()

    def wait(self, signal, name, obj=None):
        if self._closing:
            raise Cancelled('the run is over')
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, True))
        task.state = BLOCKED
        task._signal = signal
        signal._waiters.append(task)
        return _suspend()

    def stop(self):
        self.stopping = True

    def run(self, picker, *, step_limit):
        assert self._picker is None, 'a kernel runs once'
        self._picker = picker
        try:
            ended = self._ended(picker.drive(self, step_limit))
            if self.on_end is not None:
                self.on_end(ended)
            return ended
        finally:
            self._close()

    def sequence(self):
        self._sequence += 1
        return self._sequence

    def make_ready(self, task):
        if self._closing:
            return
        task.state = READY
        task.rank = (-1.0, self.sequence())
        if self._picker is not None:
            self._picker.make_ready(task)

    def resume(self, task):
        self.current = task
        task.state = RUNNING
        try:
            if task._cancelled:
                task._cancelled = False
                task.coro.throw(Cancelled(f'{task.name} was cancelled at {task.point.name}'))
            else:
                task.coro.send(None)
        except (StopIteration, Cancelled):
            task.state = DONE
            self.alive -= not task.daemon
        else:
            assert task.state is not RUNNING, f'{task.name} awaited something not of this kernel'

    def _leaving(self):
        task = self.current
        assert task is not None, 'only a running task announces points'
        assert task.state is RUNNING, f'{task.name} announced a point without awaiting it'
        return task

    def _ended(self, stop):
        waiting = ()
        if stop.reason == 'deadlock':
            blocked = sorted((t for t in self.tasks if t.state is BLOCKED), key=lambda t: t.daemon)
            waiting = tuple((Waiting(t.name, t.point, t._signal.name if t._signal else '') for t in blocked))
        trail = self.trail
        return Ended(stop.reason, stop.steps, trail, self.now, stop.error, stop.task, waiting)

    def _close(self):
        self._closing = self.inline = True
        self.on_step = self.after_step = None
        for task in self.tasks:
            if task.state is not DONE:
                self.current = task
                task.state = DONE
                try:
                    task.coro.close()
                except Exception:
                    continue
        self.current = None
''',
    'harness.explore.tape': r'''
from collections import Counter, defaultdict, deque
from typing import NamedTuple, Protocol

class Choice(NamedTuple):
    label: str
    value: int
    bound: int

class Named(Protocol):

    @property
    def name(self):
        ...

class Divergence(Exception):

    def __init__(self, step, expected, runnable):
        self.step = step
        self.expected = expected
        self.runnable = tuple(runnable)
        super().__init__(step, expected, self.runnable)

    def __str__(self):
        possible = ', '.join(self.runnable) or 'none'
        return f'replay diverged at step {self.step}: expected {self.expected}, possible were {possible}'

class Tape:
    __slots__ = ('bounds', 'draws', 'order', 'points', 'values')

    def __init__(self, order=(), draws=()):
        self.order = list(order)
        self.draws = list(draws)
        self.points = []
        self.values = []
        self.bounds = []

    @classmethod
    def from_json(cls, data):
        try:
            order = [str(name) for name, count in data['order'] for _ in range(_count(count))]
            draws = [Choice(str(label), int(value), int(bound)) for label, value, bound, count in data['draws'] for _ in range(_count(count))]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f'not a tape: {error!r}') from None
        for choice in draws:
            if not 0 <= choice.value < choice.bound:
                raise ValueError(f'not a tape: draw {choice.label!r} is out of range')
        return cls(order, draws)

class StrictReplay:

    def __init__(self, tape):
        self._tape = tape
        self._recorded = Tape()
        self._checked = 0
        self._drawn = 0

    def watch(self, recorded):
        self._recorded = recorded

    def pick(self, runnable, current):
        self._check_forced()
        step, names = (self._checked, [task.name for task in runnable])
        expected = self._tape.order[step] if step < len(self._tape.order) else 'the end'
        if expected not in names:
            raise Divergence(step + 1, expected, names)
        return names.index(expected)

    def finish(self):
        self._check_forced()
        if self._checked < len(self._tape.order):
            raise Divergence(self._checked + 1, self._tape.order[self._checked], [])
        if self._drawn < len(self._tape.draws):
            raise Divergence(self._checked, f'draw {self._tape.draws[self._drawn].label}', [])

    def _check_forced(self):
        wanted, got = (self._tape.order, self._recorded.order)
        for step in range(self._checked, len(got)):
            expected = wanted[step] if step < len(wanted) else 'the end'
            if expected != got[step]:
                raise Divergence(step + 1, expected, [got[step]])
        self._checked = len(got)

class LenientReplay:

    def __init__(self, tape):
        self._events = deque()
        self._draws = defaultdict(deque)
        seen = defaultdict(int)
        for name in tape.order:
            self._events.append((name, seen[name]))
            seen[name] += 1
        for label, value, _ in tape.draws:
            self._draws[label].append(value)

class PointReplay:

    def __init__(self, tape):
        assert len(tape.points) == len(tape.order), 'the tape of a run, not of a file'
        self._steps = deque()
        self._draw = LenientReplay(Tape((), tape.draws)).draw
        self._recorded = Tape()
        self._counted = 0
        self._done = Counter()
        seen = Counter()
        for name, point in zip(tape.order, tape.points, strict=True):
            self._steps.append((name, point.name, seen[name, point.name]))
            seen[name, point.name] += 1

class Standing(Named, Protocol):
    pass

def _count(value):
    if not isinstance(value, int) or value < 1:
        raise ValueError(f'a run length must be a whole number above 0, not {value!r}')
    return value
''',
    'harness.explore.outcome': r'''
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from harness.explore.kernel import Ended
from harness.explore.marks import RunMarks
from harness.explore.tape import Tape
Scenario = dict[str, Any]

class Verdict(NamedTuple):
    oracle: str
    signature: str
    message: str

    @property
    def kind(self):
        return f'{self.oracle}.{self.signature}'

@dataclass(frozen=True, kw_only=True)
class Outcome:
    verdict: Verdict | None
    ended: Ended
    tape: Tape
    marks: RunMarks

    def __getstate__(self):
        state, error = (dict(vars(self)), self.ended.error)
        if error is not None:
            text = RuntimeError(f'{type(error).__name__}: {error}')
            state['ended'] = self.ended._replace(error=text)
        return state

class Runner(Protocol):
    pass
''',
    'harness.explore.pickers': r'''
from bisect import insort
from collections import deque
from operator import attrgetter
from typing import Protocol
from harness.explore.kernel import PAUSED, READY, Stop
from harness.explore.tape import PointReplay, StrictReplay, Tape
STANDSTILL = 1000000
_by_number = attrgetter('number')
_by_rank = attrgetter('rank')

class VirtualClock:

    def __init__(self, draws=None):
        self._draws = draws
        self._ready = deque()

class Chooser(Protocol):

    def pick(self, runnable, current):
        ...

class Search:

    def __init__(self, strategy, tape=None):
        self.strategy = strategy
        self.tape = tape if tape is not None else Tape()
        self._others = []
        if isinstance(strategy, StrictReplay | PointReplay):
            strategy.watch(self.tape)

    def make_ready(self, task):
        insort(self._others, task, key=_by_number)

    def drive(self, kernel, step_limit):
        kernel.inline = False
        stop = self._loop(kernel, step_limit)
        kernel.trail.extend(zip(self.tape.order, self.tape.points, strict=True))
        if isinstance(self.strategy, StrictReplay):
            self.strategy.finish()
        return stop

    def _loop(self, kernel, step_limit):
        order, points, fresh = (self.tape.order, self.tape.points, kernel.fresh)
        pick, value, bound = (self.strategy.pick, self.tape.values.append, self.tape.bounds.append)
        others, resume = (self._others, kernel.resume)
        current = None
        steps = 0
        while True:
            if fresh and (stop := self._prime(kernel, steps)):
                return stop
            if kernel.alive == 0:
                return Stop('finished', steps)
            if kernel.stopping:
                return Stop('stopped', steps)
            if steps >= step_limit:
                return Stop('step_limit', steps)
            if current is None:
                task = self._next()
                if task is None:
                    return Stop('deadlock', steps)
            elif others:
                index = pick([current, *others], current)
                value(index)
                bound(len(others) + 1)
                task = self._switch(kernel, current, index) if index else current
            else:
                task = current
            steps += 1
            try:
                if task.state is PAUSED and task.due > kernel.now:
                    kernel.now = task.due
                begin(task)
                point = task.point
                order.append(task.name)
                points.append(point)
                if kernel.on_step is not None:
                    kernel.on_step(task, point)
                resume(task)
                if kernel.after_step is not None:
                    kernel.after_step(task, point)
            except Exception as error:
                return Stop('raised', steps, error, task.name)
            current = task if task.state is READY else None
            if task.state is PAUSED:
                insort(others, task, key=_by_number)

    def _next(self):
        others = self._others
        if len(others) < 2:
            return others.pop() if others else None
        at = others.index(min(others, key=_by_rank))
        index = self.strategy.pick([others[at], *others[:at], *others[at + 1:]], None)
        self.tape.values.append(index)
        self.tape.bounds.append(len(others))
        if index == 0:
            return others.pop(at)
        return others.pop(index - 1 if index <= at else index)

    def _prime(self, kernel, steps):
        while kernel.fresh:
            task = kernel.fresh.pop(0)
            try:
                kernel.resume(task)
            except Exception as error:
                return Stop('raised', steps, error, task.name)
            if task.state is READY:
                task.rank = (-1.0, kernel.sequence())
            if task.state in (READY, PAUSED):
                insort(self._others, task, key=_by_number)
        return None

def begin(task):
    if task._cancelled:
        task.point = task.point._replace(name='cancelled', write=True)
    task.steps += 1
''',
    'harness.stall': r'''
import ctypes
import signal
import sys
import threading
from contextlib import contextmanager
LIMIT_S = 1.0

class Stalled(Exception):

    def __init__(self, where, limit_s):
        super().__init__(f'no end after {limit_s:g} s of processor time, in {where}')
        self.where = where

def of_the_cache(frame):
    return str(frame.f_globals.get('__name__', '')).startswith('cache.')

def nobody():
    return None

@contextmanager
def stall_watch(operation=of_the_cache, deputy=nobody, *, limit_s=None):
    if threading.current_thread() is not threading.main_thread():
        yield (lambda: None)
        return
    limit = limit_s or LIMIT_S

    def start():
        signal.setitimer(signal.ITIMER_VIRTUAL, limit, limit)

    def stop(number, frame):
        there = deputy()
        if there is None:
            raise Stalled(_outermost(operation, frame), limit)
        assert there.ident is not None, 'it runs'
        where = _outermost(operation, sys._current_frames().get(there.ident))
        _raise_in(there.ident, where, limit)
    before = signal.signal(signal.SIGVTALRM, stop)
    start()
    try:
        yield start
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)

def as_deputy():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGVTALRM})

def _outermost(operation, frame):
    where = 'no operation of the cache'
    while frame is not None:
        if operation(frame):
            where = frame.f_code.co_qualname
        frame = frame.f_back
    return where

def _raise_in(thread, where, limit_s):

    class There(Stalled):

        def __init__(self):
            super().__init__(where, limit_s)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(There))
''',
    'harness.targets': '',
    'harness.targets.sglang': '',
    'harness.targets.sglang.baton': r'''
import threading
from typing import ClassVar
from harness.stall import as_deputy

class _Abandoned(BaseException):
    pass

class Baton(threading.Thread):
    current: ClassVar['Baton | None'] = None

    def __init__(self, work):
        super().__init__(daemon=True)
        self._work = work
        self.error = None
        self.call = None
        self.over = False
        self._go, self._stopped = (threading.Semaphore(0), threading.Semaphore(0))
        self._abandoned = False

    def run(self):
        as_deputy()
        try:
            self._wait()
            self._work()
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.call = None
            self.over = True
            self._stopped.release()

    def advance(self):
        before, Baton.current = (Baton.current, self)
        self._go.release()
        self._stopped.acquire()
        Baton.current = before

    def stand(self):
        self._stopped.release()
        self._wait()

    def agree(self, call):
        self.call = call
        self.stand()
        self.call = None

    def abandon(self):
        self._abandoned = True
        self._go.release()
        self.join()

    def _wait(self):
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned
''',
    'harness.targets.sglang.view': r'''
from typing import Any, NamedTuple
import numpy as np
from numpy.typing import NDArray
Slots = NDArray[np.int64]
EMPTY: Slots = np.zeros(0, dtype=np.int64)
NAMES = ('full', 'swa', 'mamba')

class Node(NamedTuple):
    id: int
    parent: int
    start: int
    tokens: tuple[int, ...]
    device: dict[str, Slots | None]
    host: dict[str, Slots | None]
    locks: dict[str, int]
    host_locks: dict[str, int]
    root: bool
    raw: Any

    @property
    def stop(self):
        return self.start + len(self.tokens)

class Claim(NamedTuple):
    owner: str
    component: str
    slots: Slots

class Held(NamedTuple):
    cached: int
    window_from: int
    allocated: int

def field_of(req, name):
    record = getattr(req, 'kv', None)
    return getattr(record, name) if hasattr(record, name) else getattr(req, name)

class View:

    def __init__(self, cache, pools):
        self.cache = cache
        self.tree = tree_of(cache)
        self.pools = pools
        self.components = [NAMES[int(kind)] for kind in cache.tree_components]
        self._seen = None
        self._free = {}
        self.opaque = type(self.tree).__name__.startswith('Rust')
        self._kinds = [(NAMES[int(kind)], int(kind)) for kind in cache.tree_components]

    def forget(self):
        self._seen = None
        self._free = {}

    def reads(self, row):
        ...
    settled = forget

    def nodes(self):
        if self._seen is None:
            self._seen = [] if self.opaque else list(self._look())
        return self._seen

    def _look(self):
        stack = [(self.tree.root_node, -1, 0)]
        while stack:
            raw, parent, start = stack.pop()
            node = self.node(raw, parent, start)
            yield node
            children = list(raw.children.values())
            stack.extend(((child, node.id, node.stop) for child in reversed(children)))

    def node(self, raw, parent, start):
        data = raw.component_data
        root = raw is self.tree.root_node
        return Node(id=raw.id, parent=parent, start=start, tokens=() if root else tuple(raw.key.token_ids), device={n: None if root else slots_of(data[k].value) for n, k in self._kinds}, host={n: None if root else slots_of(data[k].host_value) for n, k in self._kinds}, locks={n: data[k].lock_ref for n, k in self._kinds}, host_locks={n: getattr(data[k], 'host_lock_ref', 0) for n, k in self._kinds}, root=root, raw=raw)

    def loading(self):
        return set(self.cache.ongoing_load_back)

    def writing(self):
        return set(self.cache.ongoing_write_through)

def tree_of(cache):
    return getattr(cache, 'tree_core', cache)

def slots_of(value):
    return None if value is None else value.detach().numpy().astype(np.int64).reshape(-1)

def among(slots, others):
    if not len(slots) or not len(others):
        return EMPTY
    there = np.zeros(max(int(slots.max()), int(others.max())) + 1, dtype=bool)
    there[others] = True
    return slots[there[slots]]
''',
    'harness.targets.sglang.marks': r'''
from typing import NamedTuple
from harness.targets.sglang.view import among, slots_of

class Meaning(NamedTuple):
    mark: str
    meaning: str
MEANINGS = (Meaning('prefix_hit', 'the model read a cached prefix'), Meaning('backup', 'a node was backed up to the host'), Meaning('demotion', 'a node left the device and stayed on the host'), Meaning('window_tombstoned', 'a node lost its window on the device and kept FULL'), Meaning('load_back', 'a load-back was queued'), Meaning('window_loaded', 'a load-back brought a window back'), Meaning('loads_overlap', 'two load-backs were in flight at once'), Meaning('host_eviction', 'a node left the host'), Meaning('split_with_copy_in_flight', 'a node was split while its backup was in flight'), Meaning('retraction', 'a running request gave its memory up'), Meaning('abort', 'a client left before its answer was complete'), Meaning('chunked_prefill', 'a prompt was computed in chunks'), Meaning('turn', 'a later turn of a conversation was served'), Meaning('prefetch', 'storage was asked for more of a prompt'), Meaning('prefetch_hit', 'host pages were filled from storage for a prompt that waits'), Meaning('prefetch_revoked', 'a prefetch ended before host pages were given to it'), Meaning('prefetch_cut_short', 'a prefetch ended before all of its pages had come'), Meaning('prefetch_grafted', 'pages from storage became a node'), Meaning('persisted', 'storage was given pages'), Meaning('ranks_skewed', 'the copies of two ranks had come to different points'))
REQUIRED_WITH_STORAGE = ('prefetch_hit', 'prefetch_grafted', 'persisted')
REQUIRED = ('prefix_hit', 'backup', 'demotion', 'load_back', 'host_eviction', 'chunked_prefill')

class Marks:

    def __init__(self, world, view):
        self.counts = {meaning.mark: 0 for meaning in MEANINGS}
        self._world = world
        self._view = view
        self._before = {}
        self._loading = set()
        self._asked = {}

    def reads(self, row):
        if row.start and row.stop > row.start + 1:
            self.counts['prefix_hit'] += 1

    def kept(self, key, prints):
        ...

    def settled(self):
        counts, world = (self.counts, self._world)
        loading = self._view.loading()
        after = {}
        for node in self._view.nodes():
            state = (node.device['full'] is not None, node.host['full'] is not None, node.device.get('swa') is not None, len(node.tokens))
            after[node.id] = state
            before = self._before.get(node.id)
            if before is None:
                continue
            counts['backup'] += state[1] and (not before[1])
            counts['demotion'] += before[0] and (not state[0]) and state[1]
            counts['window_tombstoned'] += before[2] and (not state[2]) and state[0]
            counts['window_loaded'] += state[2] and (not before[2]) and (node.id in loading)
            in_flight = node.id in self._view.writing()
            counts['split_with_copy_in_flight'] += state[3] < before[3] and in_flight
        for node_id, before in self._before.items():
            counts['host_eviction'] += node_id not in after and before[1]
        if world.background is not None:
            self._storage(world.background.storage.kept)
        counts['load_back'] += len(loading - self._loading)
        counts['loads_overlap'] += len(loading) > 1
        counts['retraction'] += any((req.is_retracted for req in world.live.values()))
        chunked = world.scheduler.chunked_req
        counts['chunked_prefill'] += chunked is not None
        counts['abort'] = sum((kind == 'FINISH_ABORT' for kind in world.ended.values()))
        counts['turn'] = sum((p.after is not None and p.rid in world.ended for p in world.prompts))
        self._before, self._loading = (after, loading)

    def _storage(self, kept):
        asked = {info[3].id: info[3] for info in self._world.cache.ongoing_prefetch.values()}
        counts, before = (self.counts, self._asked)
        counts['persisted'] = kept
        counts['prefetch'] += len(asked.keys() - before.keys())
        for number, operation in before.items():
            if number in asked:
                continue
            read = int(operation.completed_tokens)
            whole = len(operation.hash_value) * self._world.shape.page_size
            if not whole or operation.host_indices is None:
                counts['prefetch_revoked'] += 1
                continue
            counts['prefetch_cut_short'] += read < whole
            counts['prefetch_hit'] += read > 0
            slots = slots_of(operation.host_indices[:read])
            nodes = [node.host['full'] for node in self._view.nodes()]
            counts['prefetch_grafted'] += slots is not None and any((mine is not None and bool(len(among(slots, mine))) for mine in nodes))
        self._asked = asked
''',
    'harness.targets.sglang.broken': r'''
class Broken(Exception):

    def __init__(self, oracle, signature, expected, seen):
        self.oracle = oracle
        self.signature = signature
        self.expected = str(expected)
        self.seen = str(seen)
        super().__init__(f'{oracle}.{signature}: expected {expected}, saw {seen}')
''',
    'harness.targets.sglang.device': r'''
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
Work = Callable[[], None]

class Copy(NamedTuple):
    component: str
    to_host: bool
    host: Any
    device: Any

class Event:

    def __init__(self, *args, **kwargs):
        self._pending = 0
        self._stream = None
        self._after = []

    def record(self, stream=None):
        (stream or Device.current).issue_event(self)

    def query(self):
        return self._pending == 0 and all((event.query() for event in self._after))

    def synchronize(self):
        for event in self._after:
            event.synchronize()
        while self._pending:
            assert self._stream is not None
            self._stream.run_to_next()

    def wait(self, stream=None):
        (stream or Device.current).wait_event(self)

    def follow(self, events):
        self._after = [event for event in events if not event.query()]

    def expect(self, stream):
        self._pending += 1
        self._stream = stream

    def reached(self):
        self._pending -= 1

class Stream:

    def __init__(self, *args, **kwargs):
        self.name = ''
        self.deferred = False
        self._line = deque()
        self._copies = deque()
        self._waits = []
        self.ran = 0
        self.forced = _unnoticed

    def issue(self, what, work, copy=None):
        if self.deferred:
            self._line.append((what, work))
            self._copies.append(copy)
        else:
            work()

    @property
    def copies(self):
        return [copy for copy in self._copies if copy is not None]

    @property
    def next_copy(self):
        return self._copies[0] if self._copies else None

    def issue_event(self, event):
        if self.deferred and self._line:
            event.expect(self)
            self._line.append(('event', event))
        if not self.deferred:
            event.follow(self._waits)

    def wait_event(self, event):
        if event.query():
            return
        if self.deferred:
            self._line.append(('wait', event))
        else:
            self._waits = [*(e for e in self._waits if not e.query()), event]

    def wait_stream(self, other):
        if other.behind:
            event = Event()
            event.record(other)
            self.wait_event(event)

    @property
    def next_work(self):
        return next((what for what, work in self._line if not isinstance(work, Event)), '')

    @property
    def behind(self):
        return bool(self._line)

    @property
    def ready(self):
        return bool(self._line) and (not (self._line[0][0] == 'wait' and isinstance(self._line[0][1], Event) and (not self._line[0][1].query())))

    def run_to_next(self):
        if not self.ready:
            awaited = self._line[0][1]
            assert isinstance(awaited, Event)
            awaited.synchronize()
        self.forced(self)
        self.run_next()

    def pass_marks(self):
        passed = 0
        while self.ready and isinstance((event := self._line[0][1]), Event):
            if self._line.popleft()[0] == 'event':
                event.reached()
            passed += 1
        return passed

    def run_next(self):
        done = ''
        while self.ready:
            what, work = self._line[0]
            if not isinstance(work, Event):
                if done:
                    break
                done = what
                work()
                self.ran += 1
                self._copies.popleft()
            elif what == 'event':
                work.reached()
            self._line.popleft()
        return done

def _unnoticed(stream):
    ...

class Device:
    default = Stream()
    current = default

@contextmanager
def _on(stream):
    before, Device.current = (Device.current, stream)
    try:
        yield
    finally:
        Device.current = before

def device_module():
    return SimpleNamespace(Event=Event, Stream=Stream, stream=_on, current_stream=lambda: Device.current, synchronize=lambda: None)
''',
    'harness.targets.sglang.table': r'''
from typing import Any
PACKAGES = frozenset(('IPython', 'PIL', 'aiohttp', 'apache_tvm_ffi', 'compressed_tensors', 'dill', 'einops', 'fastapi', 'gguf', 'hf_transfer', 'huggingface_hub', 'interegular', 'llguidance', 'openai', 'orjson', 'outlines', 'partial_json_parser', 'prometheus_client', 'pybase64', 'pydantic', 'pydantic_core', 'pynvml', 'requests', 'safetensors', 'sentencepiece', 'setproctitle', 'sgl_kernel', 'soundfile', 'starlette', 'torchada', 'torchao', 'torchvision', 'tqdm', 'transformers', 'triton', 'tvm_ffi', 'uvicorn', 'uvloop', 'xgrammar', 'yaml', 'zmq'))
NEEDED = ('msgspec==0.23.0',)
WIRE = {'msgspec.msgpack': ('Decoder', 'Encoder')}
PARTS = frozenset(('kernels.ops.attention', 'srt.compilation', 'srt.configs', 'srt.connector', 'srt.constrained', 'srt.entrypoints', 'srt.eplb', 'srt.function_call', 'srt.layers', 'srt.lora', 'srt.model_executor', 'srt.model_loader', 'srt.multimodal', 'srt.parser', 'srt.utils.hf_transformers', 'srt.utils.hf_transformers_utils', 'srt.weight_sync'))
KEPT = frozenset(('srt.configs.mamba_utils', 'srt.layers.dp_attention', 'srt.configs.model_config', 'srt.model_executor.forward_batch_deepseek_mha_mixin', 'srt.model_executor.forward_batch_info'))
BARE = frozenset({''})
VALUES: dict[str, dict[str, Any]] = {'kernels.ops.attention.fla.chunk_delta_h': {'CHUNK_SIZE': 64}, 'srt.layers.attention.fla.chunk_delta_h': {'CHUNK_SIZE': 64}}
''',
    'harness.targets.sglang.loader': r'''
import importlib
import sys
from contextlib import contextmanager
from functools import lru_cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from harness.targets.sglang import table
ROOT = 'sglang'

def load(folder, version):
    import torch
    loaded = sys.modules.get(ROOT)
    if loaded is not None:
        assert loaded.__version__ == version, 'a process tortures one release only'
        return
    torch.compile = _uncompiled
    sys.path.append(str(folder.parent / 'packages'))
    for package, names in table.WIRE.items():
        for name in names:
            setattr(importlib.import_module(package), name, _blank(name))
    sys.meta_path.insert(0, _Finder(folder / ROOT, version))

def upstream(name):
    return importlib.import_module(f'{ROOT}.{name}')

def has(name):
    try:
        return find_spec(f'{ROOT}.{name}') is not None
    except ModuleNotFoundError:
        return False

def modules():
    return _modules(len(sys.modules))

@lru_cache(maxsize=1)
def _modules(imported):
    names = sorted((name for name in sys.modules if name.startswith(f'{ROOT}.')))
    found = [sys.modules[name] for name in names]
    return [module for module in found if not isinstance(module, _Module)]

def stood_in():
    return sorted((name for name, module in sys.modules.items() if isinstance(module, _Module)))

@contextmanager
def apart():
    hidden = {n: m for n, m in sys.modules.items() if isinstance(m, _Module) and _foreign(n)}
    finders = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    for name in hidden:
        del sys.modules[name]
    for finder in finders:
        sys.meta_path.remove(finder)
    try:
        yield
    finally:
        sys.modules.update(hidden)
        sys.meta_path[:0] = finders

def _foreign(name):
    return name.partition('.')[0] != ROOT

def _uncompiled(function=None, **options):
    return (lambda f: f) if function is None else function

class _Blank(type):

    def __getattr__(cls, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return _blank(f'{cls.__name__}.{name}')

    def __call__(cls, *args, **kwargs):
        if len(args) == 1 and (not kwargs) and callable(args[0]):
            return args[0]
        return super().__call__()

    def __or__(cls, other):
        return cls

    def __ror__(cls, other):
        return cls

    def __getitem__(cls, item):
        return cls

    def __iter__(cls):
        return iter(())

class _Nothing:

    def __init_subclass__(cls, **options):
        ...

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and (not kwargs) and callable(args[0]) else self

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return _blank(name)()

    def __bool__(self):
        return False

    def __len__(self):
        return 0

    def __iter__(self):
        return iter(())

    def __getitem__(self, item):
        return self

    def __or__(self, other):
        return self

def _blank(name):
    return _Blank(name, (_Nothing,), {})

class _Module(ModuleType):

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        value = _blank(name)
        setattr(self, name, value)
        return value

class _Finder(MetaPathFinder, Loader):

    def __init__(self, folder, version):
        self._folder = folder
        self._version = version

    def find_spec(self, fullname, path, target=None):
        top, _, part = fullname.partition('.')
        if top == ROOT:
            if not (part in table.BARE or _covered(part, table.PARTS)) or part in table.KEPT:
                return None
            folders = [str(self._folder / part.replace('.', '/'))]
        elif top in table.PACKAGES and PathFinder.find_spec(top) is None:
            folders = []
        else:
            return None
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = folders
        return spec

    def create_module(self, spec):
        part = spec.name.partition('.')[2] if spec.name.startswith(f'{ROOT}.') else None
        bare = spec.name == ROOT or part in table.BARE
        module = (ModuleType if bare else _Module)(spec.name)
        module.__dict__['__version__'] = self._version if spec.name == ROOT else '9999.0.0'
        module.__dict__.update(table.VALUES.get(part or '', {}))
        return module

    def exec_module(self, module):
        ...

def _covered(part, parts):
    while part:
        if part in parts:
            return True
        part = part.rpartition('.')[0]
    return False
''',
    'harness.targets.sglang.agreement': r'''
import sys
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from harness.targets.sglang.baton import Baton
from harness.targets.sglang.broken import Broken
T = TypeVar('T')
WRAPPERS = ('_all_reduce', '_barrier')

class Group(NamedTuple):
    size: int

class Own(Protocol):

    def enter(self):
        ...

    def leave(self):
        ...

class Call(NamedTuple):
    kind: str
    place: str
    tensor: Any
    op: Any

    @property
    def shape(self):
        return (f'{self.kind} {self.op}', () if self.tensor is None else tuple(self.tensor.shape))

class _Part(Baton, Generic[T]):

    def __init__(self, work, own):
        super().__init__(self._do)
        self.result = None
        self._share = work
        self._own = own
        self.start()

    def _do(self):
        self.result = self._share()

    def advance(self):
        self._own.enter()
        super().advance()
        self._own.leave()

def together(works, owns):
    parts = [_Part(work, own) for work, own in zip(works, owns, strict=True)]
    try:
        _advance(parts)
        while any((part.call for part in parts)):
            reduce([part.call for part in parts])
            _advance(parts)
    finally:
        for part in parts:
            part.abandon()
    return [part.result for part in parts]

def _advance(parts):
    for part in parts:
        part.advance()
    for part in parts:
        if part.error is not None:
            raise part.error

def reduce(calls):
    import torch
    here = [call for call in calls if call is not None]
    if len(here) < len(calls):
        missing = [str(rank) for rank, call in enumerate(calls) if call is None]
        raise Broken('R2', f'a rank skips the agreement of {here[0].place}', 'every rank takes part in every agreement', f"rank {', '.join(missing)} ends its pass while the others wait in {here[0].place}")
    first = here[0]
    if any((call.shape != first.shape for call in here)):
        raise Broken('R2', 'the ranks are in different agreements', 'the same agreements in the same order', ', '.join((f'{call.place} ({call.shape[0]})' for call in here)))
    if first.tensor is None:
        return
    stack = torch.stack([call.tensor for call in here])
    kind = torch.distributed.ReduceOp
    assert first.op in (kind.MIN, kind.MAX), 'no release agrees in another way'
    agreed = stack.amin(dim=0) if first.op == kind.MIN else stack.amax(dim=0)
    for call in here:
        call.tensor.copy_(agreed)

def install():
    import torch.distributed
    real = torch.distributed
    all_reduce, barrier, size = (real.all_reduce, real.barrier, real.get_world_size)

    def agreed(tensor, op=None, group=None, **more):
        if isinstance(group, Group):
            return _ask('all_reduce', tensor, op)
        return all_reduce(tensor, op=op, group=group, **more)

    def met(group=None, **more):
        return _ask('barrier', None, None) if isinstance(group, Group) else barrier(group, **more)

    def size_of(group=None):
        return group.size if isinstance(group, Group) else int(size(group))
    real.all_reduce, real.barrier, real.get_world_size = (agreed, met, size_of)

def _ask(kind, tensor, op):
    assert Baton.current is not None, 'an agreement outside a common step'
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name.startswith(WRAPPERS):
        frame = frame.f_back
    Baton.current.agree(Call(kind, frame.f_code.co_name, tensor, op))
''',
    'harness.targets.sglang.eras': r'''
from typing import Any, NamedTuple

class Era(NamedTuple):
    version: str
    name: str
    about: str
    barrier: str = ''
    graphs: bool = False
    plans: bool = False
    small_host: bool = True
    waits_to_copy: bool = False
    all_three: bool = False
    storage: bool = True

    @property
    def wheel(self):
        return self.version.partition('-')[0]

    @property
    def core(self):
        return self.version.partition('-')[2] or 'python'
LATE: dict[str, Any] = {'barrier': 'launch', 'graphs': True, 'plans': True, 'all_three': True}
ERAS = (Era('0.5.12', 'monolith', 'one tree class, ongoing copies by node', small_host=False, storage=False), Era('0.5.13', 'monolith', 'host locks', barrier='schedule', small_host=False), Era('0.5.15', 'monolith', 'copies by layer groups', barrier='schedule', graphs=True), Era('0.5.18', 'core', 'a tree core, node ids', **LATE), Era('0.5.20', 'core', 'receipts', waits_to_copy=True, **LATE), Era('0.5.23', 'core', 'its Python core', waits_to_copy=True, **LATE), Era('0.5.23-rust', 'core', 'its Rust core', waits_to_copy=True, **LATE))

def era_of(version):
    return next((era for era in ERAS if era.version == version), None)

def supported():
    return ', '.join((era.version for era in ERAS))
''',
    'harness.targets.sglang.release': r'''
import os
from array import array
from dataclasses import MISSING, fields, is_dataclass
from inspect import signature
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from harness.targets.sglang import agreement
from harness.targets.sglang.device import Copy, Device, device_module
from harness.targets.sglang.eras import era_of
from harness.targets.sglang.loader import has, load, modules, upstream
VOCABULARY = 1 << 31
ENVIRONMENT = {'SGLANG_ENABLE_UNIFIED_RADIX_TREE': '1', 'SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE': '1'}
EXTRA_MODULES = ('srt.mem_cache.unified_radix_cache', 'srt.mem_cache.hybrid_cache.hybrid_cache_controller', 'srt.mem_cache.hybrid_cache.hybrid_pool_assembler', 'srt.mem_cache.swa_memory_pool')
OPTIONAL = ('enable_kvcache_transpose',)

class Release:
    _made: ClassVar['Release | None'] = None

    @classmethod
    def of(cls, folder, version):
        if cls._made is None:
            cls._made = cls(folder, version)
        assert cls._made.version == version, 'a process tortures one release only'
        return cls._made

    def __init__(self, folder, version):
        import logging
        os.environ.update(ENVIRONMENT)
        logging.disable(logging.CRITICAL)
        self.version = version
        era = era_of(version)
        assert era is not None, f'no adapter knows sglang {version}'
        self.era = era
        os.environ['SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND'] = era.core
        load(folder, era.wheel)
        self._found = {}
        self.scheduler = upstream('srt.managers.scheduler')
        for name in EXTRA_MODULES:
            if has(name):
                upstream(name)
        self._replace()

    def find(self, name):
        if name not in self._found:
            for module in modules():
                value = vars(module).get(name)
                if getattr(value, '__module__', None) == module.__name__:
                    self._found[name] = value
                    break
            else:
                raise AssertionError(f'sglang {self.version} has no {name}')
        return self._found[name]

    def make(self, name, **told):
        kind = self.find(name)
        known = signature(kind.__init__).parameters
        takes_more = any((p.kind is p.VAR_KEYWORD for p in known.values()))
        return kind(**{key: value for key, value in told.items() if key in known or (takes_more and key not in OPTIONAL)})

    def _set(self, name, value):
        homes = [module for module in modules() if name in vars(module)]
        assert homes, f'sglang {self.version} has no {name}'
        for module in homes:
            setattr(module, name, value)

    def server_args(self, **told):
        args_type = self.find('ServerArgs')
        args = _record(args_type, told)
        if has('srt.runtime_context'):
            upstream('srt.runtime_context').reset_context()
        upstream('srt.server_args').set_global_server_args_for_scheduler(args)
        if has('srt.runtime_context'):
            _one_rank(upstream('srt.runtime_context'))
        return args

    def allow_running(self, count):
        if has('srt.runtime_context'):
            context = upstream('srt.runtime_context')
            if 'pp_max_micro_batch_size' in getattr(context, '_parallel_fields', tuple)():
                context.get_parallel().override_permanently(pp_max_micro_batch_size=count)

    def fresh(self):
        self.number_from((0, 1))

    def numbers(self):
        boundaries = self.find('next_component_uuid').__globals__
        return (self.find('UnifiedTreeNode').counter, boundaries['_COMPONENT_UUID_COUNTER'])

    def number_from(self, numbers):
        self.find('UnifiedTreeNode').counter = numbers[0]
        boundaries = self.find('next_component_uuid').__globals__
        boundaries['_COMPONENT_UUID_COUNTER'] = numbers[1]

    def request_of(self, rid, tokens, answer):
        params = self.find('SamplingParams')(max_new_tokens=answer, temperature=0.0, ignore_eos=True)
        params.normalize(None)
        req = self.find('Req')(rid, '', tokens, params, vocab_size=VOCABULARY)
        if isinstance(req.output_ids, array):
            ids = array(req.output_ids.typecode, tokens)
            req = self.find('Req')(rid, '', ids, params, vocab_size=VOCABULARY)
        return req

    def abort_of(self, rid):
        return SimpleNamespace(rid=rid, abort_all=False, abort_message=None, finished_reason=None)

    def result_of(self, tokens, done):
        import torch
        kind = self.find('GenerationBatchResult')
        return kind(next_token_ids=torch.tensor(tokens), copy_done=done)

    def set_if_there(self, name, value):
        if any((name in vars(module) for module in modules())):
            self._set(name, value)

    def _replace(self):
        self._set('device_module', device_module())
        self._set('alloc_extend_kernel', _Kernel(_alloc_extend))
        self._set('alloc_decode_kernel', _Kernel(_alloc_decode))
        self._set('SamplingBatchInfo', _Sampling)
        self._set('HICACHE_HOST_MEMORY_RESERVE_BYTES', 0)
        pinned = next((vars(m)['ALLOC_MEMORY_FUNCS'] for m in modules() if _has_pinned(m)))
        pinned.clear()
        pinned.default_factory = lambda: _plain_memory
        for pool, back_up, load_layer in (('MHATokenToKVPoolHost', _back_up, _load_layer), ('MambaPoolHost', _back_up_states, _load_states)):
            kind = self.find(pool)
            kind.backup_from_device_all_layer = back_up
            kind.load_to_device_per_layer = load_layer
        self.set_if_there('atexit', SimpleNamespace(register=lambda f, *args, **more: f))
        agreement.install()
        self.find('UnifiedRadixCache').pretty_print = lambda cache: None

def _has_pinned(module):
    return 'ALLOC_MEMORY_FUNCS' in vars(module)

def _one_rank(context):
    fields = getattr(context, '_parallel_fields', None)
    if fields is not None:
        alone = SimpleNamespace(cpu_group=None, device_group=None, world_size=1, rank_in_group=0)
        kinds = {'_rank': 0, '_size': 1, '_group': alone}
        stated = {name: value for name in sorted(fields()) for ending, value in kinds.items() if name.endswith(ending)}
        context.get_parallel().override_permanently(**stated)

def _record(kind, told):
    if is_dataclass(kind):
        args = object.__new__(cast(Any, kind))
        for name, value in {**_defaults(kind), **told}.items():
            _put(args, name, value)
        return args
    known = set(kind.__struct_fields__)
    args = kind(**{name: value for name, value in {'model_path': '', **told}.items() if name in known})
    for name in told:
        if name not in known:
            setattr(args, name, told[name])
    args._resolution_finished = True
    return args

def _defaults(kind):
    found = {}
    for item in fields(kind):
        value = item.default_factory() if item.default_factory is not MISSING else item.default
        found[item.name] = None if value is MISSING else value
    return found

def _put(record, name, value):
    object.__setattr__(record, name, value)

class _Sampling:
    penalizer_orchestrator = SimpleNamespace(is_required=False)

    @classmethod
    def from_schedule_batch(cls, batch, vocab_size):
        return cls()

    def filter_batch(self, *args):
        ...

    def merge_batch(self, other):
        ...

class _Kernel:

    def __init__(self, run):
        self._run = run

    def __getitem__(self, grid):
        return self._run

def _alloc_extend(prefix_lens, seq_lens, last_loc, free, out, *rest):
    page_size = rest[-1]
    at = taken = 0
    pages = free.tolist()
    flat = []
    for start, stop, last in zip(prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist(), strict=True):
        slot = last
        for position in range(start, stop):
            if position % page_size == 0:
                if taken == len(pages):
                    return
                slot = pages[taken] * page_size - 1
                taken += 1
            slot += 1
            flat.append(slot)
            at += 1
    out.copy_(out.new_tensor(flat))

def _alloc_decode(seq_lens, last_loc, free, out, *rest):
    page_size = rest[-1]
    pages = free.tolist()
    taken = 0
    for at, (length, last) in enumerate(zip(seq_lens.tolist(), last_loc.tolist(), strict=True)):
        if (length - 1) % page_size:
            out[at] = last + 1
        elif taken < len(pages):
            out[at] = pages[taken] * page_size
            taken += 1

def _plain_memory(dims, dtype, **more):
    import torch
    return torch.zeros(dims, dtype=dtype)

def _back_up(pool, device_pool, host, device, io_backend, **more):
    host, device = (host.long(), device.long())

    def work():
        prints_of(pool)[host] = device_pool.k_buffer[0][device, 0, 0]
    Device.current.issue('backup', work, Copy(_component(device_pool), True, host, device))

def _load_layer(pool, device_pool, host, device, layer, io, **more):
    host, device = (host.long(), device.long())

    def work():
        device_pool.k_buffer[layer][device, 0, 0] = prints_of(pool)[host]
    Device.current.issue('load', work, Copy(_component(device_pool), False, host, device))

def _back_up_states(pool, device_pool, host, device, io_backend, **more):
    host, device = (host.long(), device.long())

    def work():
        prints_of(pool)[host] = device_pool.mamba_cache.temporal[0, device, 0, 0, 0]
    Device.current.issue('backup', work, Copy('mamba', True, host, device))

def _load_states(pool, device_pool, host, device, layer, io, **more):
    host, device = (host.long(), device.long())

    def work():
        device_pool.mamba_cache.temporal[layer, device, 0, 0, 0] = prints_of(pool)[host]
    Device.current.issue('load', work, Copy('mamba', False, host, device))

def prints_of(pool):
    import torch
    if not hasattr(pool, 'prints'):
        pool.prints = torch.zeros(pool.size, dtype=torch.int64)
    return pool.prints

def _component(device_pool):
    return str(device_pool.component)
''',
    'harness.targets.sglang.workers': r'''
from collections import deque
from queue import Empty
from types import SimpleNamespace
from typing import ClassVar
from harness.targets.sglang.baton import Baton
from harness.targets.sglang.broken import Broken
NAMES = {'prefetch_thread_func': 'query', 'prefetch_io_aux_func': 'fetch', 'prefetch_sync_thread_func': 'report', 'backup_thread_func': 'persist'}
HOMES = ('cache_controller', 'hybrid_cache_controller', 'unified_radix_cache', 'poll_timer')
TURNS_AT_END = 1000

class Site:
    current: ClassVar['Site']

    def __init__(self, storage):
        self.storage = storage
        self.workers = {}
        self.now = 0.0

    def close(self):
        for worker in self.workers.values():
            worker.abandon()
Site.current = Site(None)

class Worker(Baton):

    def __init__(self, target, daemon=True):
        super().__init__(target)
        self.at = 'start'
        self.site = Site.current
        self.leaving = False
        self._function = target.__name__
        self._ready = lambda: True

    @property
    def ready(self):
        return not self.over and self.call is None and self._ready()

    def start(self):
        self.site.workers[NAMES[self._function]] = self
        super().start()
        self.advance()

    def halt(self, at, ready=None):
        self.at, self._ready = (at, ready or (lambda: True))
        self.stand()

    def agree(self, call):
        self.at, self._ready = ('agree', lambda: True)
        super().agree(call)

    def join(self, timeout=None):
        self.leaving = not self._abandoned
        for _ in range(TURNS_AT_END if self.leaving else 0):
            if self.over:
                break
            self.advance()
        super().join()

def halt(at):
    if isinstance(Baton.current, Worker):
        Baton.current.halt(at)

class Queue:

    def __init__(self, maxsize=0):
        self.queue = deque()

    def __class_getitem__(cls, item):
        return cls

    def put(self, item, block=True, timeout=None):
        self.queue.append(item)
    put_nowait = put

    def get(self, block=True, timeout=None):
        worker = Baton.current
        if isinstance(worker, Worker):
            worker.halt('take', lambda: bool(self.queue) or worker.leaving)
        elif block and timeout is None and (not self.queue):
            raise Broken('P1', 'the scheduler waits for a queue that stays empty', 'an item', 'none')
        if not self.queue:
            raise Empty
        return self.queue.popleft()

    def get_nowait(self):
        if not self.queue:
            raise Empty
        return self.queue.popleft()

    def empty(self):
        return not self.queue

    def qsize(self):
        return len(self.queue)

def now():
    return Site.current.now

def install(homes):
    import threading
    threads = SimpleNamespace(Thread=Worker, Event=threading.Event, Lock=threading.Lock)
    clock = SimpleNamespace(monotonic=now, perf_counter=now, time=now)
    for module in homes:
        if module.__name__.rpartition('.')[2] not in HOMES:
            continue
        for name, value in (('threading', threads), ('time', clock), ('Queue', Queue)):
            if name in vars(module):
                setattr(module, name, value)
''',
    'harness.targets.sglang.storage': r'''
from functools import lru_cache, partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, NamedTuple
import numpy as np
from numpy.typing import NDArray
from harness.targets.sglang.baton import Baton
from harness.targets.sglang.loader import has, modules, upstream
from harness.targets.sglang.release import prints_of
from harness.targets.sglang.workers import Site, Worker, halt, install
Prints = NDArray[np.int64]
BATCH = 128
RANKS = {'get_tensor_model_parallel_rank': 0, 'get_tensor_model_parallel_world_size': 1, 'get_pipeline_model_parallel_rank': 0, 'get_pipeline_model_parallel_world_size': 1}
ALONE = SimpleNamespace(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1)
NATIVE_HASH = 'srt.mem_cache.cpp_utils.native_hash'
HOST_POOLS = ('MHATokenToKVPoolHost', 'MambaPoolHost')

class Page(NamedTuple):
    pool: Any
    slots: Prints
    fills: bool

class Storage:

    def __init__(self):
        self.pages = {}
        self.on_page = lambda page: None
        self.on_kept = lambda key, prints: None
        self.draw = lambda label, bound: 0
        self.kept = 0

    def put(self, key, prints):
        self.on_kept(key, prints)
        if key in self.pages:
            return True
        if self.draw('storage.refuse', 8) == 7:
            return False
        self.pages[key] = prints
        self.kept += 1
        return True

    def lose(self, keys):
        if self.draw('storage.lose', 8) == 7:
            self.pages.pop(keys[self.draw('storage.which', len(keys))], None)

def prepare(release, batch):
    for module in _batched(release):
        vars(module)['STORAGE_BATCH_SIZE'] = batch

@lru_cache(maxsize=1)
def _batched(release):
    homes = modules()
    install(homes)
    _state_ranks()
    if has(NATIVE_HASH):
        native = SimpleNamespace(get_hash=hash_of)
        vars(upstream(NATIVE_HASH))['_load_native_hash_module'] = lambda: native
    factory = upstream('srt.mem_cache.storage.backend_factory').StorageBackendFactory
    kind = _backend(release)
    factory._registry['file']['loader'] = lambda: kind
    for name in HOST_POOLS:
        pool = release.find(name)
        pool.get_dummy_flat_data_page = _blank_page
        pool.get_data_page = _read_page
        pool.set_from_flat_data_page = _fill_page
    return [module for module in homes if 'STORAGE_BATCH_SIZE' in vars(module)]

def hash_of(raw, count, width, bigram, prior, page_size):
    assert (width, bigram) == (1, False), 'no speculative decoding here'
    data = np.asarray(raw[:count], dtype='<u4').tobytes()
    size = 4 * page_size if page_size else max(len(data), 1)
    hashes = []
    for start in range(0, len(data), size) if page_size else (0,):
        prior = sha256((prior or b'') + data[start:start + size]).digest()
        hashes.append(prior.hex())
    return hashes if page_size else hashes[0]

def _state_ranks():
    controller = vars(upstream('srt.managers.cache_controller'))
    for name, value in RANKS.items():
        if name in controller:
            controller[name] = partial(int, value)
    context = upstream('srt.runtime_context') if has('srt.runtime_context') else None
    if 'get_parallel' in controller and (not hasattr(context, '_parallel_fields')):
        controller['get_parallel'] = lambda: ALONE

def chain(release, tokens, page_size):
    make, key = (upstream('srt.mem_cache.utils').get_hash_str, None)
    for start in range(0, len(tokens) - page_size + 1, page_size):
        key = make([int(token) for token in tokens[start:start + page_size]], key)
        yield key

def _backend(release):
    base = release.find('HiCacheFile')

    class Kept(base):

        def __init__(self, storage_config, *more):
            self.store = Site.current.storage
            self.config_suffix = self.tp_config_suffix = ''
            self.metadata_cache = None

        def get(self, key, target_location, target_sizes=None):
            page = self.store.pages.get(key)
            if page is None:
                return None
            target_location.numpy()[:] = page
            return target_location

        def set(self, key, value=None, *more, **named):
            return self.store.put(key, value.numpy().copy())

        def exists(self, key):
            return key in self.store.pages

        def _collect_existing_component_keys(self, keys, pool_transfers=None):
            pools = [None, *(transfer.name for transfer in pool_transfers or [])]
            found = {self._get_component_key(key, pool) for pool in pools for key in keys}
            return {f'{key}.bin' for key in found if key in self.store.pages}

        def batch_exists(self, keys, *more, **named):
            halt('ask')
            return super().batch_exists(keys, *more, **named)

        def batch_exists_v2(self, keys, *more, **named):
            halt('ask')
            return super().batch_exists_v2(keys, *more, **named)

        def batch_get(self, keys, *more, **named):
            halt('read')
            self.store.lose(keys)
            return super().batch_get(keys, *more, **named)

        def batch_get_v2(self, transfers, *more, **named):
            halt('read')
            for transfer in transfers:
                if transfer.keys:
                    self.store.lose([self._log_key(transfer.name, key) for key in transfer.keys])
            return super().batch_get_v2(transfers, *more, **named)

        def batch_set(self, keys, *more, **named):
            halt('write')
            return super().batch_set(keys, *more, **named)

        def batch_set_v2(self, transfers, *more, **named):
            halt('write')
            return super().batch_set_v2(transfers, *more, **named)
    return Kept

def _told(pool, first, *, fills):
    size = int(getattr(pool, 'page_size', 1) or 1)
    at = int(first)
    worker = Baton.current
    assert isinstance(worker, Worker), "pages move on the controller's threads"
    worker.site.storage.on_page(Page(pool, np.arange(at, at + size), fills))
    return slice(at, at + size)

def _blank_page(pool):
    import torch
    return torch.zeros(int(getattr(pool, 'page_size', 1) or 1), dtype=torch.int64)

def _read_page(pool, index, flat=True):
    return prints_of(pool)[_told(pool, index, fills=False)].clone()

def _fill_page(pool, index, data_page):
    prints_of(pool)[_told(pool, index, fills=True)] = data_page
''',
    'harness.targets.sglang.serving': r'''
from harness.targets.sglang.broken import Broken
SPINS = 3
PASSES_ALONE = 1000

async def serve(prompts, post, turn):
    for prompt in prompts:
        post(prompt)
        idle = passes = 0
        while idle <= SPINS:
            idle = 0 if await turn() else idle + 1
            passes += 1
            if passes > PASSES_ALONE:
                raise Broken('P1', 'a request that is alone never ends', prompt.rid, 'no end')
''',
    'harness.targets.sglang.background': r'''
import numpy as np
from harness.explore.kernel import Signal
from harness.targets.sglang.storage import Storage, chain, prepare
from harness.targets.sglang.workers import Site
DEADLINES = 8
DEADLINE_S = 1000000.0
POINT = ('cache',)

def background_of(release, scenario, shape, kernel):
    return Background(release, scenario, shape, kernel) if shape.storage else None

class Background:

    def __init__(self, release, scenario, shape, kernel):
        self.storage = Storage()
        self.site = Site.current = Site(self.storage)
        self.truth = {}
        self._meet = lambda: None
        self._kick = lambda: None
        self._release, self._shape, self._kernel = (release, shape, kernel)
        self._broken = None
        self._woken = {}
        self._awaited = lambda: False
        self._held = int(scenario.get('stored', 0))
        if scenario.get('failing'):
            self.storage.draw = kernel.draw
        prepare(release, shape.batch)

    def start(self, cache, suffix=''):
        for name, worker in self.site.workers.items():
            self._woken[name] = Signal(f'{name}{suffix}.woken')
            self._kernel.spawn(f'{name}{suffix}', self._run(name, worker), daemon=True)
        if self._shape.prefetch == 'timeout':
            self._awaited = lambda: bool(cache.ongoing_prefetch)
            self._woken['clock'] = Signal(f'clock{suffix}.woken')
            self._kernel.spawn(f'clock{suffix}', self._clock(), daemon=True)

    def learn(self, tokens):
        page, prints = (self._shape.page_size, np.array(tokens, dtype=np.int64))
        for at, key in enumerate(chain(self._release, tokens, page)):
            self.truth[key] = prints[at * page:(at + 1) * page]

    def hold(self, prompts, components):
        page = self._shape.page_size
        for prompt in prompts:
            tokens = prompt.tokens(prompts)
            for at, key in enumerate(chain(self._release, tokens, page)):
                if at == self._held:
                    break
                prints = np.array(tokens[at * page:(at + 1) * page], dtype=np.int64)
                for component in components:
                    name = key if component == 'full' else f'{key}.{component}'
                    self.storage.pages[name] = prints[-1:] if component == 'mamba' else prints

    def report_to(self, watchers, kick):

        def moves(page):
            self._judged(lambda: [watcher.pages(page) for watcher in watchers()])

        def kept(key, prints):
            self._judged(lambda: [watcher.kept(key, prints) for watcher in watchers()])
        self.storage.on_page, self.storage.on_kept = (moves, kept)
        self._kick = kick

    def wake(self):
        for name, signal in self._woken.items():
            if self.site.workers[name].ready if name in self.site.workers else self._awaited():
                signal.fire()

    @property
    def behind(self):
        return any((worker.ready for worker in self.site.workers.values()))

    def run(self):
        for worker in self.site.workers.values():
            if worker.ready:
                self._advance(worker)

    def close(self):
        self.site.close()

    async def _run(self, name, worker):
        while True:
            if worker.ready:
                await self._kernel.point(f'{name}.{worker.at}', POINT)
            while not worker.ready:
                await self._kernel.wait(self._woken[name], f'{name}.{worker.at}', POINT)
            self._advance(worker)
            self._kick()

    def _advance(self, worker):
        worker.advance()
        error = self._broken or worker.error
        if error is not None:
            raise error
        self._meet()
''',
    'harness.targets.sglang.shape': r'''
from types import SimpleNamespace
from typing import Any, NamedTuple

class Shape(NamedTuple):
    page_size: int
    full: int
    swa: int
    window: int
    states: int
    ratio: float
    policy: str
    chunk: int
    prefill: int
    running: int
    context: int
    overlap: bool
    mixed: bool
    schedule_policy: str
    storage: str = ''
    prefetch: str = 'best_effort'
    threshold: int = 1
    batch: int = 128

    @property
    def hierarchical(self):
        return self.ratio > 0

class Pools(NamedTuple):
    rows: Any
    allocator: Any
    full: Any
    swa: Any
    states: Any

def build_pools(release, shape):
    import torch
    common = {'device': 'cpu', 'dtype': torch.int64}
    tensors = {'head_num': 1, 'head_dim': 1}
    make = release.make
    rows = _rows(release, shape)
    page = shape.page_size
    if shape.window:
        kv = make('SWAKVPool', size=shape.full, size_swa=shape.swa, page_size=page, swa_attention_layer_ids=[1], full_attention_layer_ids=[0], enable_kvcache_transpose=False, **common, **tensors)
        allocator = make('SWATokenToKVPoolAllocator', size=shape.full, size_swa=shape.swa, page_size=page, kvcache=kv, need_sort=False, **common)
        states = rows.mamba_pool if shape.states else None
        return Pools(rows, allocator, kv.full_kv_pool, kv.swa_kv_pool, states)
    if shape.states:
        kv = make('HybridLinearKVPool', size=shape.full, page_size=page, full_attention_layer_ids=[0], enable_kvcache_transpose=False, mamba_pool=rows.mamba_pool, **common, **tensors)
        return Pools(rows, _allocator(release, shape, kv), kv.full_kv_pool, None, rows.mamba_pool)
    kv = make('MHATokenToKVPool', size=shape.full, page_size=page, layer_num=1, enable_memory_saver=False, **common, **tensors)
    return Pools(rows, _allocator(release, shape, kv), kv, None, None)

def _allocator(release, shape, kv):
    import torch
    paged = shape.page_size > 1
    return release.make('PagedTokenToKVPoolAllocator' if paged else 'TokenToKVPoolAllocator', size=shape.full, page_size=shape.page_size, dtype=torch.int64, device='cpu', kvcache=kv, need_sort=False)

def _rows(release, shape):
    import torch
    plain = {'size': shape.running, 'max_context_len': shape.context, 'device': 'cpu', 'enable_memory_saver': False}
    if not shape.states:
        return release.make('ReqToTokenPool', **plain)
    kinds = SimpleNamespace(conv=torch.int64, temporal=torch.int64)
    layer = 2 if shape.window else 1
    sizes = SimpleNamespace(conv=[(1, 1)], temporal=(1, 1, 1))
    return release.make('HybridReqToTokenPool', mamba_size=shape.states, mamba_spec_state_size=shape.running, cache_params=SimpleNamespace(shape=sizes, dtype=kinds, layers=[layer]), mamba_layer_ids=[layer], enable_mamba_extra_buffer=False, enable_overlap_schedule=shape.overlap, **plain)
''',
    'harness.targets.sglang.driver': r'''
import json
from functools import partial
from inspect import signature
from types import SimpleNamespace
from harness.targets.sglang.device import Device, Stream
from harness.targets.sglang.loader import upstream
from harness.targets.sglang.release import VOCABULARY
from harness.targets.sglang.shape import build_pools

class Absent:

    def __bool__(self):
        return False

    def __len__(self):
        return 0

    def __iter__(self):
        return iter(())

    def __call__(self, *args, **kwargs):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        pass

    def __add__(self, count):
        return count

    def __rsub__(self, count):
        return count

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return self
ABSENT = Absent()

class Bypass:

    def __getattr__(self, name):
        return lambda batch=None, *args, **kwargs: batch

class Plain(SimpleNamespace):

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
KEPT = ('init_cache_with_memory_pool', 'init_running_status', 'init_chunked_prefill', 'maybe_init_dynamic_chunk_sizer', 'init_schedule_policy', 'init_pool_stats_observer', 'init_invariant_checker', 'init_output_streamer', 'init_dp_attn_adapter', 'init_req_max_new_tokens', 'init_batch_result_processor')
SILENT = ('report_prefill_stats', 'report_decode_stats', 'log_batch_result_stats', 'update_device_timer', 'maybe_send_health_check_signal', 'reset_device_timer_window', 'maybe_sleep_on_idle', 'publish_load_snapshot', '_record_step_counters', '_maybe_clear_mm_inputs', '_maybe_log_idle_metrics', '_publish_kv_events', '_get_num_pending_tokens', '_abort_on_waiting_timeout', '_abort_on_running_timeout', '_maybe_register_hicache_draft', 'install_device_timer_on_runners')
UNSET = ('prefill_delayer', 'min_free_slots_delayer', 'truncation_align_size', 'max_queued_requests', 'hisparse_coordinator', 'metrics_collector')
MODEL_KINDS = ('linear_attn_model_spec', 'hybrid_gdn_config', 'kimi_linear_config', 'hybrid_lightning_config')
REPORTERS = ('SchedulerMetricsReporter', 'SchedulerMetricsCollector', 'PrefillStats')

def make_scheduler(release, shape, on_answer):
    release.fresh()
    Device.current = Device.default = Stream()
    pools = build_pools(release, shape)
    pools.full.component = 'full'
    if pools.swa is not None:
        pools.swa.component = 'swa'
    for name in REPORTERS:
        release.set_if_there(name, ABSENT)
    for name in MODEL_KINDS:
        release.set_if_there(name, lambda model: None)
    release.set_if_there('mamba2_config', lambda model: True if shape.states else None)
    release.set_if_there('uses_ssm_state', lambda model: bool(shape.states))
    release.set_if_there('is_deepseek_dsa', lambda model: False)
    release.set_if_there('resolve_spec_hidden_size', lambda *model, **more: (0, 0))
    release.set_if_there('init_parallel_runtime', lambda *ranks, **more: ABSENT)
    release.set_if_there('init_layer_runtime', lambda *ranks, **more: None)
    release.set_if_there('init_threads_binding', lambda *ranks, **more: None)
    base = release.find('Scheduler')
    scheduler = object.__new__(_scheduler_type(base, shape, pools, on_answer))
    scheduler.asked_for = set()
    known = list(signature(base.__init__).parameters)[1:]
    told = {'server_args': _server_args(release, shape), 'port_args': ABSENT, 'dp_rank': None}
    scheduler.__init__(**{name: told.get(name, 0) for name in known})
    scheduler.server_args = told['server_args']
    return (scheduler, pools)

def _scheduler_type(base, shape, pools, on_answer):

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        self.asked_for.add(name)
        return ABSENT

    def stream_output(self, reqs, *args, **kwargs):
        for req in reqs:
            if req.finished() and (not req.finished_output):
                req.finished_output = True
                on_answer(req)

    def init_model_config(self):
        self.model_config = _model(shape)
        self.is_generation = True
        self.dllm_config = None

    def init_ipc_channels(self, port_args):
        answers = SimpleNamespace(send_output=lambda output, req=None: on_answer(req))
        self.send_to_tokenizer = answers
        self.rust_server = None
        self.ipc_channels = SimpleNamespace(send_to_tokenizer=answers, send_to_detokenizer=ABSENT, send_metrics_from_scheduler=None)

    def init_model_worker(self):
        _load_model(self, shape, pools)

    def init_output_streamer(self):
        self.output_streamer = SimpleNamespace(stream_output=partial(stream_output, self))

    def silent(self, *args, **kwargs):
        ...
    members = {name: silent for name in SILENT if hasattr(base, name)}
    for name in dir(base):
        if name.startswith(('init_', 'maybe_init_')) and name not in (*KEPT, 'init_req_max_new_tokens'):
            members[name] = silent
    members |= {'__getattr__': __getattr__, 'stream_output': stream_output, 'init_model_config': init_model_config, 'init_ipc_channels': init_ipc_channels, 'init_model_worker': init_model_worker, 'init_output_streamer': init_output_streamer}
    return type('Driver', (base,), members)

def _server_args(release, shape):
    return release.server_args(page_size=shape.page_size, chunked_prefill_size=shape.chunk, disable_overlap_schedule=not shape.overlap, enable_hierarchical_cache=shape.hierarchical, hicache_ratio=shape.ratio, hicache_size=0, hicache_write_policy=shape.policy, hicache_io_backend='direct', hicache_mem_layout='page_first_direct', attention_backend='torch_native', schedule_policy=shape.schedule_policy, enable_mixed_chunk=shape.mixed, schedule_conservativeness=1.0, max_running_requests=shape.running, pp_max_micro_batch_size=shape.running, swa_full_tokens_ratio=1.0, disable_radix_cache=False, mamba_scheduler_strategy='no_buffer', mamba_track_interval=256, speculative_algorithm=None, strip_thinking_cache=False, disaggregation_mode='null', device='cpu', model_config=_model(shape), _model_config=_model(shape), **_storage_args(shape))

def _storage_args(shape):
    if not shape.storage:
        return {}
    return {'hicache_storage_backend': shape.storage, 'hicache_storage_prefetch_policy': shape.prefetch, 'hicache_storage_backend_extra_config': json.dumps({'prefetch_threshold': shape.threshold})}

def _model(shape):
    return Plain(is_multimodal=False, is_matryoshka=False, is_encoder_decoder=False, vocab_size=VOCABULARY, think_end_id=None, hf_eos_token_id=None, context_len=shape.context)

def _load_model(scheduler, shape, pools):
    runner = Plain(linear_attn_model_spec=None, hybrid_gdn_config=None, mamba2_config=True if shape.states else None, mtp_draft_device_pools=(), mtp_draft_mamba_pools=())
    worker = Plain(is_hybrid_swa=bool(shape.window), sliding_window_size=shape.window or None, model_runner=runner, get_tokens_per_layer_info=lambda: (shape.full, shape.swa), get_memory_pool=lambda: (pools.rows, pools.allocator), register_hicache_layer_transfer_counter=lambda counter: None)
    scheduler.tp_worker = scheduler.model_worker = worker
    scheduler.draft_worker = None
    scheduler.ngram_embedding_manager = Bypass()
    scheduler.device = 'cpu'
    scheduler.max_running_requests = shape.running
    scheduler.max_total_num_tokens = shape.full
    scheduler.max_req_len = min(shape.context - 1, shape.full - 1)
    scheduler.max_req_input_len = scheduler.max_req_len - 5
    scheduler.max_prefill_tokens = shape.prefill
    scheduler.num_generated_tokens = scheduler.forward_ct_decode = 0
    scheduler.tp_group = scheduler.pp_group = Plain()
    for group in ('tp_cpu_group', 'attn_tp_cpu_group', 'attn_cp_cpu_group'):
        setattr(scheduler, group, None)
    for name in UNSET:
        setattr(scheduler, name, None)
    scheduler.disaggregation_mode = release_modes(scheduler).NULL
    stream = scheduler.forward_stream = runner.forward_stream = Stream()
    stream.deferred = True

def release_modes(scheduler):
    return upstream('srt.disaggregation.utils').DisaggregationMode
''',
    'harness.targets.sglang.tokens': r'''
from typing import NamedTuple
_MASK = (1 << 31) - 1
_STEP = 11400714819323198485

class Seed(NamedTuple):
    kind: int
    number: int
ANSWER = Seed(3, 0)

def grow(tokens, seed, count):
    grown = list(tokens)
    last = grown[-1] if grown else 1
    for _ in range(count):
        last = _mix(last, seed.kind * 1009 + seed.number)
        grown.append(last)
    return grown

def _mix(last, symbol):
    value = last * _STEP + (symbol + 1) * 13787848793156543929 & (1 << 64) - 1
    value = (value ^ value >> 31) * 10723151780598845931 & (1 << 64) - 1
    return value >> 29 & _MASK or 1
''',
    'harness.targets.sglang.prompts': r'''
from dataclasses import dataclass
from harness.targets.sglang.tokens import ANSWER, Seed, grow

@dataclass(frozen=True, slots=True)
class Prompt:
    id: int
    group: int
    shared: int
    tail: int
    own: int
    answer: int
    after: str | None
    waits_for: str | None
    abort: bool
    served: bool

    @property
    def rid(self):
        return f'r{self.id}'

    def tokens(self, others):
        before = next((other for other in others if other.rid == self.after), None)
        if before is not None:
            so_far = grow(before.tokens(others), ANSWER, before.answer)
            return grow(so_far, Seed(2, 50 + self.tail), self.own)
        prefix = grow([], Seed(1, self.group), self.shared)
        return grow(prefix, Seed(2, self.tail), self.own)

def page_of(scenario):
    return 1 if 'mamba' in scenario['components'] else int(scenario['page_size'])

def shared_of(scenario, row):
    page = page_of(scenario)
    stretch = -(-int(scenario.get('stretch', 0)) // page)
    return (int(row['shared']) + stretch) * page if row['shared'] else 0

def prompts_of(scenario):
    page = page_of(scenario)
    rows = scenario['requests']
    known = [row['id'] for row in rows]
    served = int(scenario.get('served', 0))
    prompts = []
    for at, row in enumerate(rows):
        before = f"r{row['id'] - 1}" if row['id'] - 1 in known else None
        prompts.append(Prompt(id=row['id'], group=row['group'], shared=shared_of(scenario, row), tail=row['tail'], own=1 + row['own'] + row['pages'] * page, answer=row['answer'], after=before if row['turn'] else None, waits_for=before if row['turn'] or row['waits'] else None, abort=row['abort'], served=at < served))
    return prompts
''',
    'harness.explore.swarm': r'''
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

class Knob(Protocol):
    pass

@dataclass(frozen=True)
class Number:
    low: int
    high: int

@dataclass(frozen=True)
class Options:
    values: tuple[Any, ...]

@dataclass(frozen=True)
class Feature:
    share: float = 0.5

@dataclass(frozen=True)
class Many:
    item: Mapping[str, Knob]
    low: int
    high: int

@dataclass(frozen=True)
class Perhaps:
    item: Mapping[str, Knob]
    share: float

@dataclass(frozen=True)
class Swarm:
    knobs: Mapping[str, Knob]
    fixed: Mapping[str, Any]
''',
    'harness.targets.sglang.scenario': r'''
from typing import Any
from harness.explore.swarm import Feature, Knob, Number, Options
from harness.targets.sglang.prompts import page_of
from harness.targets.sglang.shape import Shape
ANSWER_AT_MOST = 6
_REQUEST: dict[str, Knob] = {'group': Number(0, 2), 'shared': Number(0, 7), 'tail': Number(0, 2), 'pages': Number(0, 3), 'own': Number(0, 3), 'answer': Number(1, ANSWER_AT_MOST), 'turn': Feature(0.2), 'waits': Feature(0.5), 'abort': Feature(0.15)}
COMPONENTS = ('full+swa', 'full+swa', 'full', 'full+mamba')
ALL_THREE = 'full+swa+mamba'
PLAIN: dict[str, Any] = {'overlap': False, 'mixed': False, 'schedule_policy': 'fcfs', 'running': 1, 'storage': '', 'prefetch': 'best_effort', 'batch': 128, 'threshold': 1}
POLICIES = ('write_through', 'write_through_selective', 'write_back')
STORAGE: dict[str, Knob] = {'storage': Options(('', '', 'file')), 'prefetch': Options(('best_effort', 'wait_complete', 'timeout')), 'threshold': Options((1, 1, 4, 12)), 'batch': Options((128, 1, 3)), 'stored': Options((0, 4, 99)), 'failing': Feature(0.25)}

def shape_of(scenario):
    if 'sizes' in scenario:
        return Shape(**scenario['sizes'])
    mamba, windowed = (_has(scenario, 'mamba'), _has(scenario, 'swa'))
    page = page_of(scenario)
    window = scenario['window'] * (page if page < 64 else page // 2) if windowed else 0
    chunk = max(scenario['chunk'] * page, 2)
    running = scenario['running']
    full, swa = _least(scenario, page, chunk, window)
    full += scenario['spare'] * page
    swa += scenario['swa_spare'] * page if windowed else 0
    return Shape(page_size=page, full=max(full, swa), swa=swa, window=window, states=3 * running + 1 + scenario['states'] if mamba else 0, ratio=scenario['ratio'], policy=scenario['policy'], chunk=chunk, prefill=4 * chunk, running=running, context=_longest(scenario, page) + 64, overlap=scenario['overlap'] and (not mamba), mixed=scenario['mixed'], schedule_policy=scenario['schedule_policy'], **_storage(scenario))
''',
    'harness.targets.sglang.world': r'''
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
import numpy as np
from harness.explore.kernel import Kernel, Signal
from harness.targets.sglang import serving
from harness.targets.sglang.background import background_of
from harness.targets.sglang.device import Event
from harness.targets.sglang.driver import make_scheduler
from harness.targets.sglang.prompts import Prompt, prompts_of
from harness.targets.sglang.scenario import shape_of
from harness.targets.sglang.tokens import ANSWER, grow
from harness.targets.sglang.view import NAMES, field_of
CACHE, INBOX = (('cache',), ('inbox',))
SERVE, RECEIVE, PROCESS = ('scheduler.serve', 'scheduler.receive', 'scheduler.process')
PASSES_AT_REST = 40
Pass = Callable[[list[Any]], Awaitable[bool]]

def copy_streams(controller):
    engine = getattr(controller, 'l2_transfer_engine', None)
    if engine is not None:
        return (engine.device_to_host_stream, engine.host_to_device_stream)
    return (controller.write_stream, controller.load_stream)

class Launch:

    def __init__(self, world, batch):
        self.rows = []
        self.begun, self.done = (Event(), Event())
        self.awaits = Event()
        self.extending = extending = batch.forward_mode.is_extend()
        prefixes = batch.prefix_lens if extending else [int(n) - 1 for n in batch.seq_lens]
        for at, req in enumerate(batch.reqs):
            start = int(prefixes[at]) if at < len(prefixes) else int(batch.seq_lens[at]) - 1
            self.rows.append(world.row_of(req, start, int(batch.seq_lens[at])))
        names = ('mamba_cow_src_indices', 'mamba_cow_dst_indices', 'mamba_clear_indices')
        found = [_states(batch, name) if extending else None for name in names]
        self.copied, self.cleared = (found[:2], found[2])
        self.prepared = False
        self.tokens = [row.truth[row.stop] for row in self.rows]

def _states(batch, name):
    found = getattr(batch, name, None)
    return None if found is None else found.numpy().copy()

class Row:

    def __init__(self, rid, start, stop, truth):
        self.rid = rid
        self.start = start
        self.stop = stop
        self.truth = truth
        self.full = None
        self.swa = None
        self.state = -1

class Watcher(Protocol):
    pass

class World:

    def __init__(self, release, scenario, *, kernel=None, changed=None):
        self.kernel = kernel or Kernel()
        self.release = release
        self.shape = shape_of(scenario)
        self.prompts = prompts_of(scenario)
        self.background = background_of(release, scenario, self.shape, self.kernel)
        self.scheduler, self.pools = make_scheduler(release, self.shape, self.answered)
        release.allow_running(self.shape.running if scenario.get('together') else 1)
        self.cache = self.scheduler.tree_cache
        self.watchers = []
        self.live = {}
        self.ended = {}
        self.truth = {}
        self.era = release.era
        self._launched = None
        self.serving = False
        self.in_flight = []
        self.inbox = []
        self._changed = changed or Signal('changed')
        self._answers = {prompt.rid: Signal('answer') for prompt in self.prompts}
        self._result = Signal('result')
        self._awaits = lambda: True
        self.issued = {}
        self.streams = {'fwd': self.scheduler.forward_stream}
        controller = self.cache.cache_controller
        if controller is not None:
            to_host, to_device = copy_streams(controller)
            self.streams |= {'d2h': to_host, 'h2d': to_device}
        for name, stream in self.streams.items():
            stream.name, stream.deferred = (name, True)
            self.issued[name] = Signal(f'{name}.issued')
        if self.background is not None:
            kinds = [NAMES[int(kind)] for kind in self.cache.tree_components]
            self.background.hold(self.prompts, kinds)
            self.background.report_to(lambda: self.watchers, self.kick)

    def start(self):
        spawn = self.kernel.spawn
        spawn('sched', self._loop(), daemon=True)
        for name in self.streams:
            spawn(name, self.run_stream(name), daemon=True)
        if self.background is not None:
            self.background.start(self.cache)
        for prompt in self.prompts:
            if prompt.served:
                continue
            spawn(f'R{prompt.id}', self._client(prompt))
            if prompt.abort:
                spawn(f'A{prompt.id}', self._leave(prompt))

    async def _client(self, prompt):
        if prompt.waits_for is None or prompt.waits_for in self.ended:
            await self.kernel.point('client.send', INBOX)
        else:
            await self.kernel.wait(self.answer_to(prompt.waits_for), 'client.send', INBOX)
        self.post(prompt)
        await self.kernel.wait(self.answer_to(prompt.rid), 'client.wait')

    def answer_to(self, rid):
        return self._answers[rid]

    async def run_stream(self, name):
        stream = self.streams[name]
        point = {'fwd': 'forward.run', 'd2h': 'copy.to_host', 'h2d': 'copy.to_device'}[name]
        while True:
            if stream.ready:
                await self.kernel.point(point, CACHE)
            else:
                await self.kernel.wait(self.issued[name], point, CACHE)
            if not stream.ready:
                continue
            if (copy := stream.next_copy) is not None:
                for watcher in self.watchers:
                    watcher.copies(copy)
            stream.run_next()
            self.kick()

    async def _loop(self):
        run = self._pass_overlapped if self.shape.overlap else self._pass
        results = []
        self.scheduler.result_queue = results
        await self._serve(run, results)
        idle = 0
        while True:
            if idle > serving.SPINS and (not self.inbox):
                await self.kernel.wait(self._changed, RECEIVE, CACHE)
                idle = 0
            else:
                await self.turn()
            self.receive()
            busy = await run(results)
            idle = 0 if busy else idle + 1

    async def _serve(self, run, results):
        served = [prompt for prompt in self.prompts if prompt.served]
        if not served:
            return
        await self.kernel.point(SERVE, CACHE)
        self.serving = True

        async def turn():
            self.receive()
            return await run(results)
        mail, self.inbox = (self.inbox, [])
        await serving.serve(served, self.post, turn)
        self.inbox = mail
        self.serving = False

    async def turn(self):
        await self.kernel.point(RECEIVE, CACHE)

    async def _pass(self, results):
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

    async def _pass_overlapped(self, results):
        scheduler = self.scheduler
        if self.era.barrier == 'schedule':
            self.wait_for_forward()
        batch = self.schedule()
        self.settle()
        disabled = self.overlap_disabled(batch)
        busy = bool(batch or scheduler.last_batch)
        if disabled:
            await self._process_oldest(results)
        if batch:
            launch, result = self.launch(batch)
            if self.era.barrier == 'launch':
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

    def schedule(self):
        scheduler = self.scheduler
        if self.era.plans:
            plan = scheduler.get_next_batch_to_run(running_batch=scheduler.running_batch, last_batch=scheduler.last_batch)
            scheduler.running_batch = plan.running_batch
            scheduler.cur_batch_for_debug = plan.batch_to_run
            return plan.batch_to_run
        scheduler.cur_batch = batch = scheduler.get_next_batch_to_run()
        return batch

    async def synchronize(self, done):
        if not self.serving and done():
            await self.kernel.point(PROCESS, CACHE)
        while not done():
            self._awaits = done
            await self.kernel.wait(self._result, PROCESS, CACHE)

    def post(self, item):
        self.inbox.append(item)
        self._changed.fire()

    def receive(self):
        while self.inbox:
            item = self.inbox.pop(0)
            if isinstance(item, Prompt):
                self._admit(item)
            else:
                self.scheduler.abort_request(item)

    def _admit(self, prompt):
        tokens = prompt.tokens(self.prompts)
        req = self.release.request_of(prompt.rid, tokens, prompt.answer)
        self.scheduler.init_req_max_new_tokens(req)
        self.truth[prompt.rid] = grow(tokens, ANSWER, prompt.answer + 2)
        self.live[prompt.rid] = req
        if self.background is not None:
            self.background.learn(self.truth[prompt.rid])
        self.scheduler._add_request_to_queue(req)

    def launch(self, batch):
        launch = Launch(self, batch)
        stream = self.streams['fwd']
        consumer = getattr(batch, 'hicache_consumer_index', -1)
        if consumer is not None and consumer >= 0:
            counter = self.cache.cache_controller.layer_done_counter
            launch.awaits = counter.events[consumer].finish_event
            if launch.copied[0] is not None and (not self.era.waits_to_copy):
                stream.issue('states', lambda: self._prepare_states(launch))
            stream.wait_event(launch.awaits)
        if self.era.graphs and self.shape.overlap and (not launch.extending):
            stream.issue('begin', lambda: None)
            launch.begun.record(stream)
        stream.issue('forward', lambda: self._forward(launch))
        launch.done.record(stream)
        result = self.release.result_of(launch.tokens, launch.done)
        batch.output_ids = result.next_token_ids
        self.scheduler.forward_ct += 1
        self._launched = launch
        self.in_flight.append(launch)
        self.kick()
        return (launch, result)

    def process(self, batch, result):
        self.scheduler.process_batch_result(batch, result)

    def row_of(self, req, start, stop):
        row = Row(req.rid, start, stop, self.truth[req.rid])
        table = self.pools.rows.req_to_token.numpy()
        row.full = table[int(field_of(req, 'req_pool_idx')), :stop].astype(np.int64)
        if self.shape.window:
            row.swa = self.pools.allocator.full_to_swa_index_mapping.numpy()[row.full]
        if self.shape.states:
            row.state = int(field_of(req, 'mamba_pool_idx'))
        return row

    def _forward(self, launch):
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

    def _prepare_states(self, launch):
        if not launch.prepared and self.pools.states is not None:
            states = self.pools.states.mamba_cache.temporal.numpy()
            source, target = launch.copied
            if launch.cleared is not None:
                states[0, launch.cleared] = 0
            if source is not None:
                states[0, target] = states[0, source]
        launch.prepared = True

    def answered(self, req):
        self.ended[req.rid] = type(req.finished_reason).__name__
        self.live.pop(req.rid, None)
        self._answers[req.rid].fire()

    def settle(self):
        self._start_streams()
        for watcher in self.watchers:
            watcher.settled()

    def kick(self):
        self._start_streams()
        self._changed.fire()
        if self._awaits():
            self._result.fire()

    def _start_streams(self):
        if self.serving:
            self.drain()
        for name, stream in self.streams.items():
            if stream.ready:
                self.issued[name].fire()
        if self.background is not None:
            self.background.wake()

    def close(self):
        if self.background is not None:
            self.background.close()

    def drain(self):
        storage = self.background
        while any((s.ready for s in self.streams.values())) or (storage and storage.behind):
            for stream in self.streams.values():
                stream.run_next()
            if storage is not None:
                storage.run()

    def state(self):
        return None
''',
    'harness.targets.sglang.oracles.base': r'''
from typing import ClassVar
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Copy
from harness.targets.sglang.storage import Page, Prints
from harness.targets.sglang.view import View
from harness.targets.sglang.world import Row, World
__all__ = ['Broken', 'Oracle']

class Oracle:
    name: ClassVar[str]
    sees_opaque: ClassVar[bool] = False

    def __init__(self, world, view):
        self.world = world
        self.view = view
''',
    'harness.targets.sglang.oracles.content': r'''
from harness.targets.sglang.oracles.base import Oracle

class Content(Oracle):
    name = 'C'
    sees_opaque = True
''',
    'harness.targets.sglang.oracles.copies': r'''
from harness.targets.sglang.oracles.base import Oracle

class Copies(Oracle):
    name = 'D'
    sees_opaque = True
''',
    'harness.targets.sglang.oracles.ledger': r'''
from dataclasses import dataclass, field
from harness.targets.sglang.oracles.base import Oracle
from harness.targets.sglang.view import tree_of
Holder = tuple[str, object]
Held = tuple[int, str]
_REQUESTS = ('_req_inc_lock_ref', 'cache_unfinished_req', 'cache_finished_req', '_dec_req_lock', '_commit_prefill_admission', 'checkpoint_into_tree', 'release_kv_cache', 'release_swa_prefix_lock')
_EARLY = 'dec_swa_lock_only'
PREPARED = 'load-back in preparation'
FRAMES = 6
_OTHERS = {'_lock_node': 'admission', 'write_backup': 'backup', '_execute_and_commit_kv_backup': 'backup', 'writing_check': 'backup', '_finish_write_through_ack': 'backup', 'loading_check': 'load', 'finalize_match_result': 'state copy', 'finalize_match_result_in_cache': 'state copy'}

@dataclass
class Receipt:
    holder: Holder
    anchor: int
    given: set[Held] = field(default_factory=set)

    def __str__(self):
        nodes = ', '.join((f'{component} of node {node}' for node, component in sorted(self.given)))
        return f"{self.holder[0]} {self.holder[1]} holds {nodes or 'nothing'}"

class Ledger(Oracle):
    name = 'L'

    def __init__(self, world, view):
        super().__init__(world, view)
        self.receipts = {}
        self._tree = tree = tree_of(world.cache)
        self._acquire, self._release = (tree.inc_lock_ref, tree.dec_lock_ref)
        tree.inc_lock_ref, tree.dec_lock_ref = (self.acquire, self.release)
        self._split, tree._split_node = (tree._split_node, self.split)
        if hasattr(tree, _EARLY):
            self._release_early, tree.dec_swa_lock_only = (tree.dec_swa_lock_only, self.release_early)
''',
    'harness.targets.sglang.oracles.host_ledger': r'''
from harness.targets.sglang.oracles.ledger import Ledger
HOLDERS = {'prefetch_from_storage': 'prefetch', 'check_prefetch_progress': 'prefetch', '_handle_prefetch_result': 'prefetch', '_sync_and_check_hybrid_prefetch_result': 'prefetch', '_retire_ongoing_prefetch': 'prefetch', 'release_aborted_request': 'prefetch', '_revoke_pending_prefetch': 'prefetch', 'revoke_pending_prefetch': 'prefetch', '_check_hybrid_prefetch_result': 'prefetch', '_drain_revoke': 'prefetch', 'write_backup_storage': 'persist', '_drain_backup': 'persist', '_lock_node': 'admission', 'load_back': 'load-back', '_load_back_transfers': 'load-back', 'loading_check': 'load-back'}

class HostLedger(Ledger):

    def __init__(self, world, view):
        self.receipts = {}
        self.world, self.view, self._tree = (world, view, view.tree)
        if world.background is None:
            return
        tree = self._tree
        self._acquire, self._release = (tree.inc_host_lock_ref, tree.dec_host_lock_ref)
        tree.inc_host_lock_ref, tree.dec_host_lock_ref = (self.acquire, self.release)
        self._split, tree._split_node = (tree._split_node, self.split)
''',
    'harness.targets.sglang.oracles.ownership': r'''
from harness.targets.sglang.oracles.base import Oracle

class Ownership(Oracle):
    name = 'O'
''',
    'harness.targets.sglang.oracles.structure': r'''
from harness.targets.sglang.oracles.base import Broken, Oracle

class Structure(Oracle):
    name = 'S'

    def settled(self):
        closed = self.world.shape.policy != 'write_back'
        seen = {}
        for node in self.view.nodes():
            seen[node.id] = node
            if node.root:
                continue
            if node.device['full'] is None and node.host['full'] is None:
                raise Broken('S2', 'a dead node', f'node {node.id} has FULL somewhere', 'it has none')
            parent = seen[node.parent]
            if parent.root:
                continue
            if node.device['full'] is not None and parent.device['full'] is None:
                raise Broken('S4', 'FULL on the device below a parent without', f'node {parent.id} has FULL on the device, as node {node.id} below it', 'it has not')
            if closed and node.host['full'] is not None and (parent.host['full'] is None):
                raise Broken('S5', 'a backup below a parent without one', f'node {parent.id} is backed up, as node {node.id} below it', 'it is not')
    at_rest = settled
''',
    'harness.targets.sglang.oracles': r'''
from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.oracles.content import Content
from harness.targets.sglang.oracles.copies import Copies
from harness.targets.sglang.oracles.host_ledger import HostLedger
from harness.targets.sglang.oracles.ledger import Ledger
from harness.targets.sglang.oracles.ownership import Ownership
from harness.targets.sglang.oracles.structure import Structure
ORACLES: tuple[type[Oracle], ...] = (Ledger, HostLedger, Copies, Ownership, Content, Structure)
__all__ = ['ORACLES', 'Broken', 'Content', 'Copies', 'HostLedger', 'Ledger', 'Oracle', 'Ownership', 'Structure']
''',
    'harness.targets.sglang.pair': r'''
from typing import Any, TypeVar
from harness.explore.kernel import Kernel, Signal
from harness.targets.sglang.agreement import Group
from harness.targets.sglang.device import Device
from harness.targets.sglang.workers import Site
from harness.targets.sglang.world import Launch, World
RANKS = 2
SYNC_GROUPS = ('prefetch_sync_groups', 'prefetch_hits_sync_groups', 'prefetch_completion_sync_groups')
T = TypeVar('T')
Launched = tuple[Any, Any, Launch]

class _Process:

    def __init__(self, release):
        self._release = release
        self._site = Site.current
        self._default, self._current = (Device.default, Device.current)
        self._numbers = release.numbers()

class Pair:

    def __init__(self, release, scenario):
        self.kernel = Kernel()
        self.ranks = []
        self._processes = []
        self._changed = changed = Signal('changed')
        for _ in range(RANKS):
            world = World(release, scenario, kernel=self.kernel, changed=changed)
            cache = world.cache
            cache.tp_group, cache.tp_world_size = (Group(RANKS), RANKS)
            if world.background is not None:
                world.background.agree_with(self._meet)
                for groups in SYNC_GROUPS:
                    if hasattr(cache.cache_controller, groups):
                        setattr(cache.cache_controller, groups, [Group(RANKS)])
            world.scheduler.result_queue = []
            self.ranks.append(world)
            self._processes.append(_Process(release))
        self._results = []
        self.skewed = 0
''',
    'harness.targets.sglang.runner': r'''
import re
from typing import NamedTuple, Protocol
from harness.explore.marks import run_marks
from harness.explore.outcome import Outcome, Verdict
from harness.explore.pickers import Search
from harness.explore.tape import Divergence
from harness.stall import Stalled, stall_watch
from harness.targets.sglang.baton import Baton
from harness.targets.sglang.marks import Marks
from harness.targets.sglang.oracles import ORACLES, Broken
from harness.targets.sglang.pair import Pair
from harness.targets.sglang.view import View
from harness.targets.sglang.world import World
STEP_LIMIT = 3000
STEP_S = 3.0
ALONE = ', one request at a time'

class Seat(NamedTuple):
    world: World
    view: View

class Spectator(Protocol):

    def on_step(self, task, point):
        ...

    def after_step(self, task, point):
        ...

class _Stage:

    def __init__(self, release, scenario, without):
        self.pair = Pair(release, scenario) if scenario.get('ranks', 1) > 1 else None
        worlds = self.pair.ranks if self.pair else [World(release, scenario)]
        self.seats = [Seat(world, View(world.cache, world.pools)) for world in worlds]
        self.oracles = []
        first = self.seats[0]
        if self.pair is None:
            seen = [kind for kind in ORACLES if first.view.opaque <= kind.sees_opaque]
            self.oracles = [kind(*first) for kind in seen if kind.name not in without]
        self.marks = Marks(*first)
        for seat in self.seats:
            seat.world.watchers = [seat.view]
        first.world.watchers += [*self.oracles, self.marks]
        self.kernel = first.world.kernel

    @property
    def serving(self):
        return self.seats[0].world.serving

    def start(self):
        (self.pair or self.seats[0].world).start()

    def close(self):
        for seat in self.seats:
            seat.world.close()

    def reached(self):
        counts = {mark: n for mark, n in self.marks.counts.items() if n}
        if self.pair is not None and self.pair.skewed:
            counts['ranks_skewed'] = self.pair.skewed
        return counts

class ReleaseRunner:

    def __init__(self, release, *, without=()):
        self.release = release
        self._without = without

    def run(self, scenario, chooser, spectator=None):
        without = (*self._without, *scenario.get('without', ()))
        stage = _Stage(self.release, scenario, without)
        kernel = stage.kernel
        search = Search(chooser)
        try:
            with stall_watch(_of_the_release, _runs, limit_s=STEP_S) as next_step:
                kernel.on_step = _both(next_step, spectator)
                if spectator is not None:
                    spectator.begin(stage.seats)
                    kernel.after_step = spectator.after_step
                return self._run(stage, search, spectator)
        finally:
            stage.close()

    def _run(self, stage, search, spectator):
        stage.start()
        kernel = stage.kernel
        ended = kernel.run(search, step_limit=STEP_LIMIT)
        if isinstance(ended.error, Divergence):
            raise ended.error
        if spectator is not None and ended.reason == 'raised':
            last = next((task for task in kernel.tasks if task.name == ended.task))
            spectator.after_step(last, last.point)
        verdict = _judge(ended)
        if verdict is not None and stage.serving:
            verdict = verdict._replace(signature=verdict.signature + ALONE)
        if verdict is None:
            try:
                stage.rest()
            except Exception as error:
                verdict = verdict_of(error)
        tape = search.tape
        return Outcome(verdict=verdict, ended=ended, tape=tape, marks=run_marks(tape.order, tape.points, stage.reached()))

def _both(next_step, spectator):

    def on_step(task, point):
        next_step()
        if spectator is not None:
            spectator.on_step(task, point)
    return on_step

def _runs():
    return Baton.current

def _of_the_release(frame):
    module = str(frame.f_globals.get('__name__', ''))
    return module.startswith('sglang.srt.mem_cache') and '.' in frame.f_code.co_qualname

def _judge(ended):
    if ended.reason in ('deadlock', 'step_limit'):
        waiting = ', '.join((f'{w.task} at {w.point.name}' for w in ended.waiting))
        return Verdict('P1', ended.reason, f'expected every request ends, saw {waiting}')
    return None if ended.error is None else verdict_of(ended.error)

def verdict_of(error):
    if isinstance(error, Stalled):
        return Verdict('P1', f'stalled in {error.where}', f'expected every step ends, saw {error}')
    if isinstance(error, Broken):
        said = f'expected {error.expected}, saw {error.seen}'
        return Verdict(error.oracle, re.sub('\\d+', '#', error.signature), said)
    inner, entry = _frames(error.__traceback__)
    signature = f'{type(error).__name__} in {inner}' + (f', from {entry}' if entry else '')
    said = str(error).split('\n')[0] or 'nothing said'
    return Verdict('crash', signature, f'expected no exception, saw {said}')
_ENTRIES = ('check_hicache_events', 'flush_write_through_acks', 'cache_finished_req', 'cache_unfinished_req', 'init_load_back', 'match_prefix', 'evict', 'sanity_check')
''',
}

if __name__ == "__main__":
    raise SystemExit(main())
