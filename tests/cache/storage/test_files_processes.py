"""Processes that share a folder, some of which are killed at their work."""

import signal
import subprocess
import sys
from pathlib import Path

from cache.storage.contract import ROOT
from cache.storage.files import FileStorage
from cache.storage.frame import HEADER_BYTES, read_header
from tests.cache.storage.contract_suite import IDENTITY, SIZE
from tests.cache.storage.folder_worker import GROUPS, names_of, verify

ROOM = 12  # pages; all chains together have 30
ROOT_OF_REPO = Path(__file__).resolve().parents[3]


def start(folder: Path, seed: int, rounds: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "tests.cache.storage.folder_worker"]
    return subprocess.Popen(
        [*words, str(folder), str(ROOM), str(seed), str(rounds)],
        cwd=ROOT_OF_REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdout is not None
    for seen in process.stdout:
        if seen.strip() == line:
            return
    _, errors = process.communicate()
    raise AssertionError(f"{line!r} never came: {errors}")


def check(folder: Path) -> None:
    """Whole pages only, each with its head, within the capacity; all of it readable."""
    files = sorted((folder / IDENTITY.hex()).glob("??/*"))
    assert sum(path.stat().st_size for path in files) <= ROOM * SIZE
    headers = [read_header(IDENTITY, path.read_bytes()[:HEADER_BYTES]) for path in files]
    names = {header.key for header in headers if header is not None}
    assert len(names) == len(files)
    assert all(h is not None and h.head in {ROOT, *names} for h in headers)
    storage = FileStorage(folder, IDENTITY, ROOM * SIZE)
    assert sum(verify(storage, names_of(group)) for group in range(GROUPS)) == len(files)
    assert storage.usage().used_bytes == len(files) * SIZE


def test_two_processes_fill_one_folder_and_neither_reads_a_wrong_byte(tmp_path):
    workers = [start(tmp_path, seed, 600) for seed in (1, 2)]
    for worker in workers:
        read_until(worker, "done")
        assert worker.wait() == 0
        worker.communicate()
    check(tmp_path)


def test_a_killed_process_loses_nothing_that_was_stored_and_breaks_nobody(tmp_path):
    """Kills land wherever the victim is by then; each round is another chance to be halfway."""
    survivor = start(tmp_path, 99, 1_000_000)
    read_until(survivor, "ready")
    for seed in range(8):
        victim = start(tmp_path, seed, 1_000_000)
        read_until(victim, str(10 * (2 + seed)))
        victim.send_signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
        victim.communicate()
        assert survivor.poll() is None, survivor.communicate()[1]
    survivor.send_signal(signal.SIGKILL)
    survivor.communicate()
    FileStorage(tmp_path, IDENTITY, ROOM * SIZE).close()  # cleans up after both
    check(tmp_path)
