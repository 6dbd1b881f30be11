"""Thresholds say what is wrong, and a plan that is none is refused."""

import pytest

from harness.smoke.plan import SHIPPED, Check, PlanError, read_plan

SUMMARY = {"done": 30, "server_done": 30, "hits": 40, "possible": 100, "word": "pass"}


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (Check(key="done", equal=30), ""),
        (Check(key="done", equal=31), "not 31"),
        (Check(key="done", equal="server_done"), ""),
        (Check(key="done", equal="hits"), "not hits"),
        (Check(key="done", equal="gone"), "not gone"),
        (Check(key="gone", equal=0), "gone is not there"),
        (Check(key="word", least=0), "word is not there"),
        (Check(key="hits", least=40), ""),
        (Check(key="hits", least=41), "below 41"),
        (Check(key="hits", of="possible", least=0.4), ""),
        (Check(key="hits", of="possible", least=0.5), "hits / possible is 0.4"),
        (Check(key="hits", of="gone", least=0.5), "gone is not there"),
    ],
)
def test_a_check_says_what_is_wrong(check, wrong):
    complaint = check.complaint(SUMMARY)
    assert wrong in complaint
    assert bool(complaint) == bool(wrong)


def test_the_shipped_plan_finds_the_canary_and_both_known_races():
    steps = read_plan(SHIPPED)
    text = " ".join(" ".join(step.command) for step in steps)
    for fault in ("canary", "receiptless-release", "load-back-from-the-wrong-node"):
        assert f"--fault {fault}" in text
    assert any(step.serve is not None for step in steps)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no toml",
        "step = []",
        '[[step]]\nname = "a"\ncommand = "soak"',
        '[[step]]\nname = "a"\ncommand = "soak"\nexit = [0]\nchecks = [{ key = "x" }]',
        '[[step]]\nname = "a"\ncommand = "soak"\nexit = [0]\n' * 2,
    ],
)
def test_what_is_no_plan_is_refused(tmp_path, text):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=r"plan\.toml"):
        read_plan(path)
