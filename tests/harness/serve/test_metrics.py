"""The documents name only metrics that the server has, and the server repeats no sample."""

import json
import re
from pathlib import Path

from tests.harness.serve.live import serving

DOCS = Path(__file__).resolve().parents[3] / "docs"
NAME = re.compile(r"(?:sglang|kvtorture):[a-z_]+")


def test_documents_and_the_board_name_metrics_that_are_there(tmp_path):
    settings = {"hicache_storage_backend": "memory", "components": ("full",)}
    with serving(tmp_path, **settings) as live:
        live.complete("a")
        text = live.client.get("/metrics").text
    there = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"}
    board = json.loads((DOCS / "serve-dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for expr in asked for name in NAME.findall(expr)}
    named |= set(NAME.findall((DOCS / "serve.md").read_text()))
    assert len(named) > 15
    assert named - there == set()


def test_every_sample_is_told_once(tmp_path):
    with serving(tmp_path) as live:
        live.complete("a")
        lines = live.client.get("/metrics").text.splitlines()
    samples = [line.rsplit(" ", 1)[0] for line in lines if line[0] != "#"]
    assert len(samples) == len(set(samples))
