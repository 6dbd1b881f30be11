"""The watch: one observer that tells every oracle what it asked to hear.

Invariant: what nobody listens to costs one call of a method that does nothing.
"""

from collections.abc import Callable, Iterable
from functools import cache
from inspect import signature

from cache.audit import audit
from cache.contract import Cache
from cache.observer import Observer
from cache.unified import UnifiedCache
from harness.oracles.base import Oracle, Shadows
from harness.oracles.holdings import Holdings
from harness.oracles.progress import Progress
from harness.oracles.shades import Shades
from harness.oracles.violation import Violation

Hook = Callable[..., None]
HOOKS = tuple(name for name in vars(Observer) if not name.startswith("_"))
# After these the cache stands between two steps, and may be audited.
OPERATIONS = (
    "matched",
    "loaded_back",
    "settled",
    "extended",
    "committed",
    "closed",
    "made_room",
    "acknowledged",
    "stepped",
)
SHOWN = 400  # characters of what was expected and seen


class Watch(Observer):
    """Give it to a cache as its observer, then `attach` it to that cache.

    Violations go to `on_violation` as they are found, with `step` and `elapsed_s`, which the world
    keeps up to date; beyond `limit` they are only counted. `audit_every` operations the whole cache
    is audited; 0 means at rest only. A cache that is not the reference one is only listened to."""

    def __init__(
        self,
        oracles: Iterable[Oracle],
        *,
        listeners: Iterable[Observer] = (),
        on_violation: Callable[[Violation], None],
        audit_every: int = 0,
        limit: int | None = None,
    ) -> None:
        self.step = 0
        self.elapsed_s = 0.0
        self.count = 0
        self.operations = 0
        self._oracles = list(oracles)
        self._listeners = list(listeners)
        self._on_violation = on_violation
        self._audit_every = audit_every
        self._limit = limit
        self._cache: UnifiedCache | None = None
        self._attached = False
        self._pending: dict[Oracle, None] = {}

    @property
    def verifies_content(self) -> bool:
        """Whether every page that requests read is compared with what it should hold."""
        return self._cache is not None and any(o.name == "content" for o in self._oracles)

    def listen(self, listener: Observer) -> None:
        """Tell one more observer everything, from now on."""
        self._listeners.append(listener)
        if self._attached:
            self._wire()

    def attach(self, cache: Cache) -> None:
        """Before the cache's first operation."""
        if isinstance(cache, UnifiedCache) and self._oracles:
            self._cache = cache
            holdings = Holdings()
            shades = Shades(holdings)
            holdings.attach(cache)
            shades.attach(cache)
            self._shadows = Shadows(holdings, shades)
            for oracle in self._oracles:
                oracle.attach(cache, self._shadows, self.report, self._pending)
            self._oracles = [oracle for oracle in self._oracles if oracle.applies()]
        self._attached = True
        self._wire()

    def report(self, oracle: str, signature: str, expected: object, seen: object) -> None:
        """A promise is broken; the sink of every oracle."""
        self.count += 1
        if self._limit is None or self.count <= self._limit:
            self._on_violation(
                Violation(
                    oracle,
                    signature,
                    str(expected)[:SHOWN],
                    str(seen)[:SHOWN],
                    self.step,
                    self.elapsed_s,
                )
            )

    def audit(self) -> None:
        """Compare everything, between two operations."""
        if self._cache is None:
            return
        for oracle in self._oracles:
            oracle.audited()
        for finding in audit(self._cache):
            self.report(*finding)

    def at_rest(self) -> None:
        """All requests have ended and nothing is in flight: audit, flush, and look again."""
        cache = self._cache
        if cache is None:
            return
        for oracle in self._oracles:
            oracle.at_rest()
        for finding in audit(cache):
            self.report(*finding)
        done = cache.flush()
        for oracle in self._oracles:
            if isinstance(oracle, Progress):
                oracle.flushed_at_rest(done=done)

    def _review(self) -> None:
        """An operation is over: whoever asked for it looks at what has changed."""
        pending = self._pending
        for oracle in self._oracles:
            if oracle in pending:
                oracle.review()
        pending.clear()

    def _operated(self) -> None:
        self.operations += 1
        if self.operations % self._audit_every == 0:
            self.audit()

    def _wire(self) -> None:
        """Bind each hook to those that override it: none, one, or all in turn."""
        watched = self._cache is not None
        audience: list[Observer] = []
        if watched:
            audience += [self._shadows.holdings, self._shadows.shades, *self._oracles]
        audience += self._listeners
        for name, heard in _plan(tuple(type(observer) for observer in audience)):
            calls: list[Hook] = [getattr(audience[index], name) for index in heard]
            operation = watched and name in OPERATIONS
            if operation:
                calls.append(self._review)
                if self._audit_every:
                    calls.append(self._operated)
            vars(self).pop(name, None)
            if len(calls) == 1 and not operation:
                setattr(self, name, calls[0])
            elif calls:
                reviewed = len(calls) - 1 - bool(self._audit_every) if operation else len(calls)
                setattr(self, name, _fan(name, len(calls), reviewed)(calls, self._pending))


@cache
def _plan(kinds: tuple[type[Observer], ...]) -> list[tuple[str, list[int]]]:
    """For each hook, which of the observers override it."""
    return [
        (
            name,
            [i for i, kind in enumerate(kinds) if getattr(kind, name) is not vars(Observer)[name]],
        )
        for name in HOOKS
    ]


@cache
def _fan(hook: str, count: int, reviewed: int) -> Callable[[list[Hook], dict[Oracle, None]], Hook]:
    """Makes the function that makes `count` calls at an event, those from `reviewed` on without
    arguments and the first of them only if anything is pending. It is written out, for it runs at
    every event, and compiled once."""
    given = ", ".join(list(signature(getattr(Observer, hook)).parameters)[1:])
    lines = []
    for number in range(count):
        call = f"call_{number}({given if number < reviewed else ''})"
        lines.append(f"if pending: {call}" if number == reviewed else call)
    names: dict[str, Callable[[list[Hook], dict[Oracle, None]], Hook]] = {}
    calls = ", ".join(f"call_{number}" for number in range(count))
    exec(
        f"def make(calls, pending):\n"
        f"    {calls}, = calls\n"
        f"    def fan({given}):\n        " + "\n        ".join(lines) + "\n"
        "    return fan\n",
        names,
    )
    return names["make"]
