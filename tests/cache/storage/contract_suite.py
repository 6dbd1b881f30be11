"""What every backend must do; a backend's test module subclasses `ContractSuite`."""

import pytest

from cache.storage.contract import ROOT, Page, Presence, Status, Storage, Usage, longest
from cache.storage.frame import HEADER_BYTES
from cache.storage.naming import identity_of, page_key

IDENTITY = identity_of(model="m", page_size=64)
PAYLOAD = 1000
SIZE = HEADER_BYTES + PAYLOAD


def key_of(name: int) -> bytes:
    return page_key(IDENTITY, "full", name)


def page(name: int, head: int = 0, payload: bytes | None = None) -> Page:
    """Page `name` below page `head`; 0 is the root."""
    body = name.to_bytes(4, "big") * (PAYLOAD // 4) if payload is None else payload
    return Page(key_of(name), key_of(head) if head else ROOT, body)


def chain(*names: int) -> list[Page]:
    """Each below the one before it."""
    return [page(name, head) for name, head in zip(names, (0, *names), strict=False)]


def there(storage: Storage, *names: int) -> list[int]:
    """Which of the pages can be had, each with its own bytes."""
    found = []
    for name in names:
        fetched = storage.get([key_of(name)])
        if fetched.status is Status.OK:
            assert bytes(fetched.payloads[0]) == page(name).payload
            found.append(name)
        else:
            assert fetched == ([], Status.ABSENT)
    return found


class ContractSuite:
    """Subclasses give a fixture `make(pages)`: an empty backend with room for so many pages."""

    @pytest.fixture
    def make(self):
        pytest.fail("a backend's test module must say how to make one")

    def test_what_was_put_comes_back_in_order(self, make):
        storage = make(10)
        assert storage.put(chain(1, 2, 3)) == (3, Status.OK)
        fetched = storage.get([key_of(3), key_of(1)])
        assert [bytes(p) for p in fetched.payloads] == [page(3).payload, page(1).payload]
        assert fetched.status is Status.OK

    def test_an_empty_payload_is_a_page(self, make):
        storage = make(10)
        assert storage.put([page(1, payload=b"")]) == (1, Status.OK)
        assert storage.get([key_of(1)]).payloads == [b""]

    def test_nothing_is_there_at_first(self, make):
        storage = make(10)
        assert storage.has([key_of(1)]) == ((False,), Status.OK)
        assert storage.get([key_of(1)]) == ([], Status.ABSENT)
        assert storage.put([]) == (0, Status.OK)
        assert storage.get([]) == ([], Status.OK)
        assert storage.usage() == Usage(0, 0, 10 * SIZE)

    def test_the_longest_hit_ends_at_the_first_page_that_is_absent(self, make):
        storage = make(10)
        storage.put([*chain(1, 2), page(4, 1)])
        presence = storage.has([key_of(1), key_of(2), key_of(3), key_of(4)])
        assert presence == ((True, True, False, True), Status.OK)
        assert longest(presence) == 2
        assert longest(Presence((True, True), Status.OK)) == 2

    def test_what_comes_after_an_absent_page_is_not_read(self, make):
        storage = make(10)
        storage.put(chain(1, 2))
        fetched = storage.get([key_of(1), key_of(9), key_of(2)])
        assert len(fetched.payloads) == 1
        assert fetched.status is Status.ABSENT

    def test_no_tail_is_put_before_its_head(self, make):
        storage = make(10)
        assert storage.put([page(1), page(3, 2), page(4, 3)]) == (1, Status.ABSENT)
        assert there(storage, 1, 2, 3, 4) == [1]

    def test_a_page_that_is_there_already_counts_as_stored(self, make):
        storage = make(10)
        storage.put(chain(1, 2))
        assert storage.put(chain(1, 2, 3)) == (3, Status.OK)
        assert storage.usage().pages == 3
        assert storage.usage().used_bytes == 3 * SIZE

    def test_the_capacity_holds_and_the_least_recently_used_leaf_goes(self, make):
        storage = make(3)
        storage.put([page(1), page(2), page(3)])
        storage.get([key_of(1)])
        assert storage.put([page(4)]) == (1, Status.OK)
        assert there(storage, 1, 2, 3, 4) == [1, 3, 4]
        assert storage.usage() == Usage(3, 3 * SIZE, 3 * SIZE)

    def test_no_head_is_given_up_before_its_tail(self, make):
        storage = make(3)
        storage.put(chain(1, 2, 3))
        storage.get([key_of(3)])
        storage.put([page(4)])
        assert there(storage, 1, 2, 3, 4) == [1, 2, 4]
        storage.put([page(5)])
        assert there(storage, 1, 2, 4, 5) == [1, 4, 5]  # 1 became a leaf and keeps its last use

    def test_a_put_never_gives_up_the_head_that_it_hangs_below(self, make):
        storage = make(2)
        storage.put(chain(1, 2))
        assert storage.put([page(3, 2)]) == (0, Status.FULL)
        assert there(storage, 1, 2, 3) == [1, 2]

    def test_a_chain_longer_than_the_capacity_is_kept_from_its_head(self, make):
        storage = make(3)
        assert storage.put(chain(1, 2, 3, 4, 5)) == (3, Status.FULL)
        assert there(storage, 1, 2, 3, 4, 5) == [1, 2, 3]

    def test_a_page_larger_than_the_capacity_gives_nothing_up(self, make):
        storage = make(1)
        storage.put([page(1, payload=b"x")])
        assert storage.put([page(2, payload=bytes(2 * PAYLOAD))]).status is Status.FULL
        assert storage.usage().used_bytes <= SIZE

    def test_removing_a_page_takes_along_what_hangs_below(self, make):
        storage = make(10)
        storage.put([*chain(1, 2, 3), page(4, 1), page(5)])
        assert storage.remove([key_of(2), key_of(9)]) == 2
        assert there(storage, 1, 2, 3, 4, 5) == [1, 4, 5]
        assert storage.usage().used_bytes == 3 * SIZE

    def test_a_removed_page_can_be_put_again(self, make):
        storage = make(10)
        storage.put(chain(1, 2))
        storage.remove([key_of(1)])
        assert storage.put(chain(1, 2)) == (2, Status.OK)
        assert there(storage, 1, 2) == [1, 2]
