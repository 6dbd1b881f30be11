"""Writes requirements.lock: the exact version of everything pyproject.toml leads to.

The versions are those of the environment that runs this. Torch is held at one version, without its
build's name, and its CUDA packages are left to its wheel: a CPU build brings none. Triton is held
at the version that torch's CUDA build asks for, where it has wheels.
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
TORCH = "2.13.0"
TRITON = "3.7.1"
FROM_TORCH_WHEEL = re.compile(r"^(nvidia|cuda)")
ONLY_ON = {"triton": "platform_system == 'Linux'"}
OLDEST = {"python_version": "3.11", "python_full_version": "3.11.0"}
HEADER = "# Written by `make lock` from pyproject.toml; do not edit.\n"


def main() -> int:
    """Write the lock; 2 and one line when the environment lacks something or has another torch."""
    try:
        pins = locked_versions(declared_requirements())
    except metadata.PackageNotFoundError as missing:
        return _refuse(f"{missing.name} is not installed here: install it into .venv first")
    for name, held in (("torch", TORCH), ("triton", TRITON)):
        if pins[name] != held:
            return _refuse(f"{name} {pins[name]} is installed here, the lock is for {held}")
    lines = [
        f"{name}=={version}{f'; {where}' if (where := ONLY_ON.get(name)) else ''}\n"
        for name, version in sorted(pins.items())
    ]
    (ROOT / "requirements.lock").write_text(HEADER + "".join(lines))
    return 0


def declared_requirements() -> list[Requirement]:
    """What pyproject.toml asks for, to run and to develop."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [
        Requirement(line)
        for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    ]


def locked_versions(wanted: list[Requirement]) -> dict[str, str]:
    """Name to public version of `wanted` and, through their metadata, all they need here."""
    pins: dict[str, str] = {}
    todo = list(wanted)
    while todo:
        name = canonicalize_name(todo.pop().name)
        if name in pins or FROM_TORCH_WHEEL.match(name):
            continue
        pins[name] = metadata.version(name).partition("+")[0]
        needs = [Requirement(line) for line in metadata.requires(name) or []]
        todo += [need for need in needs if _wanted(need)]
    return pins


def _wanted(need: Requirement) -> bool:
    """By this Python or by the oldest that is supported."""
    marker = need.marker
    return marker is None or any(
        marker.evaluate({"extra": "", **python}) for python in ({}, OLDEST)
    )


def _refuse(reason: str) -> int:
    print(f"lock: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
