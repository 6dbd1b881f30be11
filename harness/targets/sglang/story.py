"""A finding in a release as a story: each step with what it did to the tree, who held what."""

from collections.abc import Sequence
from typing import Any

from harness.explore.kernel import Point, Task
from harness.explore.outcome import Outcome, Scenario
from harness.explore.tape import StrictReplay, Tape
from harness.hunt.picture import NodeState, Picture, changes
from harness.hunt.story import Step, Story
from harness.targets.sglang.oracles import Ledger
from harness.targets.sglang.runner import ReleaseRunner, Seat
from harness.targets.sglang.view import Node, View
from harness.targets.sglang.world import SERVE, World

LETTERS = {"full": "F", "swa": "W", "mamba": "M"}


class Teller:
    """Watches a run of a release and writes its steps down."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._seats: Sequence[Seat] = ()
        self._before: Picture | None = None

    def begin(self, seats: Sequence[Seat]) -> None:
        self._seats = seats
        self._before = _all(seats)

    def on_step(self, task: Task, point: Point) -> None: ...

    def after_step(self, task: Task, point: Point) -> None:
        assert self._before is not None
        after = _all(self._seats)
        served = _served(self._seats[0].world) if point.name == SERVE else []
        told = (*served, *changes(self._before, after), *_pools(self._before, after))
        self.steps.append(Step(len(self.steps) + 1, task.name, point.name, (), told))
        self._before = after

    def end(self) -> Picture:
        assert self._before is not None
        return self._before


def tell(runner: ReleaseRunner, scenario: Scenario, tape: Tape) -> tuple[Story, Outcome]:
    """Run a tape strictly once more and tell what happened."""
    teller = Teller()
    outcome = runner.run(scenario, StrictReplay(tape), teller)
    return Story(outcome.verdict, tuple(teller.steps), teller.end()), outcome


def _all(seats: Sequence[Seat]) -> Picture:
    """Every rank's tree; ranks are named where there are several."""
    pictures = [picture_of(world, view) for world, view in seats]
    if len(pictures) == 1:
        return pictures[0]
    nodes: dict[int, NodeState] = {}
    pools: dict[str, str] = {}
    locks: list[str] = []
    copies: list[str] = []
    for rank, one in enumerate(pictures):
        for number, node in one.nodes.items():
            nodes[number * len(seats) + rank] = node._replace(label=f"rank {rank} {node.label}")
        pools |= {f"rank {rank} {name}": text for name, text in one.pools.items()}
        locks += [f"rank {rank} {text}" for text in one.locks]
        copies += [f"rank {rank} {text}" for text in one.copies]
    return Picture(nodes, pools, tuple(locks), tuple(copies))


def picture_of(world: World, view: View) -> Picture:
    """The tree in letters: F, W, M on the device, f, w, m on the host, a dot where absent."""
    view.forget()
    ledgers = [watcher for watcher in world.watchers if isinstance(watcher, Ledger)]
    receipts = [str(r) for ledger in ledgers for mine in ledger.receipts.values() for r in mine]
    copies = [f"{name}: a copy waits" for name, stream in world.streams.items() if stream.behind]
    return Picture(
        nodes={n.id: _state(n, view, world) for n in view.nodes() if not n.root},
        pools=_rooms(world, view),
        locks=tuple(receipts),
        copies=tuple(copies),
    )


def _rooms(world: World, view: View) -> dict[str, str]:
    """What is free; with storage, on the host too, and how far prefetches have come."""
    rooms = {c: f"{len(view.free(c))} of {view.size(c)} free" for c in view.components}
    if world.background is None:
        return rooms
    for name in view.components:
        free, size = len(view.host_free(name)), view.host_size(name)
        rooms[f"{name} on the host"] = f"{free} of {size} free"
    asked = [_come(info[3]) for info in world.cache.ongoing_prefetch.values()]
    rooms["prefetches"] = ", ".join(asked) or "none"
    rooms["storage"] = f"{len(world.background.storage.pages)} pages"
    return rooms


def _come(operation: Any) -> str:
    """How far a prefetch has come."""
    rid, hits = operation.request_id, len(operation.hash_value)
    read = int(operation.completed_tokens)
    cut = ", cut short" if operation.is_terminated() else ""
    return f"{rid} has read {read} tokens of {hits} pages{cut}" if hits else f"{rid} asks{cut}"


def _state(node: Node, view: View, world: World) -> NodeState:
    device = "".join(_letter(node.device[c], LETTERS[c]) for c in view.components)
    host = "".join(_letter(node.host[c], LETTERS[c].lower()) for c in view.components)
    marks = " backing up" if node.id in view.writing() else ""
    marks += " loading" if node.id in view.loading() else ""
    locks = "/".join(str(node.locks[c]) for c in view.components)
    tiers = f"{device} {host}" if world.shape.hierarchical else device
    label = f"node {node.id} [{node.start}:{node.stop}) of {node.parent}"
    return NodeState(label, tiers + marks, locks)


def _served(world: World) -> list[str]:
    """Who came before the story begins."""
    rids = ", ".join(prompt.rid for prompt in world.prompts if prompt.served)
    return [f"one after the other, each alone: {rids}"]


def _letter(slots: object, letter: str) -> str:
    return "." if slots is None else letter


def _pools(before: Picture, after: Picture) -> list[str]:
    moved = [f"{n}: {text}" for n, text in after.pools.items() if before.pools[n] != text]
    return ["; ".join(moved)] if moved else []
