"""A backend is opened by its name, and what cannot be opened is told in one line."""

import pytest

from cache.config import ConfigError
from cache.storage.backends import BACKENDS, open_storage
from cache.storage.contract import Status
from tests.cache.storage.contract_suite import IDENTITY, page, there

ROOM = 1 << 20
WHERE = {"file": "{}", "redis": "redis://localhost:1", "memory": ""}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_can_be_opened_by_its_name(backend, tmp_path):
    storage = open_storage(backend, WHERE[backend].format(tmp_path), IDENTITY, ROOM)
    assert storage.usage() == (0, 0, ROOM)
    if backend != "redis":
        assert storage.put([page(1)]) == (1, Status.OK)
        assert there(storage, 1) == [1]
    storage.close()


@pytest.mark.parametrize(
    ("backend", "where", "says"),
    [
        ("mooncake", "", "no storage backend 'mooncake': use file, redis, memory"),
        ("file", "{}/taken/below", "cannot be used"),
        ("redis", "nonsense", "the storage address 'nonsense'"),
    ],
)
def test_what_cannot_be_opened_is_told_in_one_line(backend, where, says, tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    with pytest.raises(ConfigError, match=says) as told:
        open_storage(backend, where.format(tmp_path), IDENTITY, ROOM)
    assert "\n" not in str(told.value)
