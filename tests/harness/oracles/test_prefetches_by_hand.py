"""Prefetches led by the hand: what is said of one that asks for, holds or brings something else."""

from typing import Any

from cache.config import SWA, WritePolicy
from harness.oracles import Violation, Watch, default_oracles
from tests.cache.builders import a_key, land, node_at, serve
from tests.cache.storage_builders import fetch, reply, with_storage
from tests.cache.test_lacking import lose

PATH = [1, 2, 3, 4]
KEY = a_key(PATH)


def watched(**settings: Any) -> tuple[Any, list[Violation]]:
    """Storage has [1 2 3 4], and the tree has lost its window."""
    found: list[Violation] = []
    watch = Watch(default_oracles("every"), on_violation=found.append)
    wide: dict[str, Any] = {"full": (16, 16), "swa": (16, 16), "window": 4, **settings}
    cache = with_storage(watch, **wide)
    watch.attach(cache)
    serve(cache, KEY)
    land(cache)
    reply(cache)
    lose(cache, node_at(cache, PATH), SWA)
    return cache, found


def kinds(found: list[Violation]) -> list[str]:
    """What is said of prefetches: that a test has dropped a window is found, too."""
    ours = [v for v in found if v.signature.startswith(("prefetch", "graft"))]
    return [f"{violation.oracle} {violation.signature}" for violation in ours]


def test_a_window_that_comes_back_is_not_objected_to() -> None:
    cache, found = watched()
    prefetch = fetch(cache, KEY)
    assert prefetch.revived
    assert kinds(found) == []


def test_a_page_that_is_not_asked_for_is_missed() -> None:
    cache, found = watched()
    original = cache.storage.lacking.questions
    cache.storage.lacking.questions = lambda *given: original(*given)[1:]
    cache.storage.prefetch(KEY, "r")
    assert kinds(found) == ["M2 prefetch.questions"]


def test_a_prefetch_that_is_declined_although_a_node_could_take_it_is_seen() -> None:
    cache, found = watched()
    cache.storage.lacking.questions = lambda *given: []
    assert cache.storage.prefetch(KEY, "r").over
    assert kinds(found) == ["M2 prefetch.declined"]


def test_declining_what_no_node_could_take_is_not_objected_to() -> None:
    cache, found = watched(policy=WritePolicy.WRITE_BACK)
    assert cache.storage.prefetch(KEY, "r").over
    assert kinds(found) == []


def test_fetching_less_than_tree_and_storage_serve_together_is_seen() -> None:
    cache, found = watched()
    original = cache.storage.prefetches._loadable_end
    cache.storage.prefetches._loadable_end = lambda prefetch: original(prefetch) - 2
    fetch(cache, KEY)
    assert kinds(found)[0] == "M2 prefetch.end"


def test_a_window_that_has_come_and_is_left_out_is_seen() -> None:
    cache, found = watched()
    cache.storage.grafting._fill = lambda *given: None
    fetch(cache, KEY)
    assert kinds(found)[0] == "M2 graft.left.swa"
