"""A cache that loses slots one by one is caught by its hits, and a sound one is not."""

import json

import pytest
from click.testing import CliRunner

import bench
from cache.config import Component, Tier
from cache.pools import Owner
from harness.soak.run import Soak

FLAGS = ("--workload", "shared_prefix", "--set", "num_groups=12", "--set", "prompts_per_group=100",
         "--set", "system_prompt_len=640", "--set", "question_len=64", "--set", "output_len=2",
         "--request-rate", "50", "--device-pages", "250", "--components", "full",
         "--compute", "null", "--context-length", "2048", "--oracles", "off",
         "--disable-hierarchical-cache", "--tp", "1", "--json")  # fmt: skip


def _soak(tmp_path, *more):
    result = CliRunner().invoke(
        bench.cli, ["soak", *FLAGS, *more, "--output-dir", str(tmp_path)], standalone_mode=False
    )
    assert result.stdout, result.exception
    return result.exit_code, json.loads(result.stdout), tmp_path


def test_a_sound_cache_is_judged_and_has_no_decay(tmp_path):
    code, summary, _ = _soak(tmp_path)
    assert summary["verdict"] != "decay"
    assert summary["hit_trend"].startswith("no decay of hits in")
    assert code in (0, 5)


def test_a_cache_that_loses_slots_decays_and_exits_with_4(tmp_path, monkeypatch):
    on_job = Soak._on_job

    lost = []

    def leak(soak, job):
        on_job(soak, job)
        pool = soak.cache.pools[Tier.DEVICE, Component.FULL]
        if job.number % 4 == 0 and pool.free_slots and len(lost) < 200:
            lost.extend(pool.allocate(1, Owner.REQUEST))

    monkeypatch.setattr(Soak, "_on_job", leak)
    code, summary, folder = _soak(tmp_path)
    assert (code, summary["verdict"]) == (4, "decay"), summary["hit_trend"]
    assert summary["hit_fall"] > 0.1
    html = (folder / summary["run"] / "report.html").read_text()
    assert "<h2>Decay</h2>" in html
    assert "hits fell by" in html


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cache_too_small_for_its_traffic_has_no_decay(tmp_path, seed):
    _, summary, _ = _soak(tmp_path, "--device-pages", "90", "--seed", str(seed))
    assert summary["verdict"] != "decay"
