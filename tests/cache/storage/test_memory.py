"""The backend of simulated worlds keeps the contract, and damage done to it is seen."""

import pytest

from cache.storage.contract import Status
from cache.storage.memory import MemoryStorage
from tests.cache.storage.contract_suite import IDENTITY, SIZE, ContractSuite, chain, key_of, there


class TestMemory(ContractSuite):
    @pytest.fixture
    def make(self):
        return lambda pages: MemoryStorage(IDENTITY, pages * SIZE)


def test_a_damaged_page_is_torn_and_goes_with_what_hangs_below_it():
    storage = MemoryStorage(IDENTITY, 10 * SIZE)
    storage.put(chain(1, 2, 3))
    blob = storage.blobs[key_of(2)]
    storage.blobs[key_of(2)] = blob[:-1] + bytes([blob[-1] ^ 1])
    fetched = storage.get([key_of(1), key_of(2), key_of(3)])
    assert len(fetched.payloads) == 1
    assert fetched.status is Status.TORN
    assert there(storage, 1, 2, 3) == [1]


def test_a_closed_memory_is_empty():
    storage = MemoryStorage(IDENTITY, 10 * SIZE)
    storage.put(chain(1, 2))
    storage.close()
    assert storage.usage().pages == 0
