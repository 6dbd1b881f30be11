"""Where a release lies, and how it gets there: the wheel alone, unpacked, none of its dependencies.

Invariant: nothing is installed; `.sglang/` can be deleted at any time.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from harness.targets.sglang.eras import Era, era_of, supported
from harness.targets.sglang.table import NEEDED

ROOT = Path(".sglang")
PACKAGES = "packages"
DOWNLOAD_S = 150  # for one wheel; the largest has 14 MB
PARTS = ("sglang/srt/", "sglang/jit_kernel/", "sglang/kernels/", "sglang/kernel_api_logging.py")
TOP = ("sglang/utils.py", "sglang/version.py", "sglang/global_config.py", "sglang/_version.py")


class MissingRelease(Exception):
    """A release that cannot be tortured here; one line that says what to type."""


class Unavailable(MissingRelease):
    """A wheel that cannot be had: no network, a mirror too slow, none for this Python."""


def folder_of(version: str, root: Path = ROOT) -> Path:
    """Where the unpacked release is; `MissingRelease` where it is not."""
    folder = root / check_known(version).wheel
    if not (folder / "sglang" / "srt").is_dir():
        raise MissingRelease(
            f"sglang {version} is not here: make sglang VERSION={folder.name} brings its wheel"
        )
    return folder


def check_known(version: str) -> Era:
    """Its row; `MissingRelease` for a release that no adapter knows."""
    era = era_of(version)
    if era is None:
        raise MissingRelease(f"no adapter knows sglang {version}; there are {supported()}")
    return era


def fetch(version: str, root: Path = ROOT) -> Path:
    """Download the wheels with pip and unpack what the scheduler and the cache are made of;
    `Unavailable` where one cannot be had."""
    wheel = check_known(version).wheel
    folder = root / wheel
    packages = root / PACKAGES
    for needed in NEEDED:
        if not (packages / needed.partition("==")[0]).is_dir():
            with zipfile.ZipFile(_download(needed, root)) as archive:
                archive.extractall(packages)
    if not (folder / "sglang" / "srt").is_dir():
        unpack(_download(f"sglang=={wheel}", root), folder)
    return folder


def unpack(wheel: Path, folder: Path) -> None:
    """The parts that matter; moved into place when they are complete."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.startswith(PARTS) or n in TOP]
        archive.extractall(partial, names)
    partial.rename(folder)


def _download(what: str, root: Path) -> Path:
    """The wheel of `what`, such as `sglang==0.5.12`, for this Python."""
    wheels = root / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(wheels), what],
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_S,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what} did not arrive within {DOWNLOAD_S} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise Unavailable(f"{what} cannot be downloaded: {last}")
    name, _, version = what.partition("==")
    found = sorted(wheels.glob(f"{name}-{version}-*.whl"))
    if not found:
        raise Unavailable(f"{what} has no wheel for this Python")
    return found[0]
