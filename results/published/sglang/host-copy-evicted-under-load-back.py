#!/usr/bin/env python3
"""Making room for a load-back evicts the host copy that it is about to load

VIOLATION  crash.TypeError in FullComponent.commit_hicache_transfer, from init_load_back
  expected no exception, saw object of type 'NoneType' has no len()
  found by urw, seed 6949340736665043878
minimal: 7 tasks, 143 steps, 32 switches (from 7 tasks, 143 steps, 32 switches; 0 replays)
  step  task   point                  tree: device host, locks by component                        
     1  sched  scheduler.receive      -                                                            
     2  sched  scheduler.receive      -                                                            
     3  sched  scheduler.receive      -                                                            
     4  sched  scheduler.receive      -                                                            
     5  R5     client.send            -                                                            
     6  R8     client.send            -                                                            
     7  sched  scheduler.idle         -                                                            
     8  sched  scheduler.receive      full: 43 of 46 free                                          
     9  sched  scheduler.launch       -                                                            
    10  sched  scheduler.receive      node 5 [0:3) of 0: new F .  locks 1                          
                                      full: 40 of 46 free                                          
    11  sched  scheduler.launch       -                                                            
    12  fwd    fwd.idle               -                                                            
    13  fwd    forward.run            -                                                            
    14  fwd    forward.run            -                                                            
    15  sched  scheduler.synchronize  -                                                            
    16  sched  scheduler.process      -                                                            
    17  sched  scheduler.receive      node 6 [3:6) of 5: new F .  locks 1                          
                                      full: 37 of 46 free                                          
    18  sched  scheduler.launch       -                                                            
    19  sched  scheduler.process      -                                                            
    20  sched  scheduler.receive      node 7 [6:9) of 6: new F .  locks 1                          
                                      full: 34 of 46 free                                          
    21  sched  scheduler.launch       -                                                            
    22  fwd    fwd.idle               -                                                            
    23  fwd    forward.run            -                                                            
    24  fwd    forward.run            -                                                            
    25  sched  scheduler.synchronize  -                                                            
    26  sched  scheduler.process      -                                                            
    27  sched  scheduler.receive      node 8 [9:12) of 7: new F .  locks 1                         
                                      full: 31 of 46 free                                          
    28  sched  scheduler.launch       -                                                            
    29  sched  scheduler.process      -                                                            
    30  sched  scheduler.receive      node 9 [12:15) of 8: new F .  locks 1                        
                                      full: 28 of 46 free                                          
    31  sched  scheduler.launch       -                                                            
    32  fwd    fwd.idle               -                                                            
    33  fwd    forward.run            -                                                            
    34  fwd    forward.run            -                                                            
    35  sched  scheduler.synchronize  -                                                            
    36  sched  scheduler.process      -                                                            
    37  sched  scheduler.receive      node 10 [15:18) of 9: new F .  locks 1                       
                                      full: 25 of 46 free                                          
    38  sched  scheduler.launch       -                                                            
    39  sched  scheduler.process      -                                                            
    40  sched  scheduler.receive      node 11 [18:21) of 10: new F .  locks 1                      
                                      full: 22 of 46 free                                          
    41  sched  scheduler.launch       -                                                            
    42  fwd    fwd.idle               -                                                            
    43  fwd    forward.run            -                                                            
    44  fwd    forward.run            -                                                            
    45  sched  scheduler.synchronize  -                                                            
    46  sched  scheduler.process      -                                                            
    47  sched  scheduler.receive      node 12 [21:24) of 11: new F .  locks 1                      
                                      full: 19 of 46 free                                          
    48  sched  scheduler.launch       -                                                            
    49  sched  scheduler.process      -                                                            
    50  sched  scheduler.receive      node 13 [24:27) of 12: new F .  locks 1                      
                                      full: 16 of 46 free                                          
    51  sched  scheduler.launch       -                                                            
    52  fwd    fwd.idle               -                                                            
    53  fwd    forward.run            -                                                            
    54  fwd    forward.run            -                                                            
    55  sched  scheduler.synchronize  -                                                            
    56  sched  scheduler.process      -                                                            
    57  sched  scheduler.receive      full: 15 of 46 free                                          
    58  sched  scheduler.launch       -                                                            
    59  sched  scheduler.process      node 14 [27:30) of 13: new F .  locks 1                      
    60  sched  scheduler.receive      full: 14 of 46 free                                          
    61  sched  scheduler.launch       -                                                            
    62  fwd    fwd.idle               -                                                            
    63  fwd    forward.run            -                                                            
    64  fwd    forward.run            -                                                            
    65  sched  scheduler.synchronize  -                                                            
    66  sched  scheduler.process      node 5 [0:3) of 0: locks 1 -> 0                              
                                      node 6 [3:6) of 5: locks 1 -> 0                              
                                      node 7 [6:9) of 6: locks 1 -> 0                              
                                      node 8 [9:12) of 7: locks 1 -> 0                             
                                      node 9 [12:15) of 8: locks 1 -> 0                            
                                      node 10 [15:18) of 9: locks 1 -> 0                           
                                      node 11 [18:21) of 10: locks 1 -> 0                          
                                      node 12 [21:24) of 11: locks 1 -> 0                          
                                      node 13 [24:27) of 12: locks 1 -> 0                          
                                      node 14 [27:30) of 13: locks 1 -> 0                          
                                      node 15 [30:32) of 14: new F .  locks 0                      
    67  sched  scheduler.receive      -                                                            
    68  sched  scheduler.process      -                                                            
    69  sched  scheduler.receive      full: 11 of 46 free                                          
    70  sched  scheduler.launch       -                                                            
    71  sched  scheduler.receive      node 16 [0:3) of 0: new F .  locks 1                         
                                      full: 8 of 46 free                                           
    72  R6     client.think           -                                                            
    73  R6     client.send            -                                                            
    74  fwd    fwd.idle               -                                                            
    75  fwd    forward.run            -                                                            
    76  sched  scheduler.launch       -                                                            
    77  sched  scheduler.process      -                                                            
    78  sched  scheduler.receive      node 17 [3:6) of 16: new F .  locks 1                        
                                      full: 5 of 46 free                                           
    79  sched  scheduler.launch       -                                                            
    80  fwd    fwd.idle               -                                                            
    81  fwd    forward.run            -                                                            
    82  fwd    forward.run            -                                                            
    83  sched  scheduler.synchronize  -                                                            
    84  sched  scheduler.process      -                                                            
    85  sched  scheduler.receive      node 18 [6:9) of 17: new F .  locks 1                        
                                      full: 2 of 46 free                                           
    86  sched  scheduler.launch       -                                                            
    87  sched  scheduler.process      -                                                            
    88  sched  scheduler.receive      node 14 [27:30) of 13: F .  locks 0 -> . f  locks 0          
                                      node 15 [30:32) of 14: F .  locks 0 -> . f  locks 0          
                                      node 19 [9:12) of 18: new F .  locks 1                       
                                      full: 4 of 46 free                                           
    89  sched  scheduler.launch       -                                                            
    90  fwd    fwd.idle               -                                                            
    91  fwd    forward.run            -                                                            
    92  sched  scheduler.process      -                                                            
    93  sched  scheduler.receive      node 20 [12:15) of 19: new F .  locks 1                      
                                      full: 1 of 46 free                                           
    94  sched  scheduler.launch       -                                                            
    95  sched  scheduler.process      -                                                            
    96  sched  scheduler.receive      node 13 [24:27) of 12: F .  locks 0 -> . f  locks 0          
                                      node 21 [15:18) of 20: new F .  locks 1                      
    97  sched  scheduler.launch       -                                                            
    98  sched  scheduler.process      -                                                            
    99  sched  scheduler.receive      node 12 [21:24) of 11: F .  locks 0 -> . f  locks 0          
                                      node 22 [18:21) of 21: new F .  locks 1                      
   100  sched  scheduler.launch       -                                                            
   101  sched  scheduler.process      -                                                            
   102  sched  scheduler.receive      node 11 [18:21) of 10: F .  locks 0 -> . f  locks 0          
                                      node 23 [21:24) of 22: new F .  locks 1                      
   103  sched  scheduler.launch       -                                                            
   104  sched  scheduler.process      -                                                            
   105  sched  scheduler.receive      node 10 [15:18) of 9: F .  locks 0 -> . f  locks 0           
                                      node 24 [24:27) of 23: new F .  locks 1                      
   106  sched  scheduler.launch       -                                                            
   107  sched  scheduler.process      -                                                            
   108  fwd    fwd.idle               -                                                            
   109  fwd    forward.run            -                                                            
   110  sched  scheduler.receive      node 25 [27:30) of 24: new F .  locks 1                      
                                      full: 0 of 46 free                                           
   111  sched  scheduler.launch       -                                                            
   112  sched  scheduler.process      -                                                            
   113  sched  scheduler.receive      node 9 [12:15) of 8: F .  locks 0 -> . f  locks 0            
                                      full: 2 of 46 free                                           
   114  sched  scheduler.launch       -                                                            
   115  sched  scheduler.process      node 16 [0:3) of 0: locks 1 -> 0                             
                                      node 17 [3:6) of 16: locks 1 -> 0                            
                                      node 18 [6:9) of 17: locks 1 -> 0                            
                                      node 19 [9:12) of 18: locks 1 -> 0                           
                                      node 20 [12:15) of 19: locks 1 -> 0                          
                                      node 21 [15:18) of 20: locks 1 -> 0                          
                                      node 22 [18:21) of 21: locks 1 -> 0                          
                                      node 23 [21:24) of 22: locks 1 -> 0                          
                                      node 24 [24:27) of 23: locks 1 -> 0                          
                                      node 25 [27:30) of 24: locks 1 -> 0                          
                                      node 26 [30:32) of 25: new F .  locks 0                      
   116  fwd    fwd.idle               -                                                            
   117  fwd    forward.run            -                                                            
   118  R9     client.think           -                                                            
   119  R9     client.send            -                                                            
   120  sched  scheduler.receive      -                                                            
   121  sched  scheduler.process      -                                                            
   122  sched  scheduler.receive      node 5 [0:3) of 0: locks 0 -> 2                              
                                      node 6 [3:6) of 5: locks 0 -> 2                              
                                      node 7 [6:9) of 6: locks 0 -> 2                              
                                      node 8 [9:12) of 7: locks 0 -> 2                             
                                      node 9 [12:15) of 8: . f  locks 0 -> F f  locks 2            
                                      node 10 [15:18) of 9: . f  locks 0 -> F f  locks 2           
                                      node 11 [18:21) of 10: . f  locks 0 -> F f  locks 2          
                                      node 12 [21:24) of 11: . f  locks 0 -> F f  locks 2          
                                      node 13 [24:27) of 12: . f  locks 0 -> F f  locks 2          
                                      node 14 [27:30) of 13: . f  locks 0 -> F f  locks 2          
                                      node 15 [30:32) of 14: . f  locks 0 -> F f loading  locks 2  
                                      node 19 [9:12) of 18: F .  locks 0 -> . f  locks 0           
                                      node 20 [12:15) of 19: F .  locks 0 -> . f  locks 0          
                                      node 21 [15:18) of 20: F .  locks 0 -> . f  locks 0          
                                      node 22 [18:21) of 21: F .  locks 0 -> . f  locks 0          
                                      node 23 [21:24) of 22: F .  locks 0 -> . f  locks 0          
                                      node 24 [24:27) of 23: F .  locks 0 -> . f  locks 0          
                                      node 25 [27:30) of 24: F .  locks 0 -> . f  locks 0          
                                      node 26 [30:32) of 25: F .  locks 0 -> . f  locks 0          
   123  sched  scheduler.launch       -                                                            
   124  sched  scheduler.receive      full: 1 of 46 free                                           
   125  sched  scheduler.launch       -                                                            
   126  h2d    h2d.idle               -                                                            
   127  h2d    copy.to_device         -                                                            
   128  fwd    fwd.idle               -                                                            
   129  fwd    forward.run            -                                                            
   130  fwd    forward.run            -                                                            
   131  sched  scheduler.synchronize  -                                                            
   132  sched  scheduler.process      node 27 [32:35) of 15: new F .  locks 1                      
   133  sched  scheduler.receive      node 5 [0:3) of 0: locks 2 -> 1                              
                                      node 6 [3:6) of 5: locks 2 -> 1                              
                                      node 7 [6:9) of 6: locks 2 -> 1                              
                                      node 8 [9:12) of 7: locks 2 -> 1                             
                                      node 9 [12:15) of 8: locks 2 -> 1                            
                                      node 10 [15:18) of 9: locks 2 -> 1                           
                                      node 11 [18:21) of 10: locks 2 -> 1                          
                                      node 12 [21:24) of 11: locks 2 -> 1                          
                                      node 13 [24:27) of 12: locks 2 -> 1                          
                                      node 14 [27:30) of 13: locks 2 -> 1                          
                                      node 15 [30:32) of 14: F f loading  locks 2 -> F f  locks 1  
                                      full: 0 of 46 free                                           
   134  sched  scheduler.launch       -                                                            
   135  sched  scheduler.process      -                                                            
   136  sched  scheduler.receive      node 18 [6:9) of 17: F .  locks 0 -> . f  locks 0            
                                      full: 2 of 46 free                                           
   137  sched  scheduler.launch       -                                                            
   138  sched  scheduler.process      node 5 [0:3) of 0: locks 1 -> 0                              
                                      node 6 [3:6) of 5: locks 1 -> 0                              
                                      node 7 [6:9) of 6: locks 1 -> 0                              
                                      node 8 [9:12) of 7: locks 1 -> 0                             
                                      node 9 [12:15) of 8: locks 1 -> 0                            
                                      node 10 [15:18) of 9: locks 1 -> 0                           
                                      node 11 [18:21) of 10: locks 1 -> 0                          
                                      node 12 [21:24) of 11: locks 1 -> 0                          
                                      node 13 [24:27) of 12: locks 1 -> 0                          
                                      node 14 [27:30) of 13: locks 1 -> 0                          
                                      node 15 [30:32) of 14: locks 1 -> 0                          
                                      node 27 [32:35) of 15: locks 1 -> 0                          
                                      node 28 [35:38) of 27: new F .  locks 0                      
   139  fwd    fwd.idle               -                                                            
   140  fwd    forward.run            -                                                            
   141  sched  scheduler.receive      -                                                            
   142  sched  scheduler.process      -                                                            
>> 143  sched  scheduler.receive      node 9 [12:15) of 8: F f  locks 0 -> . f  locks 0            
                                      node 10 [15:18) of 9: F f  locks 0 -> . f  locks 0           
                                      node 11 [18:21) of 10: F f  locks 0 -> . f  locks 0          
                                      node 12 [21:24) of 11: F f  locks 0 -> . f  locks 0          
                                      node 13 [24:27) of 12: F f  locks 0 -> . f  locks 0          
                                      node 14 [27:30) of 13: F f  locks 0 -> . f  locks 0          
                                      node 15 [30:32) of 14: F f  locks 0 -> . f  locks 0          
                                      node 27 [32:35) of 15: F .  locks 0 -> . f  locks 0          
                                      node 28 [35:38) of 27: F .  locks 0 -> gone                  
                                      node 18 [6:9) of 17: . f  locks 0 -> F f  locks 0            
                                      node 19 [9:12) of 18: . f  locks 0 -> F f  locks 0           
                                      node 20 [12:15) of 19: . f  locks 0 -> F f  locks 0          
                                      node 21 [15:18) of 20: . f  locks 0 -> F f  locks 0          
                                      node 22 [18:21) of 21: . f  locks 0 -> F f  locks 0          
                                      node 23 [21:24) of 22: . f  locks 0 -> F f  locks 0          
                                      node 24 [24:27) of 23: . f  locks 0 -> F f  locks 0          
                                      node 25 [27:30) of 24: . f  locks 0 -> F f  locks 0          
                                      node 26 [30:32) of 25: . f  locks 0 -> gone                  
no neighbouring order was seen to pass
same oracle: unbudgeted-window (sglang PR 27391); assert-instead-of-degrade (sglang PR 36770)
replay: python bench.py replay results/published/sglang/host-copy-evicted-under-load-back.json

Needs Python 3.11 or later, torch, numpy and sglang==0.5.13: installed, or its wheel unpacked in the
folder that SGLANG_WHEEL names, beside a folder packages with msgspec. No GPU, no model, no server. Exits with 1 when it happens.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

VERSION = "0.5.13"
RUN = r"""
{
  "format": 1,
  "tool": "kvtorture (checkout)",
  "scenario": {
    "components": "full+swa",
    "page_size": 1,
    "window": 1,
    "spare": 0,
    "swa_spare": 0,
    "states": 0,
    "ratio": 1.0,
    "policy": "write_back",
    "stretch": 24,
    "chunk": 1,
    "running": 1,
    "overlap": false,
    "ranks": 1,
    "mixed": false,
    "schedule_policy": "fcfs",
    "requests": [
      {
        "id": 5,
        "group": 1,
        "shared": 1,
        "tail": 0,
        "pages": 3,
        "own": 1,
        "answer": 2,
        "turn": false,
        "waits": false,
        "abort": false
      },
      {
        "id": 6,
        "group": 0,
        "shared": 0,
        "tail": 0,
        "pages": 1,
        "own": 1,
        "answer": 3,
        "turn": true,
        "waits": false,
        "abort": false
      },
      {
        "id": 8,
        "group": 0,
        "shared": 3,
        "tail": 0,
        "pages": 2,
        "own": 1,
        "answer": 1,
        "turn": false,
        "waits": false,
        "abort": false
      },
      {
        "id": 9,
        "group": 0,
        "shared": 0,
        "tail": 0,
        "pages": 0,
        "own": 0,
        "answer": 1,
        "turn": true,
        "waits": false,
        "abort": false
      }
    ],
    "sizes": {
      "page_size": 1,
      "full": 46,
      "swa": 0,
      "window": 0,
      "states": 0,
      "ratio": 1.0,
      "policy": "write_back",
      "chunk": 3,
      "prefill": 12,
      "running": 2,
      "context": 103,
      "overlap": true,
      "mixed": false,
      "schedule_policy": "fcfs"
    },
    "target": "sglang==0.5.13"
  },
  "found_by": {"strategy": "urw", "seed": 6949340736665043878, "schedule": 192},
  "verdict": {
    "oracle": "crash",
    "signature": "TypeError in FullComponent.commit_hicache_transfer, from init_load_back",
    "message": "expected no exception, saw object of type 'NoneType' has no len()"
  },
  "steps": 143,
  "digest": "7eb932da4be1ebea",
  "marks": {
    "prefix_hit": 19,
    "backup": 16,
    "demotion": 16,
    "load_back": 1,
    "chunked_prefill": 38,
    "turn": 1
  },
  "order": [
    ["sched", 4],
    ["R5", 1],
    ["R8", 1],
    ["sched", 5],
    ["fwd", 3],
    ["sched", 7],
    ["fwd", 3],
    ["sched", 7],
    ["fwd", 3],
    ["sched", 7],
    ["fwd", 3],
    ["sched", 7],
    ["fwd", 3],
    ["sched", 7],
    ["fwd", 3],
    ["sched", 7],
    ["R6", 2],
    ["fwd", 2],
    ["sched", 4],
    ["fwd", 3],
    ["sched", 7],
    ["fwd", 2],
    ["sched", 16],
    ["fwd", 2],
    ["sched", 6],
    ["fwd", 2],
    ["R9", 2],
    ["sched", 6],
    ["h2d", 2],
    ["fwd", 3],
    ["sched", 8],
    ["fwd", 2],
    ["sched", 3]
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
    outcome = ReleaseRunner(Release(folder(), VERSION)).run(run["scenario"], StrictReplay(tape))
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


# What drives the release, as it was when this was found (kvtorture, Apache 2.0). Its docstrings and
# comments are left out here.
SOURCES = {
    'harness': r'''
pass
''',
    'harness.explore': r'''
pass
''',
    'harness.explore.trail': r'''
from collections.abc import Iterable
from hashlib import blake2b
_FOLD_AT = 4096

class Trail:
    __slots__ = ('_digest', '_hash', '_pending')

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=8)
        self._pending: list[tuple[str, tuple[object, ...]]] = []
        self._digest = ''

    def add(self, who: str, what: tuple[object, ...]) -> None:
        self._pending.append((who, what))
        if len(self._pending) >= _FOLD_AT:
            self._fold()

    def extend(self, entries: Iterable[tuple[str, tuple[object, ...]]]) -> None:
        self._pending.extend(entries)

    def digest(self) -> str:
        if not self._digest:
            self._fold()
            self._digest = self._hash.hexdigest()
        return self._digest

    def __getstate__(self) -> str:
        return self.digest()

    def __setstate__(self, digest: str) -> None:
        self.__init__()
        self._digest = digest

    def _fold(self) -> None:
        assert not self._digest, "the trail's digest was read already"
        text = '\n'.join([f'{who}\t{what[0]}\t{what[1]}' for who, what in self._pending])
        assert ' at 0x' not in text, "a point's object must not show its address"
        if text:
            self._hash.update(text.encode() + b'\n')
        self._pending.clear()
''',
    'harness.explore.kernel': r'''
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from enum import Enum
from types import coroutine
from typing import Any, Final, Literal, NamedTuple, Protocol, cast
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

    def __init__(self, kernel: 'Kernel', name: str, number: int, coro: Coroutine[Any, Any, Any], daemon: bool) -> None:
        self.name = name
        self.number = number
        self.coro = coro
        self.daemon = daemon
        self.state = READY
        self.point = START
        self.due = 0.0
        self.steps = 0
        self.rank: tuple[float, int] = (-1.0, 0)
        self.kernel = kernel
        self._signal: Signal | None = None
        self._cancelled = False

    def __repr__(self) -> str:
        return f'<{self.name} {self.state.value} at {self.point.name}>'

class Signal:
    __slots__ = ('_waiters', 'name')

    def __init__(self, name: str='signal') -> None:
        self.name = name
        self._waiters: list[Task] = []

    def fire(self) -> None:
        if self._waiters:
            waiters, self._waiters = (self._waiters, [])
            for task in waiters:
                task._signal = None
                task.kernel.make_ready(task)

    def __repr__(self) -> str:
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

    @property
    def digest(self) -> str:
        return self.trail.digest()

class Stop(NamedTuple):
    reason: Reason
    steps: int
    error: Exception | None = None
    task: str = ''

class Picker(Protocol):

    def drive(self, kernel: 'Kernel', step_limit: int) -> Stop:
        ...

    def make_ready(self, task: Task) -> None:
        ...

    def draw(self, label: str, bound: int) -> int:
        ...

@coroutine
def _suspend() -> Generator[None, None, None]:
    yield

def _exhausted() -> Awaitable[None]:
    awaitable = _suspend()
    cast(Generator[None, None, None], awaitable).close()
    return awaitable
FINISHED: Final = _exhausted()
_new_tuple = tuple.__new__

class Kernel:

    def __init__(self) -> None:
        self.now = 0.0
        self.current: Task | None = None
        self.on_step: Callable[[Task, Point], None] | None = None
        self.after_step: Callable[[Task, Point], None] | None = None
        self.on_end: Callable[[Ended], None] | None = None
        self.state_key: Callable[[], Hashable] | None = None
        self.tasks: list[Task] = []
        self.fresh: list[Task] = []
        self.alive = 0
        self.stopping = False
        self.inline = True
        self.trail = Trail()
        self._names: dict[str, Task] = {}
        self._sequence = 0
        self._closing = False
        self._picker: Picker | None = None

    def spawn(self, name: str, coro: Coroutine[Any, Any, Any], *, daemon: bool=False) -> Task:
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

    def point(self, name: str, obj: object=None, write: bool=True) -> Awaitable[None]:
        if self.inline:
            if self.on_step is not None and self.current is not None:
                self.on_step(self.current, Point(name, obj, write))
            return FINISHED
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, write))
        task.state = READY
        return _suspend()

    def pause(self, seconds: float, name: str, obj: object=None) -> Awaitable[None]:
        if self._closing:
            return FINISHED
        assert seconds >= 0, seconds
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, True))
        task.state = PAUSED
        task.due = due = self.now + seconds
        task.rank = (due, task.number)
        return _suspend()

    def wait(self, signal: Signal, name: str, obj: object=None) -> Awaitable[None]:
        if self._closing:
            raise Cancelled('the run is over')
        task = self._leaving()
        task.point = _new_tuple(Point, (name, obj, True))
        task.state = BLOCKED
        task._signal = signal
        signal._waiters.append(task)
        return _suspend()

    def draw(self, label: str, bound: int) -> int:
        assert bound >= 1, bound
        if bound == 1 or self._picker is None or self._closing:
            return 0
        value = self._picker.draw(label, bound)
        assert 0 <= value < bound, (label, value, bound)
        self.trail.add(label, ('=', value))
        return value

    def cancel(self, task: Task) -> bool:
        if task.state is DONE:
            return False
        assert task is not self.current, 'a task cannot cancel itself'
        task._cancelled = True
        if task.state is BLOCKED:
            if task._signal is not None:
                task._signal._waiters.remove(task)
                task._signal = None
            self.make_ready(task)
        elif task.state is PAUSED and self.inline:
            self.make_ready(task)
        return True

    def stop(self) -> None:
        self.stopping = True

    def run(self, picker: Picker, *, step_limit: int) -> Ended:
        assert self._picker is None, 'a kernel runs once'
        self._picker = picker
        try:
            ended = self._ended(picker.drive(self, step_limit))
            if self.on_end is not None:
                self.on_end(ended)
            return ended
        finally:
            self._close()

    def sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def make_ready(self, task: Task) -> None:
        if self._closing:
            return
        task.state = READY
        task.rank = (-1.0, self.sequence())
        if self._picker is not None:
            self._picker.make_ready(task)

    def resume(self, task: Task) -> None:
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

    def _leaving(self) -> Task:
        task = self.current
        assert task is not None, 'only a running task announces points'
        assert task.state is RUNNING, f'{task.name} announced a point without awaiting it'
        return task

    def _ended(self, stop: Stop) -> Ended:
        waiting: tuple[Waiting, ...] = ()
        if stop.reason == 'deadlock':
            blocked = sorted((t for t in self.tasks if t.state is BLOCKED), key=lambda t: t.daemon)
            waiting = tuple((Waiting(t.name, t.point, t._signal.name if t._signal else '') for t in blocked))
        trail = self.trail
        return Ended(stop.reason, stop.steps, trail, self.now, stop.error, stop.task, waiting)

    def _close(self) -> None:
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
    'harness.explore.marks': r'''
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from harness.explore.kernel import Point
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

def run_marks(order: Sequence[str], points: Sequence[Point], sometimes: Mapping[str, int] | None=None, transitions: tuple[str, ...]=()) -> RunMarks:
    by_object: dict[object, list[Access]] = {}
    for task, (name, obj, write) in zip(order, points, strict=True):
        if obj is not None:
            if obj not in by_object:
                by_object[obj] = []
            by_object[obj].append((task, name, write))
    pairs: dict[Pair, None] = {}
    triples: dict[Triple, None] = {}
    spans: dict[tuple[str, str, str], None] = {}
    touches: dict[tuple[str, str, bool], None] = {}
    for obj, accesses in by_object.items():
        kind = kind_of(obj)
        touches.update(dict.fromkeys([(kind, name, write) for _, name, write in accesses]))
        _walk(kind, accesses, pairs, triples, spans)
    return RunMarks(points=dict(Counter([point[0] for point in points])), sometimes=dict(sometimes or {}), pairs=tuple(pairs), triples=tuple(triples), spans=tuple(spans), touches=tuple(touches), transitions=transitions)

def kind_of(obj: object) -> str:
    return str(obj[0]) if isinstance(obj, tuple) and obj else str(obj)

def _walk(kind: str, accesses: list[Access], pairs: dict[Pair, None], triples: dict[Triple, None], spans: dict[tuple[str, str, str], None]) -> None:
    last: dict[str, int] = {}
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

    def add(self, run: RunMarks) -> int:
        fresh = sum((pair not in self.pairs for pair in run.pairs))
        fresh += sum((triple not in self.triples for triple in run.triples))
        fresh += sum((mark not in self.sometimes for mark in run.sometimes))
        fresh += sum((move not in self.transitions for move in run.transitions))
        self.schedules += 1
        self.points.update(run.points)
        self.sometimes.update(run.sometimes)
        self.pairs.update(run.pairs)
        self.triples.update(run.triples)
        self.spans.update(run.spans)
        self.touches.update(run.touches)
        self.transitions.update(run.transitions)
        return fresh

    def merge(self, other: 'Marks') -> None:
        self.schedules += other.schedules
        self.points.update(other.points)
        self.sometimes.update(other.sometimes)
        self.pairs.update(other.pairs)
        self.triples.update(other.triples)
        self.spans.update(other.spans)
        self.touches.update(other.touches)
        self.transitions.update(other.transitions)

    def unseen_mass(self) -> float:
        if self.schedules == 0:
            return 1.0
        once = sum((count == 1 for count in self.pairs.values()))
        once += sum((count == 1 for count in self.triples.values()))
        return min(1.0, once / self.schedules)

    def failure_bound(self) -> float:
        return min(1.0, 3.0 / self.schedules) if self.schedules else 1.0

    def unseen_pairs(self) -> Iterator[Pair]:
        for names in self._writers().values():
            for first, first_write in names.items():
                for second, write in names.items():
                    if (first_write or write) and (first, second) not in self.pairs:
                        yield (first, second)

    def unseen_triples(self) -> Iterator[Triple]:
        by_kind = self._writers()
        for kind, first, second in self.spans:
            names = by_kind[kind]
            own = names[first] or names[second]
            for middle, write in names.items():
                triple = (first, middle, second)
                if (own or write) and triple not in self.triples:
                    yield triple

    def _writers(self) -> dict[str, dict[str, bool]]:
        by_kind: dict[str, dict[str, bool]] = {}
        for kind, name, write in self.touches:
            names = by_kind.setdefault(kind, {})
            names[name] = names.get(name, False) or write
        return by_kind

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

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

def certify(marks: Marks, *, violations: int, required: Mapping[str, float], measured: Mapping[str, float] | None=None) -> Certificate:
    found = {**marks.points, **marks.sometimes, **(measured or {})}
    missing = tuple((Missing(name, found.get(name, 0), least) for name, least in required.items() if found.get(name, 0) < least))
    verdict: Literal['pass', 'violation', 'inconclusive'] = 'pass'
    if violations:
        verdict = 'violation'
    elif missing or marks.schedules == 0:
        verdict = 'inconclusive'
    return Certificate(verdict, missing, marks.schedules, marks.unseen_mass(), marks.failure_bound())
''',
    'harness.explore.tape': r'''
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol
from harness.explore.kernel import Point

class Choice(NamedTuple):
    label: str
    value: int
    bound: int

class Named(Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def steps(self) -> int:
        ...

class Divergence(Exception):

    def __init__(self, step: int, expected: str, runnable: Sequence[str]) -> None:
        self.step = step
        self.expected = expected
        self.runnable = tuple(runnable)
        super().__init__(step, expected, self.runnable)

    def __str__(self) -> str:
        possible = ', '.join(self.runnable) or 'none'
        return f'replay diverged at step {self.step}: expected {self.expected}, possible were {possible}'

class Tape:
    __slots__ = ('bounds', 'draws', 'order', 'points', 'values')

    def __init__(self, order: Iterable[str]=(), draws: Iterable[Choice]=()) -> None:
        self.order: list[str] = list(order)
        self.draws: list[Choice] = list(draws)
        self.points: list[Point] = []
        self.values: list[int] = []
        self.bounds: list[int] = []

    def record_draw(self, label: str, value: int, bound: int) -> None:
        self.draws.append(Choice(label, value, bound))

    @property
    def picks(self) -> list[Choice]:
        return [Choice('task', v, b) for v, b in zip(self.values, self.bounds, strict=True)]

    @property
    def switches(self) -> int:
        return sum((a != b for a, b in zip(self.order, self.order[1:], strict=False)))

    def to_json(self) -> dict[str, Any]:
        return {'order': [[name, len(list(run))] for name, run in groupby(self.order)], 'draws': [[*choice, len(list(run))] for choice, run in groupby(self.draws)]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> 'Tape':
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

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._recorded = Tape()
        self._checked = 0
        self._drawn = 0

    def watch(self, recorded: Tape) -> None:
        self._recorded = recorded

    def pick(self, runnable: Sequence[Named], current: Named | None) -> int:
        self._check_forced()
        step, names = (self._checked, [task.name for task in runnable])
        expected = self._tape.order[step] if step < len(self._tape.order) else 'the end'
        if expected not in names:
            raise Divergence(step + 1, expected, names)
        return names.index(expected)

    def draw(self, label: str, bound: int) -> int:
        draws, at = (self._tape.draws, self._drawn)
        self._drawn += 1
        found = f'draw {label} of {bound}'
        step = len(self._recorded.order)
        if at >= len(draws):
            raise Divergence(step, 'no further draw', [found])
        if draws[at].label != label or draws[at].bound != bound:
            raise Divergence(step, f'draw {draws[at].label} of {draws[at].bound}', [found])
        return draws[at].value

    def finish(self) -> None:
        self._check_forced()
        if self._checked < len(self._tape.order):
            raise Divergence(self._checked + 1, self._tape.order[self._checked], [])
        if self._drawn < len(self._tape.draws):
            raise Divergence(self._checked, f'draw {self._tape.draws[self._drawn].label}', [])

    def _check_forced(self) -> None:
        wanted, got = (self._tape.order, self._recorded.order)
        for step in range(self._checked, len(got)):
            expected = wanted[step] if step < len(wanted) else 'the end'
            if expected != got[step]:
                raise Divergence(step + 1, expected, [got[step]])
        self._checked = len(got)

class LenientReplay:

    def __init__(self, tape: Tape) -> None:
        self._events: deque[tuple[str, int]] = deque()
        self._draws: defaultdict[str, deque[int]] = defaultdict(deque)
        seen: defaultdict[str, int] = defaultdict(int)
        for name in tape.order:
            self._events.append((name, seen[name]))
            seen[name] += 1
        for label, value, _ in tape.draws:
            self._draws[label].append(value)

    def pick(self, runnable: Sequence[Named], current: Named | None) -> int:
        while self._events:
            name, segment = self._events.popleft()
            for at, task in enumerate(runnable):
                if task.name == name and task.steps <= segment:
                    return at
        return 0

    def draw(self, label: str, bound: int) -> int:
        values = self._draws[label]
        value = values.popleft() if values else 0
        return value if value < bound else 0

class PointReplay:

    def __init__(self, tape: Tape) -> None:
        assert len(tape.points) == len(tape.order), 'the tape of a run, not of a file'
        self._steps: deque[tuple[str, str, int]] = deque()
        self._draw = LenientReplay(Tape((), tape.draws)).draw
        self._recorded = Tape()
        self._counted = 0
        self._done: Counter[tuple[str, str]] = Counter()
        seen: Counter[tuple[str, str]] = Counter()
        for name, point in zip(tape.order, tape.points, strict=True):
            self._steps.append((name, point.name, seen[name, point.name]))
            seen[name, point.name] += 1

    def watch(self, recorded: Tape) -> None:
        self._recorded = recorded

    def pick(self, runnable: Sequence['Standing'], current: Named | None) -> int:
        order, points = (self._recorded.order, self._recorded.points)
        for at in range(self._counted, len(order)):
            self._done[order[at], points[at].name] += 1
        self._counted = len(order)
        while self._steps:
            name, point, occurrence = self._steps.popleft()
            if self._done[name, point] > occurrence:
                continue
            for at, task in enumerate(runnable):
                if task.name == name and task.point.name == point:
                    return at
        return 0

    def draw(self, label: str, bound: int) -> int:
        return self._draw(label, bound)

class Standing(Named, Protocol):

    @property
    def point(self) -> Point:
        ...

def _count(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f'a run length must be a whole number above 0, not {value!r}')
    return value
''',
    'harness.explore.pickers': r'''
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Protocol
from harness.explore.kernel import PAUSED, READY, Kernel, Stop, Task
from harness.explore.tape import PointReplay, StrictReplay, Tape
STANDSTILL = 1000000
_by_number = attrgetter('number')
_by_rank = attrgetter('rank')

class VirtualClock:

    def __init__(self, draws: Callable[[str, int], int] | None=None) -> None:
        self._draws = draws
        self._ready: deque[Task] = deque()

    def draw(self, label: str, bound: int) -> int:
        return self._draws(label, bound) if self._draws is not None else 0

    def make_ready(self, task: Task) -> None:
        self._ready.append(task)

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        ready, due = (self._ready, list[tuple[float, int, Task]]())
        steps, limit, alive = (0, min(step_limit, STANDSTILL), kernel.alive)
        while True:
            if kernel.fresh:
                ready.extend(kernel.fresh)
                kernel.fresh.clear()
            if kernel.alive == 0:
                return Stop('finished', steps)
            if kernel.stopping:
                return Stop('stopped', steps)
            if steps >= limit:
                if steps >= step_limit:
                    return Stop('step_limit', steps)
                if kernel.alive == alive:
                    return Stop('livelock', steps)
                alive, limit = (kernel.alive, min(step_limit, steps + STANDSTILL))
            if ready:
                task = ready.popleft()
            elif due:
                now, _, task = heappop(due)
                if task.state is not PAUSED or task.due != now:
                    continue
                if now > kernel.now:
                    kernel.now = now
                    alive, limit = (kernel.alive, min(step_limit, steps + STANDSTILL))
            else:
                return Stop('deadlock', steps)
            steps += 1
            try:
                begin(task)
                kernel.trail.add(task.name, task.point)
                point = task.point
                if kernel.on_step is not None:
                    kernel.on_step(task, point)
                kernel.resume(task)
                if kernel.after_step is not None:
                    kernel.after_step(task, point)
            except Exception as error:
                return Stop('raised', steps, error, task.name)
            if task.state is PAUSED:
                heappush(due, (task.due, task.number, task))

class Chooser(Protocol):

    def pick(self, runnable: Sequence[Task], current: Task | None) -> int:
        ...

    def draw(self, label: str, bound: int) -> int:
        ...

class Search:

    def __init__(self, strategy: Chooser, tape: Tape | None=None) -> None:
        self.strategy = strategy
        self.tape = tape if tape is not None else Tape()
        self._others: list[Task] = []
        if isinstance(strategy, StrictReplay | PointReplay):
            strategy.watch(self.tape)

    def draw(self, label: str, bound: int) -> int:
        value = self.strategy.draw(label, bound)
        self.tape.record_draw(label, value, bound)
        return value

    def make_ready(self, task: Task) -> None:
        insort(self._others, task, key=_by_number)

    def drive(self, kernel: Kernel, step_limit: int) -> Stop:
        kernel.inline = False
        stop = self._loop(kernel, step_limit)
        kernel.trail.extend(zip(self.tape.order, self.tape.points, strict=True))
        if isinstance(self.strategy, StrictReplay):
            self.strategy.finish()
        return stop

    def _loop(self, kernel: Kernel, step_limit: int) -> Stop:
        order, points, fresh = (self.tape.order, self.tape.points, kernel.fresh)
        pick, value, bound = (self.strategy.pick, self.tape.values.append, self.tape.bounds.append)
        others, resume = (self._others, kernel.resume)
        current: Task | None = None
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

    def _switch(self, kernel: Kernel, current: Task, index: int) -> Task:
        others = self._others
        task = others.pop(index - 1)
        current.rank = (-1.0, kernel.sequence())
        insort(others, current, key=_by_number)
        return task

    def _next(self) -> Task | None:
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

    def _prime(self, kernel: Kernel, steps: int) -> Stop | None:
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

def begin(task: Task) -> None:
    if task._cancelled:
        task.point = task.point._replace(name='cancelled', write=True)
    task.steps += 1
''',
    'harness.explore.outcome': r'''
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from harness.explore.kernel import Ended, Point
from harness.explore.marks import RunMarks
from harness.explore.pickers import Chooser
from harness.explore.tape import Tape
Scenario = dict[str, Any]

class Verdict(NamedTuple):
    oracle: str
    signature: str
    message: str

    @property
    def kind(self) -> str:
        return f'{self.oracle}.{self.signature}'

@dataclass(frozen=True, kw_only=True)
class Outcome:
    verdict: Verdict | None
    ended: Ended
    tape: Tape
    marks: RunMarks

    @property
    def digest(self) -> str:
        return self.ended.digest

    @property
    def steps(self) -> int:
        return self.ended.steps

    @property
    def points(self) -> list[Point]:
        return self.tape.points

    def __getstate__(self) -> dict[str, Any]:
        state, error = (dict(vars(self)), self.ended.error)
        if error is not None:
            text = RuntimeError(f'{type(error).__name__}: {error}')
            state['ended'] = self.ended._replace(error=text)
        return state

class Runner(Protocol):

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        ...
''',
    'harness.targets': r'''
pass
''',
    'harness.targets.sglang': r'''
pass
''',
    'harness.targets.sglang.broken': r'''
class Broken(Exception):

    def __init__(self, oracle: str, signature: str, expected: object, seen: object) -> None:
        self.oracle = oracle
        self.signature = signature
        self.expected = str(expected)
        self.seen = str(seen)
        super().__init__(f'{oracle}.{signature}: expected {expected}, saw {seen}')
''',
    'harness.targets.sglang.agreement': r'''
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from harness.targets.sglang.broken import Broken
T = TypeVar('T')
WRAPPERS = ('_all_reduce', '_barrier')

class Group(NamedTuple):
    size: int

class Own(Protocol):

    def enter(self) -> None:
        ...

    def leave(self) -> None:
        ...

class Call(NamedTuple):
    kind: str
    place: str
    tensor: Any
    op: Any

    @property
    def shape(self) -> tuple[str, tuple[int, ...]]:
        return (f'{self.kind} {self.op}', () if self.tensor is None else tuple(self.tensor.shape))

class _Abandoned(BaseException):
    pass

class _Part(threading.Thread, Generic[T]):
    current: '_Part[Any] | None' = None

    def __init__(self, work: Callable[[], T], own: Own) -> None:
        super().__init__(daemon=True)
        self.call: Call | None = None
        self.result: T | None = None
        self.error: BaseException | None = None
        self._work = work
        self._own = own
        self._go, self._stopped = (threading.Semaphore(0), threading.Semaphore(0))
        self._abandoned = False
        self.start()

    def run(self) -> None:
        try:
            self._wait()
            self.result = self._work()
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.call = None
            self._stopped.release()

    def advance(self) -> None:
        _Part.current = self
        self._own.enter()
        self._go.release()
        self._stopped.acquire()
        self._own.leave()
        _Part.current = None

    def agree(self, call: Call) -> None:
        self.call = call
        self._stopped.release()
        self._wait()
        self.call = None

    def abandon(self) -> None:
        self._abandoned = True
        self._go.release()
        self.join()

    def _wait(self) -> None:
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned

def together(works: Sequence[Callable[[], T]], owns: Sequence[Own]) -> list[T]:
    parts = [_Part(work, own) for work, own in zip(works, owns, strict=True)]
    try:
        _advance(parts)
        while any((part.call for part in parts)):
            _reduce([part.call for part in parts])
            _advance(parts)
    finally:
        for part in parts:
            part.abandon()
    return [part.result for part in parts]

def _advance(parts: Sequence[_Part[Any]]) -> None:
    for part in parts:
        part.advance()
    for part in parts:
        if part.error is not None:
            raise part.error

def _reduce(calls: Sequence[Call | None]) -> None:
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

def install() -> None:
    import torch.distributed
    real: Any = torch.distributed
    all_reduce, barrier, size = (real.all_reduce, real.barrier, real.get_world_size)

    def agreed(tensor: Any, op: Any=None, group: Any=None, **more: Any) -> Any:
        if isinstance(group, Group):
            return _ask('all_reduce', tensor, op)
        return all_reduce(tensor, op=op, group=group, **more)

    def met(group: Any=None, **more: Any) -> Any:
        return _ask('barrier', None, None) if isinstance(group, Group) else barrier(group, **more)

    def size_of(group: Any=None) -> int:
        return group.size if isinstance(group, Group) else int(size(group))
    real.all_reduce, real.barrier, real.get_world_size = (agreed, met, size_of)

def _ask(kind: str, tensor: Any, op: Any) -> None:
    assert _Part.current is not None, 'an agreement outside a common step'
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name.startswith(WRAPPERS):
        frame = frame.f_back
    _Part.current.agree(Call(kind, frame.f_code.co_name, tensor, op))
''',
    'harness.targets.sglang.device': r'''
from collections import deque
from collections.abc import Callable, Iterator
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pending = 0
        self._stream: Stream | None = None
        self._after: list[Event] = []

    def record(self, stream: 'Stream | None'=None) -> None:
        (stream or Device.current).issue_event(self)

    def query(self) -> bool:
        return self._pending == 0 and all((event.query() for event in self._after))

    def synchronize(self) -> None:
        for event in self._after:
            event.synchronize()
        while self._pending:
            assert self._stream is not None
            self._stream.run_to_next()

    def wait(self, stream: 'Stream | None'=None) -> None:
        (stream or Device.current).wait_event(self)

    def follow(self, events: list['Event']) -> None:
        self._after = [event for event in events if not event.query()]

    def expect(self, stream: 'Stream') -> None:
        self._pending += 1
        self._stream = stream

    def reached(self) -> None:
        self._pending -= 1

class Stream:

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.name = ''
        self.deferred = False
        self._line: deque[tuple[str, Work | Event]] = deque()
        self._copies: deque[Copy | None] = deque()
        self._waits: list[Event] = []

    def issue(self, what: str, work: Work, copy: Copy | None=None) -> None:
        if self.deferred:
            self._line.append((what, work))
            self._copies.append(copy)
        else:
            work()

    @property
    def copies(self) -> list[Copy]:
        return [copy for copy in self._copies if copy is not None]

    @property
    def next_copy(self) -> Copy | None:
        return self._copies[0] if self._copies else None

    def issue_event(self, event: Event) -> None:
        if self.deferred and self._line:
            event.expect(self)
            self._line.append(('event', event))
        if not self.deferred:
            event.follow(self._waits)

    def wait_event(self, event: Event) -> None:
        if event.query():
            return
        if self.deferred:
            self._line.append(('wait', event))
        else:
            self._waits = [*(e for e in self._waits if not e.query()), event]

    def wait_stream(self, other: 'Stream') -> None:
        if other.behind:
            event = Event()
            event.record(other)
            self.wait_event(event)

    @property
    def behind(self) -> bool:
        return bool(self._line)

    @property
    def ready(self) -> bool:
        return bool(self._line) and (not (self._line[0][0] == 'wait' and isinstance(self._line[0][1], Event) and (not self._line[0][1].query())))

    def run_to_next(self) -> None:
        if not self.ready:
            awaited = self._line[0][1]
            assert isinstance(awaited, Event)
            awaited.synchronize()
        self.run_next()

    def run_next(self) -> str:
        done = ''
        while self.ready:
            what, work = self._line[0]
            if not isinstance(work, Event):
                if done:
                    break
                done = what
                work()
                self._copies.popleft()
            elif what == 'event':
                work.reached()
            self._line.popleft()
        return done

class Device:
    default = Stream()
    current = default

@contextmanager
def _on(stream: Stream) -> Iterator[None]:
    before, Device.current = (Device.current, stream)
    try:
        yield
    finally:
        Device.current = before

def device_module() -> Any:
    return SimpleNamespace(Event=Event, Stream=Stream, stream=_on, current_stream=lambda: Device.current, synchronize=lambda: None)
''',
    'harness.targets.sglang.eras': r'''
from typing import NamedTuple

class Era(NamedTuple):
    version: str
    name: str
    about: str
    barrier: str = ''
    graphs: bool = False
    plans: bool = False
    small_host: bool = True

    @property
    def wheel(self) -> str:
        return self.version.partition('-')[0]

    @property
    def core(self) -> str:
        return self.version.partition('-')[2] or 'python'
ERAS = (Era('0.5.12', 'monolith', 'one tree class, ongoing copies by node', small_host=False), Era('0.5.13', 'monolith', 'host locks', barrier='schedule', small_host=False), Era('0.5.15', 'monolith', 'copies by layer groups', barrier='schedule', graphs=True), Era('0.5.18', 'core', 'a tree core, node ids', barrier='launch', graphs=True, plans=True), Era('0.5.20', 'core', 'receipts', barrier='launch', graphs=True, plans=True), Era('0.5.23', 'core', 'its Python core', barrier='launch', graphs=True, plans=True), Era('0.5.23-rust', 'core', 'its Rust core', barrier='launch', graphs=True, plans=True))

def era_of(version: str) -> Era | None:
    return next((era for era in ERAS if era.version == version), None)

def supported() -> str:
    return ', '.join((era.version for era in ERAS))
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
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from harness.targets.sglang import table
ROOT = 'sglang'

def load(folder: Path, version: str) -> None:
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

def upstream(name: str) -> Any:
    return importlib.import_module(f'{ROOT}.{name}')

def has(name: str) -> bool:
    try:
        return find_spec(f'{ROOT}.{name}') is not None
    except ModuleNotFoundError:
        return False

def modules() -> list[ModuleType]:
    return _modules(len(sys.modules))

@lru_cache(maxsize=1)
def _modules(imported: int) -> list[ModuleType]:
    names = sorted((name for name in sys.modules if name.startswith(f'{ROOT}.')))
    found = [sys.modules[name] for name in names]
    return [module for module in found if not isinstance(module, _Module)]

def stood_in() -> list[str]:
    return sorted((name for name, module in sys.modules.items() if isinstance(module, _Module)))

def _uncompiled(function: Callable[..., Any] | None=None, **options: Any) -> Any:
    return (lambda f: f) if function is None else function

class _Blank(type):

    def __getattr__(cls, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return _blank(f'{cls.__name__}.{name}')

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and (not kwargs) and callable(args[0]):
            return args[0]
        return super().__call__()

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

class _Nothing:

    def __init_subclass__(cls, **options: Any) -> None:
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and (not kwargs) and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return _blank(name)()

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, item: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self

def _blank(name: str) -> Any:
    return _Blank(name, (_Nothing,), {})

class _Module(ModuleType):

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        value = _blank(name)
        setattr(self, name, value)
        return value

class _Finder(MetaPathFinder, Loader):

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._version = version

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None=None) -> ModuleSpec | None:
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

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        part = spec.name.partition('.')[2] if spec.name.startswith(f'{ROOT}.') else None
        bare = spec.name == ROOT or part in table.BARE
        module = (ModuleType if bare else _Module)(spec.name)
        module.__dict__['__version__'] = self._version if spec.name == ROOT else '9999.0.0'
        module.__dict__.update(table.VALUES.get(part or '', {}))
        return module

    def exec_module(self, module: ModuleType) -> None:
        ...

def _covered(part: str, parts: frozenset[str]) -> bool:
    while part:
        if part in parts:
            return True
        part = part.rpartition('.')[0]
    return False
''',
    'harness.targets.sglang.release': r'''
import os
from array import array
from dataclasses import MISSING, fields, is_dataclass
from inspect import signature
from pathlib import Path
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
    def of(cls, folder: Path, version: str) -> 'Release':
        if cls._made is None:
            cls._made = cls(folder, version)
        assert cls._made.version == version, 'a process tortures one release only'
        return cls._made

    def __init__(self, folder: Path, version: str) -> None:
        import logging
        os.environ.update(ENVIRONMENT)
        logging.disable(logging.CRITICAL)
        self.version = version
        era = era_of(version)
        assert era is not None, f'no adapter knows sglang {version}'
        self.era = era
        os.environ['SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND'] = era.core
        load(folder, era.wheel)
        self._found: dict[str, Any] = {}
        self.scheduler: Any = upstream('srt.managers.scheduler')
        for name in EXTRA_MODULES:
            if has(name):
                upstream(name)
        self._replace()

    def find(self, name: str) -> Any:
        if name not in self._found:
            for module in modules():
                value = vars(module).get(name)
                if getattr(value, '__module__', None) == module.__name__:
                    self._found[name] = value
                    break
            else:
                raise AssertionError(f'sglang {self.version} has no {name}')
        return self._found[name]

    def make(self, name: str, **told: Any) -> Any:
        kind = self.find(name)
        known = signature(kind.__init__).parameters
        takes_more = any((p.kind is p.VAR_KEYWORD for p in known.values()))
        return kind(**{key: value for key, value in told.items() if key in known or (takes_more and key not in OPTIONAL)})

    def _set(self, name: str, value: Any) -> None:
        homes = [module for module in modules() if name in vars(module)]
        assert homes, f'sglang {self.version} has no {name}'
        for module in homes:
            setattr(module, name, value)

    def server_args(self, **told: Any) -> Any:
        args_type = self.find('ServerArgs')
        args = _record(args_type, told)
        if has('srt.runtime_context'):
            upstream('srt.runtime_context').reset_context()
        upstream('srt.server_args').set_global_server_args_for_scheduler(args)
        if has('srt.runtime_context'):
            _one_rank(upstream('srt.runtime_context'))
        return args

    def fresh(self) -> None:
        self.number_from((0, 1))

    def numbers(self) -> tuple[int, int]:
        boundaries = self.find('next_component_uuid').__globals__
        return (self.find('UnifiedTreeNode').counter, boundaries['_COMPONENT_UUID_COUNTER'])

    def number_from(self, numbers: tuple[int, int]) -> None:
        self.find('UnifiedTreeNode').counter = numbers[0]
        boundaries = self.find('next_component_uuid').__globals__
        boundaries['_COMPONENT_UUID_COUNTER'] = numbers[1]

    def request_of(self, rid: str, tokens: list[int], answer: int) -> Any:
        params = self.find('SamplingParams')(max_new_tokens=answer, temperature=0.0, ignore_eos=True)
        params.normalize(None)
        req = self.find('Req')(rid, '', tokens, params, vocab_size=VOCABULARY)
        if isinstance(req.output_ids, array):
            ids = array(req.output_ids.typecode, tokens)
            req = self.find('Req')(rid, '', ids, params, vocab_size=VOCABULARY)
        return req

    def abort_of(self, rid: str) -> Any:
        return SimpleNamespace(rid=rid, abort_all=False, abort_message=None, finished_reason=None)

    def result_of(self, tokens: list[int], done: Any) -> Any:
        import torch
        kind = self.find('GenerationBatchResult')
        return kind(next_token_ids=torch.tensor(tokens), copy_done=done)

    def set_if_there(self, name: str, value: Any) -> None:
        if any((name in vars(module) for module in modules())):
            self._set(name, value)

    def _replace(self) -> None:
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
        agreement.install()
        self.find('UnifiedRadixCache').pretty_print = lambda cache: None

def _has_pinned(module: Any) -> bool:
    return 'ALLOC_MEMORY_FUNCS' in vars(module)

def _one_rank(context: Any) -> None:
    fields = getattr(context, '_parallel_fields', None)
    if fields is not None:
        alone = SimpleNamespace(cpu_group=None, device_group=None, world_size=1, rank_in_group=0)
        kinds = {'_rank': 0, '_size': 1, '_group': alone}
        stated = {name: value for name in sorted(fields()) for ending, value in kinds.items() if name.endswith(ending)}
        context.get_parallel().override_permanently(**stated)

def _record(kind: Any, told: dict[str, Any]) -> Any:
    if is_dataclass(kind):
        args: Any = object.__new__(cast(Any, kind))
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

def _defaults(kind: Any) -> dict[str, Any]:
    found = {}
    for item in fields(kind):
        value = item.default_factory() if item.default_factory is not MISSING else item.default
        found[item.name] = None if value is MISSING else value
    return found

def _put(record: Any, name: str, value: Any) -> None:
    object.__setattr__(record, name, value)

class _Sampling:
    penalizer_orchestrator = SimpleNamespace(is_required=False)

    @classmethod
    def from_schedule_batch(cls, batch: Any, vocab_size: int) -> '_Sampling':
        return cls()

    def filter_batch(self, *args: Any) -> None:
        ...

    def merge_batch(self, other: Any) -> None:
        ...

class _Kernel:

    def __init__(self, run: Any) -> None:
        self._run = run

    def __getitem__(self, grid: Any) -> Any:
        return self._run

def _alloc_extend(prefix_lens: Any, seq_lens: Any, last_loc: Any, free: Any, out: Any, *rest: int) -> None:
    page_size = rest[-1]
    at = taken = 0
    pages = free.tolist()
    flat: list[int] = []
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

def _alloc_decode(seq_lens: Any, last_loc: Any, free: Any, out: Any, *rest: int) -> None:
    page_size = rest[-1]
    pages = free.tolist()
    taken = 0
    for at, (length, last) in enumerate(zip(seq_lens.tolist(), last_loc.tolist(), strict=True)):
        if (length - 1) % page_size:
            out[at] = last + 1
        elif taken < len(pages):
            out[at] = pages[taken] * page_size
            taken += 1

def _plain_memory(dims: Any, dtype: Any, **more: Any) -> Any:
    import torch
    return torch.zeros(dims, dtype=dtype)

def _back_up(pool: Any, device_pool: Any, host: Any, device: Any, io_backend: str, **more: Any) -> None:
    host, device = (host.long(), device.long())

    def work() -> None:
        prints_of(pool)[host] = device_pool.k_buffer[0][device, 0, 0]
    Device.current.issue('backup', work, Copy(_component(device_pool), True, host, device))

def _load_layer(pool: Any, device_pool: Any, host: Any, device: Any, layer: int, io: str, **more: Any) -> None:
    host, device = (host.long(), device.long())

    def work() -> None:
        device_pool.k_buffer[layer][device, 0, 0] = prints_of(pool)[host]
    Device.current.issue('load', work, Copy(_component(device_pool), False, host, device))

def _back_up_states(pool: Any, device_pool: Any, host: Any, device: Any, io_backend: str, **more: Any) -> None:
    host, device = (host.long(), device.long())

    def work() -> None:
        prints_of(pool)[host] = device_pool.mamba_cache.temporal[0, device, 0, 0, 0]
    Device.current.issue('backup', work, Copy('mamba', True, host, device))

def _load_states(pool: Any, device_pool: Any, host: Any, device: Any, layer: int, io: str, **more: Any) -> None:
    host, device = (host.long(), device.long())

    def work() -> None:
        device_pool.mamba_cache.temporal[layer, device, 0, 0, 0] = prints_of(pool)[host]
    Device.current.issue('load', work, Copy('mamba', False, host, device))

def prints_of(pool: Any) -> Any:
    import torch
    if not hasattr(pool, 'prints'):
        pool.prints = torch.zeros(pool.size, dtype=torch.int64)
    return pool.prints

def _component(device_pool: Any) -> str:
    return str(device_pool.component)
''',
    'harness.targets.sglang.view': r'''
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
import numpy as np
from numpy.typing import NDArray
from harness.targets.sglang.release import prints_of
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
    def stop(self) -> int:
        return self.start + len(self.tokens)

class Held(NamedTuple):
    cached: int
    window_from: int
    allocated: int

def held_by(req: Any) -> Held | None:
    if field_of(req, 'req_pool_idx') is None or getattr(req, 'kv_committed_freed', False):
        return None
    cached = int(field_of(req, 'cache_protected_len'))
    return Held(cached, max(cached, _slid_to(req)), int(field_of(req, 'kv_allocated_len')))

def _slid_to(req: Any) -> int:
    cursors = getattr(getattr(req, 'kv', None), 'component_evicted_seqlens', None)
    if cursors is None:
        return int(field_of(req, 'swa_evicted_seqlen'))
    return next((at for kind, at in cursors.items() if NAMES[int(kind)] == 'swa'), 0)

def field_of(req: Any, name: str) -> Any:
    record = getattr(req, 'kv', None)
    return getattr(record, name) if hasattr(record, name) else getattr(req, name)

class View:

    def __init__(self, cache: Any, pools: Any) -> None:
        self.cache = cache
        self.tree = tree_of(cache)
        self.pools = pools
        self.components = [NAMES[int(kind)] for kind in cache.tree_components]
        self._seen: list[Node] | None = None
        self._free: dict[tuple[str, str], Slots] = {}
        self.opaque = type(self.tree).__name__.startswith('Rust')
        self._kinds = [(NAMES[int(kind)], int(kind)) for kind in cache.tree_components]

    def forget(self) -> None:
        self._seen = None
        self._free = {}

    def reads(self, row: object) -> None:
        ...

    def copies(self, copy: object) -> None:
        ...
    settled = forget

    def nodes(self) -> list[Node]:
        if self._seen is None:
            self._seen = [] if self.opaque else list(self._look())
        return self._seen

    def _look(self) -> Iterator[Node]:
        stack = [(self.tree.root_node, -1, 0)]
        while stack:
            raw, parent, start = stack.pop()
            node = self.node(raw, parent, start)
            yield node
            children = list(raw.children.values())
            stack.extend(((child, node.id, node.stop) for child in reversed(children)))

    def node(self, raw: Any, parent: int, start: int) -> Node:
        data = raw.component_data
        root = raw is self.tree.root_node
        return Node(id=raw.id, parent=parent, start=start, tokens=() if root else tuple(raw.key.token_ids), device={n: None if root else slots_of(data[k].value) for n, k in self._kinds}, host={n: None if root else slots_of(data[k].host_value) for n, k in self._kinds}, locks={n: data[k].lock_ref for n, k in self._kinds}, host_locks={n: getattr(data[k], 'host_lock_ref', 0) for n, k in self._kinds}, root=root, raw=raw)

    def loading(self) -> set[int]:
        return set(self.cache.ongoing_load_back)

    def writing(self) -> set[int]:
        return set(self.cache.ongoing_write_through)

    def free(self, component: str) -> Slots:
        return self._once('device', component, self._device_free)

    def _once(self, tier: str, component: str, look: Callable[[str], Slots]) -> Slots:
        found = self._free.get((tier, component))
        if found is None:
            found = self._free[tier, component] = look(component)
        return found

    def _device_free(self, component: str) -> Slots:
        allocator = self.pools.allocator
        if component == 'mamba':
            rows = self.pools.rows
            allocator = getattr(rows, 'mamba_allocator', rows.mamba_pool)
            found = slots_of(allocator.free_slots)
            return EMPTY if found is None else found
        if component == 'swa':
            return _free_of(allocator.swa_attn_allocator, [])
        inner = getattr(allocator, 'full_attn_allocator', allocator)
        grouped = not getattr(allocator, 'is_not_in_free_group', True)
        return _free_of(inner, allocator.free_group if grouped else [])

    def size(self, component: str) -> int:
        if component == 'mamba':
            return int(self.pools.rows.mamba_pool.size)
        allocator = self.pools.allocator
        name = 'swa_attn_allocator' if component == 'swa' else 'full_attn_allocator'
        return int(getattr(allocator, name, allocator).size)

    def host_free(self, component: str) -> Slots:
        return self._once('host', component, self._free_on_host)

    def _free_on_host(self, component: str) -> Slots:
        pool = self._host_pool(component)
        free = [pool.free_slots, *getattr(pool, 'release_slots', ())]
        return np.concatenate([np.asarray(slots, dtype=np.int64) for slots in free])

    def host_size(self, component: str) -> int:
        return int(self._host_pool(component).size)

    def _host_pool(self, component: str) -> Any:
        names = {'full': 'full_kv_pool_host', 'swa': 'swa_kv_pool_host', 'mamba': 'mamba_pool_host'}
        return getattr(self.cache, names[component])

    def device_rows(self, component: str) -> Slots:
        if component == 'mamba':
            return np.asarray(self.pools.states.mamba_cache.temporal.numpy()[0, :, 0, 0, 0])
        pool = self.pools.full if component == 'full' else self.pools.swa
        return np.asarray(pool.k_buffer[0].numpy()[:, 0, 0])

    def host_rows(self, component: str) -> Slots:
        return np.asarray(prints_of(self._host_pool(component)).numpy())

def tree_of(cache: Any) -> Any:
    return getattr(cache, 'tree_core', cache)

def slots_of(value: Any) -> Slots | None:
    return None if value is None else value.detach().numpy().astype(np.int64).reshape(-1)

def _free_of(allocator: Any, group: list[Any]) -> Slots:
    if hasattr(allocator, 'staged_pages'):
        pages = allocator.get_all_free_pages().numpy()
    else:
        pages = np.concatenate([allocator.free_pages.numpy(), allocator.release_pages.numpy()])
    size = allocator.page_size
    slots = (pages[:, None] * size + np.arange(size)).reshape(-1) if size > 1 else pages
    waiting = [item.numpy().astype(np.int64) for item in group]
    return np.concatenate([slots, *waiting]).astype(np.int64)

def among(slots: Slots, others: Slots) -> Slots:
    if not len(slots) or not len(others):
        return EMPTY
    there = np.zeros(max(int(slots.max()), int(others.max())) + 1, dtype=bool)
    there[others] = True
    return slots[there[slots]]
''',
    'harness.targets.sglang.shape': r'''
from types import SimpleNamespace
from typing import Any, NamedTuple
from harness.targets.sglang.release import Release

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

    @property
    def hierarchical(self) -> bool:
        return self.ratio > 0

class Pools(NamedTuple):
    rows: Any
    allocator: Any
    full: Any
    swa: Any
    states: Any

def build_pools(release: Release, shape: Shape) -> Pools:
    import torch
    common = {'device': 'cpu', 'dtype': torch.int64}
    tensors = {'head_num': 1, 'head_dim': 1}
    make = release.make
    rows = _rows(release, shape)
    page = shape.page_size
    if shape.window:
        kv = make('SWAKVPool', size=shape.full, size_swa=shape.swa, page_size=page, swa_attention_layer_ids=[1], full_attention_layer_ids=[0], enable_kvcache_transpose=False, **common, **tensors)
        allocator = make('SWATokenToKVPoolAllocator', size=shape.full, size_swa=shape.swa, page_size=page, kvcache=kv, need_sort=False, **common)
        return Pools(rows, allocator, kv.full_kv_pool, kv.swa_kv_pool, None)
    if shape.states:
        kv = make('HybridLinearKVPool', size=shape.full, page_size=page, full_attention_layer_ids=[0], enable_kvcache_transpose=False, mamba_pool=rows.mamba_pool, **common, **tensors)
        return Pools(rows, _allocator(release, shape, kv), kv.full_kv_pool, None, rows.mamba_pool)
    kv = make('MHATokenToKVPool', size=shape.full, page_size=page, layer_num=1, enable_memory_saver=False, **common, **tensors)
    return Pools(rows, _allocator(release, shape, kv), kv, None, None)

def _allocator(release: Release, shape: Shape, kv: Any) -> Any:
    import torch
    paged = shape.page_size > 1
    return release.make('PagedTokenToKVPoolAllocator' if paged else 'TokenToKVPoolAllocator', size=shape.full, page_size=shape.page_size, dtype=torch.int64, device='cpu', kvcache=kv, need_sort=False)

def _rows(release: Release, shape: Shape) -> Any:
    import torch
    plain = {'size': shape.running, 'max_context_len': shape.context, 'device': 'cpu', 'enable_memory_saver': False}
    if not shape.states:
        return release.make('ReqToTokenPool', **plain)
    kinds = SimpleNamespace(conv=torch.int64, temporal=torch.int64)
    sizes = SimpleNamespace(conv=[(1, 1)], temporal=(1, 1, 1))
    return release.make('HybridReqToTokenPool', mamba_size=shape.states, mamba_spec_state_size=shape.running, cache_params=SimpleNamespace(shape=sizes, dtype=kinds, layers=[1]), mamba_layer_ids=[1], enable_mamba_extra_buffer=False, enable_overlap_schedule=shape.overlap, **plain)
''',
    'harness.targets.sglang.driver': r'''
from collections.abc import Callable
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any
from harness.targets.sglang.device import Device, Stream
from harness.targets.sglang.loader import upstream
from harness.targets.sglang.release import VOCABULARY, Release
from harness.targets.sglang.shape import Pools, Shape, build_pools

class Absent:

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        return iter(())

    def __call__(self, *args: Any, **kwargs: Any) -> 'Absent':
        return self

    def __enter__(self) -> 'Absent':
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __add__(self, count: int) -> int:
        return count

    def __rsub__(self, count: int) -> int:
        return count

    def __getattr__(self, name: str) -> 'Absent':
        if name.startswith('__'):
            raise AttributeError(name)
        return self
ABSENT = Absent()

class Bypass:

    def __getattr__(self, name: str) -> Any:
        return lambda batch=None, *args, **kwargs: batch

class Plain(SimpleNamespace):

    def __getattr__(self, name: str) -> None:
        if name.startswith('__'):
            raise AttributeError(name)
KEPT = ('init_cache_with_memory_pool', 'init_running_status', 'init_chunked_prefill', 'maybe_init_dynamic_chunk_sizer', 'init_schedule_policy', 'init_pool_stats_observer', 'init_invariant_checker', 'init_output_streamer', 'init_dp_attn_adapter', 'init_req_max_new_tokens', 'init_batch_result_processor')
SILENT = ('report_prefill_stats', 'report_decode_stats', 'log_batch_result_stats', 'update_device_timer', 'maybe_send_health_check_signal', 'reset_device_timer_window', 'maybe_sleep_on_idle', 'publish_load_snapshot', '_record_step_counters', '_maybe_clear_mm_inputs', '_maybe_log_idle_metrics', '_publish_kv_events', '_get_num_pending_tokens', '_abort_on_waiting_timeout', '_abort_on_running_timeout', '_maybe_register_hicache_draft', 'install_device_timer_on_runners')
UNSET = ('prefill_delayer', 'min_free_slots_delayer', 'truncation_align_size', 'max_queued_requests', 'hisparse_coordinator', 'metrics_collector')
MODEL_KINDS = ('linear_attn_model_spec', 'hybrid_gdn_config', 'kimi_linear_config', 'hybrid_lightning_config')
REPORTERS = ('SchedulerMetricsReporter', 'SchedulerMetricsCollector', 'PrefillStats')

def make_scheduler(release: Release, shape: Shape, on_answer: Callable[[Any], None]) -> tuple[Any, Pools]:
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

def _scheduler_type(base: Any, shape: Shape, pools: Pools, on_answer: Callable[[Any], None]) -> Any:

    def __getattr__(self: Any, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        self.asked_for.add(name)
        return ABSENT

    def stream_output(self: Any, reqs: Any, *args: Any, **kwargs: Any) -> None:
        for req in reqs:
            if req.finished() and (not req.finished_output):
                req.finished_output = True
                on_answer(req)

    def init_model_config(self: Any) -> None:
        self.model_config = _model(shape)
        self.is_generation = True
        self.dllm_config = None

    def init_ipc_channels(self: Any, port_args: Any) -> None:
        answers = SimpleNamespace(send_output=lambda output, req=None: on_answer(req))
        self.send_to_tokenizer = answers
        self.rust_server = None
        self.ipc_channels = SimpleNamespace(send_to_tokenizer=answers, send_to_detokenizer=ABSENT, send_metrics_from_scheduler=None)

    def init_model_worker(self: Any) -> None:
        _load_model(self, shape, pools)

    def init_output_streamer(self: Any) -> None:
        self.output_streamer = SimpleNamespace(stream_output=partial(stream_output, self))

    def silent(self: Any, *args: Any, **kwargs: Any) -> None:
        ...
    members: dict[str, Any] = {name: silent for name in SILENT if hasattr(base, name)}
    for name in dir(base):
        if name.startswith(('init_', 'maybe_init_')) and name not in (*KEPT, 'init_req_max_new_tokens'):
            members[name] = silent
    members |= {'__getattr__': __getattr__, 'stream_output': stream_output, 'init_model_config': init_model_config, 'init_ipc_channels': init_ipc_channels, 'init_model_worker': init_model_worker, 'init_output_streamer': init_output_streamer}
    return type('Driver', (base,), members)

def _server_args(release: Release, shape: Shape) -> Any:
    return release.server_args(page_size=shape.page_size, chunked_prefill_size=shape.chunk, disable_overlap_schedule=not shape.overlap, enable_hierarchical_cache=shape.hierarchical, hicache_ratio=shape.ratio, hicache_size=0, hicache_write_policy=shape.policy, hicache_io_backend='direct', hicache_mem_layout='page_first_direct', attention_backend='torch_native', schedule_policy=shape.schedule_policy, enable_mixed_chunk=shape.mixed, schedule_conservativeness=1.0, max_running_requests=shape.running, pp_max_micro_batch_size=shape.running, swa_full_tokens_ratio=1.0, disable_radix_cache=False, mamba_scheduler_strategy='no_buffer', mamba_track_interval=256, speculative_algorithm=None, strip_thinking_cache=False, disaggregation_mode='null', device='cpu', model_config=_model(shape), _model_config=_model(shape))

def _model(shape: Shape) -> Any:
    return Plain(is_multimodal=False, is_matryoshka=False, is_encoder_decoder=False, vocab_size=VOCABULARY, think_end_id=None, hf_eos_token_id=None, context_len=shape.context)

def _load_model(scheduler: Any, shape: Shape, pools: Pools) -> None:
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

def release_modes(scheduler: Any) -> Any:
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

def grow(tokens: list[int], seed: Seed, count: int) -> list[int]:
    grown = list(tokens)
    last = grown[-1] if grown else 1
    for _ in range(count):
        last = _mix(last, seed.kind * 1009 + seed.number)
        grown.append(last)
    return grown

def _mix(last: int, symbol: int) -> int:
    value = last * _STEP + (symbol + 1) * 13787848793156543929 & (1 << 64) - 1
    value = (value ^ value >> 31) * 10723151780598845931 & (1 << 64) - 1
    return value >> 29 & _MASK or 1
''',
    'harness.targets.sglang.prompts': r'''
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from harness.explore.outcome import Scenario
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

    @property
    def rid(self) -> str:
        return f'r{self.id}'

    def tokens(self, others: Sequence['Prompt']) -> list[int]:
        before = next((other for other in others if other.rid == self.after), None)
        if before is not None:
            so_far = grow(before.tokens(others), ANSWER, before.answer)
            return grow(so_far, Seed(2, 50 + self.tail), self.own)
        prefix = grow([], Seed(1, self.group), self.shared)
        return grow(prefix, Seed(2, self.tail), self.own)

def page_of(scenario: Scenario) -> int:
    return 1 if 'mamba' in scenario['components'] else int(scenario['page_size'])

def shared_of(scenario: Scenario, row: dict[str, Any]) -> int:
    page = page_of(scenario)
    stretch = -(-int(scenario.get('stretch', 0)) // page)
    return (int(row['shared']) + stretch) * page if row['shared'] else 0

def prompts_of(scenario: Scenario) -> list[Prompt]:
    page = page_of(scenario)
    rows: list[dict[str, Any]] = scenario['requests']
    known = [row['id'] for row in rows]
    prompts = []
    for row in rows:
        before = f"r{row['id'] - 1}" if row['id'] - 1 in known else None
        prompts.append(Prompt(id=row['id'], group=row['group'], shared=shared_of(scenario, row), tail=row['tail'], own=1 + row['own'] + row['pages'] * page, answer=row['answer'], after=before if row['turn'] else None, waits_for=before if row['turn'] or row['waits'] else None, abort=row['abort']))
    return prompts
''',
    'harness.explore.prng': r'''
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import TypeVar
T = TypeVar('T')
_MASK = (1 << 64) - 1
_GOLDEN = 11400714819323198485

class SplitMix:
    __slots__ = ('_state',)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        self._state = z = self._state + _GOLDEN & _MASK
        z = (z ^ z >> 30) * 13787848793156543929 & _MASK
        z = (z ^ z >> 27) * 10723151780598845931 & _MASK
        return z ^ z >> 31

    def below(self, bound: int) -> int:
        return self.bits() * bound >> 64

    def unit(self) -> float:
        return (self.bits() >> 11) * 2.0 ** (-53)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def weighted(self, weights: Sequence[float]) -> int:
        sums = list(accumulate(weights))
        mark = self.unit() * sums[-1]
        return next((index for index, total in enumerate(sums) if mark < total))

    def sample(self, bound: int, count: int) -> list[int]:
        chosen = list(range(min(count, bound)))
        for high in range(count, bound):
            at = self.below(high + 1)
            if at < count:
                chosen[at] = high
        return sorted(chosen)

def derive(seed: int, *labels: object) -> int:
    text = '/'.join((str(label) for label in (seed, *labels)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), 'big')
''',
    'harness.explore.swarm': r'''
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from harness.explore.outcome import Scenario
from harness.explore.prng import SplitMix, derive

class Knob(Protocol):

    def draw(self, rng: SplitMix) -> Any:
        ...

    def smaller(self, value: Any) -> Iterator[Any]:
        ...

@dataclass(frozen=True)
class Number:
    low: int
    high: int

    def draw(self, rng: SplitMix) -> int:
        high = self.high if rng.below(2) else (self.low + self.high) // 2
        return self.low + rng.below(high - self.low + 1)

    def smaller(self, value: int) -> Iterator[int]:
        step = value - self.low
        while step > 0:
            yield (value - step)
            step //= 2

@dataclass(frozen=True)
class Options:
    values: tuple[Any, ...]

    def draw(self, rng: SplitMix) -> Any:
        return rng.choice(self.values)

    def smaller(self, value: Any) -> Iterator[Any]:
        yield from self.values[:self.values.index(value)]

@dataclass(frozen=True)
class Feature:
    share: float = 0.5

    def draw(self, rng: SplitMix) -> bool:
        return rng.unit() < self.share

    def smaller(self, value: bool) -> Iterator[bool]:
        if value:
            yield False

@dataclass(frozen=True)
class Many:
    item: Mapping[str, Knob]
    low: int
    high: int

    def draw(self, rng: SplitMix) -> list[dict[str, Any]]:
        count = self.low + rng.below(self.high - self.low + 1)
        return [{'id': number, **{name: knob.draw(rng) for name, knob in self.item.items()}} for number in range(count)]

    def smaller(self, value: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        size = len(value) - self.low
        while size > 0:
            for at in range(len(value) - size, -1, -1):
                yield (value[:at] + value[at + size:])
            size //= 2
        for at, item in enumerate(value):
            for name, knob in self.item.items():
                for less in knob.smaller(item[name]):
                    yield [*value[:at], {**item, name: less}, *value[at + 1:]]

@dataclass(frozen=True)
class Perhaps:
    item: Mapping[str, Knob]
    share: float

    def draw(self, rng: SplitMix) -> list[dict[str, Any]]:
        return Many(self.item, 1, 1).draw(rng) if rng.unit() < self.share else []

    def smaller(self, value: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        yield from Many(self.item, 0, 1).smaller(value)

@dataclass(frozen=True)
class Swarm:
    knobs: Mapping[str, Knob]
    fixed: Mapping[str, Any]

    def draw(self, seed: int) -> Scenario:
        drawn = {name: knob.draw(SplitMix(derive(seed, name))) for name, knob in self.knobs.items()}
        return {**self.fixed, **drawn}

    def smaller(self, scenario: Scenario) -> Iterator[Scenario]:
        for name, knob in self.knobs.items():
            for value in knob.smaller(scenario[name]):
                yield {**scenario, name: value}

def size_of(value: Any) -> float:
    if isinstance(value, Mapping):
        return sum((size_of(part) for part in value.values()))
    if isinstance(value, str):
        return 0
    if isinstance(value, Sequence):
        return len(value) + sum((size_of(part) for part in value))
    return abs(value) if isinstance(value, int | float) else 0
''',
    'harness.targets.sglang.scenario': r'''
from collections.abc import Iterator
from typing import Any
from harness.explore.outcome import Scenario
from harness.explore.swarm import Feature, Knob, Many, Number, Options, Swarm
from harness.targets.sglang.eras import Era
from harness.targets.sglang.prompts import page_of, shared_of
from harness.targets.sglang.shape import Shape
ANSWER_AT_MOST = 6
_REQUEST: dict[str, Knob] = {'group': Number(0, 2), 'shared': Number(0, 7), 'tail': Number(0, 2), 'pages': Number(0, 3), 'own': Number(0, 3), 'answer': Number(1, ANSWER_AT_MOST), 'turn': Feature(0.2), 'waits': Feature(0.5), 'abort': Feature(0.15)}
COMPONENTS = ('full+swa', 'full', 'full+mamba')
POLICIES = ('write_through', 'write_through_selective', 'write_back')

def swarm(era: Era | None=None) -> Swarm:
    small = (0.5, 0.5) if era is None or era.small_host else ()
    return Swarm(knobs={'components': Options(('full+swa', 'full+swa', 'full', 'full+mamba')), 'page_size': Options((1, 1, 2, 4, 64, 256)), 'window': Number(1, 8), 'spare': Number(0, 10), 'swa_spare': Number(0, 6), 'states': Number(0, 6), 'ratio': Options((1.0, 2.0, 1.0, 1.0, 0.0, *small)), 'policy': Options(POLICIES), 'stretch': Options((0, 12, 12, 24)), 'chunk': Number(1, 5), 'running': Number(1, 3), 'overlap': Feature(0.5), 'ranks': Options((1, 1, 1, 1, 2)), 'mixed': Feature(0.1), 'schedule_policy': Options(('fcfs', 'lpm')), 'requests': Many(_REQUEST, 1, 10)}, fixed={})

def simpler(scenario: Scenario) -> Iterator[Scenario]:
    yield from swarm().smaller(scenario)

def shape_of(scenario: Scenario) -> Shape:
    if 'sizes' in scenario:
        return Shape(**scenario['sizes'])
    mamba, windowed = (_has(scenario, 'mamba'), _has(scenario, 'swa'))
    page = page_of(scenario)
    window = scenario['window'] * (page if page < 64 else page // 2) if windowed else 0
    chunk = max(scenario['chunk'] * page, 2)
    longest = _longest(scenario, page)
    locked = chunk + window + ANSWER_AT_MOST + 2
    swa = _pages(locked + max(chunk, window), page) + (3 + scenario['swa_spare']) * page
    full = _pages(longest + 8 + chunk, page) + (3 + scenario['spare']) * page
    full = max(full, swa) if windowed else full
    running = scenario['running']
    return Shape(page_size=page, full=full, swa=swa if windowed else 0, window=window, states=3 * running + 1 + scenario['states'] if mamba else 0, ratio=scenario['ratio'], policy=scenario['policy'], chunk=chunk, prefill=4 * chunk, running=running, context=longest + 64, overlap=scenario['overlap'] and (not mamba) and (scenario.get('ranks', 1) == 1), mixed=scenario['mixed'], schedule_policy=scenario['schedule_policy'])

def _has(scenario: Scenario, component: str) -> bool:
    return component in scenario['components']

def _longest(scenario: Scenario, page: int) -> int:
    best = before = 0
    for row in scenario['requests']:
        own = 1 + row['own'] + row['pages'] * page
        start = before if row['turn'] and before else shared_of(scenario, row)
        before = start + own + row['answer']
        best = max(best, before)
    return best

def _pages(tokens: int, page: int) -> int:
    return -(-tokens // page) * page

def complete(scenario: dict[str, Any]) -> Scenario:
    full: dict[str, Any] = {}
    for name, knob in swarm().knobs.items():
        full[name] = scenario.get(name, _simplest(knob))
    rows = [{n: _simplest(k) for n, k in _REQUEST.items()} | row for row in full['requests']]
    full['requests'] = [{'id': at, **row} for at, row in enumerate(rows)]
    return full

def _simplest(knob: Knob) -> Any:
    match knob:
        case Number(low, _):
            return low
        case Options(values):
            return values[0]
        case Feature():
            return False
        case _:
            return []
''',
    'harness.targets.sglang.world': r'''
from collections.abc import Hashable
from typing import Any, Protocol
import numpy as np
from harness.explore.kernel import Kernel, Signal
from harness.explore.outcome import Scenario
from harness.targets.sglang.device import Copy, Device, Event, Stream
from harness.targets.sglang.driver import make_scheduler
from harness.targets.sglang.prompts import Prompt, prompts_of
from harness.targets.sglang.release import Release
from harness.targets.sglang.scenario import shape_of
from harness.targets.sglang.tokens import ANSWER, grow
from harness.targets.sglang.view import field_of
CACHE = ('cache',)
SPINS = 3
PASSES_AT_REST = 40

def copy_streams(controller: Any) -> tuple[Stream, Stream]:
    engine = getattr(controller, 'l2_transfer_engine', None)
    if engine is not None:
        return (engine.device_to_host_stream, engine.host_to_device_stream)
    return (controller.write_stream, controller.load_stream)

class Launch:

    def __init__(self, world: 'World', batch: Any) -> None:
        self.rows: list[Row] = []
        self.begun, self.done = (Event(), Event())
        self.extending = extending = batch.forward_mode.is_extend()
        prefixes = batch.prefix_lens if extending else [int(n) - 1 for n in batch.seq_lens]
        for at, req in enumerate(batch.reqs):
            start = int(prefixes[at]) if at < len(prefixes) else int(batch.seq_lens[at]) - 1
            self.rows.append(world.row_of(req, start, int(batch.seq_lens[at])))
        names = ('mamba_cow_src_indices', 'mamba_cow_dst_indices', 'mamba_clear_indices')
        found = [_states(batch, name) if extending else None for name in names]
        self.copied, self.cleared = (found[:2], found[2])
        self.tokens = [row.truth[row.stop] for row in self.rows]

def _states(batch: Any, name: str) -> Any:
    found = getattr(batch, name, None)
    return None if found is None else found.numpy().copy()

class Row:

    def __init__(self, rid: str, start: int, stop: int, truth: list[int]) -> None:
        self.rid = rid
        self.start = start
        self.stop = stop
        self.truth = truth
        self.full: Any = None
        self.swa: Any = None
        self.state = -1

    def writes(self, component: str) -> Any:
        if component == 'mamba':
            return np.array([self.state] if self.state >= 0 else [], dtype=np.int64)
        slots = self.full if component == 'full' else self.swa
        return slots[self.start:self.stop]

class Watcher(Protocol):

    def reads(self, row: Row) -> None:
        ...

    def copies(self, copy: Copy) -> None:
        ...

    def settled(self) -> None:
        ...

class World:

    def __init__(self, release: Release, scenario: Scenario, *, kernel: Kernel | None=None, changed: Signal | None=None, answers: Signal | None=None) -> None:
        self.kernel = kernel or Kernel()
        self.release = release
        self.shape = shape_of(scenario)
        self.prompts = prompts_of(scenario)
        self.scheduler, self.pools = make_scheduler(release, self.shape, self._answered)
        self.cache = self.scheduler.tree_cache
        self.watchers: list[Watcher] = []
        self.live: dict[str, Any] = {}
        self.ended: dict[str, str] = {}
        self.truth: dict[str, list[int]] = {}
        self.era = release.era
        self._launched: Launch | None = None
        self.in_flight: list[Launch] = []
        self._inbox: list[Any] = []
        self._changed = changed or Signal('changed')
        self._answers = answers or Signal('answers')
        self._issued: dict[str, Signal] = {}
        self.streams: dict[str, Stream] = {'fwd': self.scheduler.forward_stream}
        controller = self.cache.cache_controller
        if controller is not None:
            to_host, to_device = copy_streams(controller)
            self.streams |= {'d2h': to_host, 'h2d': to_device}
        for name, stream in self.streams.items():
            stream.name, stream.deferred = (name, True)
            self._issued[name] = Signal(f'{name}.issued')

    def start(self) -> None:
        spawn = self.kernel.spawn
        spawn('sched', self._loop(), daemon=True)
        for name in self.streams:
            spawn(name, self.run_stream(name), daemon=True)
        for prompt in self.prompts:
            spawn(f'R{prompt.id}', self._client(prompt))
            if prompt.abort:
                spawn(f'A{prompt.id}', self._leave(prompt))

    async def _client(self, prompt: Prompt) -> None:
        while prompt.waits_for is not None and prompt.waits_for not in self.ended:
            await self.kernel.wait(self._answers, 'client.think')
        await self.kernel.point('client.send', ('inbox',))
        self.post(prompt)
        while prompt.rid not in self.ended:
            await self.kernel.wait(self._answers, 'client.wait')

    async def _leave(self, prompt: Prompt) -> None:
        await self.kernel.point('client.abort', ('inbox',))
        self.post(self.release.abort_of(prompt.rid))

    async def run_stream(self, name: str) -> None:
        stream = self.streams[name]
        point = {'fwd': 'forward.run', 'd2h': 'copy.to_host', 'h2d': 'copy.to_device'}[name]
        while True:
            if not stream.ready:
                await self.kernel.wait(self._issued[name], f'{name}.idle')
                continue
            await self.kernel.point(point, CACHE)
            if (copy := stream.next_copy) is not None:
                for watcher in self.watchers:
                    watcher.copies(copy)
            stream.run_next()
            self.kick()

    async def _loop(self) -> None:
        run = self._pass_overlapped if self.shape.overlap else self._pass
        results: list[tuple[Any, Any, Launch]] = []
        self.scheduler.result_queue = results
        idle = 0
        while True:
            if idle > SPINS and (not self._inbox):
                await self.kernel.wait(self._changed, 'scheduler.idle')
                idle = 0
            await self.kernel.point('scheduler.receive', CACHE)
            self.receive()
            busy = await run(results)
            idle = 0 if busy else idle + 1

    async def _pass(self, results: list[tuple[Any, Any, Launch]]) -> bool:
        scheduler = self.scheduler
        batch = self.schedule()
        self.settle()
        if batch:
            await self.kernel.point('scheduler.launch', CACHE)
            launch, result = self.launch(batch)
            await self._synchronize(launch)
            await self.kernel.point('scheduler.process', CACHE)
            scheduler.process_batch_result(batch, result)
        else:
            scheduler.on_idle()
        scheduler.last_batch = batch
        self.settle()
        return bool(batch)

    async def _pass_overlapped(self, results: list[tuple[Any, Any, Launch]]) -> bool:
        scheduler = self.scheduler
        if self.era.barrier == 'schedule':
            self._wait_for_forward()
        batch = self.schedule()
        self.settle()
        disabled = self._overlap_disabled(batch)
        busy = bool(batch or scheduler.last_batch)
        if disabled:
            await self._process_oldest(results)
        if batch:
            await self.kernel.point('scheduler.launch', CACHE)
            launch, result = self.launch(batch)
            if self.era.barrier == 'launch':
                self._wait_for_forward()
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
        scheduler = self.scheduler
        if self.era.plans:
            plan = scheduler.get_next_batch_to_run(running_batch=scheduler.running_batch, last_batch=scheduler.last_batch)
            scheduler.running_batch = plan.running_batch
            scheduler.cur_batch_for_debug = plan.batch_to_run
            return plan.batch_to_run
        scheduler.cur_batch = batch = scheduler.get_next_batch_to_run()
        return batch

    def _overlap_disabled(self, batch: Any) -> Any:
        scheduler = self.scheduler
        if self.era.plans:
            return scheduler.is_disable_overlap_for_batch(batch, last_batch=scheduler.last_batch)
        return scheduler.is_disable_overlap_for_batch(batch)

    def _wait_for_forward(self) -> None:
        launch = self._launched
        if launch is not None:
            early = self.era.graphs and (not launch.extending)
            Device.default.wait_event(launch.begun if early else launch.done)

    async def _process_oldest(self, results: list[tuple[Any, Any, Launch]]) -> None:
        batch, result, launch = results[0]
        await self._synchronize(launch)
        await self.kernel.point('scheduler.process', CACHE)
        results.pop(0)
        self.scheduler.process_batch_result(batch, result)

    async def _synchronize(self, launch: Launch) -> None:
        while not launch.done.query():
            await self.kernel.wait(self._changed, 'scheduler.synchronize')

    def post(self, item: Any) -> None:
        self._inbox.append(item)
        self._changed.fire()

    @property
    def has_mail(self) -> bool:
        return bool(self._inbox)

    def receive(self) -> None:
        while self._inbox:
            item = self._inbox.pop(0)
            if isinstance(item, Prompt):
                self._admit(item)
            else:
                self.scheduler.abort_request(item)

    def _admit(self, prompt: Prompt) -> None:
        tokens = prompt.tokens(self.prompts)
        req = self.release.request_of(prompt.rid, tokens, prompt.answer)
        self.scheduler.init_req_max_new_tokens(req)
        self.truth[prompt.rid] = grow(tokens, ANSWER, prompt.answer + 2)
        self.live[prompt.rid] = req
        self.scheduler._add_request_to_queue(req)

    def launch(self, batch: Any) -> tuple[Launch, Any]:
        launch = Launch(self, batch)
        stream = self.streams['fwd']
        consumer = getattr(batch, 'hicache_consumer_index', -1)
        if consumer is not None and consumer >= 0:
            counter = self.cache.cache_controller.layer_done_counter
            stream.wait_event(counter.events[consumer].finish_event)
        if self.era.graphs:
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

    def row_of(self, req: Any, start: int, stop: int) -> Row:
        row = Row(req.rid, start, stop, self.truth[req.rid])
        slots = self.pools.rows.req_to_token[field_of(req, 'req_pool_idx'), :stop].long()
        row.full = slots.numpy().copy()
        if self.shape.window:
            mapping = self.pools.allocator.full_to_swa_index_mapping
            row.swa = mapping[slots].numpy().copy()
        if self.shape.states:
            row.state = int(field_of(req, 'mamba_pool_idx'))
        return row

    def _forward(self, launch: Launch) -> None:
        self.in_flight.remove(launch)
        source, target = launch.copied
        if launch.cleared is not None:
            self.pools.states.mamba_cache.temporal.numpy()[0, launch.cleared] = 0
        if source is not None:
            states = self.pools.states.mamba_cache.temporal.numpy()
            states[0, target] = states[0, source]
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

    def _answered(self, req: Any) -> None:
        self.ended[req.rid] = type(req.finished_reason).__name__
        self.live.pop(req.rid, None)
        self._answers.fire()

    def settle(self) -> None:
        self._start_streams()
        for watcher in self.watchers:
            watcher.settled()

    def kick(self) -> None:
        self._start_streams()
        self._changed.fire()

    def _start_streams(self) -> None:
        for name, stream in self.streams.items():
            if stream.ready:
                self._issued[name].fire()

    def rest(self) -> None:
        scheduler = self.scheduler
        for _ in range(PASSES_AT_REST):
            self._drain()
            for batch, result, _ in scheduler.result_queue:
                scheduler.process_batch_result(batch, result)
            scheduler.result_queue.clear()
            self.receive()
            scheduler.last_batch = batch = self.schedule()
            if batch:
                launch, result = self.launch(batch)
                scheduler.result_queue.append((batch.copy(), result, launch))
            elif scheduler.is_fully_idle() and (not any((s.behind for s in self.streams.values()))):
                scheduler.on_idle()
                return
            self.settle()

    def _drain(self) -> None:
        while any((stream.ready for stream in self.streams.values())):
            for stream in self.streams.values():
                stream.run_next()

    def state(self) -> Hashable:
        return None
''',
    'harness.targets.sglang.marks': r'''
from typing import Any, NamedTuple
from harness.targets.sglang.view import View
from harness.targets.sglang.world import Row, World

class Meaning(NamedTuple):
    mark: str
    meaning: str
MEANINGS = (Meaning('prefix_hit', 'the model read a cached prefix'), Meaning('backup', 'a node was backed up to the host'), Meaning('demotion', 'a node left the device and stayed on the host'), Meaning('window_tombstoned', 'a node lost its window on the device and kept FULL'), Meaning('load_back', 'a load-back was queued'), Meaning('window_loaded', 'a load-back brought a window back'), Meaning('loads_overlap', 'two load-backs were in flight at once'), Meaning('host_eviction', 'a node left the host'), Meaning('split_with_copy_in_flight', 'a node was split while its backup was in flight'), Meaning('retraction', 'a running request gave its memory up'), Meaning('abort', 'a client left before its answer was complete'), Meaning('chunked_prefill', 'a prompt was computed in chunks'), Meaning('turn', 'a later turn of a conversation was served'), Meaning('ranks_skewed', 'the copies of two ranks had come to different points'))
REQUIRED = ('prefix_hit', 'backup', 'demotion', 'load_back', 'host_eviction', 'chunked_prefill')

class Marks:

    def __init__(self, world: World, view: View) -> None:
        self.counts = {meaning.mark: 0 for meaning in MEANINGS}
        self._world = world
        self._view = view
        self._before: dict[int, Any] = {}
        self._loading: set[int] = set()

    def reads(self, row: Row) -> None:
        if row.start and row.stop > row.start + 1:
            self.counts['prefix_hit'] += 1

    def copies(self, copy: object) -> None:
        ...

    def settled(self) -> None:
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
        counts['load_back'] += len(loading - self._loading)
        counts['loads_overlap'] += len(loading) > 1
        counts['retraction'] += any((req.is_retracted for req in world.live.values()))
        chunked = world.scheduler.chunked_req
        counts['chunked_prefill'] += chunked is not None
        counts['abort'] = sum((kind == 'FINISH_ABORT' for kind in world.ended.values()))
        counts['turn'] = sum((p.after is not None and p.rid in world.ended for p in world.prompts))
        self._before, self._loading = (after, loading)
''',
    'harness.targets.sglang.oracles.base': r'''
from typing import ClassVar
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Copy
from harness.targets.sglang.view import View
from harness.targets.sglang.world import Row, World
__all__ = ['Broken', 'Oracle']

class Oracle:
    name: ClassVar[str]
    sees_opaque: ClassVar[bool] = False

    def __init__(self, world: World, view: View) -> None:
        self.world = world
        self.view = view

    def reads(self, row: Row) -> None:
        pass

    def copies(self, copy: Copy) -> None:
        pass

    def settled(self) -> None:
        pass

    def at_rest(self) -> None:
        pass
''',
    'harness.targets.sglang.oracles.content': r'''
import numpy as np
from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.view import Node, Slots
from harness.targets.sglang.world import Row

class Content(Oracle):
    name = 'C'
    sees_opaque = True

    def reads(self, row: Row) -> None:
        truth = np.array(row.truth[:row.start], dtype=np.int64)
        self._same('full', self.view.device_rows('full')[row.full[:row.start]], truth, row, 0)
        if row.swa is not None:
            first = max(0, row.start - self.world.shape.window)
            slots = row.swa[first:row.start]
            if np.any(slots <= 0):
                raise Broken('C2', 'the model reads a hole in the window', f'{row.rid}: SWA slots for [{first}, {row.start})', slots.tolist())
            held = self.view.device_rows('swa')[slots]
            self._same('swa', held, truth[first:], row, first)
        if row.state >= 0 and row.start:
            held = self.view.device_rows('mamba')[[row.state]]
            self._same('mamba', held, truth[-1:], row, row.start - 1)

    def _same(self, component: str, held: Slots, truth: Slots, row: Row, first: int) -> None:
        if np.array_equal(held, truth):
            return
        at = int((held != truth).argmax())
        raise Broken('C2', f'the model reads foreign {component}', f'{row.rid} at {first + at}: {truth[at]}', f'{held[at]}' + (' (never written)' if held[at] == 0 else ''))

    def at_rest(self) -> None:
        for node in self.view.nodes():
            if not node.root:
                self._node(node)

    def _node(self, node: Node) -> None:
        for component in self.view.components:
            truth = np.array(node.tokens, dtype=np.int64)
            if component == 'mamba':
                truth = truth[-1:]
            for tier, slots in (('device', node.device), ('host', node.host)):
                mine = slots[component]
                if mine is None:
                    continue
                rows = self.view.device_rows if tier == 'device' else self.view.host_rows
                held = rows(component)[mine]
                if not np.array_equal(held, truth):
                    raise Broken('C1', f'foreign {component} is cached on the {tier}', f'node {node.id}: its own tokens', f'{int((held != truth).sum())} of {len(truth)} are not')
''',
    'harness.targets.sglang.oracles.copies': r'''
from harness.targets.sglang.device import Copy
from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.view import among

class Copies(Oracle):
    name = 'D'
    sees_opaque = True

    def copies(self, copy: Copy) -> None:
        if copy.to_host:
            return
        device = copy.device.numpy()
        for launch in self.world.in_flight:
            for row in launch.rows:
                late = among(device, row.writes(copy.component))
                if len(late):
                    raise Broken('D1', f'a load-back runs before a batch that still writes its slots ({copy.component})', f'device slots {device.tolist()} are written by the load-back last', f'{row.rid} of a batch in flight has yet to write {late.tolist()}')

    def settled(self) -> None:
        for name, stream in self.world.streams.items():
            if name != 'fwd':
                for copy in stream.copies:
                    self._judge(copy)

    def _judge(self, copy: Copy) -> None:
        what = 'backup' if copy.to_host else 'load-back'
        device, host = (copy.device.numpy(), copy.host.numpy())
        freed = among(device, self.view.free(copy.component))
        if len(freed):
            raise Broken('D1', f'the device slots of a {what} are free before it has run ({copy.component})', f'device slots {device.tolist()} held until then', f'{freed.tolist()} are free')
        freed = among(host, self.view.host_free(copy.component))
        if len(freed):
            raise Broken('D1', f'the host slots of a {what} are free before it has run ({copy.component})', f'host slots {host.tolist()} held until then', f'{freed.tolist()} are free')
''',
    'harness.targets.sglang.oracles.ledger': r'''
import sys
from collections import Counter
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.view import NAMES, View, tree_of
from harness.targets.sglang.world import World
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

    def __str__(self) -> str:
        nodes = ', '.join((f'{component} of node {node}' for node, component in sorted(self.given)))
        return f"{self.holder[0]} {self.holder[1]} holds {nodes or 'nothing'}"

class Ledger(Oracle):
    name = 'L'

    def __init__(self, world: World, view: View) -> None:
        super().__init__(world, view)
        self.receipts: dict[Holder, list[Receipt]] = {}
        self._tree = tree = tree_of(world.cache)
        self._acquire, self._release = (tree.inc_lock_ref, tree.dec_lock_ref)
        tree.inc_lock_ref, tree.dec_lock_ref = (self.acquire, self.release)
        self._split, tree._split_node = (tree._split_node, self.split)
        if hasattr(tree, _EARLY):
            self._release_early, tree.dec_swa_lock_only = (tree.dec_swa_lock_only, self.release_early)

    def acquire(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        raw = self._raw(node)
        before = self._counts(raw)
        result = self._acquire(node, *args, **kwargs)
        receipt = Receipt(_holder(sys._getframe(1), raw, True), raw.id)
        receipt.given = set((self._counts(raw) - before).keys())
        self.receipts.setdefault(receipt.holder, []).append(receipt)
        return result

    def release(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        raw = self._raw(node)
        holder = _holder(sys._getframe(1), raw, False)
        before = self._counts(raw)
        result = self._release(node, *args, **kwargs)
        taken = set((before - self._counts(raw)).keys())
        receipt = self._receipt(holder, raw, taken)
        self.receipts[holder].remove(receipt)
        self._compare(receipt, receipt.given, taken)
        return result

    def release_early(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        raw = self._raw(node)
        holder = _holder(sys._getframe(1), raw, False)
        before = self._counts(raw)
        result = self._release_early(node, *args, **kwargs)
        taken = set((before - self._counts(raw)).keys())
        receipt = self._receipt(holder, raw, taken)
        self._compare(receipt, {held for held in receipt.given if held[1] != 'full'}, taken)
        receipt.given -= taken
        return result

    def _raw(self, node: Any) -> Any:
        return node if hasattr(node, 'component_data') else self._tree.node_by_id(node)

    def _receipt(self, holder: Holder, node: Any, taken: set[Held]) -> Receipt:
        for receipt in self.receipts.get(holder, []):
            if receipt.anchor == node.id:
                return receipt
        raise Broken('L2', f'{holder[0]} releases what it never acquired', f'a lock of {holder[0]} {holder[1]} on node {node.id}', f'none; it took {_told(taken)}')

    def split(self, key: Any, child: Any, *args: Any, **kwargs: Any) -> Any:
        result = self._split(key, child, *args, **kwargs)
        parent = child.parent
        for receipts in self.receipts.values():
            for receipt in receipts:
                receipt.given |= {(parent.id, component) for node, component in receipt.given if node == child.id and component != 'mamba'}
        return result

    def settled(self) -> None:
        owed = Counter((held for mine in self.receipts.values() for r in mine for held in r.given))
        for node in self.view.nodes():
            if node.root:
                continue
            for component, count in node.locks.items():
                if count != owed[node.id, component]:
                    raise Broken('L1', f'{component} lock counts drift', f'node {node.id}: {owed[node.id, component]} holders of {component}', count)

    def at_rest(self) -> None:
        left = [str(receipt) for mine in self.receipts.values() for receipt in mine]
        if left:
            kinds = sorted({holder[0] for holder, mine in self.receipts.items() if mine})
            raise Broken('L3', f"{', '.join(kinds)} never released", 'no locks', '; '.join(left))
        self.settled()

    def _compare(self, receipt: Receipt, given: set[Held], taken: set[Held]) -> None:
        for what, extra in (('takes', taken - given), ('leaves', given - taken)):
            if extra:
                components = sorted({component for _, component in extra})
                raise Broken('L2', f"{receipt.holder[0]} {what} {' and '.join(components)} that it was {('not ' if what == 'takes' else '')}given", receipt, f'its release took {_told(taken)}{self._others(extra)}')

    def _others(self, lost: set[Held]) -> str:
        robbed = [f'{receipt.holder[0]} {receipt.holder[1]}' for mine in self.receipts.values() for receipt in mine if receipt.given & lost]
        return f"; held by {', '.join(robbed)}" if robbed else ''

    def _counts(self, node: Any) -> Counter[Held]:
        counts: Counter[Held] = Counter()
        kinds = [(NAMES[int(kind)], int(kind)) for kind in self.world.cache.tree_components]
        while node is not self._tree.root_node:
            for name, kind in kinds:
                counts[node.id, name] = node.component_data[kind].lock_ref
            node = node.parent
        return counts

def _holder(caller: FrameType, node: Any, acquiring: bool) -> Holder:
    frame: FrameType | None = caller
    for _ in range(FRAMES):
        if frame is None:
            break
        name, variables = (frame.f_code.co_name, frame.f_locals)
        if name in _REQUESTS or name == 'maybe_evict_swa':
            return ('request', variables['req'].rid)
        if name in ('load_back', '_load_back_transfers'):
            return ('load' if acquiring and 'device_indices' in variables else PREPARED, node.id)
        if name in _OTHERS:
            return (_OTHERS[name], node.id)
        frame = frame.f_back
    return (caller.f_code.co_name, node.id)

def _told(held: set[Held]) -> str:
    return ', '.join((f'{component} of node {node}' for node, component in sorted(held))) or 'nothing'
''',
    'harness.targets.sglang.oracles.ownership': r'''
import numpy as np
from harness.targets.sglang.oracles.base import Broken, Oracle
from harness.targets.sglang.view import Node, Slots, among, field_of, held_by

class Ownership(Oracle):
    name = 'O'

    def settled(self) -> None:
        self._check(at_rest=False)

    def at_rest(self) -> None:
        self._check(at_rest=True)

    def _check(self, *, at_rest: bool) -> None:
        nodes = [node for node in self.view.nodes() if not node.root]
        for component in self.view.components:
            claims = [('free', self.view.free(component))]
            claims += [(f'node {n.id}', s) for n in nodes if (s := n.device[component]) is not None]
            claims += self._requests(component)
            self._one_owner(f'device-{component}', claims)
            if at_rest:
                self._adds_up(f'device-{component}', claims, self.view.size(component))
        self._rows()
        if 'swa' in self.view.components:
            self._follow_map(nodes)
        if self.world.shape.hierarchical:
            self._host(nodes, at_rest=at_rest)

    def _host(self, nodes: list[Node], *, at_rest: bool) -> None:
        for component in self.view.components:
            claims = [('free', self.view.host_free(component))]
            claims += [(f'node {n.id}', s) for n in nodes if (s := n.host[component]) is not None]
            self._one_owner(f'host-{component}', claims)
            if at_rest:
                self._adds_up(f'host-{component}', claims, self.view.host_size(component))

    def _requests(self, component: str) -> list[tuple[str, Slots]]:
        claims = []
        for rid, req in self.world.live.items():
            if component == 'mamba':
                state = field_of(req, 'mamba_pool_idx')
                if state is not None:
                    claims.append((rid, np.array([int(state)])))
                continue
            held = held_by(req)
            if held is None:
                continue
            first = held.window_from if component == 'swa' else held.cached
            row = self.view.pools.rows.req_to_token[field_of(req, 'req_pool_idx')]
            slots = row[first:held.allocated].numpy().astype(np.int64)
            if component == 'swa':
                slots = self._mapped(slots)
                slots = slots[slots > 0]
            claims.append((rid, slots))
        return claims

    def _rows(self) -> None:
        free = self.view.free('full')
        for rid, req in self.world.live.items():
            held = held_by(req)
            if held is None:
                continue
            row = self.view.pools.rows.req_to_token[field_of(req, 'req_pool_idx')]
            slots = row[:held.allocated].numpy()
            lost = among(slots, free)
            if len(lost):
                raise Broken('O1', "a running request's FULL slots are free", f'the {len(slots)} slots of {rid} are its own or cached', f'{lost.tolist()} are free')

    def _mapped(self, slots: Slots) -> Slots:
        mapping = self.view.pools.allocator.full_to_swa_index_mapping.numpy()
        return np.asarray(mapping[slots], dtype=np.int64)

    def _one_owner(self, pool: str, claims: list[tuple[str, Slots]]) -> None:
        taken = np.concatenate([slots for _, slots in claims])
        counts = np.bincount(taken, minlength=1)
        if counts.max(initial=0) <= 1:
            return
        slot = int(counts.argmax())
        owners = [owner for owner, slots in claims if slot in slots]
        kinds = sorted({owner.rstrip('0123456789 ') or owner for owner in owners})
        kinds = kinds * 2 if len(kinds) == 1 else kinds
        raise Broken('O1', f"{pool}: {' and '.join(kinds)}", 'one owner for every slot', f"slot {slot} of {pool} is of {', '.join(owners)}")

    def _adds_up(self, pool: str, claims: list[tuple[str, Slots]], size: int) -> None:
        owned = sum((len(slots) for _, slots in claims))
        if owned != size // self._page(pool) * self._page(pool):
            raise Broken('O2', f'{pool} leaks', f'{size} slots owned', f'{owned} owned')

    def _page(self, pool: str) -> int:
        return 1 if pool.endswith('mamba') else self.world.shape.page_size

    def _follow_map(self, nodes: list[Node]) -> None:
        for node in nodes:
            full, swa = (node.device['full'], node.device['swa'])
            if full is None:
                continue
            mapped = self._mapped(full)
            if swa is not None and (not np.array_equal(mapped, swa)):
                raise Broken('O3', "the map does not lead to a node's SWA slots", f'node {node.id}: {swa.tolist()}', mapped.tolist())
            if swa is None and np.any(mapped > 0):
                raise Broken('O3', 'the map still leads from a node without SWA', f'node {node.id}: nothing', mapped.tolist())
''',
    'harness.targets.sglang.oracles.structure': r'''
from harness.targets.sglang.oracles.base import Broken, Oracle

class Structure(Oracle):
    name = 'S'

    def settled(self) -> None:
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
from harness.targets.sglang.oracles.ledger import Ledger
from harness.targets.sglang.oracles.ownership import Ownership
from harness.targets.sglang.oracles.structure import Structure
ORACLES: tuple[type[Oracle], ...] = (Ledger, Copies, Ownership, Content, Structure)
__all__ = ['ORACLES', 'Broken', 'Content', 'Copies', 'Ledger', 'Oracle', 'Ownership', 'Structure']
''',
    'harness.targets.sglang.pair': r'''
from collections.abc import Callable
from typing import Any, TypeVar
from harness.explore.kernel import Kernel, Signal
from harness.explore.outcome import Scenario
from harness.targets.sglang.agreement import Group, together
from harness.targets.sglang.broken import Broken
from harness.targets.sglang.device import Device
from harness.targets.sglang.prompts import Prompt
from harness.targets.sglang.release import Release
from harness.targets.sglang.world import CACHE, SPINS, Launch, World
RANKS = 2
T = TypeVar('T')

class _Process:

    def __init__(self, release: Release) -> None:
        self._release = release
        self._default, self._current = (Device.default, Device.current)
        self._numbers = release.numbers()

    def enter(self) -> None:
        Device.default, Device.current = (self._default, self._current)
        self._release.number_from(self._numbers)

    def leave(self) -> None:
        self._default, self._current = (Device.default, Device.current)
        self._numbers = self._release.numbers()

class Pair:

    def __init__(self, release: Release, scenario: Scenario) -> None:
        self.kernel = Kernel()
        self.ranks: list[World] = []
        self._processes: list[_Process] = []
        changed, answers = (Signal('changed'), Signal('answers'))
        for _ in range(RANKS):
            world = World(release, scenario, kernel=self.kernel, changed=changed, answers=answers)
            cache = world.cache
            cache.tp_group, cache.tp_world_size = (Group(RANKS), RANKS)
            world.scheduler.result_queue = []
            self.ranks.append(world)
            self._processes.append(_Process(release))
        self._changed, self._answers = (changed, answers)
        self.skewed = 0

    def start(self) -> None:
        spawn, first = (self.kernel.spawn, self.ranks[0])
        spawn('sched', self._loop(), daemon=True)
        spawn('fwd', self._forward(), daemon=True)
        for number, world in enumerate(self.ranks):
            for name in world.streams:
                if name != 'fwd':
                    spawn(f'{name}{number}', world.run_stream(name), daemon=True)
        for prompt in first.prompts:
            spawn(f'R{prompt.id}', self._client(prompt))
            if prompt.abort:
                spawn(f'A{prompt.id}', self._leave(prompt))

    async def _client(self, prompt: Prompt) -> None:
        ended = self.ranks[0].ended
        while prompt.waits_for is not None and prompt.waits_for not in ended:
            await self.kernel.wait(self._answers, 'client.think')
        await self.kernel.point('client.send', ('inbox',))
        for world in self.ranks:
            world.post(prompt)
        while prompt.rid not in ended:
            await self.kernel.wait(self._answers, 'client.wait')

    async def _leave(self, prompt: Prompt) -> None:
        await self.kernel.point('client.abort', ('inbox',))
        for world in self.ranks:
            world.post(world.release.abort_of(prompt.rid))

    async def _forward(self) -> None:
        streams = [world.streams['fwd'] for world in self.ranks]
        while True:
            while not all((stream.ready for stream in streams)):
                await self.kernel.wait(self._changed, 'fwd.idle')
            await self.kernel.point('forward.run', CACHE)
            for stream in streams:
                stream.run_next()
            for world in self.ranks:
                world.kick()

    async def _loop(self) -> None:
        idle = 0
        while True:
            if idle > SPINS and (not self.ranks[0].has_mail):
                await self.kernel.wait(self._changed, 'scheduler.idle')
                idle = 0
            await self.kernel.point('scheduler.receive', CACHE)
            self._together(lambda world: world.receive())
            idle = 0 if await self._pass() else idle + 1

    async def _pass(self) -> bool:
        progress = [[len(s.copies) for s in world.streams.values()] for world in self.ranks]
        self.skewed += progress[0] != progress[1]
        batches = self._together(lambda world: world.schedule())
        _same([_told(batch) for batch in batches])
        if batches[0]:
            await self.kernel.point('scheduler.launch', CACHE)
            pairs = zip(self.ranks, batches, strict=True)
            launched = [world.launch(batch) for world, batch in pairs]
            while not all((launch.done.query() for launch, _ in launched)):
                await self.kernel.wait(self._changed, 'scheduler.synchronize')
            await self.kernel.point('scheduler.process', CACHE)
            self._process(batches, launched)
        else:
            self._together(lambda world: world.scheduler.on_idle())
        for world, batch in zip(self.ranks, batches, strict=True):
            world.scheduler.last_batch = batch
            world.settle()
        return bool(batches[0])

    def _process(self, batches: list[Any], launched: list[tuple[Launch, Any]]) -> None:
        todo = {id(world): (batch, result) for world, batch, (_, result) in zip(self.ranks, batches, launched, strict=True)}
        self._together(lambda world: world.scheduler.process_batch_result(*todo[id(world)]))

    def _together(self, share: Callable[[World], T]) -> list[T]:
        works = [lambda world=world: share(world) for world in self.ranks]
        return together(works, self._processes)

def _told(batch: Any) -> Any:
    if not batch:
        return 'no batch'
    lengths = [int(n) for n in batch.seq_lens]
    starts = list(batch.prefix_lens) if batch.forward_mode.is_extend() else lengths
    rows = zip(batch.reqs, starts, lengths, strict=False)
    return ', '.join((f'{req.rid} [{int(start)}, {stop})' for req, start, stop in rows))

def _same(told: list[str]) -> None:
    if len(set(told)) > 1:
        seen = '; '.join((f'rank {rank}: {what}' for rank, what in enumerate(told)))
        raise Broken('R1', 'the ranks compute different batches', 'the same batch', seen)
''',
    'harness.targets.sglang.runner': r'''
import re
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Protocol
from harness.explore.kernel import Ended, Point, Task
from harness.explore.marks import run_marks
from harness.explore.outcome import Outcome, Scenario, Verdict
from harness.explore.pickers import Chooser, Search
from harness.explore.tape import Divergence
from harness.targets.sglang.marks import Marks
from harness.targets.sglang.oracles import ORACLES, Broken, Oracle
from harness.targets.sglang.pair import Pair
from harness.targets.sglang.release import Release
from harness.targets.sglang.view import View
from harness.targets.sglang.world import World
STEP_LIMIT = 3000

class Seat(NamedTuple):
    world: World
    view: View

class Spectator(Protocol):

    def begin(self, seats: Sequence[Seat]) -> None:
        ...

    def on_step(self, task: Task, point: Point) -> None:
        ...

    def after_step(self, task: Task, point: Point) -> None:
        ...

class _Stage:

    def __init__(self, release: Release, scenario: Scenario, without: tuple[str, ...]) -> None:
        self.pair = Pair(release, scenario) if scenario.get('ranks', 1) > 1 else None
        worlds = self.pair.ranks if self.pair else [World(release, scenario)]
        self.seats = [Seat(world, View(world.cache, world.pools)) for world in worlds]
        self.oracles: list[Oracle] = []
        first = self.seats[0]
        if self.pair is None:
            seen = [kind for kind in ORACLES if first.view.opaque <= kind.sees_opaque]
            self.oracles = [kind(*first) for kind in seen if kind.name not in without]
        self.marks = Marks(*first)
        for seat in self.seats:
            seat.world.watchers = [seat.view]
        first.world.watchers += [*self.oracles, self.marks]
        self.kernel = first.world.kernel

    def start(self) -> None:
        (self.pair or self.seats[0].world).start()

    def rest(self) -> None:
        if self.pair is None:
            self.seats[0].world.rest()
            self.seats[0].view.forget()
            for oracle in self.oracles:
                oracle.at_rest()

    def reached(self) -> dict[str, int]:
        counts = {mark: n for mark, n in self.marks.counts.items() if n}
        if self.pair is not None and self.pair.skewed:
            counts['ranks_skewed'] = self.pair.skewed
        return counts

class ReleaseRunner:

    def __init__(self, release: Release, *, without: tuple[str, ...]=()) -> None:
        self.release = release
        self._without = without

    def run(self, scenario: Scenario, chooser: Chooser, spectator: Spectator | None=None) -> Outcome:
        without = (*self._without, *scenario.get('without', ()))
        stage = _Stage(self.release, scenario, without)
        kernel = stage.kernel
        if spectator is not None:
            spectator.begin(stage.seats)
            kernel.on_step, kernel.after_step = (spectator.on_step, spectator.after_step)
        stage.start()
        search = Search(chooser)
        ended = kernel.run(search, step_limit=STEP_LIMIT)
        if isinstance(ended.error, Divergence):
            raise ended.error
        if spectator is not None and ended.reason == 'raised':
            last = next((task for task in kernel.tasks if task.name == ended.task))
            spectator.after_step(last, last.point)
        verdict = _judge(ended)
        if verdict is None:
            try:
                stage.rest()
            except Exception as error:
                verdict = verdict_of(error)
        tape = search.tape
        return Outcome(verdict=verdict, ended=ended, tape=tape, marks=run_marks(tape.order, tape.points, stage.reached()))

def _judge(ended: Ended) -> Verdict | None:
    if ended.reason in ('deadlock', 'step_limit'):
        waiting = ', '.join((f'{w.task} at {w.point.name}' for w in ended.waiting))
        return Verdict('P1', ended.reason, f'expected every request ends, saw {waiting}')
    return None if ended.error is None else verdict_of(ended.error)

def verdict_of(error: BaseException) -> Verdict:
    if isinstance(error, Broken):
        said = f'expected {error.expected}, saw {error.seen}'
        return Verdict(error.oracle, re.sub('\\d+', '#', error.signature), said)
    inner, entry = _frames(error.__traceback__)
    signature = f'{type(error).__name__} in {inner}' + (f', from {entry}' if entry else '')
    said = str(error).split('\n')[0] or 'nothing said'
    return Verdict('crash', signature, f'expected no exception, saw {said}')
_ENTRIES = ('check_hicache_events', 'flush_write_through_acks', 'cache_finished_req', 'cache_unfinished_req', 'init_load_back', 'match_prefix', 'evict', 'sanity_check')

def _frames(trace: TracebackType | None) -> tuple[str, str]:
    inner, entry = ('nowhere', '')
    while trace is not None:
        code = trace.tb_frame.f_code
        inner = code.co_qualname
        if code.co_name in _ENTRIES and (not entry):
            entry = code.co_name
        trace = trace.tb_next
    return (inner, '' if inner.endswith(f'.{entry}') else entry)
''',
}

if __name__ == "__main__":
    raise SystemExit(main())
