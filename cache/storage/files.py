"""Storage in a folder: a file a page, shared by any number of processes of one machine.

    FOLDER/IDENTITY/lock      whoever changes anything holds it (flock: a dead process lets go);
                              its one byte says whether changes are under way
    FOLDER/IDENTITY/ledger    what was added and removed, so that others need not look
    FOLDER/IDENTITY/ab/cd...  a page: header and payload, under its name
    FOLDER/IDENTITY/draft     the page that is being written

A page is written to `draft` and renamed, so a file under a name is whole, or was damaged later and
does not unseal. Readers take no lock. A killed process leaves the lock's byte set, and the next one
looks at every file before it goes on.

Nothing is synced to the disk: a killed process loses nothing, a power cut may lose or damage
pages written shortly before, which then are misses. Invariant: the pages' files, headers included,
never take more than the capacity; ledger and lock (48 bytes a change) come on top.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path

from cache.storage.contract import (
    KEY_BYTES,
    Fetched,
    Page,
    Presence,
    Status,
    Storage,
    Stored,
    Usage,
)
from cache.storage.frame import HEADER_BYTES, read_header, seal, unseal
from cache.storage.index import Entry, PageIndex
from cache.storage.ledger import Change, Ledger

_NO_ROOM = (ENOSPC, EDQUOT, EFBIG)
_AT_REST, _CHANGING = b"0", b"1"
_SLACK_RECORDS = 4096  # the ledger is written anew when it has this many more than 4 a page


class FileStorage(Storage):
    """Raises `OSError` only when it is made: a folder that cannot be used is the user's to mend."""

    def __init__(self, folder: Path, identity: bytes, capacity_bytes: int) -> None:
        assert capacity_bytes >= 0
        self._folder = folder / identity.hex()
        self._identity = identity
        self._capacity_bytes = capacity_bytes
        self._folder.mkdir(parents=True, exist_ok=True)
        self._draft = self._folder / "draft"
        self._ledger = Ledger(self._folder / "ledger")
        self._index = PageIndex()
        self._shards: set[str] = set()
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            flock(self._lock, LOCK_EX)
            self._look_around()
            flock(self._lock, LOCK_UN)
        except OSError:
            os.close(self._lock)
            raise

    def has(self, keys: Sequence[bytes]) -> Presence:
        try:
            self._follow()
        except OSError:
            return Presence((False,) * len(keys), Status.FAILED)
        return Presence(tuple(key in self._index for key in keys), Status.OK)

    def get(self, keys: Sequence[bytes]) -> Fetched:
        payloads: list[memoryview] = []
        for key in keys:
            try:
                data = _read(self._path(key))
            except FileNotFoundError:
                return Fetched(payloads, Status.ABSENT)
            except OSError:
                return Fetched(payloads, Status.FAILED)
            payload = unseal(self._identity, key, data)
            if payload is None:
                self.remove([key])
                return Fetched(payloads, Status.TORN)
            self._index.touch(key)
            payloads.append(payload)
        return Fetched(payloads, Status.OK)

    def put(self, pages: Sequence[Page]) -> Stored:
        changes: list[Change] = []
        done, status = 0, Status.OK
        try:
            with self._alone(changes):
                for page in pages:
                    status = self._keep(page, changes)
                    if status is not Status.OK:
                        break
                    done += 1
        except OSError as error:
            # What is done is done and its files are whole; the byte left set makes the next holder
            # of the lock find them.
            return Stored(done, _status_of(error))
        return Stored(done, status)

    def remove(self, keys: Sequence[bytes]) -> int:
        changes: list[Change] = []
        try:
            with self._alone(changes):
                for key in keys:
                    for entry in self._index.subtree(key):
                        self._drop(entry, changes)
        except OSError:
            pass  # what could not be removed is still there, and still damaged or whole
        return len(changes)

    def usage(self) -> Usage:
        return Usage(len(self._index), self._index.used_bytes, self._capacity_bytes)

    def close(self) -> None:
        os.close(self._lock)

    # -- one page ------------------------------------------------------------------------------

    def _keep(self, page: Page, changes: list[Change]) -> Status:
        if page.key in self._index:
            self._index.touch(page.key)
            return Status.OK
        header = seal(self._identity, page)
        entry = Entry(page.key, page.head, len(header) + len(page.payload))
        if not self._index.has_head(entry):
            return Status.ABSENT
        while self._index.used_bytes + entry.size_bytes > self._capacity_bytes:
            victim = self._index.victim(page.head)
            if victim is None:
                return Status.FULL
            self._drop(victim, changes)
        try:
            self._write(page, header)
        except OSError as error:
            return _status_of(error)
        self._index.add(entry)
        changes.append(Change(True, entry))
        return Status.OK

    def _write(self, page: Page, header: bytes) -> None:
        path = self._path(page.key)
        if path.parent.name not in self._shards:
            path.parent.mkdir(exist_ok=True)
            self._shards.add(path.parent.name)
        try:
            file = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                _write_both(file, header, page.payload)
            finally:
                os.close(file)
            os.rename(self._draft, path)
        except OSError:
            self._draft.unlink(missing_ok=True)
            raise

    def _drop(self, entry: Entry, changes: list[Change]) -> None:
        self._path(entry.key).unlink(missing_ok=True)
        self._index.drop(entry.key)
        changes.append(Change(False, entry))

    def _path(self, key: bytes) -> Path:
        name = key.hex()
        return self._folder / name[:2] / name[2:]

    # -- with others ---------------------------------------------------------------------------

    @contextmanager
    def _alone(self, changes: list[Change]) -> Iterator[None]:
        """Hold the lock, know what others did, and tell them of `changes` afterwards."""
        flock(self._lock, LOCK_EX)
        try:
            if os.pread(self._lock, 1, 0) == _CHANGING:
                self._look_around()
            else:
                self._follow()
            os.pwrite(self._lock, _CHANGING, 0)  # takes no room: the byte is there
            yield
            if changes:
                self._ledger.append(changes)
            if self._ledger.records > 4 * len(self._index) + _SLACK_RECORDS:
                self._ledger.rewrite(self._index)
            os.pwrite(self._lock, _AT_REST, 0)
        finally:
            flock(self._lock, LOCK_UN)

    def _follow(self) -> None:
        """Take over what others have written into the ledger."""
        changes, anew = self._ledger.news()
        if anew:
            self._index = PageIndex()
        for added, entry in changes:
            if not added:
                for gone in self._index.subtree(entry.key):
                    self._index.drop(gone.key)
            elif entry.key not in self._index and self._index.has_head(entry):
                self._index.add(entry)

    def _look_around(self) -> None:
        """Somebody died, or nobody has been here yet: the files tell, heads first. What hangs
        below nothing, is cut short, or is no page of ours, goes."""
        self._follow()
        self._draft.unlink(missing_ok=True)
        known = {entry.key: entry for entry in self._index}
        found: dict[bytes, dict[bytes, Entry]] = {}
        for path in sorted(self._folder.glob("??/*")):
            entry = self._recognise(path, known)
            if entry is None:
                path.unlink(missing_ok=True)
            else:
                found.setdefault(entry.head, {})[entry.key] = entry
        index = PageIndex()
        stack = [bytes(KEY_BYTES)]
        while stack:
            for key, entry in found.pop(stack.pop(), {}).items():
                index.add(entry)
                stack.append(key)
        for orphans in found.values():
            for key in orphans:
                self._path(key).unlink(missing_ok=True)
        self._index = index
        while self._index.used_bytes > self._capacity_bytes:  # which may be smaller than it was
            self._give_one_up()
        self._write_ledger()
        os.pwrite(self._lock, _AT_REST, 0)

    def _write_ledger(self) -> None:
        """Anew; on a full disk it takes the place of a page."""
        while True:
            try:
                self._ledger.rewrite(self._index)
                return
            except OSError as error:
                if _status_of(error) is not Status.FULL or not len(self._index):
                    raise
                self._give_one_up()

    def _give_one_up(self) -> None:
        victim = self._index.victim(b"")
        assert victim is not None, "what is used is used by pages"
        self._path(victim.key).unlink(missing_ok=True)
        self._index.drop(victim.key)

    def _recognise(self, path: Path, known: dict[bytes, Entry]) -> Entry | None:
        """The page in a file, by its name and size if it is known, else by its header."""
        try:
            key = bytes.fromhex(path.parent.name + path.name)
        except ValueError:
            return None
        size = path.stat().st_size
        entry = known.get(key)
        if entry is not None and entry.size_bytes == size:
            return entry
        with path.open("rb") as file:
            header = read_header(self._identity, file.read(HEADER_BYTES))
        if header is None or header.key != key or header.total_bytes != size:
            return None
        return Entry(key, header.head, size)


def _status_of(error: OSError) -> Status:
    return Status.FULL if error.errno in _NO_ROOM else Status.FAILED


def _read(path: Path) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        data = os.read(file, size)
        while len(data) < size and (more := os.read(file, size - len(data))):
            data += more
        return data
    finally:
        os.close(file)


def _write_both(file: int, header: bytes, payload: bytes | memoryview) -> None:
    written = os.writev(file, [header, payload])
    rest = memoryview(header + bytes(payload))[written:] if written < len(header) else None
    view = memoryview(payload)[written - len(header) :] if rest is None else rest
    while view:
        view = view[os.write(file, view) :]
