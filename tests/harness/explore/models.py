"""Small worlds with known bugs, on which the search is proved before it meets a cache."""

from collections.abc import Callable, Hashable

from harness.explore.kernel import Ended, Kernel, Point, Signal, Task
from harness.explore.marks import run_marks
from harness.explore.outcome import Outcome, Scenario, Verdict
from harness.explore.pickers import Chooser, Search
from harness.explore.swarm import Many, Number, Swarm

Judge = Callable[[Ended], Verdict | None]


class Violation(Exception):
    """An oracle of a model fired."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class Model:
    """A runner: ``build`` makes the world and returns its judge at rest."""

    step_limit = 2_000

    def run(self, scenario: Scenario, chooser: Chooser) -> Outcome:
        kernel, sometimes = Kernel(), dict[str, int]()
        judge = self.build(kernel, scenario, sometimes)
        search = Search(chooser)
        ended = kernel.run(search, step_limit=self.step_limit)
        verdict = judge(ended) if ended.reason == "finished" else failure(ended)
        marks = run_marks(search.tape.order, search.tape.points, sometimes)
        return Outcome(verdict=verdict, ended=ended, tape=search.tape, marks=marks)

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        raise AssertionError("a model builds its world")


def failure(ended: Ended) -> Verdict | None:
    """The verdict of a run that did not come to its end."""
    if ended.reason == "raised":
        if isinstance(ended.error, Violation):
            return ended.error.verdict
        return Verdict("crash", type(ended.error).__name__, str(ended.error))
    if ended.reason == "deadlock":
        return Verdict("progress", "deadlock", "; ".join(str(w) for w in ended.waiting))
    if ended.reason == "step_limit":
        return Verdict("progress", "livelock", f"no end after {ended.steps} steps")
    return None


class LostUpdate(Model):
    """``tasks`` tasks add one to a counter in two steps, ``idle`` others do something else."""

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        count, seen = [0], dict[str, int]()
        cell = ("cell", 0)

        async def add(name: str) -> None:
            await kernel.point("read", cell, write=False)
            seen[name] = count[0]
            await kernel.point("write", cell)
            count[0] = seen[name] + 1

        async def idle(name: str) -> None:
            for n in range(3):
                await kernel.point("idle", (name, n))

        for n in range(scenario["tasks"]):
            kernel.spawn(f"T{n}", add(f"T{n}"))
        for n in range(scenario.get("idle", 0)):
            kernel.spawn(f"I{n}", idle(f"I{n}"))
        kernel.state_key = lambda: (count[0], tuple(sorted(seen.items())))

        def judge(ended: Ended) -> Verdict | None:
            if count[0] == scenario["tasks"]:
                return None
            return Verdict("count", "lost", f"{count[0]} of {scenario['tasks']}")

        return judge


class Deadlock(Model):
    """Two tasks take two locks; in opposite orders unless ``ordered``."""

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        owners, freed = [""] * 2, [Signal("lock 0"), Signal("lock 1")]

        async def work(name: str, order: list[int]) -> None:
            for lock in order:
                await kernel.point("take", ("lock", lock))
                while owners[lock]:
                    await kernel.wait(freed[lock], "take.wait", ("lock", lock))
                owners[lock] = name
            for lock in order:
                await kernel.point("free", ("lock", lock))
                owners[lock] = ""
                freed[lock].fire()

        kernel.spawn("A", work("A", [0, 1]))
        kernel.spawn("B", work("B", [0, 1] if scenario["ordered"] else [1, 0]))
        kernel.state_key = lambda: tuple(owners)
        return lambda ended: None


class Livelock(Model):
    """Two tasks retry until they find the place free; a visitor who never leaves keeps it."""

    step_limit = 200

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        taken = [False]

        async def visitor() -> None:
            await kernel.point("enter", ("place", 0))
            taken[0] = True
            if not scenario["leaves"]:
                return
            await kernel.point("leave", ("place", 0))
            taken[0] = False

        async def retry() -> None:
            await kernel.point("look", ("place", 0), write=False)
            while taken[0]:
                await kernel.pause(1.0, "look", ("place", 0))

        kernel.spawn("V", visitor())
        kernel.spawn("A", retry())
        kernel.spawn("B", retry())
        return lambda ended: None


class Flaky(Model):
    """A copy that may fail, by a labelled draw; ``careful`` code retries it."""

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        landed = list[int]()

        async def copy(n: int) -> None:
            await kernel.point("copy.run", ("copy", n))
            while kernel.draw("copy.fail", 3) == 2:
                sometimes["copy failed"] = sometimes.get("copy failed", 0) + 1
                if not scenario["careful"]:
                    return
                await kernel.point("copy.again", ("copy", n))
            landed.append(n)

        for n in range(scenario["copies"]):
            kernel.spawn(f"C{n}", copy(n))

        def judge(ended: Ended) -> Verdict | None:
            if len(landed) == scenario["copies"]:
                return None
            return Verdict("copies", "lost", f"{landed} landed")

        return judge


class Orders(Model):
    """Every task signs a list in two steps; every order but that of the names is a failure."""

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        signed = list[str]()

        async def sign(name: str) -> None:
            await kernel.point("think")
            await kernel.point("sign", ("list", 0))
            signed.append(name)

        for name in scenario["names"]:
            kernel.spawn(name, sign(name))
        kernel.state_key = lambda: tuple(signed)

        def judge(ended: Ended) -> Verdict | None:
            order = "".join(signed)
            return Verdict("order", order, order) if order != scenario["names"] else None

        return judge


class Node:
    """A node with a host copy; without a slot it is a tombstone."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.slot: int | None = None
        self.count = 0
        self.holders: list[str] = []
        self.used = 0


class TombstoneCache:
    """One auxiliary component in a small pool; ``replays_receipts`` is what the fix is."""

    def __init__(self, nodes: int, slots: int, replays_receipts: bool) -> None:
        self.nodes = [Node(n) for n in range(nodes)]
        self.free = list(range(slots))
        self.content: list[int | None] = [None] * slots
        self.freed = Signal("slot freed")
        self.replays_receipts = replays_receipts
        self.clock = 0

    def acquire(self, node: Node, holder: str) -> bool:
        """Lock the node if it has a slot; False means that it was skipped."""
        if node.slot is None:
            return False
        node.count += 1
        node.holders.append(holder)
        self.clock += 1
        node.used = self.clock
        return True

    def release(self, node: Node, holder: str, held: bool) -> None:
        if held:
            node.holders.remove(holder)
        if held if self.replays_receipts else node.slot is not None and node.count > 0:
            node.count -= 1
            self.freed.fire()

    def allocate(self) -> int | None:
        if not self.free:
            victims = [n for n in self.nodes if n.slot is not None and n.count == 0]
            if not victims:
                return None
            victim = min(victims, key=lambda n: n.used)
            assert victim.slot is not None
            self.free.append(victim.slot)
            victim.slot = None
        return self.free.pop()

    def check_ledger(self) -> None:
        for node in self.nodes:
            if node.count != len(node.holders):
                message = f"node {node.number}: count {node.count}, holders {node.holders}"
                raise Violation(Verdict("ledger", "foreign_release", message))


class Tombstone(Model):
    """Requests load a node back, lock it, read it; probes lock it for a moment.

    Scenario: nodes, slots, requests and probes with a node each, reads, fault, oracle.
    """

    def build(self, kernel: Kernel, scenario: Scenario, sometimes: dict[str, int]) -> Judge:
        cache = TombstoneCache(scenario["nodes"], scenario["slots"], not scenario["fault"])
        ledger = scenario["oracle"] == "ledger"

        def node_of(item: dict[str, int]) -> Node:
            return cache.nodes[item["node"] % len(cache.nodes)]

        async def request(name: str, node: Node) -> None:
            at = ("node", node.number)
            await kernel.point("match", at, write=False)
            while not cache.acquire(node, name):
                await kernel.point("alloc", ("pool", "aux"))
                slot = cache.allocate()
                if slot is None:
                    await kernel.wait(cache.freed, "alloc.wait", ("pool", "aux"))
                    continue
                await kernel.pause(1.0, "load.done", at)
                if node.slot is not None:
                    cache.free.append(slot)
                    continue
                sometimes["revived"] = sometimes.get("revived", 0) + 1
                node.slot, cache.content[slot] = slot, node.number
            for _ in range(scenario["reads"]):
                await kernel.point("read", at, write=False)
                found = None if node.slot is None else cache.content[node.slot]
                if found != node.number:
                    message = f"{name} reads {found} at node {node.number}"
                    raise Violation(Verdict("content", "foreign_read", message))
            await kernel.point("release", at)
            cache.release(node, name, True)

        async def probe(name: str, node: Node) -> None:
            at = ("node", node.number)
            await kernel.point("probe.acquire", at)
            held = cache.acquire(node, name)
            await kernel.point("probe.budget", ("pool", "aux"), write=False)
            await kernel.point("probe.release", at)
            cache.release(node, name, held)

        for item in scenario["probes"]:
            name = f"P{item['id']}"
            kernel.spawn(name, probe(name, node_of(item)))
        for item in scenario["requests"]:
            name = f"R{item['id']}"
            kernel.spawn(name, request(name, node_of(item)))

        def look(task: Task, point: Point) -> None:
            cache.check_ledger()

        if ledger:
            kernel.after_step = look
        kernel.state_key = lambda: tombstone_key(cache)

        def judge(ended: Ended) -> Verdict | None:
            try:
                cache.check_ledger()
            except Violation as violation:
                return violation.verdict if ledger else None
            return None

        return judge


def tombstone_key(cache: TombstoneCache) -> Hashable:
    """Everything that decides how the model goes on, with times of use as an order."""
    nodes = tuple((n.slot, n.count, tuple(n.holders)) for n in cache.nodes)
    by_use = tuple(n.number for n in sorted(cache.nodes, key=lambda n: n.used))
    return nodes, by_use, tuple(cache.free), tuple(cache.content)


def tombstone_swarm(*, fault: bool, oracle: str) -> Swarm:
    """Small and odd scenarios of the tombstone model."""
    item = {"node": Number(0, 5)}
    return Swarm(
        knobs={
            "nodes": Number(1, 6),
            "slots": Number(1, 4),
            "reads": Number(1, 4),
            "requests": Many(item, 1, 9),
            "probes": Many(item, 0, 5),
        },
        fixed={"fault": fault, "oracle": oracle},
    )
