"""Admission: its steps, its verdicts, and the admission lock that always comes back."""

from types import coroutine

import numpy as np
import pytest

from cache.audit import audit
from cache.config import Tier, WritePolicy
from cache.contract import Demand
from cache.keys import Key
from cache.unified import UnifiedCache
from harness.engine.admission import Admission, Verdict
from harness.explore.kernel import FINISHED
from tests.harness.engine.build import config

STEPS = ["match", "lock", "budget", "load_back", "settle", "unlock"]
PAGE = 4


class Applicant:
    """Anything with a key may apply."""

    priority = 0

    def __init__(self, key: Key) -> None:
        self.name, self.key, self.table = "r", key, None


def key(tokens: int, first: int = 0) -> Key:
    return Key(np.arange(first, first + tokens, dtype="<i4").tobytes(), PAGE)


def settings(**more):
    more = {"device": 8, "host": 16, "write_policy": WritePolicy.WRITE_THROUGH, **more}
    return config(page=PAGE, **more)


def cached(cache: UnifiedCache, wanted: Key) -> None:
    """Compute `wanted`, put it into the tree and let its backup land."""
    match = cache.match(wanted)
    admission = cache.lock(match, "w.admission")
    table = cache.settle(match, admission, "w")
    cache.unlock(admission)
    assert cache.extend(table, wanted.tokens).enough
    cache.write(table, wanted.prints(), wanted.tokens)
    cache.finish(table, wanted)
    land(cache)


def land(cache: UnifiedCache) -> None:
    for tier in Tier:
        while (copy := cache.transfers.next_to_run(tier)) is not None:
            cache.transfers.run(copy)
        while (copy := cache.transfers.next_to_acknowledge(tier)) is not None:
            cache.acknowledge(copy)


def admit(cache, applicant, *, reserve=0, between=None):
    """Run an admission to its end; `between(step)` may meddle before each step."""
    steps = []

    def step(name, obj):
        assert obj == ("request", "r")
        steps.append(name.removeprefix("admit."))
        if between is not None:
            between(steps[-1])
        return FINISHED

    with pytest.raises(StopIteration) as done:
        Admission(cache, step).admit(applicant, lambda: reserve).send(None)
    return done.value.value, steps


def test_the_steps_come_in_order_and_leave_the_request_lock_alone():
    cache = UnifiedCache(settings())
    cached(cache, key(24))
    applicant = Applicant(key(26))
    verdict, steps = admit(cache, applicant)
    assert (verdict, steps) == (Verdict.ADMITTED, STEPS)
    assert applicant.table.shared == 6
    assert [lock.holder for lock in cache.locks.live()] == ["r"]
    cache.abort(applicant.table)
    assert cache.flush()


@pytest.mark.parametrize(("reserve", "verdict"), [(1, Verdict.ADMITTED), (2, Verdict.NO_ROOM)])
def test_the_budget_counts_the_rest_of_the_prompt_a_token_and_the_reserve(reserve, verdict):
    """8 pages, 3 of them hit and locked: 5 are available, 4 wanted for 27 tokens and the next."""
    cache = UnifiedCache(settings(host=0))
    cached(cache, key(12))
    applicant = Applicant(key(27))
    assert admit(cache, applicant, reserve=reserve)[0] is verdict
    assert (applicant.table is None) == (verdict is Verdict.NO_ROOM)
    assert len(cache.locks) == (verdict is Verdict.ADMITTED)


def test_what_lies_below_a_tombstoned_window_is_charged_once():
    """FULL is on the device, its window on the host only: nothing is servable yet, and all the
    pages are under the admission lock. They are not available, but not wanted either."""
    cache = UnifiedCache(settings(window=PAGE, swa_device=8))
    cached(cache, key(24))
    cache.make_room(Demand(0, 8))
    wanted = key(25)
    match = cache.match(wanted)
    assert (match.device_tokens, match.loadable_tokens) == (0, 24)
    applicant = Applicant(wanted)
    assert admit(cache, applicant, reserve=1)[0] is Verdict.ADMITTED
    assert applicant.table.shared == 6
    assert applicant.table.waits  # for the window
    land(cache)
    cache.abort(applicant.table)


def test_an_anchor_that_has_gone_means_again():
    cache = UnifiedCache(settings(host=0))
    cached(cache, key(24))

    def evict(step):
        if step == "lock":
            cache.make_room(Demand(8))

    verdict, steps = admit(cache, Applicant(key(25)), between=evict)
    assert (verdict, steps) == (Verdict.AGAIN, STEPS[:2])
    assert len(cache.locks) == 0


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("where", ["device", "host"])
def test_eviction_before_any_step_takes_nothing_that_was_locked(step, where):
    cache = UnifiedCache(settings(window=8, swa_device=6))
    cached(cache, key(24))
    if where == "host":
        cache.make_room(Demand(8, 6))

    def evict(now):
        if now == step:
            cache.make_room(Demand(8, 6))
            assert audit(cache) == []

    applicant = Applicant(key(25))
    verdict, _ = admit(cache, applicant, between=evict)
    assert verdict is Verdict.ADMITTED  # the host has it all, whatever the device lost
    if step not in ("match", "lock"):
        assert applicant.table.shared == 6
    land(cache)
    assert not any(copy.in_flight for copy in applicant.table.waits)
    reading = cache.read(applicant.table, applicant.table.written)
    assert reading.full == key(24).prints()[: applicant.table.shared]
    cache.abort(applicant.table)
    assert cache.flush()


@pytest.mark.parametrize("stop", range(len(STEPS)))
def test_an_admission_that_is_broken_off_hands_its_lock_back(stop):
    """Closing the coroutine at any step, as a run that ends does."""
    cache = UnifiedCache(settings())
    cached(cache, key(24))
    applicant = Applicant(key(25))

    @coroutine
    def suspend():
        yield

    admission = Admission(cache, lambda name, obj: suspend()).admit(applicant, lambda: 0)
    for _ in range(stop + 1):
        admission.send(None)
    admission.close()
    assert [lock.holder for lock in cache.locks.live()] == (
        ["r"] if STEPS[stop] == "unlock" else []
    )
