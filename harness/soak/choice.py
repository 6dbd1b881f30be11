"""A word from the command line as a member of an enumeration."""

from enum import StrEnum
from typing import TypeVar

from cache.config import ConfigError

E = TypeVar("E", bound=StrEnum)


def choice(kind: type[E], value: str, flag: str) -> E:
    """Raises `ConfigError` in one line that lists what there is."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member) for member in kind)
        raise ConfigError(f"{flag} {value!r} is not known: use {known}") from None
