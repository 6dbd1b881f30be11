"""JSON that any reader accepts.

Python writes NaN and Infinity, which JSON does not know. Here a number that is not finite becomes
null, and everything else that a run may want to write down (numpy scalars, enums, frozen results,
sets) has exactly one form.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from json import dumps
from math import isfinite


def to_line(value: object) -> str:
    """Return `value` as one line of JSON without the line end."""
    return dumps(plain(value), ensure_ascii=False, allow_nan=False)


def to_page(value: object) -> str:
    """Return `value` as indented JSON that ends in a line end."""
    return dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def plain(value: object) -> object:
    """Return `value` made only of what JSON knows; keys keep their order, sets are sorted."""
    match value:
        case None | bool() | int() | str() if not isinstance(value, Enum):
            return value
        case float():
            return float(value) if isfinite(value) else None
        case Enum():
            return plain(value.value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case tuple() if hasattr(value, "_fields"):
            return {name: plain(getattr(value, name)) for name in value._fields}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=str)
        case bytes():
            return value.hex()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)
