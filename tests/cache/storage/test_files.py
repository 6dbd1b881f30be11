"""The folder backend: the contract, and everything that can happen to a folder."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cache.storage.contract import ROOT, Page, Status
from cache.storage.files import FileStorage
from cache.storage.frame import HEADER_BYTES
from cache.storage.naming import identity_of
from tests.cache.storage.contract_suite import (
    IDENTITY,
    SIZE,
    ContractSuite,
    chain,
    key_of,
    page,
    there,
)

MANY = 1000


class TestFiles(ContractSuite):
    @pytest.fixture
    def make(self, tmp_path):
        return lambda pages: FileStorage(tmp_path, IDENTITY, pages * SIZE)


@pytest.fixture
def storage(tmp_path):
    return FileStorage(tmp_path, IDENTITY, MANY * SIZE)


def reopen(folder: Path, pages: int = MANY) -> FileStorage:
    return FileStorage(folder, IDENTITY, pages * SIZE)


def file_of(folder: Path, name: int) -> Path:
    key = key_of(name).hex()
    return folder / IDENTITY.hex() / key[:2] / key[2:]


def page_files(folder: Path) -> list[Path]:
    return sorted((folder / IDENTITY.hex()).glob("??/*"))


def test_a_folder_outlives_the_process_that_filled_it(tmp_path, storage):
    storage.put(chain(1, 2, 3))
    storage.close()
    again = reopen(tmp_path)
    assert there(again, 1, 2, 3) == [1, 2, 3]
    assert again.usage().used_bytes == 3 * SIZE


def test_the_capacity_counts_what_lies_on_the_disk(tmp_path):
    storage = reopen(tmp_path, pages=7)
    for name in range(1, 50):
        storage.put(chain(name, 100 + name))
        assert sum(path.stat().st_size for path in page_files(tmp_path)) <= 7 * SIZE


def test_a_smaller_capacity_holds_from_the_start(tmp_path, storage):
    storage.put(chain(1, 2, 3, 4, 5))
    smaller = reopen(tmp_path, pages=2)
    assert len(page_files(tmp_path)) == 2
    assert there(smaller, 1, 2, 3) == [1, 2]


def test_a_flipped_bit_is_a_miss_and_the_page_can_be_put_again(tmp_path, storage):
    storage.put(chain(1, 2, 3))
    path = file_of(tmp_path, 2)
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 5] ^= 4
    path.write_bytes(bytes(data))
    assert storage.get([key_of(2)]) == ([], Status.TORN)
    assert there(storage, 1, 2, 3) == [1]
    assert storage.put(chain(1, 2, 3)) == (3, Status.OK)
    assert there(storage, 1, 2, 3) == [1, 2, 3]


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, SIZE - 1])
def test_a_page_cut_short_is_a_miss(tmp_path, storage, size):
    storage.put(chain(1, 2))
    os.truncate(file_of(tmp_path, 2), size)
    assert storage.get([key_of(1), key_of(2)]).status is Status.TORN
    assert there(storage, 1, 2) == [1]


def test_a_page_cut_short_while_nobody_looked_goes_when_the_folder_is_opened(tmp_path, storage):
    storage.put(chain(1, 2, 3))
    storage.close()
    os.truncate(file_of(tmp_path, 2), SIZE - 1)
    again = reopen(tmp_path)
    assert again.has([key_of(1), key_of(2), key_of(3)]).there == (True, False, False)
    assert [path.name for path in page_files(tmp_path)] == [file_of(tmp_path, 1).name]


def test_another_servers_page_under_our_name_is_a_miss(tmp_path, storage):
    foreign = identity_of(model="another")
    other = FileStorage(tmp_path, foreign, MANY * SIZE)
    other.put([Page(key_of(1), ROOT, page(1).payload)])
    assert there(storage, 1) == []
    ours, key = file_of(tmp_path, 1), key_of(1).hex()
    ours.parent.mkdir(exist_ok=True)
    (tmp_path / foreign.hex() / key[:2] / key[2:]).rename(ours)
    assert storage.get([key_of(1)]) == ([], Status.TORN)
    assert there(reopen(tmp_path), 1) == []


def test_a_page_under_a_wrong_name_is_a_miss(tmp_path, storage):
    storage.put(chain(1, 2))
    file_of(tmp_path, 3).parent.mkdir(exist_ok=True)
    file_of(tmp_path, 2).rename(file_of(tmp_path, 3))
    assert storage.get([key_of(3)]).status is Status.TORN


def test_a_file_of_no_page_is_swept_away(tmp_path, storage):
    storage.put([page(1)])
    storage.close()
    litter = [file_of(tmp_path, 1).parent / "not-a-name", file_of(tmp_path, 1).parent / ("0" * 30)]
    for path in litter:
        path.write_text("litter")
    assert there(reopen(tmp_path), 1) == [1]
    assert not any(path.exists() for path in litter)


def test_a_file_that_somebody_deleted_is_a_miss(tmp_path, storage):
    storage.put(chain(1, 2))
    file_of(tmp_path, 2).unlink()
    assert there(storage, 1, 2) == [1]


def test_a_tail_whose_head_is_gone_goes_when_the_folder_is_opened(tmp_path, storage):
    storage.put([*chain(1, 2, 3), page(4)])
    storage.close()
    file_of(tmp_path, 1).unlink()
    again = reopen(tmp_path)
    assert there(again, 1, 2, 3, 4) == [4]
    assert again.usage().used_bytes == SIZE


@pytest.mark.parametrize("damage", ["gone", "cut", "garbage"])
def test_a_lost_ledger_is_written_anew_from_the_files(tmp_path, storage, damage):
    storage.put(chain(1, 2, 3))
    storage.close()
    ledger = tmp_path / IDENTITY.hex() / "ledger"
    match damage:
        case "gone":
            ledger.unlink()
        case "cut":
            os.truncate(ledger, ledger.stat().st_size - 5)
        case "garbage":
            ledger.write_bytes(b"\xff" * 480)
    assert there(reopen(tmp_path), 1, 2, 3) == [1, 2, 3]


def test_the_ledger_does_not_grow_for_ever(tmp_path):
    storage = reopen(tmp_path, pages=2)
    ledger = tmp_path / IDENTITY.hex() / "ledger"
    sizes = []
    for name in range(1, 2500):
        storage.put([page(name, payload=b"")])
        sizes.append(ledger.stat().st_size)
    assert max(sizes) <= (4096 + 4 * MANY) * 48
    assert sizes[-1] < max(sizes)


def test_two_instances_on_one_folder_see_each_other(tmp_path, storage):
    other = reopen(tmp_path)
    storage.put(chain(1, 2))
    assert other.has([key_of(1), key_of(2)]).there == (True, True)
    assert other.put([page(3, 2)]) == (1, Status.OK)
    assert there(storage, 1, 2, 3) == [1, 2, 3]
    other.remove([key_of(2)])
    assert storage.has([key_of(1), key_of(2), key_of(3)]).there == (True, False, False)
    assert storage.put([page(3, 2)]).status is Status.ABSENT
    assert storage.usage().used_bytes == other.usage().used_bytes == SIZE


def test_two_instances_share_one_capacity(tmp_path):
    one, two = reopen(tmp_path, pages=4), reopen(tmp_path, pages=4)
    for name in range(1, 20):
        (one if name % 2 else two).put([page(name)])
        assert len(page_files(tmp_path)) <= 4
    assert len(page_files(tmp_path)) == 4


def test_an_instance_follows_a_ledger_that_was_written_anew(tmp_path, storage):
    storage.put(chain(1, 2))
    reopen(tmp_path).close()
    storage.put([page(3, 2)])
    assert there(storage, 1, 2, 3) == [1, 2, 3]
    assert storage.usage().pages == 3


def test_a_writer_that_died_halfway_is_cleaned_up_after(tmp_path, storage):
    other = reopen(tmp_path)
    storage.put(chain(1, 2))
    base = tmp_path / IDENTITY.hex()
    kept = (base / "ledger").read_bytes()
    storage.put([page(3, 2)])
    # As if it had been killed between the renaming and the ledger, with another page half written.
    (base / "ledger").write_bytes(kept)
    (base / "lock").write_bytes(b"1")
    (base / "draft").write_bytes(b"half a pa")
    assert other.put([page(4, 3)]) == (1, Status.OK)
    assert there(other, 1, 2, 3, 4) == [1, 2, 3, 4]
    assert not (base / "draft").exists()
    assert (base / "lock").read_bytes() == b"0"
    assert other.usage().used_bytes == 4 * SIZE


def test_a_folder_that_cannot_be_read_is_a_failure_and_no_crash(tmp_path, storage):
    storage.put([page(1)])
    path = file_of(tmp_path, 1)
    path.unlink()
    path.mkdir()
    assert storage.get([key_of(1)]) == ([], Status.FAILED)
    assert storage.remove([key_of(1)]) == 0


LIMITED = """
import resource, signal, sys
from pathlib import Path
from cache.storage.files import FileStorage
from tests.cache.storage.contract_suite import IDENTITY, SIZE, chain, there, page
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
storage = FileStorage(Path(sys.argv[1]), IDENTITY, 100 * SIZE)
assert storage.put(chain(1, 2)) == (2, storage.put([]).status)
resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE - 1, SIZE - 1))
print(storage.put([page(3, 2), page(4, 3)]).status.value, there(storage, 1, 2, 3))
"""


def test_a_file_that_may_not_grow_is_full_and_leaves_nothing_behind(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "full [1, 2]", done.stderr
    assert len(page_files(tmp_path)) == 2
    assert not (tmp_path / IDENTITY.hex() / "draft").exists()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with 256 KiB."""
    where = tmp_path / "disk"
    where.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(where)], capture_output=True
    )
    if done.returncode:
        pytest.skip("no file system may be mounted here")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


def test_a_full_disk_is_full_and_what_is_there_stays_readable(small_disk):
    storage = reopen(small_disk)
    names = range(1, 200)
    stored = storage.put(chain(*names))
    assert stored.status is Status.FULL
    assert 10 < stored.pages < 199
    assert there(storage, *names) == list(names[: stored.pages])
    storage.close()
    again = reopen(small_disk)  # its ledger is written anew, and may take the place of some pages
    left = there(again, *names)
    assert left == list(names[: len(left)])
    assert len(left) > stored.pages - 10
    assert again.remove([key_of(names[len(left) // 2])]) == len(left) - len(left) // 2
    assert again.put([page(500)]) == (1, Status.OK)
