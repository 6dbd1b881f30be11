"""One process that tortures a folder until it is killed or done; run by test_files_processes.

python -m tests.cache.storage.folder_worker FOLDER CAPACITY_PAGES SEED ROUNDS
"""

import sys
from pathlib import Path

from cache.storage.contract import Status, longest
from cache.storage.files import FileStorage
from tests.cache.storage.contract_suite import IDENTITY, SIZE, chain, key_of, page

GROUPS, DEPTH = 6, 5


def main(folder: str, capacity_pages: str, seed: str, rounds: str) -> None:
    storage = FileStorage(Path(folder), IDENTITY, int(capacity_pages) * SIZE)
    state = int(seed)
    print("ready", flush=True)
    for number in range(int(rounds)):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        draw = state >> 33
        names = names_of(draw % GROUPS)
        if draw // GROUPS % 3:
            storage.put(chain(*names[: 1 + draw // 64 % DEPTH]))
        else:
            verify(storage, names)
        if number % 10 == 0:
            print(number, flush=True)
    print("done", flush=True)


def names_of(group: int) -> list[int]:
    return [100 * (group + 1) + depth for depth in range(DEPTH)]


def verify(storage: FileStorage, names: list[int]) -> int:
    """Reads what is there of a chain; any byte that is not the page's own is an error."""
    keys = [key_of(name) for name in names]
    fetched = storage.get(keys[: longest(storage.has(keys))])
    for name, payload in zip(names, fetched.payloads, strict=False):
        assert bytes(payload) == page(name).payload, name
    assert fetched.status in (Status.OK, Status.ABSENT), fetched.status
    return len(fetched.payloads)


if __name__ == "__main__":
    main(*sys.argv[1:])
