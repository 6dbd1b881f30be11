"""Storage in a folder beside plain copies of files on the same disk.

Both move pages of 1 MiB. A plain copy reads one file and writes another, one after the other. The
store writes pages that lie in memory, and reads them back, checksums and names checked. Both go
through the operating system's cache and sync nothing. Invariant: a batch is copied, written, read
in turn, so what the machine is doing meanwhile falls on all three.
"""

import gc
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from cache.storage.backends import open_storage
from cache.storage.contract import ROOT, Page, Status, Storage
from cache.storage.naming import identity_of, page_key
from harness.bench.sheet import Cell, Sheet, Spread, spread_of

PAGE_BYTES = 1 << 20
BATCH = 8  # pages of one put or get, as of one step of a prefetch
IDENTITY = identity_of(bench="storage")


class Rates(NamedTuple):
    """MiB/s, one of each round."""

    copies: list[float]
    writes: list[float]
    reads: list[float]


class Bound(NamedTuple):
    """What twice the capacity of pages left behind."""

    capacity_bytes: int
    most_bytes: int


def measure(repeats: int, *, pages: int, folder: Path | None = None) -> Sheet:
    """`folder` says on which disk; the system's own for temporary files where it is not given."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="kvtorture-bench-") as name:
        rates = _rates(Path(name), repeats, pages)
        bound = _bound(Path(name) / "bound", max(2, pages // 4))
    copy = spread_of(rates.copies)
    rows = [_row(what, spread_of(taken), copy) for what, taken in _named(rates)]
    return Sheet(
        name="storage",
        title="Storage in a folder: 1 MiB pages",
        notes=(
            f"{pages} pages a round, {repeats} rounds; 'of_copy_x' is how many times as fast as"
            " copying files one after the other on the same disk (0.5 is promised).",
            f"Pages worth twice a capacity of {bound.capacity_bytes / PAGE_BYTES:.1f} MiB took"
            f" {bound.most_bytes / PAGE_BYTES:.1f} MiB at most, headers included.",
        ),
        columns=("operation", "median_mib_s", "min_mib_s", "max_mib_s", "of_copy_x"),
        rows=tuple(rows),
    )


def _named(rates: Rates) -> list[tuple[str, list[float]]]:
    return [
        ("copy files", rates.copies),
        ("write pages", rates.writes),
        ("read pages", rates.reads),
    ]


def _row(what: str, spread: Spread, copy: Spread) -> tuple[Cell, ...]:
    return (what, spread.median, spread.least, spread.most, spread.median / copy.median)


def _rates(folder: Path, repeats: int, pages: int) -> Rates:
    rates = Rates([], [], [])
    payloads = [number.to_bytes(8, "little") * (PAGE_BYTES // 8) for number in range(pages)]
    source = folder / "source"
    source.mkdir()
    for number, payload in enumerate(payloads):
        (source / str(number)).write_bytes(payload)
    for _ in range(repeats):
        where, target = folder / "store", folder / "copy"
        target.mkdir()
        storage = open_storage("file", str(where), IDENTITY, 2 * pages * PAGE_BYTES)
        copy_s, write_s, read_s = _round(storage, source, target, _chain(payloads))
        storage.close()
        for taken, seconds in zip(rates, (copy_s, write_s, read_s), strict=True):
            taken.append(pages * PAGE_BYTES / 2**20 / seconds)
        shutil.rmtree(where)
        shutil.rmtree(target)
    return rates


def _round(
    storage: Storage, source: Path, target: Path, chain: list[Page]
) -> tuple[float, float, float]:
    """Seconds for copying, writing and reading all pages; a batch of each in turn."""
    copy_s = write_s = read_s = 0.0
    gc.collect()
    for start in range(0, len(chain), BATCH):
        batch = chain[start : start + BATCH]
        copy_s += _timed(partial(_copy, source, target, range(start, start + len(batch))))
        write_s += _timed(partial(_write, storage, batch))
        read_s += _timed(partial(_read, storage, batch))
    return copy_s, write_s, read_s


def _chain(payloads: list[bytes]) -> list[Page]:
    keys = [page_key(IDENTITY, "full", number + 1) for number in range(len(payloads))]
    return [
        Page(key, head, payload)
        for key, head, payload in zip(keys, [ROOT, *keys], payloads, strict=False)
    ]


def _copy(source: Path, target: Path, numbers: range) -> None:
    for number in numbers:
        shutil.copyfile(source / str(number), target / str(number))


def _write(storage: Storage, batch: list[Page]) -> None:
    assert storage.put(batch) == (len(batch), Status.OK)


def _read(storage: Storage, batch: list[Page]) -> None:
    assert storage.get([page.key for page in batch]).status is Status.OK


def _timed(work: Callable[[], None]) -> float:
    """Seconds."""
    start = perf_counter()
    work()
    return perf_counter() - start


def _bound(folder: Path, capacity_pages: int) -> Bound:
    """Chains of two pages, twice as many as there is room for; looked at on the disk."""
    capacity = capacity_pages * (PAGE_BYTES + 1024)
    storage = open_storage("file", str(folder), IDENTITY, capacity)
    payload = bytes(PAGE_BYTES)
    most = 0
    for number in range(capacity_pages):
        head = page_key(IDENTITY, "full", 2 * number + 1)
        tail = page_key(IDENTITY, "full", 2 * number + 2)
        stored = storage.put([Page(head, ROOT, payload), Page(tail, head, payload)])
        assert stored.status is Status.OK
        most = max(most, sum(path.stat().st_size for path in folder.glob("*/??/*")))
    storage.close()
    return Bound(capacity, most)
