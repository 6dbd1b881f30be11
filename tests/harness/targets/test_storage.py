"""Storage in memory: what is kept stays, and what is lost was chosen."""

import numpy as np

from harness.targets.sglang.storage import Storage

PAGE = np.array([1, 2])


def test_a_page_is_kept_once_and_never_changed() -> None:
    storage, told = Storage(), list[str]()
    storage.on_kept = lambda key, prints: told.append(key)
    assert storage.put("a", PAGE)
    assert storage.put("a", PAGE + 1)
    assert storage.pages["a"].tolist() == [1, 2]
    assert told == ["a", "a"], "who judges sees both"
    assert storage.kept == 1


def test_nothing_goes_wrong_unless_it_is_chosen() -> None:
    storage = Storage()
    storage.put("a", PAGE)
    storage.lose(["a"])
    assert "a" in storage.pages


def test_pages_are_refused_and_lost_where_that_is_chosen() -> None:
    storage = Storage()
    storage.put("a", PAGE)
    storage.put("b", PAGE)
    storage.draw = lambda label, bound: bound - 1
    assert not storage.put("c", PAGE)
    storage.lose(["a", "b"])
    assert sorted(storage.pages) == ["a"]
