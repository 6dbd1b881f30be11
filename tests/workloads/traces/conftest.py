"""Traces written by hand."""

import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Write lines (objects as JSON, text as it is) to a file and return its path."""

    def write(*lines, end="\n", name="trace.jsonl"):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path = tmp_path / name
        path.write_bytes(end.join(texts).encode())
        return path

    return write
