"""Storage in memory: what is kept stays, and what is lost was chosen."""

from array import array
from hashlib import sha256

import numpy as np

from harness.targets.sglang.storage import Storage, hash_of

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


def test_a_key_is_the_hash_of_the_key_before_and_its_page() -> None:
    tokens = array("q", [1, 2, 3, 4, 5])
    pages = [b"\1\0\0\0\2\0\0\0", b"\3\0\0\0\4\0\0\0", b"\5\0\0\0"]
    first = sha256(pages[0]).digest()
    second = sha256(first + pages[1]).digest()
    third = sha256(second + pages[2]).digest()
    assert hash_of(tokens, 5, 1, False, None, 2) == [first.hex(), second.hex(), third.hex()]
    assert hash_of(tokens, 4, 1, False, None, 2) == [first.hex(), second.hex()]
    assert hash_of(tokens, 2, 1, False, None, None) == first.hex()
    assert hash_of(array("q", [3, 4]), 2, 1, False, first, None) == second.hex()
