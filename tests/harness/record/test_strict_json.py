"""What is written is JSON, whatever was handed in."""

import json
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest

from harness.record.manifest import Pool
from harness.record.strict_json import plain, to_line, to_page


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), None),
        (float("inf"), None),
        (np.float64("nan"), None),
        (np.int64(3), 3),
        (np.array([1, 2]), [1, 2]),
        (Colour.RED, "red"),
        (Pair(1, 2.5), {"left": 1, "right": 2.5}),
        (
            Pool("host", "full", 1, 2),
            plain({"tier": "host", "component": "full", "pages": 1, "page_bytes": 2}),
        ),
        ({"b", "a"}, ["a", "b"]),
        (b"\x01\xff", "01ff"),
        ({1: (True, None)}, {"1": [True, None]}),
        (1 + 2j, "(1+2j)"),
    ],
)
def test_every_kind_of_value_has_one_form(value, expected):
    assert plain(value) == expected
    assert json.loads(to_line(value)) == expected


def test_a_line_is_one_line_and_a_page_ends_in_one():
    assert "\n" not in to_line({"text": "a\nb"})
    assert to_page({"a": 1}).endswith("}\n")
