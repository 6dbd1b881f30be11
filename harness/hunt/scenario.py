"""What a small world is made of, as plain data.

Invariant: a scenario is valid whatever its knobs say: sizes are made to fit when it is built, so
that shrinking one knob never makes another one wrong.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from cache.config import CacheConfig, EvictionOrder, PoolPages, WritePolicy
from harness.explore.outcome import Scenario
from harness.explore.swarm import Feature, Knob, Many, Number, Options, Perhaps, Swarm
from harness.hunt.companions import COMPANION, companions_of, more_slots
from harness.hunt.ranks import RANKS, ranks_in, spare_pages
from harness.hunt.storage import STORAGE, narrow, storage_config

GROUPS = 2
SETUP = 5  # set-up items
CHUNK = 3  # pages of one prefill chunk
FEW_STATES = 2  # of a host that loses the others
ALL = 99  # more than any pool has

# A set-up item: serve a prompt and let its copies land, or make room on the device.
_SETUP: dict[str, Knob] = {
    "serve": Feature(0.8),
    "group": Number(0, GROUPS - 1),
    "pages": Number(1, 9),
    "full": Number(0, 6),
    "swa": Number(0, 6),
}
_REQUEST: dict[str, Knob] = {
    "group": Number(0, GROUPS - 1),
    "shared": Number(0, 8),  # pages of the group's prefix
    "own": Number(0, 3),  # tokens of its own behind them
    "answer": Number(1, 6),  # tokens
    "chunk": Number(1, CHUNK),
    "priority": Number(0, 2),
    "namespace": Feature(0.1),
    "abort": Feature(0.2),
    "unasked": Feature(0.25),  # storage is not asked, as when too much is under way already
}
STORAGE_SHARE = 0.35  # of all worlds have storage, if they have a host
COMPANIONS_SHARE = 0.4  # of all worlds have slots with companions
RANKS_SHARE = 0.2  # of all worlds have several ranks
ROOMS_SHARE = 0.1  # of all worlds have rooms that are refused
NARROW_SHARE = 0.3  # of worlds with storage have a host that loses windows and states
_PRESSURE: dict[str, Knob] = {"full": Number(0, 6), "swa": Number(0, 5)}
_STATE_PRESSURE: dict[str, Knob] = {"states": Number(1, 4)}


def swarm(
    grain: str,
    *,
    storage_share: float | None = None,
    ranks_share: float | None = None,
    companions_share: float | None = None,
    rooms_share: float = ROOMS_SHARE,
    narrow_share: float = NARROW_SHARE,
) -> Swarm:
    """Every schedule its own sizes, policies, mix and switches; so many with storage, so many with
    several ranks, so many with companions, so many where rooms are refused, and so many whose host
    loses windows and states."""
    share = STORAGE_SHARE if storage_share is None else storage_share
    several = RANKS_SHARE if ranks_share is None else ranks_share
    beside = COMPANIONS_SHARE if companions_share is None else companions_share
    return Swarm(
        knobs={
            "page_size": Options((1, 2, 4)),
            "device": Number(6, 24),
            "windowed": Feature(0.7),
            "window": Number(1, 9),
            "swa": Number(0, 16),
            "ratio": Options((0.5, 1.0, 2.0, 0.25, 0.5, 1.0, 2.0, 0.0)),
            "policy": Options(("write_through", *(str(p) for p in WritePolicy))),
            "device_order": Options(tuple(str(o) for o in EvictionOrder)),
            "host_order": Options(tuple(str(o) for o in EvictionOrder)),
            "threshold": Options((0, 2, 0, 3)),  # pages; one that some load-backs miss
            "copies_fail": Feature(0.3),
            "alike": Feature(0.2),  # a group has one prompt, and answers that begin alike
            "flush": Feature(0.1),  # somebody asks for an empty cache while it is in use
            "rooms_fail": Feature(rooms_share),
            "setup": Many(_SETUP, 0, SETUP),
            "demote": Number(0, 9),  # FULL pages that leave the device before the requests come
            "tombstone": Number(0, 5),  # SWA pages
            "requests": Many(_REQUEST, 1, 4),
            "pressure": Many(_PRESSURE, 0, 2),
            "storage": Perhaps(STORAGE, share),
            "recurrent": Feature(0.35),
            "states": Number(2, 8),
            "forget": Number(0, 4),  # states that leave the device before the requests come
            "state_pressure": Many(_STATE_PRESSURE, 0, 1),
            "ranks": Perhaps(RANKS, several),
            "accompanied": Feature(beside),
            "companions": Many(COMPANION, 1, 2),
            "snug": Options((0, 0, 0, 1, 2)),  # the host holds one prompt, or a page more
            "narrow": Feature(narrow_share),
        },
        fixed={"grain": grain},
    )


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios that tell the same in less: the coarser grain, then a request or pressure that is
    over before the story begins, then larger chunks, then one knob that is lower."""
    if scenario["grain"] == "fine":
        yield {**scenario, "grain": "scheduler"}
    if len(scenario["setup"]) < SETUP:
        yield from _set_up(scenario)
    for at, request in enumerate(scenario["requests"]):
        for chunk in range(CHUNK, request["chunk"], -1):
            yield _with(scenario, "requests", at, [{**request, "chunk": chunk}])
    yield from swarm(scenario["grain"]).smaller(scenario)


def _set_up(scenario: Scenario) -> Iterator[Scenario]:
    """One task less, one step of the set-up more."""
    setup = scenario["setup"]
    step = {"id": max((item["id"] for item in setup), default=-1) + 1, **_simplest_item(_SETUP)}
    for at, request in enumerate(scenario["requests"]):
        if len(scenario["requests"]) > 1:
            serve = {"serve": True, "group": request["group"], "pages": max(1, request["shared"])}
            rest = _with(scenario, "requests", at, [])
            yield {**rest, "setup": [*setup, {**step, **serve}]}
    for at, pressure in enumerate(scenario["pressure"]):
        room = {"full": pressure["full"], "swa": pressure["swa"]}
        yield {**_with(scenario, "pressure", at, []), "setup": [*setup, {**step, **room}]}


def _with(scenario: Scenario, name: str, at: int, items: list[dict[str, Any]]) -> Scenario:
    """One item of a list replaced."""
    rows = scenario[name]
    return {**scenario, name: [*rows[:at], *items, *rows[at + 1 :]]}


class Request(NamedTuple):
    id: int
    group: int
    shared: int
    own: int
    answer: int
    chunk: int
    priority: int
    namespace: bool
    abort: bool
    unasked: bool = False  # replay files from before there was one do not say


def configs_of(scenario: Scenario) -> list[CacheConfig]:
    """The cache of each rank: its pools may be larger than the first one's."""
    first = config_of(scenario)
    return [_larger(first, spare_pages(scenario, n)) for n in range(ranks_in(scenario))]


def _larger(config: CacheConfig, spare: int) -> CacheConfig:
    if not spare:
        return config
    more = PoolPages(spare, spare if config.hierarchical else 0)
    pools = {
        component.name.lower(): more_slots(config.pools(component), more)
        for component in config.components
    }
    beside = tuple(
        c if c.pools is None else replace(c, pools=more_slots(c.pools, more))
        for c in config.companions
    )
    return replace(config, companions=beside, **pools)  # type: ignore[arg-type]


def config_of(scenario: Scenario) -> CacheConfig:
    """The cache of a scenario. A window never needs more SWA slots than there are."""
    page, device, ratio = scenario["page_size"], scenario["device"], scenario["ratio"]
    window = scenario["window"] if scenario["windowed"] else 0
    swa = max(scenario["swa"], -(-window // max(page, 1)) + 3)
    states = scenario["states"] if recurrent(scenario) else 0
    swa_host, states_host = _host(swa, ratio), _host(states, ratio)
    if narrow(scenario):
        swa_host, states_host = min(swa_host, -(-window // page) + 1), min(states_host, FEW_STATES)
    config = CacheConfig(
        page_size=page,
        full=PoolPages(device, _snug(_host(device, ratio), scenario)),
        swa=PoolPages(swa, swa_host) if window else None,
        window=window,
        write_policy=WritePolicy(scenario["policy"]),
        device_eviction=EvictionOrder(scenario["device_order"]),
        host_eviction=EvictionOrder(scenario["host_order"]),
        load_back_threshold=scenario["threshold"] * page,
        storage=storage_config(scenario),
        mamba=PoolPages(states, states_host) if states else None,
    )
    return replace(config, companions=companions_of(scenario, config))


def setup_of(scenario: Scenario) -> list[dict[str, Any]]:
    """What is served and evicted before the requests come. A narrow host has seen their prefixes
    and a page more, of which it keeps hardly more than FULL."""
    setup: list[dict[str, Any]] = list(scenario["setup"])
    if narrow(scenario):
        seen = dict.fromkeys((r.group, r.shared) for r in requests_of(scenario) if r.shared)
        setup += [{"serve": True, "group": group, "pages": pages + 1} for group, pages in seen]
    return setup


def leaving(scenario: Scenario) -> tuple[int, int, int]:
    """FULL pages, SWA pages and states that leave the device before the requests come. A narrow
    host cannot keep all of them, so that most windows and states are lost but to storage."""
    small = (scenario["tombstone"], scenario["forget"] if recurrent(scenario) else 0)
    return (scenario["demote"], *((ALL, ALL) if narrow(scenario) else small))


def recurrent(scenario: Scenario) -> bool:
    """Whether the model has recurrent layers; replay files from before there were do not say."""
    return bool(scenario.get("recurrent", False))


_ITEMS = {
    "setup": _SETUP,
    "requests": _REQUEST,
    "pressure": _PRESSURE,
    "storage": STORAGE,
    "state_pressure": _STATE_PRESSURE,
    "ranks": RANKS,
    "companions": COMPANION,
}


def requests_of(scenario: Scenario) -> list[Request]:
    requests = [Request(**item) for item in scenario["requests"]]
    if not scenario.get("alike", False):  # replay files from before there was one do not say
        return requests
    first = {request.group: request for request in reversed(requests)}
    return [
        r._replace(
            shared=first[r.group].shared,
            own=first[r.group].own,
            answer=r.answer * scenario["page_size"],  # pages: windows slide meanwhile
        )
        for r in requests
    ]


def complete(scenario: dict[str, Any]) -> Scenario:
    """A scenario written by hand, with the simplest value for whatever it leaves out."""
    grain = scenario.get("grain", "scheduler")
    simplest: dict[str, Any] = {}
    for name, knob in swarm(grain).knobs.items():
        simplest[name] = [] if isinstance(knob, Many | Perhaps) else _simplest(knob)
    full = {"grain": grain, **simplest, **scenario}
    for name, item in _ITEMS.items():
        rows = full[name]
        full[name] = [{"id": i, **_simplest_item(item), **row} for i, row in enumerate(rows)]
    return full


def _simplest_item(item: dict[str, Knob]) -> dict[str, Any]:
    return {name: _simplest(knob) for name, knob in item.items()}


def _simplest(knob: Knob) -> Any:
    match knob:
        case Number(low, _):
            return low
        case Options(values):
            return values[0]
    return False


def _host(device: int, ratio: float) -> int:
    return max(1, int(device * ratio)) if ratio else 0


def _snug(host: int, scenario: Scenario) -> int:
    """FULL pages of the host; if it is snug, no more than the longest prompt served before the
    story takes: then all of the host may be what one request has come for."""
    spare = scenario.get("snug", 0)  # replay files from before there was one do not say
    served = [item["pages"] for item in scenario["setup"] if item["serve"]]
    return min(host, max(served) + spare - 1) if host and spare and served else host
