"""What was published about releases: every row can be repeated, and says with which command."""

import shlex
from pathlib import Path
from typing import Any

import pytest

import bench
from harness.explore.replay import load
from harness.hunt.workers import Search
from harness.targets.choose import version_in
from harness.targets.sglang import publish
from harness.targets.sglang.environment import check_known
from harness.targets.sglang.hold import held_of
from harness.targets.sglang.publish import Finding

ROOT = Path(__file__).resolve().parents[3]
STEPS = 40  # of a story that people can read
LONGER = {"skip-set-stale-after-split-0.5.15": 49}  # the notes say why


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def rows() -> list[Finding]:
    return publish.findings(ROOT / publish.FOLDER)


def parsed(command: str) -> dict[str, Any]:
    """The flags of a hunt, as click reads them."""
    python, script, name, *words = shlex.split(command)
    assert (python, script, name) == ("python", "bench.py", "hunt")
    hunt = bench.cli.commands[name]
    return dict(hunt.make_context(name, words).params)


@pytest.mark.parametrize("finding", rows(), ids=lambda finding: finding.slug)
def test_a_row_names_a_hunt_for_just_its_kind(finding: Finding) -> None:
    replay = load(finding.path)
    assert replay.verdict is not None
    flags = parsed(finding.command)
    if not finding.commit:
        assert flags["target"] == replay.scenario["target"]
        assert flags["until"]
        assert Search(until=flags["until"]).wants(replay.verdict.kind)
    held_of(flags["hold"], check_known(version_in(flags["target"])))
    assert finding.seconds <= flags["budget"]


@pytest.mark.parametrize("finding", rows(), ids=lambda finding: finding.slug)
def test_a_row_has_a_page_with_its_command_and_a_short_story(finding: Finding) -> None:
    text = finding.path.with_suffix(".md").read_text()
    assert f"```sh\n{finding.command}\n```" in text
    assert finding.title in text
    assert finding.path.with_suffix(".py").exists() == publish.has_script(finding)
    assert load(finding.path).steps <= LONGER.get(finding.slug, STEPS)


def test_the_table_is_that_of_the_rows_and_nothing_lies_about() -> None:
    assert publish.TABLE.read_text() == publish.table()
    kept = {finding.slug for finding in rows()}
    assert {path.stem for path in publish.FOLDER.glob("*.json")} == kept
    assert {path.stem for path in publish.FOLDER.glob("*.md")} == kept | {"notes"}
