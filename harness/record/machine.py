"""What a run ran on and with, without saying whose machine it was.

No user name, host name or path of the machine is ever recorded: a run directory can be handed to
anybody.
"""

import os
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

PACKAGES = ("kvtorture", "torch", "numpy")


def versions() -> dict[str, str]:
    """Return the version of Python and of each package that is installed (read from metadata,
    nothing is imported).
    """
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """Return processor model, cores, memory and operating system."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "usable_cores": usable or 1,
        "memory_bytes": psutil.virtual_memory().total,
        "os": _system(),
    }


def command_line(argv: Sequence[str]) -> str:
    """Return what to type to run `argv` again, with paths relative to here or to the home
    directory.
    """
    program = Path(argv[0]).name
    words = ["python", program] if program.endswith(".py") else [program]
    return " ".join([*words, *(_portable_word(word) for word in argv[1:])])


def portable(text: str) -> str:
    """Return `text` with paths relative to the working directory, or to $HOME."""
    here, home = os.getcwd(), str(Path.home())
    if here != "/":
        text = text.replace(here + os.sep, "")
    return text.replace(home + os.sep, "$HOME" + os.sep) if home != "/" else text


def _portable_word(word: str) -> str:
    word = portable(word)
    before, home, after = word.partition("$HOME/")
    if not home:
        return shlex.quote(word)
    quoted = [shlex.quote(part) if part else "" for part in (before, after)]
    return f'{quoted[0]}"$HOME"/{quoted[1]}'


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, {platform.system()} {platform.release()}, {platform.machine()}"
