"""Reads a pasted SGLang launch command.

What has a meaning here comes out under our own flag names, everything else is listed, so that a
report can say what it did not simulate. Invariant: no word is lost but the launcher's own.
"""

import re
import shlex
from collections.abc import Collection
from typing import NamedTuple

from cache.config import ConfigError

ON = "true"

# SGLang's name: ours. These take one value.
_VALUED = {
    "--model": "--model",
    "--model-path": "--model",
    "--tp": "--tp",
    "--tp-size": "--tp",
    "--tensor-parallel-size": "--tp",
    "--page-size": "--page-size",
    "--context-length": "--context-length",
    "--kv-cache-dtype": "--kv-cache-dtype",
    "--mem-fraction-static": "--mem-fraction-static",
    "--swa-full-tokens-ratio": "--swa-full-tokens-ratio",
    "--mamba-full-memory-ratio": "--mamba-full-memory-ratio",
    "--max-mamba-cache-size": "--max-mamba-cache-size",
    "--mamba-ssm-dtype": "--mamba-ssm-dtype",
    "--chunked-prefill-size": "--chunked-prefill-size",
    "--max-prefill-tokens": "--max-prefill-tokens",
    "--max-running-requests": "--max-running-requests",
    "--schedule-policy": "--schedule-policy",
    "--schedule-conservativeness": "--schedule-conservativeness",
    "--radix-eviction-policy": "--radix-eviction-policy",
    "--hicache-ratio": "--hicache-ratio",
    "--hicache-size": "--hicache-size",
    "--hicache-write-policy": "--hicache-write-policy",
    "--hicache-io-backend": "--hicache-io-backend",
    "--hicache-mem-layout": "--hicache-mem-layout",
    "--hicache-storage-backend": "--hicache-storage-backend",
    "--hicache-storage-prefetch-policy": "--hicache-storage-prefetch-policy",
}
_SWITCHES = {
    "--enable-hierarchical-cache": ("--enable-hierarchical-cache", ON),
    "--disable-radix-cache": ("--disable-radix-cache", ON),
    "--disable-hybrid-swa-memory": ("--components", "full"),
}
KNOWN_FLAGS = frozenset(_VALUED.values()) | {flag for flag, _ in _SWITCHES.values()}

_ENV = re.compile(r"[A-Za-z_]\w*=")
_FLAG = re.compile(r"--?[A-Za-z]")
_SHELL = re.compile(r"\d?[<>|&;]")  # the rest of the line is the shell's: pipes, redirections
_LAUNCHERS = ("python", "python3", "-m", "env", "$", "exec", "nohup")


class Launch(NamedTuple):
    """`known`: our flag to its value, `ON` for switches. `ignored`: the rest, as it was typed."""

    known: dict[str, str]
    ignored: tuple[str, ...]

    @property
    def hierarchical(self) -> bool:
        """Whether the command turns the host tier on, which SGLang leaves off by default."""
        return "--enable-hierarchical-cache" in self.known


class Option(NamedTuple):
    """One option of the command, its values, and the words as they were typed."""

    flag: str
    values: list[str]
    typed: str


def parse_launch(command: str, *, supported: Collection[str] = KNOWN_FLAGS) -> Launch:
    """What `sglang serve ...` or `python -m sglang.launch_server ...` asks for.

    Our flags that are not in `supported` are listed as ignored. The last of several wins, as in
    SGLang. Raises `ConfigError`, in one line.
    """
    words = _split(command)
    start = _after_launcher(words)
    ignored = _before_launcher(words[:start])
    known: dict[str, str] = {}
    rest = words[start:]
    end = next((at for at, word in enumerate(rest) if _SHELL.match(word)), len(rest))
    for option in _options(rest[:end]):
        flag, value = _translate(option)
        if flag in supported:
            known[flag] = value
        else:
            ignored.append(option.typed)
    if rest[end:]:
        ignored.append(" ".join(rest[end:]))
    return Launch(known, tuple(ignored))


def _split(command: str) -> list[str]:
    try:
        return shlex.split(re.sub(r"\\[ \t]*\r?\n", " ", command))
    except ValueError as error:
        raise ConfigError(
            f"the launch command cannot be read ({error}): check its quotes"
        ) from None


def _after_launcher(words: list[str]) -> int:
    """Where the flags begin."""
    for at, word in enumerate(words):
        if word == "sglang.launch_server" or word.endswith("launch_server.py"):
            return at + 1
        if word.rpartition("/")[2] == "sglang" and words[at + 1 : at + 2] == ["serve"]:
            return at + 2
    raise ConfigError(
        "no SGLang launch command: paste 'sglang serve --model-path ...'"
        " or 'python -m sglang.launch_server --model-path ...'"
    )


def _before_launcher(words: list[str]) -> list[str]:
    """Environment settings one by one, and any wrapper (docker run ...) as a whole."""
    settings = [word for word in words if _ENV.match(word)]
    wrapper = [
        word
        for word in words
        if word not in settings
        and word not in (*_LAUNCHERS, "sglang", "serve", "sglang.launch_server")
        and word.rpartition("/")[2] not in ("sglang", "python", "python3", "launch_server.py")
    ]
    return settings + ([shlex.join(wrapper)] if wrapper else [])


def _options(words: list[str]) -> list[Option]:
    """The options in order; a leading bare word is the model."""
    found = []
    at = 0
    if words and not _FLAG.match(words[0]):
        found.append(Option("--model", words[:1], words[0]))
        at = 1
    while at < len(words):
        flag, equals, value = words[at].partition("=")
        last = at + 1
        while last < len(words) and not _FLAG.match(words[last]):
            last += 1
        values = [value, *words[at + 1 : last]] if equals else words[at + 1 : last]
        found.append(Option(flag, values, shlex.join(words[at:last])))
        at = last
    return found


def _translate(option: Option) -> tuple[str, str]:
    """(our flag, its value); an unknown flag stays itself."""
    flag, values = option.flag, option.values
    if flag in _SWITCHES:
        if values:
            raise ConfigError(f"{flag} takes no value, but {values[0]!r} follows it")
        return _SWITCHES[flag]
    if flag in _VALUED:
        if len(values) != 1 or not values[0]:
            raise ConfigError(f"{flag} takes one value, as in {flag}=VALUE; got {option.typed!r}")
        return _VALUED[flag], values[0]
    return flag, option.typed
